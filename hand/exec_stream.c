/* The pipes of a command. They are always read, whatever the host does: up to `keep` bytes are kept, the
 * rest is counted and dropped. After the command's end they are read into nowhere as long as a process
 * in the background holds them, so that it does not die of SIGPIPE. */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "hand/exec.h"

/* ---- Output ------------------------------------------------------------------------------------ */

uint64_t stream_end(const struct stream *stream)
{
    return stream->base + stream->kept.length;
}

/* How many bytes more may be kept. */
static uint64_t stream_room(const struct stream *stream)
{
    uint64_t until = stream->keep + (stream->flow ? stream->credit : 0);

    return until > stream_end(stream) ? until - stream_end(stream) : 0;
}

/* Reads at most `max` bytes once. As read(2). */
static ssize_t stream_read(struct stream *stream, size_t max)
{
    struct executions *set = stream->execution->set;
    uint64_t room = stream_room(stream);
    size_t want = max < EXEC_CHUNK_BYTES ? max : EXEC_CHUNK_BYTES;
    uint8_t *to = NULL;
    ssize_t n;

    if (room > 0) {
        want = want < room ? want : (size_t)room;
        to = buffer_reserve(&stream->kept, want);
        if (to == NULL) {
            stream->flow = false; /* out of memory: from here on it is dropped */
            stream->keep = stream_end(stream);
        }
    }
    n = read(stream->source.fd, to != NULL ? to : set->scratch, want);
    if (n > 0) {
        stream->total += (uint64_t)n;
        if (to != NULL) {
            buffer_commit(&stream->kept, (size_t)n);
        }
    }
    return n;
}

/* Leaves what comes in the pipe. It is out of the loop, which would tell of a hang-up again and again. */
static void stream_hold(struct stream *stream)
{
    if (stream->source.fd >= 0) {
        stream->held = loop_release(stream->execution->set->loop, &stream->source);
    }
}

static void stream_ready(struct source *source, uint32_t events);

static void stream_go_on(struct stream *stream)
{
    int fd = stream->held;

    stream->held = -1;
    if (fd >= 0 &&
        loop_add(stream->execution->set->loop, &stream->source, fd, EPOLLIN, stream_ready) < 0) {
        close(fd);
    }
}

void stream_credit(struct stream *stream, uint64_t total)
{
    if (total > stream->credit) {
        stream->credit = total;
    }
    if (stream->held >= 0 && stream_room(stream) >= stream->keep / 4) {
        stream_go_on(stream);
    }
}

static void stream_ready(struct source *source, uint32_t events)
{
    struct stream *stream = container_of(source, struct stream, source);
    ssize_t n;

    if (stream->flow && stream_room(stream) == 0) {
        stream_hold(stream);
        return;
    }
    /* At a hang-up alone there is hardly anything: not worth the memory for more. */
    n = stream_read(stream, (events & EPOLLIN) != 0 ? EXEC_CHUNK_BYTES : EXEC_HANGUP_BYTES);
    if (n > 0) {
        execution_changed(stream->execution);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        stream_close(stream);
    }
}

int stream_open(struct execution *e, unsigned index, int fd)
{
    return loop_add(e->set->loop, &e->streams[index].source, fd, EPOLLIN, stream_ready);
}

void stream_close(struct stream *stream)
{
    loop_remove(stream->execution->set->loop, &stream->source);
    if (stream->held >= 0) {
        close(stream->held);
        stream->held = -1;
    }
}

/* ---- Left-over pipes --------------------------------------------------------------------------- */

struct drain {
    struct list node;
    struct source source;
    struct executions *set;
};

static void drain_close(struct drain *drain)
{
    loop_remove(drain->set->loop, &drain->source);
    list_remove(&drain->node);
    drain->set->drain_count--;
    free(drain);
}

static void drain_ready(struct source *source, uint32_t events)
{
    struct drain *drain = container_of(source, struct drain, source);
    ssize_t n = read(source->fd, drain->set->scratch, sizeof drain->set->scratch);

    (void)events;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        drain_close(drain);
    }
}

static void drain_open(struct executions *set, int fd)
{
    struct drain *drain = calloc(1, sizeof *drain);

    if (drain == NULL || loop_add(set->loop, &drain->source, fd, EPOLLIN, drain_ready) < 0) {
        free(drain);
        close(fd);
        return;
    }
    drain->set = set;
    list_append(&set->drains, &drain->node);
    set->drain_count++;
    if (set->drain_count > EXEC_MAX_DRAINS) {
        drain_close(container_of(set->drains.next, struct drain, node));
    }
}

/* How many bytes are there at this moment. Of a terminal not all of them are counted: it is read until
 * there are no more, but not for ever. */
static int bytes_waiting(const struct stream *stream)
{
    int waiting = 0;

    if (stream->source.fd < 0) {
        return 0;
    }
    if (stream->execution->is_terminal) {
        return EXEC_MAX_TERMINAL_REST;
    }
    return ioctl(stream->source.fd, FIONREAD, &waiting) < 0 ? 0 : waiting;
}

void stream_finish(struct stream *stream)
{
    struct executions *set = stream->execution->set;
    int waiting;
    ssize_t n = 1;

    stream_go_on(stream);
    waiting = bytes_waiting(stream);
    if (stream->flow) {
        stream->keep += waiting < (int)WIRE_MAX_REST ? (unsigned)waiting : WIRE_MAX_REST;
    }
    while (waiting > 0 && (n = stream_read(stream, (size_t)waiting)) > 0) {
        waiting -= (int)n;
    }
    if (stream->source.fd >= 0) {
        drain_open(set, loop_release(set->loop, &stream->source));
    }
}

/* ---- Input ------------------------------------------------------------------------------------- */

/* Nobody reads any more: what waits, and what still comes, counts as written. */
void input_close(struct execution *e)
{
    struct input *in = &e->input;

    loop_remove(e->set->loop, &in->source);
    buffer_release(&in->queue);
    in->at = 0;
    in->done = in->received;
}

/* A terminal does not end: who reads from it is told by a character. */
static void type_eof(struct execution *e)
{
    struct input *in = &e->input;
    uint8_t typed[2];
    size_t length = terminal_eof(in->source.fd, in->last, typed);

    in->eof_typed = true;
    in->done -= length; /* they are no bytes of the host's */
    if (buffer_append(&in->queue, typed, length) < 0) {
        in->done += length;
    }
}

/* Writes what the pipe takes. */
static void input_pump(struct execution *e)
{
    struct input *in = &e->input;

    for (;;) {
        ssize_t n;

        if (in->at == in->queue.length && in->eof && e->is_terminal && !in->eof_typed) {
            type_eof(e);
        }
        if (in->at == in->queue.length) {
            break;
        }
        n = write(in->source.fd, in->queue.data + in->at, in->queue.length - in->at);

        if (n < 0 && errno == EAGAIN) {
            loop_want(e->set->loop, &in->source, EPOLLOUT);
            break;
        }
        if (n < 0 && errno != EINTR) {
            input_close(e);
            return;
        }
        if (n > 0) {
            in->at += (size_t)n;
            in->last = in->queue.data[in->at - 1];
            in->done += (uint64_t)n;
        }
    }
    if (in->at == in->queue.length) {
        if (in->eof) {
            input_close(e);
            return;
        }
        buffer_clear(&in->queue);
        in->at = 0;
        loop_want(e->set->loop, &in->source, 0);
    } else if (in->at >= EXEC_INPUT_WINDOW / 2) {
        buffer_consume(&in->queue, in->at);
        in->at = 0;
    }
}

static void input_ready(struct source *source, uint32_t events)
{
    struct execution *e = container_of(source, struct execution, input.source);

    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        input_close(e);
    } else {
        input_pump(e);
    }
    execution_changed(e);
}

int input_open(struct execution *e, int fd)
{
    return loop_add(e->set->loop, &e->input.source, fd, 0, input_ready);
}

int execution_input(struct execution *e, uint64_t offset, const uint8_t *data, size_t length)
{
    struct input *in = &e->input;
    uint64_t known = in->received;

    if (offset > known || length > EXEC_INPUT_WINDOW ||
        offset + length > in->done + EXEC_INPUT_WINDOW) {
        return -1;
    }
    if (offset + length <= known) {
        return 0; /* all of it came before a reconnect */
    }
    in->received = offset + length;
    if (in->source.fd < 0 || in->eof) {
        in->done = in->received;
    } else if (buffer_append(&in->queue, data + (known - offset), length - (size_t)(known - offset)) < 0) {
        return -1;
    } else {
        input_pump(e);
    }
    execution_changed(e);
    return 0;
}

void execution_eof(struct execution *e)
{
    e->input.eof = true;
    if (e->input.source.fd >= 0) {
        input_pump(e);
    }
}
