/* Removing what a sandbox left behind. */
#ifndef HANDSFS_BACKENDS_LOCAL_REMOVE_H
#define HANDSFS_BACKENDS_LOCAL_REMOVE_H

#include <stdint.h>

#include "sandbox/error.h"

/* Removes the directory `name` in `parent_fd` and all in it, whatever its modes, depth and number; a link is
 * never followed. 0 where there is none. ERROR_NO_ANSWER at the deadline: what is left is removed by the
 * next call. */
int local_remove_tree(int parent_fd, const char *name, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
