/* One client for a session, whether it is mounted or not.
 *
 * Where a mount serves the session, this is a connection to its control socket: commands then keep to the
 * mount's barrier. Where none does, a process beside this one attaches to the sandbox and runs a link and a
 * gateway (mount/own_gateway.h), which is spoken to over a socketpair(2). So verbs know one protocol,
 * handsfs-exec(7), and one way of running a command, and what they run ends with them, however they end. */
#ifndef HANDSFS_MOUNT_SESSION_CLIENT_H
#define HANDSFS_MOUNT_SESSION_CLIENT_H

#include <stdbool.h>

#include "exec/client.h"
#include "mount/options.h"

struct session_client;

/* Finds who serves the session, or attaches to its sandbox within ATTACH_TIMEOUT_MS: the errors are those of
 * sandbox_attach(). */
int session_client_open(struct session_client **ret, const struct options *options,
                        const char *session, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Borrowed; valid until session_client_close(). */
struct client *session_client_get(struct session_client *client) __attribute__((nonnull));

/* Where the session is mounted, or NULL: then what it runs ends with this process. */
const char *session_client_mountpoint(const struct session_client *client) __attribute__((nonnull));

/* Hangs up. Without a mount it returns when all that was started has ended inside or was killed there (the
 * bounds are EXECUTION_KILL_WAIT_MS and the link's). Accepts NULL. */
void session_client_close(struct session_client *client);

static inline void cleanup_session_client_fn(struct session_client **client)
{
    session_client_close(*client);
}
#define cleanup_session_client __attribute__((cleanup(cleanup_session_client_fn)))

#endif
