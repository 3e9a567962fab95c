/* One client: lines in, replies out, and when it is gone.
 *
 * The descriptor is watched for three things at once. Readable, unless it has ended or lets too many
 * replies lie. Writable, while replies wait. And always for the hang-up: a client that only shut down
 * its writing side is owed its replies, one that is gone gets its commands killed. POLLRDHUP tells both
 * alike; POLLHUP comes only when both directions are down, and is reported whatever one asks for. But
 * libuv watches nothing when asked for nothing, so it is asked for out-of-band data, which this protocol
 * has none of: a client that sends some is hung up on.
 *
 * A long line is parsed on the thread pool (16 MiB take half a second), and meanwhile nothing more is
 * read from this connection, so that requests begin in the order in which they came. */
#include "exec/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define TOO_MUCH_HELD "the gateway holds as much as it may for its clients"

#define PARSED_IN_LOOP (64u << 10) /* a longer line goes to the thread pool */

struct reply {
    TAILQ_ENTRY(reply) next;
    struct buffer text;
    size_t sent;
};

struct connection {
    LIST_ENTRY(connection) siblings;
    struct gateway *gateway;
    uv_poll_t poll;
    unsigned holders;  /* the loop, and a parse */
    int fd;
    int watched;       /* events that `poll` waits for */
    struct buffer in;  /* what was read and is no whole line yet */
    size_t charged;    /* for it */
    bool skipping;     /* the rest of a line that was too long */
    bool ended;        /* the client sends no more */
    bool parsing;      /* a line is with the thread pool */
    bool closing;
    unsigned pending;  /* requests in flight */
    TAILQ_HEAD(, reply) replies;
    size_t unsent;
};

/* A line with the thread pool. */
struct parse {
    uv_work_t work;
    struct connection *connection;
    struct buffer text;
    size_t charged; /* for it */
    size_t start;   /* of the line in it */
    size_t length;
    int result;     /* of rpc_parse(), as what follows */
    struct rpc_call call;
    enum rpc_code code;
    struct error err;
};

static void connection_polled(uv_poll_t *poll, int status, int events);
static void connection_release(struct connection *c);

static void watch(struct connection *c)
{
    int events = UV_PRIORITIZED;

    if (c->closing) {
        return;
    }
    if (!c->ended && !c->parsing && c->unsent <= CONNECTION_READ_PAUSE) {
        events |= UV_READABLE;
    }
    if (c->unsent > 0) {
        events |= UV_WRITABLE;
    }
    if (events != c->watched) {
        c->watched = events;
        uv_poll_start(&c->poll, events, connection_polled);
    }
}

/* A client that sends no more, and has all that it is owed, is done. */
static void close_if_done(struct connection *c)
{
    if (c->ended && !c->parsing && c->pending == 0 && c->unsent == 0) {
        connection_hang_up(c);
    }
}

/* ---- Out ---- */

static void drop_first_reply(struct connection *c)
{
    struct reply *reply = TAILQ_FIRST(&c->replies);

    TAILQ_REMOVE(&c->replies, reply, next);
    gateway_discharge(c->gateway, reply->text.capacity);
    buffer_release(&reply->text);
    free(reply);
}

/* Sends what the socket takes. */
static void send_replies(struct connection *c)
{
    while (!c->closing && !TAILQ_EMPTY(&c->replies)) {
        struct reply *reply = TAILQ_FIRST(&c->replies);
        ssize_t n = send(c->fd, reply->text.data + reply->sent, reply->text.length - reply->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            if (errno != EAGAIN) {
                connection_hang_up(c);
            }
            return;
        }
        reply->sent += (size_t)n;
        c->unsent -= (size_t)n;
        if (reply->sent == reply->text.length) {
            drop_first_reply(c);
        }
    }
}

/* The reply as a line, in a queue of its own so that nothing is moved while it is sent. */
static int queue_reply(struct connection *c, const json_t *message)
{
    struct reply *reply = calloc(1, sizeof *reply);

    if (reply == NULL) {
        return -1;
    }
    buffer_init(&reply->text, GATEWAY_MAX_UNSENT);
    if (rpc_write(&reply->text, message) < 0 ||
        !gateway_charge(c->gateway, reply->text.capacity, true)) {
        buffer_release(&reply->text);
        free(reply);
        return -1;
    }
    if (c->closing) { /* its were the replies that had to go */
        gateway_discharge(c->gateway, reply->text.capacity);
        buffer_release(&reply->text);
        free(reply);
        return 0;
    }
    c->unsent += reply->text.length;
    TAILQ_INSERT_TAIL(&c->replies, reply, next);
    return 0;
}

void connection_send(struct connection *c, json_t *message)
{
    if (c->closing) {
        json_decref(message);
        return;
    }
    if (message == NULL || queue_reply(c, message) < 0) {
        /* A reply that is lost would leave its request unanswered for good: better none at all. */
        connection_hang_up(c);
    } else {
        send_replies(c);
        if (c->unsent > GATEWAY_MAX_UNSENT) {
            connection_hang_up(c);
        }
    }
    json_decref(message);
    watch(c);
}

size_t connection_unsent(const struct connection *c)
{
    return c->unsent;
}

void connection_request_ended(struct connection *c)
{
    c->pending--;
    close_if_done(c);
}

void connection_refuse(int fd, json_t *error)
{
    cleanup_buffer struct buffer line = BUFFER_INIT(CONNECTION_READ_BYTES);
    json_t *message = error != NULL ? rpc_reply(NULL, NULL, error) : NULL;

    if (message != NULL && rpc_write(&line, message) == 0) {
        ssize_t n = send(fd, line.data, line.length, MSG_NOSIGNAL | MSG_DONTWAIT);

        (void)n; /* a fresh socket takes a line; one that does not is closed without */
    }
    json_decref(message);
    close(fd);
}

/* ---- In ---- */

static void answer_line_limit(struct connection *c, enum rpc_code code, const char *limit,
                              uint64_t maximum, enum error_code error, const char *message)
{
    struct error err;

    error_set(&err, error, 0, "%s", message);
    connection_send(c, rpc_reply(NULL, NULL, rpc_limit_error(code, limit, maximum, &err)));
}

static bool is_blank(const char *line, size_t length)
{
    while (length > 0 && memchr(" \t\r", line[length - 1], 3) != NULL) {
        length--;
    }
    return length == 0;
}

/* Answers a call that does not even become a request. A notification is not answered. */
static void turn_away(struct connection *c, const struct rpc_call *call, json_t *error)
{
    if (call->id != NULL) {
        connection_send(c, rpc_reply(call->id, NULL, error));
    } else {
        json_decref(error);
    }
}

static void take_call(struct connection *c, struct rpc_call *call, size_t length)
{
    struct error err;

    if (c->pending >= GATEWAY_MAX_PENDING) {
        error_set(&err, ERROR_BAD_REQUEST, 0, "more than %d requests in flight on one connection",
                  GATEWAY_MAX_PENDING);
        turn_away(c, call,
                  rpc_limit_error(RPC_OVER_LIMIT, "pending", GATEWAY_MAX_PENDING, &err));
    } else if (!gateway_charge(c->gateway, length, false)) {
        error_set(&err, ERROR_NO_MEMORY, 0, "%s", TOO_MUCH_HELD);
        turn_away(c, call,
                  rpc_limit_error(RPC_OVER_LIMIT, "memory", c->gateway->memory_limit, &err));
    } else {
        c->pending++;
        methods_dispatch(c, c->gateway, call, length);
    }
}

static void take_fault(struct connection *c, const struct rpc_call *call, enum rpc_code code,
                       const struct error *err)
{
    if (code == RPC_INVALID_PARAMS) {
        turn_away(c, call, rpc_error(code, err));
    } else { /* what is no request is no notification either */
        connection_send(c, rpc_reply(call->id, NULL, rpc_error(code, err)));
    }
}

static void take_line(struct connection *c, const char *line, size_t length)
{
    struct rpc_call call;
    enum rpc_code code;
    struct error err;

    if (is_blank(line, length)) {
        return;
    }
    c->gateway->counts.requests++;
    if (rpc_parse(line, length, &call, &code, &err) == 0) {
        take_call(c, &call, length);
    } else {
        take_fault(c, &call, code, &err);
    }
    rpc_call_release(&call);
}

static void parse_in_thread(uv_work_t *work)
{
    struct parse *p = work->data;
    const char *line = (const char *)p->text.data + p->start;

    p->result = rpc_parse(line, p->length, &p->call, &p->code, &p->err);
}

static void go_on_reading(struct connection *c);

static void parsed_in_thread(uv_work_t *work, int status)
{
    struct parse *p = work->data;
    struct connection *c = p->connection;

    (void)status; /* nobody cancels it */
    c->parsing = false;
    buffer_release(&p->text);
    gateway_discharge(c->gateway, p->charged);
    if (!c->closing && p->result == 0) {
        take_call(c, &p->call, p->length);
    } else if (!c->closing) {
        take_fault(c, &p->call, p->code, &p->err);
    }
    rpc_call_release(&p->call);
    free(p);
    if (!c->closing) {
        go_on_reading(c);
    }
    connection_release(c);
}

/* Sends the line at `start` to the thread pool. The whole buffer goes along; what stands in it from `end`
 * on comes back. */
static void parse_elsewhere(struct connection *c, size_t start, size_t length, size_t end)
{
    struct parse *p = calloc(1, sizeof *p);

    if (p == NULL) {
        connection_hang_up(c);
        return;
    }
    *p = (struct parse){.connection = c, .start = start, .length = length, .charged = c->charged};
    p->work.data = p;
    c->charged = 0;
    buffer_init(&p->text, GATEWAY_MAX_LINE);
    buffer_move(&p->text, &c->in);
    if (buffer_append(&c->in, p->text.data + end, p->text.length - end) < 0) {
        gateway_discharge(c->gateway, p->charged);
        buffer_release(&p->text);
        free(p);
        connection_hang_up(c);
        return;
    }
    c->parsing = true;
    c->holders++;
    c->gateway->counts.requests++;
    uv_queue_work(c->gateway->loop, &p->work, parse_in_thread, parsed_in_thread);
}

/* Takes the whole lines out of what was read; `old` bytes of it were looked through before. */
static void take_lines(struct connection *c, size_t old)
{
    size_t start = 0;
    size_t from = old;

    while (!c->closing && from < c->in.length) {
        const char *data = (const char *)c->in.data;
        const char *newline = memchr(data + from, '\n', c->in.length - from);

        if (newline == NULL) {
            break;
        }
        from = (size_t)(newline - data) + 1;
        if (c->skipping) {
            c->skipping = false;
        } else if (from - 1 - start > PARSED_IN_LOOP) {
            parse_elsewhere(c, start, from - 1 - start, from);
            return;
        } else {
            take_line(c, data + start, from - 1 - start);
        }
        start = from;
    }
    buffer_consume(&c->in, start);
    if (c->skipping) {
        buffer_clear(&c->in);
    } else if (c->in.length == GATEWAY_MAX_LINE) {
        c->skipping = true;
        answer_line_limit(c, RPC_INVALID_REQUEST, "line", GATEWAY_MAX_LINE, ERROR_TOO_LARGE,
                          "the line is too long");
        buffer_clear(&c->in);
    }
}

/* Counts what the buffer for a line that is not whole yet has grown or shrunk to; a large one that is not
 * needed is given back. */
static void account_input(struct connection *c)
{
    if (c->in.length == 0 && c->in.capacity > CONNECTION_READ_BYTES) {
        buffer_release(&c->in);
    }
    gateway_discharge(c->gateway, c->charged);
    c->charged = c->in.capacity;
    if (!gateway_charge(c->gateway, c->charged, false)) {
        c->charged = 0;
        c->skipping = true;
        buffer_release(&c->in);
        answer_line_limit(c, RPC_OVER_LIMIT, "memory", c->gateway->memory_limit, ERROR_NO_MEMORY,
                          TOO_MUCH_HELD);
    }
}

/* A last line may lack its newline. */
static void take_end(struct connection *c)
{
    c->ended = true;
    if (!c->skipping && c->in.length > PARSED_IN_LOOP) {
        parse_elsewhere(c, 0, c->in.length, c->in.length);
    } else if (!c->skipping) {
        take_line(c, (const char *)c->in.data, c->in.length);
    }
    buffer_release(&c->in);
    account_input(c);
    close_if_done(c);
}

static void go_on_reading(struct connection *c)
{
    take_lines(c, 0);
    account_input(c);
    close_if_done(c);
    watch(c);
}

static void read_requests(struct connection *c)
{
    size_t old = c->in.length;
    size_t room = GATEWAY_MAX_LINE - old;
    uint8_t *to;
    ssize_t n;

    room = room < CONNECTION_READ_BYTES ? room : CONNECTION_READ_BYTES;
    to = buffer_reserve(&c->in, room);
    if (to == NULL) {
        connection_hang_up(c);
        return;
    }
    n = recv(c->fd, to, room, MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            connection_hang_up(c);
        }
        return;
    }
    if (n == 0) {
        take_end(c);
        return;
    }
    buffer_commit(&c->in, (size_t)n);
    take_lines(c, old);
    account_input(c);
}

/* ---- Its life ---- */

static bool is_gone(const struct connection *c)
{
    struct pollfd fd = {.fd = c->fd};

    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR)) != 0;
}

static void connection_polled(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;

    if (status < 0 || (events & UV_PRIORITIZED) != 0 || is_gone(c)) {
        connection_hang_up(c);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        send_replies(c);
        if (!c->closing) {
            connection_stream(c->gateway, c);
        }
        close_if_done(c);
    }
    if ((events & UV_READABLE) != 0 && !c->closing) {
        read_requests(c);
    }
    watch(c);
}

int connection_open(struct gateway *gateway, int fd)
{
    struct connection *c = calloc(1, sizeof *c);

    if (c == NULL || uv_poll_init(gateway->loop, &c->poll, fd) < 0) {
        free(c);
        close(fd);
        return -1;
    }
    c->gateway = gateway;
    c->fd = fd;
    c->poll.data = c;
    buffer_init(&c->in, GATEWAY_MAX_LINE);
    TAILQ_INIT(&c->replies);
    c->holders = 1;
    LIST_INSERT_HEAD(&gateway->connections, c, siblings);
    gateway->counts.connections++;
    gateway->handles++;
    watch(c);
    return 0;
}

/* Frees it when neither the loop nor a parse holds it any more. */
static void connection_release(struct connection *c)
{
    struct gateway *gateway = c->gateway;

    if (--c->holders > 0) {
        return;
    }
    buffer_release(&c->in);
    gateway_discharge(gateway, c->charged);
    free(c);
    gateway->handles--;
    gateway_ended(gateway);
}

static void connection_closed(uv_handle_t *handle)
{
    connection_release(handle->data);
}

void connection_hang_up(struct connection *c)
{
    struct gateway *gateway = c->gateway;
    struct request *r = TAILQ_FIRST(&gateway->requests);

    if (c->closing) {
        return;
    }
    c->closing = true;
    LIST_REMOVE(c, siblings);
    gateway->counts.connections--;
    while (!TAILQ_EMPTY(&c->replies)) {
        drop_first_reply(c);
    }
    uv_poll_stop(&c->poll);
    uv_close((uv_handle_t *)&c->poll, connection_closed);
    close(c->fd);
    for (; r != NULL; r = TAILQ_NEXT(r, in_flight)) {
        if (r->connection == c) {
            r->connection = NULL;
            request_cancel(r);
        }
    }
}

struct connection *connection_slowest(struct gateway *gateway)
{
    struct connection *slowest = NULL;
    struct connection *c;

    LIST_FOREACH(c, &gateway->connections, siblings)
    {
        if (c->unsent > CONNECTION_READ_PAUSE && (slowest == NULL || c->unsent > slowest->unsent)) {
            slowest = c;
        }
    }
    return slowest;
}
