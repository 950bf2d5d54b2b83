/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums up the plan: the forward pass's buffers, the step's arrays, the tokens of running sequences.
 * KV pages are not in it: they are kvd's. Runs at start, on the caller's thread.
 */
#include "engine/footprint.h"
#include "base/bits.h"
#include "base/units.h"
#include <errno.h>
#include <string.h>

#define DEFAULT_PAGE_TOKENS 64u
#define DEFAULT_BATCH_TOKENS 512u
#define DEFAULT_CHUNK_TOKENS 256u
#define DEFAULT_SEQUENCES 32u
#define DEFAULT_QUEUE 1024u
#define DEFAULT_KVD_WAIT_NS (30 * UNITS_NS_PER_S)
#define BATCH_TOKENS_MAX 65536u
#define SEQUENCES_MAX 1000u /* the client library holds 1024 leases */

static void set_default(uint32_t *value, uint32_t fallback)
{
	if (*value == 0)
		*value = fallback;
}

static int check_figures(const struct engine_config *c, char *error, size_t size)
{
	const char *what = NULL;

	if (!bits_is_pow2(c->page_tokens) || c->page_tokens < 16 || c->page_tokens > 128)
		what = "page tokens must be 16, 32, 64 or 128";
	else if (c->context < 2 || c->context > c->model->h.context)
		what = "the context must be at least 2 and at most what the model was trained for";
	else if (c->sequences_max > SEQUENCES_MAX)
		what = "at most 1000 sequences can run at once";
	else if (c->batch_tokens < c->sequences_max)
		what = "batch tokens must be at least the number of sequences: each of them needs "
		       "a row in every step";
	else if (c->batch_tokens > BATCH_TOKENS_MAX)
		what = "batch tokens must be at most 65536";
	else if (c->model->h.head_dim % 2 != 0)
		what = "the page layout needs an even head size";
	if (!what)
		return 0;
	snprintf(error, size,
		 "%s (context %u of %u, page tokens %u, batch tokens %u, sequences %u)", what,
		 c->context, c->model->h.context, c->page_tokens, c->batch_tokens,
		 c->sequences_max);
	return -EINVAL;
}

int footprint_init(struct footprint *f, const struct engine_config *config, char *error,
		   size_t size)
{
	struct engine_config *c = &f->config;

	*c = *config;
	set_default(&c->page_tokens, DEFAULT_PAGE_TOKENS);
	set_default(&c->context, c->model->h.context);
	set_default(&c->sequences_max, DEFAULT_SEQUENCES);
	set_default(&c->batch_tokens, BITS_MAX(DEFAULT_BATCH_TOKENS, c->sequences_max));
	set_default(&c->chunk_tokens, DEFAULT_CHUNK_TOKENS);
	set_default(&c->queue_max, DEFAULT_QUEUE);
	c->chunk_tokens = BITS_MIN(c->chunk_tokens, c->batch_tokens);
	if (c->kvd_wait_ns == 0)
		c->kvd_wait_ns = DEFAULT_KVD_WAIT_NS;
	f->forward = (struct forward_limits){.rows_max = c->batch_tokens,
					     .sampled_max = step_sampled_max(c->sequences_max),
					     .sequences_max = c->sequences_max,
					     .context = c->context,
					     .graphs = !c->no_graphs,
					     .page_tokens = c->page_tokens,
					     .threads = c->threads};
	f->step = (struct step_limits){.batch_tokens = c->batch_tokens,
				       .chunk_tokens = c->chunk_tokens,
				       .sequences_max = c->sequences_max,
				       .vocab = c->model->h.vocab,
				       .overlap = c->model->ops->asynchronous && !c->no_overlap};
	return check_figures(c, error, size);
}

static size_t token_bytes(const struct footprint *f)
{
	return (size_t)f->config.sequences_max * f->config.context * sizeof(uint32_t);
}

static size_t forward_bytes(const struct footprint *f)
{
	const struct forward_plan_row *row = forward_plan(f->config.model, &f->forward);

	while (row->name)
		row++;
	return row->bytes;
}

size_t footprint_bytes(const struct footprint *f)
{
	return forward_bytes(f) + step_bytes(&f->step) + token_bytes(f);
}

static void print_row(FILE *out, const char *name, uint64_t bytes)
{
	char text[32];

	fprintf(out, "  %-32s %14llu  %s\n", name, (unsigned long long)bytes,
		units_format_bytes(bytes, text, sizeof(text)));
}

void footprint_print(const struct footprint *f, FILE *out)
{
	const struct model *m = f->config.model;
	const struct kvd_layout layout = forward_page_layout(m, f->config.page_tokens);

	fprintf(out, "rows a step %u, sequences %u, context %u, page tokens %u, kernels %s\n",
		f->config.batch_tokens, f->config.sequences_max, f->config.context,
		f->config.page_tokens, m->ops->name);
	print_row(out, "weights", m->weight_bytes);
	for (const struct forward_plan_row *r = forward_plan(m, &f->forward); r->name; r++)
		print_row(out, r->name, r->bytes);
	print_row(out, "step arrays", step_bytes(&f->step));
	print_row(out, "tokens of running sequences", token_bytes(f));
	print_row(out, "total without KV pages", m->weight_bytes + footprint_bytes(f));
	print_row(out, "one KV page (kvd's memory)", kvd_layout_page_bytes(&layout));
	print_row(out, "KV pages of one whole context",
		  kvd_layout_page_bytes(&layout) *
			  bits_div_ceil(f->config.context, f->config.page_tokens));
}

int footprint_check(const struct footprint *f, char *error, size_t size)
{
	const struct kernel_ops *ops = f->config.model->ops;
	uint64_t weights = f->config.model->weight_bytes, more = footprint_bytes(f);
	uint64_t max = f->config.memory_bytes_max;
	/* Their memory is gone already, unless it is counted from somebody's figure. */
	uint64_t taken = max ? weights : 0, room = footprint_room_bytes(ops, max);
	char need[32], have[32];

	room = room > taken ? room - taken : 0;
	if (more <= room)
		return 0;
	snprintf(error, size,
		 "the engine needs %s on %s beside its weights, and %s are left; lower "
		 "--batch-tokens, --sequences or --context",
		 units_format_bytes(more, need, sizeof(need)), ops->name,
		 units_format_bytes(room, have, sizeof(have)));
	return -ENOMEM;
}

/* --- the machine --------------------------------------------------------------------------------
 */

/* The number in the first line of `path` that starts with `key`; UINT64_MAX when there is none. */
static uint64_t read_number(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[256];
	unsigned long long v;
	uint64_t found = UINT64_MAX;

	if (!f)
		return found;
	while (found == UINT64_MAX && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0 &&
		    sscanf(line + strlen(key), " %llu", &v) == 1)
			found = v;
	}
	fclose(f);
	return found;
}

/* The v2 group of this process, or the root of the tree that a container shows. */
static uint64_t group_room_bytes(void)
{
	char line[400] = "", max[512], current[512];
	FILE *f = fopen("/proc/self/cgroup", "re");
	const char *group = "/";

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		group = line + 3;
		break;
	}
	if (f)
		fclose(f);
	snprintf(max, sizeof(max), "/sys/fs/cgroup%s/memory.max", group);
	snprintf(current, sizeof(current), "/sys/fs/cgroup%s/memory.current", group);
	uint64_t limit = read_number(max, ""), used = read_number(current, "");

	if (limit == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	return limit > used ? limit - used : 0;
}

uint64_t footprint_room_bytes(const struct kernel_ops *ops, uint64_t max)
{
	uint64_t room = ops->memory_room(ops);

	if (max || room != UINT64_MAX)
		return max ? BITS_MIN(max, room) : room;
	uint64_t kib = read_number("/proc/meminfo", "MemAvailable:");
	uint64_t machine = kib == UINT64_MAX ? UINT64_MAX : kib * UNITS_KIB;

	return BITS_MIN(machine, group_room_bytes());
}
