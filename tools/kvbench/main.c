/* SPDX-License-Identifier: Apache-2.0 */
/* kvbench: reads the options, runs the benches that were named. */
#include "tools/kvbench/bench.h"

#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAIN_FILE_BYTES_MAX (1ull << 40)
#define MAIN_BLOCK_BYTES_MAX (32ull << 20)

static const struct {
	const char *name;
	const char *summary;
	int (*run)(const struct bench *b);
} main_benches[] = {
	{"gemm", "matrix products at the model's shapes, against the measured FLOP/s",
	 bench_gemm_run},
	{"attention", "flash attention over pages, prefill and decode", bench_attention_run},
	{"ops", "each operation of a device's table, beside its measured limits", bench_ops_run},
	{"prefill", "tokens per second of a whole prefill; needs --model", bench_prefill_run},
	{"decode", "tokens per second of decoding, at depths; needs --model", bench_decode_run},
	{"acquire", "match and pin a cached prefix through a real daemon", bench_acquire_run},
	{"ring", "a message to the daemon and back, spinning and sleeping", bench_ring_run},
	{"replay", "what each eviction policy finds of a trace: replay TRACE", bench_replay_run},
	{"io", "pages of a live pool to a file and back, beside fio", bench_io_run},
	{"offload", "a running stream while pages are stored; needs --model", bench_offload_run},
	{"restart", "a file tier comes back after a restart and a kill", bench_restart_run},
};

static void main_help(void)
{
	printf("usage: kvbench [OPTION]... BENCH...\n\n"
	       "Measures, beside the physical limits measured in the same run.\n\n");
	for (size_t i = 0; i < ARRAY_LEN(main_benches); i++)
		printf("  %-10s %s\n", main_benches[i].name, main_benches[i].summary);
	printf("\n  --json         one object a line: bench, case, value, unit, limit, fraction\n"
	       "  --device NAME  kernels of all but acquire, ring, replay: cpu, cpu:ISA, cuda:N\n"
	       "  --rows N       of a launch of ops, default: 512, on a GPU 4096; of a chunk of\n"
	       "                 prefill, default: 512, on a GPU 2048\n"
	       "  --threads N    threads of the kernels; default: one per core\n"
	       "  --model FILE   a GGUF file; default: $KVD_MODEL\n"
	       "  --kvd FILE     the daemon's program; default: beside this one, then PATH\n"
	       "  --repeat N     samples for each median\n"
	       "  --case NAME    only the case of this name, as pp512\n"
	       "  --policy NAME  of replay: lru, s3fifo or cost (default)\n"
	       "  --blocks N     of replay: a pool of that many; default: 1000 to 50000\n"
	       "  --file-blocks N  of replay: the same with a file tier of that many below it\n"
	       "  --file PATH    of io, offload, restart: the tier's file, which is made and "
	       "removed;\n"
	       "                 default: in /var/tmp\n"
	       "  --file-bytes N   of io: moved in each sample; default: 3GiB\n"
	       "  --block-bytes N  of io: of a page; default: 1440KiB, 64 tokens of SmolLM2\n"
	       "  --help         this help\n"
	       "  --version      print the version\n"
	       "\nExit status: 0 ok, 1 failed, 2 usage.\n");
}

/* ../../kvd/kvd in a build folder, else kvd beside this program, else from PATH. */
static const char *main_kvd_program(void)
{
	static char path[4200];
	static const char *const beside[] = {"../../kvd/kvd", "kvd"};
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		for (size_t i = 0; i < ARRAY_LEN(beside); i++) {
			snprintf(path, sizeof(path), "%s/%s", self, beside[i]);
			if (access(path, X_OK) == 0)
				return path;
		}
	}
	return "kvd";
}

static int main_bytes(const char *text, uint64_t max, uint64_t *out)
{
	uint64_t v;

	if (units_parse_bytes(text, &v) < 0 || v == 0 || v > max) {
		fprintf(stderr, "kvbench: %s is not a number of bytes from 1 to %llu\n", text,
			(unsigned long long)max);
		return -EINVAL;
	}
	*out = v;
	return 0;
}

static int main_number(const char *text, uint32_t *out)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (end == text || *end || v == 0 || v > 100000) {
		fprintf(stderr, "kvbench: %s is not a number from 1 to 100000\n", text);
		return -EINVAL;
	}
	*out = (uint32_t)v;
	return 0;
}

/* 0: go on; else exit status + 1. */
static int main_options(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{"device", required_argument, NULL, 'd'},
						{"rows", required_argument, NULL, 'R'},
						{"threads", required_argument, NULL, 't'},
						{"model", required_argument, NULL, 'm'},
						{"kvd", required_argument, NULL, 'k'},
						{"repeat", required_argument, NULL, 'r'},
						{"case", required_argument, NULL, 'c'},
						{"policy", required_argument, NULL, 'p'},
						{"blocks", required_argument, NULL, 'b'},
						{"file-blocks", required_argument, NULL, 'f'},
						{"file", required_argument, NULL, 'F'},
						{"file-bytes", required_argument, NULL, 'B'},
						{"block-bytes", required_argument, NULL, 'P'},
						{"help", no_argument, NULL, 'h'},
						{"version", no_argument, NULL, 'v'},
						{0}};
	int c, err = 0;

	while (!err && (c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'j')
			b->json = true;
		else if (c == 't')
			err = main_number(optarg, &b->threads);
		else if (c == 'R')
			err = main_number(optarg, &b->rows);
		else if (c == 'd')
			b->device = optarg;
		else if (c == 'm')
			b->model = optarg;
		else if (c == 'k')
			b->kvd_program = optarg;
		else if (c == 'r')
			err = main_number(optarg, &b->repeat);
		else if (c == 'c')
			b->only = optarg;
		else if (c == 'p')
			b->policy = optarg;
		else if (c == 'b')
			err = main_number(optarg, &b->blocks);
		else if (c == 'f')
			err = main_number(optarg, &b->file_blocks);
		else if (c == 'F')
			b->file = optarg;
		else if (c == 'B')
			err = main_bytes(optarg, MAIN_FILE_BYTES_MAX, &b->file_bytes);
		else if (c == 'P')
			err = main_bytes(optarg, MAIN_BLOCK_BYTES_MAX, &b->block_bytes);
		else if (c == 'v')
			return printf("kvbench %s\n", KVD_VERSION) > 0 ? 1 : 2;
		else if (c == 'h')
			return main_help(), 1;
		else
			err = -EINVAL;
	}
	return err ? 3 : 0;
}

int main(int argc, char **argv)
{
	struct bench b = {.model = getenv("KVD_MODEL"), .kvd_program = main_kvd_program()};
	int status = main_options(&b, argc, argv);

	if (status)
		return status - 1;
	if (optind == argc) {
		main_help();
		return 2;
	}
	for (int i = optind; i < argc; i++) {
		size_t found = 0;
		while (found < ARRAY_LEN(main_benches) &&
		       strcmp(main_benches[found].name, argv[i]) != 0)
			found++;
		if (found == ARRAY_LEN(main_benches)) {
			fprintf(stderr, "kvbench: there is no bench %s; see kvbench --help\n",
				argv[i]);
			return 2;
		}
		if (main_benches[found].run == bench_replay_run)
			b.trace = argv[++i]; /* NULL behind the last: it says so */
		status = main_benches[found].run(&b);
		if (status)
			return status;
	}
	return 0;
}
