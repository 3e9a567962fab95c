/* What a command line says of an ExecResult. */
#ifndef HANDSFS_MOUNT_OUTCOME_H
#define HANDSFS_MOUNT_OUTCOME_H

#include <stdint.h>

#include <jansson.h>

#include "sandbox/error.h"

/* The exit code: the command's own, 128 and the signal's number, 124 after its time limit. */
int outcome_exit_code(const json_t *result) __attribute__((nonnull));

/* Says on standard error that it was the time limit, where it was. */
void outcome_tell_timeout(const json_t *result, uint64_t timeout_ms) __attribute__((nonnull));

/* Prints what the result has of both streams, and says what is missing. */
int outcome_print_streams(const json_t *result, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
