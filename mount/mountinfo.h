/* What is mounted where, and taking it away: by the kernel's own list and by paths alone. Nothing here asks
 * the file system in question, which may be dead or frozen. */
#ifndef HANDSFS_MOUNT_MOUNTINFO_H
#define HANDSFS_MOUNT_MOUNTINFO_H

#include <stdbool.h>

#include "sandbox/error.h"

enum mounted { MOUNTED_NOTHING, MOUNTED_HANDSFS, MOUNTED_OTHER };

/* What is topmost at an absolute path without symbolic links. */
enum mounted mounted_at(const char *path) __attribute__((nonnull));

/* The absolute path of a directory, without symbolic links, to be freed. The last component is not asked
 * for more than whether it is a link. */
int mountpoint_path(const char *path, char **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* A file's path made absolute, its folder without symbolic links; it need not exist. To be freed. */
int absolute_path(const char *path, char **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Takes away what is mounted there: directly as root, through fusermount3 as anyone else. ERROR_NOT_REPLACEABLE
 * where it is in use, unless `lazy`. */
int unmount_at(const char *path, bool lazy, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Takes away mounts of handsfs at the path whose daemon is gone; those that work are left alone. */
int unmount_stale(const char *path, bool known_dead, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Removes a socket that nobody listens on any more; anything else at the path is left alone. */
void remove_stale_socket(const char *path) __attribute__((nonnull));

#endif
