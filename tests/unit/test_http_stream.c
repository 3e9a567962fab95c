/* Upgrades that are granted and refused. */
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/http.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 20000
#define SHORT_MS 300

static const char *const upgrade_headers[] = {"Connection: Upgrade", "Upgrade: tcp", NULL};

static struct fake_engine *fake;
static struct http *http;
static struct http_stream *stream;
static struct http_answer refused;

static void open_all(void)
{
    struct http_server server;
    struct error err;

    fake = fake_engine_start();
    http_server_init(&server);
    server.url = strdup("http://server");
    server.unix_socket = strdup(fake_engine_socket(fake));
    ck_assert_msg(http_new(&http, &server, &err) == 0, "%s", err.message);
    http_answer_init(&refused);
    stream = NULL;
}

static void close_all(void)
{
    http_stream_close(stream);
    http_answer_release(&refused);
    http_free(http);
    fake_engine_stop(fake);
}

static struct http_request upgrade(unsigned ms)
{
    return (struct http_request){.method = "POST",
                                 .path = "/exec/1/start",
                                 .headers = upgrade_headers,
                                 .body = "{}",
                                 .body_length = 2,
                                 .deadline_ms = clock_now_ms() + ms};
}

static void ask(void)
{
    struct http_request request = upgrade(PATIENCE_MS);
    struct error err;

    ck_assert_msg(http_upgrade(http, &request, &stream, &refused, &err) == 0, "%s", err.message);
}

static void assert_failure(unsigned ms, size_t limit, enum error_code code, const char *text)
{
    struct http_request request = upgrade(ms);
    struct error err;

    request.limit = limit;
    ck_assert_int_eq(http_upgrade(http, &request, &stream, &refused, &err), -1);
    ck_assert_msg(err.code == code, "%s: %s", error_name(err.code), err.message);
    ck_assert_msg(strstr(err.message, text) != NULL, "%s", err.message);
    ck_assert_ptr_null(stream);
    ck_assert(ms != SHORT_MS || clock_now_ms() >= request.deadline_ms);
}

/* Receives so many bytes, or until the end. */
static size_t receive(char *data, size_t length)
{
    size_t have = 0;

    while (have < length) {
        struct pollfd p = {.fd = http_stream_fd(stream), .events = POLLIN};
        struct error err;
        ssize_t n = http_stream_recv(stream, data + have, length - have, &err);

        ck_assert_msg(n != -1, "%s", err.message);
        if (n == 0) {
            break;
        }
        if (n > 0) {
            have += (size_t)n;
        } else {
            ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        }
    }
    return have;
}

static void send_text(const char *text)
{
    struct error err;

    ck_assert_int_eq(http_stream_send(stream, text, strlen(text), &err), (ssize_t)strlen(text));
}

static void echo(int fd, void *arg)
{
    char data[4096];
    ssize_t n;

    (void)arg;
    while ((n = recv(fd, data, sizeof data, 0)) > 0) {
        (void)!send(fd, data, (size_t)n, MSG_NOSIGNAL);
    }
    (void)!send(fd, "bye", 3, MSG_NOSIGNAL);
}

START_TEST(a_granted_upgrade_loses_no_byte_behind_the_head)
{
    char data[16];

    open_all();
    fake_engine_script(fake, &(struct fake_step){.request = "POST /exec/1/start",
                                                 .how = FAKE_HIJACK,
                                                 .headers = "Upgrade: tcp\r\nX-Mine: 7\r\n",
                                                 .body = "early",
                                                 .hijack = echo});
    ask();
    ck_assert_ptr_nonnull(stream);
    ck_assert_str_eq(http_stream_header(stream, "x-mine"), "7");
    ck_assert_uint_eq(receive(data, 3), 3);
    ck_assert_mem_eq(data, "ear", 3);
    send_text("later");
    ck_assert_uint_eq(receive(data, 7), 7);
    ck_assert_mem_eq(data, "lylater", 7);
    ck_assert(http_stream_shutdown(stream));
    ck_assert_uint_eq(receive(data, sizeof data), 3);
    ck_assert_mem_eq(data, "bye", 3);
    ck_assert_str_eq(fake_engine_heard(fake, 0)->body, "{}");
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 0)->head, "\r\nUpgrade: tcp\r\n"));
    close_all();
}
END_TEST

START_TEST(an_old_engine_may_grant_it_with_200)
{
    char data[16];

    open_all();
    fake_engine_script(fake, &(struct fake_step){.request = "POST /exec/1/start",
                                                 .how = FAKE_HIJACK,
                                                 .status = 200,
                                                 .headers = "Content-Type: application/vnd.docker.raw-stream\r\n",
                                                 .hijack = echo});
    ask();
    ck_assert_ptr_nonnull(stream);
    send_text("x");
    ck_assert_uint_eq(receive(data, 1), 1);
    close_all();
}
END_TEST

START_TEST(a_stream_outlives_its_client)
{
    char data[16];

    open_all();
    fake_engine_script(fake, &(struct fake_step){
                                 .request = "POST /exec/1/start", .how = FAKE_HIJACK, .hijack = echo});
    ask();
    http_free(http);
    http = NULL;
    send_text("x");
    ck_assert_uint_eq(receive(data, 1), 1);
    close_all();
}
END_TEST

/* ---- Refusals --------------------------------------------------------------------------------- */

static const struct {
    enum fake_how how;
    const char *body;
} refusals[] = {
    {FAKE_ANSWER, "{\"message\":\"is not running\"}"},
    {FAKE_CHUNKED, "{\"message\":\"is not running\"}"},
    {FAKE_TO_END, "{\"message\":\"is not running\"}"},
    {FAKE_RAW, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 409 No\r\n"
               "Content-Type: application/json\r\n\r\n{\"message\":\"is not running\"}"},
};

START_TEST(a_refusal_comes_with_its_body)
{
    open_all();
    fake_engine_script(fake, &(struct fake_step){.request = "POST /exec/1/start",
                                                 .how = refusals[_i].how,
                                                 .status = 409,
                                                 .body = refusals[_i].body});
    ask();
    ck_assert_ptr_null(stream);
    ck_assert_int_eq(refused.status, 409);
    ck_assert_str_eq(refused.content_type, "application/json");
    ck_assert_str_eq(buffer_text(&refused.body), "{\"message\":\"is not running\"}");
    close_all();
}
END_TEST

START_TEST(two_hundred_with_a_body_of_known_length_is_no_upgrade)
{
    open_all();
    fake_engine_answer(fake, "POST /exec/1/start", 200, "{}");
    ask();
    ck_assert_ptr_null(stream);
    ck_assert_int_eq(refused.status, 200);
    close_all();
}
END_TEST

static const struct {
    enum fake_how how;
    const char *body;
    unsigned ms;
    size_t limit;
    enum error_code code;
    const char *text;
} failures[] = {
    {FAKE_HANG, NULL, SHORT_MS, 0, ERROR_NO_ANSWER, "in time"},
    {FAKE_STALL, "0123456789", SHORT_MS, 0, ERROR_NO_ANSWER, "in time"},
    {FAKE_CLOSE, NULL, PATIENCE_MS, 0, ERROR_NO_ANSWER, "hung up"},
    {FAKE_TRUNCATE, "0123456789", PATIENCE_MS, 0, ERROR_NO_ANSWER, "hung up"},
    {FAKE_ANSWER, "0123456789", PATIENCE_MS, 9, ERROR_TOO_LARGE, "too long"},
    {FAKE_RAW, "\001\0\0\0", PATIENCE_MS, 0, ERROR_NO_ANSWER, "no HTTP"},
    {FAKE_RAW, "HTTP/1.1 101 Swi", PATIENCE_MS, 0, ERROR_NO_ANSWER, "hung up"},
    {FAKE_RAW, "HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\nx", PATIENCE_MS, 0, ERROR_NO_ANSWER, "no HTTP"},
};

START_TEST(what_is_no_answer_to_an_upgrade_is_an_error)
{
    open_all();
    /* On a slow machine a short time may pass before it has asked. */
    fake_engine_script(fake, &(struct fake_step){.request = "POST /exec/1/start",
                                                 .how = failures[_i].how,
                                                 .status = 400,
                                                 .body = failures[_i].body,
                                                 .times = failures[_i].ms == SHORT_MS ? FAKE_ALWAYS : 1});
    assert_failure(failures[_i].ms, failures[_i].limit, failures[_i].code, failures[_i].text);
    close_all();
}
END_TEST

START_TEST(heads_before_the_answer_have_a_bound)
{
    struct buffer heads = BUFFER_INIT(4096);

    open_all();
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_int_eq(buffer_append_string(&heads, "HTTP/1.1 100 Continue\r\n\r\n"), 0);
    }
    fake_engine_script(fake, &(struct fake_step){.request = "POST /exec/1/start",
                                                 .how = FAKE_RAW,
                                                 .body = heads.data,
                                                 .length = heads.length});
    assert_failure(PATIENCE_MS, 0, ERROR_NO_ANSWER, "does not come to an answer");
    close_all();
    buffer_release(&heads);
}
END_TEST

static bool once_heard(void *arg)
{
    return fake_engine_count(arg) > 0;
}

START_TEST(an_upgrade_can_be_called_off)
{
    struct http_request request;
    struct error err;

    open_all();
    fake_engine_script(fake, &(struct fake_step){.request = "POST /exec/1/start", .how = FAKE_HANG});
    request = upgrade(PATIENCE_MS);
    request.cancelled = once_heard;
    request.arg = fake;
    ck_assert_int_eq(http_upgrade(http, &request, &stream, &refused, &err), -1);
    ck_assert_int_eq(err.code, ERROR_CANCELLED);
    close_all();
}
END_TEST

UNIT_SUITE(http_stream)
{
    tcase_add_test(tcase, a_granted_upgrade_loses_no_byte_behind_the_head);
    tcase_add_test(tcase, an_old_engine_may_grant_it_with_200);
    tcase_add_test(tcase, a_stream_outlives_its_client);
    tcase_add_loop_test(tcase, a_refusal_comes_with_its_body, 0, sizeof refusals / sizeof refusals[0]);
    tcase_add_test(tcase, two_hundred_with_a_body_of_known_length_is_no_upgrade);
    tcase_add_loop_test(tcase, what_is_no_answer_to_an_upgrade_is_an_error, 0,
                        sizeof failures / sizeof failures[0]);
    tcase_add_test(tcase, heads_before_the_answer_have_a_bound);
    tcase_add_test(tcase, an_upgrade_can_be_called_off);
}
