/* Programs run over an exec stream, by a server that plays a script. */
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/k8s_channels.h"
#include "backends/k8s_client_internal.h"
#include "backends/pump.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_exec.h"

#define PATIENCE_MS 30000
#define SHORT_MS 1000
#define V4 "v4.channel.k8s.io"
#define V5 "v5.channel.k8s.io"
#define SUCCESS "{\"metadata\":{},\"status\":\"Success\"}"
#define EXIT(code) \
    "{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"message\":\"m\"," \
    "\"details\":{\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"" code "\"}]}}"

static char config[] = "/tmp/test-exec-config-XXXXXX";
static struct fake_exec *fake;
static struct k8s_client *client;

static void start(const struct fake_exec_script *scripts, unsigned count)
{
    static const char text[] = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
                               "clusters: [{name: c, cluster: {server: 'http://server'}}]\n"
                               "users: [{name: u, user: {token: secret}}]\n";
    struct k8s_config_source source;
    struct error err;
    int fd;

    fake = fake_exec_start(scripts, count);
    source = (struct k8s_config_source){.kubeconfig = config, .unix_socket = fake_exec_socket(fake)};
    memcpy(config + strlen(config) - 6, "XXXXXX", 6);
    fd = mkstemp(config);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ck_assert_msg(k8s_client_open_from(&client, &source, NULL, &err) == 0, "%s", err.message);
    unlink(config);
}

static void stop(void)
{
    fake_exec_stop(fake);
    k8s_client_close(client);
}

static struct k8s_exec program(unsigned ms)
{
    static const char *const argv[] = {"sh", "-c", "a b&c", NULL};

    return (struct k8s_exec){.namespace_ = "n", .pod = "p", .container = "c", .argv = argv,
                             .deadline_ms = clock_now_ms() + ms};
}

static int run(const void *input, size_t length, struct buffer *output, int *code, unsigned ms, struct error *err)
{
    struct k8s_exec exec = program(ms);

    return k8s_exec_run(client, &exec, input, length, output, code, err);
}

/* What the scripts say last. */
static void say_end(int fd, const char *status)
{
    unsigned char rest[256];
    int channel;

    fake_exec_say(fd, K8S_ERROR, status, strlen(status));
    fake_exec_close(fd);
    while (fake_exec_hear(fd, &channel, rest, sizeof rest) >= 0) {
    }
}

static void talk(int fd, void *arg)
{
    fake_exec_say(fd, K8S_STDOUT, "", 0); /* as a kubelet greets */
    fake_exec_say(fd, K8S_ERROR, "", 0);
    fake_exec_say(fd, K8S_STDOUT, "one ", 4);
    fake_exec_say(fd, K8S_STDERR, "a com\x1bplaint\n", 13);
    fake_exec_say(fd, -1, "", 0);
    fake_exec_say(fd, 9, "nobody", 6);
    fake_exec_say(fd, K8S_CLOSE, "\1", 1);
    fake_exec_say(fd, K8S_STDOUT, "two", 3);
    say_end(fd, arg);
}

START_TEST(the_output_comes_and_the_status_is_the_exit)
{
    struct fake_exec_script script = {.protocol = V4, .serve = talk, .arg = (void *)SUCCESS};
    struct buffer output = BUFFER_INIT(100);
    struct error err = {0};
    int code = -1;

    start(&script, 1);
    ck_assert_msg(run(NULL, 0, &output, &code, PATIENCE_MS, &err) == 0, "%s", err.message);
    ck_assert_int_eq(code, 0);
    ck_assert_int_eq(err.code, ERROR_NONE);
    ck_assert_uint_eq(output.length, 7);
    ck_assert_mem_eq(output.data, "one two", 7);
    ck_assert_ptr_nonnull(strstr(fake_exec_head(fake, 0),
                                 "GET /api/v1/namespaces/n/pods/p/exec?container=c&stdout=true&stderr=true&"
                                 "command=sh&command=-c&command=a%20b%26c HTTP/1.1\r\n"));
    ck_assert_ptr_nonnull(strstr(fake_exec_head(fake, 0), "Sec-WebSocket-Protocol: " V5 ", " V4 "\r\n"));
    ck_assert_ptr_nonnull(strstr(fake_exec_head(fake, 0), "Authorization: Bearer secret\r\n"));
    buffer_release(&output);
    stop();
}
END_TEST

START_TEST(a_program_that_fails_has_its_code_and_its_words)
{
    struct fake_exec_script script = {.protocol = V5, .serve = talk, .arg = (void *)EXIT("42")};
    struct buffer output = BUFFER_INIT(100);
    struct error err = {0};
    int code = -1;

    start(&script, 1);
    ck_assert_int_eq(run(NULL, 0, &output, &code, PATIENCE_MS, &err), 0);
    ck_assert_int_eq(code, 42);
    ck_assert_str_eq(err.message, "a com?plaint");
    buffer_release(&output);
    stop();
}
END_TEST

/* Runs a script that ends in an error, and gives its message. */
static const char *failure(void (*serve)(int fd, void *arg), const char *arg, unsigned ms, enum error_code code)
{
    struct fake_exec_script script = {.protocol = V4, .serve = serve, .arg = (void *)(uintptr_t)arg};
    struct buffer output = BUFFER_INIT(100);
    static struct error err;
    int status = -1;

    start(&script, 1);
    ck_assert_int_eq(run(NULL, 0, &output, &status, ms, &err), -1);
    ck_assert_msg(err.code == code, "%s: %s", error_name(err.code), err.message);
    buffer_release(&output);
    stop();
    return err.message;
}

START_TEST(a_program_that_was_not_run_is_an_error_with_the_servers_words)
{
    const char *text = failure(talk, "{\"status\":\"Failure\",\"reason\":\"InternalError\",\"message\":\"no such program\"}",
                               PATIENCE_MS, ERROR_IO);

    ck_assert_str_eq(text, "the program was not run: no such program");
}
END_TEST

START_TEST(a_status_that_makes_no_sense_is_no_success)
{
    static const char *const bad[] = {"hello", "[]", "{\"status\":7}"};
    static const char *const no_code[] = {EXIT("0"), EXIT("-1"), EXIT("256"), EXIT("1x"), EXIT(""),
                                          "{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\"}"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        failure(talk, bad[i], PATIENCE_MS, ERROR_NO_ANSWER);
    }
    for (size_t i = 0; i < sizeof no_code / sizeof no_code[0]; i++) {
        failure(talk, no_code[i], PATIENCE_MS, ERROR_IO);
    }
}
END_TEST

static void close_early(int fd, void *arg)
{
    fake_exec_say(fd, K8S_STDOUT, "half", 4);
    if (arg != NULL) {
        fake_exec_close(fd);
    }
}

START_TEST(a_close_without_a_status_is_an_error)
{
    failure(close_early, NULL, PATIENCE_MS, ERROR_NO_ANSWER);
    failure(close_early, "said", PATIENCE_MS, ERROR_NO_ANSWER);
}
END_TEST

static void break_off(int fd, void *arg)
{
    fake_exec_say(fd, K8S_STDOUT, "all", 3);
    fake_exec_say(fd, K8S_ERROR, arg, strlen(arg));
}

START_TEST(a_connection_that_breaks_after_the_status_has_told_all)
{
    struct fake_exec_script script = {.protocol = V4, .serve = break_off, .arg = (void *)SUCCESS};
    struct buffer output = BUFFER_INIT(100);
    struct error err = {0};
    int code = -1;

    start(&script, 1);
    ck_assert_int_eq(run(NULL, 0, &output, &code, PATIENCE_MS, &err), 0);
    ck_assert_int_eq(code, 0);
    buffer_release(&output);
    stop();
}
END_TEST

static void say_much(int fd, void *arg)
{
    char text[101];

    (void)arg;
    memset(text, 'x', sizeof text);
    fake_exec_say(fd, K8S_STDOUT, text, sizeof text);
    say_end(fd, SUCCESS);
}

static void say_status_for_ever(int fd, void *arg)
{
    static char text[30000];

    (void)arg;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 4; i++) {
        fake_exec_say(fd, K8S_ERROR, text, sizeof text);
    }
}

START_TEST(what_is_said_has_a_limit)
{
    failure(say_much, NULL, PATIENCE_MS, ERROR_TOO_LARGE);
    failure(say_status_for_ever, NULL, PATIENCE_MS, ERROR_TOO_LARGE);
}
END_TEST

static void be_silent(int fd, void *arg)
{
    unsigned char data[256];
    int channel;

    (void)arg;
    while (fake_exec_hear(fd, &channel, data, sizeof data) >= 0) {
    }
}

START_TEST(a_program_that_does_not_end_is_no_answer)
{
    failure(be_silent, NULL, SHORT_MS, ERROR_NO_ANSWER);
}
END_TEST

#define MUCH (3u << 20)

/* Sends back what it is given, all the time, until it had MUCH. */
static void echo(int fd, void *arg)
{
    static unsigned char data[65536];
    size_t total = 0;
    int channel;

    while (total < MUCH) {
        long n = fake_exec_hear(fd, &channel, data, sizeof data);

        if (n < 0) {
            return;
        }
        ck_assert_int_le(n, K8S_INPUT_PIECE);
        if (channel == K8S_STDIN) {
            fake_exec_say(fd, K8S_STDOUT, data, (size_t)n);
            total += (size_t)n;
        }
    }
    say_end(fd, arg);
}

START_TEST(much_input_and_much_output_pass_each_other)
{
    struct fake_exec_script script = {.protocol = V4, .serve = echo, .arg = (void *)SUCCESS};
    struct buffer output = BUFFER_INIT(MUCH);
    uint8_t *input = malloc(MUCH);
    struct error err = {0};
    int code = -1;

    for (size_t i = 0; i < MUCH; i++) {
        input[i] = (uint8_t)(i * 7 >> 3);
    }
    start(&script, 1);
    ck_assert_msg(run(input, MUCH, &output, &code, PATIENCE_MS, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(output.length, MUCH);
    ck_assert_int_eq(memcmp(output.data, input, MUCH), 0);
    ck_assert_ptr_nonnull(strstr(fake_exec_head(fake, 0), "&stdin=true&"));
    buffer_release(&output);
    free(input);
    stop();
}
END_TEST

static void hang_up_on_input(int fd, void *arg)
{
    fake_exec_say(fd, K8S_ERROR, arg, strlen(arg));
    fake_exec_close(fd);
}

START_TEST(a_program_may_end_without_its_input)
{
    struct fake_exec_script script = {.protocol = V4, .serve = hang_up_on_input, .arg = (void *)EXIT("3")};
    struct buffer output = BUFFER_INIT(100);
    uint8_t *input = calloc(1, MUCH);
    struct error err = {0};
    int code = -1;

    start(&script, 1);
    /* The system may tell of the broken connection before it gives what came first. */
    if (run(input, MUCH, &output, &code, PATIENCE_MS, &err) == 0) {
        ck_assert_int_eq(code, 3);
    } else {
        ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    }
    buffer_release(&output);
    free(input);
    stop();
}
END_TEST

/* ---- Handshakes ------------------------------------------------------------------------------- */

static const char *refusal(const struct fake_exec_script *script, enum error_code code)
{
    struct buffer output = BUFFER_INIT(100);
    static struct error err;
    int status = -1;

    start(script, 1);
    ck_assert_int_eq(run(NULL, 0, &output, &status, PATIENCE_MS, &err), -1);
    ck_assert_msg(err.code == code, "%s: %s", error_name(err.code), err.message);
    stop();
    return err.message;
}

START_TEST(a_server_that_refuses_says_why)
{
    const char *text = refusal(
        &(struct fake_exec_script){.head = "HTTP/1.1 403 Forbidden\r\nContent-Length: 46\r\n\r\n"
                                           "{\"reason\":\"Forbidden\",\"message\":\"you may not\"}"},
        ERROR_BAD_REQUEST);

    ck_assert_str_eq(text, "sh cannot be run in Pod p: you may not (Forbidden)");
}
END_TEST

START_TEST(an_answer_that_is_no_handshake_is_refused)
{
    refusal(&(struct fake_exec_script){.protocol = V4, .accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}, ERROR_NO_ANSWER);
    refusal(&(struct fake_exec_script){.protocol = "v3.channel.k8s.io"}, ERROR_NO_ANSWER);
    refusal(&(struct fake_exec_script){.protocol = V4 "\r\nSec-WebSocket-Extensions: x"}, ERROR_NO_ANSWER);
    refusal(&(struct fake_exec_script){.head = "HTTP/1.1 101 X\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n"},
            ERROR_NO_ANSWER);
    refusal(&(struct fake_exec_script){.head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"}, ERROR_NO_ANSWER);
}
END_TEST

/* ---- Streams ---------------------------------------------------------------------------------- */

static void assert_reads(int fd, const char *text)
{
    char got[64] = "";
    size_t length = 0;

    while (length < strlen(text)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        n = recv(fd, got + length, sizeof got - 1 - length, 0);
        ck_assert_msg(n > 0, "the end after \"%s\"", got);
        length += (size_t)n;
    }
    ck_assert_str_eq(got, text);
}

static void assert_ends(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char more;

    ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
    ck_assert_int_le(recv(fd, &more, 1, 0), 0);
    close(fd);
    for (unsigned i = 0; pump_count() > 0; i++) {
        ck_assert_uint_lt(i, PATIENCE_MS / 10);
        poll(NULL, 0, 10);
    }
}

static int open_stream(const struct fake_exec_script *script)
{
    struct k8s_reply refused;
    struct k8s_exec exec;
    struct error err;
    int fd;

    start(script, 1);
    exec = program(PATIENCE_MS);
    k8s_reply_init(&refused);
    ck_assert_msg(k8s_exec_stream(client, &exec, &fd, &refused, &err) == 0, "%s", err.message);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Answers one message, and notes whether the end of stdin is told. */
static void answer_one(int fd, void *arg)
{
    unsigned char data[256];
    char *seen = arg;
    int channel;
    long n = fake_exec_hear(fd, &channel, data, sizeof data);

    fake_exec_say(fd, K8S_STDERR, "noise", 5);
    fake_exec_say(fd, K8S_STDOUT, data, n > 0 ? (size_t)n : 0);
    n = fake_exec_hear(fd, &channel, data, sizeof data);
    *seen = n == 1 && channel == K8S_CLOSE && data[0] == K8S_STDIN ? 'c' : n < 0 ? 'e' : '?';
    say_end(fd, SUCCESS);
}

START_TEST(a_stream_is_the_programs_stdin_and_stdout)
{
    char seen = 0;
    int fd = open_stream(&(struct fake_exec_script){.protocol = V5, .serve = answer_one, .arg = &seen});

    ck_assert_int_eq(send(fd, "ping", 4, 0), 4);
    assert_reads(fd, "ping");
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    assert_ends(fd);
    stop();
    ck_assert_int_eq(seen, 'c');
}
END_TEST

START_TEST(without_v5_the_end_of_stdin_cannot_be_told)
{
    char seen = 0;
    int fd = open_stream(&(struct fake_exec_script){.protocol = V4, .serve = answer_one, .arg = &seen});

    ck_assert_int_eq(send(fd, "ping", 4, 0), 4);
    assert_reads(fd, "ping");
    ck_assert_int_eq(close(fd), 0);
    stop();
    ck_assert_int_eq(seen, 'e');
}
END_TEST

START_TEST(a_stream_that_is_refused_gives_the_reply)
{
    struct fake_exec_script script = {.head = "HTTP/1.1 404 Not Found\r\nContent-Length: 45\r\n\r\n"
                                              "{\"reason\":\"NotFound\",\"message\":\"no such Pod\"}"};
    struct k8s_reply refused;
    struct k8s_exec exec;
    struct error err;
    int fd;

    start(&script, 1);
    exec = program(PATIENCE_MS);
    k8s_reply_init(&refused);
    ck_assert_int_eq(k8s_exec_stream(client, &exec, &fd, &refused, &err), 0);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(refused.status, 404);
    ck_assert_str_eq(refused.message, "no such Pod");
    k8s_reply_release(&refused);
    stop();
}
END_TEST

/* A sign of life, as it is on the wire, is nothing that the program sees. */
START_TEST(a_sign_of_life_is_a_ping_and_a_message_without_a_byte)
{
    struct buffer outer = BUFFER_INIT(100);
    struct k8s_channels channels;
    struct error err;

    ck_assert_int_eq(k8s_channels_init(&channels, false, &err), 0);
    ck_assert_int_eq(k8s_channels_put_life(&channels, &outer, &err), 0);
    ck_assert_uint_eq(outer.length, 12);
    ck_assert_int_eq(outer.data[0], 0x89);
    ck_assert_int_eq(outer.data[1], 0x80);
    ck_assert_int_eq(outer.data[6], 0x82);
    ck_assert_int_eq(outer.data[7], 0x80);
    k8s_channels_release(&channels);
    buffer_release(&outer);
}
END_TEST

UNIT_SUITE(k8s_exec)
{
    tcase_add_test(tcase, the_output_comes_and_the_status_is_the_exit);
    tcase_add_test(tcase, a_program_that_fails_has_its_code_and_its_words);
    tcase_add_test(tcase, a_program_that_was_not_run_is_an_error_with_the_servers_words);
    tcase_add_test(tcase, a_status_that_makes_no_sense_is_no_success);
    tcase_add_test(tcase, a_close_without_a_status_is_an_error);
    tcase_add_test(tcase, a_connection_that_breaks_after_the_status_has_told_all);
    tcase_add_test(tcase, what_is_said_has_a_limit);
    tcase_add_test(tcase, a_program_that_does_not_end_is_no_answer);
    tcase_add_test(tcase, much_input_and_much_output_pass_each_other);
    tcase_add_test(tcase, a_program_may_end_without_its_input);
    tcase_add_test(tcase, a_server_that_refuses_says_why);
    tcase_add_test(tcase, an_answer_that_is_no_handshake_is_refused);
    tcase_add_test(tcase, a_stream_is_the_programs_stdin_and_stdout);
    tcase_add_test(tcase, without_v5_the_end_of_stdin_cannot_be_told);
    tcase_add_test(tcase, a_stream_that_is_refused_gives_the_reply);
    tcase_add_test(tcase, a_sign_of_life_is_a_ping_and_a_message_without_a_byte);
}
