#include "tests/unit/unit.h"

#include <errno.h>
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
}
