/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the two halves of the simulator. The runtime half (rt_*) has devices, memory,
 * streams and errors; the execution half (exec_*) runs kernels. A kernel reaches a stream as a
 * struct sim_work; when its turn comes the runtime calls run() with device memory open, and a
 * fault inside becomes the device's sticky error. C and C++.
 */
#ifndef TESTS_CUDASIM_SIM_H
#define TESTS_CUDASIM_SIM_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Captured work is run once a launch of its graph; drop() is called once, after the last. */
struct sim_work {
	void (*run)(void *arg);
	void (*drop)(void *arg); /* may be NULL */
	void *arg;
	const char *name; /* lives as long as the work */
};

/*
 * Queues a kernel, or captures it. Takes the work over, also when it fails. Counts as a call of
 * the kind "launch", and sets the thread's last error.
 */
cudaError_t sim_stream_push(cudaStream_t stream, const struct sim_work *work);

/* Sets the calling thread's last error and returns it. */
cudaError_t sim_error_set(cudaError_t error);
/*
 * Breaks the device whose work runs (else the thread's current one) for this process: every later
 * call returns the error. Printed once, with `what`.
 */
void sim_error_sticky(cudaError_t error, const char *what);

/* CUDASIM_SEED (1 if unset), and the one sequence made from it that decides every order. */
uint64_t sim_seed(void);
uint64_t sim_random(void);

/* All of [at, at + bytes) lies in one live allocation, import or mapping of device memory. */
bool sim_is_device(const void *at, size_t bytes);
/* All of it lies in one registered area of host memory. */
bool sim_is_pinned(const void *at, size_t bytes);

/* What device `device` of this process can do; the current one is sim_device(). */
void sim_device_props(int device, struct cudaDeviceProp *out);
int sim_device(void);

/* Device memory may be touched between the two, by this thread; pairs nest. Work needs neither. */
void sim_memory_open(void);
void sim_memory_close(void);

/*
 * Called on the thread that ran work, after a fault inside it was caught and the stack of run()
 * was given up: the execution half forgets its fibers here.
 */
void sim_on_fault(void (*reset)(void));
/* From inside run(): ends the work at once with that sticky error. Does not return. */
__attribute__((noreturn)) void sim_abort_work(cudaError_t error, const char *what);

/* How often something happened in this process, by name: see README.md. */
uint64_t sim_count(const char *what);

#ifdef __cplusplus
}
#endif
#endif
