/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps on the simulated GPU: recorded ones have the bits of eager ones, batches and chunks and the
 * order of the machine's work change nothing, staging blocks are not written while they are read,
 * and every failure has its words.
 */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/cudasim/tests/ops_world.h"
#include "tests/test.h"

#include <base/bits.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <unistd.h>

static struct ops_world one, two;

static void role_graph(void)
{
	struct kernel_counts counts;

	ops_world_init(&one);
	ops_world_init(&two);
	IS(ops_world_start(&one, false), 0);
	IS(ops_world_start(&two, true), 0);
	IS(ops_world_play(&one), 0);
	IS(ops_world_play(&two), 0);
	ops_world_same(&one, &two);
	one.ops->ctx_counts(one.ctx, &counts);
	IS(counts.graph_steps, 0);
	IS(counts.graphs, 0);
	IS(counts.eager_steps, 7);
	two.ops->ctx_counts(two.ctx, &counts);
	CHECK(counts.graphs > 8);
	IS(counts.graph_steps, 7);
	IS(counts.eager_steps, 0);
	/* 70 of 80, 37 of 48, 53 of 64, 109 of 112; decode of 5 has a graph of its own. */
	IS(counts.padding_rows, 10 + 11 + 11 + 3);
	ops_world_fini(&one);
	ops_world_fini(&two);
}

static void test_graph_replay_equals_eager(void **state)
{
	assert_int_equal(child_run_seeds("graph", NULL), 0);
}

static void role_alone(void)
{
	ops_world_init(&one);
	ops_world_init(&two);
	IS(ops_world_start(&one, true), 0);
	IS(ops_world_start(&two, true), 0);
	IS(ops_world_play(&one), 0);
	IS(ops_world_play_alone(&two), 0);
	ops_world_same(&one, &two);
	ops_world_fini(&one);
	ops_world_fini(&two);
}

static void test_batch_and_chunks_change_nothing(void **state)
{
	assert_int_equal(child_run("alone", NULL), 0);
}

/* In fp16 the same holds; and the pages are others than in bf16. */
static void role_fp16(void)
{
	static struct ops_world bf16;

	ops_world_init_type(&one, KERNEL_FP16);
	ops_world_init_type(&two, KERNEL_FP16);
	ops_world_init(&bf16);
	IS(ops_world_start(&one, true), 0);
	IS(ops_world_start(&two, false), 0);
	IS(ops_world_start(&bf16, false), 0);
	IS(ops_world_play(&one), 0);
	IS(ops_world_play_alone(&two), 0);
	IS(ops_world_play(&bf16), 0);
	ops_world_same(&one, &two);
	CHECK(ops_world_digest(&one) != ops_world_digest(&bf16));
	ops_world_fini(&one);
	ops_world_fini(&two);
	ops_world_fini(&bf16);
}

static void test_fp16(void **state)
{
	assert_int_equal(child_run("fp16", NULL), 0);
}

static void role_digest(void)
{
	ops_world_init(&one);
	IS(ops_world_start(&one, true), 0);
	fprintf(stderr, "waits %" PRIu64 "\n", sim_count("call.sync"));
	IS(ops_world_play(&one), 0);
	fprintf(stderr, "digest %016" PRIx64 "\n", ops_world_digest(&one));
	ops_world_fini(&one);
}

static void test_seeds_agree(void **state)
{
	char first[40] = "", second[40] = "";

	assert_int_equal(child_run("digest", (const char *[]){"CUDASIM_SEED=1", NULL}), 0);
	child_said_word("digest ", first, sizeof(first));
	assert_int_equal(child_run("digest", (const char *[]){"CUDASIM_SEED=2", NULL}), 0);
	child_said_word("digest ", second, sizeof(second));
	assert_int_equal(strlen(first), 16);
	assert_string_equal(first, second);
}

/* More steps than there are staging blocks, before anything is waited for. */
static void role_ahead(void)
{
	static struct ops_step steps[8];
	const struct ops_item items[8] = {{3, 20}, {0, 40}, {2, 33}, {3, 20},
					  {0, 30}, {1, 3},  {3, 20}, {4, 16}};

	ops_world_init(&one);
	ops_world_init(&two);
	IS(ops_world_start(&one, true), 0);
	IS(ops_world_start(&two, false), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(items); i++)
		ops_world_submit(&one, &items[i], 1, &steps[i]);
	IS(one.ops->step_wait(one.ctx, 0), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(items); i++) {
		ops_world_take(&one, &steps[i]);
		IS(ops_world_step(&two, &items[i], 1), 0);
	}
	ops_world_same(&one, &two);
	ops_world_fini(&one);
	ops_world_fini(&two);
}

static void test_steps_ahead_of_the_device(void **state)
{
	assert_int_equal(child_run_seeds("ahead", NULL), 0);
}

/* Each step is begun before the last one's draws are known, and takes them on the device. */
static void role_blind(void)
{
	static struct ops_step steps[2];
	static const struct ops_item items[] = {{2, 33}, {0, 1}, {1, 3}};
	static const struct ops_item next[] = {{1, 1}, {0, 1}, {2, 1}};
	static const struct ops_item alone[] = {{2, 1}, {3, 140}};
	const struct ops_item *lists[] = {items, next, next, alone, next, next};
	const uint32_t counts[] = {3, 3, 3, 2, 3, 3};
	const char *graphs = getenv("GRAPHS");

	ops_world_init(&one);
	ops_world_init(&two);
	IS(ops_world_start(&one, graphs != NULL), 0);
	IS(ops_world_start(&two, false), 0);
	IS(ops_world_step(&one, &(struct ops_item){0, 70}, 1), 0);
	IS(ops_world_step(&two, &(struct ops_item){0, 70}, 1), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(lists); i++) {
		ops_world_submit(&one, lists[i], counts[i], &steps[i % 2]);
		IS(one.ops->step_wait(one.ctx, 1), 0);
		if (i > 0)
			ops_world_take(&one, &steps[(i - 1) % 2]);
		IS(ops_world_step(&two, lists[i], counts[i]), 0);
	}
	IS(one.ops->step_wait(one.ctx, 0), 0);
	ops_world_take(&one, &steps[(ARRAY_LEN(lists) - 1) % 2]);
	ops_world_same(&one, &two);
	ops_world_fini(&one);
	ops_world_fini(&two);
}

static void test_draws_stay_on_the_device(void **state)
{
	assert_int_equal(child_run("blind", NULL), 0);
	assert_int_equal(child_run_seeds("blind", (const char *[]){"GRAPHS=1", NULL}), 0);
}

/* A sequence that is in the pages already: asked again, it stores nothing and answers the same. */
static void role_again(void)
{
	struct ops_seq *seq = &one.seqs[1];
	uint64_t before;
	const float *row;
	float logits[OPS_VOCAB], kept[OPS_VOCAB];

	ops_world_init(&one);
	IS(ops_world_start(&one, true), 0);
	IS(ops_world_step(&one, &(struct ops_item){1, 3}, 1), 0);
	row = one.ops->view(one.ctx, one.buf[OPS_LOGITS], OPS_VOCAB);
	memcpy(kept, row, sizeof(kept));
	child_read(logits, one.buf[OPS_LOGITS], sizeof(logits));
	CHECK(memcmp(kept, logits, sizeof(kept)) == 0);
	seq->token_count = seq->done;
	before = ops_world_digest(&one);
	IS(ops_world_step(&one, &(struct ops_item){1, 1}, 1), 0);
	row = one.ops->view(one.ctx, one.buf[OPS_LOGITS], OPS_VOCAB);
	CHECK(memcmp(kept, row, sizeof(kept)) == 0);
	seq->token_count = seq->done;
	CHECK(ops_world_digest(&one) == before);
	ops_world_fini(&one);
}

static void test_query_only(void **state)
{
	assert_int_equal(child_run("again", NULL), 0);
}

/* --- failures --------------------------------------------------------------------------------- */

static void role_memory(void)
{
	ops_world_init(&one);
	IS(ops_world_start(&one, true), -ENOMEM);
	CHECK(!one.ctx);
	ops_world_fini(&one);
}

static void role_room(void)
{
	const struct kernel_ops *ops = ops_world_table();
	uint64_t room = ops->memory_room(ops);
	void *memory = ops->memory_new(ops, 8 << 20);

	CHECK(memory);
	IS(ops->memory_room(ops), room - (8 << 20));
	CHECK(!ops->memory_new(ops, room));
	ops->memory_free(ops, memory, 8 << 20);
	IS(ops->memory_room(ops), room);
}

static void test_out_of_memory(void **state)
{
	char fail[64];

	assert_int_equal(child_run("room", NULL), 0);
	/* The world's own memory comes first; then one allocation for the context. */
	snprintf(fail, sizeof(fail), "CUDASIM_FAIL=malloc:%u=2", 6 + 8 * OPS_LAYERS + OPS_BUFFERS);
	assert_int_equal(child_run("memory", (const char *[]){fail, NULL}), 0);
	assert_true(child_said("the largest that fits is"));
	assert_int_equal(child_run("memory", (const char *[]){"CUDASIM_FAIL=register:1=2", NULL}),
			 0);
	assert_true(child_said("cuda:0: pinned host memory: out of memory"));
}

/* No room for more graphs: those that are there serve, the rest is eager. */
static void role_few(void)
{
	struct kernel_counts counts;

	ops_world_init(&one);
	ops_world_init(&two);
	IS(ops_world_start(&one, true), 0);
	IS(ops_world_start(&two, false), 0);
	one.ops->ctx_counts(one.ctx, &counts);
	IS(counts.graphs, 3);
	IS(ops_world_play(&one), 0);
	IS(ops_world_play(&two), 0);
	ops_world_same(&one, &two);
	one.ops->ctx_counts(one.ctx, &counts);
	CHECK(counts.graph_steps > 0 && counts.eager_steps > 0);
	ops_world_fini(&one);
	ops_world_fini(&two);
}

static void test_no_room_for_graphs(void **state)
{
	assert_int_equal(child_run("few", (const char *[]){"CUDASIM_FAIL=instantiate:10=2", NULL}),
			 0);
}

/* A launch that fails: the step says so, and so does every later one; nothing hangs. */
static void role_launch(void)
{
	int r;

	ops_world_init(&one);
	r = ops_world_start(&one, false);
	if (r == 0)
		r = ops_world_play(&one);
	IS(r, -EIO);
	IS(ops_world_step(&one, &(struct ops_item){4, 1}, 1), -EIO);
	CHECK(one.ops->view(one.ctx, one.buf[OPS_LOGITS], OPS_VOCAB));
	fprintf(stderr, "failure: %s\n", one.ops->failure(one.ctx));
	ops_world_fini(&one);
}

static void test_launch_failure(void **state)
{
	char waits[40] = "", fail[64];

	assert_int_equal(child_run("launch", (const char *[]){"CUDASIM_FAIL=launch:30=719", NULL}),
			 0);
	assert_true(child_said("failure: cuda:0: "));
	assert_true(child_said("rows, 256 to 96: "));
	assert_true(child_said(": unspecified launch failure"));
	assert_int_equal(child_run("launch", (const char *[]){"CUDASIM_FAIL=launch:31=719", NULL}),
			 0);
	assert_true(child_said("unspecified launch failure (cudaErrorLaunchFailure)"));
	/* Found when the second step is waited for. */
	assert_int_equal(child_run("digest", NULL), 0);
	child_said_word("waits ", waits, sizeof(waits));
	snprintf(fail, sizeof(fail), "CUDASIM_FAIL=sync:%lu=700", strtoul(waits, NULL, 10) + 2);
	assert_int_equal(child_run("launch", (const char *[]){fail, NULL}), 0);
	assert_true(child_said("failure: cuda:0: a step: an illegal memory access"));
}

/* --- devices that are not there ----------------------------------------------------------------
 */

static void role_open(void)
{
	char error[512] = "";
	const char *device = getenv("OPEN");

	CHECK(!kernels_open(device, error, sizeof(error)));
	fprintf(stderr, "%s\n", error);
}

static void test_no_such_device(void **state)
{
	static const struct {
		const char *device, *env, *said;
	} cases[] = {
		{"OPEN=cuda:7", "CUDASIM_DEVICES=2", "there is no GPU 7: this process sees 2"},
		{"OPEN=cuda:", "CUDASIM_DEVICES=2", "it is not cuda:N"},
		{"OPEN=cuda:1x", "CUDASIM_DEVICES=2", "it is not cuda:N"},
		{"OPEN=cuda:0", "CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES is set"},
		{"OPEN=cuda:1", "CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES is set"},
		{"OPEN=cuda:0", "CUDASIM_DEVICES=0", "there is no NVIDIA driver here"},
		{"OPEN=cuda:0", "CUDASIM_FAIL=info:1=35", "the NVIDIA driver is too old"},
		{"OPEN=cuda:0", "CUDASIM_SM=75", "has compute capability 7.5, and 8.0 is needed"},
		{"OPEN=cuda:0", "KVD_MODULE_DIR=/nowhere", "/nowhere/libkvd-ops-cuda.so"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *env[] = {cases[i].device, cases[i].env, NULL};

		assert_int_equal(child_run("open", env), 0);
		if (!child_said(cases[i].said))
			fail_msg("%s, %s: not said: %s", cases[i].device, cases[i].env,
				 cases[i].said);
	}
}

static void role_table(void)
{
	const struct kernel_ops *ops = ops_world_table();
	struct cudaDeviceProp props;
	struct kernels_limits limits = ops_world_limits(false);
	struct kernels_ctx *ctx;

	OK(cudaGetDeviceProperties(&props, 0));
	CHECK(memcmp(ops->device_uuid, props.uuid.bytes, sizeof(ops->device_uuid)) == 0);
	CHECK(strcmp(ops->layout, KVD_LAYOUT_CUDA_BF16) == 0);
	CHECK(ops_world_table() == ops);
	fprintf(stderr, "table: %s %s\n", ops->name, ops->numerics_id);
	limits.head_dim_max = 80;
	IS(kernels_ctx_new(ops, &limits, 1, &ctx), -ENOTSUP);
	limits = ops_world_limits(false);
	limits.page_tokens = 12;
	IS(kernels_ctx_new(ops, &limits, 1, &ctx), -ENOTSUP);
}

static void test_table(void **state)
{
	assert_int_equal(child_run("table", (const char *[]){"CUDASIM_SM=80", NULL}), 0);
	assert_true(child_said("table: cuda:0 sm80 cuda-sm80-bf16-lt"));
	assert_int_equal(child_run("table", (const char *[]){"CUDASIM_SM=90", NULL}), 0);
	assert_true(child_said("table: cuda:0 sm90 cuda-sm90-bf16-lt"));
}

/* The only file in the cache directory: the table of attention's kernels. */
static void choice_path(char *out, size_t size)
{
	glob_t found;

	snprintf(out, size, "%s/kvd/attention-*", getenv("XDG_CACHE_HOME"));
	IS(glob(out, 0, NULL, &found), 0);
	IS(found.gl_pathc, 1);
	snprintf(out, size, "%s", found.gl_pathv[0]);
	globfree(&found);
}

static void choice_text(const char *path, const char *mode, char *text, size_t size)
{
	FILE *f = fopen(path, mode);

	CHECK(f);
	if (mode[0] == 'w')
		fputs(text, f);
	else
		text[fread(text, 1, size - 1, f)] = '\0';
	fclose(f);
}

static bool wgmma_differs(void)
{
	const char *mutant = getenv("KVD_MUTANT");

	return mutant && strcmp(mutant, "wgmma_other_bits") == 0;
}

/* Measures, then believes what was kept: of a step of 140 rows. */
static void role_choice(void)
{
	static char hopper[] = "128 wgmma\n512 mma\n2048 mma\n";
	const struct ops_item all = {3, 140};
	char path[600], text[100] = "";

	ops_world_init(&one);
	ops_world_init(&two);
	IS(ops_world_start(&one, false), 0);
	choice_path(path, sizeof(path));
	choice_text(path, "r", text, sizeof(text));
	CHECK(strstr(text, "512 mma\n2048 mma\n"));
	if (wgmma_differs())
		CHECK(strstr(text, "128 mma\n"));
	choice_text(path, "w", hopper, sizeof(hopper));
	IS(ops_world_start(&two, false), 0);
	IS(ops_world_step(&one, &all, 1), 0);
	IS(ops_world_step(&two, &all, 1), 0);
	if (wgmma_differs())
		CHECK(one.seqs[3].logprobs[140] != two.seqs[3].logprobs[140]);
	else
		ops_world_same(&one, &two);
	ops_world_fini(&two);
	ops_world_fini(&one);
	IS(unlink(path), 0);
}

/* Wgmma is taken where the table says so, and never where it has other bits. */
static void test_choice_of_a_kernel(void **state)
{
	char dir[] = "/tmp/kvd-choice-XXXXXX", cache[64], kvd[64];

	assert_non_null(mkdtemp(dir));
	snprintf(cache, sizeof(cache), "XDG_CACHE_HOME=%s", dir);
	snprintf(kvd, sizeof(kvd), "%s/kvd", dir);
	assert_int_equal(child_run("choice", (const char *[]){cache, "CUDASIM_SM=90",
							      "KVD_MUTANT=wgmma_other_bits", NULL}),
			 0);
	assert_int_equal(child_run("choice", (const char *[]){cache, "CUDASIM_SM=90", NULL}), 0);
	assert_int_equal(rmdir(kvd), 0);
	assert_int_equal(rmdir(dir), 0);
}

static const struct child_role roles[] = {
	{"choice", role_choice},

	{"graph", role_graph},	 {"alone", role_alone}, {"digest", role_digest},
	{"ahead", role_ahead},	 {"again", role_again}, {"memory", role_memory},
	{"room", role_room},	 {"few", role_few},	{"launch", role_launch},
	{"open", role_open},	 {"table", role_table}, {"blind", role_blind},
	{"fp16", role_fp16},	 {NULL, NULL},
};

CHILD_MAIN(ops_step, roles, cmocka_unit_test(test_graph_replay_equals_eager),
	   cmocka_unit_test(test_batch_and_chunks_change_nothing), cmocka_unit_test(test_fp16),
	   cmocka_unit_test(test_seeds_agree), cmocka_unit_test(test_steps_ahead_of_the_device),
	   cmocka_unit_test(test_draws_stay_on_the_device), cmocka_unit_test(test_query_only),
	   cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_no_room_for_graphs),
	   cmocka_unit_test(test_launch_failure), cmocka_unit_test(test_no_such_device),
	   cmocka_unit_test(test_table), cmocka_unit_test(test_choice_of_a_kernel))
