/* HTTP for the engines' APIs, over libcurl: requests that block for a bounded time, and connections that
 * are taken over after an upgrade. Everything that a server sends is bounded.
 *
 * A client may be used by any number of threads; connections are kept for the next request. */
#ifndef HANDSFS_BACKENDS_HTTP_H
#define HANDSFS_BACKENDS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define HTTP_DEFAULT_LIMIT (8u << 20) /* bytes of an answer's body, where a request names no limit */
#define HTTP_MAX_HEADERS (64u << 10)  /* bytes of an answer's head */
#define HTTP_IDLE_CONNECTIONS 4       /* kept by a client between requests */

/* Where the server is. All strings and buffers are owned (http_server_release()). */
struct http_server {
    char *url;         /* "http://HOST[:PORT][/PREFIX]" or https, no slash at the end */
    char *unix_socket; /* connect to this path instead of the url's host; or NULL */
    char **dial;       /* NULL-terminated argv: a program whose stdin and stdout are the connection; or NULL */
    char *ca_file, *cert_file, *key_file;    /* PEM files, or NULL */
    struct buffer ca_pem, cert_pem, key_pem; /* the same as text; empty: none */
    char *tls_name;    /* the name that the certificate must have, where it is not the url's; or NULL */
    char *proxy;       /* or NULL: none, whatever the environment says */
    bool insecure;     /* the server's certificate is not verified */
};
void http_server_init(struct http_server *server) __attribute__((nonnull));
void http_server_release(struct http_server *server) __attribute__((nonnull));

struct http;

/* Takes `server` over (it is left as after http_server_init()). Free with http_free(). No connection is
 * made yet. */
int http_new(struct http **ret, struct http_server *server, struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* Accepts NULL; no request may run. Streams that were taken over live on. */
void http_free(struct http *http);

struct http_request {
    const char *method;         /* "GET", "POST"... */
    const char *path;           /* begins with a slash; percent-encoded, with its query */
    const char *const *headers; /* NULL-terminated "Name: value" lines; may be NULL */
    const char *content_type;   /* of `body`; NULL: application/json */
    const void *body;           /* may be NULL */
    size_t body_length;
    uint64_t deadline_ms;       /* on the clock of sandbox/clock.h; for the whole exchange */
    size_t limit;               /* of the answer's body; 0: HTTP_DEFAULT_LIMIT. More is ERROR_TOO_LARGE */
    /* May be NULL. Given the body of an answer with a status below 300 piece by piece, which is then not
     * collected nor limited; -1 (with `err` set) ends the exchange with that error. */
    int (*sink)(void *arg, const void *data, size_t length, struct error *err);
    /* May be NULL. Asked about every 200 ms while the exchange lasts; true ends it: ERROR_CANCELLED. */
    bool (*cancelled)(void *arg);
    void *arg;
    const char *const *want_headers; /* the NULL-terminated names of the answer's that are to be kept; may be NULL */
};

struct http_answer {
    long status;              /* 100..599 */
    struct buffer body;
    char content_type[128];   /* "" where there is none */
    struct buffer wanted;     /* of the wanted ones the values in their order, each with a NUL behind it; "" for none */
    uint64_t retry_after_ms;  /* from Retry-After in seconds; 0 where there is none */
};
#define HTTP_ANSWER_INIT {.body = BUFFER_INIT(HTTP_DEFAULT_LIMIT), .wanted = BUFFER_INIT(HTTP_MAX_HEADERS)}
void http_answer_init(struct http_answer *answer) __attribute__((nonnull));
void http_answer_release(struct http_answer *answer) __attribute__((nonnull));

/* Value number `i` of those; "" where there is none. */
const char *http_wanted(const struct buffer *wanted, unsigned i) __attribute__((nonnull));
#define cleanup_http_answer __attribute__((cleanup(http_answer_release)))

/* One request. Every status is an answer, 500 too. Errors are the transport's:
 *   ERROR_NO_ANSWER: cannot be connected to (os_errno says why where the system did), reset, silent until
 *   the deadline, an answer that ends too early or is no HTTP; ERROR_BAD_REQUEST: the certificate is not
 *   accepted, a file of ours cannot be read; ERROR_TOO_LARGE; ERROR_CANCELLED; ERROR_NO_MEMORY. The message names the server. */
int http_perform(struct http *http, const struct http_request *request, struct http_answer *ret,
                 struct error *err) __attribute__((nonnull, warn_unused_result));

/* Appends "?NAME=VALUE" or "&NAME=VALUE", the value percent-encoded (RFC 3986). */
int http_put_query(struct buffer *path, const char *name, const char *value)
    __attribute__((nonnull, warn_unused_result));
/* Appends `segment` percent-encoded, slashes too. */
int http_put_segment(struct buffer *path, const char *segment) __attribute__((nonnull, warn_unused_result));

/* ---- Connections that were taken over ---- */

struct http_stream;

/* Sends the request, which asks for an upgrade in its headers ("Connection: Upgrade" and "Upgrade: ..." are
 * the caller's), on a connection of its own. 0 with *ret where the server answers 101 (or 200 to an
 * "Upgrade: tcp", as old engines do); 0 with *ret NULL and `refused` filled for any other status; errors
 * as http_perform(). Bytes that came behind the head are kept for http_stream_recv(). */
int http_upgrade(struct http *http, const struct http_request *request, struct http_stream **ret,
                 struct http_answer *refused, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* A header of the answer to the upgrade, or NULL; the name's case does not matter. */
const char *http_stream_header(const struct http_stream *stream, const char *name)
    __attribute__((nonnull));

/* What to poll. With TLS there may be bytes that poll does not see: receive until HTTP_AGAIN first. */
int http_stream_fd(const struct http_stream *stream) __attribute__((nonnull));

#define HTTP_AGAIN (-2) /* would block: poll for input; for output after a send */

/* Never block. Bytes moved; 0 at the end (recv); HTTP_AGAIN; -1 with an error (ERROR_NO_ANSWER). After HTTP_AGAIN what
 * is sent next begins with the same bytes, wherever they are by then. */
ssize_t http_stream_recv(struct http_stream *stream, void *data, size_t length, struct error *err)
    __attribute__((nonnull, warn_unused_result));
ssize_t http_stream_send(struct http_stream *stream, const void *data, size_t length, struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* Nothing more will be sent: the server sees an end. False where the transport cannot say so (TLS). */
bool http_stream_shutdown(struct http_stream *stream) __attribute__((nonnull));
void http_stream_close(struct http_stream *stream); /* accepts NULL */

#endif
