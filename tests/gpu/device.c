/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lets the simulator's tests of kernels run on a GPU as they are: linked into each in place of
 * the simulator. The linker sends cmocka's call here first (--wrap), where tests of what only the
 * simulator shows are taken out, by name, and said; without a GPU the program skips.
 */
#include "tests/test.h"
#include <cuda_runtime_api.h>
#include <fnmatch.h>

static const char *const only_simulated[] = {
	/* Races and faults that a device forgives, and words that only the simulator finds. */
	"test_missing_*",
	"test_*poison",
	"test_fault*",
	"test_source_is_read_*",
	"test_limits",
	/* Another machine: less memory, another driver, other devices, numbers, delays, failures.
	 */
	"test_out_of_memory",
	"test_no_room_for_graphs",
	"test_launch_failure",
	"test_no_such_device",
	"test_table",
	"test_equal_numbers_*",
	"test_memory_that_does_not_fit",
	"test_devices_that_cannot",
	"test_old_driver",
	"test_copies_that_take_their_time",
	"test_who_still_has_work",
	"test_failures_half_way",
};

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown);
/* The simulator's names that tests use (tests/cudasim/sim.h, exec/exec.h). */
void sim_exec_seed(uint64_t seed);
const char *sim_fault_text(void);
uint64_t sim_count(const char *what);

static int is_only_simulated(const char *test)
{
	for (size_t i = 0; i < sizeof(only_simulated) / sizeof(only_simulated[0]); i++) {
		if (fnmatch(only_simulated[i], test, 0) == 0)
			return 1;
	}
	return 0;
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction setup, CMFixtureFunction teardown)
{
	struct CMUnitTest *kept = calloc(count, sizeof(*kept));
	size_t kept_count = 0;
	int devices = 0;
	cudaError_t e = cudaGetDeviceCount(&devices);

	if (e != cudaSuccess || devices == 0) {
		printf("not possible here: no GPU: %s\n",
		       e == cudaSuccess ? "none is visible" : cudaGetErrorString(e));
		return TEST_SKIP_STATUS;
	}
	if (!kept)
		return 1;
	for (size_t i = 0; i < count; i++) {
		if (is_only_simulated(tests[i].name))
			printf("only in the simulator: %s\n", tests[i].name);
		else
			kept[kept_count++] = tests[i];
	}
	int failed = __real__cmocka_run_group_tests(name, kept, kept_count, setup, teardown);
	free(kept);
	printf("finding: %zu tests, %d failed, %zu only in the simulator\n", kept_count, failed,
	       count - kept_count);
	return failed;
}

/* A device orders its threads by itself, each time anew. */
void sim_exec_seed(uint64_t seed)
{
	(void)seed;
}

const char *sim_fault_text(void)
{
	return cudaGetErrorString(cudaPeekAtLastError());
}

/* Nothing is counted. */
uint64_t sim_count(const char *what)
{
	(void)what;
	return 0;
}
