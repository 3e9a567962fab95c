/* The frames of a hijacked stream without a terminal: type, three bytes of zeros, the length, the bytes.
 * See ContainerAttach of the Docker Engine API. */
#ifndef HANDSFS_BACKENDS_DOCKER_STREAM_H
#define HANDSFS_BACKENDS_DOCKER_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define DOCKER_FRAME_HEADER 8
#define DOCKER_ERRORS_LINE 256 /* bytes of a program's standard error that are told as one line */
#define DOCKER_ERRORS_LINES 32 /* lines of it that are told at all */

struct docker_demux {
    uint8_t header[DOCKER_FRAME_HEADER];
    unsigned have;      /* bytes of the header */
    uint32_t left;      /* bytes of the frame */
    unsigned type;      /* of the frame: 0 and 1 are output, 2 is standard error */
    char line[DOCKER_ERRORS_LINE]; /* what standard error said since the last end of a line */
    size_t line_length;
    unsigned lines;     /* told */
};

/* Appends the output, and tells standard error to the log. ERROR_NO_ANSWER for a frame that makes no sense. */
int docker_demux_take(struct docker_demux *demux, const uint8_t *data, size_t length, struct buffer *output,
                      struct error *err) __attribute__((nonnull(1, 4, 5), warn_unused_result));

/* The stream's end: whether it is between two frames. Tells the last line of standard error. */
bool docker_demux_end(struct docker_demux *demux) __attribute__((nonnull));

#endif
