/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a trace, a line at a time; of each only the ids are kept. The arrays grow by doubling. */
#include "tools/kvbench/replay.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLAY_REQUESTS_MAX (1u << 24)

/* Room for one more of `size` bytes behind `count`, which doubles at powers of two. */
static int grow(void **array, uint64_t count, size_t size)
{
	if (count & (count - 1))
		return 0;
	void *larger = realloc(*array, (count ? count * 2 : 1) * size);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	return 0;
}

static int add_request(struct replay_trace *t, uint64_t blocks)
{
	if (t->request_count == REPLAY_REQUESTS_MAX)
		return -E2BIG;
	int rc = grow((void **)&t->first, t->request_count + 1ull, sizeof(*t->first));

	if (rc < 0)
		return rc;
	t->first[++t->request_count] = t->id_count;
	t->longest = blocks > t->longest ? (uint32_t)blocks : t->longest;
	return 0;
}

static int add_ids(struct replay_trace *t, const json_t *ids)
{
	for (size_t i = 0; i < json_array_size(ids); i++) {
		const json_t *id = json_array_get(ids, i);
		json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
		if (value < 0 || value >= REPLAY_ID_MAX)
			return -EINVAL;
		int rc = grow((void **)&t->ids, t->id_count, sizeof(*t->ids));
		if (rc < 0)
			return rc;
		t->ids[t->id_count++] = (uint32_t)value;
		t->id_end = (uint32_t)value >= t->id_end ? (uint32_t)value + 1 : t->id_end;
	}
	return add_request(t, json_array_size(ids));
}

static int add_line(struct replay_trace *t, const char *line)
{
	json_t *request = json_loads(line, 0, NULL);
	const json_t *ids = json_object_get(request, "hash_ids");
	int rc = json_is_array(ids) && json_array_size(ids) > 0 ? add_ids(t, ids) : -EINVAL;

	json_decref(request);
	return rc;
}

int replay_trace_read(const char *path, struct replay_trace *out)
{
	struct replay_trace t = {.first = calloc(1, sizeof(*t.first))};
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	uint64_t number = 0;
	int rc = !file ? -errno : t.first ? 0 : -ENOMEM;

	while (rc == 0 && getline(&line, &size, file) >= 0) {
		rc = add_line(&t, line);
		number++;
	}
	if (rc == 0 && t.request_count == 0)
		rc = -EINVAL;
	free(line);
	if (file)
		fclose(file);
	if (rc == 0) {
		*out = t;
		return 0;
	}
	fprintf(stderr, "kvbench: replay: %s:%llu: %s\n", path, (unsigned long long)number,
		rc == -EINVAL ? "no JSON object with \"hash_ids\", numbers below 2^26"
			      : strerror(-rc));
	replay_trace_free(&t);
	return rc;
}

void replay_trace_free(struct replay_trace *t)
{
	free(t->ids);
	free(t->first);
}
