/* Bytes that are taken off at the front in pieces, without moving the rest each time. */
#ifndef HANDSFS_SANDBOX_FIFO_H
#define HANDSFS_SANDBOX_FIFO_H

#include "sandbox/buffer.h"

#define FIFO_KEEP_BYTES (512u << 10) /* an empty one keeps no more memory than this */

/* Appended to `bytes`; those before `head` are gone. So many lie there, at most half of all, or
 * FIFO_KEEP_BYTES: the limit of `bytes` allows for them. */
struct fifo {
    struct buffer bytes;
    size_t head;
};

static inline const uint8_t *fifo_data(const struct fifo *f)
{
    return f->bytes.data + f->head;
}

static inline size_t fifo_length(const struct fifo *f)
{
    return f->bytes.length - f->head;
}

static inline void fifo_consume(struct fifo *f, size_t length)
{
    f->head += length;
    if (f->head == f->bytes.length) {
        f->head = 0;
        buffer_clear(&f->bytes);
        if (f->bytes.capacity > FIFO_KEEP_BYTES) {
            buffer_release(&f->bytes);
        }
    } else if (f->head > FIFO_KEEP_BYTES && f->head > f->bytes.length / 2) {
        buffer_consume(&f->bytes, f->head);
        f->head = 0;
    }
}

#endif
