/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks and switches. On x86-64 a switch is a dozen instructions: push what a call must keep, swap
 * the stack pointers, pop. Elsewhere ucontext does it, some twenty times slower.
 *
 * Stacks come from one reservation that lives as long as the process, each above a guard page. Not
 * for concurrent use: the executor's lock covers it.
 */
#include "tests/cudasim/exec/fiber.h"

#include <stdint.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES ((size_t)1 << 19)
#else
#define STACK_BYTES ((size_t)1 << 17)
#endif
#define GUARD_BYTES ((size_t)4096)
#define STACKS_MAX 1024u

static unsigned char *pool;
static unsigned int pool_ready; /* stacks [0, pool_ready) have their guards */

static unsigned char *slot(unsigned int index)
{
	return pool + (size_t)index * (STACK_BYTES + GUARD_BYTES);
}

void *fiber_stack(unsigned int index, size_t *out_bytes)
{
	if (index >= STACKS_MAX)
		return NULL;
	if (!pool) {
		void *p =
			mmap(NULL, STACKS_MAX * (STACK_BYTES + GUARD_BYTES), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

		if (p == MAP_FAILED)
			return NULL;
		pool = p;
	}
	for (; pool_ready <= index; pool_ready++)
		if (mprotect(slot(pool_ready), GUARD_BYTES, PROT_NONE) < 0)
			return NULL;
	*out_bytes = STACK_BYTES;
	return slot(index) + GUARD_BYTES;
}

bool fiber_overflowed(unsigned int index, const void *address)
{
	uintptr_t a = (uintptr_t)address;
	uintptr_t guard = (uintptr_t)slot(index);

	return pool && a >= guard && a < guard + GUARD_BYTES;
}

#if defined(__x86_64__) && !defined(SIM_FIBER_UCONTEXT)

/* Stores the stack pointer in *from and goes on at `to`. */
void fiber_swap(void **from, void *to);

__asm__(".text\n"
	".hidden fiber_swap\n"
	".globl fiber_swap\n"
	".type fiber_swap, @function\n"
	"fiber_swap:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size fiber_swap, . - fiber_swap\n");

static void context_init(struct fiber *f, size_t skip, void (*entry)(void))
{
	uintptr_t top = ((uintptr_t)f->stack + f->stack_bytes - skip) & ~(uintptr_t)15;
	void **sp = (void **)top;

	/* A return address of entry's own, which it never uses: the stack is as after a call. */
	*--sp = NULL;
	*--sp = (void *)(uintptr_t)entry;
	for (int i = 0; i < 6; i++)
		*--sp = NULL;
	f->context.sp = sp;
}

static void context_swap(struct fiber *from, struct fiber *to)
{
	fiber_swap(&from->context.sp, to->context.sp);
}

#else

static void context_init(struct fiber *f, size_t skip, void (*entry)(void))
{
	ucontext_t *uc = &f->context.uc;

	(void)getcontext(uc);
	uc->uc_stack.ss_sp = (void *)(uintptr_t)f->stack;
	uc->uc_stack.ss_size = f->stack_bytes - skip;
	uc->uc_link = NULL;
	makecontext(uc, entry, 0);
}

static void context_swap(struct fiber *from, struct fiber *to)
{
	(void)swapcontext(&from->context.uc, &to->context.uc);
}

#endif

void fiber_init(struct fiber *f, void *stack, size_t stack_bytes, size_t skip, void (*entry)(void))
{
	f->stack = stack;
	f->stack_bytes = stack_bytes;
	f->fake_stack = NULL;
#ifdef FIBER_ASAN
	/* A fiber that was given up left its frames' red zones behind, near the top. */
	__asan_unpoison_memory_region((unsigned char *)stack + stack_bytes - 65536, 65536);
#endif
	context_init(f, skip, entry);
}

void fiber_entered(struct fiber *back)
{
#ifdef FIBER_ASAN
	const void *stack;
	size_t bytes;

	__sanitizer_finish_switch_fiber(NULL, &stack, &bytes);
	if (!back->stack) {
		back->stack = stack;
		back->stack_bytes = bytes;
	}
#else
	(void)back;
#endif
}

void fiber_switch(struct fiber *from, struct fiber *to, bool last)
{
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->stack, to->stack_bytes);
#else
	(void)last;
#endif
	context_swap(from, to);
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}
