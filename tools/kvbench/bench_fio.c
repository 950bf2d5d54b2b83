/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs fio and reads its JSON. A tunable of glibc gives its buffers transparent huge pages: on what
 * lies side by side in memory depends how large the disk's requests are, and fio as it comes was
 * slower than it can be by half.
 *
 * Thread i of n takes the blocks i, i + n, i + 2n, ...: together they go through the file in order,
 * as threads do that take the next block from one queue.
 */
#include "tools/kvbench/bench_fio.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIO_DEPTH 64u
#define FIO_THREADS 16u /* AIO_THREADS_MAX of kvd */
#define FIO_OUTPUT_BYTES_MAX (1u << 20)

#define FIO_ARGS_MAX 20u
#define FIO_ARG_BYTES 640

struct fio_run {
	char text[FIO_ARGS_MAX][FIO_ARG_BYTES];
	char *argv[FIO_ARGS_MAX + 1];
	uint32_t count;
};

__attribute__((format(printf, 2, 3))) static void bench_fio_arg(struct fio_run *r,
								const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->text[r->count], FIO_ARG_BYTES, format, args);
	va_end(args);
	r->argv[r->count] = r->text[r->count];
	r->count++;
}

static void bench_fio_args(struct fio_run *r, const struct bench_fio *f)
{
	unsigned long long block = f->block_bytes, blocks = f->blocks;
	const char *what = f->write ? "write" : "read";

	bench_fio_arg(r, "fio");
	bench_fio_arg(r, "--name=kvbench");
	bench_fio_arg(r, "--filename=%s", f->file);
	bench_fio_arg(r, "--direct=1");
	bench_fio_arg(r, "--bs=%llu", block);
	bench_fio_arg(r, "--filesize=%llu", block * blocks);
	bench_fio_arg(r, "--thread");
	bench_fio_arg(r, "--group_reporting");
	bench_fio_arg(r, "--output-format=json");
	bench_fio_arg(r, "--iomem_align=2M");
	if (f->threads) {
		/* Twice the memory that it uses, so that what it uses is in whole huge pages. */
		bench_fio_arg(r, "--ioengine=psync");
		bench_fio_arg(r, "--iodepth=2");
		bench_fio_arg(r, "--numjobs=%u", FIO_THREADS);
		bench_fio_arg(r, "--rw=%s:%llu", what, block * (FIO_THREADS - 1));
		bench_fio_arg(r, "--offset_increment=%llu", block);
		bench_fio_arg(r, "--io_size=%llu", block * blocks / FIO_THREADS);
	} else {
		bench_fio_arg(r, "--ioengine=io_uring");
		bench_fio_arg(r, "--iodepth=%u", FIO_DEPTH);
		bench_fio_arg(r, "--rw=%s", what);
	}
}

static int bench_fio_start(struct fio_run *r, pid_t *out_pid, int *out_fd)
{
	int fds[2];

	if (pipe(fds) < 0)
		return -errno;
	*out_pid = fork();
	if (*out_pid == 0) {
		(void)dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
		execvp(r->argv[0], r->argv);
		_exit(127);
	}
	close(fds[1]);
	*out_fd = fds[0];
	if (*out_pid > 0)
		return 0;
	close(fds[0]);
	return -EAGAIN;
}

/* All of its output, whatever stands before the JSON. */
static const char *bench_fio_output(int fd)
{
	static char text[FIO_OUTPUT_BYTES_MAX];
	size_t have = 0;
	ssize_t n;

	while (have + 1 < sizeof(text) && (n = read(fd, text + have, sizeof(text) - 1 - have)) > 0)
		have += (size_t)n;
	text[have] = '\0';
	return strchr(text, '{');
}

static int bench_fio_rate(const struct bench_fio *f, const char *text, double *out)
{
	json_t *root = text ? json_loads(text, 0, NULL) : NULL;
	json_t *job = json_array_get(json_object_get(root, "jobs"), 0);
	json_t *side = json_object_get(job, f->write ? "write" : "read");
	double bytes = json_number_value(json_object_get(side, "io_bytes"));
	double ms = json_number_value(json_object_get(side, "runtime"));
	bool all = bytes + (double)FIO_THREADS * (double)f->block_bytes >
		   (double)f->block_bytes * (double)f->blocks;

	json_decref(root);
	if (ms <= 0 || !all) {
		fprintf(stderr, "kvbench: fio did not do what it should\n");
		return -EIO;
	}
	*out = bytes / (ms / 1e3);
	return 0;
}

int bench_fio_run(const struct bench_fio *f, double *out_bytes_per_s)
{
	static struct fio_run run;
	int status = 0, fd = -1;
	pid_t pid = -1;

	run = (struct fio_run){0};
	bench_fio_args(&run, f);
	int err = bench_fio_start(&run, &pid, &fd);
	if (err)
		return err;
	const char *text = bench_fio_output(fd);
	close(fd);
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
		fprintf(stderr, "kvbench: there is no fio, beside which this measures: install it "
				"(apt install fio)\n");
		return -ENOENT;
	}
	if (status != 0) {
		fprintf(stderr, "kvbench: fio failed\n");
		return -EIO;
	}
	return bench_fio_rate(f, text, out_bytes_per_s);
}
