/* A descriptor that is written to without blocking: what it does not take yet is held. The open file behind
 * standard output is not ours alone, so it does not become non-blocking itself: a pipe or terminal is opened
 * once more, a socket is asked call by call, and a file does not block. */
#ifndef HANDSFS_MOUNT_OUTPUT_H
#define HANDSFS_MOUNT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/buffer.h"

#define OUTPUT_MAX_HELD (2u << 20) /* bytes; many times what one message brings */
#define OUTPUT_FULL (256u << 10)   /* from here on, no more should be asked for */

struct output {
    int fd;
    bool is_ours;
    bool is_socket;
    bool may_block; /* could not be opened anew: little at a time, and only where it has room */
    struct buffer held;
    size_t written; /* of `held` */
};

void output_open(struct output *output, int fd) __attribute__((nonnull));
void output_close(struct output *output) __attribute__((nonnull));

/* Adds bytes (copied). -1 with errno as buffer_append(). */
int output_put(struct output *output, const void *data, size_t length)
    __attribute__((nonnull(1), warn_unused_result));

/* Writes what can be written now. -1 with errno where nothing ever can be any more. */
int output_flush(struct output *output) __attribute__((nonnull, warn_unused_result));

/* Bytes that were not written yet. */
static inline size_t output_held(const struct output *output)
{
    return output->held.length - output->written;
}

#endif
