/* What the source files of http share.
 *
 *     http.c          clients and their requests
 *     http_server.c   where a server is; paths
 *     http_session.c  one libcurl handle: its settings, its waits, its errors
 *     http_dial.c     programs that are connections
 *     http_stream.c   connections that are taken over after an upgrade
 *     http_head.c     the head and the body of the answer to an upgrade
 *
 * A session is an easy handle in a multi handle of its own, which keeps one connection. It belongs to one
 * thread while a request runs or a stream lasts; idle ones wait in the client's list. libcurl's own
 * timeouts are not relied on: session_run() asks for the deadline and the caller's wish on its own. */
#ifndef HANDSFS_BACKENDS_HTTP_INTERNAL_H
#define HANDSFS_BACKENDS_HTTP_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>

#include "backends/http.h"
#include "backends/http_dial.h"

#define HTTP_NAME_BYTES 256 /* of a server's name in messages */
#define HTTP_CANCEL_MS 200  /* how often `cancelled` is asked */

/* The parts of a server's URL. All owned. */
struct http_origin {
    char *url;        /* as requests name it: with `tls_name` as its host */
    char *host;       /* the Host header's value */
    char *prefix;     /* the URL's path, or "" */
    char *connect_to; /* an entry of CURLOPT_CONNECT_TO, or NULL */
    bool tls;
};
int http_origin_of(const struct http_server *server, struct http_origin *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void http_origin_release(struct http_origin *origin) __attribute__((nonnull));
void http_server_name(const struct http_server *server, char name[HTTP_NAME_BYTES])
    __attribute__((nonnull));

struct http {
    struct http_server server;
    struct http_origin origin;
    struct curl_slist *connect_to;
    char name[HTTP_NAME_BYTES];
    pthread_mutex_t lock; /* protects all below */
    struct session *idle;
    unsigned idle_count;
    unsigned refs; /* the owner, and each session out of the list */
};
void http_unref(struct http *http) __attribute__((nonnull));

/* A connection whose other end is a program's. */
struct dialled {
    int fd;                   /* libcurl's end; -1: none */
    int listener;             /* -1 once it was accepted */
    char folder[32];          /* of the listener */
    struct http_child *child; /* from then on */
};

struct session {
    struct http *http;
    CURL *easy;
    CURLM *multi;
    bool attached; /* easy is in multi */
    struct session *next;
    struct dialled dialled[2];   /* a new connection may be there before the old is closed */
    char words[HTTP_LAST_WORDS]; /* of a child that ended */
    struct error failure;        /* of a callback; ERROR_NONE */
    char text[CURL_ERROR_SIZE];
};

/* A session of the list, or a new one (`fresh`: in any case). Give it back with http_put_session(), which
 * keeps it where there is room, or http_drop_session(). */
struct session *http_take_session(struct http *http, bool fresh, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void http_put_session(struct session *session) __attribute__((nonnull));
void http_drop_session(struct session *session) __attribute__((nonnull));
void session_free(struct session *session) __attribute__((nonnull));

/* Attaches the handle and runs it to its end, the deadline or the caller's wish. On success the handle is
 * still attached. */
int session_run(struct session *session, uint64_t deadline_ms, bool (*cancelled)(void *arg), void *arg,
                struct error *err) __attribute__((nonnull(1, 5), warn_unused_result));
void session_detach(struct session *session) __attribute__((nonnull));

/* Tells what libcurl's code means, with the server's name. Returns -1. */
int session_error(struct session *session, CURLcode code, struct error *err) __attribute__((nonnull));

/* ERROR_NO_ANSWER or ERROR_CANCELLED where the exchange has to end. */
int http_go_on(const struct http *http, uint64_t deadline_ms, bool (*cancelled)(void *arg), void *arg,
               struct error *err) __attribute__((nonnull(1, 5), warn_unused_result));
/* How long to wait until http_go_on() is to be asked anew. */
int http_patience(uint64_t deadline_ms, bool asks) __attribute__((warn_unused_result));

/* Whether method, path and headers are such as may stand in a request's head. */
int http_check_request(const struct http_request *request, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
