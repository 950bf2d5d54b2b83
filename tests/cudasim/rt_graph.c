/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs and their launches. A launch is one item of its stream; each step runs one node, drawn
 * from those whose dependencies are done, so other streams' work falls between the nodes. Launches
 * of one executable graph follow each other, also in different streams. An update changes what is
 * launched from then on; a launch on its way keeps what it began with.
 */
#include "tests/cudasim/rt_graph.h"
#include "tests/cudasim/rt_capture.h"
#include <stdlib.h>
#include <string.h>

struct CUgraph_st {
	struct CUgraph_st *next;
	struct rt_program *program;
};

struct CUgraphExec_st {
	struct CUgraphExec_st *next;
	struct rt_program *program;
	struct rt_launch *active; /* the launch that has begun */
	uint32_t refs;		  /* the handle, and launches on their way */
};

struct rt_launch {
	struct CUgraphExec_st *exec;
	struct rt_program *program;
	uint32_t left;	 /* nodes that have not run */
	bool *done;	 /* by node */
	uint32_t *delay; /* by node: so often passed over yet */
	uint32_t *ready; /* those whose dependencies are done */
	uint32_t ready_count;
};

static struct CUgraph_st *graphs;
static struct CUgraphExec_st *execs;

static void graph_exec_unref(struct CUgraphExec_st *exec)
{
	if (--exec->refs)
		return;
	rt_program_unref(exec->program);
	free(exec);
}

void rt_launch_free(struct rt_launch *launch)
{
	if (!launch)
		return;
	if (launch->exec->active == launch)
		launch->exec->active = NULL;
	graph_exec_unref(launch->exec);
	rt_program_unref(launch->program);
	free(launch->done);
	free(launch->delay);
	free(launch->ready);
	free(launch);
}

static bool launch_deps_done(const struct rt_launch *l, uint32_t node)
{
	const struct rt_node *n = &l->program->nodes[node];

	for (uint32_t i = 0; i < n->dep_count; i++)
		if (!l->done[n->deps[i]])
			return false;
	return true;
}

static struct rt_launch *launch_new(struct CUgraphExec_st *exec)
{
	struct rt_launch *l = calloc(1, sizeof(*l));
	uint32_t n = exec->program->count;

	if (!l)
		return NULL;
	l->exec = exec;
	exec->refs++;
	l->program = exec->program;
	l->program->refs++;
	l->left = n;
	l->done = calloc(n + 1, sizeof(*l->done));
	l->delay = calloc(n + 1, sizeof(*l->delay));
	l->ready = calloc(n + 1, sizeof(*l->ready));
	if (!l->done || !l->delay || !l->ready) {
		rt_launch_free(l);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		l->delay[i] = rt_fault_delay(l->program->nodes[i].body->kind);
		if (launch_deps_done(l, i))
			l->ready[l->ready_count++] = i;
	}
	return l;
}

bool rt_launch_ready(struct rt_launch *launch, int device)
{
	if (launch->exec->active && launch->exec->active != launch)
		return false;
	for (uint32_t i = 0; i < launch->ready_count; i++)
		if (rt_queue_body_ready(launch->program->nodes[launch->ready[i]].body, device))
			return true;
	return launch->left == 0;
}

struct rt_body *rt_launch_waits(struct rt_launch *launch, int device)
{
	for (uint32_t i = 0; i < launch->ready_count; i++) {
		struct rt_body *b = launch->program->nodes[launch->ready[i]].body;
		if (!rt_queue_body_ready(b, device))
			return b;
	}
	return NULL;
}

/* A node done may make later ones ready: their order is the draw's, not the list's. */
static void launch_finish(struct rt_launch *l, uint32_t at)
{
	uint32_t node = l->ready[at];

	l->ready[at] = l->ready[--l->ready_count];
	l->done[node] = true;
	l->left--;
	for (uint32_t i = node + 1; i < l->program->count; i++) {
		const struct rt_node *n = &l->program->nodes[i];
		for (uint32_t d = 0; d < n->dep_count; d++) {
			if (n->deps[d] != node)
				continue;
			if (launch_deps_done(l, i))
				l->ready[l->ready_count++] = i;
			break;
		}
	}
}

bool rt_launch_step(struct rt_launch *launch, int device)
{
	launch->exec->active = launch;
	if (launch->left == 0)
		return true;
	/* From a random place on, the first that is ready in full. */
	uint64_t from = sim_random();
	for (uint32_t i = 0; i < launch->ready_count; i++) {
		uint32_t at = (uint32_t)((from + i) % launch->ready_count);
		uint32_t node = launch->ready[at];
		struct rt_body *body = launch->program->nodes[node].body;
		if (!rt_queue_body_ready(body, device))
			continue;
		if (launch->delay[node]) {
			launch->delay[node]--;
			return false;
		}
		rt_queue_run(body, device);
		launch_finish(launch, at);
		break;
	}
	return launch->left == 0;
}

static struct CUgraph_st *graph_get(cudaGraph_t handle)
{
	struct CUgraph_st *g = graphs;

	while (g && g != handle)
		g = g->next;
	return g;
}

static struct CUgraphExec_st *graph_exec_get(cudaGraphExec_t handle)
{
	struct CUgraphExec_st *x = execs;

	while (x && x != handle)
		x = x->next;
	return x;
}

cudaGraph_t rt_graph_new(struct rt_program *program)
{
	struct CUgraph_st *g = malloc(sizeof(*g));

	if (!g) {
		rt_program_unref(program);
		return NULL;
	}
	*g = (struct CUgraph_st){.next = graphs, .program = program};
	graphs = g;
	return g;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	struct CUgraph_st **at = &graphs;
	cudaError_t e = rt_enter(RT_INSTANTIATE);

	if (e == cudaSuccess && !graph_get(graph))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		while (*at != graph)
			at = &(*at)->next;
		*at = graph->next;
		rt_program_unref(graph->program);
		free(graph);
	}
	return rt_leave(e);
}

/* Handles are opaque: a node's is its body's address. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
	cudaError_t e = rt_enter(RT_INSTANTIATE);

	if (e == cudaSuccess && (!graph_get(graph) || !numNodes))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		for (size_t i = 0; nodes && i < *numNodes && i < graph->program->count; i++)
			nodes[i] = (cudaGraphNode_t)graph->program->nodes[i].body;
		if (!nodes || *numNodes > graph->program->count)
			*numNodes = graph->program->count;
	}
	return rt_leave(e);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
				 unsigned long long flags)
{
	cudaError_t e = rt_enter(RT_INSTANTIATE);

	if (e == cudaSuccess && (!graph_get(graph) || !pGraphExec))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		struct CUgraphExec_st *x = calloc(1, sizeof(*x));
		if (!x)
			return rt_leave(cudaErrorMemoryAllocation);
		x->refs = 1;
		x->program = graph->program;
		x->program->refs++;
		x->next = execs;
		execs = *pGraphExec = x;
	}
	return rt_leave(e);
}

static enum cudaGraphExecUpdateResult graph_compare(const struct rt_program *a,
						    const struct rt_program *b)
{
	if (a->count != b->count)
		return cudaGraphExecUpdateErrorTopologyChanged;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct rt_node *x = &a->nodes[i], *y = &b->nodes[i];
		if (x->dep_count != y->dep_count ||
		    memcmp(x->deps, y->deps, x->dep_count * sizeof(*x->deps)) != 0)
			return cudaGraphExecUpdateErrorTopologyChanged;
		if (x->body->kind != y->body->kind)
			return cudaGraphExecUpdateErrorNodeTypeChanged;
	}
	return cudaGraphExecUpdateSuccess;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
				cudaGraphExecUpdateResultInfo *resultInfo)
{
	struct CUgraphExec_st *x;
	struct CUgraph_st *g;
	cudaError_t e = rt_enter(RT_INSTANTIATE);

	if (e != cudaSuccess)
		return rt_leave(e);
	x = graph_exec_get(hGraphExec);
	g = graph_get(hGraph);
	if (!x || !g || !resultInfo)
		return rt_leave(cudaErrorInvalidValue);
	*resultInfo =
		(cudaGraphExecUpdateResultInfo){.result = graph_compare(x->program, g->program)};
	if (resultInfo->result != cudaGraphExecUpdateSuccess)
		return rt_leave(cudaErrorGraphExecUpdateFailure);
	rt_program_unref(x->program);
	x->program = g->program;
	x->program->refs++;
	return rt_leave(cudaSuccess);
}

static cudaError_t graph_launch_get(cudaGraphExec_t handle, cudaStream_t stream,
				    struct CUgraphExec_st **x, struct CUstream_st **s)
{
	cudaError_t e = rt_stream_get(stream, s);

	*x = graph_exec_get(handle);
	if (e == cudaSuccess && !*x)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = rt_capture_implicit(*s);
	/* A graph within a graph is not needed here. */
	if (e == cudaSuccess && (*s)->capture)
		e = rt_capture_waits(*s);
	return e;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	struct CUgraphExec_st *x;
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_INSTANTIATE);

	if (e == cudaSuccess)
		e = graph_launch_get(graphExec, stream, &x, &s);
	return rt_leave(e);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	struct CUgraphExec_st *x;
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_GRAPH);

	if (e == cudaSuccess)
		e = graph_launch_get(graphExec, stream, &x, &s);
	if (e == cudaSuccess) {
		struct rt_launch *l = launch_new(x);
		e = l ? rt_queue_add(s, &(struct rt_item){.launch = l}) : cudaErrorMemoryAllocation;
	}
	return rt_leave(e);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
	struct CUgraphExec_st **at = &execs;
	cudaError_t e = rt_enter(RT_INSTANTIATE);

	if (e == cudaSuccess && !graph_exec_get(graphExec))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		while (*at != graphExec)
			at = &(*at)->next;
		*at = graphExec->next;
		graph_exec_unref(graphExec);
	}
	return rt_leave(e);
}
