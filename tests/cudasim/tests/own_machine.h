/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated machine that this test alone has, with all the processes it starts, and of which
 * nothing is left on the host. A misuse breaks the process that is guilty of it.
 */
#ifndef TESTS_CUDASIM_OWN_MACHINE_H
#define TESTS_CUDASIM_OWN_MACHINE_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define OWN_MACHINE_ROOM (512ull << 20)

static char own_machine_dir[64];

static inline void own_machine_begin(void)
{
	struct statvfs fs;
	int roomy = statvfs("/dev/shm", &fs) == 0 &&
		    (unsigned long long)fs.f_bavail * fs.f_frsize >= OWN_MACHINE_ROOM;

	snprintf(own_machine_dir, sizeof(own_machine_dir), "%s/kvd-gpu-XXXXXX",
		 roomy ? "/dev/shm" : "/tmp");
	if (!mkdtemp(own_machine_dir)) {
		perror(own_machine_dir);
		exit(2);
	}
	setenv("CUDASIM_DIR", own_machine_dir, 1);
	setenv("CUDASIM_STRICT", "1", 1);
}

static inline int own_machine_remove(const char *path, const struct stat *st, int type,
				     struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline void own_machine_end(void)
{
	(void)nftw(own_machine_dir, own_machine_remove, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
