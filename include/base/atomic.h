/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few atomics that shared memory needs, by name of what they promise. Every use names its
 * partner on the other side in a comment. They work on plain integers, because the structures
 * they touch are part of an ABI and may be read by programs in other languages.
 */
#ifndef BASE_ATOMIC_H
#define BASE_ATOMIC_H

#define atomic_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define atomic_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define atomic_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define atomic_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define atomic_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define atomic_sub_relaxed(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define atomic_add_acq_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define atomic_swap_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define atomic_fence_seq_cst() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Tells the core that this is a spin loop. */
static inline void atomic_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
