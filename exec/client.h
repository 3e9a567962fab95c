/* The other end of the control socket: what the command line's verbs use. Blocking. */
#ifndef HANDSFS_EXEC_CLIENT_H
#define HANDSFS_EXEC_CLIENT_H

#include <stdint.h>

#include <jansson.h>

#include "sandbox/error.h"

struct client;

/* Connects within `timeout_ms`. ERROR_NO_SUCH_FILE where there is no socket, ERROR_SANDBOX_GONE where
 * nobody listens on it any more. Free with client_close(). */
int client_connect(struct client **ret, const char *socket_path, uint64_t timeout_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void client_close(struct client *client);

/* Sends one request and waits for its answer, `timeout_ms` at most (0: without end; a hang-up of the other
 * side still ends it with ERROR_IO). `params` is borrowed (may be NULL). An error object becomes the error
 * that it was made from. *ret_result is a new reference. */
int client_call(struct client *client, const char *method, json_t *params, uint64_t timeout_ms,
                json_t **ret_result, struct error *err)
    __attribute__((nonnull(1, 2, 5, 6), warn_unused_result));

#endif
