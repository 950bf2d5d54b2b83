/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choice.h: one choice of an answer, read from its log: tokens become text, stop strings end it,
 * and each step is one delta, so that a stream has one chunk for each token.
 */
#ifndef ENGINE_HTTP_CHOICE_H
#define ENGINE_HTTP_CHOICE_H

#include "engine/http/buffer.h"
#include "engine/http/errors.h"
#include "engine/http/query.h"
#include "engine/http/stop.h"
#include "engine/http/stream.h"
#include "engine/text/tokenizer.h"

struct choice {
	const struct query *request;
	const struct tokenizer *tokenizer;
	uint32_t index;
	uint32_t cursor;    /* entries of the log that were read */
	uint32_t generated; /* of them, tokens that count as completion */
	uint32_t chars;	    /* characters of their pieces: for text_offset */
	bool echoed;
	const char *finish; /* "stop" or "length" once it has ended */
	struct detok detok;
	struct stop stop;
	struct buffer text; /* of the last delta */
};

struct choice_delta {
	const char *text; /* valid until the next step */
	size_t text_bytes;
	uint32_t first; /* entries [first, first + count) of the log belong to it */
	uint32_t count;
	bool echo;	       /* the prompt: its first token stands before entry `first` */
	uint32_t chars_before; /* of the first token */
	const char *finish;
	bool stop; /* a stop string ended it: the engine need not go on */
};

void choice_init(struct choice *c, const struct query *r, const struct tokenizer *t,
		 uint32_t index);
void choice_fini(struct choice *c);
/*
 * One step. 1: a delta; 0: nothing to read now, or the choice has ended; -EINVAL: the engine gave
 * up, see *e.
 */
int choice_next(struct choice *c, const struct stream_view *v, struct choice_delta *out,
		struct api_error *e);
/* Adds the delta's tokens to lp, from logprobs_new(). */
void choice_add_logprobs(const struct choice *c, const struct stream_view *v,
			 const struct choice_delta *d, json_t *lp);

#endif
