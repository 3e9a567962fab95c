/* The program that a local sandbox is made with, beside the hand. */
#ifndef HANDSFS_BACKENDS_LOCAL_PROGRAMS_H
#define HANDSFS_BACKENDS_LOCAL_PROGRAMS_H

#include <stddef.h>

#include "sandbox/error.h"

/* The absolute path of bubblewrap ($HANDSFS_BWRAP, else from PATH); to be freed. ERROR_IO with a message
 * that names the package. */
int local_find_bwrap(char **ret, struct error *err) __attribute__((nonnull, warn_unused_result));

/* Runs a program to its end with no input and keeps the first bytes of all that it says, NUL-terminated. 0
 * where it exits with 0, else (or where it takes over `timeout_ms`, and is killed) -1. `argv[0]` is its path. */
int local_run(char *const argv[], unsigned timeout_ms, char *output, size_t size)
    __attribute__((nonnull, warn_unused_result));

#endif
