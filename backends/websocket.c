/* The rules of RFC 6455 that libwslay's frame layer leaves to its caller: what may follow what (5.4), who
 * masks (5.1), which opcodes there are (5.2), control frames (5.5). */
#include "backends/websocket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#define MAX_CONTROL 125 /* bytes of a control frame's payload */
#define NO_STATUS 1005

struct websocket {
    wslay_frame_context_ptr frames;
    websocket_piece piece;
    void *arg;
    const uint8_t *in; /* of the bytes being taken */
    size_t in_length;
    struct buffer *out;  /* of the frame being written */
    bool in_frame;
    uint8_t opcode;      /* of the frame at hand */
    bool fin;
    uint64_t left;       /* of its payload */
    bool in_message;     /* a message was begun and is not at its end */
    bool first;          /* nothing of it was handed on yet */
    uint8_t control[MAX_CONTROL];
    size_t control_length;
    unsigned pings;      /* in this piece of bytes */
    unsigned close_code; /* of the server; 0: not yet */
    bool close_sent;
};

static ssize_t give_bytes(uint8_t *to, size_t length, int flags, void *arg)
{
    struct websocket *websocket = arg;
    size_t n = length < websocket->in_length ? length : websocket->in_length;

    (void)flags;
    if (n == 0) {
        return -1;
    }
    memcpy(to, websocket->in, n);
    websocket->in += n;
    websocket->in_length -= n;
    return (ssize_t)n;
}

static ssize_t take_bytes(const uint8_t *data, size_t length, int flags, void *arg)
{
    struct websocket *websocket = arg;

    (void)flags;
    return buffer_append(websocket->out, data, length) < 0 ? -1 : (ssize_t)length;
}

static int random_mask(uint8_t *to, size_t length, void *arg)
{
    (void)arg;
    return getrandom(to, length, 0) == (ssize_t)length ? 0 : -1;
}

int websocket_new(struct websocket **ret, websocket_piece piece, void *arg, struct error *err)
{
    static const struct wslay_frame_callbacks callbacks = {take_bytes, give_bytes, random_mask};
    struct websocket *websocket = calloc(1, sizeof *websocket);

    if (websocket == NULL || wslay_frame_context_init(&websocket->frames, &callbacks, websocket) != 0) {
        free(websocket);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a stream");
    }
    websocket->piece = piece;
    websocket->arg = arg;
    *ret = websocket;
    return 0;
}

void websocket_free(struct websocket *websocket)
{
    if (websocket != NULL) {
        wslay_frame_context_free(websocket->frames);
        free(websocket);
    }
}

unsigned websocket_close_code(const struct websocket *websocket)
{
    return websocket->close_code;
}

/* ---- Writing ---------------------------------------------------------------------------------- */

static int put_payload(struct websocket *websocket, struct wslay_frame_iocb *frame, const void *data,
                       size_t length)
{
    frame->data = data;
    frame->data_length = length;
    return wslay_frame_send(websocket->frames, frame) == (ssize_t)length ? 0 : -1;
}

static int put_frame(struct websocket *websocket, uint8_t opcode, const void *head, size_t head_length,
                     const void *data, size_t length, struct buffer *outer, struct error *err)
{
    struct wslay_frame_iocb frame = {
        .fin = 1, .opcode = opcode, .mask = 1, .payload_length = head_length + length};
    int r = 0;

    if (outer->limit - outer->length < WEBSOCKET_OVERHEAD ||
        outer->limit - outer->length - WEBSOCKET_OVERHEAD < head_length + length) {
        return error_set(err, ERROR_NO_MEMORY, 0, "there is no room for a frame");
    }
    websocket->out = outer;
    if (head_length > 0 || length == 0) {
        r = put_payload(websocket, &frame, head, head_length);
    }
    if (r == 0 && length > 0) {
        r = put_payload(websocket, &frame, data, length);
    }
    websocket->out = NULL;
    return r == 0 ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a frame");
}

int websocket_put_message(struct websocket *websocket, const void *head, size_t head_length,
                          const void *data, size_t length, struct buffer *outer, struct error *err)
{
    return put_frame(websocket, WSLAY_BINARY_FRAME, head, head_length, data, length, outer, err);
}

int websocket_put_ping(struct websocket *websocket, struct buffer *outer, struct error *err)
{
    return put_frame(websocket, WSLAY_PING, NULL, 0, NULL, 0, outer, err);
}

int websocket_put_close(struct websocket *websocket, unsigned code, struct buffer *outer,
                        struct error *err)
{
    const uint8_t payload[] = {(uint8_t)(code >> 8), (uint8_t)code};

    if (websocket->close_sent) {
        return 0;
    }
    websocket->close_sent = true;
    return put_frame(websocket, WSLAY_CONNECTION_CLOSE, payload, code == NO_STATUS ? 0 : sizeof payload,
                     NULL, 0, outer, err);
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static int fault(struct error *err, const char *what)
{
    return error_set(err, ERROR_NO_ANSWER, 0, "the server's stream is no WebSocket: %s", what);
}

/* A frame's head came: may it stand here? */
static int begin_frame(struct websocket *websocket, const struct wslay_frame_iocb *frame,
                       struct error *err)
{
    bool control = wslay_is_ctrl_frame(frame->opcode);

    if (frame->rsv != 0) {
        return fault(err, "an extension that nobody asked for");
    }
    if (frame->mask != 0) {
        return fault(err, "a masked frame");
    }
    if (control ? frame->opcode > WSLAY_PONG : frame->opcode > WSLAY_BINARY_FRAME) {
        return fault(err, "an unknown opcode");
    }
    if (control && (frame->fin == 0 || frame->payload_length > MAX_CONTROL)) {
        return fault(err, "a control frame that is too large or in parts");
    }
    if (!control && (frame->opcode == WSLAY_CONTINUATION_FRAME) != websocket->in_message) {
        return fault(err, "parts of messages out of order");
    }
    if (!control && frame->opcode != WSLAY_CONTINUATION_FRAME) {
        websocket->in_message = true;
        websocket->first = true;
    }
    websocket->in_frame = true;
    websocket->opcode = frame->opcode;
    websocket->fin = frame->fin != 0;
    websocket->left = frame->payload_length;
    websocket->control_length = 0;
    return 0;
}

/* Codes that may stand in a frame (RFC 6455, 7.4). */
static bool is_close_code(unsigned code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}

static int closed(struct websocket *websocket, struct buffer *outer, struct error *err)
{
    unsigned code = NO_STATUS;

    if (websocket->control_length == 1) {
        return fault(err, "a close with half a code");
    }
    if (websocket->control_length >= 2) {
        code = (unsigned)websocket->control[0] << 8 | websocket->control[1];
        if (!is_close_code(code)) {
            return fault(err, "a close with a code that there is not");
        }
    }
    websocket->close_code = code;
    return websocket_put_close(websocket, code, outer, err);
}

static int end_control(struct websocket *websocket, struct buffer *outer, struct error *err)
{
    if (websocket->opcode == WSLAY_CONNECTION_CLOSE) {
        return closed(websocket, outer, err);
    }
    if (websocket->opcode == WSLAY_PING && !websocket->close_sent &&
        ++websocket->pings <= WEBSOCKET_MAX_PINGS) {
        return put_frame(websocket, WSLAY_PONG, websocket->control, websocket->control_length, NULL, 0,
                         outer, err);
    }
    return 0;
}

/* Some of a frame's payload, and perhaps its end. */
static int some_payload(struct websocket *websocket, const uint8_t *data, size_t length,
                        struct buffer *outer, struct error *err)
{
    bool control = wslay_is_ctrl_frame(websocket->opcode);
    bool last;

    websocket->left -= length;
    last = websocket->left == 0;
    websocket->in_frame = !last;
    if (control) {
        memcpy(websocket->control + websocket->control_length, data, length);
        websocket->control_length += length;
        return last ? end_control(websocket, outer, err) : 0;
    }
    last = last && websocket->fin;
    if (websocket->piece(websocket->arg, websocket->first, last, data, length, err) < 0) {
        return -1;
    }
    websocket->first = false;
    websocket->in_message = !last;
    return 0;
}

int websocket_take(struct websocket *websocket, const uint8_t *data, size_t length,
                   struct buffer *outer, struct error *err)
{
    websocket->in = data;
    websocket->in_length = length;
    websocket->pings = 0;
    while (websocket->close_code == 0) {
        static const uint8_t nothing[1];
        struct wslay_frame_iocb frame = {0};
        ssize_t n = wslay_frame_recv(websocket->frames, &frame);

        if (n == WSLAY_ERR_WANT_READ) {
            return 0;
        }
        if (n < 0) {
            return fault(err, "a frame's head makes no sense");
        }
        if (!websocket->in_frame && begin_frame(websocket, &frame, err) < 0) {
            return -1;
        }
        if ((size_t)n > websocket->left) {
            return fault(err, "a frame that is longer than it says"); /* the library would not let it be */
        }
        if (some_payload(websocket, n > 0 ? frame.data : nothing, (size_t)n, outer, err) < 0) {
            return -1;
        }
    }
    return 0;
}
