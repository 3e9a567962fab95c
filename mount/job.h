/* Jobs from the command line: commands that were started by `handsfs exec --detach` and live on in the daemon of
 * the session's mount, which is the one that knows them. */
#ifndef HANDSFS_MOUNT_JOB_H
#define HANDSFS_MOUNT_JOB_H

#include <jansson.h>

#include "exec/client.h"
#include "mount/options.h"

/* Connects to the daemon of a live mount of `session`. ERROR_BAD_REQUEST where it is not mounted. Free with
 * client_close(). */
int job_client(const struct options *options, const char *session, struct client **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Starts a command as a job and prints the job's name, with --json an object. `params` are those of exec; borrowed,
 * `detach` is added to them. The exit code, or -1. */
int job_start(const struct options *options, const char *session, json_t *params, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
