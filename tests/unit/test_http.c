/* Requests, against a server that does as a server should, and against others. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/http.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 20000 /* for what must come */
#define SHORT_MS 300      /* for what never comes */

static struct http *client(struct fake_engine *fake)
{
    struct http_server server;
    struct http *http;
    struct error err;

    http_server_init(&server);
    server.url = strdup("http://server");
    server.unix_socket = strdup(fake_engine_socket(fake));
    ck_assert_msg(http_new(&http, &server, &err) == 0, "%s", err.message);
    return http;
}

static struct http_request get(const char *path, unsigned ms)
{
    return (struct http_request){.method = "GET", .path = path, .deadline_ms = clock_now_ms() + ms};
}

static void assert_answer(struct http *http, const char *path, long status, const char *body)
{
    struct http_request request = get(path, PATIENCE_MS);
    struct http_answer answer;
    struct error err;

    http_answer_init(&answer);
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    ck_assert_int_eq(answer.status, status);
    ck_assert_uint_eq(answer.body.length, strlen(body));
    ck_assert_mem_eq(buffer_text(&answer.body), body, strlen(body));
    http_answer_release(&answer);
}

static void assert_failure(struct http *http, const struct http_request *request, enum error_code code,
                           const char *text)
{
    struct http_answer answer;
    struct error err;

    http_answer_init(&answer);
    ck_assert_int_eq(http_perform(http, request, &answer, &err), -1);
    ck_assert_msg(err.code == code, "%s: %s", error_name(err.code), err.message);
    ck_assert_msg(strstr(err.message, text) != NULL, "%s", err.message);
    http_answer_release(&answer);
}

START_TEST(an_answer_comes_with_its_status_type_and_body)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/a?b=c%20d", PATIENCE_MS);
    struct http_answer answer;
    struct error err;

    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /a\\?b=c%20d",
                                 .status = 503,
                                 .headers = "Content-Type: text/plain\r\nRetry-After: 3\r\nX-Stat: a b\r\n",
                                 .body = "so"});
    request.want_headers = (const char *const[]){"x-none", "x-stat", NULL};
    http_answer_init(&answer);
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    ck_assert_int_eq(answer.status, 503);
    ck_assert_str_eq(answer.content_type, "text/plain");
    ck_assert_uint_eq(answer.retry_after_ms, 3000);
    ck_assert_str_eq(buffer_text(&answer.body), "so");
    ck_assert_str_eq(http_wanted(&answer.wanted, 0), "");
    ck_assert_str_eq(http_wanted(&answer.wanted, 1), "a b");
    ck_assert_str_eq(http_wanted(&answer.wanted, 2), "");
    http_answer_release(&answer);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(a_request_carries_its_body_and_headers_and_no_more)
{
    static const char *const headers[] = {"X-One: 1", NULL};
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/put", PATIENCE_MS);
    const struct fake_heard *heard;
    struct http_answer answer;
    struct error err;

    fake_engine_answer(fake, "PUT /put", 200, "");
    fake_engine_answer(fake, "DELETE /put", 204, "");
    fake_engine_answer(fake, "POST /put", 201, "");
    request.method = "PUT";
    request.headers = headers;
    request.body = "a\0b";
    request.body_length = 3;
    request.content_type = "application/x-tar";
    http_answer_init(&answer);
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    heard = fake_engine_heard(fake, 0);
    ck_assert_uint_eq(heard->length, 3);
    ck_assert_mem_eq(heard->body, "a\0b", 3);
    ck_assert_ptr_nonnull(strstr(heard->head, "\r\nX-One: 1\r\n"));
    ck_assert_ptr_nonnull(strstr(heard->head, "\r\nContent-Type: application/x-tar\r\n"));
    ck_assert_ptr_nonnull(strstr(heard->head, "\r\nHost: server\r\n"));
    ck_assert_ptr_null(strstr(heard->head, "Expect"));
    request = get("/put", PATIENCE_MS);
    request.method = "DELETE";
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    ck_assert_int_eq(answer.status, 204);
    request.method = "POST";
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    heard = fake_engine_heard(fake, 1);
    ck_assert_uint_eq(heard->length, 0);
    ck_assert_ptr_null(strstr(heard->head, "X-One"));
    ck_assert_ptr_null(strstr(heard->head, "Content-Type"));
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 2)->head, "\r\nContent-Length: 0\r\n"));
    http_answer_release(&answer);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(requests_in_a_row_share_a_connection_and_survive_its_loss)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);

    fake_engine_script(fake, &(struct fake_step){.request = "GET /1", .body = "{}", .times = 3});
    fake_engine_script(fake, &(struct fake_step){.request = "GET /2", .how = FAKE_TO_END, .body = "end"});
    fake_engine_answer(fake, "GET /3", 404, "{}");
    assert_answer(http, "/1", 200, "{}");
    assert_answer(http, "/1", 200, "{}");
    assert_answer(http, "/1", 200, "{}");
    assert_answer(http, "/2", 200, "end");
    ck_assert_uint_eq(fake_engine_connections(fake), 1);
    assert_answer(http, "/3", 404, "{}");
    ck_assert_uint_eq(fake_engine_connections(fake), 2);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(a_body_in_chunks_is_whole)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);

    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /c", .how = FAKE_CHUNKED, .body = "0123456789abcdefg"});
    assert_answer(http, "/c", 200, "0123456789abcdefg");
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

/* ---- Bounds ----------------------------------------------------------------------------------- */

START_TEST(an_answer_over_the_limit_is_refused)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/l", PATIENCE_MS);
    struct http_answer answer;
    struct error err;

    fake_engine_script(fake, &(struct fake_step){.request = "GET /l", .body = "12345", .times = 2});
    request.limit = 4;
    assert_failure(http, &request, ERROR_TOO_LARGE, "4 bytes");
    request.limit = 5;
    http_answer_init(&answer);
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    http_answer_release(&answer);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(a_head_without_end_is_refused)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/h", PATIENCE_MS);
    struct buffer head = BUFFER_INIT(4 * HTTP_MAX_HEADERS);

    ck_assert_int_eq(buffer_append_string(&head, "HTTP/1.1 200 OK\r\n"), 0);
    while (buffer_append_string(&head, "X-Header: and so on, and so on\r\n") == 0) {
    }
    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /h", .how = FAKE_RAW, .body = head.data, .length = head.length});
    assert_failure(http, &request, ERROR_TOO_LARGE, "head");
    http_free(http);
    fake_engine_stop(fake);
    buffer_release(&head);
}
END_TEST

static void assert_no_answer_in_time(enum fake_how how)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/t", SHORT_MS);

    /* On a slow machine the time may pass before it has asked. */
    fake_engine_script(
        fake, &(struct fake_step){.request = "GET /t", .how = how, .body = "0123456789", .times = FAKE_ALWAYS});
    fake_engine_answer(fake, "GET /after", 200, "fine");
    assert_failure(http, &request, ERROR_NO_ANSWER, "in time");
    ck_assert_uint_ge(clock_now_ms(), request.deadline_ms);
    assert_answer(http, "/after", 200, "fine");
    http_free(http);
    fake_engine_stop(fake);
}

START_TEST(a_server_that_never_answers_is_given_up_at_the_deadline)
{
    assert_no_answer_in_time(FAKE_HANG);
}
END_TEST

START_TEST(a_body_that_stalls_is_given_up_at_the_deadline)
{
    assert_no_answer_in_time(FAKE_STALL);
}
END_TEST

START_TEST(a_deadline_that_has_passed_asks_nothing)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/", 0);

    assert_failure(http, &request, ERROR_NO_ANSWER, "in time");
    ck_assert_uint_eq(fake_engine_connections(fake), 0);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(a_late_answer_within_the_deadline_is_taken)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);

    fake_engine_script(fake, &(struct fake_step){.request = "GET /late", .body = "{}", .delay_ms = SHORT_MS});
    assert_answer(http, "/late", 200, "{}");
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

static bool once_heard(void *arg)
{
    return fake_engine_count(arg) > 0;
}

START_TEST(a_request_that_is_called_off_ends)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/c", PATIENCE_MS);

    fake_engine_script(fake, &(struct fake_step){.request = "GET /c", .how = FAKE_HANG});
    request.cancelled = once_heard;
    request.arg = fake;
    assert_failure(http, &request, ERROR_CANCELLED, "cancelled");
    ck_assert_uint_lt(clock_now_ms(), request.deadline_ms);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

/* ---- Sinks ------------------------------------------------------------------------------------ */

struct taken {
    size_t bytes;
    size_t most; /* more is an error */
};

static int take(void *arg, const void *data, size_t length, struct error *err)
{
    struct taken *taken = arg;

    (void)data;
    taken->bytes += length;
    return taken->bytes <= taken->most ? 0 : error_set(err, ERROR_ERRNO, ENOSPC, "the sink is full");
}

START_TEST(a_sink_takes_a_good_body_and_no_other)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/s", PATIENCE_MS);
    struct taken taken = {.most = 100};
    struct http_answer answer;
    struct error err;

    fake_engine_answer(fake, "GET /s", 200, "0123456789");
    fake_engine_answer(fake, "GET /s", 404, "{\"message\":\"no\"}");
    fake_engine_answer(fake, "GET /s", 200, "0123456789");
    request.sink = take;
    request.arg = &taken;
    request.limit = 5; /* is for what is collected */
    http_answer_init(&answer);
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(taken.bytes, 10);
    ck_assert_uint_eq(answer.body.length, 0);
    request.limit = 0;
    ck_assert_msg(http_perform(http, &request, &answer, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(taken.bytes, 10);
    ck_assert_uint_eq(answer.body.length, 16);
    http_answer_release(&answer);
    taken.most = 15;
    assert_failure(http, &request, ERROR_ERRNO, "the sink is full");
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

/* ---- What is no answer ------------------------------------------------------------------------ */

static const struct {
    enum fake_how how;
    const char *body;
} broken[] = {
    {FAKE_CLOSE, NULL},
    {FAKE_TRUNCATE, "0123456789"},
    {FAKE_RAW, "SSH-2.0-OpenSSH_9.2\r\n"},
    {FAKE_RAW, "HTTP/1.1 abc\r\n\r\n"},
    {FAKE_RAW, "HTTP/1.1 200 OK\r\nContent-Le"},
    {FAKE_RAW, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12"},
    {FAKE_RAW, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12"},
    {FAKE_RAW, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n12"},
    {FAKE_RAW, "HTTP/9.9 200 OK\r\n\r\n"},
    {FAKE_RAW, "\x16\x03\x01"},
};

START_TEST(what_is_no_whole_answer_is_none)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/x", PATIENCE_MS);

    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /x", .how = broken[_i].how, .body = broken[_i].body, .times = 2});
    fake_engine_answer(fake, "GET /after", 200, "fine");
    assert_failure(http, &request, ERROR_NO_ANSWER, fake_engine_socket(fake));
    assert_failure(http, &request, ERROR_NO_ANSWER, fake_engine_socket(fake));
    assert_answer(http, "/after", 200, "fine");
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(a_redirect_is_an_answer_like_others)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);

    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /r", .status = 302, .headers = "Location: /else\r\n", .body = "x"});
    assert_answer(http, "/r", 302, "x");
    ck_assert_uint_eq(fake_engine_count(fake), 1);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

/* ---- Servers that are not there --------------------------------------------------------------- */

static void assert_cannot_connect(const char *socket, int os_errno, const char *text)
{
    struct http_server server;
    struct http_request request = get("/", PATIENCE_MS);
    struct http_answer answer;
    struct http *http;
    struct error err;

    http_server_init(&server);
    server.url = strdup("http://127.0.0.1:1");
    server.unix_socket = socket != NULL ? strdup(socket) : NULL;
    ck_assert_int_eq(http_new(&http, &server, &err), 0);
    http_answer_init(&answer);
    ck_assert_int_eq(http_perform(http, &request, &answer, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(err.os_errno, os_errno);
    ck_assert_msg(strstr(err.message, text) != NULL, "%s", err.message);
    ck_assert_ptr_nonnull(strstr(err.message, socket != NULL ? socket : "http://127.0.0.1:1"));
    http_free(http);
}

START_TEST(why_a_server_cannot_be_reached_is_told)
{
    struct fake_engine *fake = fake_engine_start();
    char *path = strdup(fake_engine_socket(fake));

    if (geteuid() != 0) {
        chmod(path, 0);
        assert_cannot_connect(path, EACCES, "Permission denied");
    }
    fake_engine_stop(fake);
    assert_cannot_connect(path, ENOENT, "No such file");
    assert_cannot_connect(NULL, ECONNREFUSED, "Connection refused");
    free(path);
}
END_TEST

START_TEST(a_url_that_is_none_is_refused)
{
    static const char *const urls[] = {"", "http://", "ftp://host", "file:///etc/passwd", "http://a b", "host"};
    struct http *http;
    struct error err;

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct http_server server;

        http_server_init(&server);
        server.url = strdup(urls[i]);
        ck_assert_msg(http_new(&http, &server, &err) < 0, "%s", urls[i]);
        ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
        http_server_release(&server);
    }
}
END_TEST

START_TEST(nothing_can_be_smuggled_into_a_request)
{
    static const char *const header[] = {"X: y\r\nEvil: z", NULL};
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    struct http_request request = get("/a b", PATIENCE_MS);

    assert_failure(http, &request, ERROR_BAD_REQUEST, "characters");
    request.path = "/a\r\nX: y";
    assert_failure(http, &request, ERROR_BAD_REQUEST, "characters");
    request.path = "relative";
    assert_failure(http, &request, ERROR_BAD_REQUEST, "characters");
    request = get("/", PATIENCE_MS);
    request.headers = header;
    assert_failure(http, &request, ERROR_BAD_REQUEST, "characters");
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(values_are_percent_encoded)
{
    struct buffer path = BUFFER_INIT(64);

    ck_assert_int_eq(buffer_append_string(&path, "/images/"), 0);
    ck_assert_int_eq(http_put_segment(&path, "a/b:c~\xc3\xa9"), 0);
    ck_assert_int_eq(http_put_query(&path, "x", "1 &2"), 0);
    ck_assert_int_eq(http_put_query(&path, "y", ""), 0);
    ck_assert_str_eq(buffer_text(&path), "/images/a%2Fb%3Ac~%C3%A9?x=1%20%262&y=");
    ck_assert_int_eq(http_put_query(&path, "long", "                        "), -1);
    ck_assert_str_eq(buffer_text(&path), "/images/a%2Fb%3Ac~%C3%A9?x=1%20%262&y=");
    buffer_release(&path);
}
END_TEST

/* ---- Many at once ----------------------------------------------------------------------------- */

#define THREADS 6
#define REQUESTS_EACH 10

static void *ask_often(void *arg)
{
    for (unsigned i = 0; i < REQUESTS_EACH; i++) {
        assert_answer(arg, "/n", 200, "{\"a\":1}");
    }
    return NULL;
}

START_TEST(a_client_serves_many_threads)
{
    struct fake_engine *fake = fake_engine_start();
    struct http *http = client(fake);
    pthread_t threads[THREADS];

    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /n", .body = "{\"a\":1}", .times = THREADS * REQUESTS_EACH});
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_often, http), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

UNIT_SUITE(http)
{
    tcase_add_test(tcase, an_answer_comes_with_its_status_type_and_body);
    tcase_add_test(tcase, a_request_carries_its_body_and_headers_and_no_more);
    tcase_add_test(tcase, requests_in_a_row_share_a_connection_and_survive_its_loss);
    tcase_add_test(tcase, a_body_in_chunks_is_whole);
    tcase_add_test(tcase, an_answer_over_the_limit_is_refused);
    tcase_add_test(tcase, a_head_without_end_is_refused);
    tcase_add_test(tcase, a_server_that_never_answers_is_given_up_at_the_deadline);
    tcase_add_test(tcase, a_body_that_stalls_is_given_up_at_the_deadline);
    tcase_add_test(tcase, a_deadline_that_has_passed_asks_nothing);
    tcase_add_test(tcase, a_late_answer_within_the_deadline_is_taken);
    tcase_add_test(tcase, a_request_that_is_called_off_ends);
    tcase_add_test(tcase, a_sink_takes_a_good_body_and_no_other);
    tcase_add_loop_test(tcase, what_is_no_whole_answer_is_none, 0, sizeof broken / sizeof broken[0]);
    tcase_add_test(tcase, a_redirect_is_an_answer_like_others);
    tcase_add_test(tcase, why_a_server_cannot_be_reached_is_told);
    tcase_add_test(tcase, a_url_that_is_none_is_refused);
    tcase_add_test(tcase, nothing_can_be_smuggled_into_a_request);
    tcase_add_test(tcase, values_are_percent_encoded);
    tcase_add_test(tcase, a_client_serves_many_threads);
}
