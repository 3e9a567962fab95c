/* Commands that are spoken with while they run, and those that outlive their clients. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/clock.h"
#include "tests/unit/gateway_bed.h"

#define PATIENCE_MS 60000

static struct bed bed;
static int client; /* -1: none */

static void start(void)
{
    memset(&bed, 0, sizeof bed);
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

static void wait_running(unsigned want)
{
    uint64_t begun = clock_now_ms();

    while (bed_link_counts(&bed).running != want) {
        ck_assert_uint_lt(clock_now_ms() - begun, PATIENCE_MS);
        usleep(1000);
    }
}

static const char *text(const json_t *object, const char *name)
{
    const char *s = json_string_value(json_object_get(object, name));

    return s != NULL ? s : "";
}

static void expect_boolean(const char *method, const char *params, const char *name, bool want)
{
    json_t *answer = bed_call(client, method, params);

    ck_assert_msg(json_is_boolean(json_object_get(answer, name)), "%s: no %s", method, name);
    ck_assert_int_eq(json_is_true(json_object_get(answer, name)), want);
    json_decref(answer);
}

static void expect_code(const char *method, const char *params, int code)
{
    json_t *answer = bed_call(client, method, params);

    ck_assert_int_eq((int)json_integer_value(json_object_get(answer, "code")), code);
    json_decref(answer);
}

/* The answer to request `id`; those that come before it are thrown away. */
static json_t *receive_answer(int id)
{
    for (;;) {
        json_t *message = bed_receive(client);
        json_t *result;

        ck_assert_ptr_nonnull(message);
        if (json_integer_value(json_object_get(message, "id")) == id) {
            result = json_object_get(message, "result");
            json_incref(result);
            json_decref(message);
            return result;
        }
        json_decref(message);
    }
}

#define EXEC(id, params) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"exec\",\"params\":" params "}\n"
#define WRITE(id, params) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"exec.write\",\"params\":" params "}\n"

/* ---- Output ------------------------------------------------------------------------------------- */

START_TEST(output_is_notified_before_the_result_which_is_whole)
{
    json_t *message;
    json_t *params;

    bed_send(client, EXEC(1, "{\"command\":\"echo hi\",\"stream\":true}"));
    message = bed_receive(client);
    ck_assert_str_eq(text(message, "method"), "exec.output");
    ck_assert_ptr_null(json_object_get(message, "id"));
    params = json_object_get(message, "params");
    ck_assert_int_eq((int)json_integer_value(json_object_get(params, "id")), 1);
    ck_assert_str_eq(text(params, "stream"), "stdout");
    ck_assert_str_eq(text(params, "data"), "hi\n");
    json_decref(message);
    message = receive_answer(1);
    ck_assert_str_eq(text(message, "stdout"), "hi\n");
    json_decref(message);
}
END_TEST

START_TEST(bytes_that_are_no_text_are_notified_as_base64)
{
    static const char *const want[2][2] = {{"stdout", "//4="}, {"stderr", "YmFkwA=="}};
    unsigned seen = 0;
    json_t *message;

    bed_send(client, EXEC(1, "{\"command\":\"binary\",\"stream\":true}"));
    while (json_object_get(message = bed_receive(client), "id") == NULL) {
        json_t *params = json_object_get(message, "params");
        unsigned i = strcmp(text(params, "stream"), "stdout") == 0 ? 0 : 1;

        ck_assert_ptr_null(json_object_get(params, "data"));
        if (i == 0) {
            ck_assert_str_eq(text(params, "data_base64"), want[i][1]);
        }
        seen |= 1u << i;
        json_decref(message);
    }
    json_decref(message);
    ck_assert_uint_eq(seen, 3);
}
END_TEST

START_TEST(a_large_output_comes_in_pieces_and_whole)
{
    size_t got = 0;
    unsigned pieces = 0;
    json_t *message;

    bed_send(client, EXEC(1, "{\"command\":\"fill 1000000\",\"stream\":true}"));
    while (json_object_get(message = bed_receive(client), "id") == NULL) {
        got += json_string_length(json_object_get(json_object_get(message, "params"), "data"));
        pieces++;
        json_decref(message);
    }
    json_decref(message);
    ck_assert_uint_eq(got, 1000000);
    ck_assert_uint_ge(pieces, 30);
}
END_TEST

START_TEST(who_asks_for_no_answer_is_sent_no_output_either)
{
    json_t *answer;

    bed_send(client, "{\"jsonrpc\":\"2.0\",\"method\":\"exec\",\"params\":{\"command\":\"echo hi\",\"stream\":true}}\n");
    answer = bed_call(client, "exec", "{\"command\":\"late x\"}");
    ck_assert_str_eq(text(answer, "stdout"), "x\n");
    json_decref(answer);
}
END_TEST

/* ---- Input, signals, size ----------------------------------------------------------------------- */

START_TEST(writes_are_taken_in_their_order_also_before_the_command_begins)
{
    json_t *answer;

    bed_send(client, EXEC(1, "{\"command\":\"reader\",\"stdin\":\"a\",\"input\":true}")
                         WRITE(2, "{\"id\":1,\"data\":\"b\"}") WRITE(3, "{\"id\":1,\"data_base64\":\"Yw==\",\"eof\":true}")
                             "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"exec.signal\",\"params\":{\"id\":1,\"signal\":\"SIGUSR1\"}}\n");
    answer = receive_answer(1);
    ck_assert_str_eq(text(answer, "stdout"), "abc");
    json_decref(answer);
    ck_assert_uint_eq(bed_link_counts(&bed).ended_inputs, 1);
}
END_TEST

/* A write of so many bytes; it is not waited for. */
static void send_write(int id, size_t length)
{
    struct buffer line = BUFFER_INIT(1 << 20);
    uint8_t *to;

    ck_assert_int_eq(buffer_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"exec.write\",\"params\":"
                                          "{\"id\":1,\"data\":\"", id),
                     0);
    to = buffer_reserve(&line, length);
    memset(to, 'x', length);
    buffer_commit(&line, length);
    ck_assert_int_eq(buffer_append_string(&line, "\"}}\n"), 0);
    bed_send_bytes(client, line.data, line.length);
    buffer_release(&line);
}

START_TEST(a_write_is_answered_when_there_is_room)
{
    json_t *answer;

    bed_send(client, EXEC(1, "{\"command\":\"reader\",\"input\":true}"));
    wait_running(1);
    send_write(2, 300000);
    json_decref(receive_answer(2)); /* the first always fits */
    send_write(3, 1000);
    send_write(4, 1000);
    answer = bed_call(client, "status", "{}"); /* the writes came before it, and were not answered */
    json_decref(answer);
    ck_assert_uint_eq(bed_link_counts(&bed).written, 300000);
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"exec.signal\",\"params\":{\"id\":1,\"signal\":2}}\n");
    json_decref(receive_answer(3));
    answer = receive_answer(4);
    ck_assert(json_is_true(json_object_get(answer, "written")));
    json_decref(answer);
    ck_assert_uint_eq(bed_link_counts(&bed).written, 302000);
}
END_TEST

START_TEST(writes_that_wait_are_answered_when_the_command_is_cancelled)
{
    json_t *answer;

    bed_send(client, EXEC(1, "{\"command\":\"reader\",\"input\":true}"));
    wait_running(1);
    send_write(2, 300000);
    send_write(3, 1);
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"exec.cancel\",\"params\":{\"id\":1}}\n");
    answer = receive_answer(3);
    ck_assert(json_is_false(json_object_get(answer, "written")));
    json_decref(answer);
    wait_running(0);
}
END_TEST

START_TEST(what_is_not_there_is_answered_so_and_what_is_wrong_is_refused)
{
    expect_boolean("exec.write", "{\"id\":77,\"data\":\"x\"}", "written", false);
    expect_boolean("exec.signal", "{\"id\":77,\"signal\":\"INT\"}", "signalled", false);
    expect_boolean("exec.resize", "{\"id\":\"a\",\"rows\":1,\"cols\":1}", "resized", false);
    expect_boolean("exec.cancel", "{\"job\":\"none\"}", "cancelled", false);
    expect_code("exec.write", "{}", -32602);
    expect_code("exec.write", "{\"id\":1,\"job\":\"x\"}", -32602);
    expect_code("exec.write", "{\"id\":77,\"data\":1}", -32602);
    expect_code("exec.write", "{\"id\":77,\"data_base64\":\"?\"}", -32602);
    expect_code("exec.signal", "{\"id\":77}", -32602);
    expect_code("exec.signal", "{\"id\":77,\"signal\":\"SIGNOTHING\"}", -32602);
    expect_code("exec.signal", "{\"id\":77,\"signal\":65}", -32602);
    expect_code("exec.signal", "{\"id\":77,\"signal\":0}", -32602);
    expect_code("exec.resize", "{\"id\":77,\"rows\":0,\"cols\":1}", -32602);
    expect_code("exec.resize", "{\"id\":77,\"rows\":1,\"cols\":65536}", -32602);
    bed_send(client, EXEC(1, "{\"command\":\"hang\"}"));
    wait_running(1);
    expect_code("exec.write", "{\"id\":1,\"data\":\"x\"}", -32602); /* it has no input */
    expect_code("exec.resize", "{\"id\":1,\"rows\":1,\"cols\":1}", -32602); /* nor a terminal */
    ck_assert_uint_eq(bed_link_counts(&bed).written, 0);
}
END_TEST

START_TEST(signals_and_sizes_reach_the_command)
{
    static const char *const names[] = {"\"SIGTERM\"", "\"int\"", "1", "\"SIGRTMIN+3\""};
    char params[64];

    bed_send(client, EXEC(1, "{\"command\":\"hang\",\"pty\":{\"rows\":3,\"cols\":4,\"term\":\"vt100\"}}"));
    wait_running(1);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(params, sizeof params, "{\"id\":1,\"signal\":%s}", names[i]);
        expect_boolean("exec.signal", params, "signalled", true);
    }
    expect_boolean("exec.resize", "{\"id\":1,\"rows\":50,\"cols\":60}", "resized", true);
    ck_assert_uint_eq(bed_link_counts(&bed).signalled & 0x4003, 0x4003);
    ck_assert_uint_ne(bed_link_counts(&bed).signalled >> 33, 0);
    ck_assert_uint_eq(bed_link_counts(&bed).rows, 50);
    ck_assert_uint_eq(bed_link_counts(&bed).columns, 60);
}
END_TEST

/* ---- Jobs --------------------------------------------------------------------------------------- */

/* Begins one; gives parameters that name it, and `more`. */
static char *job_params(const char *exec, const char *more)
{
    static char params[256];
    json_t *answer = bed_call(client, "exec", exec);

    ck_assert_str_ne(text(answer, "job"), "");
    snprintf(params, sizeof params, "{\"job\":\"%.64s\"%.100s}", text(answer, "job"), more);
    json_decref(answer);
    return params;
}

START_TEST(a_job_outlives_its_client_and_is_waited_for_by_another)
{
    char *params = job_params("{\"command\":\"late x\",\"detach\":true}", "");
    json_t *answer;
    json_t *result;

    close(client);
    client = bed_connect(&bed);
    for (int i = 0; i < 2; i++) { /* while it runs, and when it is over */
        answer = bed_call(client, "exec.wait", params);
        ck_assert(json_is_false(json_object_get(answer, "running")));
        result = json_object_get(answer, "result");
        ck_assert_str_eq(text(result, "stdout"), "x\n");
        json_decref(answer);
    }
    ck_assert_uint_eq(bed_link_counts(&bed).cancelled, 0);
}
END_TEST

START_TEST(a_wait_has_its_time_and_its_client_may_go)
{
    char *params = job_params("{\"command\":\"hang\",\"detach\":true}", ",\"timeout_ms\":20");
    json_t *answer = bed_call(client, "exec.wait", params);
    char *timeout = strstr(params, ",\"timeout_ms\"");

    ck_assert(json_is_true(json_object_get(answer, "running")));
    json_decref(answer);
    memcpy(timeout, "}", 2);
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec.wait\",\"params\":");
    bed_send(client, params);
    bed_send(client, "}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"exec.cancel\",\"params\":{\"id\":1}}\n");
    answer = receive_answer(1); /* the wait was ended, not the job */
    ck_assert(json_is_true(json_object_get(answer, "running")));
    json_decref(answer);
    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"exec.wait\",\"params\":");
    bed_send(client, params);
    bed_send(client, "}\n");
    close(client);
    client = bed_connect(&bed);
    ck_assert_uint_eq(bed_link_counts(&bed).running, 1);
    expect_boolean("exec.cancel", params, "cancelled", true);
    answer = bed_call(client, "exec.wait", params);
    ck_assert_str_eq(text(json_object_get(answer, "data"), "error"), "cancelled");
    json_decref(answer);
}
END_TEST

START_TEST(jobs_are_bounded_and_the_one_that_ended_first_makes_room)
{
    json_t *answer;
    json_t *jobs;

    for (int i = 0; i < GATEWAY_MAX_JOBS; i++) {
        job_params(i == 3 ? "{\"command\":\"echo x\",\"detach\":true}" : "{\"command\":\"hang\",\"detach\":true}", "");
    }
    wait_running(GATEWAY_MAX_JOBS - 1);
    job_params("{\"command\":\"hang\",\"detach\":true}", "");
    expect_code("exec", "{\"command\":\"hang\",\"detach\":true}", -32001);
    answer = bed_call(client, "exec.list", "{}");
    jobs = json_object_get(answer, "jobs");
    ck_assert_uint_eq(json_array_size(jobs), GATEWAY_MAX_JOBS);
    ck_assert_str_eq(text(json_array_get(jobs, 3), "command"), "hang");
    json_decref(answer);
}
END_TEST

START_TEST(a_job_takes_input_from_any_connection)
{
    char *params = job_params("{\"command\":\"reader\",\"detach\":true,\"input\":true}", ",\"data\":\"x\"");
    int other = bed_connect(&bed);

    close(client);
    client = other;
    wait_running(1);
    expect_boolean("exec.write", params, "written", true);
    ck_assert_uint_eq(bed_link_counts(&bed).written, 1);
}
END_TEST

UNIT_SUITE(steer)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, output_is_notified_before_the_result_which_is_whole);
    tcase_add_test(tcase, bytes_that_are_no_text_are_notified_as_base64);
    tcase_add_test(tcase, a_large_output_comes_in_pieces_and_whole);
    tcase_add_test(tcase, who_asks_for_no_answer_is_sent_no_output_either);
    tcase_add_test(tcase, writes_are_taken_in_their_order_also_before_the_command_begins);
    tcase_add_test(tcase, a_write_is_answered_when_there_is_room);
    tcase_add_test(tcase, writes_that_wait_are_answered_when_the_command_is_cancelled);
    tcase_add_test(tcase, what_is_not_there_is_answered_so_and_what_is_wrong_is_refused);
    tcase_add_test(tcase, signals_and_sizes_reach_the_command);
    tcase_add_test(tcase, a_job_outlives_its_client_and_is_waited_for_by_another);
    tcase_add_test(tcase, a_wait_has_its_time_and_its_client_may_go);
    tcase_add_test(tcase, jobs_are_bounded_and_the_one_that_ended_first_makes_room);
    tcase_add_test(tcase, a_job_takes_input_from_any_connection);
}
