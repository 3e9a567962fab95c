#include "tests/unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/server.h"
#include "sandbox/clock.h"
#include "tests/unit/gateway_bed.h"

#define PATIENCE_MS 120000 /* valgrind is slow */

static struct bed bed;
static int client;

static void start(void)
{
    memset(&bed, 0, sizeof bed);
    bed_open(&bed);
    client = bed_connect(&bed);
}

static void end(void)
{
    close(client);
    bed_close(&bed);
}

/* An error object over a limit. */
static void expect_limit(const json_t *error, int code, const char *limit)
{
    const json_t *data = json_object_get(error, "data");

    ck_assert_int_eq((int)json_integer_value(json_object_get(error, "code")), code);
    ck_assert_ptr_nonnull(json_object_get(data, "limit"));
    ck_assert_str_eq(json_string_value(json_object_get(data, "limit")), limit);
    ck_assert_int_gt((int)json_integer_value(json_object_get(data, "maximum")), 0);
}

static void expect_limit_message(int fd, int code, const char *limit)
{
    json_t *message = bed_receive(fd);

    expect_limit(json_object_get(message, "error"), code, limit);
    json_decref(message);
}

static void expect_served(int fd)
{
    json_t *answer = bed_call(fd, "exec", "{\"command\":\"echo hi\"}");

    ck_assert_str_eq(json_string_value(json_object_get(answer, "stdout")), "hi\n");
    json_decref(answer);
}

static void send_many(int fd, char c, size_t length)
{
    char piece[65536];

    memset(piece, c, sizeof piece);
    while (length > 0) {
        size_t n = length < sizeof piece ? length : sizeof piece;

        bed_send_bytes(fd, piece, n);
        length -= n;
    }
}

static void get_memory(struct bed *b, void *arg)
{
    *(size_t *)arg = b->gateway->memory;
}

static void set_memory_limit(struct bed *b, void *arg)
{
    b->gateway->memory_limit = *(size_t *)arg;
}

/* What is held is given back, to the byte. */
static void expect_nothing_held(size_t at_most)
{
    uint64_t deadline = clock_now_ms() + PATIENCE_MS;
    size_t memory = SIZE_MAX;

    while (memory > at_most) {
        ck_assert_msg(clock_now_ms() < deadline, "%zu bytes are held", memory);
        bed_run(&bed, get_memory, &memory);
    }
}

START_TEST(a_line_that_is_too_long_is_answered_and_skipped)
{
    size_t memory = 0;

    send_many(client, 'x', GATEWAY_MAX_LINE);
    expect_limit_message(client, -32600, "line");
    send_many(client, 'x', 3 * (size_t)GATEWAY_MAX_LINE);
    bed_run(&bed, get_memory, &memory);
    ck_assert_uint_le(memory, GATEWAY_MAX_LINE + 2 * CONNECTION_READ_BYTES);
    bed_send(client, "\n");
    expect_served(client);
    close(client);
    client = bed_connect(&bed);
    expect_nothing_held(0);
}
END_TEST

START_TEST(a_line_just_within_the_limit_is_served)
{
    /* 8 MiB of command and 4 MiB of input pass as they are. */
    size_t size = 12 << 20;
    struct buffer params = BUFFER_INIT(size + 100);
    json_t *answer;

    ck_assert_int_eq(buffer_append_string(&params, "{\"command\":\"cat\",\"stdin\":\""), 0);
    memset(buffer_reserve(&params, size), 'y', size);
    buffer_commit(&params, size);
    ck_assert_int_eq(buffer_append_string(&params, "\"}"), 0);
    answer = bed_call(client, "exec", buffer_text(&params));
    ck_assert_uint_eq(json_string_length(json_object_get(answer, "stdout")), size);
    json_decref(answer);
    buffer_release(&params);
}
END_TEST

START_TEST(a_long_line_holds_its_place_and_no_other_client_up)
{
    size_t size = 4 << 20;
    int other = bed_connect(&bed);
    json_t *message;

    bed_send(client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"write_file\","
                     "\"params\":{\"path\":\"a\",\"content\":\"");
    send_many(client, 'x', size);
    bed_send(client, "\"}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"read_file\","
                     "\"params\":{\"path\":\"a\"}}\n");
    expect_served(other);
    close(other);
    message = bed_receive(client);
    ck_assert_int_eq((int)json_integer_value(json_object_get(message, "id")), 1);
    json_decref(message);
    message = bed_receive(client);
    ck_assert_int_eq((int)json_integer_value(json_object_get(message, "id")), 2);
    ck_assert_ptr_nonnull(json_object_get(message, "result"));
    json_decref(message);
}
END_TEST

START_TEST(a_client_may_hang_up_or_end_while_its_line_is_parsed)
{
    json_t *message;

    for (int i = 0; i < 2; i++) {
        int other = bed_connect(&bed);

        bed_send(other, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"");
        send_many(other, 'x', 4 << 20);
        bed_send(other, "\"}}");
        if (i == 0) {
            bed_send(other, "\n");
        } else {
            shutdown(other, SHUT_WR);
            message = bed_receive(other);
            ck_assert_ptr_nonnull(json_object_get(message, "result"));
            json_decref(message);
            bed_expect_end(other);
        }
        close(other);
    }
    expect_nothing_held(2 * CONNECTION_READ_BYTES);
}
END_TEST

START_TEST(one_connection_too_many_is_told_so_and_closed)
{
    int fds[GATEWAY_MAX_CONNECTIONS - 1];
    int one_more;

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        fds[i] = bed_connect(&bed);
    }
    expect_served(fds[sizeof fds / sizeof fds[0] - 1]);
    one_more = bed_connect(&bed);
    expect_limit_message(one_more, -32001, "connections");
    bed_expect_end(one_more);
    close(one_more);
    expect_served(client);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        close(fds[i]);
    }
}
END_TEST

static void ask(int fd, const char *path)
{
    char line[200];

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"read_file\",\"params\":{\"path\":\"%s\"}}\n",
             path);
    bed_send(fd, line);
}

static void hold_file_calls(struct bed *b, void *arg)
{
    fake_link_hold_file_calls(b->link, *(bool *)arg);
}

static void send_hangs(int fd, int n)
{
    for (int i = 0; i < n; i++) {
        bed_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\","
                     "\"params\":{\"command\":\"hang\"}}\n");
    }
}

START_TEST(one_command_too_many_is_refused)
{
    int other = bed_connect(&bed);
    json_t *answer;

    send_hangs(other, GATEWAY_MAX_EXECUTIONS);
    while (bed_counts(&bed).executions < GATEWAY_MAX_EXECUTIONS) {
    }
    answer = bed_call(client, "exec", "{\"command\":\"echo hi\"}");
    expect_limit(answer, -32001, "executions");
    json_decref(answer);
    close(other);
    while (bed_counts(&bed).executions > 0) {
    }
    expect_served(client);
}
END_TEST

START_TEST(one_request_too_many_in_flight_is_refused)
{
    /* The turns of the file calls are taken, so those of this client wait. */
    bed_run(&bed, hold_file_calls, &(bool){true});
    for (int i = 0; i < GATEWAY_MAX_PENDING + 1; i++) {
        ask(client, "/fill/1");
    }
    expect_limit_message(client, -32001, "pending");
    bed_run(&bed, hold_file_calls, &(bool){false});
    for (int i = 0; i < GATEWAY_MAX_PENDING; i++) {
        json_t *message = bed_receive(client);

        ck_assert_ptr_nonnull(json_object_get(message, "result"));
        json_decref(message);
    }
    expect_served(client);
}
END_TEST

START_TEST(many_file_calls_take_turns)
{
    json_t *message;

    for (int i = 0; i < 100; i++) {
        ask(client, "/fill/10");
    }
    for (int i = 0; i < 100; i++) {
        message = bed_receive(client);
        ck_assert_ptr_nonnull(json_object_get(message, "result"));
        json_decref(message);
    }
    ck_assert_uint_le(bed_link_counts(&bed).file_calls_most, FILE_CALLS_AT_ONCE);
}
END_TEST

/* Asks for `n` files of 4 MiB in one piece and reads none of the answers. In one piece, because a client
 * whose answers lie is not read from: of questions that came one by one the gateway would leave some. */
static void ask_and_do_not_read(int fd, int n)
{
    char lines[20 * 128] = "";
    size_t length = 0;

    for (int i = 0; i < n; i++) {
        length += (size_t)snprintf(lines + length, sizeof lines - length,
                                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"read_file\","
                                   "\"params\":{\"path\":\"/fill/4194304\"}}\n");
        ck_assert_uint_lt(length, sizeof lines);
    }
    ck_assert_int_eq(send(fd, lines, length, MSG_NOSIGNAL), (ssize_t)length);
}

static void wait_for_hang_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = 0};

    ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
    ck_assert(p.revents & POLLHUP);
}

START_TEST(a_reader_that_lets_too_much_lie_is_hung_up_on_and_no_other)
{
    int slow = bed_connect(&bed);

    ask_and_do_not_read(slow, 20);
    wait_for_hang_up(slow);
    expect_served(client);
    close(slow);
    expect_nothing_held(2 * CONNECTION_READ_BYTES);
}
END_TEST

START_TEST(a_slow_reader_is_not_read_from_either)
{
    int slow = bed_connect(&bed);
    char line[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}\n";
    json_t *message;
    ssize_t n = 1;

    ask_and_do_not_read(slow, 3);
    while (bed_link_counts(&bed).file_calls > 0 || bed_counts(&bed).requests < 3) {
    }
    expect_served(client);
    /* The socket's own buffer is all that can be filled now. */
    for (uint64_t sent = 0; n > 0; sent += (uint64_t)n) {
        struct pollfd p = {.fd = slow, .events = POLLOUT};

        ck_assert_uint_lt(sent, 16 << 20);
        n = poll(&p, 1, 300) == 1 ? send(slow, line, sizeof line - 1, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    }
    for (int i = 0; i < 3; i++) {
        message = bed_receive(slow);
        ck_assert_ptr_nonnull(message);
        json_decref(message);
    }
    message = bed_receive(slow); /* and now it is read again */
    ck_assert_ptr_nonnull(message);
    json_decref(message);
    close(slow);
}
END_TEST

START_TEST(when_memory_is_short_the_slowest_reader_makes_room)
{
    size_t limit = 20 << 20;
    int slow = bed_connect(&bed);
    json_t *answer;

    bed_run(&bed, set_memory_limit, &limit);
    ask_and_do_not_read(slow, 2);
    while (bed_counts(&bed).requests < 2 || bed_link_counts(&bed).file_calls > 0) {
    }
    for (int i = 0; i < 2; i++) {
        answer = bed_call(client, "read_file", "{\"path\":\"/fill/4194304\"}");
        ck_assert_int_eq((int)json_integer_value(json_object_get(answer, "size")), 4194304);
        json_decref(answer);
    }
    wait_for_hang_up(slow);
    close(slow);
}
END_TEST

START_TEST(a_line_that_does_not_fit_into_memory_is_refused)
{
    size_t limit = 2 << 20;

    bed_run(&bed, set_memory_limit, &limit);
    send_many(client, 'x', 4 << 20);
    expect_limit_message(client, -32001, "memory");
    bed_send(client, "\n");
    expect_served(client);
}
END_TEST

UNIT_SUITE(limits)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, a_line_that_is_too_long_is_answered_and_skipped);
    tcase_add_test(tcase, a_line_just_within_the_limit_is_served);
    tcase_add_test(tcase, a_long_line_holds_its_place_and_no_other_client_up);
    tcase_add_test(tcase, a_client_may_hang_up_or_end_while_its_line_is_parsed);
    tcase_add_test(tcase, one_connection_too_many_is_told_so_and_closed);
    tcase_add_test(tcase, one_command_too_many_is_refused);
    tcase_add_test(tcase, one_request_too_many_in_flight_is_refused);
    tcase_add_test(tcase, many_file_calls_take_turns);
    tcase_add_test(tcase, a_reader_that_lets_too_much_lie_is_hung_up_on_and_no_other);
    tcase_add_test(tcase, a_slow_reader_is_not_read_from_either);
    tcase_add_test(tcase, when_memory_is_short_the_slowest_reader_makes_room);
    tcase_add_test(tcase, a_line_that_does_not_fit_into_memory_is_refused);
}
