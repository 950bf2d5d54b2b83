/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that print one kind of record each: sessions, prefixes, slabs, formats, spaces.
 * They differ in a row of a table only.
 */
#include "tools/kvctl/fields.h"
#include "tools/kvctl/source.h"

#include <stdlib.h>

static int cmd_list_run(struct kvctl *k, const struct kvctl_command *c, int argc, char **argv,
			enum kvd_list_kind kind, const struct field *fields, size_t record_bytes)
{
	void *records;
	size_t count;

	if (args_read(c, argc, argv, NULL) != 0)
		return EXIT_USAGE;
	if (source_list(k, kind, record_bytes, &records, &count) < 0)
		return EXIT_FAILED;
	if (k->json)
		json_out_print(json_out_records(fields, records, count, record_bytes));
	else
		table_print(fields, records, count, record_bytes);
	free(records);
	return EXIT_OK;
}

static int cmd_list_sessions(struct kvctl *k, int argc, char **argv)
{
	return cmd_list_run(k, &cmd_sessions, argc, argv, KVD_LIST_SESSIONS, fields_session,
			    sizeof(struct kvd_session_stat));
}

static int cmd_list_prefixes(struct kvctl *k, int argc, char **argv)
{
	return cmd_list_run(k, &cmd_prefixes, argc, argv, KVD_LIST_PREFIXES, fields_prefix,
			    sizeof(struct kvd_prefix_stat));
}

static int cmd_list_slabs(struct kvctl *k, int argc, char **argv)
{
	return cmd_list_run(k, &cmd_slabs, argc, argv, KVD_LIST_SLABS, fields_slab,
			    sizeof(struct kvd_slab_stat));
}

static int cmd_list_formats(struct kvctl *k, int argc, char **argv)
{
	return cmd_list_run(k, &cmd_formats, argc, argv, KVD_LIST_FORMATS, fields_format,
			    sizeof(struct kvd_format_stat));
}

static int cmd_list_spaces(struct kvctl *k, int argc, char **argv)
{
	return cmd_list_run(k, &cmd_spaces, argc, argv, KVD_LIST_SPACES, fields_space,
			    sizeof(struct kvd_space_stat));
}

const struct kvctl_command cmd_sessions = {
	.name = "sessions",
	.summary = "the connected processes and what they hold",
	.text = "One line per session: OPEN are pages leased for writing, PINNED sealed pages\n"
		"that it is charged for (a page that several sessions hold is charged to one\n"
		"of them), MAGAZINE open pages it keeps ahead for decoding, WAITING its\n"
		"requests that wait for memory, STALLED 1 if it leaves its replies unread.\n",
	.run = cmd_list_sessions,
};
const struct kvctl_command cmd_prefixes = {
	.name = "prefixes",
	.summary = "the cached prefixes, one line per chain",
	.text = "One line per leaf of the index. LEAF-PINS are leases that hold the chain's last\n"
		"block now, ROOT-PINS those that hold its first: more than one means that live\n"
		"sequences share it. FLAGS: 1 partial, 2 being computed, 4 pinned by PIN. Token\n"
		"text is never shown.\n",
	.run = cmd_list_prefixes,
};
const struct kvctl_command cmd_slabs = {
	.name = "slabs",
	.summary = "the allocations that pages are cut from",
	.text = "STATE: 0 being made, 1 live, 2 being retired.\n",
	.run = cmd_list_slabs,
};
const struct kvctl_command cmd_formats = {
	.name = "formats",
	.summary = "what makes pages of two engines interchangeable",
	.text = "Engines whose formats have the same identity share pages.\n",
	.run = cmd_list_formats,
};
const struct kvctl_command cmd_spaces = {
	.name = "spaces",
	.summary = "the namespaces, their quotas and hit rates",
	.text = "Nothing crosses a namespace: it has its own index, slabs and secret.\n",
	.run = cmd_list_spaces,
};
