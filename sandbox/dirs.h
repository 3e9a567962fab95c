/* Where handsfs keeps what outlives a process. */
#ifndef HANDSFS_SANDBOX_DIRS_H
#define HANDSFS_SANDBOX_DIRS_H

#include "sandbox/error.h"

/* Opens the directory NAME (one component) in this user's state directory, and makes both where they are
 * missing, mode 0700. The state directory is $HANDSFS_STATE_DIR, else /var/lib/handsfs for root, else
 * $XDG_STATE_HOME/handsfs, else $HOME/.local/state/handsfs. One that belongs to another user or that
 * others may write to is refused (ERROR_BAD_REQUEST with the path in the message). The descriptor is
 * close-on-exec; *ret_path (may be NULL) is the absolute path, to be freed with free(). */
int state_dir_open(const char *name, int *ret_fd, char **ret_path, struct error *err)
    __attribute__((nonnull(1, 2, 4), warn_unused_result));

#endif
