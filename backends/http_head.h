/* The head of an HTTP/1 answer, and its body: where libcurl does not read it, after an upgrade was asked for.
 * The bytes are a server's, which may be hostile. */
#ifndef HANDSFS_BACKENDS_HTTP_HEAD_H
#define HANDSFS_BACKENDS_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

struct http_head {
    long status;          /* 100..599 */
    size_t length;        /* bytes of the head, the empty line included */
    struct buffer fields; /* each a name and a value, both NUL-terminated */
};
void http_head_init(struct http_head *head) __attribute__((nonnull));
void http_head_release(struct http_head *head) __attribute__((nonnull));
#define cleanup_http_head __attribute__((cleanup(http_head_release)))

/* 1 where the head is whole; 0 where more is needed; -1 for what is no head of HTTP/1 (ERROR_NO_ANSWER), for one of
 * more than HTTP_MAX_HEADERS (ERROR_TOO_LARGE), ERROR_NO_MEMORY. RFC 9112 without folded lines. */
int http_head_parse(struct http_head *ret, const uint8_t *data, size_t length, struct error *err)
    __attribute__((nonnull(1, 4), warn_unused_result));

/* The first field of that name, whatever its case; or NULL. */
const char *http_head_field(const struct http_head *head, const char *name) __attribute__((nonnull));

enum http_body_kind { HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_TO_END };

enum http_chunk_state {
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK_EXTENSION, /* to the end of the size's line */
    HTTP_CHUNK_DATA,
    HTTP_CHUNK_END,       /* of the data: an empty line */
    HTTP_CHUNK_TRAILER,
    HTTP_CHUNK_DONE,
};

struct http_body {
    enum http_body_kind kind;
    enum http_chunk_state state;
    uint64_t left;    /* bytes of the body or of the chunk */
    unsigned digits;  /* of a chunk's size so far */
    size_t overhead;  /* bytes of extensions and trailers so far */
    bool line_filled; /* the trailer's line is not empty */
};

/* How the answer's body is framed. ERROR_NO_ANSWER where its fields make no sense. */
int http_body_begin(struct http_body *body, const struct http_head *head, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Appends what is the body's. 1 where that was all (what follows is left out); 0 where there is more to come; -1 with
 * ERROR_NO_ANSWER, ERROR_TOO_LARGE (over the buffer's limit) or ERROR_NO_MEMORY. */
int http_body_take(struct http_body *body, const uint8_t *data, size_t length, struct buffer *ret,
                   struct error *err) __attribute__((nonnull(1, 4, 5), warn_unused_result));

#endif
