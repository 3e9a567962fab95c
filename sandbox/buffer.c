#include "sandbox/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_FIRST 256 /* the first allocation, bytes */

void buffer_init(struct buffer *b, size_t limit)
{
    *b = (struct buffer)BUFFER_INIT(limit);
}

void buffer_release(struct buffer *b)
{
    free(b->data);
    buffer_init(b, b->limit);
}

void buffer_clear(struct buffer *b)
{
    b->length = 0;
}

/* Makes room for `length` bytes behind those in use, without a look at the limit. */
static int grow(struct buffer *b, size_t length)
{
    size_t need = b->length + length;
    size_t capacity = b->capacity > 0 ? b->capacity : BUFFER_FIRST;
    uint8_t *data;

    if (need <= b->capacity) {
        return 0;
    }
    while (capacity < need) {
        if (capacity > SIZE_MAX / 2) {
            errno = ENOMEM;
            return -1;
        }
        capacity *= 2;
    }
    data = realloc(b->data, capacity);
    if (data == NULL) {
        return -1;
    }
    b->data = data;
    b->capacity = capacity;
    return 0;
}

uint8_t *buffer_reserve(struct buffer *b, size_t length)
{
    if (length > b->limit - b->length) {
        errno = ENOBUFS;
        return NULL;
    }
    return grow(b, length > 0 ? length : 1) < 0 ? NULL : b->data + b->length;
}

void buffer_commit(struct buffer *b, size_t length)
{
    assert(length <= b->capacity - b->length);
    assert(length <= b->limit - b->length);
    b->length += length;
}

int buffer_append(struct buffer *b, const void *data, size_t length)
{
    uint8_t *to = buffer_reserve(b, length);

    if (to == NULL) {
        return -1;
    }
    if (length > 0) {
        memcpy(to, data, length);
    }
    buffer_commit(b, length);
    return 0;
}

int buffer_append_string(struct buffer *b, const char *s)
{
    return buffer_append(b, s, strlen(s));
}

int buffer_printf(struct buffer *b, const char *format, ...)
{
    va_list args;
    int length;
    uint8_t *to;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        return -1;
    }
    to = buffer_reserve(b, (size_t)length);
    if (to == NULL || grow(b, (size_t)length + 1) < 0) {
        return -1;
    }
    va_start(args, format);
    vsnprintf((char *)b->data + b->length, (size_t)length + 1, format, args);
    va_end(args);
    buffer_commit(b, (size_t)length);
    return 0;
}

void buffer_consume(struct buffer *b, size_t length)
{
    assert(length <= b->length);
    b->length -= length;
    if (b->length > 0 && length > 0) {
        memmove(b->data, b->data + length, b->length);
    }
}

void buffer_move(struct buffer *to, struct buffer *from)
{
    free(to->data);
    *to = *from;
    buffer_init(from, to->limit);
}

char *buffer_text(struct buffer *b)
{
    if (grow(b, 1) < 0) {
        return NULL;
    }
    b->data[b->length] = '\0';
    return (char *)b->data;
}
