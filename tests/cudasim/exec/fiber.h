/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: a stack and a place to go on. They stay on the thread that switches to them, and keep the
 * callee-saved registers only: a switch is a call. Sanitizers are told of each switch.
 */
#ifndef CUDASIM_EXEC_FIBER_H
#define CUDASIM_EXEC_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__) && !defined(SIM_FIBER_UCONTEXT)
struct fiber_context {
	void *sp;
};
#else
#include <ucontext.h>
struct fiber_context {
	ucontext_t uc;
};
#endif

/* Zeroed for the thread's own stack. */
struct fiber {
	struct fiber_context context;
	const void *stack; /* lowest address */
	size_t stack_bytes;
	void *fake_stack; /* the address sanitizer's */
};

/* Stack `index` of the pool, made on first use; a guard page lies below it. NULL: no memory. */
void *fiber_stack(unsigned int index, size_t *out_bytes);
/* True when `address` lies in the guard page of stack `index`. */
bool fiber_overflowed(unsigned int index, const void *address);

/* The fiber will call entry(), which never returns, on its stack less `skip` bytes at the top. */
void fiber_init(struct fiber *f, void *stack, size_t stack_bytes, size_t skip, void (*entry)(void));
/* First words of an entry: `back` is the thread's own fiber, whose stack is learnt here. */
void fiber_entered(struct fiber *back);
/* Goes on in `to`; with `last`, `from` never goes on. */
void fiber_switch(struct fiber *from, struct fiber *to, bool last);

#endif
