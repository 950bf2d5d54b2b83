/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of one process: alignment, poison, limits, directions, pinned and pageable ends. */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1ull << 20)

static void role_poison(void)
{
	uint8_t *a, *b, *c;
	uint32_t words[4];

	OK(cudaMalloc((void **)&a, 100));
	OK(cudaMalloc((void **)&b, 100));
	OK(cudaMalloc((void **)&c, 3 * MIB + 1));
	IS((uintptr_t)a % 256, 0);
	IS((uintptr_t)b % 256, 0);
	/* Small ones are neighbours in one segment, large ones have their own. */
	CHECK(b - a == 256 || a - b == 256);
	IS((uintptr_t)c % (2 * MIB), 0);
	child_read(words, a, sizeof(words));
	IS(words[3], UINT32_MAX);
	IS(child_byte(c + 3 * MIB), 0xff);
	/* What was freed is poisoned before it is given again. */
	OK(cudaMemset(a, 7, 100));
	IS(child_byte(a), 7);
	OK(cudaFree(a));
	uint8_t *again;
	OK(cudaMalloc((void **)&again, 100));
	CHECK(again == a);
	IS(child_byte(again), 0xff);
	OK(cudaFree(again));
	OK(cudaFree(b));
	OK(cudaFree(c));
	OK(cudaFree(NULL));
	IS(cudaFree(c), cudaErrorInvalidValue);
	OK(cudaMalloc((void **)&c, 100));
	IS(cudaFree(c + 1), cudaErrorInvalidValue);
	(void)cudaGetLastError();
	IS(cudaFree(c + 1), cudaErrorInvalidValue);
	IS(cudaGetLastError(), cudaErrorInvalidValue);
	IS(cudaGetLastError(), cudaSuccess);
}

static void role_full(void)
{
	size_t free_bytes, total;
	void *a, *b;

	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(total, 16 * MIB);
	IS(free_bytes, 16 * MIB);
	OK(cudaMalloc(&a, 10 * MIB + 1));
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 4 * MIB);
	IS(cudaMalloc(&b, 4 * MIB + 1), cudaErrorMemoryAllocation);
	IS(cudaMalloc(&b, 1ull << 60), cudaErrorMemoryAllocation);
	/* Not sticky. */
	OK(cudaMalloc(&b, 4 * MIB));
	OK(cudaFree(a));
	OK(cudaFree(b));
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 16 * MIB);
}

static void role_directions(void)
{
	static uint8_t host[512];
	uint8_t *d, *e;

	OK(cudaMalloc((void **)&d, 512));
	OK(cudaMalloc((void **)&e, 512));
	IS(cudaMemcpy(d, host, 512, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
	IS(cudaMemcpy(host, d, 512, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	IS(cudaMemcpy(host, d, 512, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
	IS(cudaMemcpy(host, d, 512, cudaMemcpyHostToHost), cudaErrorInvalidValue);
	IS(cudaMemcpy(d, host, 513, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	IS(cudaMemcpy(d + 1, host, 512, cudaMemcpyDefault), cudaErrorInvalidValue);
	IS(cudaMemcpy(NULL, host, 512, cudaMemcpyDefault), cudaErrorInvalidValue);
	IS(cudaMemset(host, 0, 512), cudaErrorInvalidValue);
	IS(cudaMemset(d, 0, 513), cudaErrorInvalidValue);
	host[17] = 99;
	OK(cudaMemcpy(d, host, 512, cudaMemcpyDefault));
	OK(cudaMemcpy(e, d, 512, cudaMemcpyDefault));
	IS(child_byte(e + 17), 99);
	/* An address that nobody can read, and one whose memory is gone. */
	IS(cudaMemcpy(d, (void *)8, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	OK(cudaFree(d));
	OK(cudaFree(e));
	IS(cudaMemcpy(host, d, 1, cudaMemcpyDefault), cudaErrorInvalidValue);
	OK(cudaDeviceSynchronize());
}

/* Host code that touches device memory dies, where the CPU has protection keys. */
static void role_touch(void)
{
	volatile uint8_t *d;

	OK(cudaMalloc((void **)&d, 512));
	sim_memory_open();
	sim_memory_open();
	sim_memory_close();
	d[0] = 1;
	sim_memory_close();
	d[0] = 2;
}

static void role_touch_syscall(void)
{
	uint8_t *d;
	int pipes[2];

	OK(cudaMalloc((void **)&d, 512));
	CHECK(pipe(pipes) == 0);
	CHECK(write(pipes[1], d, 1) < 0);
	(void)sim_count("misuse");
}

static void role_stale(void)
{
	volatile uint8_t *d;

	OK(cudaMalloc((void **)&d, 2 * MIB));
	OK(cudaFree((void *)d));
	/* Its address is nobody's soon after, so that a stale pointer meets nothing. */
	for (int i = 0; i < 8; i++) {
		uint8_t *p = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(p != MAP_FAILED && (d < p || d >= p + 2 * MIB));
	}
	sim_memory_open();
	d[0] = 1;
}

static void role_pinned(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p =
		mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct cudaPointerAttributes at;
	uint8_t *d, *device;

	OK(cudaMalloc((void **)&d, 8 * page));
	OK(cudaHostRegister(p, 4 * page, cudaHostRegisterPortable));
	IS(cudaHostRegister(p + page, page, 0), cudaErrorHostMemoryAlreadyRegistered);
	OK(cudaHostRegister(p + 4 * page, 4 * page, 0));
	IS(cudaHostRegister(d, page, 0), cudaErrorInvalidValue);
	IS(cudaHostRegister((void *)page, page, 0), cudaErrorInvalidValue);
	OK(cudaHostGetDevicePointer((void **)&device, p + 5, 0));
	CHECK(device == p + 5);
	/* No copy crosses from one registration into the next. */
	IS(cudaMemcpyAsync(d, p + 2 * page, 4 * page, cudaMemcpyDefault, 0), cudaErrorInvalidValue);
	OK(cudaPointerGetAttributes(&at, p));
	IS(at.type, cudaMemoryTypeHost);
	OK(cudaPointerGetAttributes(&at, d + 3));
	IS(at.type, cudaMemoryTypeDevice);
	CHECK(at.devicePointer == d + 3);
	OK(cudaPointerGetAttributes(&at, &at));
	IS(at.type, cudaMemoryTypeUnregistered);
	CHECK(sim_is_pinned(p + page, 3 * page) && !sim_is_pinned(p + page, 4 * page));
	OK(cudaHostUnregister(p));
	IS(cudaHostUnregister(p), cudaErrorHostMemoryNotRegistered);
	IS(cudaHostGetDevicePointer((void **)&device, p, 0), cudaErrorInvalidValue);
	OK(cudaHostUnregister(p + 4 * page));
}

/* A pinned source is read when the stream gets there, a pageable one before the call returns. */
static void role_staging(void)
{
	static uint8_t host[64];
	uint8_t pageable[64] = {1}, back[64] = {0}, *pinned, *d, *e;

	OK(cudaHostRegister(host, sizeof(host), 0));
	OK(cudaMallocHost((void **)&pinned, 64));
	OK(cudaMalloc((void **)&d, 64));
	OK(cudaMalloc((void **)&e, 64));
	pinned[0] = 1;
	OK(cudaMemcpyAsync(d, pinned, 64, cudaMemcpyHostToDevice, 0));
	OK(cudaMemcpyAsync(e, pageable, 64, cudaMemcpyHostToDevice, 0));
	pinned[0] = 2;
	pageable[0] = 2;
	IS(sim_count("work.memcpy"), 0);
	OK(cudaStreamSynchronize(0));
	IS(sim_count("work.memcpy"), 2);
	IS(child_byte(d), 2);
	IS(child_byte(e), 1);
	/* A free, and an end of pinning, wait for what was queued. */
	OK(cudaMemcpyAsync(pinned, d, 64, cudaMemcpyDeviceToHost, 0));
	pinned[0] = 3;
	OK(cudaFree(e));
	IS(pinned[0], 2);
	OK(cudaMalloc((void **)&e, 64));
	OK(cudaMemset(e, 1, 64));
	OK(cudaMemcpyAsync(host, e, 64, cudaMemcpyDeviceToHost, 0));
	OK(cudaHostUnregister(host));
	IS(host[63], 1);
	/* To pageable memory the call waits; to pinned memory it does not. */
	OK(cudaMemcpyAsync(back, d, 64, cudaMemcpyDeviceToHost, 0));
	IS(back[0], 2);
	pinned[0] = 9;
	OK(cudaMemcpyAsync(pinned, e, 64, cudaMemcpyDeviceToHost, 0));
	IS(pinned[0], 9);
	OK(cudaDeviceSynchronize());
	IS(pinned[0], 1);
	OK(cudaMemcpy(pinned, d, 64, cudaMemcpyDeviceToHost));
	IS(pinned[0], 2);
	OK(cudaFreeHost(pinned));
	IS(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

static void test_poison(void **state)
{
	assert_int_equal(child_run_seeds("poison", NULL), 0);
}

static void test_full(void **state)
{
	const char *env[] = {"CUDASIM_MEMORY_BYTES=16M", NULL};

	assert_int_equal(child_run("full", env), 0);
}

static void test_directions(void **state)
{
	assert_int_equal(child_run_seeds("directions", NULL), 0);
}

static bool has_keys(void)
{
	int key = pkey_alloc(0, 0);

	if (key >= 0)
		pkey_free(key);
	return key >= 0;
}

static void test_touch(void **state)
{
	const char *env[] = {"ASAN_OPTIONS=handle_segv=0", "CUDASIM_PKEY=1", NULL};

	if (!has_keys()) {
		print_message("this CPU has no protection keys: host code may touch memory\n");
		skip();
	}
	assert_int_equal(child_run("touch", env), CHILD_SIGNAL + SIGSEGV);
	assert_true(child_said("host code touched device memory"));
	assert_int_equal(child_run("touch_syscall", env), 0);
}

static void test_stale(void **state)
{
	const char *env[] = {"ASAN_OPTIONS=handle_segv=0", NULL};

	assert_int_equal(child_run("stale", env), CHILD_SIGNAL + SIGSEGV);
}

static void test_pinned(void **state)
{
	assert_int_equal(child_run_seeds("pinned", NULL), 0);
}

static void test_staging(void **state)
{
	assert_int_equal(child_run_seeds("staging", NULL), 0);
}

static const struct child_role roles[] = {
	{"poison", role_poison},
	{"full", role_full},
	{"directions", role_directions},
	{"touch", role_touch},
	{"touch_syscall", role_touch_syscall},
	{"stale", role_stale},
	{"pinned", role_pinned},
	{"staging", role_staging},
	{NULL, NULL},
};

CHILD_MAIN(cudasim_rt_memory, roles, cmocka_unit_test(test_poison), cmocka_unit_test(test_full),
	   cmocka_unit_test(test_directions), cmocka_unit_test(test_touch),
	   cmocka_unit_test(test_stale), cmocka_unit_test(test_pinned),
	   cmocka_unit_test(test_staging))
