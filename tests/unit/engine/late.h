/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An asynchronous device without a device: the CPU's operations, run only when a step is waited
 * for, in the order in which they were queued. Until then the caller's results are all ones, and
 * what he does to pages meets what the steps under way will do to them.
 */
#ifndef TESTS_LATE_H
#define TESTS_LATE_H

#include "kernels/kernels.h"

const struct kernel_ops *late_ops(void);

#endif
