/* The gateway as a whole: its socket, who may connect, what all connections hold together, its end. */
#include "exec/server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define ACCEPTED_IN_ONE_TURN 16
#define ACCEPT_PAUSE_MS 100

static void incoming_polled(uv_poll_t *poll, int status, int events);

/* ---- Memory ---- */

bool gateway_charge(struct gateway *gateway, size_t bytes, bool make_room)
{
    while (bytes > gateway->memory_limit - gateway->memory) {
        struct connection *slowest = make_room ? connection_slowest(gateway) : NULL;

        if (slowest == NULL) {
            return false;
        }
        connection_hang_up(slowest);
    }
    gateway->memory += bytes;
    return true;
}

void gateway_discharge(struct gateway *gateway, size_t bytes)
{
    gateway->memory -= bytes;
}

/* ---- Coming in ---- */

/* The same user, or root: whoever may do as this process may anyway. */
static bool may_connect(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void welcome(struct gateway *gateway, int fd)
{
    struct error err;

    if (!may_connect(fd)) {
        error_set_errno(&err, EPERM, "this socket is another user's");
        connection_refuse(fd, rpc_error(RPC_SANDBOX_ERROR, &err));
    } else if (gateway->counts.connections >= GATEWAY_MAX_CONNECTIONS) {
        error_set(&err, ERROR_BAD_REQUEST, 0, "more than %d connections", GATEWAY_MAX_CONNECTIONS);
        connection_refuse(
            fd, rpc_limit_error(RPC_OVER_LIMIT, "connections", GATEWAY_MAX_CONNECTIONS, &err));
    } else {
        (void)connection_open(gateway, fd); /* or it is closed */
    }
}

int gateway_serve(struct gateway *gateway, int fd, struct error *err)
{
    if (gateway->closing || gateway->counts.connections >= GATEWAY_MAX_CONNECTIONS) {
        close(fd);
        return error_set(err, ERROR_BAD_REQUEST, 0, "the gateway takes no more connections");
    }
    return connection_open(gateway, fd) < 0 ? error_set_errno(err, ENOMEM, "a connection") : 0;
}

static void pause_over(uv_timer_t *timer)
{
    struct gateway *gateway = timer->data;

    uv_poll_start(&gateway->incoming, UV_READABLE, incoming_polled);
}

static void incoming_polled(uv_poll_t *poll, int status, int events)
{
    struct gateway *gateway = poll->data;

    (void)status; /* accept(2) finds out */
    (void)events;
    for (int i = 0; i < ACCEPTED_IN_ONE_TURN; i++) {
        int fd = accept4(gateway->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            welcome(gateway, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            /* No descriptor or no memory: the client waits in the queue, and we do not spin. */
            uv_poll_stop(poll);
            uv_timer_start(&gateway->pause, pause_over, ACCEPT_PAUSE_MS, 0);
            return;
        }
    }
}

/* ---- Beginning and end ---- */

/* The handles that cannot fail come last, so that a failure leaves none in the loop. */
static int init_handles(struct gateway *gateway, struct error *err)
{
    if (gateway->socket.fd >= 0) {
        int r = uv_poll_init(gateway->loop, &gateway->incoming, gateway->socket.fd);

        if (r < 0) {
            return error_set_errno(err, -r, "watching the socket");
        }
        gateway->incoming.data = gateway;
        uv_poll_start(&gateway->incoming, UV_READABLE, incoming_polled);
        gateway->handles++;
    }
    uv_timer_init(gateway->loop, &gateway->pause);
    uv_idle_init(gateway->loop, &gateway->begin);
    gateway->pause.data = gateway;
    gateway->begin.data = gateway;
    gateway->handles += 2;
    return 0;
}

int gateway_open(struct gateway **ret, uv_loop_t *loop, struct link *link, const char *socket_path,
                 const struct gateway_host *host, struct error *err)
{
    cleanup_free struct gateway *gateway = calloc(1, sizeof *gateway);

    if (gateway == NULL) {
        return error_set_errno(err, ENOMEM, "gateway");
    }
    gateway->loop = loop;
    gateway->link = link;
    gateway->host = *host;
    gateway->socket.fd = gateway->socket.folder = -1;
    gateway->memory_limit = GATEWAY_MAX_MEMORY;
    LIST_INIT(&gateway->connections);
    TAILQ_INIT(&gateway->requests);
    TAILQ_INIT(&gateway->waiting);
    TAILQ_INIT(&gateway->not_begun);
    TAILQ_INIT(&gateway->streams);
    TAILQ_INIT(&gateway->jobs);
    LIST_INIT(&gateway->waiters);
    if (socket_path != NULL && socket_file_create(&gateway->socket, socket_path, err) < 0) {
        return -1;
    }
    if (init_handles(gateway, err) < 0) {
        socket_file_remove(&gateway->socket);
        return -1;
    }
    *ret = take_ptr(gateway);
    return 0;
}

void gateway_ended(struct gateway *gateway)
{
    void (*closed)(void *arg) = gateway->closed;
    void *arg = gateway->closed_arg;

    if (!gateway->closing || gateway->handles > 0 || !TAILQ_EMPTY(&gateway->requests)) {
        return;
    }
    jobs_free(gateway);
    free(gateway);
    if (closed != NULL) {
        closed(arg);
    }
}

static void handle_closed(uv_handle_t *handle)
{
    struct gateway *gateway = handle->data;

    gateway->handles--;
    gateway_ended(gateway);
}

void gateway_close(struct gateway *gateway, void (*closed)(void *arg), void *arg)
{
    struct connection *c;
    struct request *r;

    gateway->closing = true;
    gateway->closed = closed;
    gateway->closed_arg = arg;
    gateway_exec_begin_all(gateway); /* refuses them */
    while ((c = LIST_FIRST(&gateway->connections)) != NULL) {
        connection_hang_up(c);
    }
    TAILQ_FOREACH(r, &gateway->requests, in_flight)
    {
        request_cancel(r);
    }
    if (gateway->socket.fd >= 0) {
        uv_poll_stop(&gateway->incoming);
        uv_close((uv_handle_t *)&gateway->incoming, handle_closed);
    }
    socket_file_remove(&gateway->socket);
    uv_close((uv_handle_t *)&gateway->pause, handle_closed);
    uv_close((uv_handle_t *)&gateway->begin, handle_closed);
}

struct gateway_counts gateway_counts(const struct gateway *gateway)
{
    return gateway->counts;
}
