/* Durations and sizes as people write them on a command line. */
#ifndef HANDSFS_SANDBOX_UNITS_H
#define HANDSFS_SANDBOX_UNITS_H

#include <stdint.h>

#include "sandbox/error.h"

/* "250ms", "2.5s", "30" (seconds), "5m" to milliseconds. ERROR_BAD_REQUEST for anything else: a sign, a
 * bare unit, trailing text, more than 10 years. */
int parse_duration(const char *text, uint64_t *ret_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* "4M", "512K", "1G", "4096" (bytes; K, M and G are powers of 1024) to bytes. ERROR_BAD_REQUEST for
 * anything else, and past 2^62. */
int parse_size(const char *text, uint64_t *ret_bytes, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
