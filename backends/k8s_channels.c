#include "backends/k8s_channels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/printable.h"

static int keep(struct buffer *to, const uint8_t *data, size_t length, const char *what,
                struct error *err)
{
    if (buffer_append(to, data, length) == 0) {
        return 0;
    }
    return errno == ENOBUFS ? error_set(err, ERROR_TOO_LARGE, 0, "%s is over %zu bytes", what, to->limit)
                            : error_set(err, ERROR_NO_MEMORY, 0, "out of memory for %s", what);
}

static int to_channel(struct k8s_channels *channels, const uint8_t *data, size_t length,
                      struct error *err)
{
    size_t room = channels->errors.limit - channels->errors.length;

    switch (channels->channel) {
    case K8S_STDOUT:
        channels->received += length;
        return keep(channels->output, data, length, "the program's output", err);
    case K8S_STDERR:
        return keep(&channels->errors, data, length < room ? length : room, "stderr", err);
    case K8S_ERROR:
        return keep(&channels->status, data, length, "the program's Status", err);
    default:
        return 0; /* that a channel ends (v5) is nothing to us: the Status says when all is over */
    }
}

static int piece(void *arg, bool first, bool last, const uint8_t *data, size_t length,
                 struct error *err)
{
    struct k8s_channels *channels = arg;

    (void)last;
    if (first) {
        channels->begun = false;
    }
    if (!channels->begun && length > 0) {
        channels->channel = data[0];
        channels->begun = true;
        data++;
        length--;
    }
    return length > 0 ? to_channel(channels, data, length, err) : 0;
}

int k8s_channels_init(struct k8s_channels *ret, bool v5, struct error *err)
{
    *ret = (struct k8s_channels){.v5 = v5};
    buffer_init(&ret->errors, K8S_KEPT_ERRORS);
    buffer_init(&ret->status, K8S_MAX_STATUS);
    return websocket_new(&ret->websocket, piece, ret, err);
}

void k8s_channels_release(struct k8s_channels *channels)
{
    websocket_free(channels->websocket);
    channels->websocket = NULL;
    buffer_release(&channels->errors);
    buffer_release(&channels->status);
}

int k8s_channels_take(struct k8s_channels *channels, const uint8_t *data, size_t length,
                      struct buffer *output, struct buffer *outer, struct error *err)
{
    int r;

    channels->output = output;
    r = websocket_take(channels->websocket, data, length, outer, err);
    channels->output = NULL;
    return r;
}

int k8s_channels_put_input(struct k8s_channels *channels, const uint8_t *data, size_t length,
                           struct buffer *outer, struct error *err)
{
    static const uint8_t head[] = {K8S_STDIN};

    while (length > 0) {
        size_t n = length < K8S_INPUT_PIECE ? length : K8S_INPUT_PIECE;

        if (websocket_put_message(channels->websocket, head, sizeof head, data, n, outer, err) < 0) {
            return -1;
        }
        data += n;
        length -= n;
    }
    return 0;
}

int k8s_channels_put_end(struct k8s_channels *channels, struct buffer *outer, struct error *err)
{
    static const uint8_t message[] = {K8S_CLOSE, K8S_STDIN};

    return channels->v5 ? websocket_put_message(channels->websocket, message, sizeof message, NULL, 0,
                                                outer, err)
                        : 0;
}

int k8s_channels_put_life(struct k8s_channels *channels, struct buffer *outer, struct error *err)
{
    return websocket_put_ping(channels->websocket, outer, err) < 0
               ? -1
               : websocket_put_message(channels->websocket, NULL, 0, NULL, 0, outer, err);
}

/* ---- The end ---------------------------------------------------------------------------------- */

/* The exit code among details.causes; -1 where there is none. */
static int exit_code_of(const json_t *status)
{
    const char *reason = json_string_value(json_object_get(status, "reason"));
    const json_t *causes = json_object_get(json_object_get(status, "details"), "causes");
    const json_t *cause;
    size_t i;

    if (reason == NULL || strcmp(reason, "NonZeroExitCode") != 0) {
        return -1;
    }
    json_array_foreach(causes, i, cause) {
        const char *kind = json_string_value(json_object_get(cause, "reason"));
        const char *text = json_string_value(json_object_get(cause, "message"));
        char *end;
        long code;

        if (kind == NULL || strcmp(kind, "ExitCode") != 0 || text == NULL) {
            continue;
        }
        code = strtol(text, &end, 10);
        return end != text && *end == '\0' && code > 0 && code <= 255 ? (int)code : -1;
    }
    return -1;
}

static int not_run(const json_t *status, struct error *err)
{
    const json_t *text = json_object_get(status, "message");
    char message[ERROR_MESSAGE_MAX - 64];

    copy_printable(message, sizeof message, json_is_string(text) ? json_string_value(text) : "",
                   json_string_length(text));
    return error_set(err, ERROR_IO, 0, "the program was not run%s%s", message[0] != '\0' ? ": " : "",
                     message);
}

int k8s_channels_exit(const struct k8s_channels *channels, int *ret_exit, struct error *err)
{
    char words[ERROR_MESSAGE_MAX - 64];
    json_t *status;
    const char *verdict;
    int code;

    if (channels->status.length == 0) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the stream ended without a word about the program");
    }
    status = json_loadb((const char *)channels->status.data, channels->status.length, 0, NULL);
    verdict = json_string_value(json_object_get(status, "status"));
    if (verdict == NULL) {
        json_decref(status);
        return error_set(err, ERROR_NO_ANSWER, 0, "the word about the program's end is no Status");
    }
    code = strcmp(verdict, "Success") == 0 ? 0 : exit_code_of(status);
    if (code < 0) {
        not_run(status, err);
        json_decref(status);
        return -1;
    }
    json_decref(status);
    if (code != 0) {
        copy_printable(words, sizeof words, channels->errors.data, channels->errors.length);
        error_set(err, ERROR_IO, 0, "%s", words);
    }
    *ret_exit = code;
    return 0;
}
