/* The exec gateway: JSON-RPC 2.0 over a Unix socket beside the mountpoint, one object a line. The
 * protocol is handsfs-exec(7). On the link's loop; nothing blocks. */
#ifndef HANDSFS_EXEC_GATEWAY_H
#define HANDSFS_EXEC_GATEWAY_H

#include <stdbool.h>

#include <jansson.h>
#include <uv.h>

#include "backends/execution.h"
#include "backends/link.h"

#define GATEWAY_MAX_LINE (16u << 20)     /* bytes of a request's line */
#define GATEWAY_MAX_CONNECTIONS 64
#define GATEWAY_MAX_EXECUTIONS 256       /* running, over all connections */
#define GATEWAY_MAX_JOBS 64              /* detached commands, running or kept for an hour after their end */
#define GATEWAY_MAX_PENDING 512          /* requests in flight on one connection */
#define GATEWAY_MAX_UNSENT (64u << 20)   /* bytes of replies that a slow reader may leave; then hung up */
#define GATEWAY_MAX_MEMORY (512u << 20)  /* bytes of lines, inputs and outputs held by all connections */

struct gateway;

/* What the program that carries the gateway does for it. Each may be NULL: the method is then answered
 * "method not found" (provision, destroy) or leaves the fields out (status). They run on the loop and
 * answer through `reply` exactly once, later or at once. */
typedef void (*gateway_reply)(void *arg, const struct error *err, json_t *result); /* result is stolen */
struct gateway_host {
    /* Adds fields to the answer of `status` (session, backend, mountpoint, ...). */
    void (*status)(void *ctx, json_t *into);
    void (*provision)(void *ctx, gateway_reply reply, void *arg);
    void (*destroy)(void *ctx, gateway_reply reply, void *arg);
    struct exec_barrier barrier;
    bool silent; /* what fails is told by its client alone: this process is that, too */
    void *ctx;
};

/* Listens on `socket_path` (mode 0600; a stale socket there is replaced, a live one is ERROR_BAD_REQUEST,
 * anything else there is left alone and refused). With `socket_path` NULL it serves gateway_request() only. */
int gateway_open(struct gateway **ret, uv_loop_t *loop, struct link *link, const char *socket_path,
                 const struct gateway_host *host, struct error *err)
    __attribute__((nonnull(1, 2, 3, 5, 6), warn_unused_result));

/* Takes over a connected stream socket, such as an end of a socketpair(2), as one more connection; who is at
 * its other end is not asked. ERROR_BAD_REQUEST where there are GATEWAY_MAX_CONNECTIONS; the descriptor is
 * closed where this fails. */
int gateway_serve(struct gateway *gateway, int fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Cancels what runs, removes the socket, frees; `closed` (may be NULL) as with link_close(). */
void gateway_close(struct gateway *gateway, void (*closed)(void *arg), void *arg);

/* One exec without a socket: for the mount's control file. `request` is the command's text or an
 * ExecRequest in JSON (an object with at least "command"; recognised by a "{" first that parses as such an
 * object). `done` gets the ExecResult, or an error object {"error":..., "message":...}, as JSON text ending
 * in a newline (valid during the call), from the loop, and when the gateway closes too. NULL where it cannot
 * even begin: only then was `done` called from inside. */
struct gateway_exec;
typedef void (*gateway_exec_done)(void *arg, const char *text, size_t length);
struct gateway_exec *gateway_exec_start(struct gateway *gateway, const char *request, size_t length,
                                        gateway_exec_done done, void *arg);
void gateway_exec_cancel(struct gateway_exec *exec); /* done is not called any more */

/* The answer of the `status` method. New reference, NULL out of memory. */
json_t *gateway_status(struct gateway *gateway);

/* Counters, for tests and for metrics. */
struct gateway_counts {
    unsigned connections;
    unsigned executions;
    uint64_t requests;
};
struct gateway_counts gateway_counts(const struct gateway *gateway);

#endif
