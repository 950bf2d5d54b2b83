/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutants.c: sim_mutants: is the simulator able to see anything?
 *
 * Runs histories against a core with one fault switched on, each fault in a child of its own with
 * a time limit, since a wrong core may abort or never end. A fault that survives MUTANT_STEPS_MAX
 * steps is a hole in the oracle. First the same build without any fault must run clean: its hash is
 * so weak that nodes collide all the time.
 */
#include "kvd/core/mutant.h"
#include "tests/sim/history.h"
#include "tests/sim/report.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUTANT_STEPS_MAX 100000u
#define MUTANT_HISTORY_STEPS 2000u
#define MUTANT_SECONDS_MAX 60u
#define MUTANT_LINE_BYTES 200u

struct mutant_result {
	bool caught;
	uint64_t steps;
	char how[MUTANT_LINE_BYTES];
};

static void mutants_child(int mutant, uint64_t seed, uint64_t *steps, int err)
{
	struct random seeds = {.state = seed};

	dup2(err, STDERR_FILENO);
	alarm(MUTANT_SECONDS_MAX);
	core_mutant = mutant;
	while (*steps < MUTANT_STEPS_MAX)
		history_run(random_u64(&seeds) >> 16, MUTANT_HISTORY_STEPS, false, steps);
	_exit(0);
}

/* The line that says what was found: an ASSERT's own, or the report's. */
static void mutants_read(int fd, char out[MUTANT_LINE_BYTES])
{
	FILE *file = fdopen(fd, "r");
	char line[1024];

	out[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		const char *at = strstr(line, " step ");
		if (out[0] == '\0')
			snprintf(out, MUTANT_LINE_BYTES, "%.190s", at ? at + 1 : line);
	}
	if (file)
		fclose(file);
}

static void mutants_run(int mutant, uint64_t seed, struct mutant_result *out)
{
	uint64_t *steps = mmap(NULL, sizeof(*steps), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fds[2];
	int status;

	if (steps == MAP_FAILED || pipe(fds) != 0)
		exit(2);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		mutants_child(mutant, seed, steps, fds[1]);
	close(fds[1]);
	mutants_read(fds[0], out->how);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(2);
	out->steps = *steps;
	out->caught = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(out->how, sizeof(out->how), "does not end within %u s",
			 MUTANT_SECONDS_MAX);
	munmap(steps, sizeof(*steps));
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	int only = argc > 2 ? atoi(argv[2]) : -1;
	int survivors = 0;

	printf("sim_mutants: seed %" PRIu64 "\n", seed);
	for (int mutant = MUTANT_NONE; mutant < MUTANT_COUNT; mutant++) {
		struct mutant_result r;
		if (only >= 0 && mutant != only)
			continue;
		mutants_run(mutant, seed, &r);
		bool good = r.caught == (mutant != MUTANT_NONE);
		printf("  %2d %-18s %8" PRIu64 " steps  %s\n", mutant,
		       mutant ? mutant_name(mutant) : "(none)", r.steps,
		       r.caught ? r.how
		       : mutant ? "SURVIVED"
				: "clean");
		survivors += !good;
	}
	printf("sim_mutants: %d of %d not as it must be\n", survivors, MUTANT_COUNT);
	return survivors ? 1 : 0;
}
