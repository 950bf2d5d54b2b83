/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy IPC between real processes: what a handle names, who may open it, and until when. */
#include "tests/cudasim/sim.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define LAZY cudaIpcMemLazyEnablePeerAccess

/* What an exporter tells the test. */
struct offer {
	cudaIpcMemHandle_t handle;
	cudaIpcMemHandle_t other;
};

/* Steps of a pair of processes are driven by single letters over the sockets. */
static void tell(char letter)
{
	child_send(child_fd(), &letter, 1, -1);
}

static void hear(char letter)
{
	char got;

	child_receive(child_fd(), &got, 1);
	IS(got, letter);
}

/* Exports 4 MiB full of 5, then does what it is told. */
static void role_exporter(void)
{
	struct offer offer;
	uint8_t *d, *small;
	char order;

	OK(cudaMalloc((void **)&d, 4 * MIB));
	OK(cudaMalloc((void **)&small, 1000));
	OK(cudaMalloc((void **)&small, 1000));
	OK(cudaMemset(d, 5, 4 * MIB));
	OK(cudaMemset(small, 6, 1000));
	/* The handle of an interior pointer names the whole. */
	OK(cudaIpcGetMemHandle(&offer.handle, d + 3 * MIB));
	OK(cudaIpcGetMemHandle(&offer.other, small));
	IS(cudaIpcGetMemHandle(&offer.other, &offer), cudaErrorInvalidValue);
	OK(cudaDeviceSynchronize());
	child_send(child_fd(), &offer, sizeof(offer), -1);
	for (;;) {
		child_receive(child_fd(), &order, 1);
		if (order == 'f') {
			cudaError_t e = cudaFree(d);
			fprintf(stderr, "exporter: free %d, misuse %d, last %d\n", (int)e,
				(int)sim_count("misuse"), (int)cudaPeekAtLastError());
		}
		if (order == 'w')
			IS(child_byte(d + 1), 77);
		if (order == 'q')
			return;
		tell(order);
	}
}

static uint8_t *import(const struct offer *offer)
{
	uint8_t *p;

	OK(cudaIpcOpenMemHandle((void **)&p, offer->handle, LAZY));
	return p;
}

static void role_importer(void)
{
	struct offer offer;
	uint8_t *p, *again, *small;

	child_receive(child_fd(), &offer, sizeof(offer));
	IS(cudaIpcOpenMemHandle((void **)&p, offer.handle, 0), cudaErrorInvalidValue);
	p = import(&offer);
	IS(child_byte(p), 5);
	IS(child_byte(p + 4 * MIB - 1), 5);
	/* The base, not the pointer that was exported: all of it can be seen. */
	CHECK(sim_is_device(p, 4 * MIB) && !sim_is_device(p, 4 * MIB + 1));
	again = import(&offer);
	CHECK(again == p);
	OK(cudaIpcCloseMemHandle(p));
	IS(child_byte(p), 5);
	IS(cudaFree(p), cudaErrorInvalidValue);
	/* A small allocation's neighbours come with it. */
	OK(cudaIpcOpenMemHandle((void **)&small, offer.other, LAZY));
	CHECK(sim_is_device(small, 2 * MIB));
	IS(child_byte(small + 1024), 6);
	IS(child_byte(small), 0xff);
	cudaIpcMemHandle_t further;
	IS(cudaIpcGetMemHandle(&further, p), cudaErrorInvalidValue);
	/* Writes are seen on the other side. */
	OK(cudaMemset(p + 1, 77, 1));
	OK(cudaDeviceSynchronize());
	tell('w');
	hear('w');
	OK(cudaIpcCloseMemHandle(p));
	IS(cudaIpcCloseMemHandle(p), cudaErrorInvalidValue);
	IS(cudaMemset(p, 0, 1), cudaErrorInvalidValue);
	tell('q');
}

/* Maps, then says so, and goes on after the exporter's death. */
static void role_survivor(void)
{
	struct offer offer;
	size_t free_bytes, total;
	uint8_t *p;

	child_receive(child_fd(), &offer, sizeof(offer));
	p = import(&offer);
	tell('m');
	hear('d');
	OK(cudaMemset(p, 9, MIB));
	IS(child_byte(p), 9);
	IS(child_byte(p + MIB), 5);
	/* What is still mapped is counted, what is not came back. */
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 16 * MIB - 4 * MIB);
	OK(cudaIpcCloseMemHandle(p));
	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, 16 * MIB);
	IS(cudaIpcOpenMemHandle((void **)&p, offer.handle, LAZY), cudaErrorMapBufferObjectFailed);
	tell('k');
}

static void role_refused(void)
{
	struct offer offer;
	uint8_t *p;

	child_receive(child_fd(), &offer, sizeof(offer));
	int expected = atoi(getenv("EXPECTED"));
	IS(cudaIpcOpenMemHandle((void **)&p, offer.handle, LAZY), expected);
	tell('r');
}

static void role_same_process(void)
{
	cudaIpcMemHandle_t h;
	void *p;

	OK(cudaMalloc(&p, 2 * MIB));
	OK(cudaIpcGetMemHandle(&h, p));
	IS(cudaIpcOpenMemHandle(&p, h, LAZY), cudaErrorDeviceUninitialized);
	memset(&h, 1, sizeof(h));
	IS(cudaIpcOpenMemHandle(&p, h, LAZY), cudaErrorInvalidValue);
}

/* Carries one letter from one child to the other and back. */
static void relay(struct child *from, struct child *to)
{
	char letter;

	child_receive(from->fd, &letter, 1);
	child_send(to->fd, &letter, 1, -1);
	if (letter == 'q')
		return;
	child_receive(to->fd, &letter, 1);
	child_send(from->fd, &letter, 1, -1);
}

static void expect(struct child *c, char letter)
{
	char got;

	child_receive(c->fd, &got, 1);
	assert_int_equal(got, letter);
}

static struct offer offered(struct child *exporter)
{
	struct offer offer;

	child_receive(exporter->fd, &offer, sizeof(offer));
	return offer;
}

static void test_import(void **state)
{
	const char *seeds[2][2] = {{"CUDASIM_SEED=1", NULL}, {"CUDASIM_SEED=20260", NULL}};

	for (int i = 0; i < 2; i++) {
		struct child a = child_start("exporter", seeds[i]);
		struct child b = child_start("importer", seeds[i]);
		struct offer offer = offered(&a);
		child_send(b.fd, &offer, sizeof(offer), -1);
		relay(&b, &a);
		relay(&b, &a);
		assert_int_equal(child_wait(&b), 0);
		assert_int_equal(child_wait(&a), 0);
	}
}

static void test_death(void **state)
{
	const char *env[] = {"CUDASIM_MEMORY_BYTES=16M", "CUDASIM_MACHINE=death", NULL};
	struct child a = child_start("exporter", env), b = child_start("survivor", env);
	struct offer offer = offered(&a);

	child_send(b.fd, &offer, sizeof(offer), -1);
	expect(&b, 'm');
	kill(a.pid, SIGKILL);
	assert_int_equal(child_wait(&a), CHILD_SIGNAL + SIGKILL);
	child_send(b.fd, "d", 1, -1);
	expect(&b, 'k');
	assert_int_equal(child_wait(&b), 0);
}

static int refused(const char *const *exporter_env, const char *const *importer_env,
		   bool kill_first)
{
	struct child a = child_start("exporter", exporter_env);
	struct offer offer = offered(&a);

	/* Dead is dead, though nobody asked yet how it ended. */
	if (kill_first) {
		siginfo_t info;
		kill(a.pid, SIGKILL);
		assert_int_equal(waitid(P_PID, (id_t)a.pid, &info, WEXITED | WNOWAIT), 0);
	}
	struct child b = child_start("refused", importer_env);
	child_send(b.fd, &offer, sizeof(offer), -1);
	expect(&b, 'r');
	if (!kill_first)
		child_send(a.fd, "q", 1, -1);
	assert_int_equal(child_wait(&a), kill_first ? CHILD_SIGNAL + SIGKILL : 0);
	return child_wait(&b);
}

static void test_refused(void **state)
{
	const char *pid7[] = {"CUDASIM_PID=7", "EXPECTED=201", NULL};
	const char *dead[] = {"EXPECTED=205", NULL};
	const char *hidden[] = {"CUDA_VISIBLE_DEVICES=1", "EXPECTED=205", NULL};

	assert_int_equal(child_run("same_process", NULL), 0);
	/* Two namespaces, equal numbers: the driver takes them for one process. */
	assert_int_equal(refused(pid7, pid7, false), 0);
	assert_int_equal(refused(NULL, dead, true), 0);
	assert_int_equal(refused(NULL, hidden, false), 0);
}

/* A free while somebody maps the memory: told, counted, and fatal where asked. */
static void role_free_under(void)
{
	bool strict = getenv("CUDASIM_STRICT") != NULL;
	const char *env[] = {"EXPECTED=205", NULL};
	struct child b = child_start("survivor", NULL);
	cudaIpcMemHandle_t handle;
	struct offer offer;
	char letter;
	void *d;

	OK(cudaMalloc(&d, 4 * MIB));
	OK(cudaIpcGetMemHandle(&handle, d));
	offer.handle = offer.other = handle;
	child_send(b.fd, &offer, sizeof(offer), -1);
	child_receive(b.fd, &letter, 1);
	OK(cudaFree(d));
	IS(sim_count("misuse"), 1);
	/* Who has it keeps it; nobody else gets it. */
	struct child c = child_start("refused", env);
	child_send(c.fd, &offer, sizeof(offer), -1);
	child_receive(c.fd, &letter, 1);
	IS(child_wait(&c), 0);
	IS(cudaPeekAtLastError(), strict ? cudaErrorLaunchFailure : cudaSuccess);
	IS(cudaMalloc(&d, 64), strict ? cudaErrorLaunchFailure : cudaSuccess);
	kill(b.pid, SIGKILL);
	child_wait(&b);
}

/* Memory that nobody maps may be freed, and its handle is dead then. */
static void role_free_alone(void)
{
	struct child b;
	const char *env[] = {"EXPECTED=205", NULL};
	struct offer offer;
	char letter;
	void *d;

	OK(cudaMalloc(&d, 4 * MIB));
	OK(cudaIpcGetMemHandle(&offer.handle, d));
	OK(cudaFree(d));
	IS(sim_count("misuse"), 0);
	b = child_start("refused", env);
	child_send(b.fd, &offer, sizeof(offer), -1);
	child_receive(b.fd, &letter, 1);
	IS(child_wait(&b), 0);
}

static void test_freeing(void **state)
{
	const char *strict[] = {"CUDASIM_STRICT=1", NULL};

	assert_int_equal(child_run("free_under", NULL), 0);
	assert_true(child_said("cudaFree while another process maps the memory"));
	assert_int_equal(child_run("free_under", strict), 0);
	assert_int_equal(child_run("free_alone", NULL), 0);
}

/* The device is one for all processes: what one takes, the other lacks. */
static void role_taker(void)
{
	void *p;
	char letter;

	OK(cudaMalloc(&p, 10 * MIB));
	tell('t');
	child_receive(child_fd(), &letter, 1);
}

static void role_lacker(void)
{
	int expected = atoi(getenv("EXPECTED"));
	size_t free_bytes, total;
	void *p;

	OK(cudaMemGetInfo(&free_bytes, &total));
	IS(free_bytes, (expected ? 6 : 16) * MIB);
	IS(cudaMalloc(&p, 8 * MIB), expected);
	OK(cudaSetDevice(1));
	OK(cudaMalloc(&p, 8 * MIB));
}

static void test_shared_room(void **state)
{
	const char *full[] = {"CUDASIM_MEMORY_BYTES=16M", "CUDASIM_MACHINE=room", "EXPECTED=2",
			      NULL};
	const char *empty[] = {"CUDASIM_MEMORY_BYTES=16M", "CUDASIM_MACHINE=room", "EXPECTED=0",
			       NULL};
	struct child a = child_start("taker", full);

	expect(&a, 't');
	assert_int_equal(child_run("lacker", full), 0);
	kill(a.pid, SIGKILL);
	child_wait(&a);
	assert_int_equal(child_run("lacker", empty), 0);
}

/* A context does not survive a fork. */
static void role_fork(void)
{
	struct offer offer;
	void *p;
	int ok = 0;

	OK(cudaMalloc(&p, 2 * MIB));
	OK(cudaIpcGetMemHandle(&offer.handle, p));
	pid_t pid = fork();
	if (pid == 0) {
		IS(cudaMalloc(&p, 64), cudaErrorInitializationError);
		exit(0);
	}
	struct child c = {.pid = pid, .fd = dup(0)};
	ok = child_wait(&c);
	IS(ok, 0);
	/* Nor does its end take anything from the parent. */
	const char *env[] = {"EXPECTED=0", NULL};
	struct child b = child_start("refused", env);
	char letter;
	child_send(b.fd, &offer, sizeof(offer), -1);
	child_receive(b.fd, &letter, 1);
	IS(child_wait(&b), 0);
}

static void test_fork(void **state)
{
	assert_int_equal(child_run("fork", NULL), 0);
}

static const struct child_role roles[] = {
	{"exporter", role_exporter},
	{"importer", role_importer},
	{"survivor", role_survivor},
	{"refused", role_refused},
	{"free_under", role_free_under},
	{"free_alone", role_free_alone},
	{"taker", role_taker},
	{"lacker", role_lacker},
	{"fork", role_fork},
	{"same_process", role_same_process},
	{NULL, NULL},
};

CHILD_MAIN(cudasim_rt_ipc, roles, cmocka_unit_test(test_import), cmocka_unit_test(test_death),
	   cmocka_unit_test(test_refused), cmocka_unit_test(test_freeing),
	   cmocka_unit_test(test_shared_room), cmocka_unit_test(test_fork))
