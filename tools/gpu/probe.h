/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the probes share: a lead that asks one question of the GPU, and children of it (the same
 * program, started anew, for a process that has used CUDA cannot fork) that play a role each. They
 * talk over a socket pair, in fixed messages that may carry a descriptor.
 *
 * A probe prints lines that tools/gpu-check reads (see runner.py), and ends with 0, with 77 if this
 * host cannot answer, or with 1 if something went wrong that is no answer.
 */
#ifndef TOOLS_GPU_PROBE_H
#define TOOLS_GPU_PROBE_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROBE_SLAB_BYTES (64ull << 20)
#define PROBE_EXIT_IMPOSSIBLE 77

struct probe_message {
	uint32_t word; /* what is meant; the probe's own numbers */
	int32_t error; /* cudaError_t or CUresult */
	int32_t later; /* a second one */
	uint64_t value;
	double ms;
	cudaIpcMemHandle_t handle;
};

struct probe_role {
	const char *name; /* NULL ends a table */
	int (*run)(int sock);
};

struct probe_child {
	pid_t pid;
	int sock;
};

/* A slab that can be exported as a descriptor; read and write are views of it. */
struct probe_vmm {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	size_t bytes;
};

/* Runs the role that argv names, or the lead. */
int probe_main(int argc, char **argv, const struct probe_role *roles, int (*lead)(void));

/* --- words --- */

__attribute__((format(printf, 1, 2))) void probe_finding(const char *format, ...);
__attribute__((format(printf, 3, 4))) void probe_figure(double value, const char *unit,
							const char *name, ...);
__attribute__((format(printf, 1, 2), noreturn)) void probe_impossible(const char *format, ...);
/* A part that this host forbids; the probe goes on. */
__attribute__((format(printf, 1, 2))) void probe_part_impossible(const char *format, ...);
__attribute__((format(printf, 1, 2), noreturn)) void probe_fail(const char *format, ...);
/* Fails, with the error's name, unless it is success. */
void probe_check(cudaError_t e, const char *what);
void probe_check_driver(CUresult e, const char *what);
const char *probe_driver_error(CUresult e);
double probe_now_ms(void);

/* --- CUDA --- */

/* A context on device 0. Ends the program as impossible if there is no such thing. */
void probe_begin(void);
/* A driver function, or NULL: PROBE_DRIVER(cuMemCreate)(...). */
void *probe_driver(const char *name);
#define PROBE_DRIVER(f) ((__typeof__(&f))probe_driver(#f))
/* Why device 0 has no memory that travels as a descriptor, or NULL. */
const char *probe_vmm_obstacle(void);
/* The first bytes of device memory, all of them `byte`. */
bool probe_is_filled(const void *device, int byte, cudaError_t *out_error);

int probe_vmm_new(size_t bytes, struct probe_vmm *out, int *out_fd);
CUresult probe_vmm_import(int fd, size_t bytes, CUmemAccess_flags access, struct probe_vmm *out);
void probe_vmm_free(struct probe_vmm *v);

/* --- processes --- */

struct probe_child probe_spawn(const char *role);
/* As probe_spawn(), with environment variables: NAME, VALUE, ..., NULL. */
struct probe_child probe_spawn_with(const char *role, const char *const *environment);
void probe_send(int sock, const struct probe_message *m, int fd);
/* false: the peer has ended. *out_fd (if asked for) is -1 when none came. */
bool probe_receive(int sock, struct probe_message *m, int *out_fd);
/* As above, and an end of the peer is a failure of the probe. */
void probe_expect(struct probe_child *c, struct probe_message *m, int *out_fd);
/* SIGKILL, and the wait for its end. */
void probe_kill(struct probe_child *c);
/* Lets it end (it sees the socket's end). */
void probe_finish(struct probe_child *c);

#endif
