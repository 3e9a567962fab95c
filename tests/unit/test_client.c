#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/client.h"
#include "exec/listen.h"
#include "sandbox/clock.h"
#include "tests/unit/gateway_bed.h"

#define PATIENCE_MS 120000 /* valgrind is slow */

static struct bed bed;
static struct client *client;
static struct error err;
static json_t *result;

static void start(void)
{
    memset(&bed, 0, sizeof bed);
    bed_open(&bed);
    if (client_connect(&client, bed.path, 5000, &err) < 0) {
        ck_abort_msg("%s", err.message);
    }
}

static void end(void)
{
    client_close(client);
    bed_close(&bed);
}

static int call(const char *method, json_t *params, uint64_t timeout_ms)
{
    int r = client_call(client, method, params, timeout_ms, &result, &err);

    json_decref(params);
    return r;
}

START_TEST(a_call_gives_the_result)
{
    ck_assert_int_eq(call("exec", json_pack("{s:s}", "command", "echo hi"), 5000), 0);
    ck_assert_str_eq(json_string_value(json_object_get(result, "stdout")), "hi\n");
    json_decref(result);
    ck_assert_int_eq(call("status", NULL, 0), 0);
    json_decref(result);
}
END_TEST

START_TEST(an_error_object_becomes_the_error_that_it_was)
{
    ck_assert_int_eq(call("exec", json_pack("{s:s}", "command", "gone"), 0), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    ck_assert_str_eq(err.message, "the sandbox is gone");
    ck_assert_int_eq(call("write_file", json_pack("{s:s, s:s}", "path", "/full", "content", ""), 0), -1);
    ck_assert_int_eq(err.code, ERROR_ERRNO);
    ck_assert_int_eq(err.os_errno, ENOSPC);
    ck_assert_int_eq(call("nothing", NULL, 0), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(an_answer_may_be_large)
{
    size_t size = 6 << 20;
    char command[32];

    snprintf(command, sizeof command, "fill %zu", size);
    ck_assert_int_eq(call("exec", json_pack("{s:s}", "command", command), PATIENCE_MS), 0);
    ck_assert_uint_eq(json_string_length(json_object_get(result, "stdout")), size);
    json_decref(result);
}
END_TEST

START_TEST(a_request_that_is_too_long_is_told_so)
{
    size_t size = 17 << 20;
    json_t *params;
    char *text = malloc(size);

    memset(text, 'x', size);
    params = json_pack("{s:s%}", "command", text, size);
    free(text);
    ck_assert_int_eq(call("exec", params, PATIENCE_MS), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    ck_assert_int_eq(call("status", NULL, 0), 0);
    json_decref(result);
}
END_TEST

START_TEST(a_time_out_ends_the_wait_and_a_late_answer_is_nobody_elses)
{
    uint64_t before = clock_now_ms();

    ck_assert_int_eq(call("exec", json_pack("{s:s}", "command", "hang"), 50), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_uint_ge(clock_now_ms() - before, 50);
    ck_assert_int_eq(call("exec", json_pack("{s:s}", "command", "late x"), 1), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(call("exec", json_pack("{s:s}", "command", "late y"), 5000), 0);
    ck_assert_str_eq(json_string_value(json_object_get(result, "stdout")), "y\n");
    json_decref(result);
}
END_TEST

START_TEST(no_socket_and_no_listener_are_two_errors)
{
    struct socket_file file;
    struct client *none;
    char path[160];

    snprintf(path, sizeof path, "%s/other.sock", bed.folder);
    ck_assert_int_eq(client_connect(&none, path, 1000, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_SUCH_FILE);
    ck_assert_int_eq(client_connect(&none, bed.folder, 1000, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_SUCH_FILE);
    ck_assert_int_eq(socket_file_create(&file, path, &err), 0);
    close(file.fd);
    file.fd = -1;
    ck_assert_int_eq(client_connect(&none, path, 1000, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    unlink(path);
    socket_file_remove(&file);
}
END_TEST

/* ---- Against another gateway than ours ---- */

struct script {
    struct socket_file file;
    const char *answer; /* sent after the first bytes of a request, then closed */
};

static void *run_script(void *arg)
{
    struct script *script = arg;
    char byte[256];
    ssize_t n;
    int fd;

    do {
        fd = accept4(script->file.fd, NULL, NULL, SOCK_CLOEXEC);
    } while (fd < 0 && errno == EAGAIN && usleep(500) == 0);
    n = recv(fd, byte, sizeof byte, 0);
    if (n > 0) {
        bed_send(fd, script->answer);
    }
    close(fd);
    return NULL;
}

static int call_script(const char *answer)
{
    struct script script = {.answer = answer};
    char path[160];
    pthread_t thread;
    struct client *other;
    int r;

    snprintf(path, sizeof path, "%s/other.sock", bed.folder);
    ck_assert_int_eq(socket_file_create(&script.file, path, &err), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_script, &script), 0);
    ck_assert_int_eq(client_connect(&other, path, 1000, &err), 0);
    r = client_call(other, "status", NULL, 5000, &result, &err);
    pthread_join(thread, NULL);
    client_close(other);
    socket_file_remove(&script.file);
    return r;
}

START_TEST(a_gateway_that_hangs_up_is_an_io_error)
{
    ck_assert_int_eq(call_script(""), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
    ck_assert_int_eq(call_script("{\"jsonrpc\":\"2.0\",\"id\":1,\"resu"), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
}
END_TEST

START_TEST(an_answer_that_makes_no_sense_is_an_io_error)
{
    ck_assert_int_eq(call_script("nonsense\n"), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
    ck_assert_int_eq(call_script("{\"jsonrpc\":\"2.0\",\"id\":1}\n"), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
    ck_assert_int_eq(call_script("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":5}\n"), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
}
END_TEST

START_TEST(what_is_not_the_answer_is_left_aside)
{
    ck_assert_int_eq(call_script("{\"jsonrpc\":\"2.0\",\"method\":\"exec.output\",\"params\":{}}\n[]\n"
                                 "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n"
                                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"this\"}\n"),
                     0);
    ck_assert_str_eq(json_string_value(result), "this");
    json_decref(result);
}
END_TEST

/* ---- Several at once ---- */

static void send_or_fail(const char *method, json_t *params, json_int_t *id)
{
    if (client_send(client, method, params, id, &err) < 0) {
        ck_abort_msg("%s", err.message);
    }
    json_decref(params);
}

/* As a program's loop does it. NULL where nothing came in time. */
static json_t *next_message(int patience_ms)
{
    uint64_t until = clock_now_ms() + (uint64_t)patience_ms;
    json_t *message = NULL;

    for (;;) {
        struct pollfd fd = {.fd = client_fd(client), .events = POLLIN};
        int r;

        ck_assert_int_eq(client_flush(client, &err), 0);
        r = client_receive(client, &message, &err);
        ck_assert_msg(r >= 0, "%s", err.message);
        if (r == 1) {
            return message;
        }
        if (clock_now_ms() >= until) {
            return NULL;
        }
        fd.events |= client_has_unsent(client) ? POLLOUT : 0;
        poll(&fd, 1, 20);
    }
}

static json_t *await_message(void)
{
    json_t *message = next_message(PATIENCE_MS);

    ck_assert_msg(message != NULL, "no message");
    return message;
}

START_TEST(each_answer_of_several_says_whose_it_is)
{
    json_int_t slow, quick, wrong;

    send_or_fail("exec", json_pack("{s:s}", "command", "hang"), &slow);
    send_or_fail("exec", json_pack("{s:s}", "command", "echo quick"), &quick);
    send_or_fail("nothing", NULL, &wrong);
    for (int i = 0; i < 2; i++) {
        json_t *message = await_message();

        if (client_id(message) == quick) {
            ck_assert_int_eq(client_result(message, &result, &err), 0);
            ck_assert_str_eq(json_string_value(json_object_get(result, "stdout")), "quick\n");
            json_decref(result);
        } else {
            ck_assert_int_eq(client_id(message), wrong);
            ck_assert_int_eq(client_result(message, &result, &err), -1);
            ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
        }
        json_decref(message);
    }
    ck_assert_ptr_null(next_message(0));
}
END_TEST

START_TEST(a_notification_is_carried_out_and_not_answered)
{
    json_int_t hanging;
    json_t *params;
    json_t *message;

    send_or_fail("exec", json_pack("{s:s}", "command", "hang"), &hanging);
    params = json_pack("{s:I}", "id", hanging);
    ck_assert_int_eq(client_notify(client, "exec.cancel", params, &err), 0);
    json_decref(params);
    message = await_message();
    ck_assert_int_eq(client_id(message), hanging);
    ck_assert_int_eq(client_result(message, &result, &err), -1);
    ck_assert_int_eq(err.code, ERROR_CANCELLED);
    json_decref(message);
    ck_assert_ptr_null(next_message(0));
}
END_TEST

START_TEST(hundreds_of_answers_in_one_piece_are_all_there)
{
    json_int_t id;
    unsigned seen = 0;

    for (int i = 0; i < 200; i++) {
        send_or_fail("exec", json_pack("{s:s}", "command", "echo x"), &id);
    }
    while (seen < 200) {
        json_t *message = await_message();

        ck_assert_int_gt(client_id(message), 0);
        ck_assert_int_eq(client_result(message, &result, &err), 0);
        ck_assert_str_eq(json_string_value(json_object_get(result, "stdout")), "x\n");
        json_decref(result);
        json_decref(message);
        seen++;
    }
}
END_TEST

START_TEST(what_waits_to_be_sent_is_bounded)
{
    size_t size = 40 << 20;
    char *text = malloc(size);
    json_int_t id;
    json_t *params;
    int pair[2];

    client_close(client);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(client_new(&client, pair[0], &err), 0);
    memset(text, 'x', size);
    params = json_pack("{s:s%}", "command", text, size);
    free(text);
    ck_assert_int_eq(client_send(client, "exec", params, &id, &err), 0);
    ck_assert_int_eq(client_flush(client, &err), 0); /* the socket takes some of it, and nobody reads */
    ck_assert(client_has_unsent(client));
    ck_assert_int_eq(client_send(client, "exec", params, &id, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    json_decref(params);
    close(pair[1]);
    ck_assert_int_eq(client_flush(client, &err), 0);
    ck_assert(!client_has_unsent(client));
    ck_assert_int_eq(client_receive(client, &result, &err), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
}
END_TEST

/* ---- A connection that nobody accepted ---- */

struct serving {
    int fd;
    int result;
    struct error err;
};

static void serve_job(struct bed *the_bed, void *arg)
{
    struct serving *serving = arg;

    serving->result = gateway_serve(the_bed->gateway, serving->fd, &serving->err);
}

/* A client on a socketpair with the gateway. */
static int serve_pair(struct client **ret)
{
    struct serving serving;
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    serving.fd = pair[1];
    bed_run(&bed, serve_job, &serving);
    if (serving.result < 0) {
        err = serving.err;
        close(pair[0]);
        return -1;
    }
    ck_assert_int_eq(client_new(ret, pair[0], &err), 0);
    return 0;
}

START_TEST(a_socketpair_is_served_as_any_connection_and_its_hang_up_kills)
{
    struct client *other;
    json_int_t id;
    json_t *params = json_pack("{s:s}", "command", "hang");

    ck_assert_int_eq(serve_pair(&other), 0);
    ck_assert_int_eq(client_call(other, "status", NULL, PATIENCE_MS, &result, &err), 0);
    json_decref(result);
    ck_assert_int_eq(client_send(other, "exec", params, &id, &err), 0);
    ck_assert_int_eq(client_flush(other, &err), 0);
    json_decref(params);
    while (bed_link_counts(&bed).running < 1) {
        usleep(1000);
    }
    client_close(other);
    while (bed_link_counts(&bed).cancelled < 1) {
        usleep(1000);
    }
}
END_TEST

START_TEST(a_served_connection_counts_towards_the_limit)
{
    struct client *clients[GATEWAY_MAX_CONNECTIONS];
    int open = 0;

    while (bed_counts(&bed).connections < GATEWAY_MAX_CONNECTIONS) {
        ck_assert_int_eq(serve_pair(&clients[open++]), 0);
    }
    ck_assert_int_eq(serve_pair(&clients[0]), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    while (open > 0) {
        client_close(clients[--open]);
    }
}
END_TEST

UNIT_SUITE(client)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, a_call_gives_the_result);
    tcase_add_test(tcase, an_error_object_becomes_the_error_that_it_was);
    tcase_add_test(tcase, an_answer_may_be_large);
    tcase_add_test(tcase, a_request_that_is_too_long_is_told_so);
    tcase_add_test(tcase, a_time_out_ends_the_wait_and_a_late_answer_is_nobody_elses);
    tcase_add_test(tcase, no_socket_and_no_listener_are_two_errors);
    tcase_add_test(tcase, a_gateway_that_hangs_up_is_an_io_error);
    tcase_add_test(tcase, an_answer_that_makes_no_sense_is_an_io_error);
    tcase_add_test(tcase, what_is_not_the_answer_is_left_aside);
    tcase_add_test(tcase, each_answer_of_several_says_whose_it_is);
    tcase_add_test(tcase, a_notification_is_carried_out_and_not_answered);
    tcase_add_test(tcase, hundreds_of_answers_in_one_piece_are_all_there);
    tcase_add_test(tcase, what_waits_to_be_sent_is_bounded);
    tcase_add_test(tcase, a_socketpair_is_served_as_any_connection_and_its_hang_up_kills);
    tcase_add_test(tcase, a_served_connection_counts_towards_the_limit);
}
