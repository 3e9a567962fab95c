/* The head and body of an answer to an upgrade: the input is what a server says, after a byte that tells in which
 * pieces it comes. Whatever the pieces, the result is the same; nothing grows over its bound. */
#include <stdlib.h>
#include <string.h>

#include "backends/http.h"
#include "backends/http_head.h"

#define MAX_BODY (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void look_at_head(const struct http_head *head, size_t size)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding", "Upgrade", ""};
    const struct buffer *fields = &head->fields;

    must(head->status >= 100 && head->status <= 599);
    must(head->length > 0 && head->length <= size && head->length <= HTTP_MAX_HEADERS);
    must(fields->length <= HTTP_MAX_HEADERS);
    must(fields->length == 0 || fields->data[fields->length - 1] == '\0');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = http_head_field(head, names[i]);

        must(value == NULL || strpbrk(value, "\r\n") == NULL);
    }
}

/* The head in growing pieces, as it is read. Gives what http_head_parse() gave last. */
static int parse(struct http_head *head, const uint8_t *data, size_t size, size_t piece)
{
    size_t length = 0;
    struct error err;
    int r;

    do {
        length = size - length < piece ? size : length + piece;
        r = http_head_parse(head, data, length, &err);
    } while (r == 0 && length < size);
    must(r >= 0 || err.code == ERROR_NO_ANSWER || err.code == ERROR_TOO_LARGE);
    return r;
}

static int take(const struct http_head *head, const uint8_t *data, size_t size, size_t piece, struct buffer *body)
{
    struct http_body state;
    struct error err;
    int r = http_body_begin(&state, head, &err);

    for (size_t at = 0; r == 0 && at < size; at += piece) {
        r = http_body_take(&state, data + at, size - at < piece ? size - at : piece, body, &err);
    }
    must(body->length <= size);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer whole = BUFFER_INIT(MAX_BODY), pieces = BUFFER_INIT(MAX_BODY);
    struct http_head head, again;
    size_t piece = size > 0 && data[0] > 0 ? data[0] : 1;
    int r;

    http_head_init(&head);
    http_head_init(&again);
    if (size > 0) {
        data++;
        size--;
    }
    r = parse(&head, data, size, size > 0 ? size : 1);
    if (r > 0) {
        look_at_head(&head, size);
        must(parse(&again, data, size, piece) == 1);
        must(again.status == head.status && again.length == head.length);
        data += head.length;
        size -= head.length;
        r = take(&head, data, size, size > 0 ? size : 1, &whole);
        must(take(&head, data, size, piece, &pieces) == r);
        if (r >= 0) {
            must(whole.length == pieces.length);
            must(whole.length == 0 || memcmp(whole.data, pieces.data, whole.length) == 0);
        }
    }
    http_head_release(&head);
    http_head_release(&again);
    buffer_release(&whole);
    buffer_release(&pieces);
    return 0;
}
