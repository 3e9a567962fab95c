/* The gateway's inside: what its source files share. */
#ifndef HANDSFS_EXEC_SERVER_H
#define HANDSFS_EXEC_SERVER_H

#include <sys/queue.h>

#include "exec/gateway.h"
#include "exec/listen.h"
#include "exec/methods.h"

#define CONNECTION_READ_BYTES (64u << 10)   /* taken from one connection in one turn of the loop */
#define CONNECTION_READ_PAUSE (4u << 20)    /* unsent bytes; past them no more requests are read */
#define FILE_CALLS_AT_ONCE 16               /* of read_file and write_file, 4 MiB each; others wait */

LIST_HEAD(connection_list, connection);
TAILQ_HEAD(command_list, command);
TAILQ_HEAD(gateway_exec_queue, gateway_exec);

struct gateway {
    uv_loop_t *loop;
    struct link *link;
    struct gateway_host host;
    struct socket_file socket; /* fd -1 without one */
    uv_poll_t incoming;
    uv_timer_t pause;          /* after accept(2) ran out of descriptors */
    uv_idle_t begin;           /* runs only while `not_begun` is not empty */
    unsigned handles;          /* not closed yet, and connections not freed yet */

    struct connection_list connections;
    struct request_queue requests;      /* in flight */
    struct request_queue waiting;       /* of them: file calls whose turn has not come */
    struct gateway_exec_queue not_begun;
    struct command_list streams;        /* those whose output goes to their clients as it comes */
    TAILQ_HEAD(, job) jobs;             /* detached commands, also those that are over */
    LIST_HEAD(, waiter) waiters;        /* for jobs */
    unsigned job_count;
    uint64_t job_serial;
    uint32_t job_prefix;
    unsigned file_calls;                /* running now */
    unsigned tool_calls;                /* the same of tools.call */
    struct gateway_counts counts;

    size_t memory; /* held by connections and requests: input, its values in use, unsent replies */
    size_t memory_limit;

    bool closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* Counts memory before it is held. With `make_room` the connection that lets the most replies lie is hung
 * up where that helps: its slowness is nobody else's trouble. False: over the limit, nothing counted. */
bool gateway_charge(struct gateway *gateway, size_t bytes, bool make_room);
void gateway_discharge(struct gateway *gateway, size_t bytes);

/* A handle, a request or a gateway_exec ended: frees the gateway if it was closed and this was the last. */
void gateway_ended(struct gateway *gateway);

/* Forgets all jobs; none runs any more (job.c). */
void jobs_free(struct gateway *gateway);

/* Of the control file (control.c): begins those that have not, or refuses them while closing. */
void gateway_exec_begin_all(struct gateway *gateway);

/* ---- Connections (connection.c) ---- */

struct connection;

/* Takes over a connected socket. -1 where that fails; the descriptor is closed then. */
int connection_open(struct gateway *gateway, int fd);

/* Sends a reply, which is stolen; NULL (out of memory) hangs up. */
void connection_send(struct connection *connection, json_t *message);

/* Bytes that it has not taken yet. */
size_t connection_unsent(const struct connection *connection);

/* Sends what waits for it of its commands' output, while it has room (stream.c). */
void connection_stream(struct gateway *gateway, struct connection *connection);

/* One of its requests was answered; nothing of that is sent here. */
void connection_request_ended(struct connection *connection);

/* Closes it, forgets what is unsent, cancels its requests. */
void connection_hang_up(struct connection *connection);

/* The connection with the most unsent bytes, if over CONNECTION_READ_PAUSE; else NULL. */
struct connection *connection_slowest(struct gateway *gateway);

/* Tells the other side why and closes a socket that does not become a connection. */
void connection_refuse(int fd, json_t *error);

#endif
