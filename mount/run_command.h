/* One command that runs for this process: from the request to its result, with the signals that come
 * meanwhile. */
#ifndef HANDSFS_MOUNT_RUN_COMMAND_H
#define HANDSFS_MOUNT_RUN_COMMAND_H

#include <jansson.h>

#include "exec/client.h"

#define RUN_CANCEL_MS 5000 /* how long the gateway has for a cancel, which takes it EXECUTION_KILL_WAIT_MS */

/* Runs the method exec with `params`, which are borrowed. *ret_result is a new reference to the ExecResult.
 *
 * SIGINT, SIGTERM and SIGHUP, but for those that this process ignores, cancel the command. Then this is -1
 * with ERROR_CANCELLED and *ret_signal says which, else that is 0. */
int run_command(struct client *client, json_t *params, json_t **ret_result, int *ret_signal,
                struct error *err) __attribute__((nonnull, warn_unused_result));

#endif
