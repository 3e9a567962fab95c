/* The built hand: output with flow control, and terminals. */
#include "tests/unit/hand_driver.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define WINDOW 65536

static struct hand hand;
static struct host host;
static struct outcome o;

static void setup(void)
{
    hand = (struct hand){.pid = 0};
    hand_start(&hand, false);
    host_open(&host, &hand, 1);
    outcome_init(&o);
}

static void teardown(void)
{
    outcome_release(&o);
    host_close(&host);
    ck_assert_int_eq(hand_stop(&hand), 0);
}

static struct wire_exec request(const char *command)
{
    return (struct wire_exec){
        .command = {command, strlen(command)},
        .cwd = {"", 0},
        .env = (const uint8_t *)"",
        .keep = WINDOW,
        .flow = true,
    };
}

/* Until so many bytes of stdout have come; the command must not end before. */
static void take_until(uint64_t length)
{
    while (o.out[0].length < length) {
        struct frame f = host_next(&host);

        ck_assert(!outcome_take(&o, &f));
    }
}

/* True where nothing comes for a while: it cannot be waited for, only given time. */
static bool is_quiet(void)
{
    struct pollfd p = {.fd = host.fd, .events = POLLIN};

    return poll(&p, 1, 200) == 0;
}

START_TEST(no_more_than_the_window_comes_without_credit)
{
    struct wire_exec exec = request("head -c 1000000 /dev/zero; echo done >&2");

    host_send_exec(&host, 2, &exec);
    take_until(WINDOW);
    ck_assert(is_quiet());
    ck_assert_uint_eq(o.out[0].length, WINDOW);
    for (uint64_t at = WINDOW; at < 1000000; at = o.out[0].length) {
        host_send_credit(&host, 2, WIRE_STDOUT, at);
        take_until(at + WINDOW < 1000000 - WINDOW ? at + WINDOW : at + 1);
    }
    host_send_credit(&host, 2, WIRE_STDOUT, o.out[0].length);
    host_finish(&host, 2, &o);
    ck_assert_uint_eq(o.out[0].length, 1000000);
    ck_assert_uint_eq(o.exit.total[0], 1000000);
    ck_assert_uint_eq(o.exit.sent[0], 1000000);
    ck_assert_uint_eq(o.exit.total[1], 5);
}
END_TEST

START_TEST(what_is_in_the_pipe_at_the_end_comes_without_credit)
{
    struct wire_exec exec = request("head -c 100000 /dev/zero & sleep 0.3; exit 4");

    host_send_exec(&host, 2, &exec);
    host_finish(&host, 2, &o);
    ck_assert_int_eq(o.exit.exit_code, 4);
    ck_assert_uint_eq(o.exit.total[0], 100000);
    ck_assert_uint_eq(o.out[0].length, 100000);
}
END_TEST

START_TEST(a_host_that_comes_back_says_its_credit_again)
{
    struct wire_exec exec = request("head -c 300000 /dev/zero");

    host_send_exec(&host, 2, &exec);
    take_until(WINDOW);
    host_close(&host);
    host_open(&host, &hand, 1);
    host_send_attach(&host, 2, WINDOW, 0);
    do { /* told anew that it runs, and nothing else */
        struct frame f = host_next(&host);

        ck_assert_int_ne(f.header.type, WIRE_EXEC_OUTPUT);
    } while (!is_quiet());
    for (uint64_t at = WINDOW; at < 300000 - WINDOW - 65536; at = o.out[0].length) {
        host_send_credit(&host, 2, WIRE_STDOUT, at);
        take_until(at + 1);
    }
    host_send_credit(&host, 2, WIRE_STDOUT, o.out[0].length);
    host_finish(&host, 2, &o);
    ck_assert_uint_eq(o.out[0].length, 300000);
}
END_TEST

START_TEST(a_command_that_waits_for_credit_can_be_killed)
{
    struct wire_exec exec = request("yes; echo no");

    host_send_exec(&host, 2, &exec);
    take_until(WINDOW);
    host_send_empty(&host, WIRE_EXEC_KILL, 2);
    host_finish(&host, 2, &o);
    ck_assert_uint_eq(o.exit.signal, 9);
    ck_assert_uint_le(o.out[0].length, WINDOW + WIRE_MAX_REST);
}
END_TEST

START_TEST(credit_for_what_was_not_sent_ends_the_connection)
{
    struct wire_exec exec = request("yes");

    host_send_exec(&host, 2, &exec);
    take_until(WINDOW);
    host_send_credit(&host, 2, WIRE_STDOUT, WINDOW + 1);
    ck_assert(host_sees_end(&host));
}
END_TEST

/* ---- Terminals ---------------------------------------------------------------------------------- */

static bool text_is(const char *text)
{
    return o.out[0].length == strlen(text) && memcmp(o.out[0].data, text, strlen(text)) == 0;
}

static bool has_terminals(void)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static struct wire_exec on_terminal(const char *command)
{
    struct wire_exec exec = request(command);

    exec.terminal = true;
    exec.rows = 24;
    exec.columns = 80;
    return exec;
}

START_TEST(a_terminal_is_all_three_and_has_its_size)
{
    struct wire_exec exec = on_terminal("[ -t 0 -a -t 1 -a -t 2 ] && stty size >&2; cat; exit 3");

    if (!has_terminals()) {
        return;
    }
    host_send_exec(&host, 2, &exec);
    host_finish(&host, 2, &o);
    ck_assert(text_is("24 80\r\n"));
    ck_assert_int_eq(o.exit.exit_code, 3);
    ck_assert_uint_eq(o.exit.total[1], 0);
}
END_TEST

START_TEST(a_command_may_close_its_terminal_and_open_it_again)
{
    struct wire_exec exec = on_terminal("exec <&- >&- 2>&-; sleep 0.2; echo again >/dev/tty; sleep 0.2; "
                                        "exec 0</dev/tty; read -r x; echo \"$x\" >/dev/tty");

    if (!has_terminals()) {
        return;
    }
    exec.has_stdin = true;
    host_send_exec(&host, 2, &exec);
    take_until(7);
    ck_assert(text_is("again\r\n"));
    host_send_input(&host, 2, 0, "line\n", 5);
    host_finish(&host, 2, &o);
    ck_assert(text_is("again\r\nline\r\nline\r\n"));
}
END_TEST

/* The hand's; 0 where only root may look. */
static unsigned count_descriptors(void)
{
    char path[64];
    cleanup_dir DIR *dir = NULL;
    unsigned n = 0;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)hand.pid);
    dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    return n;
}

START_TEST(many_terminals_leave_no_descriptor)
{
    struct wire_exec exec = on_terminal("exit 0");
    unsigned before;

    if (!has_terminals()) {
        return;
    }
    before = count_descriptors();
    for (unsigned i = 0; i < 50; i++) {
        outcome_release(&o);
        host_send_exec(&host, 10 + i, &exec);
        host_finish(&host, 10 + i, &o);
        ck_assert_int_eq(o.exit.exit_code, 0);
    }
    /* As before the first one, where one may look; an end is told before the last of it is put away. */
    for (unsigned i = 0; i < 1000 && count_descriptors() > before; i++) {
        usleep(10000);
    }
    ck_assert_uint_le(count_descriptors(), before);
}
END_TEST

START_TEST(a_resize_without_a_terminal_means_nothing)
{
    struct wire_exec exec = request("sleep 0.2; echo x");
    cleanup_buffer struct buffer out = BUFFER_INIT(64);
    size_t frame = wire_begin_frame(&out, WIRE_EXEC_RESIZE, 2);

    ck_assert_int_eq(wire_put_u16(&out, 10), 0);
    ck_assert_int_eq(wire_put_u16(&out, 20), 0);
    wire_end_frame(&out, frame);
    host_send(&host, &out); /* of a command that is not known yet, too */
    host_send_exec(&host, 2, &exec);
    host_send(&host, &out);
    host_finish(&host, 2, &o);
    ck_assert(text_is("x\n"));
    host_send_u32(&host, WIRE_EXEC_RESIZE, 2, 5); /* two numbers, for what is over */
    host_send_empty(&host, WIRE_EXEC_RESIZE, 2); /* without its numbers */
    ck_assert(host_sees_end(&host));
}
END_TEST

UNIT_SUITE(hand_stream)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, no_more_than_the_window_comes_without_credit);
    tcase_add_test(tcase, what_is_in_the_pipe_at_the_end_comes_without_credit);
    tcase_add_test(tcase, a_host_that_comes_back_says_its_credit_again);
    tcase_add_test(tcase, a_command_that_waits_for_credit_can_be_killed);
    tcase_add_test(tcase, credit_for_what_was_not_sent_ends_the_connection);
    tcase_add_test(tcase, a_terminal_is_all_three_and_has_its_size);
    tcase_add_test(tcase, a_command_may_close_its_terminal_and_open_it_again);
    tcase_add_test(tcase, many_terminals_leave_no_descriptor);
    tcase_add_test(tcase, a_resize_without_a_terminal_means_nothing);
}
