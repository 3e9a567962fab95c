#include "backends/docker_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker_engine_internal.h"
#include "backends/printable.h"
#include "backends/pump.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"

enum { TYPE_INPUT, TYPE_OUTPUT, TYPE_ERRORS, TYPES };

#define PATH_BYTES 1024

/* ---- Frames ----------------------------------------------------------------------------------- */

static void tell_line(struct docker_demux *demux)
{
    char text[DOCKER_ERRORS_LINE + 1];

    if (demux->line_length > 0 && demux->lines < DOCKER_ERRORS_LINES) {
        demux->lines++;
        copy_printable(text, sizeof text, demux->line, demux->line_length);
        log_trace("the relay says: %s", text);
    }
    demux->line_length = 0;
}

static void take_errors(struct docker_demux *demux, const uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length && demux->lines < DOCKER_ERRORS_LINES; i++) {
        if (data[i] == '\n' || demux->line_length == sizeof demux->line) {
            tell_line(demux);
        }
        if (data[i] != '\n') {
            demux->line[demux->line_length++] = (char)data[i];
        }
    }
}

static int begin_frame(struct docker_demux *demux, struct error *err)
{
    const uint8_t *h = demux->header;

    if (h[0] >= TYPES || h[1] != 0 || h[2] != 0 || h[3] != 0) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the engine sent what is no frame of a stream");
    }
    demux->type = h[0];
    demux->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
    demux->have = 0;
    return 0;
}

int docker_demux_take(struct docker_demux *demux, const uint8_t *data, size_t length, struct buffer *output,
                      struct error *err)
{
    for (size_t at = 0, n; at < length; at += n) {
        if (demux->left > 0) {
            n = demux->left < length - at ? demux->left : length - at;
            if (demux->type == TYPE_ERRORS) {
                take_errors(demux, data + at, n);
            } else if (buffer_append(output, data + at, n) < 0) {
                return error_set(err, errno == ENOBUFS ? ERROR_TOO_LARGE : ERROR_NO_MEMORY, 0,
                                 "the engine's stream cannot be kept");
            }
            demux->left -= (uint32_t)n;
            continue;
        }
        n = DOCKER_FRAME_HEADER - demux->have < length - at ? DOCKER_FRAME_HEADER - demux->have : length - at;
        memcpy(demux->header + demux->have, data + at, n);
        demux->have += (unsigned)n;
        if (demux->have == DOCKER_FRAME_HEADER && begin_frame(demux, err) < 0) {
            return -1;
        }
    }
    return 0;
}

bool docker_demux_end(struct docker_demux *demux)
{
    tell_line(demux);
    return demux->have == 0 && demux->left == 0;
}

/* ---- The stream ------------------------------------------------------------------------------- */

static int decode(void *state, const uint8_t *data, size_t length, struct buffer *inner,
                  struct buffer *outer, struct error *err)
{
    (void)outer;
    return docker_demux_take(state, data, length, inner, err);
}

/* The program's input has no frames. */
static int encode(void *state, const uint8_t *data, size_t length, struct buffer *outer, struct error *err)
{
    (void)state;
    return buffer_append(outer, data, length) == 0 ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
}

static void ended(void *state, const struct error *err)
{
    if (!docker_demux_end(state) && err == NULL) {
        log_trace("the engine's stream ended within a frame");
    }
    free(state);
}

static const struct pump_codec stream_codec = {
    .decode = decode,
    .encode = encode,
    .ended = ended,
};

static int begin_stream(struct docker_engine *engine, const char *path, uint64_t deadline_ms,
                        struct http_stream **ret, struct docker_reply *refused, struct error *err)
{
    static const char *const headers[] = {"Connection: Upgrade", "Upgrade: tcp", NULL};
    static const char body[] = "{\"Detach\":false,\"Tty\":false}";
    cleanup_http_answer struct http_answer answer = HTTP_ANSWER_INIT;
    const struct http_request request = {
        .method = "POST",
        .path = path,
        .headers = headers,
        .body = body,
        .body_length = sizeof body - 1,
        .deadline_ms = deadline_ms,
    };

    if (http_upgrade(engine->http, &request, ret, &answer, err) < 0) {
        return -1;
    }
    return *ret != NULL ? 0 : docker_reply_take(refused, &answer, err);
}

int docker_exec_stream(struct docker_engine *engine, const char *exec_id, uint64_t deadline_ms, int *ret_fd,
                       struct docker_reply *refused, struct error *err)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(PATH_BYTES);
    cleanup_buffer struct buffer below = BUFFER_INIT(PATH_BYTES);
    struct http_stream *stream = NULL;
    struct docker_demux *demux;

    if (buffer_append_string(&below, "/exec/") < 0 || http_put_segment(&below, exec_id) < 0 ||
        buffer_append_string(&below, "/start") < 0 || buffer_text(&below) == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the exec's id is too long");
    }
    if (docker_put_path(engine, &path, (const char *)below.data, err) < 0 ||
        begin_stream(engine, (const char *)path.data, deadline_ms, &stream, refused, err) < 0) {
        return -1;
    }
    *ret_fd = -1;
    if (stream == NULL) {
        return 0;
    }
    demux = calloc(1, sizeof *demux);
    if (demux == NULL) {
        http_stream_close(stream);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return pump_start(stream, &stream_codec, demux, ret_fd, err);
}
