#include "hand/tool_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int reader_init(struct line_reader *r)
{
    *r = (struct line_reader){.fd = -1, .data = malloc(READER_BYTES)};
    return r->data != NULL ? 0 : -1;
}

void reader_release(struct line_reader *r)
{
    free(r->data);
    r->data = NULL;
}

void reader_begin(struct line_reader *r, int fd)
{
    *r = (struct line_reader){.fd = fd, .data = r->data};
}

/* Reads once, behind what is there, which is moved to the front first. */
static void fill(struct line_reader *r)
{
    ssize_t n;

    if (r->start > 0) {
        memmove(r->data, r->data + r->start, r->end - r->start);
        r->end -= r->start;
        r->start = 0;
    }
    do {
        n = read(r->fd, r->data + r->end, READER_BYTES - r->end);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        r->at_end = true;
        r->failed = n < 0 ? errno : 0;
        return;
    }
    r->saw_nul |= memchr(r->data + r->end, '\0', (size_t)n) != NULL;
    r->end += (size_t)n;
}

void reader_peek(struct line_reader *r)
{
    if (r->end == 0 && !r->at_end) {
        fill(r);
    }
}

bool reader_next(struct line_reader *r, struct line_piece *ret)
{
    const uint8_t *newline = NULL;
    size_t looked = 0;

    for (;;) {
        size_t have = r->end - r->start;

        if (have > looked) {
            newline = memchr(r->data + r->start + looked, '\n', have - looked);
        }
        if (newline != NULL || r->at_end || have == READER_BYTES) {
            break;
        }
        looked = have;
        fill(r);
    }
    if (newline == NULL && r->start == r->end && !r->in_line) {
        return false;
    }
    ret->data = r->data + r->start;
    ret->length = newline != NULL ? (size_t)(newline - ret->data) : r->end - r->start;
    ret->is_first = !r->in_line;
    ret->has_newline = newline != NULL;
    ret->is_last = newline != NULL || r->at_end;
    r->line += ret->is_first;
    r->in_line = !ret->is_last;
    r->start += ret->length + ret->has_newline;
    r->offset += ret->length + ret->has_newline;
    return true;
}
