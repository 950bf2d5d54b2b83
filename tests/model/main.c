/* SPDX-License-Identifier: Apache-2.0 */
/* tiny-model FILE [SEED]: writes a tiny model for tests that start real programs. */
#include "tests/model/tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: tiny-model FILE [SEED]\n");
		return 2;
	}
	struct tiny_options o = tiny_defaults(argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
	int status = tiny_write(&o, argv[1]);
	if (status)
		fprintf(stderr, "tiny-model: cannot write %s: %s\n", argv[1], strerror(-status));
	return status ? 1 : 0;
}
