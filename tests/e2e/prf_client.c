/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of kvd that does what it is told, for tests with real processes. It reads commands from
 * standard input and answers each with one line, `RESULT key=value ...`, where RESULT is ok, the
 * name of an outcome or an errno, or `usage`.
 *
 *   prf_client SOCKET SPACE SECRET PAGE_TOKENS PAGE_BYTES     (SPACE and SECRET: - for none)
 *
 *   acquire NAME TEXT [DECODE_BLOCKS [DEADLINE_MS [FLAGS]]]   info NAME       page NAME BLOCK
 *   compute NAME BLOCKS    run NAME      extend NAME FLAGS    verify NAME     decode NAME TEXT
 *   fork NAME NEW          release NAME [tail]                topup BLOCKS    wait NAME TOKENS
 *   random SEED STEPS      why TEXT      stat                 close           exit
 *   patience MS [DAWDLE_US]  gone         pump MS             return
 *   peek NAME BLOCK          (the first word of its page)
 *   rate TOKENS_PER_S        prefetch TEXT
 *
 * With PRF_GPU=N it is an engine on GPU N of this process. What went wrong at start is its first
 * and only line.
 */
#include "base/units.h"
#include "tests/e2e/prf_lease.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WORDS_MAX 8

static struct prf_client client;

struct command {
	int argc;
	char *argv[WORDS_MAX];
};

static uint32_t word_number(const struct command *cmd, int at, uint32_t otherwise)
{
	return at < cmd->argc ? (uint32_t)strtoul(cmd->argv[at], NULL, 10) : otherwise;
}

static void answer(int result, const struct prf_lease *l)
{
	struct kvd_lease_info i = {0};

	if (l && l->lease)
		kvd_lease_info(l->lease, &i);
	printf("%s cached=%u build=%u ready=%u state=%u blocks=%u tail=%u own=%u next=%u",
	       kvd_strresult(result), i.cached_tokens, i.build_from, i.ready_tokens, i.state,
	       i.block_count, i.tail_tokens, i.follows_own, l ? l->next : 0);
	if (result == KVD_FULL && l)
		printf(" needed=%llu free=%llu evictable=%llu",
		       (unsigned long long)l->full.needed_pages,
		       (unsigned long long)l->full.free_pages,
		       (unsigned long long)l->full.evictable_pages);
	printf("\n");
}

static void do_acquire(const struct command *cmd)
{
	struct prf_lease *l = prf_place_for(&client, cmd->argv[1]);
	int r = prf_acquire(&client, l, cmd->argv[2], word_number(cmd, 3, 1),
			    word_number(cmd, 4, 0), word_number(cmd, 5, 0));

	answer(r, l);
}

static void do_compute(const struct command *cmd, struct prf_lease *l)
{
	answer(prf_compute(&client, l, word_number(cmd, 2, UINT32_MAX)), l);
}

static void do_extend(const struct command *cmd, struct prf_lease *l)
{
	answer(prf_extend(&client, l, word_number(cmd, 2, 0)), l);
}

static void do_run(const struct command *cmd, struct prf_lease *l)
{
	answer(prf_run(&client, l), l);
}

static void do_info(const struct command *cmd, struct prf_lease *l)
{
	(void)prf_pump(&client, 0);
	answer(0, l);
}

static void do_verify(const struct command *cmd, struct prf_lease *l)
{
	uint32_t wrong, seen = prf_verify(&client, l, &wrong);

	printf("ok tokens=%u wrong=%u\n", seen, wrong);
}

static void do_decode(const struct command *cmd, struct prf_lease *l)
{
	answer(prf_decode(&client, l, cmd->argc > 2 ? cmd->argv[2] : ""), l);
}

static void do_fork(const struct command *cmd, struct prf_lease *l)
{
	struct prf_lease *child = prf_place_for(&client, cmd->argc > 2 ? cmd->argv[2] : "child");

	answer(prf_fork(&client, l, child), child);
}

static void do_release(const struct command *cmd, struct prf_lease *l)
{
	answer(prf_release(&client, l, cmd->argc > 2), NULL);
}

static void do_page(const struct command *cmd, struct prf_lease *l)
{
	uint32_t count, block = word_number(cmd, 2, 0);
	const uint64_t *pages = kvd_lease_pages(l->lease, 0, &count);

	printf("ok address=%llu\n", block < count ? (unsigned long long)pages[block] : 0ull);
}

static void do_peek(const struct command *cmd, struct prf_lease *l)
{
	uint32_t count, block = word_number(cmd, 2, 0);
	const uint64_t *pages = kvd_lease_pages(l->lease, 0, &count);
	uint64_t word = 0;

	if (block < count && pages[block])
		prf_gpu_copy(client.gpu, (uintptr_t)&word, pages[block], sizeof(word));
	printf("ok word=%llu\n", (unsigned long long)word);
}

/* Until ready_tokens has come so far, or there is a CALL, or a minute has passed. */
static void do_wait(const struct command *cmd, struct prf_lease *l)
{
	uint64_t end_ns = units_now_ns() + 60 * UNITS_NS_PER_S;
	struct kvd_lease_info i;

	do
		kvd_lease_info(l->lease, &i);
	while (i.ready_tokens < word_number(cmd, 2, 0) && i.state == KVD_LEASE_OK &&
	       units_now_ns() < end_ns && prf_pump(&client, 200));
	answer(client.gone ? KVD_GONE : 0, l);
}

static void do_random(const struct command *cmd)
{
	int wrong = prf_random(&client, word_number(cmd, 1, 1), word_number(cmd, 2, 100));

	printf("%s wrong=%d kept=%u\n", kvd_strresult(wrong < 0 ? KVD_GONE : 0), wrong,
	       client.kept);
}

static void do_why(const struct command *cmd)
{
	struct prf_sequence s = {0};
	struct kvd_why why = {0};
	int r = prf_append(&s, cmd->argc > 1 ? cmd->argv[1] : "");

	if (r == 0)
		r = kvd_why(client.k, client.format, s.tokens, s.count, &why);
	printf("%s cause=%u hit=%u block=%u\n", kvd_strresult(r), why.cause, why.hit_tokens,
	       why.first_missing_block);
	prf_fini(&s);
}

static void do_stat(const struct command *cmd)
{
	struct kvd_space_stat s = {0};
	int r = kvd_stat(client.k, &s);

	printf("%s nodes=%llu pages=%llu sessions=%u prompt=%llu cached=%llu\n", kvd_strresult(r),
	       (unsigned long long)s.nodes, (unsigned long long)s.pages, s.sessions,
	       (unsigned long long)s.prompt_tokens, (unsigned long long)s.cached_tokens);
}

static void do_topup(const struct command *cmd)
{
	int r = prf_topup(&client, word_number(cmd, 1, 1));

	printf("%s magazine=%u\n", kvd_strresult(r), kvd_magazine(client.k, client.format));
}

static void do_return(const struct command *cmd)
{
	int r = kvd_return(client.k, client.format, UINT32_MAX);

	printf("%s\n", kvd_strresult(r));
}

static void do_rate(const struct command *cmd)
{
	printf("%s\n", kvd_strresult(kvd_rate(client.k, client.format, word_number(cmd, 1, 0))));
}

static void do_prefetch(const struct command *cmd)
{
	struct prf_sequence s = {0};
	int r = prf_append(&s, cmd->argc > 1 ? cmd->argv[1] : "");
	struct kvd_acquire_args args = {
		.format = client.format, .tokens = s.tokens, .token_count = s.count};

	if (r == 0)
		r = kvd_prefetch(client.k, &args);
	printf("%s\n", kvd_strresult(r));
	prf_fini(&s);
}

static void do_patience(const struct command *cmd)
{
	client.patience_ms = word_number(cmd, 1, 1000);
	client.dawdle_us = word_number(cmd, 2, 0);
	printf("ok\n");
}

static void do_pump(const struct command *cmd)
{
	(void)prf_pump(&client, word_number(cmd, 1, 0));
	printf("ok gone=%d\n", client.gone);
}

/* Waits for the daemon's end. */
static void do_gone(const struct command *cmd)
{
	uint64_t end_ns = units_now_ns() + 60 * UNITS_NS_PER_S;

	while (prf_pump(&client, 60000) && units_now_ns() < end_ns)
		continue;
	printf("ok gone=%d\n", client.gone);
}

static void do_close(const struct command *cmd)
{
	kvd_close(client.k);
	client.k = NULL;
	printf("ok\n");
}

static const struct {
	const char *name;
	void (*plain)(const struct command *cmd);
	void (*on_lease)(const struct command *cmd, struct prf_lease *l);
} commands[] = {
	{"acquire", do_acquire, NULL},	 {"compute", NULL, do_compute},
	{"extend", NULL, do_extend},	 {"run", NULL, do_run},
	{"info", NULL, do_info},	 {"verify", NULL, do_verify},
	{"decode", NULL, do_decode},	 {"fork", NULL, do_fork},
	{"release", NULL, do_release},	 {"page", NULL, do_page},
	{"wait", NULL, do_wait},	 {"random", do_random, NULL},
	{"why", do_why, NULL},		 {"stat", do_stat, NULL},
	{"topup", do_topup, NULL},	 {"patience", do_patience, NULL},
	{"pump", do_pump, NULL},	 {"gone", do_gone, NULL},
	{"close", do_close, NULL},	 {"return", do_return, NULL},
	{"peek", NULL, do_peek},	 {"rate", do_rate, NULL},
	{"prefetch", do_prefetch, NULL},
};

static void obey(const struct command *cmd)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, cmd->argv[0]) != 0)
			continue;
		if (commands[i].plain) {
			commands[i].plain(cmd);
			return;
		}
		struct prf_lease *l = cmd->argc > 1 ? prf_find(&client, cmd->argv[1]) : NULL;
		if (l)
			commands[i].on_lease(cmd, l);
		else
			printf("nolease\n");
		return;
	}
	printf("usage\n");
}

/* Between commands the client does what an idle engine does: it gives slabs back that kvd wants. */
static void idle(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

	while (poll(&p, 1, client.k && !client.gone ? 20 : -1) == 0)
		(void)prf_pump(&client, 0);
}

static void obey_all(void)
{
	char line[512];

	setvbuf(stdin, NULL, _IONBF, 0);
	for (idle(); fgets(line, sizeof(line), stdin); idle()) {
		struct command cmd = {0};
		char *save = NULL;
		for (char *w = strtok_r(line, " \n", &save); w && cmd.argc < WORDS_MAX;
		     w = strtok_r(NULL, " \n", &save))
			cmd.argv[cmd.argc++] = w;
		if (cmd.argc && strcmp(cmd.argv[0], "exit") == 0)
			_exit(0);
		if (cmd.argc)
			obey(&cmd);
		fflush(stdout);
	}
}

static char why[256];

static int open_gpu(void)
{
	const char *gpu = getenv("PRF_GPU");

	return gpu ? prf_gpu_new((uint32_t)strtoul(gpu, NULL, 10), client.page.bytes, &client.gpu,
				 why, sizeof(why))
		   : 0;
}

static int open_kvd(char **argv)
{
	struct kvd_options o = {.socket_path = argv[1],
				.space = argv[2][0] == '-' ? NULL : argv[2],
				.secret = argv[3][0] == '-' ? NULL : argv[3],
				.secret_bytes = argv[3][0] == '-' ? 0 : strlen(argv[3]),
				.name = "prf_client",
				.timeout_ns = 20 * UNITS_NS_PER_S};
	struct kvd_format_args f = {
		.layout = "prf", .description = "bytes by prf", .part_count = 1};

	client.page = (struct prf_page){(uint32_t)strtoul(argv[4], NULL, 10),
					(uint32_t)strtoul(argv[5], NULL, 10)};
	client.patience_ms = 5000;
	int r = open_gpu();
	if (r < 0)
		return r;
	o.map_ops = prf_gpu_map_ops(client.gpu);
	snprintf((char *)f.identity, sizeof(f.identity), "p%u.%u", client.page.tokens,
		 client.page.bytes);
	f.page_tokens = client.page.tokens;
	f.parts[0] = (struct kvd_part_wire){.page_bytes = client.page.bytes, .align = 64};
	r = kvd_open(&o, &client.k);
	if (r != 0)
		return r;
	int device = prf_gpu_device(client.gpu, client.k, why, sizeof(why));
	if (device < 0)
		return device;
	/* A number that kvd does not have, for a test of just that. */
	f.parts[0].device = getenv("PRF_DEVICE") ? 77 : (uint32_t)device;
	return kvd_format(client.k, &f, &client.format);
}

int main(int argc, char **argv)
{
	struct kvd_info info;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc != 6) {
		fprintf(stderr, "see the head of prf_client.c\n");
		return 2;
	}
	int r = open_kvd(argv);
	if (r != 0) {
		printf("%s %s\n", kvd_strresult(r), why[0] ? why : kvd_last_error());
		return 1;
	}
	kvd_info(client.k, &info);
	printf("ok session=%u pid=%d\n", info.session, getpid());
	fflush(stdout);
	obey_all();
	kvd_close(client.k);
	prf_gpu_free(client.gpu);
	return 0;
}
