/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs device work so that a touch of memory that it may not touch ends the work, not the process:
 * SIGSEGV and SIGBUS jump back to where the work began. The handler is looked at before each run,
 * since test frameworks put their own in its place. Outside of work the signal goes on to whoever
 * had it before; host code that touched device memory is told so first.
 */
#include "tests/cudasim/rt.h"
#include "tests/cudasim/rt_map.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRAP_STACK 65536

struct trap {
	sigjmp_buf jump;
	cudaError_t error;
	const char *what;
	unsigned depth;
};

static _Thread_local struct trap *current;
static _Thread_local cudaError_t trap_error;
static _Thread_local const char *trap_what;
static _Thread_local _Alignas(16) uint8_t trap_stack[TRAP_STACK];
static void (*reset_fibers)(void);
static struct sigaction before[2];
static const int signals[2] = {SIGSEGV, SIGBUS};

static void trap_say(const char *words)
{
	(void)!write(STDERR_FILENO, words, strlen(words));
}

static void trap_signal(int number, siginfo_t *info, void *context)
{
	struct trap *t = current;

	if (t) {
		t->error = cudaErrorIllegalAddress;
		t->what = "device work touched memory that it may not";
		siglongjmp(t->jump, 1);
	}
#ifdef SEGV_PKUERR
	if (number == SIGSEGV && info->si_code == SEGV_PKUERR)
		trap_say("cudasim: host code touched device memory\n");
#endif
	/* The touch is done again when this returns, and meets the one before. */
	sigaction(number, &before[number == SIGBUS], NULL);
}

void rt_trap_install(void)
{
	struct sigaction ours = {.sa_sigaction = trap_signal,
				 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	struct sigaction there;
	stack_t stack;

	for (int i = 0; i < 2; i++) {
		sigaction(signals[i], NULL, &there);
		if (there.sa_sigaction == trap_signal)
			continue;
		before[i] = there;
		sigaction(signals[i], &ours, NULL);
	}
	if (sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_DISABLE)) {
		stack = (stack_t){.ss_sp = trap_stack, .ss_size = sizeof(trap_stack)};
		sigaltstack(&stack, NULL);
	}
}

void sim_on_fault(void (*reset)(void))
{
	reset_fibers = reset;
}

cudaError_t rt_trap_error(const char **out_what)
{
	*out_what = trap_what;
	return trap_error;
}

static void trap_closed(const struct trap *t)
{
	current = NULL;
	/* The signal closed device memory, whatever was open. */
	rt_map_depth_set(t->depth);
	trap_error = t->error;
	trap_what = t->what;
	rt_fault_count("faults");
	if (reset_fibers)
		reset_fibers();
}

bool rt_trap_run(void (*run)(void *arg), void *arg)
{
	struct trap t = {.error = cudaSuccess, .depth = rt_map_depth()};

	rt_trap_install();
	current = &t;
	if (sigsetjmp(t.jump, 0) == 0) {
		run(arg);
		current = NULL;
		return true;
	}
	trap_closed(&t);
	return false;
}

void sim_abort_work(cudaError_t error, const char *what)
{
	current->error = error;
	current->what = what;
	siglongjmp(current->jump, 1);
}
