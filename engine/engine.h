/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: the step loop, seen from those who give it work (HTTP, tests, benchmarks).
 *
 * One thread, the engine's own, runs all steps, owns the connection to kvd and calls the sinks.
 * Submitting and cancelling are safe from any thread.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <engine/model/model.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_LOGPROBS_MAX 20u
#define ENGINE_ENDS_MAX KERNEL_BANNED_MAX

struct engine;
struct engine_request;

enum engine_kvd_mode { ENGINE_KVD_AUTO, ENGINE_KVD_REQUIRE, ENGINE_KVD_PRIVATE };

struct engine_config {
	const struct model *model;
	uint32_t threads;	   /* 0: as many as this process has cores */
	uint32_t page_tokens;	   /* 0: 64 */
	uint32_t context;	   /* longest sequence; 0: the model's */
	uint32_t batch_tokens;	   /* rows of one step; 0: 512 */
	uint32_t chunk_tokens;	   /* prompt tokens of one sequence and step; 0: 256 */
	uint32_t sequences_max;	   /* running at once; 0: 32 */
	uint32_t queue_max;	   /* waiting requests; beyond: refused; 0: 1024 */
	enum engine_kvd_mode kvd_mode;
	const char *kvd_socket;
	const char *kvd_space;
	const void *kvd_secret;
	size_t kvd_secret_bytes;
	const char *name;	   /* shown by kvctl */
	const char *kvd_program;   /* for a private child; NULL: beside this program, then PATH */
	uint64_t kvd_pool_bytes;   /* of a private child; 0: its default */
	uint64_t kvd_wait_ns;	   /* how long new work waits for a dead daemon; 0: 30 s */
	uint64_t memory_bytes_max; /* refuse to start beyond; 0: what the cgroup allows */
	bool no_graphs;		   /* run every step eagerly */
	bool no_overlap;	   /* choose a step's rows when the step before has ended */
	/* The device has failed for good: all requests have ended, and no more can be served. On
	 * the engine's thread. */
	void (*failed)(void *ctx, const char *why);
	void *failed_ctx;
};

struct engine_sampling {
	float temperature;
	float top_p;
	float min_p;
	uint32_t top_k;
	uint64_t seed;
};

enum engine_finish {
	ENGINE_FINISH_STOP,	 /* an end token, or engine_stop() */
	ENGINE_FINISH_LENGTH,	 /* max_tokens or the context */
	ENGINE_FINISH_CANCELLED,
	ENGINE_FINISH_ERROR,	 /* see done.error, done.status */
};

struct engine_logprob {
	uint32_t token;
	float logprob;
};

struct engine_token {
	uint32_t token;
	uint32_t position;	 /* of the token in the sequence */
	float logprob;		 /* at temperature 1 */
	uint32_t top_count;
	struct engine_logprob top[ENGINE_LOGPROBS_MAX]; /* best first */
};

struct engine_done {
	enum engine_finish finish;
	int status;		 /* HTTP status for ENGINE_FINISH_ERROR: 400, 429, 503, 500 */
	char error[256];
	uint32_t prompt_tokens;
	uint32_t completion_tokens;
	uint32_t lookup_tokens;	 /* of the prompt, looked up in kvd: 0 for a cold run */
	uint32_t cached_tokens;	 /* of those, found: blocks and tail */
	uint64_t tail_bytes_copied;
	uint64_t kv_bytes_copied; /* to share a prefix: 0 */
	uint64_t queue_ns;
	uint64_t prefill_ns;
	uint64_t ttft_ns;	 /* from submit to the first token */
	uint64_t total_ns;
};

/* Called on the engine's thread; must not block. After done() the request is gone. */
struct engine_sink {
	void (*token)(void *ctx, const struct engine_token *t);
	void (*done)(void *ctx, const struct engine_done *d);
	void *ctx;
};

struct engine_submit_args {
	const uint32_t *tokens; /* copied */
	uint32_t token_count;
	uint32_t max_tokens;	/* 0: until the context is full */
	uint32_t min_tokens;
	bool ignore_end;	/* end tokens do not end it */
	bool use_cache;		/* false: a cold run that publishes nothing */
	uint32_t logprobs;	/* how many alternatives, <= ENGINE_LOGPROBS_MAX */
	bool prompt_logprobs;	/* echo: token() is also called for prompt tokens 1 .. */
	uint32_t end_tokens[ENGINE_ENDS_MAX];
	uint32_t end_count;
	struct engine_sampling sampling;
	struct engine_sink sink;
};

/* Connects to kvd, plans all memory, starts the thread. 0 or -errno with a sentence in error[size]. */
int engine_new(const struct engine_config *config, struct engine **out, char *error, size_t size);
/* Ends all requests (CANCELLED), says BYE. */
void engine_free(struct engine *e);

/*
 * Queues a request. *out stays valid until its done() has returned. 0; -E2BIG: longer than the
 * context; -EAGAIN: the queue is full; -ESHUTDOWN: ending; -ENOMEM.
 */
int engine_submit(struct engine *e, const struct engine_submit_args *args,
		  struct engine_request **out);
/* Its done() follows with CANCELLED, unless it ended before. Call it before done() has returned. */
void engine_cancel(struct engine *e, struct engine_request *r);
/* The same for a client that has all it asked for: done() says STOP. */
void engine_stop(struct engine *e, struct engine_request *r);

struct engine_histogram {
	double sum_s;
	uint64_t count;
	uint64_t bucket[20]; /* cumulative, bounds in engine_histogram_bounds_s */
};
extern const double engine_histogram_bounds_s[20];

struct engine_stats {
	bool kvd_ready;
	uint32_t running;
	uint32_t waiting;
	uint32_t context;
	uint32_t page_tokens;
	uint32_t sequences_max;
	uint64_t requests_done[4]; /* by engine_finish */
	uint64_t prompt_tokens;
	uint64_t lookup_tokens;
	uint64_t cached_tokens;
	uint64_t generated_tokens;
	uint64_t preemptions;
	uint64_t steps;
	uint64_t step_tokens;
	uint64_t early_steps; /* submitted while one computed */
	uint64_t wasted_rows; /* of sequences whose last token was drawn meanwhile */
	uint64_t kvd_reconnects;
	uint64_t tail_bytes_copied;
	uint64_t leased_blocks;
	uint64_t magazine_blocks;
	bool private_kvd;
	struct kernel_counts kernels;
	struct engine_histogram ttft;
	struct engine_histogram itl;
	struct engine_histogram e2e;
	struct engine_histogram queue;
	struct engine_histogram prefill;
};
/* A consistent copy; from any thread. */
void engine_stats(struct engine *e, struct engine_stats *out);

#endif
