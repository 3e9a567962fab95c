/* The gateway of a session that no mount serves: a process beside the verb's own.
 *
 * It is a process so that it outlives the verb by a moment. A verb that is killed, by SIGKILL too, ends no
 * command, and nobody inside can tell a host that died from a stream that broke on its way; this process
 * sees the verb's end of a pipe close, kills inside what still runs, says goodbye and ends. It is in a session
 * of its own, out of reach of a terminal's signals and of those to the verb's process group, and holds none of the
 * verb's descriptors: who waits for the end of the verb's output does not wait for it. */
#ifndef HANDSFS_MOUNT_OWN_GATEWAY_H
#define HANDSFS_MOUNT_OWN_GATEWAY_H

#include <sys/types.h>

#include "sandbox/sandbox.h"

struct own_gateway {
    pid_t pid;
    int life; /* as long as it is open the process serves */
};

/* Starts one that attaches to the session's sandbox, and waits until it has (the errors are those of
 * sandbox_attach()). *ret_fd is a connection to it, the caller's. Call it while this process has no
 * other thread. */
int own_gateway_open(struct own_gateway *ret, const struct backend *backend, const char *session,
                     int *ret_fd, struct error *err) __attribute__((nonnull, warn_unused_result));

/* Returns when all that was started there has ended inside or was killed. */
void own_gateway_close(struct own_gateway *gateway) __attribute__((nonnull));

#endif
