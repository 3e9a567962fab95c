/* A verb's own link to a sandbox, for sessions that no mount of ours serves: a loop, the link, and one
 * thing that is waited for. */
#ifndef HANDSFS_MOUNT_ATTACHED_H
#define HANDSFS_MOUNT_ATTACHED_H

#include <uv.h>

#include "backends/link.h"
#include "sandbox/sandbox.h"

struct attached {
    uv_loop_t loop;
    struct link *link; /* NULL: not open */
};

/* Finds the session's sandbox and starts the link. */
int attached_open(struct attached *attached, const struct backend *backend, const char *session,
                  struct error *err) __attribute__((nonnull, warn_unused_result));

/* Runs the loop until *done. */
void attached_run(struct attached *attached, const bool *done) __attribute__((nonnull));

/* Closes the link, runs the loop until nothing is left in it, and frees it. Accepts one that is not open. */
void attached_close(struct attached *attached) __attribute__((nonnull));

#define cleanup_attached __attribute__((cleanup(attached_close)))

#endif
