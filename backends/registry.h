/* Backends by name. */
#ifndef HANDSFS_BACKENDS_REGISTRY_H
#define HANDSFS_BACKENDS_REGISTRY_H

#include "sandbox/sandbox.h"

/* The backend called `name`; NULL or "" stands for $HANDSFS_BACKEND, and where that is unset too for
 * "local". An unknown name is ERROR_BAD_REQUEST with a message that lists the known ones. */
int backend_find(const char *name, const struct backend **ret, struct error *err)
    __attribute__((nonnull(2, 3), warn_unused_result));

/* All of them, NULL-terminated. */
const struct backend *const *backend_all(void);

#endif
