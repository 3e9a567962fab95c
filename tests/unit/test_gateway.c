#include "tests/unit/unit.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/clock.h"
#include "tests/unit/gateway_bed.h"

#define PATIENCE_MS 10000

static struct bed bed;
static int client; /* -1: none */

static void start(void)
{
    memset(&bed, 0, sizeof bed);
    bed_open(&bed);
    client = bed_connect(&bed);
}

static void host_status(void *ctx, json_t *into)
{
    json_object_set_new(into, "mountpoint", json_string(ctx));
}

static void host_provision(void *ctx, gateway_reply reply, void *arg)
{
    (void)ctx;
    reply(arg, NULL, json_pack("{s:b}", "created", 1));
}

static void host_destroy(void *ctx, gateway_reply reply, void *arg)
{
    struct error err;

    (void)ctx;
    error_set(&err, ERROR_IO, 0, "it will not go");
    reply(arg, &err, NULL);
}

static void start_with_host(void)
{
    static char mountpoint[] = "/m";

    memset(&bed, 0, sizeof bed);
    bed.host = (struct gateway_host){
        .status = host_status,
        .provision = host_provision,
        .destroy = host_destroy,
        .ctx = mountpoint,
    };
    bed_open(&bed);
    client = bed_connect(&bed);
}

static void end(void)
{
    if (client >= 0) {
        close(client);
    }
    bed_close(&bed);
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value != NULL ? value : "(none)";
}

static int number(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

static const char *name_of(const json_t *error)
{
    return text(json_object_get(error, "data"), "error");
}

/* Calls and compares one field of the answer. */
static void expect(const char *method, const char *params, const char *key, const char *value)
{
    json_t *answer = bed_call(client, method, params);

    ck_assert_str_eq(text(answer, key), value);
    json_decref(answer);
}

static void expect_code(const char *method, const char *params, int code)
{
    json_t *answer = bed_call(client, method, params);

    ck_assert_int_eq(number(answer, "code"), code);
    json_decref(answer);
}

static void expect_error(const char *method, const char *params, const char *name)
{
    json_t *answer = bed_call(client, method, params);

    ck_assert_int_eq(number(answer, "code"), -32000);
    ck_assert_str_eq(name_of(answer), name);
    json_decref(answer);
}

/* Waits until so many commands run. */
static void wait_running(unsigned running)
{
    uint64_t deadline = clock_now_ms() + PATIENCE_MS;

    while (bed_link_counts(&bed).running != running) {
        ck_assert(clock_now_ms() < deadline);
        usleep(500);
    }
}

/* ---- Methods ---- */

START_TEST(exec_gives_what_the_command_did)
{
    json_t *answer = bed_call(client, "exec", "{\"command\":\"echo hi\"}");

    ck_assert_str_eq(text(answer, "stdout"), "hi\n");
    ck_assert_str_eq(text(answer, "stderr"), "");
    ck_assert(json_is_integer(json_object_get(answer, "exit_code")));
    ck_assert(json_is_null(json_object_get(answer, "signal")));
    ck_assert_int_eq((int)json_object_size(answer), 17);
    json_decref(answer);
    answer = bed_call(client, "exec", "{\"command\":\"exit 7\"}");
    ck_assert_int_eq(number(answer, "exit_code"), 7);
    json_decref(answer);
    expect("exec", "{\"command\":\"signal 15\"}", "signal", "SIGTERM");
}
END_TEST

START_TEST(exec_takes_stdin_cwd_and_env)
{
    expect("exec", "{\"command\":\"cat\",\"stdin\":\"a\\nb\"}", "stdout", "a\nb");
    expect("exec", "{\"command\":\"cat\",\"stdin_base64\":\"//4=\"}", "stdout_base64", "//4=");
    expect("exec", "{\"command\":\"pwd\",\"cwd\":\"sub\"}", "stdout", "sub");
    expect("exec", "{\"command\":\"env\",\"env\":{\"A\":\"1\",\"B\":\"x y\"}}", "stdout",
           "A=1\nB=x y\n");
}
END_TEST

START_TEST(a_deadline_is_a_result_with_what_came_before)
{
    json_t *answer = bed_call(client, "exec", "{\"command\":\"timeout\",\"timeout_ms\":50}");

    ck_assert(json_is_true(json_object_get(answer, "timed_out")));
    ck_assert(json_is_null(json_object_get(answer, "exit_code")));
    ck_assert_str_eq(text(answer, "signal"), "SIGKILL");
    ck_assert_str_eq(text(answer, "stdout"), "partial");
    json_decref(answer);
}
END_TEST

START_TEST(a_sandbox_that_fails_us_is_an_error_object)
{
    expect_error("exec", "{\"command\":\"gone\"}", "sandbox_gone");
    expect_error("exec", "{\"command\":\"cwd\"}", "no_such_file");
    expect_error("read_file", "{\"path\":\"/none\"}", "no_such_file");
    expect_error("read_file", "{\"path\":\"/dir\"}", "is_a_directory");
    expect_error("write_file", "{\"path\":\"/full\",\"content\":\"x\"}", "errno");
}
END_TEST

START_TEST(what_is_written_can_be_read_as_text_and_as_bytes)
{
    json_t *answer = bed_call(client, "write_file", "{\"path\":\"a\",\"content\":\"x\\u0000y\"}");

    ck_assert_int_eq(number(answer, "size"), 3);
    json_decref(answer);
    answer = bed_call(client, "read_file", "{\"path\":\"a\"}");
    ck_assert_uint_eq(json_string_length(json_object_get(answer, "content")), 3);
    ck_assert_int_eq(number(answer, "size"), 3);
    json_decref(answer);
    json_decref(bed_call(client, "write_file", "{\"path\":\"b\",\"content_base64\":\"gA==\"}"));
    expect("read_file", "{\"path\":\"b\"}", "content_base64", "gA==");
    json_decref(bed_call(client, "write_file", "{\"path\":\"b\",\"content\":\"\"}"));
    expect("read_file", "{\"path\":\"b\"}", "content", "");
}
END_TEST

START_TEST(a_file_over_the_cap_is_not_even_sent)
{
    size_t size = MAX_FILE_BYTES + 1;
    struct buffer params = BUFFER_INIT(size + 100);
    json_t *answer;

    ck_assert_int_eq(buffer_append_string(&params, "{\"path\":\"big\",\"content\":\""), 0);
    memset(buffer_reserve(&params, size), 'x', size);
    buffer_commit(&params, size);
    ck_assert_int_eq(buffer_append_string(&params, "\"}"), 0);
    answer = bed_call(client, "write_file", buffer_text(&params));
    ck_assert_str_eq(name_of(answer), "too_large");
    json_decref(answer);
    expect_error("read_file", "{\"path\":\"big\"}", "no_such_file");
    buffer_release(&params);
}
END_TEST

START_TEST(wrong_parameters_and_unknown_methods_have_their_codes)
{
    expect_code("exec", "{}", -32602);
    expect_code("exec", "{\"command\":\"a\",\"verbose\":true}", -32602);
    expect_code("exec", "{\"command\":\"a\",\"timeout_ms\":-5}", -32602);
    expect_code("exec.cancel", "{}", -32602);
    expect_code("read_file", "{}", -32602);
    expect_code("read_file", "{\"path\":\"\"}", -32602);
    expect_code("read_file", "{\"path\":\"a\",\"limit\":1}", -32602);
    expect_code("write_file", "{\"path\":\"a\"}", -32602);
    expect_code("write_file", "{\"path\":\"a\",\"content_base64\":\"?\"}", -32602);
    expect_code("status", "{\"verbose\":true}", -32602);
    expect_code("watch", "{}", -32601);
    expect_code("shell.open", "{}", -32601);
    expect_code("provision", "{}", -32601); /* this host has none */
    expect_code("destroy", "{}", -32601);
    ck_assert_uint_eq(bed_link_counts(&bed).started, 0);
}
END_TEST

START_TEST(status_says_which_sandbox_and_how_it_is)
{
    expect("status", "{}", "session", "s1");
    expect("status", "{}", "id", "fake-1");
    expect("status", "{}", "state", "up");
    expect("status", "{}", "workdir", "/workspace");
}
END_TEST

START_TEST(what_the_host_offers_is_answered_by_it)
{
    json_t *answer = bed_call(client, "provision", "{}");

    ck_assert(json_is_true(json_object_get(answer, "created")));
    json_decref(answer);
    expect_error("destroy", "{}", "io");
    expect_code("destroy", "{\"session\":\"other\"}", -32602);
    expect("status", "{}", "mountpoint", "/m");
}
END_TEST

/* ---- Many at once ---- */

START_TEST(requests_run_at_once_and_are_answered_as_they_end)
{
    json_t *first;
    json_t *second;

    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"late a\"}}\n"
                     "{\"jsonrpc\":\"2.0\",\"id\":\"two\",\"method\":\"exec\",\"params\":{\"command\":\"echo b\"}}\n");
    first = bed_receive(client);
    second = bed_receive(client);
    ck_assert_str_eq(text(first, "id"), "two");
    ck_assert_int_eq(number(second, "id"), 1);
    json_decref(first);
    json_decref(second);
}
END_TEST

START_TEST(a_line_may_come_in_pieces_with_blank_ones_between)
{
    const char *line = "\r\n  \n{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"status\"}\r\n";
    json_t *message;

    for (const char *p = line; *p != '\0'; p++) {
        bed_send_bytes(client, p, 1);
    }
    message = bed_receive(client);
    ck_assert(json_is_null(json_object_get(message, "id")));
    ck_assert(json_is_object(json_object_get(message, "result")));
    json_decref(message);
}
END_TEST

START_TEST(a_notification_runs_and_is_not_answered)
{
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"method\":\"write_file\",\"params\":{\"path\":\"n\",\"content\":\"1\"}}\n"
                     "{\"jsonrpc\":\"2.0\",\"method\":\"none\"}\n"
                     "{\"jsonrpc\":\"2.0\",\"method\":\"status\",\"params\":[1]}\n");
    expect("read_file", "{\"path\":\"n\"}", "content", "1");
}
END_TEST

START_TEST(a_line_that_is_no_request_is_answered_and_the_next_one_served)
{
    json_t *message;

    bed_send(client, "hello\n");
    message = bed_receive(client);
    ck_assert_int_eq(number(json_object_get(message, "error"), "code"), -32700);
    ck_assert(json_is_null(json_object_get(message, "id")));
    json_decref(message);
    expect("exec", "{\"command\":\"echo still\"}", "stdout", "still\n");
}
END_TEST

/* ---- Ends ---- */

START_TEST(a_client_that_sends_no_more_still_gets_every_reply)
{
    json_t *message;

    /* The last line lacks its newline. */
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"late a\"}}\n"
                     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"exec\",\"params\":{\"command\":\"echo b\"}}");
    shutdown(client, SHUT_WR);
    message = bed_receive(client);
    ck_assert_int_eq(number(message, "id"), 2);
    json_decref(message);
    message = bed_receive(client);
    ck_assert_int_eq(number(message, "id"), 1);
    json_decref(message);
    bed_expect_end(client);
}
END_TEST

START_TEST(a_client_that_hangs_up_has_its_commands_cancelled_at_once)
{
    int other = bed_connect(&bed);
    uint64_t before;

    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n"
                     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n");
    bed_send(other, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n");
    wait_running(3);
    before = clock_now_ms();
    close(client);
    client = -1;
    wait_running(1);
    ck_assert_uint_lt(clock_now_ms() - before, 5000); /* the commands themselves never end */
    ck_assert_uint_eq(bed_link_counts(&bed).cancelled, 2);
    ck_assert_uint_eq(bed_counts(&bed).connections, 1);
    ck_assert_uint_eq(bed_counts(&bed).executions, 1);
    close(other);
    wait_running(0);
}
END_TEST

START_TEST(a_client_that_hangs_up_after_its_last_request_is_noticed_too)
{
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n");
    shutdown(client, SHUT_WR);
    wait_running(1);
    usleep(20000); /* it is still owed its reply */
    ck_assert_uint_eq(bed_link_counts(&bed).running, 1);
    close(client);
    client = -1;
    wait_running(0);
}
END_TEST

START_TEST(cancel_ends_the_named_command_and_no_other)
{
    json_t *message;
    bool cancelled = false;

    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n"
                     "{\"jsonrpc\":\"2.0\",\"id\":\"y\",\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n");
    wait_running(2);
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"exec.cancel\",\"params\":{\"id\":\"x\"}}\n");
    for (int i = 0; i < 2; i++) {
        message = bed_receive(client);
        if (number(message, "id") == 9) {
            cancelled = json_is_true(json_object_get(json_object_get(message, "result"), "cancelled"));
        } else {
            ck_assert_str_eq(text(message, "id"), "x");
            ck_assert_str_eq(name_of(json_object_get(message, "error")), "cancelled");
        }
        json_decref(message);
    }
    ck_assert(cancelled);
    ck_assert_uint_eq(bed_link_counts(&bed).running, 1);
    message = bed_call(client, "exec.cancel", "{\"id\":\"x\"}");
    ck_assert(json_is_false(json_object_get(message, "cancelled")));
    json_decref(message);
}
END_TEST

START_TEST(one_client_cannot_cancel_another_ones_command)
{
    int other = bed_connect(&bed);
    json_t *answer;

    bed_send(other, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n");
    wait_running(1);
    answer = bed_call(client, "exec.cancel", "{\"id\":1}");
    ck_assert(json_is_false(json_object_get(answer, "cancelled")));
    json_decref(answer);
    ck_assert_uint_eq(bed_link_counts(&bed).running, 1);
    close(other);
}
END_TEST

START_TEST(closing_the_gateway_ends_what_runs)
{
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"hang\"}}\n"
                     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"read_file\",\"params\":{\"path\":\"/fill/9\"}}\n");
    wait_running(1);
} /* bed_close() in the fixture: it ends, and with no handle left */
END_TEST

START_TEST(the_socket_is_for_this_user_alone)
{
    struct stat st;

    ck_assert_int_eq(stat(bed.path, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
}
END_TEST

UNIT_SUITE(gateway)
{
    TCase *with_host = tcase_create("gateway with a host");

    tcase_add_checked_fixture(with_host, start_with_host, end);
    tcase_add_test(with_host, what_the_host_offers_is_answered_by_it);
    suite_add_tcase(suite, with_host);
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, exec_gives_what_the_command_did);
    tcase_add_test(tcase, exec_takes_stdin_cwd_and_env);
    tcase_add_test(tcase, a_deadline_is_a_result_with_what_came_before);
    tcase_add_test(tcase, a_sandbox_that_fails_us_is_an_error_object);
    tcase_add_test(tcase, what_is_written_can_be_read_as_text_and_as_bytes);
    tcase_add_test(tcase, a_file_over_the_cap_is_not_even_sent);
    tcase_add_test(tcase, wrong_parameters_and_unknown_methods_have_their_codes);
    tcase_add_test(tcase, status_says_which_sandbox_and_how_it_is);
    tcase_add_test(tcase, requests_run_at_once_and_are_answered_as_they_end);
    tcase_add_test(tcase, a_line_may_come_in_pieces_with_blank_ones_between);
    tcase_add_test(tcase, a_notification_runs_and_is_not_answered);
    tcase_add_test(tcase, a_line_that_is_no_request_is_answered_and_the_next_one_served);
    tcase_add_test(tcase, a_client_that_sends_no_more_still_gets_every_reply);
    tcase_add_test(tcase, a_client_that_hangs_up_has_its_commands_cancelled_at_once);
    tcase_add_test(tcase, a_client_that_hangs_up_after_its_last_request_is_noticed_too);
    tcase_add_test(tcase, cancel_ends_the_named_command_and_no_other);
    tcase_add_test(tcase, one_client_cannot_cancel_another_ones_command);
    tcase_add_test(tcase, closing_the_gateway_ends_what_runs);
    tcase_add_test(tcase, the_socket_is_for_this_user_alone);
}
