/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads argv and the configuration file by one table. The file has lines `name = value` with the
 * names of the flags, `#` starts a comment; a flag without a value is `name = yes` or `no`. What
 * argv says wins over the file, and lists (--namespace, --allow-uid, --file) of argv replace those
 * of the file. Pure but for reading that file; runs once, before any thread.
 */
#include "kvd/options.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/core/evict.h"
#include "kvd/option_value.h"
#include <string.h>

#define AT(field) OPTION_FIELD(struct options, field)

const struct option_row options_table[] = {
	{"config", OPTIONS_STRING, "FILE", "General",
	 "Read options from FILE: lines `name = value` with the names of these flags; `#` starts a "
	 "comment. The command line wins.",
	 AT(config), .command_line = true},
	{"check-config", OPTIONS_FLAG, NULL, "General",
	 "Check everything that was given, print what would hold with its bytes, and exit.",
	 AT(check_config), .command_line = true},
	{"log-level", OPTIONS_LEVEL, "LEVEL", "General",
	 "error, warning, info (default) or debug. The log goes to stderr.", AT(log_level)},
	{"help", OPTIONS_FLAG, NULL, "General", "Print this text and exit.", AT(help),
	 .command_line = true},
	{"help-man", OPTIONS_FLAG, NULL, "General", "Print the manual page as roff and exit.",
	 AT(help_man), .command_line = true},
	{"version", OPTIONS_FLAG, NULL, "General", "Print the version and exit.", AT(version),
	 .command_line = true},

	{"pool-bytes", OPTIONS_BYTES, "BYTES", "Memory",
	 "Size of the pool of KV pages, as 8GiB; each GPU has one of this size. Slabs are made on "
	 "demand, up to this. Default: a quarter of the available memory, but at most half of the "
	 "control group's limit; of a GPU a quarter of its own memory.",
	 AT(pool_bytes), .min = 1 << 20, .max = 1ull << 50},
	{"device-memory", OPTIONS_STRING, "NAME", "Memory",
	 "Where pages live: `host`, GPU memory as `cuda-ipc` or `cuda-vmm`, or `auto` (default): "
	 "the first of cuda-ipc, cuda-vmm and host that works here.",
	 AT(device_memory)},
	{"devices", OPTIONS_STRING, "LIST", "Memory",
	 "GPUs to have slabs on, as numbers or UUIDs: 0,1. Default: all that are visible.",
	 AT(devices)},
	{"device-grace", OPTIONS_TIME, "TIME", "Memory",
	 "On GPUs: how long pages of a dead process wait, after its driver has let go of it, "
	 "before they are used again. Default: 100ms.",
	 AT(device_grace_ns), .min = UNITS_NS_PER_MS, .max = 3600 * UNITS_NS_PER_S},
	{"device-timeout", OPTIONS_TIME, "TIME", "Memory",
	 "On GPUs: a slab that is not made by then is given up, and the GPU is asked for no other "
	 "until its driver answers again. Default: 10s.",
	 AT(device_timeout_ns), .min = UNITS_NS_PER_MS, .max = 3600 * UNITS_NS_PER_S},
	{"pages-max", OPTIONS_COUNT, "N", "Memory",
	 "Page records; each GPU has a part as large as its pool. Default: one per 64 KiB of pool, "
	 "at least 16384 for each, at most 4194304.",
	 AT(pages_max), .min = 64, .max = 1u << 28},
	{"index-max", OPTIONS_COUNT, "N", "Memory",
	 "Entries of the prefix index. Default: twice --pages-max, and one per 256 KiB of tiers, "
	 "at most 16777216 of those.",
	 AT(index_max), .min = 64, .max = 1u << 28},
	{"index-tokens-max", OPTIONS_COUNT, "N", "Memory",
	 "Token ids kept in the index, 4 bytes each. Default: 64 per page record, and per entry "
	 "for tiers.",
	 AT(index_tokens_max), .min = 1024, .max = 1ull << 36},
	{"policy", OPTIONS_STRING, "NAME", "Memory",
	 "What goes first when pages are needed: `cost` (default), what is least likely to be "
	 "asked for again by its uses and its age; `lru`, the least recently used; `s3fifo`, what "
	 "nobody used again.",
	 AT(policy)},
	{"formats-max", OPTIONS_COUNT, "N", "Memory", "Formats known at once. Default: 4096.",
	 AT(formats_max), .min = 1, .max = 65536},
	{"workers", OPTIONS_COUNT, "N", "Memory", "Threads that make and free slabs. Default: 2.",
	 AT(workers), .min = 1, .max = 64},

	{"dram-bytes", OPTIONS_BYTES, "BYTES", "Tiers",
	 "Host memory for blocks that leave a GPU, pinned at start; 0: none. Default: with GPUs a "
	 "quarter of the available memory, but at most half of the control group's limit; none "
	 "where pages are host memory anyway, and none for a private child.",
	 AT(dram_bytes), .max = 1ull << 50},
	{"file", OPTIONS_FILE, "PATH", "Tiers",
	 "Keep blocks in this file too, which is made if it is missing (0600) and survives the "
	 "daemon; may be repeated, one for each disk. A private child has none.",
	 0, 0},
	{"file-bytes", OPTIONS_FILE_BYTES, "BYTES", "Tiers",
	 "Size of the --file before it, all of it allocated at start. Default: as large as it is.",
	 0, 0, .min = 256ull << 20, .max = 1ull << 44},
	{"aio", OPTIONS_STRING, "NAME", "Tiers",
	 "How files are read and written: `io_uring`, `threads`, or `auto` (default): io_uring "
	 "where the kernel allows it.",
	 AT(aio)},
	{"file-store", OPTIONS_STRING, "WHAT", "Tiers",
	 "Which blocks are written to files: `likely` (default), those that are likely to be used "
	 "while they are there; `used`, only those that have been used again, which spares the "
	 "disk and loses hits where the files are large; `all`.",
	 AT(file_store)},
	{"file-timeout", OPTIONS_TIME, "TIME", "Tiers",
	 "Nobody waits longer than this for a file, which is then degraded until it answers "
	 "again. Default: 10s.",
	 AT(file_timeout_ns), .min = UNITS_NS_PER_MS, .max = 3600 * UNITS_NS_PER_S},
	{"file-retry", OPTIONS_TIME, "TIME", "Tiers",
	 "For tests: a degraded file is tried again after this, and then after ever longer. "
	 "Default: 30s.",
	 AT(file_retry_ns), .min = UNITS_NS_PER_MS, .max = 3600 * UNITS_NS_PER_S},
	{"file-throttle", OPTIONS_BYTES, "BYTES", "Tiers",
	 "For tests: make each file no faster than this many bytes a second. Default: no limit.",
	 AT(file_throttle), .min = 1024, .max = 1ull << 50},

	{"socket", OPTIONS_STRING, "PATH", "Connections",
	 "The socket. Default: kvd.sock in the runtime directory.", AT(socket)},
	{"runtime-dir", OPTIONS_STRING, "DIR", "Connections",
	 "Holds socket, lock and status file; made if missing. Default: the socket's directory, "
	 "else /run/kvd for root, $XDG_RUNTIME_DIR/kvd, or /tmp/kvd-UID.",
	 AT(runtime_dir)},
	{"group", OPTIONS_STRING, "NAME", "Connections",
	 "Group that owns the socket. Default: `kvd` if there is one and the daemon may use it.",
	 AT(group)},
	{"mode", OPTIONS_MODE, "OCTAL", "Connections",
	 "Mode of the socket. Default: 0660 with a group, else 0600.", AT(mode), .max = 0777},
	{"allow-uid", OPTIONS_UID, "UID", "Connections",
	 "Accept this user only (and root, and the daemon's own); may be repeated. Default: "
	 "whoever may open the socket.",
	 0, 0},
	{"sessions-max", OPTIONS_COUNT, "N", "Connections", "Sessions at once. Default: 64.",
	 AT(sessions_max), .min = 1, .max = KVD_STATUS_SESSIONS},
	{"uid-sessions-max", OPTIONS_COUNT, "N", "Connections",
	 "Sessions of one user other than root and the daemon's own. Default: three quarters of "
	 "--sessions-max.",
	 AT(uid_sessions_max), .min = 1, .max = KVD_STATUS_SESSIONS},
	{"leases-max", OPTIONS_COUNT, "N", "Connections",
	 "Leases of all sessions together. Default: 16384.", AT(leases_max), .min = 1,
	 .max = 1u << 20},
	{"session-share", OPTIONS_COUNT, "PERCENT", "Connections",
	 "Part of the pool that one session may hold open or pinned. Default: 50.",
	 AT(session_share), .min = 1, .max = 100},
	{"handshake-timeout", OPTIONS_TIME, "TIME", "Connections",
	 "A connection that has not said HELLO by then is closed. Default: 5s.",
	 AT(handshake_timeout_ns), .min = UNITS_NS_PER_MS, .max = 3600 * UNITS_NS_PER_S},
	{"spin-us", OPTIONS_NUMBER, "N", "Connections",
	 "Microseconds to look for work before sleeping. Default: 0 on one or two processors, "
	 "else 20.",
	 AT(spin_us), .max = 1000000},

	{"namespace", OPTIONS_SPACE, "NAME[,secret-file=F][,floor=BYTES][,ceiling=BYTES]",
	 "Namespaces",
	 "A tenant: nothing crosses between namespaces. The secret is what F holds, 1 to 64 "
	 "bytes. Below `floor` nobody else can evict it, above `ceiling` it gets nothing. May be "
	 "repeated. Default: one namespace, `default`, without a secret.",
	 0, 0},
	{"namespaces-max", OPTIONS_COUNT, "N", "Namespaces", "Namespaces at most. Default: 64.",
	 AT(namespaces_max), .min = 1, .max = KVD_STATUS_SPACES},
	{"state-dir", OPTIONS_STRING, "DIR", "Namespaces",
	 "Keeps the key seed of each namespace (0600). Default: /var/lib/kvd for root, else "
	 "$XDG_STATE_HOME/kvd or ~/.local/state/kvd.",
	 AT(state_dir)},

	{"status-group", OPTIONS_STRING, "NAME", "Supervision",
	 "Group that may read the status file. Default: the daemon's user alone.",
	 AT(status_group)},
	{"ready-fd", OPTIONS_NUMBER, "FD", "Supervision",
	 "Write one line `ready SOCKET` to this descriptor when clients can connect, then close "
	 "it.",
	 AT(ready_fd), .max = 1 << 20},
	{"socket-fd", OPTIONS_NUMBER, "FD", "Supervision",
	 "Be a private child: serve the one peer at the other end of this connected socket, bind "
	 "nothing, and end when it hangs up.",
	 AT(socket_fd), .max = 1 << 20, .command_line = true},
};
const size_t options_count = ARRAY_LEN(options_table);

void options_init(struct options *o)
{
	*o = (struct options){
		.device_memory = "auto",
		.policy = "cost",
		.dram_bytes = UINT64_MAX,
		.aio = "auto",
		.file_store = "likely",
		.file_timeout_ns = 10 * UNITS_NS_PER_S,
		.file_retry_ns = 30 * UNITS_NS_PER_S,
		.device_grace_ns = 100 * UNITS_NS_PER_MS,
		.device_timeout_ns = 10 * UNITS_NS_PER_S,
		.sessions_max = 64,
		.leases_max = 16384,
		.formats_max = 4096,
		.namespaces_max = KVD_STATUS_SPACES,
		.session_share = 50,
		.workers = 2,
		.spin_us = -1,
		.handshake_timeout_ns = 5 * UNITS_NS_PER_S,
		.ready_fd = -1,
		.socket_fd = -1,
		.log_level = LOG_INFO,
	};
}

/* `where` ("--name", "FILE:LINE: name") opens the message. */
static int options_set(struct options *o, const struct option_row *row, const char *where,
		       const char *value, char *error, size_t size)
{
	char why[200] = "";

	if (option_value_set(o, row, value, why, sizeof(why)) == 0)
		return 0;
	snprintf(error, size, "%s: %s", where, why);
	return -EINVAL;
}

static int options_line(struct options *o, const char *path, unsigned int number, char *text,
			char *error, size_t size)
{
	char where[OPTIONS_PATH_MAX + 80];
	char *line = option_trim(text);
	char *equals = strchr(line, '=');

	if (!*line)
		return 0;
	if (!equals) {
		snprintf(error, size, "%s:%u: not of the form `name = value`", path, number);
		return -EINVAL;
	}
	*equals = '\0';
	const char *name = option_trim(line);
	const struct option_row *row =
		option_find(options_table, options_count, name, strlen(name));
	snprintf(where, sizeof(where), "%s:%u: %.40s", path, number, name);
	if (!row || row->command_line) {
		snprintf(error, size, "%s: %s", where,
			 row ? "only on the command line" : "no such option; see --help");
		return -EINVAL;
	}
	return options_set(o, row, where, option_trim(equals + 1), error, size);
}

static int options_file(struct options *o, const char *path, char *error, size_t size)
{
	char line[1024];
	unsigned int number = 0;
	int r = 0;
	FILE *f = fopen(path, "re");

	if (!f) {
		snprintf(error, size, "--config %s: %s", path, strerror(errno));
		return -EINVAL;
	}
	while (r == 0 && fgets(line, sizeof(line), f)) {
		number++;
		if (!strchr(line, '\n') && !feof(f)) {
			snprintf(error, size, "%s:%u: the line is too long", path, number);
			r = -EINVAL;
		} else {
			r = options_line(o, path, number, line, error, size);
		}
	}
	fclose(f);
	return r;
}

/* The option at argv[*at]; steps over the value if it is a word of its own. */
static int options_word(struct options *o, int argc, char **argv, int *at, char *error, size_t size)
{
	const char *word = argv[*at];
	const char *value;
	const struct option_row *row =
		option_word(options_table, options_count, argc, argv, at, &value);
	char where[64];

	if (!row) {
		snprintf(error, size, "'%s': no such option; see --help", word);
		return -EINVAL;
	}
	if (!value) {
		snprintf(error, size, "--%s: wants %s", row->name, row->arg);
		return -EINVAL;
	}
	snprintf(where, sizeof(where), "--%s", row->name);
	return options_set(o, row, where, value, error, size);
}

static int options_words(struct options *o, int argc, char **argv, char *error, size_t size)
{
	int r = 0;

	for (int i = 1; i < argc && r == 0; i++)
		r = options_word(o, argc, argv, &i, error, size);
	return r;
}

/* Names that are one of a few. */
int options_store(const struct options *o)
{
	static const char *const names[] = {
		[CORE_STORE_LIKELY] = "likely",
		[CORE_STORE_USED] = "used",
		[CORE_STORE_ALL] = "all",
	};

	for (uint32_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(o->file_store, names[i]) == 0)
			return (int)i;
	return -EINVAL;
}

static int options_names(const struct options *o, char *error, size_t size)
{
	if (!evict_policy(o->policy)) {
		snprintf(error, size, "--policy: %s is none of lru, s3fifo, cost", o->policy);
		return -EINVAL;
	}
	if (strcmp(o->aio, "auto") != 0 && strcmp(o->aio, "io_uring") != 0 &&
	    strcmp(o->aio, "threads") != 0) {
		snprintf(error, size, "--aio: %s is none of auto, io_uring, threads", o->aio);
		return -EINVAL;
	}
	if (options_store(o) < 0) {
		snprintf(error, size, "--file-store: %s is none of likely, used, all",
			 o->file_store);
		return -EINVAL;
	}
	return 0;
}

/* Twice over argv: the first pass finds --config, whose file then gives the ground for the second.
 */
int options_parse(struct options *o, int argc, char **argv, char *error, size_t size)
{
	static struct options given; /* large; parsing runs once, on one thread */

	options_init(&given);
	int r = options_words(&given, argc, argv, error, size);
	if (r < 0)
		return r;
	options_init(o);
	if (given.config[0] && !given.help && !given.version && !given.help_man)
		r = options_file(o, given.config, error, size);
	if (r < 0)
		return r;
	if (given.space_count)
		o->space_count = 0;
	if (given.uid_count)
		o->uid_count = 0;
	if (given.file_count) {
		memset(o->files, 0, sizeof(o->files));
		o->file_count = 0;
	}
	r = options_words(o, argc, argv, error, size);
	return r < 0 ? r : options_names(o, error, size);
}
