/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON bodies from anybody: how they become a tree of bounded size, and how one value is read
 * from it with one clear refusal that names the parameter. Absent and null are the same: the
 * caller's default stays.
 */
#ifndef ENGINE_HTTP_BODY_H
#define ENGINE_HTTP_BODY_H

#include "engine/http/errors.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BODY_DEPTH_MAX 32u
#define BODY_VALUES_MAX (1u << 20)

/* Parses an object. 0 with a new reference in *out, or -EINVAL with *e. */
int body_parse(const char *text, size_t bytes, json_t **out, struct api_error *e);

/* 0, or -EINVAL with *e; *out only changes when the value is there and right. */
int body_bool(const json_t *root, const char *key, bool *out, struct api_error *e);
int body_int(const json_t *root, const char *key, int64_t min, int64_t max, int64_t *out,
	     struct api_error *e);
int body_real(const json_t *root, const char *key, double min, double max, double *out,
	      struct api_error *e);
/* The text stays the tree's. */
int body_string(const json_t *root, const char *key, const char **out, size_t *out_bytes,
		struct api_error *e);
int body_object(const json_t *root, const char *key, const json_t **out, struct api_error *e);
/* "an object", "a string", ...: for messages. */
const char *body_kind(const json_t *v);

#endif
