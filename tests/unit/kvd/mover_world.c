/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File I/O is carried out in aio_turn(), on the loop, so that a test decides when. GPUs are made
 * up: their memory is the host's, under addresses that nobody can use but by copies, and a copy is
 * done when it was asked for often enough. Each slab has a part's pages; strides differ.
 */
#include "tests/unit/kvd/mover_world.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "tests/test.h"
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORLD_GPU_BIT (1ull << 63) /* no address of the host has it */
#define WORLD_COPIES_MAX 4u
#define WORLD_WAIT_MS 30000

struct world world;

/* --- file I/O -----------------------------------------------------------------------------------
 */

struct aio {
	struct list_link ops;
	uint32_t pending;
};

static struct aio world_aio;
static struct aio *const world_aios[WORLD_FILES] = {&world_aio, &world_aio};

const char *aio_name(const struct aio *aio)
{
	return "fake";
}

void aio_submit(struct aio *aio, struct aio_op *op)
{
	list_push_back(&aio->ops, &op->link);
	aio->pending++;
	world.submitted++;
}

static int world_io(struct aio_op *op)
{
	uint64_t wanted = 0;
	ssize_t n;

	if (world.error_at < ARRAY_LEN(world.errors) && world.errors[world.error_at++])
		return world.errors[world.error_at - 1];
	for (uint32_t i = 0; i < op->vec_count; i++)
		wanted += op->vecs[i].iov_len;
	if (op->write)
		n = pwritev(op->fd, op->vecs, (int)op->vec_count, (off_t)op->offset);
	else
		n = preadv(op->fd, op->vecs, (int)op->vec_count, (off_t)op->offset);
	if (n < 0)
		return -errno;
	world.written += op->write;
	return (uint64_t)n == wanted ? 0 : -ENODATA;
}

uint32_t aio_turn(struct aio *aio, uint64_t now_ns)
{
	uint32_t calls = 0;

	for (; !world.held && !list_empty(&aio->ops); calls++) {
		struct aio_op *op = CONTAINER_OF(aio->ops.next, struct aio_op, link);
		list_remove(&op->link);
		aio->pending--;
		op->done(op, world_io(op));
	}
	return calls;
}

void world_io_late(void)
{
	LIST_FOR_EACH_SAFE (l, tmp, &world_aio.ops) {
		struct aio_op *op = CONTAINER_OF(l, struct aio_op, link);
		assert_true(op->timeout_ns > 0);
		if (op->late)
			op->late(op);
	}
}

/* --- GPUs ---------------------------------------------------------------------------------------
 */

struct world_copy {
	uint64_t dst, src, bytes;
};

struct device {
	struct world_copy copies[WORLD_COPIES_MAX];
	uint64_t started;
	uint64_t finished;
	uint32_t polls;
};

static struct device world_gpus[2];

static void *world_pointer(uint64_t address)
{
	return (void *)(uintptr_t)(address & ~WORLD_GPU_BIT);
}

static int gpu_slab_alloc(struct device *dev, uint64_t bytes, struct device_slab *out)
{
	int r = device_host()->slab_alloc(NULL, bytes, out);

	out->address |= WORLD_GPU_BIT;
	return r;
}

static void gpu_slab_free(struct device *dev, struct device_slab *slab)
{
	slab->address &= ~WORLD_GPU_BIT;
	device_host()->slab_free(NULL, slab);
}

static const char *gpu_failure(const struct device *dev)
{
	return "";
}

static int gpu_pin(struct device *dev, void *memory, size_t bytes)
{
	return dev == &world_gpus[0] ? 0 : -EEXIST;
}

static void gpu_close(struct device *dev)
{
}

/* One end is the GPU's and the other is not: nobody else may use its addresses. */
static int gpu_copy_start(struct device *dev, uint64_t dst, uint64_t src, uint64_t bytes,
			  uint64_t *out_ticket)
{
	if (world.poll_error)
		return world.poll_error;
	if (atomic_load_acquire(&world.hang))
		sem_post(&world.hung);
	while (atomic_load_acquire(&world.hang)) /* Partner: the test, which ends it. */
		usleep(1000);
	if (dev->started - dev->finished == WORLD_COPIES_MAX)
		return -EAGAIN;
	/* Partner: the other GPU's lane, which counts too. */
	uint32_t at = atomic_add_relaxed(&world.copy_at, 1);
	if (at < ARRAY_LEN(world.copy_errors) && world.copy_errors[at])
		return world.copy_errors[at];
	if (!((dst ^ src) & WORLD_GPU_BIT))
		return -EINVAL;
	dev->copies[dev->started % WORLD_COPIES_MAX] = (struct world_copy){dst, src, bytes};
	*out_ticket = ++dev->started;
	return 0;
}

static int gpu_copy_poll(struct device *dev, uint64_t ticket)
{
	if (world.poll_error)
		return world.poll_error;
	while (dev->finished < ticket) {
		/* Partner: a test, which may change it. */
		if (dev->polls++ < atomic_load_relaxed(&world.copy_polls))
			return 0;
		struct world_copy *c = &dev->copies[dev->finished % WORLD_COPIES_MAX];
		memcpy(world_pointer(c->dst), world_pointer(c->src), c->bytes);
		dev->finished++;
		dev->polls = 0;
	}
	return 1;
}

static const struct device_ops world_gpu_ops = {
	.name = "fake",
	.kind = KVD_SLAB_CUDA_IPC,
	.close = gpu_close,
	.failure = gpu_failure,
	.slab_alloc = gpu_slab_alloc,
	.slab_free = gpu_slab_free,
	.copy_start = gpu_copy_start,
	.copy_poll = gpu_copy_poll,
	.pin = gpu_pin,
};

/* devmem was made for the host; what it had there is nothing yet. */
static void world_become_gpus(uint32_t count)
{
	world.devmem.ops = &world_gpu_ops;
	world.devmem.device_count = count;
	for (uint32_t i = 0; i < count; i++) {
		memset(&world_gpus[i], 0, sizeof(world_gpus[i]));
		world.devmem.devices[i] = (struct devmem_device){
			.owner = &world.devmem, .dev = &world_gpus[i], .ordinal = i};
		world.devmem.devices[i].lane = work_lane_new(&world.work);
		assert_true(world.devmem.devices[i].lane >= 0);
	}
}

/* --- what the core hears ------------------------------------------------------------------------
 */

static void world_done(void *ctx, uint32_t id, int result)
{
	assert_ptr_equal(ctx, &world);
	world.results[id] = result;
	world.done[id]++;
	if (world.on_done)
		world.on_done(id, result);
}

static void world_late(void *ctx, uint32_t id)
{
	world.late[id]++;
}

static void world_area_down(void *ctx, enum core_tier_kind tier, uint32_t area, bool down)
{
	assert_int_equal(tier, CORE_TIER_FILE);
	world.down[area] = down;
	world.downs++;
}

static const struct mover_events world_events = {
	.done = world_done, .late = world_late, .area_down = world_area_down};

/* --- start and end ------------------------------------------------------------------------------
 */

void world_work(int wait_ms)
{
	struct pollfd p = {.fd = world.work.fd, .events = POLLIN};
	struct devmem_result r;
	struct work_job *job;

	(void)poll(&p, 1, wait_ms);
	while ((job = work_take(&world.work))) {
		if (job->done)
			job->done(job);
		else
			assert_true(devmem_done(&world.devmem, job, &r) && r.result == 0);
	}
}

static uint64_t world_stride(uint32_t part)
{
	return (part + 1) * 4 * UNITS_KIB;
}

uint32_t world_page(uint32_t part, uint32_t block)
{
	/* Not in the order in which they were made. */
	return (WORLD_PARTS - 1 - part) * 100 + block;
}

static void world_make_slabs(void)
{
	for (uint32_t i = 0; i < WORLD_PARTS; i++) {
		struct core_order make = {.kind = CORE_ORDER_SLAB_MAKE,
					  .slab = i,
					  .device = i % world.devmem.device_count,
					  .first_page = world_page(i, 0),
					  .page_count = WORLD_PAGES,
					  .stride_bytes = world_stride(i),
					  .slab_bytes = 2 * UNITS_MIB};
		devmem_order(&world.devmem, &make);
	}
	while (world.devmem.map.count < WORLD_PARTS)
		world_work(WORLD_WAIT_MS);
}

static void world_make_files(void)
{
	for (uint32_t i = 0; i < WORLD_FILES; i++) {
		struct file *f = &world.files[i];
		*f = (struct file){.fd = memfd_create("test", MFD_CLOEXEC), .data_offset = 8192};
		assert_true(f->fd >= 0);
		snprintf(f->path, sizeof(f->path), "file-%u", i);
		assert_int_equal(
			ftruncate(f->fd, (off_t)(f->data_offset + WORLD_SLOTS * WORLD_SLOT_BYTES)),
			0);
	}
}

void world_begin(const struct world_args *args)
{
	char error[256] = "";

	log_level_max = LOG_ERROR;
	memset(&world, 0, sizeof(world));
	world.kind = args->kind;
	assert_int_equal(sem_init(&world.hung, 0, 0), 0);
	list_init(&world_aio.ops);
	assert_int_equal(work_init(&world.work, 2), 0);
	assert_int_equal(devmem_init(&world.devmem, "host", "", UNITS_NS_PER_S, &world.work, error,
				     sizeof(error)),
			 0);
	if (args->kind != WORLD_HOST)
		world_become_gpus(args->kind == WORLD_GPUS ? 2 : 1);
	world_make_files();
	world.dram = aligned_alloc(4096, WORLD_DRAM_BYTES);
	memset(world.dram, 0, WORLD_DRAM_BYTES);
	struct mover_config config = {.devmem = &world.devmem,
				      .work = &world.work,
				      .aios = world_aios,
				      .files = world.files,
				      .file_count = WORLD_FILES,
				      .dram = world.dram,
				      .dram_bytes = WORLD_DRAM_BYTES,
				      .file_timeout_ns = 3600 * UNITS_NS_PER_S,
				      .device_timeout_ns = 3600 * UNITS_NS_PER_S,
				      .file_retry_ns = 1000 * UNITS_NS_PER_S,
				      .throttle_bytes_per_s = args->throttle_bytes_per_s,
				      .stage_bytes = args->stage_bytes,
				      .events = &world_events,
				      .ctx = &world};
	assert_int_equal(mover_new(&world.mover, &config, error, sizeof(error)), 0);
	world_make_slabs();
}

void world_end(void)
{
	work_stop_threads(&world.work);
	devmem_stop(&world.devmem);
	assert_int_equal(work_stop(&world.work), 0);
	while (work_take(&world.work))
		continue;
	mover_free(world.mover);
	devmem_fini(&world.devmem);
	work_fini(&world.work);
	for (uint32_t i = 0; i < WORLD_FILES; i++)
		close(world.files[i].fd);
	free(world.dram);
}

/* --- blocks -------------------------------------------------------------------------------------
 */

static uint8_t *world_bytes(uint32_t part, uint32_t block)
{
	uint32_t device;
	uint64_t address;

	devmem_page(&world.devmem, world_page(part, block), &device, &address);
	devmem_page_end(&world.devmem, world_page(part, block));
	assert_int_equal(device, part % world.devmem.device_count);
	return world_pointer(address);
}

void world_fill(uint32_t block, uint32_t seed)
{
	for (uint32_t part = 0; part < WORLD_PARTS; part++) {
		uint64_t state = seed * 16ull + part;
		uint8_t *at = world_bytes(part, block);
		for (uint64_t i = 0; i < world_stride(part); i++)
			at[i] = (uint8_t)test_random(&state);
	}
}

bool world_holds(uint32_t block, uint32_t seed)
{
	for (uint32_t part = 0; part < WORLD_PARTS; part++) {
		uint64_t state = seed * 16ull + part;
		const uint8_t *at = world_bytes(part, block);
		for (uint64_t i = 0; i < world_stride(part); i++)
			if (at[i] != (uint8_t)test_random(&state))
				return false;
	}
	return true;
}

struct core_slot world_slot(enum core_tier_kind tier, uint32_t area, uint32_t number)
{
	return (struct core_slot){.tier = tier,
				  .area = area,
				  .offset_bytes = (uint64_t)number * WORLD_SLOT_BYTES,
				  .bytes = WORLD_SLOT_BYTES,
				  .generation = 1000 + number};
}

/* A block is what its slot says: the key follows from the slot's number. */
struct core_transfer world_transfer(enum core_transfer_kind kind, uint32_t id, uint32_t block,
				    struct core_slot slot)
{
	struct core_transfer t = {.kind = kind,
				  .id = id,
				  .slot = slot,
				  .key = "a key",
				  .identity = "an identity",
				  .part_count = WORLD_PARTS};

	for (uint32_t i = 0; i < WORLD_PARTS; i++) {
		t.pages[i] = world_page(i, block);
		t.part_bytes[i] = world_stride(i);
	}
	return t;
}

/* --- turns --------------------------------------------------------------------------------------
 */

void world_turn(uint64_t now_ns)
{
	for (int quiet = 0; quiet < 3; quiet++) {
		world_work(10);
		if (aio_turn(&world_aio, now_ns) + mover_turn(world.mover, now_ns) > 0)
			quiet = 0;
	}
}

void world_run(void)
{
	uint64_t end_ns = units_now_ns() + WORLD_WAIT_MS * UNITS_NS_PER_MS;

	while (mover_pending(world.mover)) {
		assert_true(units_now_ns() < end_ns);
		uint32_t calls = aio_turn(&world_aio, units_now_ns());
		calls += mover_turn(world.mover, units_now_ns());
		world_work(calls ? 0 : 10);
	}
}

int world_move(struct core_transfer t)
{
	uint32_t before = world.done[t.id];

	mover_start(world.mover, &t);
	world_run();
	assert_int_equal(world.done[t.id], before + 1);
	return world.results[t.id];
}
