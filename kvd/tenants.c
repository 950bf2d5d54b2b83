/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two things that are never mixed: the access secret, which a person puts in a file and clients
 * show in HELLO, and the key seed, which is ours: random, made once per namespace, it keys the
 * index's hash so that nobody outside can compute or guess keys. Both files are for their owner
 * alone; a secret that everybody can read is refused. Runs at start.
 */
#include "kvd/tenants.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TENANTS_SEED_BYTES 16

void tenants_default(struct options *o)
{
	if (o->space_count > 0)
		return;
	o->spaces[0] = (struct options_space){.name = "default", .floor_bytes = UINT64_MAX};
	o->space_count = 1;
}

/* The whole of a small file that others cannot read. Bytes, or -errno. */
static ssize_t tenants_read(const char *path, void *out, size_t size, char *error,
			    size_t error_size)
{
	struct stat st;
	ssize_t n = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 || fstat(fd, &st) < 0 || (n = read(fd, out, size)) < 0) {
		n = -errno;
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
	} else if (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) {
		n = -EPERM;
		snprintf(error, error_size, "%s: others can read or write it; chmod 600 it", path);
	}
	if (fd >= 0)
		close(fd);
	return n;
}

int tenants_secret(const struct options_space *space, struct core_space_args *out, char *error,
		   size_t size)
{
	uint8_t text[sizeof(out->secret) + 2];

	out->secret_bytes = 0;
	if (!space->secret_file[0])
		return 0;
	char why[256];
	ssize_t n = tenants_read(space->secret_file, text, sizeof(text), why, sizeof(why));
	if (n < 0) {
		snprintf(error, size, "--namespace %s: secret-file %s", space->name, why);
		return (int)n;
	}
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	if (n == 0 || n > (ssize_t)sizeof(out->secret)) {
		snprintf(error, size, "--namespace %s: secret-file %s: wants 1 to %zu bytes",
			 space->name, space->secret_file, sizeof(out->secret));
		return -EINVAL;
	}
	memcpy(out->secret, text, (size_t)n);
	out->secret_bytes = (uint32_t)n;
	return 0;
}

/* Writes a new seed aside and renames it: a crash leaves no half of one. */
static int tenants_seed_make(const char *path, const uint8_t *seed)
{
	char aside[OPTIONS_PATH_MAX + KVD_NAME_MAX + 16];
	int r = 0;

	snprintf(aside, sizeof(aside), "%s.new", path);
	(void)unlink(aside);
	int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, seed, TENANTS_SEED_BYTES) != TENANTS_SEED_BYTES || fsync(fd) < 0)
		r = errno ? -errno : -EIO;
	close(fd);
	if (r == 0 && rename(aside, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(aside);
	return r;
}

int tenants_seed(const char *state_dir, const char *name, struct entropy *entropy, uint8_t seed[16],
		 char *error, size_t size)
{
	char path[OPTIONS_PATH_MAX + KVD_NAME_MAX + 8];
	uint8_t found[TENANTS_SEED_BYTES + 1];

	memcpy(seed, entropy_take(entropy, TENANTS_SEED_BYTES), TENANTS_SEED_BYTES);
	if (!state_dir[0])
		return 0;
	snprintf(path, sizeof(path), "%s/seed-%s", state_dir, name);
	if (access(path, F_OK) < 0 && errno == ENOENT) {
		int r = tenants_seed_make(path, seed);
		if (r < 0)
			snprintf(error, size, "%s: %s", path, strerror(-r));
		return r;
	}
	ssize_t n = tenants_read(path, found, sizeof(found), error, size);
	if (n == TENANTS_SEED_BYTES) {
		memcpy(seed, found, TENANTS_SEED_BYTES);
		return 0;
	}
	if (n >= 0)
		snprintf(error, size, "%s: is not a key seed; remove it, and cached files with it",
			 path);
	return n < 0 ? (int)n : -EINVAL;
}

static int tenants_add_one(struct core *core, const struct options_space *space,
			   const char *state_dir, struct entropy *entropy, char *error, size_t size)
{
	struct core_space_args args = {
		.name = space->name,
		.floor_bytes = space->floor_bytes,
		.ceiling_bytes = space->ceiling_bytes,
	};
	int r = tenants_secret(space, &args, error, size);

	if (r == 0)
		r = tenants_seed(state_dir, space->name, entropy, args.key_seed, error, size);
	if (r < 0)
		return r;
	r = core_space_add(core, &args);
	if (r < 0)
		snprintf(error, size, "--namespace %s: %s", space->name,
			 r == -ENOSPC	? "more than --namespaces-max"
			 : r == -EINVAL ? "the floors together are more than the pool"
					: strerror(-r));
	explicit_bzero(&args, sizeof(args));
	return r < 0 ? r : 0;
}

/* Floors that cannot all be kept are no floors. */
static int tenants_check_floors(const struct options *o, uint64_t pool_bytes, char *error,
				size_t size)
{
	uint64_t left = pool_bytes;

	for (uint32_t i = 0; i < o->space_count; i++) {
		uint64_t floor_bytes = o->spaces[i].floor_bytes;
		if (floor_bytes == UINT64_MAX)
			continue;
		if (floor_bytes > left) {
			snprintf(error, size,
				 "--namespace %s: the floors together are more than the pool",
				 o->spaces[i].name);
			return -EINVAL;
		}
		left -= floor_bytes;
	}
	return 0;
}

int tenants_add(struct core *core, const struct options *o, uint64_t pool_bytes,
		const char *state_dir, struct entropy *entropy, char *error, size_t size)
{
	int r = tenants_check_floors(o, pool_bytes, error, size);

	for (uint32_t i = 0; i < o->space_count && r == 0; i++)
		r = tenants_add_one(core, &o->spaces[i], state_dir, entropy, error, size);
	return r;
}
