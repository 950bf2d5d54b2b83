/* SPDX-License-Identifier: Apache-2.0 */
/* fio, the physical limit of what goes to and from a file: the same disk, sizes and order. */
#ifndef TOOLS_KVBENCH_BENCH_FIO_H
#define TOOLS_KVBENCH_BENCH_FIO_H

#include <stdbool.h>
#include <stdint.h>

struct bench_fio {
	const char *file;
	uint64_t block_bytes;
	uint64_t blocks;
	bool write;
	bool threads; /* as kvd's engine of that name: 16 threads; else io_uring, 64 at once */
};

/* Bytes per second; 0 or -errno after a message. */
int bench_fio_run(const struct bench_fio *f, double *out_bytes_per_s);

#endif
