/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl, the program, on a daemon with a client that holds leases: what it shows is what the client
 * did, what it steers happens, and what goes wrong is said in a sentence with the right exit
 * status.
 */
#include "base/units.h"
#include "tests/e2e/kvctl_run.h"
#include "tests/e2e/prf.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <kvd.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static struct harness_kvd kvd;
static struct harness_client a;

static int setup(void **state)
{
	harness_init(&kvd);
	kvctl_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&a, SIGKILL);
	harness_fini(&kvd);
	kvctl_fini();
	return 0;
}

#define OK(client, ...)                                                                            \
	do {                                                                                       \
		harness_ask(client, __VA_ARGS__);                                                  \
		assert_true(harness_is(client, "ok"));                                             \
	} while (0)

/* One prompt of 200 tokens is sealed but for its tail, and its lease is live. */
static void start_with_a_lease(const char *const options[])
{
	harness_start(&kvd, options);
	harness_client(&a, &kvd, NULL, NULL);
	OK(&a, "acquire x 1:200");
	OK(&a, "run x");
	OK(&a, "acquire y 1:200");
}

static uint64_t figure_sealed(const struct kvd_status *s)
{
	return s->counters[KVD_C_SEALED_BLOCKS];
}

static uint64_t figure_leases(const struct kvd_status *s)
{
	return s->leases;
}

static void test_status(void **state)
{
	start_with_a_lease(NULL);
	harness_wait_figure(&kvd, figure_sealed, 12);
	harness_wait_figure(&kvd, figure_leases, 2);
	assert_int_equal(kvctl_run("status"), 0);
	kvctl_has(kvctl_out, "kvd 0.1.0, pid ");
	kvctl_has(kvctl_out, " up ");
	kvctl_has(kvctl_out, "sealed 12 (48.00 KiB)");
	kvctl_has(kvctl_out, "1 sessions, 2 leases");
	kvctl_has(kvctl_out, "192 of 400 prompt tokens (48.0 %)");
	kvctl_has(kvctl_out, "0 KV bytes to share");
	assert_string_equal(kvctl_err, "");

	json_t *j = kvctl_json("status --json");
	assert_true(json_is_true(json_object_get(j, "alive")));
	assert_int_equal(kvctl_number(j, "pid"), kvd.pid);
	assert_int_equal(kvctl_number(j, "leases"), 2);
	assert_int_equal(kvctl_number(j, "pool_bytes"), 16 << 20);
	assert_int_equal(kvctl_number(json_object_get(j, "pages"), "sealed"), 12);
	assert_int_equal(kvctl_number(json_object_get(j, "counters"), "prompt_tokens"), 400);
	assert_int_equal(kvctl_number(json_object_get(j, "counters"), "cached_tokens"), 192);
	assert_int_equal(kvctl_number(json_object_get(j, "counters"), "kv_bytes_copied"), 0);
	assert_int_equal(json_array_size(json_object_get(j, "sessions")), 1);
	assert_int_equal(json_array_size(json_object_get(j, "devices")), 1);
	assert_int_equal(
		kvctl_number(json_array_get(json_object_get(j, "devices"), 0), "pool_bytes"),
		16 << 20);
	json_decref(j);
}

static void test_sessions(void **state)
{
	start_with_a_lease(NULL);
	json_t *j = kvctl_json("sessions --json");
	const json_t *s = NULL;
	for (size_t i = 0; i < json_array_size(j); i++)
		if (kvctl_number(json_array_get(j, i), "pid") == a.pid)
			s = json_array_get(j, i);
	assert_non_null(s);
	assert_string_equal(json_string_value(json_object_get(s, "name")), "prf_client");
	assert_int_equal(kvctl_number(s, "leases"), 2);
	assert_int_equal(kvctl_number(s, "pinned_pages"), 12);
	assert_int_equal(kvctl_number(s, "prompt_tokens"), 400);
	assert_int_equal(kvctl_number(s, "cached_tokens"), 192);
	assert_int_equal(kvctl_number(s, "sealed_blocks"), 12);
	json_decref(j);
	assert_int_equal(kvctl_run("sessions"), 0);
	kvctl_has(kvctl_out, "prf_client");
	kvctl_has(kvctl_out, "STALLED");
}

static uint64_t figure_stalled(const struct kvd_status *s)
{
	return s->sessions[0].stalled;
}

static uint64_t figure_waiting(const struct kvd_status *s)
{
	return s->waiting_requests;
}

/* It is stopped while it waits for a reply, which comes: seen by the status and by the list. */
static void test_stalled(void **state)
{
	struct harness_client b;

	start_with_a_lease((const char *[]){"--session-share=90", NULL});
	harness_client(&b, &kvd, NULL, NULL);
	OK(&b, "acquire big 2:56000");
	/* The status may still show big, as it waited for its slabs. */
	harness_wait_figure(&kvd, figure_waiting, 0);
	harness_send(&a, "acquire z 3:16000 1 60000");
	harness_wait_figure(&kvd, figure_waiting, 1);
	kill(a.pid, SIGSTOP);
	OK(&b, "release big");
	harness_wait_figure(&kvd, figure_stalled, 1);
	json_t *j = kvctl_json("sessions --json");
	assert_int_equal(kvctl_number(json_array_get(j, 0), "stalled"), 1);
	json_decref(j);
	kill(a.pid, SIGCONT);
	harness_answer(&a);
	assert_true(harness_is(&a, "ok"));
	harness_wait_figure(&kvd, figure_stalled, 0);
	harness_client_bye(&b);
}

static void test_prefixes(void **state)
{
	start_with_a_lease(NULL);
	json_t *j = kvctl_json("prefixes --json");
	assert_int_equal(json_array_size(j), 1);
	const json_t *p = json_array_get(j, 0);
	assert_int_equal(kvctl_number(p, "tokens"), 192);
	assert_int_equal(kvctl_number(p, "blocks"), 12);
	assert_int_equal(kvctl_number(p, "bytes"), 12 * 4096);
	assert_int_equal(kvctl_number(p, "pins"), 2);
	assert_int_equal(kvctl_number(p, "shared_pins"), 2);
	assert_int_equal(strlen(json_string_value(json_object_get(p, "key"))), 32);
	json_decref(j);
	assert_int_equal(kvctl_run("prefixes"), 0);
	kvctl_has(kvctl_out, "ROOT-PINS");
}

/* More records than one packet holds: each is there, once. */
static void test_many_prefixes(void **state)
{
	const size_t count = 2 * KVD_SOCK_PAYLOAD_MAX / sizeof(struct kvd_prefix_stat) + 100;

	harness_start(&kvd, NULL);
	harness_client(&a, &kvd, NULL, NULL);
	for (size_t i = 0; i < count; i++) {
		OK(&a, "acquire x %zu:16", i + 1);
		OK(&a, "run x");
		OK(&a, "release x");
	}
	json_t *j = kvctl_json("prefixes --json"), *seen = json_object();
	assert_int_equal(json_array_size(j), count);
	for (size_t i = 0; i < count; i++) {
		const json_t *p = json_array_get(j, i);
		json_object_set_new(seen, json_string_value(json_object_get(p, "key")),
				    json_true());
		assert_int_equal(kvctl_number(p, "tokens"), 16);
	}
	assert_int_equal(json_object_size(seen), count);
	json_decref(j);
	json_decref(seen);
}

static void test_slabs_formats_spaces(void **state)
{
	start_with_a_lease(NULL);
	json_t *j = kvctl_json("slabs --json");
	json_int_t sealed = 0, pages = 0;
	for (size_t i = 0; i < json_array_size(j); i++) {
		sealed += kvctl_number(json_array_get(j, i), "sealed_pages");
		pages += kvctl_number(json_array_get(j, i), "page_count");
	}
	assert_int_equal(sealed, 12);
	assert_true(pages > 12);
	json_decref(j);
	j = kvctl_json("formats --json");
	assert_int_equal(json_array_size(j), 1);
	assert_int_equal(kvctl_number(json_array_get(j, 0), "page_tokens"), 16);
	assert_int_equal(kvctl_number(json_array_get(j, 0), "block_bytes"), 4096);
	json_decref(j);
	j = kvctl_json("spaces --json");
	assert_int_equal(json_array_size(j), 1);
	assert_int_equal(kvctl_number(json_array_get(j, 0), "cached_tokens"), 192);
	assert_string_equal(json_string_value(json_object_get(json_array_get(j, 0), "name")),
			    "default");
	json_decref(j);
	assert_int_equal(kvctl_run("slabs"), 0);
	kvctl_has(kvctl_out, "STRIDE");
	assert_int_equal(kvctl_run("formats"), 0);
	kvctl_has(kvctl_out, "bytes by prf");
	assert_int_equal(kvctl_run("spaces"), 0);
	kvctl_has(kvctl_out, "CEILING");
}

/* Prometheus text: comments, and `name{labels} number` of a metric that has a TYPE. */
static double metric(char *text, const char *wanted)
{
	char type[128] = "", *save = NULL;
	double found = -1;

	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char name[128], *end;
		if (l[0] == '#') {
			(void)sscanf(l, "# TYPE %127s", type);
			continue;
		}
		char *value = strrchr(l, ' ');
		assert_non_null(value);
		double v = strtod(value + 1, &end);
		assert_true(end > value + 1 && *end == '\0');
		*value = '\0';
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(l, "{"), l);
		assert_string_equal(name, type);
		if (strcmp(l, wanted) == 0)
			found = v;
	}
	return found;
}

static void test_metrics(void **state)
{
	start_with_a_lease(NULL);
	harness_wait_figure(&kvd, figure_sealed, 12);
	assert_int_equal(kvctl_run("metrics"), 0);
	assert_true(metric(kvctl_out, "kvd_up") == 1);
	assert_int_equal(kvctl_run("metrics"), 0);
	assert_true(metric(kvctl_out, "kvd_sealed_blocks_total") == 12);
	assert_int_equal(kvctl_run("metrics"), 0);
	assert_true(metric(kvctl_out, "kvd_pages{state=\"sealed\"}") == 12);
	(void)harness_end(&kvd, SIGKILL);
	assert_int_equal(kvctl_run("metrics"), 1);
	assert_true(metric(kvctl_out, "kvd_up") == 0);
	kvctl_one_sentence();
}

/* A port that nobody has right now. */
static uint16_t free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	close(fd);
	return ntohs(at.sin_port);
}

/* The whole answer into `out`; false if nobody listens yet. */
static bool http_get(uint16_t port, const char *path)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t used = 0;
	ssize_t n;

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		close(fd);
		return false;
	}
	dprintf(fd, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
	while ((n = read(fd, kvctl_out + used, KVCTL_OUTPUT_MAX - 1 - used)) > 0)
		used += (size_t)n;
	kvctl_out[used] = '\0';
	close(fd);
	return true;
}

static void test_metrics_listen(void **state)
{
	char words[64], second[64];
	uint16_t port = free_port();

	start_with_a_lease(NULL);
	harness_wait_figure(&kvd, figure_sealed, 12);
	snprintf(words, sizeof(words), "metrics --listen :%u", port);
	pid_t server = kvctl_start(words, 0, "");
	while (!http_get(port, "/metrics"))
		assert_int_equal(waitpid(server, NULL, WNOHANG), 0);
	assert_memory_equal(kvctl_out, "HTTP/1.1 200", 12);
	char *body = strstr(kvctl_out, "\r\n\r\n");
	assert_non_null(body);
	assert_true(metric(body + 4, "kvd_sealed_blocks_total") == 12);
	assert_true(http_get(port, "/elsewhere"));
	assert_memory_equal(kvctl_out, "HTTP/1.1 404", 12);

	snprintf(second, sizeof(second), "metrics --listen 127.0.0.1:%u", port);
	assert_int_equal(kvctl_run(second), 1);
	kvctl_one_sentence();
	kvctl_has(kvctl_err, "cannot listen");
	kvctl_has(kvctl_err, strerror(EADDRINUSE));

	/* The first still serves, and sees that the daemon dies. */
	(void)harness_end(&kvd, SIGKILL);
	assert_true(http_get(port, "/metrics"));
	kvctl_has(kvctl_out, "kvd_up 0\n");
	kill(server, SIGTERM);
	assert_int_equal(kvctl_end(server), 0);
	assert_int_equal(kvctl_run("metrics --listen nowhere:nothing"), 2);
}

static void test_top(void **state)
{
	size_t screens = 0;

	start_with_a_lease(NULL);
	harness_wait_figure(&kvd, figure_sealed, 12);
	assert_int_equal(kvctl_run("top --count 2 --interval 50"), 0);
	for (const char *at = kvctl_out; (at = strstr(at, "kvd pid ")); at++)
		screens++;
	assert_int_equal(screens, 2);
	kvctl_has(kvctl_out, "prf_client");
	assert_null(strchr(kvctl_out, '\033'));
}

static void test_doctor(void **state)
{
	start_with_a_lease(NULL);
	assert_int_equal(kvctl_run("doctor"), 0);
	kvctl_has(kvctl_out, "running");
	json_t *j = kvctl_json("doctor --json");
	assert_true(json_array_size(j) > 5);
	json_decref(j);
	(void)harness_end(&kvd, SIGKILL);
	assert_int_equal(kvctl_run("doctor"), 1);
	kvctl_has(kvctl_out, "BAD   daemon");
	kvctl_has(kvctl_out, "-> it died");
}

/* Who comes during a drain is told so in its row, before it asks for anything. */
static void newcomer_sees_the_drain(void)
{
	struct kvd_options options = {.socket_path = kvd.socket, .name = "newcomer"};
	struct kvd_info info;
	struct kvd *k;

	assert_int_equal(kvd_open(&options, &k), 0);
	kvd_info(k, &info);
	assert_int_equal(info.draining, 1);
	kvd_close(k);
}

static void test_check_evict_drain(void **state)
{
	start_with_a_lease(NULL);
	assert_int_equal(kvctl_run("check"), 0);
	kvctl_has(kvctl_out, "every invariant holds");
	assert_int_equal(kvctl_run("evict"), 0);
	kvctl_has(kvctl_out, "evicted 0 pages");
	OK(&a, "release x");
	OK(&a, "release y");
	assert_int_equal(kvctl_run("evict --pages 5"), 0);
	kvctl_has(kvctl_out, "evicted 5 pages");
	assert_int_equal(kvctl_run("evict --space 0 --json"), 0);
	kvctl_has(kvctl_out, "{\"evicted_pages\": 7}");
	assert_int_equal(kvctl_run("evict --space 77"), 1);
	kvctl_has(kvctl_err, "kvctl spaces");

	assert_int_equal(kvctl_run("drain"), 0);
	harness_ask(&a, "acquire z 9:100");
	assert_true(harness_is(&a, "draining"));
	newcomer_sees_the_drain();
	assert_int_equal(kvctl_run("status"), 0);
	assert_int_equal(kvctl_run("drain --undo"), 0);
	OK(&a, "acquire z 9:100");
	OK(&a, "release z");
	harness_quiet(&kvd, 1);
}

/* All of a pool with more pages than kvd evicts in one step. */
static void test_evict_everything(void **state)
{
	const char *const options[] = {"--pool-bytes=64MiB", "--session-share=90", NULL};
	uint64_t pages = 0;

	harness_start(&kvd, options);
	harness_client(&a, &kvd, NULL, NULL);
	for (int i = 1; i <= 10; i++) {
		OK(&a, "acquire x %d:16000", i);
		OK(&a, "run x");
		OK(&a, "release x");
		pages += 1000;
	}
	assert_int_equal(kvctl_run("evict"), 0);
	assert_int_equal(strtoull(kvctl_out + strlen("evicted "), NULL, 10), pages);
	assert_int_equal(kvctl_run("evict"), 0);
	kvctl_has(kvctl_out, "evicted 0 pages");
}

/* Asks why about the tokens of this text. */
static int why(const char *text, const char *options)
{
	struct prf_sequence s = {0};
	char words[64], *input = malloc(KVCTL_OUTPUT_MAX);
	size_t used = 0;

	assert_non_null(input);
	assert_int_equal(prf_append(&s, text), 0);
	for (uint32_t i = 0; i < s.count; i++)
		used += (size_t)sprintf(input + used, "%s%u", i ? ", " : "[", s.tokens[i]);
	prf_fini(&s);
	snprintf(words, sizeof(words), "why %s", options);
	int status = kvctl_end(kvctl_start(words, 0, input));
	free(input);
	return status;
}

static void test_why(void **state)
{
	start_with_a_lease(NULL);
	assert_int_equal(why("1:192", "--format 0"), 0);
	kvctl_has(kvctl_out, "hit 192 tokens\nall full blocks are cached");
	assert_int_equal(why("1:192+2:50", "--format 0"), 0);
	kvctl_has(kvctl_out, "hit 192 tokens; then block 12: never seen");
	assert_int_equal(why("3:50", "--format 0"), 0);
	kvctl_has(kvctl_out, "hit 0 tokens; then block 0: never seen");
	assert_int_equal(why("3:5", "--format 0"), 0);
	kvctl_has(kvctl_out, "shorter than one block");
	OK(&a, "release x");
	OK(&a, "release y");
	assert_int_equal(kvctl_run("evict"), 0);
	assert_int_equal(why("1:192", "--format 0 --json"), 0);
	kvctl_has(kvctl_out, "\"cause\": \"evicted\"");
	assert_int_equal(why("1:192", "--format 99"), 1);
	kvctl_has(kvctl_err, "kvctl formats");
	assert_int_equal(why("1:192", ""), 2);
	assert_int_equal(kvctl_run("why --format 0"), 2);
	kvctl_has(kvctl_err, "token ids");
	assert_int_equal(kvctl_run("why --format 0 --tokens /nonexistent"), 2);
	kvctl_has(kvctl_err, "No such file");
}

static const char *const commands[] = {
	"status",  "top",    "sessions", "prefixes", "slabs", "formats", "spaces", "tiers",
	"metrics", "doctor", "check",	 "why",	     "evict", "verify",	 "drain",  NULL};

static void test_help(void **state)
{
	char words[64];

	assert_int_equal(kvctl_run("--help"), 0);
	kvctl_has(kvctl_out, "Exit status: 0 ok, 1 failed, 2 usage.");
	for (int i = 0; commands[i]; i++) {
		assert_int_equal(kvctl_run("help"), 0);
		kvctl_has(kvctl_out, commands[i]);
		snprintf(words, sizeof(words), "help %s", commands[i]);
		assert_int_equal(kvctl_run(words), 0);
		snprintf(words, sizeof(words), "usage: kvctl %s", commands[i]);
		kvctl_has(kvctl_out, words);
		snprintf(words, sizeof(words), "%s --help", commands[i]);
		assert_int_equal(kvctl_run(words), 0);
		kvctl_has(kvctl_out, "usage: kvctl");
	}
	assert_int_equal(kvctl_run("--version"), 0);
	assert_memory_equal(kvctl_out, "kvctl ", 6);
	assert_int_equal(kvctl_run("help nothing"), 2);
	assert_int_equal(kvctl_run(""), 2);
}

static void test_bad_options(void **state)
{
	static const char *const bad[] = {
		"nothing",	    "--nothing",	"status more",	   "status --more",
		"evict --pages",    "evict --pages 0",	"evict --pages x", "evict --space -1",
		"drain --undo=1",   "top --interval 1", "top --count x",   "why --format x",
		"metrics --listen", "sessions 1",	"check 1",	   "verify tape",
		"verify file 1",    "doctor 1",		"status --socket"};

	harness_start(&kvd, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (kvctl_run(bad[i]) != 2)
			fail_msg("kvctl %s: not 2", bad[i]);
		assert_memory_equal(kvctl_err, "kvctl: ", 7);
		assert_string_equal(kvctl_out, "");
	}
}

static void test_no_daemon(void **state)
{
	static const char *const asks[] = {"status", "sessions", "prefixes", "slabs", "formats",
					   "spaces", "tiers",	 "top",	     "check", "evict",
					   "verify", "drain",	 "metrics"};

	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		if (kvctl_run(asks[i]) != 1)
			fail_msg("kvctl %s: not 1", asks[i]);
		kvctl_one_sentence();
		kvctl_has(kvctl_err, kvd.socket);
	}
	assert_int_equal(kvctl_run("doctor"), 0);
	kvctl_has(kvctl_out, "warn  daemon");
}

static void test_dead_daemon(void **state)
{
	start_with_a_lease(NULL);
	harness_wait_figure(&kvd, figure_sealed, 12);
	assert_int_equal(harness_end(&kvd, SIGKILL), 128 + SIGKILL);
	assert_int_equal(kvctl_run("status"), 1);
	kvctl_has(kvctl_out, "DEAD");
	kvctl_has(kvctl_out, "sealed 12 (48.00 KiB)");
	kvctl_one_sentence();
	assert_int_equal(kvctl_run("status --json"), 1);
	json_t *j = json_loads(kvctl_out, 0, NULL);
	assert_true(json_is_false(json_object_get(j, "alive")));
	json_decref(j);
	assert_int_equal(kvctl_run("sessions"), 1);
	kvctl_one_sentence();
}

/* What a kvd with two GPUs leaves behind, and one that told nothing of devices. */
static void test_devices(void **state)
{
	static struct kvd_status s;

	start_with_a_lease(NULL);
	assert_int_equal(harness_end(&kvd, SIGKILL), 128 + SIGKILL);
	int fd = kvctl_file("kvd.status", O_RDWR);
	assert_int_equal(pread(fd, &s, sizeof(s), 0), sizeof(s));
	s.device_count = 2;
	s.devices[1] = (struct kvd_device_stat){
		.device = 1, .pool_bytes = 4 << 20, .slab_bytes = 1 << 20, .evictable_pages = 7};
	assert_int_equal(pwrite(fd, &s, sizeof(s), 0), sizeof(s));
	assert_int_equal(kvctl_run("status"), 1);
	kvctl_has(kvctl_out, "device 0      pool 16.00 MiB");
	kvctl_has(kvctl_out, "device 1      pool 4.00 MiB, 1.00 MiB of it made into slabs");
	kvctl_has(kvctl_out, "7 evictable");
	assert_int_equal(kvctl_run("status --json"), 1);
	json_t *j = json_loads(kvctl_out, 0, NULL);
	const json_t *second = json_array_get(json_object_get(j, "devices"), 1);
	assert_int_equal(kvctl_number(second, "pool_bytes"), 4 << 20);
	assert_int_equal(kvctl_number(second, "evictable_pages"), 7);
	json_decref(j);
	assert_int_equal(ftruncate(fd, KVD_STATUS_BYTES_MIN), 0);
	close(fd);
	assert_int_equal(kvctl_run("status"), 1);
	kvctl_has(kvctl_out, "pool 16.00 MiB");
	assert_null(strstr(kvctl_out, "device 0"));
}

/* Another user may come, and may not steer. */
static void test_not_an_admin(void **state)
{
	static const char *const asks[] = {"check", "evict", "drain", "sessions", "verify"};

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(kvd.dir, 0711), 0);
	kvctl_lend();
	start_with_a_lease((const char *[]){"--mode=0666", NULL});
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		assert_int_equal(kvctl_run_as(NOBODY, asks[i]), 1);
		kvctl_one_sentence();
		kvctl_has(kvctl_err, "root");
	}
	assert_int_equal(kvctl_run_as(NOBODY, "status"), 1);
	kvctl_one_sentence();
	kvctl_has(kvctl_err, "another user's");
	OK(&a, "acquire z 5:100");
	OK(&a, "release z");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(kvctl, TEST(test_status), TEST(test_sessions), TEST(test_stalled), TEST(test_prefixes),
	  TEST(test_many_prefixes), TEST(test_slabs_formats_spaces), TEST(test_metrics),
	  TEST(test_metrics_listen), TEST(test_devices), TEST(test_top), TEST(test_doctor),
	  TEST(test_check_evict_drain), TEST(test_evict_everything), TEST(test_why),
	  TEST(test_help), TEST(test_bad_options), TEST(test_no_daemon), TEST(test_dead_daemon),
	  TEST(test_not_an_admin))
