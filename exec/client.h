/* The other end of the control socket: what the command line's verbs use, and all that speaks the gateway's
 * protocol on its behalf.
 *
 * Two ways. client_call() is one request and its answer, and blocks. A program that has more in flight
 * sends and receives for itself, in a poll(2) loop:
 *
 *     client_send(client, "exec", params, &id, err);
 *     for (;;) {
 *         poll: client_fd(), POLLIN, and POLLOUT where client_has_unsent()
 *         client_flush(client, err);
 *         while (client_receive(client, &message, err) == 1) ...  client_result() where client_id() is `id`
 *     }
 *
 * Who does not receive is not sent to: that is how a slow reader holds the gateway back. */
#ifndef HANDSFS_EXEC_CLIENT_H
#define HANDSFS_EXEC_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "sandbox/error.h"

#define CLIENT_MAX_MESSAGE (64u << 20) /* bytes of a line that is received: GATEWAY_MAX_UNSENT */
#define CLIENT_MAX_UNSENT (64u << 20)  /* bytes of requests that wait; a gateway takes less, and says so */

struct client;

/* Connects within `timeout_ms`. ERROR_NO_SUCH_FILE where there is no socket, ERROR_SANDBOX_GONE where
 * nobody listens on it any more. Free with client_close(). */
int client_connect(struct client **ret, const char *socket_path, uint64_t timeout_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The same on a socket that is connected already: taken over, and closed where this fails. */
int client_new(struct client **ret, int fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Hangs up, which cancels what it asked for and is not answered yet. Accepts NULL. */
void client_close(struct client *client);

/* Sends one request and waits for its answer, `timeout_ms` at most (0: without end; a hang-up of the other
 * side still ends it with ERROR_IO). `params` is borrowed (may be NULL). An error object becomes the error
 * that it was made from. *ret_result is a new reference. What else comes meanwhile is thrown away: not for
 * a client that has something else in flight. */
int client_call(struct client *client, const char *method, json_t *params, uint64_t timeout_ms,
                json_t **ret_result, struct error *err)
    __attribute__((nonnull(1, 2, 5, 6), warn_unused_result));

/* ---- In a poll(2) loop; nothing here blocks ---- */

int client_fd(const struct client *client) __attribute__((nonnull));

/* Queues a request and tells its id. ERROR_TOO_LARGE past CLIENT_MAX_UNSENT, nothing queued then. `params`
 * is borrowed, may be NULL. */
int client_send(struct client *client, const char *method, json_t *params, json_int_t *ret_id,
                struct error *err) __attribute__((nonnull(1, 2, 4, 5), warn_unused_result));

/* The same without an id: it is carried out and not answered. */
int client_notify(struct client *client, const char *method, json_t *params, struct error *err)
    __attribute__((nonnull(1, 2, 4), warn_unused_result));

/* Sends what the socket takes. A gateway that has hung up is no error here: it may have said why, which
 * client_receive() still gives. */
int client_flush(struct client *client, struct error *err) __attribute__((nonnull, warn_unused_result));
bool client_has_unsent(const struct client *client) __attribute__((nonnull));

/* 1: *ret is a message, a new reference. 0: none is whole yet. -1: ERROR_IO where the gateway hung up or
 * speaks something else than JSON; ERROR_TOO_LARGE past CLIENT_MAX_MESSAGE. */
int client_receive(struct client *client, json_t **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The id of the request that a message answers; 0, which no request has, where it is a notification, and -1
 * where it is an error that belongs to no request. */
json_int_t client_id(const json_t *message);

/* What an answer says: its result as a new reference, or the error that its error object was made from. */
int client_result(const json_t *message, json_t **ret_result, struct error *err)
    __attribute__((nonnull(2, 3), warn_unused_result));

#endif
