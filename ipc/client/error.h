/* SPDX-License-Identifier: Apache-2.0 */
/* The words behind kvd_last_error(): set where a failure is decided, one text a thread. */
#ifndef IPC_CLIENT_ERROR_H
#define IPC_CLIENT_ERROR_H

/* Keeps the words and returns `result`. */
__attribute__((format(printf, 2, 3))) int error_set(int result, const char *format, ...);

#endif
