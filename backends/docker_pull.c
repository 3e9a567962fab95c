/* What the engine says while it pulls, and what people are told of it.
 *
 * Each line is an object: {"id": LAYER, "status": WORDS, "progressDetail": {"current": N,
 * "total": M}}, or one with "errorDetail" (and "error"), which is how a pull fails after its
 * status 200 has gone out. Numbers count only where they make sense; words are compared with
 * those that the engines use and else ignored. */
#include "backends/docker_pull.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker_auth.h"
#include "backends/printable.h"
#include "sandbox/clock.h"

#define MAX_BYTES (INT64_C(1) << 50) /* of a layer; more is nonsense */
#define MEGABYTE 1000000             /* as engines count them */
#define DISK_FULL "no space left on device"

void docker_pull_stream_init(struct docker_pull_stream *stream, const char *image,
                             struct sandbox_progress *progress)
{
    *stream = (struct docker_pull_stream){
        .image = image,
        .progress = progress,
        .line = BUFFER_INIT(DOCKER_PULL_LINE),
        .heard_ms = clock_now_ms(),
    };
}

void docker_pull_stream_release(struct docker_pull_stream *stream)
{
    buffer_release(&stream->line);
}

/* ---- Told ---- */

/* How far the layers that have a size are, and how many are there. */
static void tell(const struct docker_pull_stream *stream)
{
    json_int_t done = 0, total = 0;
    size_t loaded = 0, unpacked = 0;
    char text[DOCKER_MAX_REFERENCE + 128];

    for (size_t i = 0; i < stream->layer_count; i++) {
        const struct docker_pull_layer *layer = &stream->layers[i];

        done += layer->loaded ? layer->total : layer->done;
        total += layer->total;
        loaded += layer->loaded;
        unpacked += layer->unpacked;
    }
    if (stream->layer_count > 0 && loaded == stream->layer_count) {
        snprintf(text, sizeof text, "pulling %s: %zu of %zu layers unpacked", stream->image,
                 unpacked, stream->layer_count);
    } else if (total > 0) {
        snprintf(text, sizeof text,
                 "pulling %s: %" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT
                 " of %" JSON_INTEGER_FORMAT " MB",
                 stream->image, done / MEGABYTE, done % MEGABYTE / (MEGABYTE / 10),
                 (total + MEGABYTE - 1) / MEGABYTE);
    } else {
        snprintf(text, sizeof text, "pulling %s", stream->image);
    }
    stream->progress->say(stream->progress, text);
}

/* ---- Heard ---- */

/* The layer of this id, made where it is new; NULL where there are too many. */
static struct docker_pull_layer *find_layer(struct docker_pull_stream *stream, const char *id)
{
    struct docker_pull_layer *layer;

    for (size_t i = 0; i < stream->layer_count; i++) {
        if (strncmp(stream->layers[i].id, id, DOCKER_PULL_LAYER_ID - 1) == 0) {
            return &stream->layers[i];
        }
    }
    if (stream->layer_count == DOCKER_PULL_LAYERS) {
        return NULL;
    }
    layer = &stream->layers[stream->layer_count++];
    *layer = (struct docker_pull_layer){.done = 0};
    memcpy(layer->id, id, strnlen(id, DOCKER_PULL_LAYER_ID - 1));
    return layer;
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(word, *words) != 0) {
        words++;
    }
    return *words != NULL;
}

static json_int_t sane(const json_t *number, json_int_t limit)
{
    json_int_t value = json_integer_value(number); /* 0 where it is none */

    return value < 0 ? 0 : value > limit ? limit : value;
}

static void hear_layer(struct docker_pull_stream *stream, const char *id, const char *status,
                       const json_t *detail)
{
    static const char *const of_layers[] = {
        "Pulling fs layer",   "Waiting",           "Downloading",
        "Verifying Checksum", "Download complete", "Extracting",
        "Pull complete",      "Already exists",    NULL};
    static const char *const loaded[] = {"Verifying Checksum", "Download complete", "Extracting",
                                         "Pull complete",      "Already exists",    NULL};
    static const char *const unpacked[] = {"Pull complete", "Already exists", NULL};
    struct docker_pull_layer *layer = is_one_of(status, of_layers) ? find_layer(stream, id) : NULL;

    if (layer == NULL) {
        return;
    }
    if (strcmp(status, "Downloading") == 0 && json_object_get(detail, "total") != NULL) {
        layer->total = sane(json_object_get(detail, "total"), MAX_BYTES);
        layer->done = sane(json_object_get(detail, "current"), layer->total);
    }
    layer->loaded |= is_one_of(status, loaded);
    layer->unpacked |= is_one_of(status, unpacked);
}

/* Keeps the first failure. */
static void hear_failure(struct docker_pull_stream *stream, const json_t *object)
{
    const json_t *text = json_object_get(json_object_get(object, "errorDetail"), "message");

    if (!json_is_string(text)) {
        text = json_object_get(object, "error");
    }
    if (stream->failure[0] == '\0' &&
        (text != NULL || json_object_get(object, "errorDetail") != NULL)) {
        size_t length = json_is_string(text)
                            ? copy_printable(stream->failure, sizeof stream->failure,
                                             json_string_value(text), json_string_length(text))
                            : 0;

        if (length == 0) {
            snprintf(stream->failure, sizeof stream->failure, "the engine does not say why");
        }
    }
}

static int hear_line(struct docker_pull_stream *stream, struct error *err)
{
    struct buffer *line = &stream->line;
    json_auto_t *object = NULL;
    const char *id, *status;

    while (line->length > 0 &&
           (line->data[line->length - 1] == '\r' || line->data[line->length - 1] == ' ')) {
        line->length--;
    }
    if (line->length == 0) {
        return 0;
    }
    object = json_loadb((const char *)line->data, line->length, 0, NULL);
    buffer_clear(line);
    if (!json_is_object(object)) {
        return error_set(err, ERROR_NO_ANSWER, 0,
                         "pull of image %.200s: what the engine says makes no sense",
                         stream->image);
    }
    id = json_string_value(json_object_get(object, "id"));
    status = json_string_value(json_object_get(object, "status"));
    if (id != NULL && status != NULL) {
        hear_layer(stream, id, status, json_object_get(object, "progressDetail"));
    }
    hear_failure(stream, object);
    if (stream->progress != NULL) {
        tell(stream);
    }
    return 0;
}

int docker_pull_stream_take(struct docker_pull_stream *stream, const void *data, size_t length,
                            struct error *err)
{
    const char *at = data;
    const char *end = at + length;

    stream->heard_ms = clock_now_ms();
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t piece = (size_t)((newline != NULL ? newline : end) - at);

        if (buffer_append(&stream->line, at, piece) < 0) {
            return errno == ENOMEM ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
                                   : error_set(err, ERROR_NO_ANSWER, 0,
                                               "pull of image %.200s: a line of over %u bytes",
                                               stream->image, DOCKER_PULL_LINE);
        }
        if (newline != NULL && hear_line(stream, err) < 0) {
            return -1;
        }
        at += piece + (newline != NULL ? 1 : 0);
    }
    return 0;
}

int docker_pull_stream_end(struct docker_pull_stream *stream, struct error *err)
{
    return hear_line(stream, err);
}

/* ---- The pull ---- */

static int take_piece(void *arg, const void *data, size_t length, struct error *err)
{
    return docker_pull_stream_take(arg, data, length, err);
}

static bool is_silent(void *arg)
{
    const struct docker_pull_stream *stream = arg;

    return clock_now_ms() - stream->heard_ms > DOCKER_PULL_SILENCE_MS;
}

static int put_path(struct buffer *path, const struct docker_reference *reference,
                    const char *platform)
{
    return buffer_append_string(path, "/images/create") < 0 ||
                   http_put_query(path, "fromImage", reference->name) < 0 ||
                   http_put_query(path, "tag", reference->version) < 0 ||
                   (platform != NULL && http_put_query(path, "platform", platform) < 0) ||
                   buffer_text(path) == NULL
               ? -1
               : 0;
}

static int failed(const struct docker_pull_stream *stream, const char *why, const char *note,
                  struct error *err)
{
    bool noted = note[0] != '\0';

    if (strstr(why, DISK_FULL) != NULL) {
        return error_set(err, ERROR_ERRNO, ENOSPC, "pull of image %.200s: %s", stream->image, why);
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "image %.200s cannot be pulled: %s%s%s%s",
                     stream->image, why, noted ? " (" : "", note, noted ? ")" : "");
}

/* The request and its stream. */
static int perform(struct docker_engine *engine, const char *path, const char *account,
                   const char *note, struct docker_pull_stream *stream, struct error *err)
{
    const char *const headers[] = {account, NULL};
    const struct docker_request request = {
        .method = "POST",
        .path = path,
        .headers = headers,
        .deadline_ms = clock_now_ms() + DOCKER_PULL_MS,
        .sink = take_piece,
        .cancelled = is_silent,
        .arg = stream,
    };
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;

    if (docker_call(engine, &request, &reply, err) < 0) {
        return err->code != ERROR_CANCELLED
                   ? -1
                   : error_set(err, ERROR_NO_ANSWER, 0,
                               "pull of image %.200s: the engine has said nothing for %u s",
                               stream->image, DOCKER_PULL_SILENCE_MS / 1000);
    }
    if (reply.status >= 300) {
        return failed(stream,
                      reply.message[0] != '\0' ? reply.message : "the engine does not say why",
                      note, err);
    }
    if (docker_pull_stream_end(stream, err) < 0) {
        return -1;
    }
    return stream->failure[0] != '\0' ? failed(stream, stream->failure, note, err) : 0;
}

int docker_pull(struct docker_engine *engine, const char *image,
                const struct docker_reference *reference, const char *platform,
                struct sandbox_progress *progress, struct error *err)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(4096);
    struct docker_pull_stream *stream;
    char note[DOCKER_AUTH_NOTE];
    char *account = NULL;
    int r;

    if (docker_auth_header(reference->registry, &account, note, err) < 0) {
        return -1;
    }
    stream = malloc(sizeof *stream);
    if (stream == NULL || put_path(&path, reference, platform) < 0) {
        r = error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    } else {
        docker_pull_stream_init(stream, image, progress);
        if (progress != NULL) {
            tell(stream);
        }
        r = perform(engine, (const char *)path.data, account, note, stream, err);
        docker_pull_stream_release(stream);
    }
    free(stream);
    docker_auth_free(account);
    return r;
}
