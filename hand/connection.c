/* One connection: bytes in, frames out. Replies to file calls go before the output of commands. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hand/server.h"
#include "sandbox/clock.h"

#define READ_BYTES 65536
#define READS_AT_ONCE 8          /* before the others have their turn */
#define SENT_AT_ONCE (1u << 20)  /* likewise */
#define IDLE_BYTES (256u << 10)  /* a larger buffer is given back when it is empty */

/* ---- Out --------------------------------------------------------------------------------------- */

void connection_send(struct connection *c, struct buffer *frame)
{
    struct outgoing *o = calloc(1, sizeof *o);

    c->changed = true;
    if (o == NULL) {
        buffer_release(frame);
        c->broken = true; /* the host must not wait for this frame */
        return;
    }
    buffer_init(&o->frame, frame->limit);
    buffer_move(&o->frame, frame);
    c->unsent += o->frame.length;
    list_append(&c->replies, &o->node);
}

static void outgoing_free(struct outgoing *o)
{
    list_remove(&o->node);
    buffer_release(&o->frame);
    free(o);
}

/* The next reply, if there is room for it. 1, 0, or -1 where memory ran out. */
static int fill_reply(struct connection *c)
{
    struct outgoing *o = container_of(c->replies.next, struct outgoing, node);
    int r = 1;

    if (c->out.length == 0 && o->frame.length > HAND_FILL_BYTES) {
        size_t limit = c->out.limit;

        buffer_move(&c->out, &o->frame);
        c->out.limit = limit;
    } else if (c->out.length + o->frame.length > HAND_FILL_BYTES && c->out.length > 0) {
        return 0;
    } else {
        r = buffer_append(&c->out, o->frame.data, o->frame.length) < 0 ? -1 : 1;
    }
    outgoing_free(o);
    return r;
}

static int fill(struct connection *c)
{
    int r = 1;

    while (r > 0 && c->out.length < HAND_FILL_BYTES) {
        if (!list_empty(&c->replies)) {
            r = fill_reply(c);
        } else {
            size_t before = c->out.length;

            r = c->client != NULL ? client_tell(c->client, &c->out) : 0;
            c->unsent += c->out.length - before;
        }
    }
    return r;
}

static void out_clear(struct connection *c)
{
    c->out_at = 0;
    if (c->out.capacity > IDLE_BYTES) {
        buffer_release(&c->out);
    } else {
        buffer_clear(&c->out);
    }
}

static int flush(struct connection *c)
{
    size_t sent = 0;

    while (!c->blocked) {
        ssize_t n;

        if (c->out_at == c->out.length) {
            out_clear(c);
            if (fill(c) < 0) {
                return -1;
            }
            if (c->out.length == 0) {
                return 0;
            }
        }
        n = send(c->source.fd, c->out.data + c->out_at, c->out.length - c->out_at,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return -1;
        }
        if (n > 0) {
            c->out_at += (size_t)n;
            c->unsent -= (size_t)n;
            sent += (size_t)n;
        }
        c->blocked = (n < 0 && errno == EAGAIN) || sent >= SENT_AT_ONCE;
    }
    return 0;
}

/* ---- In ---------------------------------------------------------------------------------------- */

static bool may_read(const struct connection *c)
{
    return c->unsent <= HAND_MAX_UNSENT && (c->client == NULL || !client_busy(c->client));
}

/* Serves the whole frames that are there. */
static int serve_frames(struct connection *c)
{
    size_t at = 0;

    while (!c->broken && c->in.length - at >= WIRE_HEADER_BYTES && may_read(c)) {
        struct wire_header header;

        if (wire_decode_header(c->in.data + at, &header) < 0) {
            return -1;
        }
        if (c->in.length - at - WIRE_HEADER_BYTES < header.length) {
            break;
        }
        if (request_serve(c, &header, c->in.data + at + WIRE_HEADER_BYTES) < 0) {
            return -1;
        }
        at += WIRE_HEADER_BYTES + header.length;
    }
    buffer_consume(&c->in, at);
    if (c->in.length == 0 && c->in.capacity > IDLE_BYTES) {
        buffer_release(&c->in);
    }
    return 0;
}

/* How much to read: all that a large frame still lacks, or what there is. */
static size_t read_size(const struct connection *c)
{
    struct wire_header header;
    size_t missing;

    if (c->in.length < WIRE_HEADER_BYTES || wire_decode_header(c->in.data, &header) < 0) {
        return READ_BYTES;
    }
    if (WIRE_HEADER_BYTES + (size_t)header.length <= c->in.length) {
        return READ_BYTES;
    }
    missing = WIRE_HEADER_BYTES + header.length - c->in.length;
    return missing > READ_BYTES ? missing : READ_BYTES;
}

static int read_frames(struct connection *c)
{
    for (unsigned i = 0; i < READS_AT_ONCE && may_read(c); i++) {
        size_t want = read_size(c);
        uint8_t *to = buffer_reserve(&c->in, want);
        ssize_t n;

        if (to == NULL) {
            return -1;
        }
        n = recv(c->source.fd, to, want, MSG_DONTWAIT);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        if (n == 0) {
            return -1;
        }
        buffer_commit(&c->in, (size_t)n);
        c->server->heard_ms = clock_now_ms();
        if (serve_frames(c) < 0) {
            return -1;
        }
        if ((size_t)n < want) {
            return 0;
        }
    }
    return 0;
}

/* ---- Both -------------------------------------------------------------------------------------- */

static void connection_ready(struct source *source, uint32_t events)
{
    struct connection *c = container_of(source, struct connection, source);

    c->changed = true;
    if ((events & EPOLLOUT) != 0) {
        c->blocked = false;
    }
    if (!may_read(c)) {
        c->broken |= (events & (EPOLLHUP | EPOLLERR)) != 0;
    } else if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && read_frames(c) < 0) {
        c->broken = true;
    }
}

void connection_settle(struct connection *c)
{
    uint32_t events;

    c->changed = false;
    if (c->broken || flush(c) < 0 || serve_frames(c) < 0 || flush(c) < 0 || c->broken) {
        connection_close(c);
        return;
    }
    if (c->client != NULL) {
        client_feed(c->client);
    }
    events = (may_read(c) ? EPOLLIN : 0U) | (c->blocked ? EPOLLOUT : 0U);
    loop_want(&c->server->loop, &c->source, events);
}

static void hello_missed(struct timer *timer)
{
    struct connection *c = container_of(timer, struct connection, hello);

    c->broken = c->changed = true;
}

int connection_open(struct server *server, int fd)
{
    struct connection *c = calloc(1, sizeof *c);

    if (c == NULL || loop_add(&server->loop, &c->source, fd, EPOLLIN, connection_ready) < 0) {
        free(c);
        return -1;
    }
    c->server = server;
    c->serial = ++server->serial;
    buffer_init(&c->in, WIRE_HEADER_BYTES + WIRE_MAX_EXEC_PAYLOAD + READ_BYTES);
    buffer_init(&c->out, 2 * HAND_FILL_BYTES + WIRE_MAX_PAYLOAD);
    list_init(&c->replies);
    timer_init(&c->hello, hello_missed);
    loop_arm(&server->loop, &c->hello, HAND_HELLO_MS);
    list_append(&server->connections, &c->node);
    server->connection_count++;
    return 0;
}

void connection_close(struct connection *c)
{
    struct client *client = c->client;

    list_each(at, next, &c->replies) {
        outgoing_free(container_of(at, struct outgoing, node));
    }
    loop_remove(&c->server->loop, &c->source);
    loop_disarm(&c->hello);
    buffer_release(&c->in);
    buffer_release(&c->out);
    list_remove(&c->node);
    c->server->connection_count--;
    free(c);
    if (client != NULL) {
        client_leave(client);
    }
}
