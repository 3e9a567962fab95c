/* The server: one loop that listens, speaks the wire with each connection, hands file calls to the pool
 * and runs commands. What a host has here (open files, executions) belongs to its client id and survives
 * a broken connection for a while: for `linger_ms` where other hosts come through, so that this one could
 * too, if it lived; for `apart_ms` while none does, since then the way may be broken and not the host. */
#ifndef HANDSFS_HAND_SERVER_H
#define HANDSFS_HAND_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "hand/exec.h"
#include "hand/files.h"
#include "hand/list.h"
#include "hand/loop.h"
#include "hand/pool.h"
#include "hand/wire.h"
#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define HAND_MAX_CONNECTIONS 64
#define HAND_MAX_CLIENTS 64
#define HAND_MAX_CALLS 4096           /* of one client; more are not read */
#define HAND_MAX_CALL_BYTES (8u << 20) /* of those */
#define HAND_MAX_AT_WORK 32           /* of those in the pool; replies of this many may be under way */
#define HAND_MAX_UNSENT (8u << 20)    /* bytes of replies that wait on one connection; as above */
#define HAND_LINGER_MS 15000          /* for the host to come back, where nothing else is said */
#define HAND_SETTLE_MS 5000           /* what hosts have said until then may have been on its way already */
#define HAND_HELLO_MS 10000           /* for a connection to say who it is */
#define HAND_FILL_BYTES (128u << 10)  /* written at once */

struct server;
struct connection;

struct client {
    struct list node;
    struct server *server;
    uint8_t id[WIRE_ID_BYTES];
    struct connection *connection; /* NULL while it is away */
    struct files *files;
    struct execution_owner owner;
    unsigned calls, at_work; /* not answered yet, and those in the pool */
    size_t call_bytes;
    struct list waiting; /* calls that are not in the pool yet */
    struct timer linger; /* armed while it is away */
    uint64_t left_ms;    /* since when it is */
    bool may_come;       /* another host has come through since: so could this one */
    bool gone; /* to be freed when its calls are back */
};

/* A frame that waits to be sent. */
struct outgoing {
    struct list node;
    struct buffer frame;
};

struct connection {
    struct list node;
    struct server *server;
    struct client *client; /* NULL before HELLO */
    struct source source;
    uint64_t serial;
    struct buffer in;
    struct buffer out; /* bytes on their way; `out_at` of them are sent */
    size_t out_at;
    struct list replies; /* of struct outgoing */
    size_t unsent;       /* bytes in `replies` and `out` */
    bool blocked;        /* the peer takes no more at the moment */
    bool changed;        /* to be looked at before the loop's next turn */
    bool broken;         /* to be closed then */
    struct timer hello;
};

struct server {
    struct loop loop;
    struct source listener, signals, work;
    struct pool *pool;
    struct executions executions;
    struct list clients, connections;
    unsigned client_count, connection_count;
    uint64_t serial; /* of the last connection */
    uint64_t heard_ms; /* when a host, any, was heard last */
    struct timer retry; /* of accept(2), when there are no descriptors */
    struct timer leave; /* armed while nobody is served, where `leave_ms` says so */
    bool handed;        /* see struct server_options */
    uint64_t linger_ms, apart_ms;
    uint64_t leave_ms;
    bool leaving; /* `leave` is armed */
    bool stop;
    int root_fd;
    char *workdir;
    char machine[65];
    struct wire_welcome welcome;
};

/* What a server is made from: a bound socket and who may connect to it. */
struct server_options {
    const char *workdir; /* made if missing */
    int listen_fd;       /* taken over */
    bool handed;         /* by who made the sandbox: peers are outside of it */
    uint64_t linger_ms;
    uint64_t apart_ms; /* in place of linger_ms, while no host at all comes through */
    uint64_t leave_ms; /* ends by itself after that long without a host and without a process; 0: never */
};

/* Prepares this process (signals, limits, its own protection) and listens. */
int server_new(struct server **ret, const struct server_options *options, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Serves until SIGTERM; then everything below this process is killed. */
void server_run(struct server *server) __attribute__((nonnull));

/* ---- client.c ---- */

/* The client of this id, made if it is new. */
int client_join(struct connection *connection, const uint8_t id[WIRE_ID_BYTES], struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* Its connection is no more. */
void client_leave(struct client *client) __attribute__((nonnull));
/* 0, or -1 where memory runs out. */
int client_call(struct client *client, uint64_t id, const uint8_t *call, size_t length)
    __attribute__((nonnull, warn_unused_result));
void client_cancel(struct client *client, uint64_t id) __attribute__((nonnull));
/* Gives calls that wait to the pool, as far as there is room for their replies. */
void client_feed(struct client *client) __attribute__((nonnull));
/* More of its frames would have to wait. */
bool client_busy(const struct client *client) __attribute__((nonnull));
/* Appends one frame about its executions; as execution_tell(). */
int client_tell(struct client *client, struct buffer *out)
    __attribute__((nonnull, warn_unused_result));
void clients_take_results(struct server *server) __attribute__((nonnull));

/* ---- connection.c ---- */

int connection_open(struct server *server, int fd) __attribute__((nonnull, warn_unused_result));
void connection_close(struct connection *connection) __attribute__((nonnull));
/* Queues a whole frame, which is taken over. */
void connection_send(struct connection *connection, struct buffer *frame) __attribute__((nonnull));
/* Sends what can be sent, reads on where there is room again. May close it. */
void connection_settle(struct connection *connection) __attribute__((nonnull));

/* ---- request.c ---- */

/* Serves one frame. -1: the connection is to be closed. */
int request_serve(struct connection *connection, const struct wire_header *header,
                  const uint8_t *payload) __attribute__((nonnull(1, 2), warn_unused_result));

#endif
