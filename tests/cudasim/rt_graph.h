/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: programs of bodies with dependencies, made by captures and launched as one item. */
#ifndef TESTS_CUDASIM_RT_GRAPH_H
#define TESTS_CUDASIM_RT_GRAPH_H

#include "tests/cudasim/rt_queue.h"

struct rt_node {
	struct rt_body *body;
	uint32_t *deps;
	uint32_t dep_count;
};

/* Grows while it is captured, and is shared by the graph and what was made from it after. */
struct rt_program {
	uint32_t refs;
	uint32_t count, room;
	struct rt_node *nodes;
};

struct rt_program *rt_program_new(void);
void rt_program_unref(struct rt_program *program);
/* Takes the body over, also when it fails. */
cudaError_t rt_program_add(struct rt_program *program, struct rt_body *body, const uint32_t *deps,
			   uint32_t dep_count);
/* A graph's handle for the program, whose reference it takes over. */
cudaGraph_t rt_graph_new(struct rt_program *program);

void rt_launch_free(struct rt_launch *launch);
bool rt_launch_ready(struct rt_launch *launch, int device);
/* Runs one node; true: it was the last. */
bool rt_launch_step(struct rt_launch *launch, int device);
/* A node that could run but for what it waits for, or NULL. */
struct rt_body *rt_launch_waits(struct rt_launch *launch, int device);

#endif
