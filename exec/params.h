/* Parameters of a method, given by name. A value of null is the same as none. What does not fit is
 * ERROR_BAD_REQUEST with a message that names the parameter; texts are borrowed from `params`, which may
 * be NULL (none were given). */
#ifndef HANDSFS_EXEC_PARAMS_H
#define HANDSFS_EXEC_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

/* Refuses every name that is not in `known` (NULL-terminated). */
int params_check(const json_t *params, const char *const *known, struct error *err)
    __attribute__((nonnull(2, 3), warn_unused_result));

/* A string without NUL; *ret is NULL where it is not given. */
int params_text(const json_t *params, const char *name, const char **ret, size_t *ret_length,
                struct error *err) __attribute__((nonnull(2, 3, 4, 5), warn_unused_result));

/* A whole number from 0 to `max`; *ret is 0 where it is not given. */
int params_number(const json_t *params, const char *name, uint64_t max, uint64_t *ret, struct error *err)
    __attribute__((nonnull(2, 4, 5), warn_unused_result));

/* *ret is false where it is not given. */
int params_boolean(const json_t *params, const char *name, bool *ret, struct error *err)
    __attribute__((nonnull(2, 3, 4), warn_unused_result));

/* Bytes: text under `name` or base64 under `name`_base64, not both. */
struct params_bytes {
    bool given;
    const uint8_t *data; /* borrowed from `params` or from `decoded` */
    size_t length;
    struct buffer decoded; /* to be released in any case */
};
int params_bytes(const json_t *params, const char *name, struct params_bytes *ret, struct error *err)
    __attribute__((nonnull(2, 3, 4), warn_unused_result));

#endif
