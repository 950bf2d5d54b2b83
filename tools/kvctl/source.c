/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the daemon shows. The status file is copied under its sequence lock; the writer may
 * have died in the middle of an update, so the reader gives up after a bounded number of tries and
 * then takes the torn copy only if the writer is dead.
 */
#include "tools/kvctl/source.h"

#include <base/atomic.h>
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SOURCE_TRIES 1000
#define SOURCE_RECORDS_MAX (1u << 20)

/* Field 22 of /proc/pid/stat, or 0. The name in field 2 may hold spaces: count from its ')'. */
static uint64_t source_start_ticks(uint32_t pid)
{
	char path[64], text[1024];
	uint64_t ticks = 0;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at + 1, NULL, 10);
	return ticks;
}

static int source_copy(const struct kvd_status *shared, size_t bytes, struct kvd_status *out)
{
	*out = (struct kvd_status){0};
	for (int i = 0; i < SOURCE_TRIES; i++) {
		uint32_t before = atomic_load_acquire(&shared->seq);
		memcpy(out, shared, bytes);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && atomic_load_relaxed(&shared->seq) == before)
			return 0;
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return -EAGAIN;
}

static int source_read(const char *path, struct kvd_status *out, enum source_life *out_life)
{
	struct stat st;
	int err = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || st.st_size < (off_t)KVD_STATUS_BYTES_MIN) {
		close(fd);
		return -EPROTO;
	}
	/* An older kvd tells less. */
	size_t bytes = BITS_MIN((size_t)st.st_size, sizeof(*out));
	void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -errno;
	err = source_copy(map, bytes, out);
	munmap(map, bytes);
	if (out->magic != KVD_STATUS_MAGIC || out->major != KVD_ABI_MAJOR)
		return -EPROTO;
	uint64_t ticks = source_start_ticks(out->pid);
	*out_life = ticks && ticks == out->pid_start_ticks ? SOURCE_ALIVE : SOURCE_DEAD;
	return err && *out_life == SOURCE_ALIVE ? err : 0;
}

int source_status_quiet(const struct kvctl *k, struct kvd_status *out, enum source_life *out_life)
{
	char path[300];
	const char *slash = strrchr(k->path, '/');
	int dir_bytes = slash ? (int)(slash - k->path) : 1;

	snprintf(path, sizeof(path), "%.*s/kvd.status", dir_bytes, slash ? k->path : ".");
	return source_read(path, out, out_life);
}

int source_status(const struct kvctl *k, struct kvd_status *out, enum source_life *out_life)
{
	int err = source_status_quiet(k, out, out_life);

	if (err == -ENOENT)
		fprintf(stderr,
			"kvctl: no daemon has run at %s: start `kvd`, or name another with "
			"--socket\n",
			k->path);
	else if (err == -EACCES)
		fprintf(stderr,
			"kvctl: the status file beside %s is another user's: run as that user or "
			"root, or start kvd with --status-group\n",
			k->path);
	else if (err == -EPROTO)
		fprintf(stderr, "kvctl: the status file beside %s is of another version of kvd\n",
			k->path);
	else if (err)
		fprintf(stderr, "kvctl: the status file beside %s: %s\n", k->path, strerror(-err));
	return err;
}

int source_open(const struct kvctl *k, uint64_t timeout_ns, struct kvd **out)
{
	struct kvd_options options = {.socket_path = k->path,
				      .name = "kvctl",
				      .timeout_ns = timeout_ns,
				      .hello_flags = KVD_HELLO_ADMIN};
	int err = kvd_open(&options, out);

	if (err)
		fprintf(stderr, "kvctl: %s\n", kvd_last_error());
	return err;
}

static int source_call_on(struct kvd *kvd, const struct kvd_req *req, const void *in,
			  struct kvd_rep *rep, void *out, size_t out_size)
{
	int err = kvd_call(kvd, req, in, rep, out, out_size);

	if (!err)
		err = rep->result;
	if (err)
		fprintf(stderr, "kvctl: kvd answered: %s%s\n", kvd_strresult(err),
			err == -EPERM ? " (needs root or the daemon's own user)" : "");
	return err > 0 ? -EIO : err;
}

int source_call(const struct kvctl *k, const struct kvd_req *req, const void *in,
		struct kvd_rep *rep, void *out, size_t out_size)
{
	struct kvd *kvd;
	int err = source_open(k, 0, &kvd);

	if (err)
		return err < 0 ? err : -EIO;
	err = source_call_on(kvd, req, in, rep, out, out_size);
	kvd_close(kvd);
	return err;
}

static int source_append(void **records, size_t *count, size_t record_bytes, const void *more,
			 size_t more_bytes)
{
	size_t n = more_bytes / record_bytes;

	if (more_bytes % record_bytes || *count + n > SOURCE_RECORDS_MAX)
		return -EPROTO;
	void *grown = realloc(*records, (*count + n + 1) * record_bytes);
	if (!grown)
		return -ENOMEM;
	memcpy((char *)grown + *count * record_bytes, more, more_bytes);
	*records = grown;
	*count += n;
	return 0;
}

int source_list(const struct kvctl *k, enum kvd_list_kind kind, size_t record_bytes,
		void **out_records, size_t *out_count)
{
	static uint8_t payload[KVD_SOCK_PAYLOAD_MAX];
	struct kvd_req req = {.op = KVD_OP_LIST, .arg32 = kind};
	struct kvd_rep rep;
	struct kvd *kvd;
	void *records = NULL;
	size_t count = 0;
	int err = source_open(k, 0, &kvd);

	if (err)
		return err < 0 ? err : -EIO;
	req.out_bytes = (uint32_t)(sizeof(payload) / record_bytes * record_bytes);
	do {
		err = source_call_on(kvd, &req, NULL, &rep, payload, sizeof(payload));
		if (!err)
			err = source_append(&records, &count, record_bytes, payload, rep.out_bytes);
		req.arg64 = rep.aux;
	} while (!err && rep.aux);
	kvd_close(kvd);
	if (err) {
		free(records);
		return err;
	}
	*out_records = records;
	*out_count = count;
	return 0;
}
