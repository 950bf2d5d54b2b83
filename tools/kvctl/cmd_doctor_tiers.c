/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of doctor that is about files: may there be an io_uring, which engine does the daemon
 * use and why, and for each file of the file tier whether it works, whether its file system does
 * direct I/O, and what is left on its disk.
 *
 * The paths are the daemon's, the user may be root: a path is opened by name only to look at what
 * it is (O_PATH), and read-only after it has turned out to be a regular file.
 */
#include "tools/kvctl/cmd_doctor.h"
#include "tools/kvctl/cmd_status.h"
#include "tools/kvctl/fields.h"

#include <base/log.h>
#include <base/units.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DOCTOR_URING_SYSCTL "/proc/sys/kernel/io_uring_disabled"
/* Less than this part of a disk is nearly none. */
#define DOCTOR_DISK_PARTS 100

/* 0 or -errno, as io_uring_setup() says it. */
static int cmd_doctor_try_io_uring(void)
{
	struct io_uring_params params = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 4u, &params);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Why it was refused, as far as can be told from here. */
static const char *cmd_doctor_io_uring_cause(int err)
{
	long sysctl = cmd_doctor_number(DOCTOR_URING_SYSCTL);

	if (err == -ENOSYS)
		return "this kernel has none, or the sandbox hides it";
	if (err != -EPERM)
		return strerrordesc_np(-err);
	if (sysctl == 2)
		return "kernel.io_uring_disabled is 2: for nobody";
	if (sysctl == 1)
		return "kernel.io_uring_disabled is 1: only for root and kernel.io_uring_group";
	return "the sandbox forbids it (seccomp; Docker's default profile does)";
}

void cmd_doctor_io_uring(struct doctor *d)
{
	int err = cmd_doctor_try_io_uring();

	if (err == 0)
		cmd_doctor_say(d, DOCTOR_GOOD, "io_uring", "", "allowed for uid %u", geteuid());
	else
		cmd_doctor_say(
			d, DOCTOR_WARN, "io_uring",
			"kvd does its file I/O with threads then, which costs more; to allow "
			"it: sysctl kernel.io_uring_disabled=0, and a seccomp profile with "
			"io_uring_setup, io_uring_enter and io_uring_register",
			"refused for uid %u: %s", geteuid(), cmd_doctor_io_uring_cause(err));
}

static void cmd_doctor_engine(struct doctor *d, const struct kvd_area_stat *a)
{
	char engine[sizeof(a->engine) + 1];
	int err = cmd_doctor_try_io_uring();

	log_safe(a->engine, sizeof(a->engine), engine, sizeof(engine));
	if (strcmp(engine, "threads") != 0)
		cmd_doctor_say(d, DOCTOR_GOOD, "file I/O", "", "the daemon uses %s", engine);
	else if (err < 0)
		cmd_doctor_say(d, DOCTOR_WARN, "file I/O", "see io_uring above",
			       "the daemon uses threads: io_uring is refused (%s)",
			       strerrorname_np(-err));
	else
		cmd_doctor_say(d, DOCTOR_WARN, "file I/O",
			       "see the first lines of kvd's log for why: its options, user or "
			       "sandbox differ from yours",
			       "the daemon uses threads, though io_uring is allowed here");
}

static void cmd_doctor_area(struct doctor *d, const struct kvd_area_stat *a, const char *name)
{
	if (a->state != KVD_AREA_OK)
		cmd_doctor_say(
			d, DOCTOR_BAD, "tier",
			"see kvd's log for the error, and look after the disk (dmesg, smartctl, "
			"df); what the area holds is computed anew meanwhile",
			"%s is degraded: kvd does not use it now; %" PRIu64 " errors", name,
			a->errors);
	else if (a->errors || a->bad_blocks)
		cmd_doctor_say(
			d, DOCTOR_WARN, "tier",
			"kvctl verify reads and checks all of it; see dmesg and smartctl for "
			"the disk",
			"%s works; %" PRIu64 " transfers failed, %" PRIu64 " blocks were bad", name,
			a->errors, a->bad_blocks);
	else
		cmd_doctor_say(d, DOCTOR_GOOD, "tier", "", "%s works", name);
}

/* Whether the file can be read past the page cache: 1, 0, or -errno: cannot be told. */
static int cmd_doctor_direct(int path_fd)
{
	char again[64];
	struct statx x;

	snprintf(again, sizeof(again), "/proc/self/fd/%d", path_fd);
	int fd = open(again, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		return 1;
	}
	int err = -errno;
	if (err == -EINVAL)
		return 0;
	/* No right to open it: some file systems tell all the same. */
	if (statx(path_fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) < 0 ||
	    !(x.stx_mask & STATX_DIOALIGN))
		return err;
	return x.stx_dio_offset_align > 0;
}

static void cmd_doctor_file(struct doctor *d, int fd, const char *name)
{
	int direct = cmd_doctor_direct(fd);
	struct statvfs disk;
	char left[32], size[32];

	if (direct < 0)
		cmd_doctor_say(d, DOCTOR_WARN, "direct I/O", "run as root or the daemon's user",
			       "%s: %s", name, strerrordesc_np(-direct));
	else
		cmd_doctor_say(d, direct ? DOCTOR_GOOD : DOCTOR_WARN, "direct I/O",
			       "each block lies in the page cache too: put the file on ext4 or xfs",
			       "the file system of %s has %sO_DIRECT", name, direct ? "" : "no ");
	if (fstatvfs(fd, &disk) < 0)
		return;
	cmd_doctor_say(
		d, disk.f_bavail < disk.f_blocks / DOCTOR_DISK_PARTS ? DOCTOR_WARN : DOCTOR_GOOD,
		"disk space",
		"the file has all of its room, what else is on that disk has none: free some",
		"%s: %s of %s left", name,
		units_format_bytes(disk.f_bavail * disk.f_frsize, left, sizeof(left)),
		units_format_bytes(disk.f_blocks * disk.f_frsize, size, sizeof(size)));
}

static void cmd_doctor_look(struct doctor *d, const struct kvd_area_stat *a, const char *name)
{
	char path[sizeof(a->path) + 1];
	struct stat st;

	snprintf(path, sizeof(path), "%.*s", (int)sizeof(a->path), a->path);
	/* The status has the end of a long path only. */
	if (path[0] != '/')
		return;
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		cmd_doctor_say(d, errno == EACCES ? DOCTOR_WARN : DOCTOR_BAD, "tier file",
			       errno == EACCES ? "run as root or the daemon's user"
					       : "was it removed? kvd makes it anew when it is "
						 "started again",
			       "%s: %s", name, strerror(errno));
		return;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		cmd_doctor_file(d, fd, name);
	else
		cmd_doctor_say(d, DOCTOR_BAD, "tier file", "something else lies there: remove it",
			       "%s is no regular file", name);
	close(fd);
}

void cmd_doctor_tiers(struct doctor *d, const struct kvd_status *s)
{
	uint32_t count = cmd_status_areas(s);
	bool engine_said = false;

	for (uint32_t i = 0; i < count; i++) {
		const struct kvd_area_stat *a = &s->areas[i];
		char name[sizeof(a->path) + 1];

		log_safe(a->path, sizeof(a->path), name, sizeof(name));
		if (!name[0])
			snprintf(name, sizeof(name), "%s", fields_tier(a->tier));
		if (a->tier == KVD_TIER_FILE && !engine_said) {
			cmd_doctor_engine(d, a);
			engine_said = true;
		}
		cmd_doctor_area(d, a, name);
		if (a->tier == KVD_TIER_FILE)
			cmd_doctor_look(d, a, name);
	}
}
