/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon was told. One table (options_table) is the source of argv, of the configuration
 * file, of --help and of the man page: an option that is not in it does not exist.
 */
#ifndef KVD_OPTIONS_H
#define KVD_OPTIONS_H

#include "base/option.h"
#include <kvd_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define OPTIONS_SPACES_MAX KVD_STATUS_SPACES
#define OPTIONS_UIDS_MAX 64u
#define OPTIONS_PATH_MAX 256u

struct options_space {
	char name[KVD_NAME_MAX];
	char secret_file[OPTIONS_PATH_MAX];
	uint64_t floor_bytes;	/* UINT64_MAX: the core's default */
	uint64_t ceiling_bytes; /* 0: the pool */
};

struct options_file {
	char path[OPTIONS_PATH_MAX];
	uint64_t bytes; /* 0: as large as it is */
};

/* 0, "" and -1 mean "not given": server.c and paths.c know what then holds. */
struct options {
	char config[OPTIONS_PATH_MAX];
	char socket[OPTIONS_PATH_MAX];
	char runtime_dir[OPTIONS_PATH_MAX];
	char state_dir[OPTIONS_PATH_MAX];
	char device_memory[32];
	char devices[768];
	char policy[16];
	uint64_t device_grace_ns;
	uint64_t device_timeout_ns;
	char group[64];
	char status_group[64];
	uint32_t mode;
	uint64_t pool_bytes;
	uint64_t dram_bytes; /* UINT64_MAX: not given */
	char aio[16];
	uint64_t file_timeout_ns;
	uint64_t file_retry_ns;
	uint64_t file_throttle;
	char file_store[16];
	uint64_t pages_max;
	uint64_t index_max;
	uint64_t index_tokens_max;
	uint64_t sessions_max;
	uint64_t uid_sessions_max;
	uint64_t leases_max;
	uint64_t formats_max;
	uint64_t namespaces_max;
	uint64_t session_share; /* percent of the pool */
	uint64_t workers;
	int64_t spin_us;
	uint64_t handshake_timeout_ns;
	int64_t ready_fd;
	int64_t socket_fd;
	int log_level;
	bool check_config;
	bool help;
	bool help_man;
	bool version;
	uid_t uids[OPTIONS_UIDS_MAX];
	uint32_t uid_count;
	struct options_space spaces[OPTIONS_SPACES_MAX];
	uint32_t space_count;
	struct options_file files[KVD_AREAS_MAX];
	uint32_t file_count;
};

enum options_kind {
	OPTIONS_FLAG,	    /* bool */
	OPTIONS_STRING,	    /* char[size] */
	OPTIONS_BYTES,	    /* uint64_t */
	OPTIONS_COUNT,	    /* uint64_t */
	OPTIONS_NUMBER,	    /* int64_t, not negative when given */
	OPTIONS_TIME,	    /* uint64_t, ns */
	OPTIONS_MODE,	    /* uint32_t, octal */
	OPTIONS_LEVEL,	    /* int */
	OPTIONS_UID,	    /* appends to uids */
	OPTIONS_SPACE,	    /* appends to spaces */
	OPTIONS_FILE,	    /* appends to files */
	OPTIONS_FILE_BYTES, /* of the last of them */
};

extern const struct option_row options_table[];
extern const size_t options_count;

void options_init(struct options *o);
/* enum core_store that --file-store names, or -EINVAL. */
int options_store(const struct options *o);
/*
 * argv, and the file that --config names; argv wins. 0, or -EINVAL with words in error[size].
 */
int options_parse(struct options *o, int argc, char **argv, char *error, size_t size);

#endif
