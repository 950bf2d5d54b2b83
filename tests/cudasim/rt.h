/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all parts of the runtime half share. One lock holds the whole state of the process; every
 * function of the API takes it by rt_enter() and gives it back by rt_leave(). Device work runs
 * under it, on whatever thread waits or asks.
 */
#ifndef TESTS_CUDASIM_RT_H
#define TESTS_CUDASIM_RT_H

#include "tests/cudasim/sim.h"
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#define RT_DEVICES_MAX 16

/* Calls and work, by the names that the fault variables and sim_count() use. */
#define RT_KINDS(X)                                                                                \
	X(INFO, "info", 0)                                                                         \
	X(DEVICE, "device", 0)                                                                     \
	X(INIT, "init", RT_CONTEXT)                                                                \
	X(MALLOC, "malloc", RT_CONTEXT | RT_UNSAFE)                                                \
	X(FREE, "free", RT_CONTEXT | RT_UNSAFE)                                                    \
	X(MEMINFO, "meminfo", RT_CONTEXT)                                                          \
	X(REGISTER, "register", RT_CONTEXT | RT_UNSAFE)                                            \
	X(UNREGISTER, "unregister", RT_CONTEXT | RT_UNSAFE)                                        \
	X(POINTER, "pointer", RT_CONTEXT)                                                          \
	X(COPY, "copy", RT_CONTEXT | RT_UNSAFE)                                                    \
	X(MEMCPY, "memcpy", RT_CONTEXT)                                                            \
	X(MEMSET, "memset", RT_CONTEXT)                                                            \
	X(LAUNCH, "launch", RT_CONTEXT)                                                            \
	X(HOSTFUNC, "hostfunc", RT_CONTEXT)                                                        \
	X(WRITE, "write", RT_CONTEXT)                                                              \
	X(WAIT, "wait", RT_CONTEXT)                                                                \
	X(IPCGET, "ipcget", RT_CONTEXT | RT_UNSAFE)                                                \
	X(IPCOPEN, "ipcopen", RT_CONTEXT | RT_UNSAFE)                                              \
	X(IPCCLOSE, "ipcclose", RT_CONTEXT | RT_UNSAFE)                                            \
	X(VMMCREATE, "vmmcreate", RT_CONTEXT | RT_UNSAFE)                                          \
	X(VMMRELEASE, "vmmrelease", RT_CONTEXT)                                                    \
	X(VMMRESERVE, "vmmreserve", RT_CONTEXT | RT_UNSAFE)                                        \
	X(VMMMAP, "vmmmap", RT_CONTEXT | RT_UNSAFE)                                                \
	X(VMMUNMAP, "vmmunmap", RT_CONTEXT | RT_UNSAFE)                                            \
	X(VMMACCESS, "vmmaccess", RT_CONTEXT | RT_UNSAFE)                                          \
	X(VMMEXPORT, "vmmexport", RT_CONTEXT | RT_UNSAFE)                                          \
	X(VMMIMPORT, "vmmimport", RT_CONTEXT | RT_UNSAFE)                                          \
	X(STREAM, "stream", RT_CONTEXT)                                                            \
	X(EVENT, "event", RT_CONTEXT)                                                              \
	X(RECORD, "record", RT_CONTEXT)                                                            \
	X(WAITEVENT, "waitevent", RT_CONTEXT)                                                      \
	X(QUERY, "query", RT_CONTEXT)                                                              \
	X(SYNC, "sync", RT_CONTEXT)                                                                \
	X(CAPTURE, "capture", RT_CONTEXT)                                                          \
	X(INSTANTIATE, "instantiate", RT_CONTEXT)                                                  \
	X(GRAPH, "graph", RT_CONTEXT)

#define RT_CONTEXT 1u /* makes the device's context, and returns its sticky error */
#define RT_UNSAFE 2u  /* breaks a capture that forbids such calls */

enum rt_kind {
#define X(symbol, name, flags) RT_##symbol,
	RT_KINDS(X)
#undef X
		RT_KIND_COUNT
};

/* A device of this process. The physical number is the machine's, the index the process's. */
struct rt_device {
	int physical;
	bool active; /* has its context */
	cudaError_t sticky;
};

/* Takes the lock, always. Then: injected faults, driver, fork, context, sticky error, captures. */
cudaError_t rt_enter(enum rt_kind kind);
/* Gives the lock back and remembers an error as the thread's last. */
cudaError_t rt_leave(cudaError_t error);
CUresult rt_leave_driver(cudaError_t error);
void rt_lock(void);
void rt_unlock(void);
/* Gives the lock up for that long. */
void rt_pause_us(unsigned us);

/* rt_device.c: devices of this process, in order; count < 0: no driver. */
int rt_device_count(void);
struct rt_device *rt_device(int index);
int rt_device_current(void);
int rt_device_of_physical(int physical);
void rt_device_uuid(int physical, CUuuid *out);
bool rt_device_ipc(void);
uint64_t rt_device_bytes(void);

/* rt_error.c */
void rt_error_break(int device, cudaError_t error, const char *what);
bool rt_error_is_sticky(cudaError_t error);

/* rt_fault.c: counts a call or a piece of work, and does what the fault variables say. */
cudaError_t rt_fault_call(enum rt_kind kind);
void rt_fault_work(enum rt_kind kind);
uint32_t rt_fault_delay(enum rt_kind kind);
void rt_fault_count(const char *what);

/* rt_env.c: a number of the environment; suffixes K, M, G; `missing` where it is unset. */
uint64_t rt_env_u64(const char *name, uint64_t missing);

/* rt_trap.c: calls run(arg); false if it touched memory that it may not (or aborted). */
bool rt_trap_run(void (*run)(void *arg), void *arg);
/* Puts the handler in place, if it is not there. */
void rt_trap_install(void);
/* Why the last trap closed, for the message. */
cudaError_t rt_trap_error(const char **out_what);

#endif
