/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a graph: appended by one capture, so that a node depends on earlier ones only. */
#include "tests/cudasim/rt_graph.h"
#include <stdlib.h>
#include <string.h>

struct rt_program *rt_program_new(void)
{
	struct rt_program *p = calloc(1, sizeof(*p));

	if (p)
		p->refs = 1;
	return p;
}

void rt_program_unref(struct rt_program *program)
{
	if (!program || --program->refs)
		return;
	for (uint32_t i = 0; i < program->count; i++) {
		rt_body_free(program->nodes[i].body);
		free(program->nodes[i].deps);
	}
	free(program->nodes);
	free(program);
}

static bool program_grow(struct rt_program *program)
{
	uint32_t room = program->room ? 2 * program->room : 64;
	struct rt_node *nodes = realloc(program->nodes, room * sizeof(*nodes));

	if (!nodes)
		return false;
	program->nodes = nodes;
	program->room = room;
	return true;
}

cudaError_t rt_program_add(struct rt_program *program, struct rt_body *body, const uint32_t *deps,
			   uint32_t dep_count)
{
	struct rt_node node = {.body = body, .dep_count = dep_count};

	node.deps = malloc(dep_count * sizeof(*deps) + 1);
	if (!node.deps || (program->count == program->room && !program_grow(program))) {
		free(node.deps);
		rt_body_free(body);
		return cudaErrorMemoryAllocation;
	}
	if (dep_count)
		memcpy(node.deps, deps, dep_count * sizeof(*deps));
	program->nodes[program->count++] = node;
	return cudaSuccess;
}
