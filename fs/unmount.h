/* Unmounting, which may wait for the very loop that serves the mount, and is therefore done by a thread. */
#ifndef HANDSFS_FS_UNMOUNT_H
#define HANDSFS_FS_UNMOUNT_H

#include <sys/types.h>
#include <uv.h>

#include "sandbox/error.h"

struct unmounter;

/* Unmounts what is at `mountpoint` and has the device number `dev` (0: whatever it is): at once where it
 * is not busy, else lazily. `done` is called from the loop, also where that failed (logged). */
int unmount_start(struct unmounter **ret, uv_loop_t *loop, const char *mountpoint, dev_t dev,
                  void (*done)(void *arg), void *arg, struct error *err)
    __attribute__((nonnull(1, 2, 3, 5, 7), warn_unused_result));

/* The device number of what is at `path`, asked for in a way that sends no request to a file system; 0
 * where that cannot be told. */
dev_t unmount_device(const char *path) __attribute__((nonnull));

#endif
