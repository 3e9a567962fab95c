/* An image's pull: POST /images/create, whose answer is a stream of lines in JSON for as long as
 * it takes. */
#ifndef HANDSFS_BACKENDS_DOCKER_PULL_H
#define HANDSFS_BACKENDS_DOCKER_PULL_H

#include "backends/docker_engine.h"
#include "backends/docker_reference.h"
#include "sandbox/buffer.h"
#include "sandbox/sandbox.h"

#define DOCKER_PULL_MS (60u * 60 * 1000)        /* for all of it */
#define DOCKER_PULL_SILENCE_MS (3u * 60 * 1000) /* without a word of the engine */
#define DOCKER_PULL_LINE (64u << 10)            /* bytes of a line */
#define DOCKER_PULL_LAYERS 256                  /* of an image; what is more is not shown */
#define DOCKER_PULL_LAYER_ID 16                 /* bytes of a layer's id that tell it from others */

/* Pulls it; `image` is how people call it. Within DOCKER_PULL_MS, and as long as the engine says
 * something every DOCKER_PULL_SILENCE_MS (else ERROR_NO_ANSWER). ERROR_BAD_REQUEST with the
 * engine's sentence where it cannot be had, whatever its status, and with why no account could
 * be used; ERROR_ERRNO (ENOSPC); else as docker_call(). */
int docker_pull(struct docker_engine *engine, const char *image,
                const struct docker_reference *reference, const char *platform,
                struct sandbox_progress *progress, struct error *err)
    __attribute__((nonnull(1, 2, 3, 6), warn_unused_result));

/* ---- The stream (for the tests, too) ---- */

struct docker_pull_layer {
    char id[DOCKER_PULL_LAYER_ID];
    json_int_t done, total; /* bytes */
    bool loaded, unpacked;
};

struct docker_pull_stream {
    const char *image;
    struct sandbox_progress *progress; /* may be NULL */
    struct buffer line;                /* the begun one */
    uint64_t heard_ms;                 /* when the engine last said something */
    struct docker_pull_layer layers[DOCKER_PULL_LAYERS];
    size_t layer_count;
    char failure[ERROR_MESSAGE_MAX]; /* the engine's sentence, printable; "" */
};
void docker_pull_stream_init(struct docker_pull_stream *stream, const char *image,
                             struct sandbox_progress *progress) __attribute__((nonnull(1, 2)));
void docker_pull_stream_release(struct docker_pull_stream *stream) __attribute__((nonnull));

/* Takes a piece, cut anywhere. ERROR_NO_ANSWER for a line that is too long or no object in JSON. */
int docker_pull_stream_take(struct docker_pull_stream *stream, const void *data, size_t length,
                            struct error *err) __attribute__((nonnull, warn_unused_result));

/* The end: the last line may have none. */
int docker_pull_stream_end(struct docker_pull_stream *stream, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
