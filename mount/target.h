/* What a word means that may name a session or a directory. */
#ifndef HANDSFS_MOUNT_TARGET_H
#define HANDSFS_MOUNT_TARGET_H

#include "sandbox/error.h"

/* *ret is the absolute path, to be freed, where the word names a directory: it has a "/" in it, is "." or
 * "..", or names a mount of handsfs in the current directory. Else NULL: it is a session. */
int target_directory(const char *word, char **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
