/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small scripted daemon for tests of the client library: the server side of ipc on a thread of
 * its own, with pages from a counter and no memory of prefixes. What it answers is set by the
 * knobs; a test may change them at any time under the lock.
 */
#ifndef TESTS_UNIT_IPC_FAKE_KVD_H
#define TESTS_UNIT_IPC_FAKE_KVD_H

#include <ipc/ring.h>
#include <ipc/shm.h>
#include <ipc/sock.h>
#include <kvd.h>
#include <pthread.h>

#define FAKE_SLAB_PAGES 8u
#define FAKE_SLABS 64u
#define FAKE_BLOCKS 4096u
#define FAKE_ROWS 64u
#define FAKE_HELD 64u
#define FAKE_STRIDE 4096u

struct fake_kvd {
	int client_fd; /* for kvd_options.socket_fd */
	int sock;
	int stop_fd;
	pthread_t thread;
	pthread_mutex_t lock;
	struct shm rings;
	struct shm rows;
	struct shm slabs[FAKE_SLABS];
	struct ring_side ring;
	int bells[2];	     /* own ends: the sleeper's to kvd, the ringer's to the client */
	int client_bells[2]; /* the others, until the welcome */
	uint32_t parts;
	uint32_t page_tokens;
	uint32_t next_page;
	uint32_t next_row;
	struct kvd_handle blocks[FAKE_ROWS][FAKE_BLOCKS];
	struct kvd_req held[FAKE_HELD];
	uint32_t held_count;

	/* knobs */
	uint32_t welcome_major;
	uint32_t welcome_bytes; /* 0: all of it */
	uint32_t welcome_devices;
	uint32_t cached_blocks;
	uint32_t follow_blocks;	     /* after those: NONE in replies, until it is lowered */
	uint32_t cached_from_second; /* blocks that are cached when the second reply comes */
	uint32_t tail_tokens;
	uint32_t reply_blocks_max;
	uint32_t claim_tokens;
	int results[KVD_OP_COUNT];
	bool hold[KVD_OP_COUNT];

	/* what came */
	uint32_t counts[KVD_OP_COUNT];
	struct kvd_req last[KVD_OP_COUNT];
	uint8_t payload[KVD_OP_COUNT][4096];
};

struct fake_kvd *fake_start(void);
/* Closes the socket, as a kernel does for a killed process; the thread ends. */
void fake_die(struct fake_kvd *f);
void fake_stop(struct fake_kvd *f);
/* A handle on it, with the format of one part (or more) registered. */
struct kvd *fake_open(struct fake_kvd *f, uint32_t parts, uint32_t *out_format);
/* Set a knob under the lock. */
void fake_set(struct fake_kvd *f, uint32_t *knob, uint32_t value);
void fake_result(struct fake_kvd *f, uint16_t op, int result);
void fake_hold(struct fake_kvd *f, uint16_t op, bool on);
/* Answers everything that was held, oldest first. */
void fake_answer_held(struct fake_kvd *f);
/* Writes a lease's row and rings. */
void fake_row(struct fake_kvd *f, uint32_t row, uint32_t state, uint32_t ready, uint32_t seq);
void fake_session_row(struct fake_kvd *f, const struct kvd_session_row *row);
/* Under the lock: how many of `op` came, and the last of them. */
uint32_t fake_count(struct fake_kvd *f, uint16_t op, struct kvd_req *out);
/* Where the fake has the page itself. */
uint8_t *fake_page(struct fake_kvd *f, uint32_t page);

#endif
