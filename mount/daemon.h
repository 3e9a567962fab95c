/* The process that serves a mount: in the background, or in this one. */
#ifndef HANDSFS_MOUNT_DAEMON_H
#define HANDSFS_MOUNT_DAEMON_H

#include "mount/serve.h"

/* Starts a background process that serves the plan and waits until the mount is usable. To be called before
 * there is any thread or loop. */
int daemon_start(const struct mount_plan *plan, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Serves the plan in this process. 0 at its end; -1 where the mount never was usable. */
int daemon_foreground(const struct mount_plan *plan, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
