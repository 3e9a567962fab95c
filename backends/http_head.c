#include "backends/http_head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "backends/http.h"

#define VERSION "HTTP/1."
#define VERSION_LENGTH (sizeof VERSION - 1)
#define MAX_SIZE_DIGITS 15 /* hexadecimal, of a chunk's size */
#define MAX_LENGTH_DIGITS 18

static int nonsense(struct error *err)
{
    return error_set(err, ERROR_NO_ANSWER, 0, "the answer is no HTTP");
}

static int append_error(struct error *err)
{
    return errno == ENOBUFS ? error_set(err, ERROR_TOO_LARGE, 0, "the answer is too long")
                            : error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* ---- The head --------------------------------------------------------------------------------- */

void http_head_init(struct http_head *head)
{
    *head = (struct http_head){0};
    buffer_init(&head->fields, HTTP_MAX_HEADERS);
}

void http_head_release(struct http_head *head)
{
    buffer_release(&head->fields);
    http_head_init(head);
}

/* The line at `at`: *ret_length without its end. Gives where the next one begins, 0 where it is not whole. */
static size_t line_at(const uint8_t *data, size_t length, size_t at, size_t *ret_length)
{
    const uint8_t *end = at < length ? memchr(data + at, '\n', length - at) : NULL;
    size_t n;

    if (end == NULL) {
        return 0;
    }
    n = (size_t)(end - data) - at;
    *ret_length = n > 0 && end[-1] == '\r' ? n - 1 : n;
    return (size_t)(end - data) + 1;
}

/* Where the head ends, 0 where it is not whole. */
static size_t end_of_head(const uint8_t *data, size_t length)
{
    size_t at = 0, n = 0;

    do {
        at = line_at(data, length, at, &n);
    } while (at > 0 && n > 0);
    return at;
}

/* "HTTP/1.x 200" and then a space or nothing. */
static int parse_status(const uint8_t *line, size_t length, long *ret)
{
    const uint8_t *s = line + VERSION_LENGTH;

    if (length < VERSION_LENGTH + 5 || memcmp(line, VERSION, VERSION_LENGTH) != 0 || !is_digit(s[0]) ||
        s[1] != ' ' || !is_digit(s[2]) || !is_digit(s[3]) || !is_digit(s[4]) ||
        (length > VERSION_LENGTH + 5 && s[5] != ' ')) {
        return -1;
    }
    *ret = (s[2] - '0') * 100 + (s[3] - '0') * 10 + (s[4] - '0');
    return *ret >= 100 && *ret <= 599 ? 0 : -1;
}

static bool is_token(uint8_t c)
{
    return c > ' ' && c < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", c) == NULL;
}

/* Takes "Name: value". -1 for nonsense, -2 where it cannot be kept. */
static int parse_field(const uint8_t *line, size_t length, struct buffer *fields)
{
    size_t name = 0, from, to = length;

    while (name < length && is_token(line[name])) {
        name++;
    }
    if (name == 0 || name == length || line[name] != ':') {
        return -1;
    }
    from = name + 1;
    while (from < to && (line[from] == ' ' || line[from] == '\t')) {
        from++;
    }
    while (to > from && (line[to - 1] == ' ' || line[to - 1] == '\t')) {
        to--;
    }
    for (size_t i = from; i < to; i++) {
        if ((line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f) {
            return -1;
        }
    }
    if (buffer_append(fields, line, name) < 0 || buffer_append(fields, "", 1) < 0 ||
        buffer_append(fields, line + from, to - from) < 0 || buffer_append(fields, "", 1) < 0) {
        return -2;
    }
    return 0;
}

int http_head_parse(struct http_head *ret, const uint8_t *data, size_t length, struct error *err)
{
    size_t known = length < VERSION_LENGTH ? length : VERSION_LENGTH;
    size_t end = length > 0 ? end_of_head(data, length) : 0;
    size_t n = 0, at, next;

    if (known > 0 && memcmp(data, VERSION, known) != 0) {
        return nonsense(err);
    }
    if (end > HTTP_MAX_HEADERS || (end == 0 && length > HTTP_MAX_HEADERS)) {
        return error_set(err, ERROR_TOO_LARGE, 0, "the head of the answer is too long");
    }
    if (end == 0) {
        return 0;
    }
    buffer_clear(&ret->fields);
    at = line_at(data, end, 0, &n);
    if (parse_status(data, n, &ret->status) < 0) {
        return nonsense(err);
    }
    for (; at < end; at = next) {
        int r;

        next = line_at(data, end, at, &n);
        r = n > 0 ? parse_field(data + at, n, &ret->fields) : 0;
        if (r < 0) {
            return r == -1 ? nonsense(err) : append_error(err);
        }
    }
    ret->length = end;
    return 1;
}

/* The field's value, from the offset on, which moves behind it. */
static const char *next_field(const struct http_head *head, const char *name, size_t *at)
{
    while (*at < head->fields.length) {
        const char *its_name = (const char *)head->fields.data + *at;
        const char *value = its_name + strlen(its_name) + 1;

        *at += (size_t)(value - its_name) + strlen(value) + 1;
        if (strcasecmp(its_name, name) == 0) {
            return value;
        }
    }
    return NULL;
}

const char *http_head_field(const struct http_head *head, const char *name)
{
    size_t at = 0;

    return next_field(head, name, &at);
}

/* ---- The body --------------------------------------------------------------------------------- */

static int parse_length(const char *text, uint64_t *ret)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > MAX_LENGTH_DIGITS || text[digits] != '\0') {
        return -1;
    }
    *ret = 0;
    for (; *text != '\0'; text++) {
        *ret = *ret * 10 + (uint64_t)(*text - '0');
    }
    return 0;
}

int http_body_begin(struct http_body *body, const struct http_head *head, struct error *err)
{
    const char *encoding = http_head_field(head, "Transfer-Encoding");
    size_t at = 0;
    const char *length = next_field(head, "Content-Length", &at);
    const char *again = next_field(head, "Content-Length", &at);

    *body = (struct http_body){.kind = HTTP_BODY_TO_END, .state = HTTP_CHUNK_SIZE};
    if (head->status == 204 || head->status == 304 || head->status < 200) {
        body->kind = HTTP_BODY_LENGTH;
        return 0;
    }
    if (encoding != NULL) {
        body->kind = HTTP_BODY_CHUNKED;
        return length == NULL && strcasecmp(encoding, "chunked") == 0 ? 0 : nonsense(err);
    }
    if (length != NULL) {
        body->kind = HTTP_BODY_LENGTH;
        return again == NULL && parse_length(length, &body->left) == 0 ? 0 : nonsense(err);
    }
    return 0;
}

static int hex_value(uint8_t c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The size's line is over: data follows, or the trailer. */
static int size_over(struct http_body *body)
{
    if (body->digits == 0) {
        return -1;
    }
    body->state = body->left > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILER;
    body->line_filled = false;
    body->digits = 0;
    return 0;
}

/* One byte that is no data. -1 for nonsense. */
static int frame_byte(struct http_body *body, uint8_t c)
{
    int digit = hex_value(c);

    if (++body->overhead > HTTP_MAX_HEADERS && body->state != HTTP_CHUNK_SIZE &&
        body->state != HTTP_CHUNK_END) {
        return -1;
    }
    switch (body->state) {
    case HTTP_CHUNK_SIZE:
        body->overhead--; /* bounded with the data */
        if (digit >= 0) {
            body->left = body->left << 4 | (uint64_t)digit;
            return ++body->digits <= MAX_SIZE_DIGITS ? 0 : -1;
        }
        if (c == '\n') {
            return size_over(body);
        }
        body->state = HTTP_CHUNK_EXTENSION;
        return body->digits > 0 && (c == ';' || c == ' ' || c == '\t' || c == '\r') ? 0 : -1;
    case HTTP_CHUNK_EXTENSION:
        return c == '\n' ? size_over(body) : 0;
    case HTTP_CHUNK_END:
        body->overhead--;
        if (c == '\n') {
            body->state = HTTP_CHUNK_SIZE;
            body->left = 0;
        }
        return c == '\n' || c == '\r' ? 0 : -1;
    case HTTP_CHUNK_TRAILER:
        if (c == '\n' && !body->line_filled) {
            body->state = HTTP_CHUNK_DONE;
        } else if (c != '\r') {
            body->line_filled = c != '\n';
        }
        return 0;
    default:
        return -1;
    }
}

static int take_chunked(struct http_body *body, const uint8_t *data, size_t length, struct buffer *ret,
                        struct error *err)
{
    for (size_t at = 0, n; at < length && body->state != HTTP_CHUNK_DONE; at += n) {
        n = 1;
        if (body->state == HTTP_CHUNK_DATA) {
            n = body->left < length - at ? (size_t)body->left : length - at;
            if (buffer_append(ret, data + at, n) < 0) {
                return append_error(err);
            }
            body->left -= n;
            if (body->left == 0) {
                body->state = HTTP_CHUNK_END;
            }
        } else if (frame_byte(body, data[at]) < 0) {
            return nonsense(err);
        }
    }
    return body->state == HTTP_CHUNK_DONE;
}

int http_body_take(struct http_body *body, const uint8_t *data, size_t length, struct buffer *ret,
                   struct error *err)
{
    size_t n = length;

    if (body->kind == HTTP_BODY_CHUNKED) {
        return take_chunked(body, data, length, ret, err);
    }
    if (body->kind == HTTP_BODY_LENGTH && n > body->left) {
        n = (size_t)body->left;
    }
    if (n > 0 && buffer_append(ret, data, n) < 0) {
        return append_error(err);
    }
    if (body->kind == HTTP_BODY_LENGTH) {
        body->left -= n;
        return body->left == 0;
    }
    return 0;
}
