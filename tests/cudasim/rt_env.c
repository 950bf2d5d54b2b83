/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the environment. A variable that is not a number ends the process: tests are exact. */
#include "tests/cudasim/rt.h"
#include <stdio.h>
#include <stdlib.h>

uint64_t rt_env_u64(const char *name, uint64_t missing)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !*text)
		return missing;
	uint64_t n = strtoull(text, &end, 0);
	switch (*end) {
	case 'K':
		n <<= 10;
		end++;
		break;
	case 'M':
		n <<= 20;
		end++;
		break;
	case 'G':
		n <<= 30;
		end++;
		break;
	}
	if (*end || end == text) {
		fprintf(stderr, "cudasim: %s=%s is not a number\n", name, text);
		exit(2);
	}
	return n;
}
