/* WebSocket (RFC 6455), the client's side, over a connection that was taken over (backends/http.h): the
 * handshake, and a codec that knows no connection. Frames are libwslay's.
 *
 * What a server sends is hostile: frames may be fragmented, as large as they like (they are handed on in
 * pieces and never collected) and come in pieces of any size; what the RFC forbids ends the stream.
 * Extensions are neither offered nor taken. */
#ifndef HANDSFS_BACKENDS_WEBSOCKET_H
#define HANDSFS_BACKENDS_WEBSOCKET_H

#include "backends/http.h"

#define WEBSOCKET_OVERHEAD 14 /* bytes of a frame's head, at most */
#define WEBSOCKET_MAX_PINGS 32 /* of the server that are answered in one piece of its bytes; later ones count for them */

/* ---- Handshake ---- */

/* Sends `request` (its method is GET; its headers must leave those of an upgrade alone) with an offer of these
 * subprotocols, NULL-terminated, the favourite first. 0 with *ret, and *ret_protocol which of them the
 * server chose; 0 with *ret NULL and `refused` filled where it answers with a status other than 101. ERROR_NO_ANSWER
 * where the answer is no handshake, errors as http_upgrade(). */
int websocket_connect(struct http *http, const struct http_request *request,
                      const char *const *protocols, struct http_stream **ret, size_t *ret_protocol,
                      struct http_answer *refused, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The answer that a server must give to a key, as text; -1 where it cannot be computed. */
int websocket_accept_of(const char *key, char ret[32]) __attribute__((nonnull, warn_unused_result));

/* ---- Frames ---- */

struct websocket;

/* Is given a message piece by piece (`first` and `last` may both be true; a piece may be empty). -1 with
 * `err` set ends the stream. */
typedef int (*websocket_piece)(void *arg, bool first, bool last, const uint8_t *data, size_t length,
                               struct error *err);

int websocket_new(struct websocket **ret, websocket_piece piece, void *arg, struct error *err)
    __attribute__((nonnull(1, 2, 4), warn_unused_result));
void websocket_free(struct websocket *websocket); /* accepts NULL */

/* Takes all bytes that came, in order; what must be answered (pings, a close) is appended to `outer`.
 * ERROR_NO_ANSWER for what is no WebSocket. After the server's close frame nothing more is looked at. */
int websocket_take(struct websocket *websocket, const uint8_t *data, size_t length,
                   struct buffer *outer, struct error *err) __attribute__((nonnull, warn_unused_result));

/* The server has closed, in order: with this code (1005: without one). 0: it has not. */
unsigned websocket_close_code(const struct websocket *websocket) __attribute__((nonnull));

/* Each appends one frame, masked anew; ERROR_NO_MEMORY where there is no room (nothing was appended then).
 * A binary message is `head` followed by `data`; either may be empty, both too. */
int websocket_put_message(struct websocket *websocket, const void *head, size_t head_length,
                          const void *data, size_t length, struct buffer *outer, struct error *err)
    __attribute__((nonnull(1, 6, 7), warn_unused_result));
int websocket_put_ping(struct websocket *websocket, struct buffer *outer, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int websocket_put_close(struct websocket *websocket, unsigned code, struct buffer *outer,
                        struct error *err) __attribute__((nonnull, warn_unused_result));

#endif
