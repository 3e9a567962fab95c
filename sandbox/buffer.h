/* A growing byte buffer that is born with a limit. Appending past the limit fails and changes nothing.
 * Zero-initialised is not enough: use buffer_init() or BUFFER_INIT(limit). */
#ifndef HANDSFS_SANDBOX_BUFFER_H
#define HANDSFS_SANDBOX_BUFFER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    uint8_t *data; /* NULL while nothing was appended */
    size_t length; /* bytes in use, never over `limit` */
    size_t capacity;
    size_t limit;
};

#define BUFFER_INIT(limit_) {NULL, 0, 0, (limit_)}
#define cleanup_buffer __attribute__((cleanup(buffer_release)))

void buffer_init(struct buffer *b, size_t limit) __attribute__((nonnull));

/* Frees the bytes; the buffer is as after buffer_init() with the same limit. Accepts it empty. */
void buffer_release(struct buffer *b) __attribute__((nonnull));

/* Forgets the bytes and keeps the memory. */
void buffer_clear(struct buffer *b) __attribute__((nonnull));

/* Each returns 0, or -1 with errno ENOBUFS (over the limit) or ENOMEM and the buffer unchanged. */
int buffer_append(struct buffer *b, const void *data, size_t length)
    __attribute__((nonnull(1), warn_unused_result));
int buffer_append_string(struct buffer *b, const char *s) __attribute__((nonnull, warn_unused_result));
int buffer_printf(struct buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull, warn_unused_result));

/* Room for `length` more bytes at the end, to be filled in by the caller and then counted with
 * buffer_commit(). NULL as buffer_append() fails. */
uint8_t *buffer_reserve(struct buffer *b, size_t length) __attribute__((nonnull));
void buffer_commit(struct buffer *b, size_t length) __attribute__((nonnull));

/* Drops the first `length` bytes (at most `b->length`). */
void buffer_consume(struct buffer *b, size_t length) __attribute__((nonnull));

/* Moves the bytes out: `*from` is left empty with its limit, what `*to` held is freed. */
void buffer_move(struct buffer *to, struct buffer *from) __attribute__((nonnull));

/* NUL-terminates behind the last byte (not counted) and gives the text; NULL as buffer_append(). The
 * NUL may go one byte over the limit. Valid until the next change. */
char *buffer_text(struct buffer *b) __attribute__((nonnull));

#endif
