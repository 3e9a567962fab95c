/* One mount, served: the link to the sandbox, the file system, and the control socket on one event loop,
 * joined to each other. Nobody else knows all three. */
#ifndef HANDSFS_MOUNT_SERVE_H
#define HANDSFS_MOUNT_SERVE_H

#include "mount/options.h"
#include "sandbox/sandbox.h"

#define SERVE_START_MS (30 * 1000) /* until the sandbox has answered for the first time */
#define SERVE_END_MS (15 * 1000)   /* from the wish to end until the process does, whatever hangs */

/* What is to be served. Everything is the caller's and stays until serve() returns, but for `sandbox`, which
 * is taken over. */
struct mount_plan {
    const struct options *options; /* with a checked specification */
    const struct backend *backend;
    struct sandbox *sandbox;
    const char *session;
    const char *mountpoint;
    const char *socket;
    int claim; /* mounts_claim(): given back at the end */
};

/* Told once, from the loop: `err` is NULL when the mount is usable, else why it will not be. Is expected to
 * return -1 where nobody wants it any more; then it ends. */
typedef int (*serve_ready)(void *arg, const struct error *err);

/* Serves the mount on the calling thread until it is unmounted, or SIGTERM, SIGINT or SIGHUP comes. Returns
 * the exit code. */
int serve(const struct mount_plan *plan, serve_ready ready, void *arg)
    __attribute__((nonnull(1, 2)));

#endif
