/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl doctor: looks at what this host gives kvd, and says for each thing that is not right what
 * to do. Exit 1 if something is broken; warnings alone are 0.
 */
#include "tools/kvctl/cmd_doctor.h"
#include "tools/kvctl/source.h"

#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

void cmd_doctor_say(struct doctor *d, enum doctor_grade grade, const char *what, const char *todo,
		    const char *format, ...)
{
	static const char *const mark[] = {"ok", "warn", "BAD"};
	char found[400];
	va_list args;

	va_start(args, format);
	vsnprintf(found, sizeof(found), format, args);
	va_end(args);
	d->worst = BITS_MAX(d->worst, grade);
	json_array_append_new(d->rows,
			      json_pack("{s:s, s:s, s:s, s:s}", "check", what, "grade", mark[grade],
					"found", found, "todo", grade == DOCTOR_GOOD ? "" : todo));
	if (d->k->json)
		return;
	printf("%-5s %-14s %s\n", mark[grade], what, found);
	if (grade != DOCTOR_GOOD)
		printf("      %-14s -> %s\n", "", todo);
}

static void cmd_doctor_kernel(struct doctor *d)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	bool fine = major > 6 || (major == 6 && minor >= 1);
	cmd_doctor_say(d, fine ? DOCTOR_GOOD : DOCTOR_BAD, "kernel", "kvd needs Linux 6.1 or newer",
		       "Linux %s", u.release);
}

static void cmd_doctor_memfd(struct doctor *d)
{
	int fd = (int)syscall(SYS_memfd_create, "kvctl-doctor", 2u /* MFD_ALLOW_SEALING */);

	cmd_doctor_say(d, fd >= 0 ? DOCTOR_GOOD : DOCTOR_BAD, "memfd",
		       "allow memfd_create in the sandbox: all shared memory is memfds", "%s",
		       fd >= 0 ? "sealed memfds work" : strerror(errno));
	if (fd >= 0)
		close(fd);
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	cmd_doctor_say(d, fd >= 0 ? DOCTOR_GOOD : DOCTOR_BAD, "pidfd",
		       "allow pidfd_open in the sandbox: death of a peer is proven by it", "%s",
		       fd >= 0 ? "pidfd_open works" : strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void cmd_doctor_limits(struct doctor *d)
{
	struct rlimit memlock, files;
	char text[32];

	getrlimit(RLIMIT_MEMLOCK, &memlock);
	getrlimit(RLIMIT_NOFILE, &files);
	bool unlimited = memlock.rlim_cur == RLIM_INFINITY;
	cmd_doctor_say(d, DOCTOR_GOOD, "memlock", "", "%s%s",
		       unlimited ? "unlimited"
				 : units_format_bytes(memlock.rlim_cur, text, sizeof(text)),
		       unlimited ? "" : ": registered I/O buffers beyond it will not be used");
	cmd_doctor_say(d, files.rlim_cur >= 1024 ? DOCTOR_GOOD : DOCTOR_WARN, "open files",
		       "raise LimitNOFILE: each session takes 6 descriptors, each slab 1",
		       "limit %" PRIu64, (uint64_t)files.rlim_cur);
}

long cmd_doctor_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long v = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &v) != 1)
		v = -1;
	fclose(f);
	return v;
}

static void cmd_doctor_huge(struct doctor *d)
{
	char mode[128] = "unknown";
	long pages = cmd_doctor_number("/proc/sys/vm/nr_hugepages");
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "r");

	if (f) {
		if (!fgets(mode, sizeof(mode), f))
			mode[0] = '\0';
		fclose(f);
		mode[strcspn(mode, "\n")] = '\0';
	}
	bool good = pages > 0 || strstr(mode, "[always]") || strstr(mode, "[advise]");
	cmd_doctor_say(d, good ? DOCTOR_GOOD : DOCTOR_WARN, "huge pages",
		       "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, or set "
		       "vm.nr_hugepages: attention reads pages faster then",
		       "%ld reserved; for shared memory: %s", pages, mode);
}

static void cmd_doctor_memory(struct doctor *d)
{
	char line[128], a[32];
	unsigned long long available_kib = 0;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &available_kib) == 1)
			break;
	if (f)
		fclose(f);
	cmd_doctor_say(d, available_kib > 1024 * 1024 ? DOCTOR_GOOD : DOCTOR_WARN, "memory",
		       "less than 1 GiB is left: set --pool-bytes, or stop something",
		       "%s available", units_format_bytes(available_kib * 1024, a, sizeof(a)));
}

static void cmd_doctor_socket(struct doctor *d)
{
	struct stat st;

	if (stat(d->k->path, &st) < 0) {
		cmd_doctor_say(d, DOCTOR_WARN, "socket",
			       "start `kvd`, or name its socket with --socket or $KVD_SOCKET",
			       "%s: %s", d->k->path, strerror(errno));
		return;
	}
	bool socket = S_ISSOCK(st.st_mode);
	bool open_to_all = st.st_mode & 0006;
	bool mine = access(d->k->path, W_OK) == 0;
	cmd_doctor_say(d,
		       !socket || !mine ? DOCTOR_BAD
		       : open_to_all	? DOCTOR_WARN
					: DOCTOR_GOOD,
		       "socket",
		       !socket ? "something else lies there: remove it"
		       : !mine ? "you may not connect: join the socket's group"
			       : "every user may connect: start kvd with --mode 0660",
		       "%s, mode %04o, uid %u, gid %u", d->k->path, st.st_mode & 07777, st.st_uid,
		       st.st_gid);
}

static void cmd_doctor_daemon(struct doctor *d)
{
	static struct kvd_status s;
	enum source_life life;
	int err = source_status_quiet(d->k, &s, &life);

	if (err == -ENOENT) {
		cmd_doctor_say(d, DOCTOR_WARN, "daemon", "start `kvd`", "no status file");
		return;
	}
	if (err) {
		cmd_doctor_say(d, DOCTOR_WARN, "daemon", "run as root or the daemon's user",
			       "status file: %s", strerror(-err));
		return;
	}
	cmd_doctor_say(d, life == SOURCE_ALIVE ? DOCTOR_GOOD : DOCTOR_BAD, "daemon",
		       "it died: see its log, then start it again", "pid %u, %s", s.pid,
		       life == SOURCE_ALIVE ? "running" : "dead");
	s.version[sizeof(s.version) - 1] = '\0';
	bool same = strcmp(s.version, kvd_version()) == 0;
	cmd_doctor_say(d, same ? DOCTOR_GOOD : DOCTOR_WARN, "versions",
		       "install kvd and kvctl of the same version", "kvd %s, kvctl %s, ABI %u.%u",
		       same ? kvd_version() : "differs", kvd_version(), s.major, s.minor);
	cmd_doctor_say(d, s.counters[KVD_C_PROTOCOL_ERRORS] ? DOCTOR_WARN : DOCTOR_GOOD, "clients",
		       "a client broke the protocol: see kvd's log for which",
		       "%" PRIu64 " protocol errors", s.counters[KVD_C_PROTOCOL_ERRORS]);
	if (life == SOURCE_ALIVE)
		cmd_doctor_tiers(d, &s);
}

static int cmd_doctor_run(struct kvctl *k, int argc, char **argv)
{
	struct doctor d = {.k = k};

	if (args_read(&cmd_doctor, argc, argv, NULL) != 0)
		return EXIT_USAGE;
	d.rows = json_array();
	cmd_doctor_kernel(&d);
	cmd_doctor_memfd(&d);
	cmd_doctor_limits(&d);
	cmd_doctor_io_uring(&d);
	cmd_doctor_huge(&d);
	cmd_doctor_memory(&d);
	cmd_doctor_socket(&d);
	cmd_doctor_daemon(&d);
	if (k->json) {
		json_dumpf(d.rows, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(d.rows);
	return d.worst == DOCTOR_BAD ? EXIT_FAILED : EXIT_OK;
}

const struct kvctl_command cmd_doctor = {
	.name = "doctor",
	.summary = "look at this host and say what is wrong and what to do",
	.text = "Kernel, memfds, pidfds, limits, io_uring, huge pages, memory, the socket and its "
		"rights,\n"
		"the daemon and its version; of its file tier which engine does the I/O, and for "
		"each\n"
		"file whether it works, can be read directly, and what is left on its disk. Exits "
		"with 1\n"
		"if something is broken; warnings alone are 0. What is allowed is asked as you: "
		"the\n"
		"daemon's user or sandbox may differ.\n"
		"JSON: [{check, grade, found, todo}].\n",
	.run = cmd_doctor_run,
};
