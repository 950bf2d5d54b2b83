/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory, shared between processes by the module that kvd and engines open, over the simulated
 * driver with its rules. The kind comes as the program's argument.
 */
#include "base/bits.h"
#include "base/units.h"
#include "tests/cudasim/tests/mem_peer.h"
#include "tests/cudasim/tests/own_machine.h"
#include "tests/test.h"
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define SLAB_BYTES (4 * UNITS_MIB)
#define PATTERN 0x1122334455667788ull

static const char *kind;
static bool is_ipc;
static struct mem_peer owner, reader;

static struct mem_answer alloc(struct mem_peer *p, uint64_t bytes)
{
	return mem_peer_must(p, &(struct mem_ask){.op = MEM_ALLOC, .bytes = bytes}, -1);
}

static struct mem_answer try_import(struct mem_peer *p, const struct mem_answer *slab)
{
	return mem_peer_ask(p, &(struct mem_ask){.op = MEM_IMPORT, .wire = slab->wire}, slab->fd);
}

static uint32_t import(struct mem_peer *p, const struct mem_answer *slab)
{
	struct mem_answer a = try_import(p, slab);

	if (a.r < 0)
		fail_msg("import: %d: %s", a.r, a.words);
	return a.slot;
}

static void put(struct mem_peer *p, uint32_t slot, uint64_t offset, uint64_t value)
{
	mem_peer_must(
		p, &(struct mem_ask){.op = MEM_PUT, .slot = slot, .offset = offset, .value = value},
		-1);
}

static uint64_t get(struct mem_peer *p, uint32_t slot, uint64_t offset)
{
	return mem_peer_must(p, &(struct mem_ask){.op = MEM_GET, .slot = slot, .offset = offset},
			     -1)
		.value;
}

static void with_slot(struct mem_peer *p, enum mem_op op, uint32_t slot)
{
	mem_peer_must(p, &(struct mem_ask){.op = op, .slot = slot}, -1);
}

/* Nobody maps it any more: if somebody did, the simulator would break the device for it. */
static void free_slab(struct mem_peer *p, const struct mem_answer *slab)
{
	mem_peer_must(p, &(struct mem_ask){.op = MEM_FREE, .slot = slab->slot}, -1);
	struct mem_answer next = alloc(p, SLAB_BYTES);
	if (next.fd >= 0)
		close(next.fd);
}

static void drop_fd(struct mem_answer *slab)
{
	if (slab->fd >= 0)
		close(slab->fd);
	slab->fd = -1;
}

static void start_two(void)
{
	owner = mem_peer_open(kind, NULL);
	reader = mem_peer_open(kind, NULL);
}

static void end_two(void)
{
	assert_int_equal(mem_peer_end(&reader), 0);
	assert_int_equal(mem_peer_end(&owner), 0);
}

static void test_both_sides_see_the_same_bytes(void **state)
{
	start_two();
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	assert_true(slab.wire.slab_bytes >= SLAB_BYTES);
	assert_int_equal(slab.fd >= 0, !is_ipc);
	put(&owner, slab.slot, 4096, PATTERN);
	uint32_t slot = import(&reader, &slab);
	drop_fd(&slab);
	assert_int_equal(get(&reader, slot, 4096), PATTERN);
	put(&reader, slot, SLAB_BYTES - 8, ~PATTERN);
	assert_int_equal(get(&owner, slab.slot, SLAB_BYTES - 8), ~PATTERN);
	with_slot(&reader, MEM_UNMAP, slot);
	free_slab(&owner, &slab);
	end_two();
}

/* Only descriptors give a view that cannot be written: who writes through it is broken by it. */
static void test_views(void **state)
{
	start_two();
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	struct mem_answer in = try_import(&reader, &slab);
	struct mem_ask by_read = {.op = MEM_PUT, .slot = in.slot, .flag = 1, .value = PATTERN};
	assert_int_equal(in.r, 0);
	assert_int_equal(in.view.read == in.view.write, is_ipc);
	put(&owner, slab.slot, 0, 1);
	struct mem_answer a = mem_peer_ask(&reader, &by_read, -1);
	assert_int_equal(a.r < 0, !is_ipc);
	if (!is_ipc)
		assert_non_null(strstr(a.words, "illegal"));
	assert_int_equal(get(&owner, slab.slot, 0), is_ipc ? PATTERN : 1);
	drop_fd(&slab);
	mem_peer_kill(&reader);
	assert_int_equal(mem_peer_end(&owner), 0);
}

/* Mapped twice is mapped until it was unmapped twice. */
static void test_imports_are_counted(void **state)
{
	start_two();
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	struct mem_answer one = try_import(&reader, &slab);
	struct mem_answer two = try_import(&reader, &slab);
	assert_int_equal(one.r, 0);
	assert_int_equal(two.r, 0);
	assert_int_equal(one.view.write == two.view.write, is_ipc);
	put(&owner, slab.slot, 0, PATTERN);
	with_slot(&reader, MEM_UNMAP, one.slot);
	assert_int_equal(get(&reader, two.slot, 0), PATTERN);
	with_slot(&reader, MEM_UNMAP, two.slot);
	/* And again, from nothing. */
	uint32_t slot = import(&reader, &slab);
	assert_int_equal(get(&reader, slot, 0), PATTERN);
	with_slot(&reader, MEM_UNMAP, slot);
	free_slab(&owner, &slab);
	drop_fd(&slab);
	end_two();
}

static void test_not_in_the_exporting_process(void **state)
{
	owner = mem_peer_open(kind, NULL);
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	struct mem_answer a = try_import(&owner, &slab);
	assert_int_equal(a.r, is_ipc ? -EPERM : 0);
	if (is_ipc)
		assert_non_null(strstr(a.words, "it is kvd's own process"));
	drop_fd(&slab);
	assert_int_equal(mem_peer_end(&owner), 0);
}

/* Two containers, one number: one process to the driver. */
static void test_equal_numbers_of_two_processes(void **state)
{
	owner = mem_peer_open(kind, (const char *[]){"CUDASIM_PID=17", NULL});
	reader = mem_peer_open(kind, (const char *[]){"CUDASIM_PID=17", NULL});
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	struct mem_answer a = try_import(&reader, &slab);
	assert_int_equal(a.r, is_ipc ? -EPERM : 0);
	if (is_ipc)
		assert_non_null(strstr(a.words, "both have that number"));
	drop_fd(&slab);
	end_two();
}

static void test_other_gpu(void **state)
{
	owner = mem_peer_open(kind, (const char *[]){"CUDA_VISIBLE_DEVICES=0", NULL});
	reader = mem_peer_open(kind, (const char *[]){"CUDA_VISIBLE_DEVICES=1", NULL});
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	struct mem_answer a = try_import(&reader, &slab);
	assert_int_equal(a.r, -EXDEV);
	assert_non_null(strstr(a.words, "CUDA_VISIBLE_DEVICES"));
	drop_fd(&slab);
	end_two();
}

/* The same GPU under another number is the same GPU. */
static void test_other_number(void **state)
{
	owner = mem_peer_open(kind, (const char *[]){"CUDA_VISIBLE_DEVICES=1", NULL});
	reader = mem_peer_start(kind, (const char *[]){"CUDA_VISIBLE_DEVICES=0,1", NULL});
	mem_peer_must(&reader, &(struct mem_ask){.op = MEM_OPEN, .index = 1}, -1);
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	put(&owner, slab.slot, 0, PATTERN);
	uint32_t slot = import(&reader, &slab);
	assert_int_equal(get(&reader, slot, 0), PATTERN);
	drop_fd(&slab);
	with_slot(&reader, MEM_UNMAP, slot);
	end_two();
}

/* Maps live on. A descriptor can be mapped after its maker's death, a handle cannot. */
static void test_owner_dies(void **state)
{
	start_two();
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	put(&owner, slab.slot, 8, PATTERN);
	uint32_t slot = import(&reader, &slab);
	mem_peer_kill(&owner);
	assert_int_equal(get(&reader, slot, 8), PATTERN);
	put(&reader, slot, 16, 3);
	with_slot(&reader, MEM_UNMAP, slot);
	struct mem_answer again = try_import(&reader, &slab);
	assert_int_equal(again.r, is_ipc ? -ESTALE : 0);
	if (is_ipc)
		assert_non_null(strstr(again.words, "kvd has ended"));
	else
		assert_int_equal(get(&reader, again.slot, 16), 3);
	drop_fd(&slab);
	assert_int_equal(mem_peer_end(&reader), 0);
}

static void test_memory_that_does_not_fit(void **state)
{
	owner = mem_peer_open(
		kind, (const char *[]){"CUDASIM_MEMORY_BYTES=64M", "CUDASIM_MACHINE=small", NULL});
	alloc(&owner, 40 * UNITS_MIB);
	struct mem_answer a = mem_peer_ask(
		&owner, &(struct mem_ask){.op = MEM_ALLOC, .bytes = 32 * UNITS_MIB}, -1);
	assert_int_equal(a.r, -ENOMEM);
	print_message("%s\n", a.words);
	assert_non_null(strstr(a.words, "32.00 MiB asked"));
	assert_non_null(strstr(a.words, "24.00 MiB free"));
	assert_non_null(strstr(a.words, "the largest that fits is 24.00 MiB"));
	/* Looking for what fits has left nothing behind. */
	alloc(&owner, 24 * UNITS_MIB);
	assert_int_equal(mem_peer_end(&owner), 0);
}

static void test_sizes_that_are_none(void **state)
{
	static const uint64_t bad[] = {0, UNITS_MIB};

	owner = mem_peer_open(kind, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct mem_answer a = mem_peer_ask(
			&owner, &(struct mem_ask){.op = MEM_ALLOC, .bytes = bad[i]}, -1);
		assert_int_equal(a.r < 0, is_ipc || bad[i] == 0);
		/* Descriptors have whole granules, whatever was asked. */
		if (a.r == 0)
			assert_int_equal(a.wire.slab_bytes, 2 * UNITS_MIB);
		drop_fd(&a);
	}
	assert_int_equal(mem_peer_end(&owner), 0);
}

static struct mem_answer describe(const char *setting, uint32_t index)
{
	struct mem_peer p = mem_peer_start(kind, (const char *[]){setting, NULL});
	struct mem_answer a =
		mem_peer_ask(&p, &(struct mem_ask){.op = MEM_DESCRIBE, .index = index}, -1);

	assert_int_equal(mem_peer_end(&p), 0);
	return a;
}

static void test_devices_that_cannot(void **state)
{
	struct mem_answer a = describe("CUDASIM_MIG=1", 0);
	assert_int_equal(a.r, is_ipc ? -ENOTSUP : 0);
	if (is_ipc)
		assert_non_null(strstr(a.words, "MIG"));
	a = describe("CUDASIM_IPC=0", 0);
	assert_int_equal(a.r, is_ipc ? -ENOTSUP : 0);
	if (is_ipc)
		assert_non_null(strstr(a.words, "it has no CUDA IPC: use cuda-vmm"));
	a = describe("CUDASIM_VMM=0", 0);
	assert_int_equal(a.r, is_ipc ? 0 : -ENOTSUP);
	if (!is_ipc)
		assert_non_null(strstr(a.words, "file descriptor"));
	a = describe("CUDASIM_DEVICES=0", 0);
	assert_int_equal(a.r, -ENODEV);
	assert_non_null(strstr(a.words, "driver"));
	a = describe("CUDA_VISIBLE_DEVICES=", 0);
	assert_int_equal(a.r, -ENODEV);
	assert_non_null(strstr(a.words, "CUDA_VISIBLE_DEVICES is set"));
	a = describe("CUDASIM_DEVICES=2", 2);
	assert_int_equal(a.r, -ENODEV);
	assert_non_null(strstr(a.words, "there is no GPU 2"));
	a = describe("CUDASIM_DEVICES=2", 1);
	assert_int_equal(a.r, 0);
	assert_true(a.info.bytes > 0 && a.info.name[0]);
}

static void test_old_driver(void **state)
{
	struct mem_peer p = mem_peer_start(kind, (const char *[]){"CUDASIM_DRIVER=10010", NULL});
	struct mem_answer a = mem_peer_ask(&p, &(struct mem_ask){.op = MEM_OPEN}, -1);

	assert_true(a.r < 0);
	print_message("%s\n", a.words);
	assert_non_null(strstr(a.words, "too old"));
	assert_int_equal(mem_peer_end(&p), 0);
}

static void test_fill(void **state)
{
	owner = mem_peer_open(kind, NULL);
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	struct mem_ask fill = {.op = MEM_FILL, .offset = 4096, .bytes = 4096, .value = 0xff};
	put(&owner, slab.slot, 4088, PATTERN);
	put(&owner, slab.slot, 4096, PATTERN);
	put(&owner, slab.slot, 8192, PATTERN);
	mem_peer_must(&owner, &fill, -1);
	assert_int_equal(get(&owner, slab.slot, 4088), PATTERN);
	assert_int_equal(get(&owner, slab.slot, 4096), UINT64_MAX);
	assert_int_equal(get(&owner, slab.slot, 8184), UINT64_MAX);
	assert_int_equal(get(&owner, slab.slot, 8192), PATTERN);
	drop_fd(&slab);
	assert_int_equal(mem_peer_end(&owner), 0);
}

/* Tickets end in order, and no more are given than can be followed. */
static void test_copies_that_take_their_time(void **state)
{
	owner = mem_peer_open(kind, (const char *[]){"CUDASIM_DELAY=memcpy:0=3", NULL});
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	struct mem_answer q =
		mem_peer_ask(&owner, &(struct mem_ask){.op = MEM_QUEUE, .value = 1000}, -1);
	assert_true(q.r == -EAGAIN || q.r == 0);
	assert_true(q.value > 0);
	struct mem_ask poll = {.op = MEM_POLL, .value = q.value};
	int tries = 0;
	while (mem_peer_must(&owner, &poll, -1).r == 0)
		assert_true(++tries < 100000);
	for (poll.value = 1; poll.value <= q.value; poll.value++)
		assert_int_equal(mem_peer_must(&owner, &poll, -1).r, 1);
	drop_fd(&slab);
	assert_int_equal(mem_peer_end(&owner), 0);
}

/* Pinned in pieces of two OS pages; copies cross the seams. */
static void test_pinned_in_pieces(void **state)
{
	struct mem_ask pin = {.op = MEM_PIN, .offset = 8192, .bytes = 65536};

	owner = mem_peer_open(kind, (const char *[]){"KVD_PIN_PIECE_BYTES=8192", NULL});
	struct mem_answer slab = alloc(&owner, SLAB_BYTES);
	mem_peer_must(&owner, &pin, -1);
	assert_int_equal(mem_peer_ask(&owner, &pin, -1).r, -EEXIST);
	pin.offset = 100;
	assert_int_equal(mem_peer_ask(&owner, &pin, -1).r, -EINVAL);
	pin.offset = 8192;
	struct mem_ask fill = {.op = MEM_FILL, .bytes = 40000, .value = 1};
	mem_peer_must(&owner, &fill, -1);
	struct mem_ask copy = {.op = MEM_PINNED, .bytes = 40000};
	assert_int_equal(mem_peer_must(&owner, &copy, -1).value, 40000);
	/* Given back whole: it can be pinned anew, and is after that still whole. */
	pin.flag = 1;
	mem_peer_must(&owner, &pin, -1);
	pin.flag = 0;
	mem_peer_must(&owner, &pin, -1);
	assert_int_equal(mem_peer_must(&owner, &copy, -1).value, 40000);
	drop_fd(&slab);
	mem_peer_must(&owner, &(struct mem_ask){.op = MEM_CLOSE}, -1);
	assert_int_equal(mem_peer_end(&owner), 0);
}

/* Without NVML nobody can tell; with it the list decides. */
static void test_who_still_has_work(void **state)
{
	static const struct mem_ask gone = {.op = MEM_GONE, .value = 4711};
	char path[] = "/tmp/kvd-nvml-XXXXXX", library[256], list[64];

	owner = mem_peer_open(kind, NULL);
	assert_int_equal(mem_peer_ask(&owner, &gone, -1).r, -ENOTSUP);
	assert_int_equal(mem_peer_end(&owner), 0);

	int fd = mkstemp(path);
	snprintf(library, sizeof(library), "LD_LIBRARY_PATH=%s", getenv("FAKE_NVML_DIR"));
	snprintf(list, sizeof(list), "FAKE_NVML_PIDS=%s", path);
	owner = mem_peer_open(kind, (const char *[]){library, list, NULL});
	assert_int_equal(mem_peer_ask(&owner, &gone, -1).r, 1);
	dprintf(fd, "12\n4711\n");
	assert_int_equal(mem_peer_ask(&owner, &gone, -1).r, 0);
	unlink(path);
	assert_int_equal(mem_peer_ask(&owner, &gone, -1).r, -ENOTSUP);
	close(fd);
	assert_int_equal(mem_peer_end(&owner), 0);
}

/* What fails half way leaves nothing: memory is there for the next. */
static void test_failures_half_way(void **state)
{
	static const char *const faults[] = {
		"CUDASIM_FAIL=ipcget:1=801",	"CUDASIM_FAIL=vmmexport:1=801",
		"CUDASIM_FAIL=vmmreserve:1=2",	"CUDASIM_FAIL=vmmmap:1=1",
		"CUDASIM_FAIL=vmmaccess:1=801",
	};

	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		if ((strncmp(faults[i], "CUDASIM_FAIL=ipc", 16) == 0) != is_ipc)
			continue;
		owner = mem_peer_open(kind, (const char *[]){faults[i], "CUDASIM_MACHINE=half",
							     "CUDASIM_MEMORY_BYTES=64M", NULL});
		struct mem_answer a = mem_peer_ask(
			&owner, &(struct mem_ask){.op = MEM_ALLOC, .bytes = 40 * UNITS_MIB}, -1);
		assert_true(a.r < 0 && a.words[0]);
		struct mem_answer slab = alloc(&owner, 40 * UNITS_MIB);
		drop_fd(&slab);
		assert_int_equal(mem_peer_end(&owner), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_sides_see_the_same_bytes),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_imports_are_counted),
		cmocka_unit_test(test_not_in_the_exporting_process),
		cmocka_unit_test(test_equal_numbers_of_two_processes),
		cmocka_unit_test(test_other_gpu),
		cmocka_unit_test(test_other_number),
		cmocka_unit_test(test_owner_dies),
		cmocka_unit_test(test_memory_that_does_not_fit),
		cmocka_unit_test(test_sizes_that_are_none),
		cmocka_unit_test(test_devices_that_cannot),
		cmocka_unit_test(test_old_driver),
		cmocka_unit_test(test_fill),
		cmocka_unit_test(test_copies_that_take_their_time),
		cmocka_unit_test(test_pinned_in_pieces),
		cmocka_unit_test(test_who_still_has_work),
		cmocka_unit_test(test_failures_half_way),
	};
	if (argc == 2 && strcmp(argv[1], "peer") == 0)
		return mem_peer_main();
	if (argc != 2) {
		fprintf(stderr, "usage: %s cuda-ipc|cuda-vmm\n", argv[0]);
		return 2;
	}
	kind = argv[1];
	is_ipc = strcmp(kind, "cuda-ipc") == 0;
	own_machine_begin();
	int r = cmocka_run_group_tests_name(kind, tests, NULL, NULL);
	own_machine_end();
	return r;
}
