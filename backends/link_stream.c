/* Bytes of one stream. What the hand sends is read in large pieces and taken apart into frames; what
 * goes to it is gathered and written once a turn of the loop. A frame that breaks the rules ends the
 * stream: nothing that such a hand says later is believed to belong to anything. */
#include "backends/link_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FRAME (WIRE_HEADER_BYTES + WIRE_MAX_PAYLOAD)

static void ready(uv_poll_t *poll, int status, int events);

static void stream_free(uv_handle_t *handle)
{
    struct stream *stream = handle->data;
    struct link *link = stream->link;

    buffer_release(&stream->in);
    buffer_release(&stream->out.bytes);
    free(stream);
    link->handles--;
    link_reap(link);
}

int stream_open(struct link *link, int fd, struct error *err)
{
    struct stream *stream = calloc(1, sizeof *stream);
    int type;
    socklen_t length = sizeof type;
    int r = stream != NULL ? uv_poll_init(link->loop, &stream->poll, fd) : UV_ENOMEM;

    if (r < 0) {
        free(stream);
        close(fd);
        return error_set_errno(err, -r, "the stream to the hand");
    }
    stream->link = link;
    stream->fd = fd;
    stream->poll.data = stream;
    stream->is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
    buffer_init(&stream->in, MAX_FRAME + LINK_READ_BYTES);
    buffer_init(&stream->out.bytes, LINK_MAX_UNSENT);
    stream->events = UV_READABLE;
    uv_poll_start(&stream->poll, stream->events, ready);
    link->handles++;
    link->stream = stream;
    return 0;
}

void stream_close(struct stream *stream)
{
    if (stream->closed) {
        return;
    }
    stream->closed = true;
    stream->link->stream = NULL;
    uv_poll_stop(&stream->poll);
    close(stream->fd);
    uv_close((uv_handle_t *)&stream->poll, stream_free);
}

struct buffer *link_out(struct link *link)
{
    return link->stream != NULL && link->phase == PHASE_UP ? &link->stream->out.bytes : NULL;
}

static void lose(struct stream *stream, const char *why, int os_errno)
{
    struct error err;

    if (stream->closed) {
        return;
    }
    if (os_errno != 0) {
        error_set_errno(&err, os_errno, "%s", why);
        err.code = ERROR_IO;
    } else {
        error_set(&err, ERROR_IO, 0, "%s", why);
    }
    link_lost(stream->link, &err);
}

/* ---- Frames in -------------------------------------------------------------------------------- */

/* What may come once the hand has welcomed us. -1 where this may not. */
static int take_frame(struct link *link, const struct wire_header *header, const uint8_t *payload)
{
    switch (header->type) {
    case WIRE_PONG:
        return header->length == 0 ? 0 : -1;
    case WIRE_RESULT:
        return calls_result(link, header->id, payload, header->length);
    case WIRE_EXEC_STARTED:
    case WIRE_EXEC_FAILED:
    case WIRE_EXEC_OUTPUT:
    case WIRE_EXEC_WANT:
    case WIRE_EXEC_EXIT:
        return executions_frame(link, header, payload);
    default:
        return -1;
    }
}

static void dispatch(struct stream *stream, const struct wire_header *header, const uint8_t *payload)
{
    struct link *link = stream->link;

    if (header->type == WIRE_REFUSE) {
        link_refuse(link, payload, header->length);
    } else if (link->phase == PHASE_GREETING && header->type == WIRE_WELCOME) {
        link_welcome(link, payload, header->length);
    } else if (link->phase == PHASE_GREETING || take_frame(link, header, payload) < 0) {
        lose(stream, "the hand broke the rules of the wire", 0);
    }
}

/* Takes apart what is there. A callback may drop the stream; its memory stays until the loop's next
 * turn. */
static void take_frames(struct stream *stream)
{
    size_t at = 0;

    while (!stream->closed && stream->in.length - at >= WIRE_HEADER_BYTES) {
        const uint8_t *frame = stream->in.data + at;
        struct wire_header header;

        if (wire_decode_header(frame, &header) < 0 || header.type < WIRE_WELCOME) {
            lose(stream, "the hand sent what is no frame", 0);
            break;
        }
        if (stream->in.length - at - WIRE_HEADER_BYTES < header.length) {
            break;
        }
        at += WIRE_HEADER_BYTES + header.length;
        dispatch(stream, &header, frame + WIRE_HEADER_BYTES);
    }
    if (stream->closed) {
        return;
    }
    buffer_consume(&stream->in, at);
    if (stream->in.length == 0 && stream->in.capacity > LINK_KEEP_BYTES) {
        buffer_release(&stream->in);
    }
}

/* One read. True where there may be more. */
static bool read_once(struct stream *stream)
{
    uint8_t *to = buffer_reserve(&stream->in, LINK_READ_BYTES);
    ssize_t n;

    if (to == NULL) {
        lose(stream, "out of memory for what the hand sends", 0);
        return false;
    }
    n = read(stream->fd, to, LINK_READ_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        lose(stream, "the stream to the hand broke", n < 0 ? errno : 0);
        return false;
    }
    buffer_commit(&stream->in, (size_t)n);
    link_heard(stream->link);
    take_frames(stream);
    return !stream->closed && (size_t)n == LINK_READ_BYTES;
}

static void read_some(struct stream *stream)
{
    struct link *link = stream->link;

    for (unsigned i = 0; i < LINK_READS_A_TURN && read_once(stream); i++) {
    }
    if (stream->closed) {
        return;
    }
    place_run(link); /* a sign of life */
}

/* The stream is broken, but what is in it may be an EXIT. Bounded, for a hand that goes on and on. */
static void hear_last_words(struct stream *stream)
{
    for (unsigned i = 0; i < LINK_LAST_READS && read_once(stream); i++) {
    }
}

/* ---- Frames out ------------------------------------------------------------------------------- */

static void watch(struct stream *stream, int events)
{
    if (events != stream->events) {
        stream->events = events;
        uv_poll_start(&stream->poll, events, ready);
    }
}

static ssize_t write_once(const struct stream *stream)
{
    const uint8_t *data = fifo_data(&stream->out);
    size_t length = fifo_length(&stream->out);

    return stream->is_socket ? send(stream->fd, data, length, MSG_NOSIGNAL)
                             : write(stream->fd, data, length);
}

static void write_some(struct stream *stream)
{
    while (fifo_length(&stream->out) > 0) {
        ssize_t n = write_once(stream);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            watch(stream, UV_READABLE | UV_WRITABLE);
            return;
        }
        if (n < 0) {
            int os_errno = errno;

            hear_last_words(stream);
            lose(stream, "the stream to the hand broke", os_errno);
            return;
        }
        fifo_consume(&stream->out, (size_t)n);
        if (fifo_length(&stream->out) == 0 && link_out(stream->link) != NULL) {
            executions_drained(stream->link);
        }
    }
    watch(stream, UV_READABLE);
}

void stream_flush(struct stream *stream)
{
    if ((stream->events & UV_WRITABLE) == 0 && fifo_length(&stream->out) > 0) {
        write_some(stream);
    }
}

static void ready(uv_poll_t *poll, int status, int events)
{
    struct stream *stream = poll->data;

    if (status < 0) {
        hear_last_words(stream);
        lose(stream, "the stream to the hand broke", -status);
        return;
    }
    if ((events & UV_READABLE) != 0) {
        read_some(stream);
    }
    if ((events & UV_WRITABLE) != 0 && !stream->closed) {
        write_some(stream);
    }
}
