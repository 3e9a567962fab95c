/* The end of a mount's daemon, from outside. */
#ifndef HANDSFS_MOUNT_END_DAEMON_H
#define HANDSFS_MOUNT_END_DAEMON_H

#include <stdint.h>

#include "mount/mounts.h"

#define DAEMON_END_MS (10 * 1000) /* how long a daemon may take to end, with all that it commits */

/* What a daemon is given to find out by itself that it was unmounted. It does not, where a copy of its mount
 * lives on in another mount namespace (a container that was started meanwhile). */
#define UNMOUNTED_GRACE_MS 1000

/* Waits until the entry's process has ended; after `grace_ms` it is asked to (SIGTERM). */
int end_daemon(const struct mount_entry *entry, uint64_t grace_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
