/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/meminfo and the limits of the control groups above this process (version 2, and the
 * memory controller of version 1). What cannot be read counts as "no limit": the figure is a
 * default, printed at start, and --pool-bytes overrides it.
 */
#include "kvd/hostmem.h"
#include "base/bits.h"
#include "base/units.h"
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define HOSTMEM_POOL_MIN (64 * UNITS_MIB)
#define HOSTMEM_POOL_ALIGN (2 * UNITS_MIB)

/* A small file as text; "" if it cannot be read. */
static void hostmem_read(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

uint64_t hostmem_meminfo(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * UNITS_KIB : 0;
}

/* The smallest limit of the group and of those above it, up to the root of the hierarchy. */
static uint64_t hostmem_group_limit(const char *root, char *group, const char *file)
{
	char path[PATH_MAX + 64], text[64];
	uint64_t limit = UINT64_MAX;

	for (;;) {
		snprintf(path, sizeof(path), "%s%s/%s", root, group, file);
		hostmem_read(path, text, sizeof(text));
		if (text[0] >= '0' && text[0] <= '9')
			limit = BITS_MIN(limit, strtoull(text, NULL, 10));
		char *slash = strrchr(group, '/');
		if (!slash || !group[0])
			return limit;
		*slash = '\0';
	}
}

static uint64_t hostmem_limit(void)
{
	char text[4096], *save = NULL;
	uint64_t limit = UINT64_MAX;

	hostmem_read("/proc/self/cgroup", text, sizeof(text));
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *v1 = strstr(line, ":memory:");
		uint64_t l = UINT64_MAX;
		if (strncmp(line, "0::", 3) == 0)
			l = hostmem_group_limit("/sys/fs/cgroup", line + 3, "memory.max");
		else if (v1)
			l = hostmem_group_limit("/sys/fs/cgroup/memory", v1 + 8,
						"memory.limit_in_bytes");
		limit = BITS_MIN(limit, l);
	}
	return limit;
}

uint64_t hostmem_pool_from(uint64_t available_bytes, uint64_t limit_bytes)
{
	uint64_t pool = BITS_MIN(available_bytes / 4, limit_bytes / 2);

	return BITS_MAX(pool / HOSTMEM_POOL_ALIGN * HOSTMEM_POOL_ALIGN, HOSTMEM_POOL_MIN);
}

uint64_t hostmem_pool_default(void)
{
	char text[4096];

	hostmem_read("/proc/meminfo", text, sizeof(text));
	return hostmem_pool_from(hostmem_meminfo(text, "MemAvailable:"), hostmem_limit());
}

uint64_t hostmem_available(void)
{
	char text[4096];

	hostmem_read("/proc/meminfo", text, sizeof(text));
	return BITS_MIN(hostmem_meminfo(text, "MemAvailable:"), hostmem_limit());
}
