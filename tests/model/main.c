/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiny-model [--smollm2 | --gpu] FILE [SEED]: writes a tiny model for tests that start real
 * programs, or one of random weights in the shape of SmolLM2-135M, or a tiny one whose heads are of
 * a size that GPUs have kernels for.
 */
#include "tests/model/tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	bool smollm2 = argc > 1 && strcmp(argv[1], "--smollm2") == 0;

	bool gpu = argc > 1 && strcmp(argv[1], "--gpu") == 0;

	argc -= smollm2 || gpu;
	argv += smollm2 || gpu;
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: tiny-model [--smollm2 | --gpu] FILE [SEED]\n");
		return 2;
	}
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	struct tiny_options o = smollm2 ? tiny_smollm2(seed) : tiny_defaults(seed);
	if (gpu)
		o.head_dim = 64;
	int status = tiny_write(&o, argv[1]);
	if (status)
		fprintf(stderr, "tiny-model: cannot write %s: %s\n", argv[1], strerror(-status));
	return status ? 1 : 0;
}
