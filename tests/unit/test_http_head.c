/* The head and the body of an answer to an upgrade, taken apart from bytes that come in any pieces. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "backends/http.h"
#include "backends/http_head.h"

static int parse(struct http_head *head, const char *text, struct error *err)
{
    return http_head_parse(head, (const uint8_t *)text, strlen(text), err);
}

START_TEST(a_head_is_known_by_its_empty_line_and_not_before)
{
    static const char text[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nX-Empty:\r\n\r\nrest";
    size_t whole = strlen(text) - strlen("rest");
    struct http_head head;
    struct error err;

    http_head_init(&head);
    for (size_t n = 0; n <= strlen(text); n++) {
        ck_assert_int_eq(http_head_parse(&head, (const uint8_t *)text, n, &err), n >= whole);
    }
    ck_assert_uint_eq(head.length, whole);
    ck_assert_int_eq(head.status, 101);
    ck_assert_str_eq(http_head_field(&head, "upgrade"), "tcp");
    ck_assert_str_eq(http_head_field(&head, "x-empty"), "");
    ck_assert_ptr_null(http_head_field(&head, "tcp"));
    http_head_release(&head);
}
END_TEST

START_TEST(lines_may_end_without_a_carriage_return)
{
    struct http_head head;
    struct error err;

    http_head_init(&head);
    ck_assert_int_eq(parse(&head, "HTTP/1.0 200\nA: \t b c \t\nA: d\n\n", &err), 1);
    ck_assert_int_eq(head.status, 200);
    ck_assert_str_eq(http_head_field(&head, "A"), "b c");
    http_head_release(&head);
}
END_TEST

static const char *const wrong_heads[] = {
    "SSH-2.0", "H\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 600 OK\r\n\r\n", "HTTP/1.1 200x\r\n\r\n",
    "HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: no name\r\n\r\n", "HTTP/1.1 200 OK\r\nName : x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nName: a\001b\r\n\r\n", "HTTP/1.1 200 OK\r\nName: a\rb\r\n\r\n", "\r\n\r\n",
};

START_TEST(what_is_no_head_is_refused)
{
    struct http_head head;
    struct error err;

    http_head_init(&head);
    ck_assert_int_eq(parse(&head, wrong_heads[_i], &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    http_head_release(&head);
}
END_TEST

START_TEST(a_head_has_a_bound)
{
    struct buffer text = BUFFER_INIT(2 * HTTP_MAX_HEADERS);
    struct http_head head;
    struct error err;

    http_head_init(&head);
    ck_assert_int_eq(buffer_append_string(&text, "HTTP/1.1 200 OK\r\nA: "), 0);
    while (text.length < HTTP_MAX_HEADERS) {
        ck_assert_int_eq(buffer_append(&text, "x", 1), 0);
    }
    ck_assert_int_eq(http_head_parse(&head, text.data, text.length, &err), 0);
    ck_assert_int_eq(buffer_append(&text, "x", 1), 0);
    ck_assert_int_eq(http_head_parse(&head, text.data, text.length, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    ck_assert_int_eq(buffer_append_string(&text, "\r\n\r\n"), 0);
    ck_assert_int_eq(http_head_parse(&head, text.data, text.length, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    http_head_release(&head);
    buffer_release(&text);
}
END_TEST

/* ---- Bodies ----------------------------------------------------------------------------------- */

/* Takes the text in pieces of that size. Gives what http_body_take() gave last. */
static int take_body(const char *fields, const char *text, size_t piece, struct buffer *body, struct error *err)
{
    struct buffer all = BUFFER_INIT(4096);
    struct http_head head;
    struct http_body state;
    size_t length = strlen(text);
    int r;

    http_head_init(&head);
    ck_assert_int_eq(buffer_printf(&all, "HTTP/1.1 400 Bad\r\n%s\r\n", fields), 0);
    ck_assert_int_eq(http_head_parse(&head, all.data, all.length, err), 1);
    r = http_body_begin(&state, &head, err);
    for (size_t at = 0; r == 0 && at < length; at += piece) {
        r = http_body_take(&state, (const uint8_t *)text + at, length - at < piece ? length - at : piece, body,
                           err);
    }
    http_head_release(&head);
    buffer_release(&all);
    return r;
}

static const struct {
    const char *fields, *text;
    int end; /* what the last piece gives */
    const char *body;
} bodies[] = {
    {"Content-Length: 3\r\n", "abcdef", 1, "abc"},
    {"Content-Length: 9\r\n", "abcdef", 0, "abcdef"},
    {"", "abcdef", 0, "abcdef"},
    {"Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0a;x=\"y\"\r\n0123456789\r\n0\r\n\r\nmore", 1, "abc0123456789"},
    {"Transfer-Encoding: Chunked\r\n", "3\nabc\n0\nTrail: er\nAnd: so\n\n", 1, "abc"},
    {"Transfer-Encoding: chunked\r\n", "5\r\nab", 0, "ab"},
    {"Transfer-Encoding: chunked\r\n", "0\r\nTrailer: x\r\n", 0, ""},
    {"Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n", -1, "abc"},
    {"Transfer-Encoding: chunked\r\n", "\r\n", -1, ""},
    {"Transfer-Encoding: chunked\r\n", "g\r\n", -1, ""},
    {"Transfer-Encoding: chunked\r\n", "-1\r\n", -1, ""},
    {"Transfer-Encoding: chunked\r\n", "1234567890abcdef\r\n", -1, ""},
    {"Transfer-Encoding: gzip, chunked\r\n", "x", -1, ""},
    {"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "x", -1, ""},
    {"Content-Length: 3\r\nContent-Length: 4\r\n", "x", -1, ""},
    {"Content-Length: -1\r\n", "x", -1, ""},
    {"Content-Length: 99999999999999999999\r\n", "x", -1, ""},
    {"Content-Length:\r\n", "x", -1, ""},
};

START_TEST(a_body_is_framed_as_its_head_says)
{
    for (size_t piece = 1; piece <= 64; piece *= 2) {
        struct buffer body = BUFFER_INIT(64);
        struct error err = {.code = ERROR_NONE};

        ck_assert_int_eq(take_body(bodies[_i].fields, bodies[_i].text, piece, &body, &err), bodies[_i].end);
        ck_assert_str_eq(buffer_text(&body), bodies[_i].body);
        ck_assert_int_eq(err.code, bodies[_i].end < 0 ? ERROR_NO_ANSWER : ERROR_NONE);
        buffer_release(&body);
    }
}
END_TEST

START_TEST(a_body_over_the_limit_is_refused)
{
    static const char *const fields[] = {"", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"};
    static const char *const texts[] = {"12345", "12345", "5\r\n12345\r\n0\r\n\r\n"};

    for (unsigned i = 0; i < 3; i++) {
        struct buffer body = BUFFER_INIT(4);
        struct error err;

        ck_assert_int_eq(take_body(fields[i], texts[i], 64, &body, &err), -1);
        ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
        buffer_release(&body);
    }
}
END_TEST

START_TEST(trailers_and_extensions_have_a_bound)
{
    struct http_body body = {.kind = HTTP_BODY_CHUNKED, .state = HTTP_CHUNK_SIZE};
    struct buffer out = BUFFER_INIT(1);
    struct error err;
    unsigned n = 0;
    int r = http_body_take(&body, (const uint8_t *)"0\r\n", 3, &out, &err);

    for (; r == 0 && n < 2 * HTTP_MAX_HEADERS; n += 4) {
        r = http_body_take(&body, (const uint8_t *)"A:b\n", 4, &out, &err);
    }
    ck_assert_int_eq(r, -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    buffer_release(&out);
}
END_TEST

UNIT_SUITE(http_head)
{
    tcase_add_test(tcase, a_head_is_known_by_its_empty_line_and_not_before);
    tcase_add_test(tcase, lines_may_end_without_a_carriage_return);
    tcase_add_loop_test(tcase, what_is_no_head_is_refused, 0, sizeof wrong_heads / sizeof wrong_heads[0]);
    tcase_add_test(tcase, a_head_has_a_bound);
    tcase_add_loop_test(tcase, a_body_is_framed_as_its_head_says, 0, sizeof bodies / sizeof bodies[0]);
    tcase_add_test(tcase, a_body_over_the_limit_is_refused);
    tcase_add_test(tcase, trailers_and_extensions_have_a_bound);
}
