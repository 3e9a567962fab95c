/* What ran, as JSON. */
#ifndef HANDSFS_EXEC_RESULT_H
#define HANDSFS_EXEC_RESULT_H

#include <jansson.h>

#include "backends/execution.h"

/* The ExecResult of handsfs-exec(7). New reference, NULL out of memory. */
json_t *exec_result_json(const struct execution_result *result) __attribute__((nonnull));

/* Puts bytes under `name` where they are UTF-8, else as base64 under `name`_base64. -1 out of memory,
 * also where `into` is NULL. */
int result_put_bytes(json_t *into, const char *name, const uint8_t *data, size_t length)
    __attribute__((nonnull(2), warn_unused_result));

/* The number of a signal by its name, "SIGINT", "INT" or "SIGRTMIN+1", whatever its case; 0 for none. */
int signal_named(const char *name) __attribute__((nonnull));

#endif
