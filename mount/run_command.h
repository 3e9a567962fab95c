/* One command that runs for this process, as if it ran in this process's place: its output goes out as it
 * comes, standard input goes in, signals are handed on, a terminal is lent. */
#ifndef HANDSFS_MOUNT_RUN_COMMAND_H
#define HANDSFS_MOUNT_RUN_COMMAND_H

#include <stdbool.h>

#include <jansson.h>

#include "exec/client.h"

#define RUN_CANCEL_MS 5000 /* how long the gateway has for a cancel, which takes it EXECUTION_KILL_WAIT_MS */
#define RUN_INPUT_BYTES (45u << 10) /* of standard input in one exec.write: less than 64 KiB in base64 */
#define RUN_INPUT_AHEAD 4           /* of those, before the first is answered */

struct run_plan {
    json_t *params; /* of exec, borrowed; what follows is added to them */
    bool stream;    /* its output goes to standard output and standard error as it comes */
    bool input;     /* standard input goes along, to its end */
    bool terminal;  /* it gets a terminal; where standard input is one, that is raw meanwhile */
};

struct run_outcome {
    json_t *result; /* the ExecResult, a new reference; NULL where there is none */
    int signal;     /* where this is -1: what this process should end by, or 0 */
};

/* Runs the method exec and waits for its end; then all that it wrote is written.
 *
 * Signals that this process does not ignore: SIGINT goes to the command once, the second one cancels it, and
 * so do SIGTERM and SIGHUP at once; SIGQUIT, SIGUSR1 and SIGUSR2 are handed on. A reader that goes away
 * cancels it, too (SIGPIPE), and so does any other failure to write. A command that was cancelled is dead
 * with all that it started when this returns, or did not die within RUN_CANCEL_MS. A reader that is slow
 * holds the command back. */
int run_command(struct client *client, const struct run_plan *plan, struct run_outcome *ret,
                struct error *err) __attribute__((nonnull, warn_unused_result));

#endif
