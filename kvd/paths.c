/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the socket, lock and status file, and who may open them.
 *
 * The runtime directory is where clients look for a daemon, so it must not be one that another user
 * has prepared: a directory that exists must belong to us or to root, and nobody else may write to
 * it unless it is sticky. The lock file stays when the daemon ends; removing it would let two
 * daemons hold locks on two files of one name.
 */
#include "kvd/paths.h"
#include "base/bits.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <ipc/sock.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int paths_fit(char *out, size_t out_size, const char *dir, const char *name, char *error,
		     size_t size)
{
	if ((size_t)snprintf(out, out_size, "%s/%s", dir, name) < out_size)
		return 0;
	snprintf(error, size, "%s/%s: the path is too long", dir, name);
	return -ENAMETOOLONG;
}

static void paths_dirname(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		strcpy(path, ".");
	else
		slash[slash == path] = '\0';
}

/* --runtime-dir, else where --socket lies, else where clients look. "" for a private child. */
static int paths_runtime(struct paths *p, const struct options *o, char *error, size_t size)
{
	const char *given = o->runtime_dir[0] ? o->runtime_dir : o->socket;
	int r = 0;

	if (o->socket_fd >= 0 && !o->runtime_dir[0])
		return 0;
	if (given[0])
		snprintf(p->runtime_dir, sizeof(p->runtime_dir), "%s", given);
	else
		r = sock_default_path(1, p->runtime_dir, sizeof(p->runtime_dir));
	if (r < 0) {
		snprintf(error, size, "no default for the socket: give --socket or --runtime-dir");
		return r;
	}
	if (!o->runtime_dir[0])
		paths_dirname(p->runtime_dir);
	r = paths_fit(p->status, sizeof(p->status), p->runtime_dir, "kvd.status", error, size);
	return r < 0 ? r
		     : paths_fit(p->lock, sizeof(p->lock), p->runtime_dir, "kvd.lock", error, size);
}

static int paths_socket(struct paths *p, const struct options *o, char *error, size_t size)
{
	if (o->socket_fd >= 0)
		return 0;
	if (o->socket[0])
		snprintf(p->socket, sizeof(p->socket), "%s", o->socket);
	else if (paths_fit(p->socket, sizeof(p->socket), p->runtime_dir, "kvd.sock", error, size) <
		 0)
		return -ENAMETOOLONG;
	if (strlen(p->socket) < sizeof(((struct sockaddr_un *)0)->sun_path))
		return 0;
	snprintf(error, size, "socket %s: at most %zu characters; choose another --socket",
		 p->socket, sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	return -ENAMETOOLONG;
}

/* A private child keeps no state unless it is told where. */
static int paths_state(struct paths *p, const struct options *o, char *error, size_t size)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (o->state_dir[0])
		snprintf(p->state_dir, sizeof(p->state_dir), "%s", o->state_dir);
	else if (o->socket_fd >= 0)
		return 0;
	else if (geteuid() == 0)
		snprintf(p->state_dir, sizeof(p->state_dir), "/var/lib/kvd");
	else if (xdg && xdg[0] == '/')
		return paths_fit(p->state_dir, sizeof(p->state_dir), xdg, "kvd", error, size);
	else if (home && home[0] == '/')
		return paths_fit(p->state_dir, sizeof(p->state_dir), home, ".local/state/kvd",
				 error, size);
	else {
		snprintf(error, size, "no HOME for the key seeds: give --state-dir");
		return -ENOENT;
	}
	return 0;
}

static int paths_gid(const char *option, const char *name, gid_t *out, char *error, size_t size)
{
	errno = 0;
	struct group *g = getgrnam(name);

	if (!g) {
		snprintf(error, size, "--%s %s: no such group", option, name);
		return -ENOENT;
	}
	*out = g->gr_gid;
	return 0;
}

static bool paths_in_group(gid_t gid)
{
	gid_t groups[256];
	int n = getgroups(ARRAY_LEN(groups), groups);

	if (geteuid() == 0 || getegid() == gid)
		return true;
	for (int i = 0; i < n; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

static int paths_rights(struct paths *p, const struct options *o, char *error, size_t size)
{
	struct group *usual = o->group[0] ? NULL : getgrnam("kvd");
	int r = 0;

	if (o->group[0])
		r = paths_gid("group", o->group, &p->socket_gid, error, size);
	else if (usual && paths_in_group(usual->gr_gid))
		p->socket_gid = usual->gr_gid;
	p->has_socket_gid = o->group[0] || (usual && paths_in_group(usual->gr_gid));
	p->socket_mode = o->mode ? o->mode : p->has_socket_gid ? 0660 : 0600;
	if (r == 0 && o->status_group[0])
		r = paths_gid("status-group", o->status_group, &p->status_gid, error, size);
	p->has_status_gid = o->status_group[0];
	return r;
}

int paths_init(struct paths *p, const struct options *o, char *error, size_t size)
{
	int r;

	*p = (struct paths){.lock_fd = -1};
	r = paths_runtime(p, o, error, size);
	if (r == 0)
		r = paths_socket(p, o, error, size);
	if (r == 0)
		r = paths_state(p, o, error, size);
	return r < 0 ? r : paths_rights(p, o, error, size);
}

/* mkdir -p of the parents, 0755; the last with `mode`. Whether it works shows in the check. */
static void paths_mkdir(const char *dir, mode_t mode)
{
	char path[OPTIONS_PATH_MAX];

	snprintf(path, sizeof(path), "%s", dir);
	for (char *at = path + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		(void)mkdir(path, 0755);
		*at = '/';
	}
	(void)mkdir(path, mode);
}

static int paths_dir(const char *dir, mode_t mode, char *error, size_t size)
{
	struct stat st;

	paths_mkdir(dir, mode);
	if (lstat(dir, &st) < 0) {
		int r = -errno;
		snprintf(error, size, "directory %s: %s", dir, strerror(errno));
		return r;
	}
	if (!S_ISDIR(st.st_mode) && stat(dir, &st) < 0)
		return -errno;
	bool foreign = st.st_uid != geteuid() && st.st_uid != 0;
	bool open = (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX);
	if (S_ISDIR(st.st_mode) && !foreign && !open)
		return 0;
	snprintf(error, size,
		 "directory %s: belongs to another user or anybody may write to it; choose another",
		 dir);
	return -EPERM;
}

static int paths_lock(struct paths *p, char *error, size_t size)
{
	char pid[32] = "";
	int r = 0;

	p->lock_fd = open(p->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (p->lock_fd < 0) {
		r = -errno;
		snprintf(error, size, "lock %s: %s", p->lock, strerror(errno));
	} else if (flock(p->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		r = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
		ssize_t n = pread(p->lock_fd, pid, sizeof(pid) - 1, 0);
		snprintf(
			error, size,
			"another kvd, pid %.*s, runs in %s: stop it, or give another --runtime-dir",
			n > 0 ? (int)strspn(pid, "0123456789") : 1, n > 0 ? pid : "?",
			p->runtime_dir);
		close(p->lock_fd);
		p->lock_fd = -1;
	} else {
		int n = snprintf(pid, sizeof(pid), "%d\n", getpid());
		if (ftruncate(p->lock_fd, 0) < 0 || pwrite(p->lock_fd, pid, (size_t)n, 0) != n)
			r = -EIO;
	}
	return r;
}

int paths_take(struct paths *p, char *error, size_t size)
{
	int r = 0;

	if (p->runtime_dir[0])
		r = paths_dir(p->runtime_dir, geteuid() == 0 ? 0755 : 0700, error, size);
	if (r == 0 && p->state_dir[0])
		r = paths_dir(p->state_dir, 0700, error, size);
	if (r == 0 && p->runtime_dir[0])
		r = paths_lock(p, error, size);
	return r;
}

void paths_release(struct paths *p)
{
	if (p->lock_fd >= 0)
		close(p->lock_fd);
	p->lock_fd = -1;
}
