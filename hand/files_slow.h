/* The walk without openat2(2), for kernels before 5.6 and for seccomp filters that do not know it: name by
 * name. Private to hand/files*.c. */
#ifndef HANDSFS_HAND_FILES_SLOW_H
#define HANDSFS_HAND_FILES_SLOW_H

#include <stdbool.h>
#include <stddef.h>

/* As openat2(2) with RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS, from the root `root`, and with
 * RESOLVE_NO_SYMLINKS where `links` is false. `flags` are O_PATH, O_NOFOLLOW and O_DIRECTORY. The
 * descriptor, or -1 with errno. */
int files_walk_slowly(int root, const char *path, size_t length, int flags, bool links)
    __attribute__((nonnull, warn_unused_result));

#endif
