/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `auto` takes the first kind that every wanted GPU has: handles (cuda-ipc), else descriptors
 * (cuda-vmm), else the host. What it passes over is kept in words, so that a person sees why. A
 * kind that was named is taken or refused. GPUs that were named are never replaced by the host.
 */
#include "kvd/devprobe.h"
#include "base/bits.h"
#include "base/units.h"
#include "base/uuid.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const devprobe_kinds[] = {"cuda-ipc", "cuda-vmm"};

/* A number, or the beginning of a UUID as people write it. */
static bool devprobe_names(const char *word, size_t bytes, uint32_t ordinal,
			   const struct device_info *info)
{
	char uuid[UUID_TEXT], number[12];
	int digits = snprintf(number, sizeof(number), "%u", ordinal);

	if (bytes == (size_t)digits && memcmp(word, number, bytes) == 0)
		return true;
	uuid_format(info->uuid, uuid);
	return bytes > 4 && bytes < UUID_TEXT && strncasecmp(word, uuid, bytes) == 0;
}

static int devprobe_add(struct devprobe *p, uint32_t ordinal, char *error, size_t size)
{
	struct devprobe_device *d = &p->devices[p->count];

	if (p->count == KVD_DEVICES_MAX) {
		snprintf(error, size, "more than %u GPUs: choose some with --devices",
			 KVD_DEVICES_MAX);
		return -E2BIG;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		if (p->devices[i].ordinal != ordinal)
			continue;
		snprintf(error, size, "--devices: GPU %u is named twice", ordinal);
		return -EINVAL;
	}
	d->ordinal = ordinal;
	int r = p->ops->describe(ordinal, &d->info, error, size);
	p->count += r == 0;
	return r;
}

/* The one device that the word means. */
static int devprobe_find(struct devprobe *p, const char *word, size_t bytes, uint32_t count,
			 char *error, size_t size)
{
	for (uint32_t i = 0; i < count; i++) {
		struct device_info info;
		char ignored[160];
		/* One that cannot be described is found by its number alone. */
		if (p->ops->describe(i, &info, ignored, sizeof(ignored)) < 0)
			info = (struct device_info){0};
		if (devprobe_names(word, bytes, i, &info))
			return devprobe_add(p, i, error, size);
	}
	snprintf(error, size, "--devices: there is no GPU '%.*s'; this process sees %u, from 0 on",
		 (int)BITS_MIN(bytes, (size_t)64), word, count);
	return -ENODEV;
}

static int devprobe_wanted(struct devprobe *p, const char *wanted, char *error, size_t size)
{
	int count = p->ops->count(error, size);
	int r = count < 0 ? count : 0;

	for (int i = 0; i < count && r == 0 && !wanted[0]; i++)
		r = devprobe_add(p, (uint32_t)i, error, size);
	while (*wanted && r == 0) {
		size_t bytes = strcspn(wanted, ",");
		r = devprobe_find(p, wanted, bytes, (uint32_t)count, error, size);
		wanted += bytes + (wanted[bytes] == ',');
	}
	return r;
}

static int devprobe_kind(struct devprobe *p, const char *kind, const char *wanted, char *error,
			 size_t size)
{
	char why[256] = "";

	p->count = 0;
	p->ops = device_find(kind, error, size);
	if (!p->ops)
		return -ENODEV;
	int r = devprobe_wanted(p, wanted, why, sizeof(why));
	if (r < 0)
		snprintf(error, size, "device memory '%s': %s", kind, why);
	return r;
}

static int devprobe_auto(struct devprobe *p, const char *wanted, char *error, size_t size)
{
	size_t at = 0;
	int r = -ENODEV;

	p->ops = device_host();
	/* One module has all kinds: that it is missing is said once. */
	for (size_t i = 0; i < ARRAY_LEN(devprobe_kinds) && p->ops; i++) {
		char why[320] = "";
		r = devprobe_kind(p, devprobe_kinds[i], wanted, why, sizeof(why));
		if (r == 0)
			return 0;
		at += (size_t)snprintf(p->why + at, sizeof(p->why) - at, "%s%s", i ? "; " : "",
				       why);
		at = BITS_MIN(at, sizeof(p->why) - 1);
	}
	if (!wanted[0])
		return devprobe_kind(p, "host", "", error, size);
	snprintf(error, size, "--devices %s: %s", wanted, p->why);
	return r;
}

void devprobe_pools(const struct devprobe *p, uint64_t out_bytes[KVD_DEVICES_MAX])
{
	for (uint32_t i = 0; i < p->count; i++)
		out_bytes[i] = p->devices[i].info.bytes / 4 / (2 * UNITS_MIB) * (2 * UNITS_MIB);
}

int devprobe(struct devprobe *out, const char *memory, const char *wanted, char *error, size_t size)
{
	*out = (struct devprobe){0};
	if (strcmp(memory, "auto") == 0)
		return devprobe_auto(out, wanted, error, size);
	if (strcmp(memory, "host") == 0 && wanted[0]) {
		snprintf(error, size, "--devices names GPUs, but --device-memory is host");
		return -EINVAL;
	}
	return devprobe_kind(out, memory, wanted, error, size);
}
