/* Descriptors of files' bytes; private to hand/files*.c. */
#ifndef HANDSFS_HAND_FILES_DATA_H
#define HANDSFS_HAND_FILES_DATA_H

#include "hand/files_walk.h"

/* The descriptor to work on a file's bytes with: the handle's own, or one opened for this call, which is
 * then *ret_own. Only regular files are opened: ERROR_IS_DIRECTORY, ERROR_NOT_REGULAR. -1 on error. */
int target_data(const struct files *files, struct target *target, int flags, int *ret_own,
                struct error *err) __attribute__((nonnull, warn_unused_result));

#endif
