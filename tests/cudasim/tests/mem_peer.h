/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that use a device memory module as they are told. Sharing has rules that only show
 * between processes, and each process may see another machine: so a test program is a conductor
 * that never opens a device, and starts itself again as `peer`, with variables of its own.
 */
#ifndef TESTS_CUDASIM_MEM_PEER_H
#define TESTS_CUDASIM_MEM_PEER_H

#include "kernels/mem/device.h"
#include <stdint.h>
#include <sys/types.h>

enum mem_op {
	MEM_FIND,     /* name: are there such operations? */
	MEM_COUNT,    /* r: devices */
	MEM_DESCRIBE, /* index; info */
	MEM_OPEN,     /* index: the device that all that follows is about */
	MEM_ALLOC,    /* bytes; slot, wire, perhaps an fd */
	MEM_FREE,     /* slot */
	MEM_IMPORT,   /* wire, perhaps an fd; slot, view */
	MEM_UNMAP,    /* slot */
	MEM_PUT,      /* value to slot + offset, by the write view, or (flag) by the read view */
	MEM_GET,      /* value from slot + offset */
	MEM_FILL,     /* slot, offset, bytes, value */
	MEM_PIN,      /* bytes at offset of the peer's host area; flag: end it */
	MEM_PINNED,   /* bytes from slot + offset to the host area, its sum as value */
	MEM_QUEUE, /* starts `value` copies within the slot; r of the last start, value: tickets */
	MEM_POLL,  /* value: ticket; r: done? */
	MEM_GONE,  /* value: pid; r: process_gone() */
	MEM_CLOSE,
};

struct mem_ask {
	uint32_t op;
	uint32_t index;
	uint32_t slot;
	uint32_t flag;
	uint64_t offset;
	uint64_t bytes;
	uint64_t value;
	struct kvd_slab_wire wire;
	char name[32];
};

struct mem_answer {
	int32_t r;
	uint32_t slot;
	uint64_t value;
	struct device_view view;
	struct kvd_slab_wire wire;
	struct device_info info;
	char words[512];
	int fd; /* the caller's; -1: none */
};

struct mem_peer {
	pid_t pid;
	int sock;
};

/* Starts one. Settings are "NAME=VALUE", NULL ends. It has found `kind`; no device is open. */
struct mem_peer mem_peer_start(const char *kind, const char *const settings[]);
/* With device 0 open. */
struct mem_peer mem_peer_open(const char *kind, const char *const settings[]);
struct mem_answer mem_peer_ask(struct mem_peer *p, const struct mem_ask *ask, int fd);
/* The same, where the answer must be good. */
struct mem_answer mem_peer_must(struct mem_peer *p, const struct mem_ask *ask, int fd);
/* Lets it end by itself; 0, or 128 + signal. */
int mem_peer_end(struct mem_peer *p);
void mem_peer_kill(struct mem_peer *p);

/* What main() becomes in a peer. */
int mem_peer_main(void);

#endif
