/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kvengine was told. One table is the source of argv, of the configuration file, of --help
 * and of the manual page: an option that is not in it does not exist.
 */
#ifndef ENGINE_SETTINGS_H
#define ENGINE_SETTINGS_H

#include "base/option.h"
#include <engine/engine.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SETTINGS_TEXT_MAX 512u

/* "" and 0 mean "not given" where nothing else is said. */
struct settings {
	char config[SETTINGS_TEXT_MAX];
	char model[SETTINGS_TEXT_MAX];
	char host[SETTINGS_TEXT_MAX];
	char chat_template[SETTINGS_TEXT_MAX];
	char served_model_name[SETTINGS_TEXT_MAX];
	char kvd[SETTINGS_TEXT_MAX];
	char socket[SETTINGS_TEXT_MAX];
	char space[SETTINGS_TEXT_MAX];
	char secret_file[SETTINGS_TEXT_MAX];
	char kvd_program[SETTINGS_TEXT_MAX];
	char name[SETTINGS_TEXT_MAX];
	char device[SETTINGS_TEXT_MAX];
	char log_level[SETTINGS_TEXT_MAX];
	char overlap[SETTINGS_TEXT_MAX];
	char dtype[SETTINGS_TEXT_MAX];
	uint64_t port;
	uint64_t connections;
	uint64_t threads;
	uint64_t page_tokens;
	uint64_t context;
	uint64_t batch_tokens;
	uint64_t chunk_tokens;
	uint64_t sequences;
	uint64_t queue;
	uint64_t pool_bytes;
	uint64_t memory_bytes;
	uint64_t kvd_wait_ns;
	uint64_t ready_fd; /* UINT64_MAX: none */
	bool print_plan;
	bool check_config;
	bool eager;
	bool help;
	bool help_man;
	bool version;
};

enum settings_kind { SETTINGS_FLAG, SETTINGS_TEXT, SETTINGS_NUMBER, SETTINGS_BYTES, SETTINGS_TIME };

extern const struct option_row settings_table[];
extern const size_t settings_count;

/* argv, and the file that --config names; argv wins. 0 or -EINVAL with a sentence in error. */
int settings_parse(struct settings *s, int argc, char **argv, char *error, size_t size);

#endif
