/* The contract's rows about commands that are spoken with while they run: output as it comes, input,
 * signals, terminals, and what a result says of processes. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/cleanup.h"
#include "tests/contract/session.h"

#define ROW_MS 60000 /* a deadline, for rows that would otherwise hang */

/* A command that somebody listens to. */
struct talk {
    struct execution *execution;
    bool takes;        /* what comes is taken at once */
    uint64_t came[2];
    uint64_t untaken[2];
    char head[2][256]; /* how it begins, NUL-terminated */
    uint32_t sum;      /* of stdout's bytes, in order */
    bool room;
    bool done;
    struct run run;
};

static void note_output(void *arg, unsigned stream, const void *data, size_t length)
{
    struct talk *t = arg;
    const uint8_t *bytes = data;

    for (size_t i = 0; i < length; i++) {
        uint64_t at = t->came[stream] + i;

        if (at < sizeof t->head[stream] - 1) {
            t->head[stream][at] = (char)bytes[i];
        }
        if (stream == 0) {
            t->sum = t->sum * 31 + bytes[i];
        }
    }
    t->came[stream] += length;
    if (t->takes) {
        execution_take(t->execution, stream, length);
    } else {
        t->untaken[stream] += length;
    }
}

static void note_room(void *arg)
{
    ((struct talk *)arg)->room = true;
}

static void note_done(void *arg, const struct error *err, struct execution_result *result)
{
    struct talk *t = arg;

    t->done = true;
    t->run.failed = err != NULL;
    if (err != NULL) {
        t->run.err = *err;
        return;
    }
    t->run.result = *result;
    for (unsigned i = 0; i < 2; i++) { /* only the counts are looked at */
        buffer_init(&t->run.result.out[i], 0);
    }
}

static void talk_start(struct talk *t, struct execution_request request, const char *command)
{
    *t = (struct talk){.takes = true};
    request.command = command;
    request.command_length = strlen(command);
    request.timeout_ms = request.timeout_ms != 0 ? request.timeout_ms : ROW_MS;
    request.output = note_output;
    request.room = note_room;
    t->execution = execution_start(S.link, &request, note_done, t);
}

#define TALK_UNTIL(t, condition)                                                                   \
    while (!(condition)) {                                                                         \
        ck_assert_msg(!(t)->done, "it ended before: %s", #condition);                              \
        uv_run(&S.loop, UV_RUN_ONCE);                                                              \
    }

static void talk_end(const struct talk *t)
{
    while (!t->done) {
        uv_run(&S.loop, UV_RUN_ONCE);
    }
}

static void say(struct talk *t, const char *text, bool eof)
{
    struct error err;

    assert_ok(execution_write(t->execution, text, strlen(text), eof, &err), err);
}

/* ---- Output ----------------------------------------------------------------------------------- */

START_TEST(output_comes_while_the_command_runs)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.has_stdin = true},
               "echo one; echo err >&2; read -r x; echo \"two $x\"");
    TALK_UNTIL(&t, t.came[0] == 4 && t.came[1] == 4);
    say(&t, "answer\n", true);
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_str_eq(t.head[0], "one\ntwo answer\n");
    ck_assert_str_eq(t.head[1], "err\n");
}
END_TEST

START_TEST(all_output_is_streamed_and_the_result_keeps_to_its_cap)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.keep = 1000}, "yes | head -c 20000000; echo e >&2");
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_uint_eq(t.came[0], 20000000);
    ck_assert_uint_eq(t.run.result.dropped[0], 20000000 - 1000);
    ck_assert_uint_eq(t.run.result.dropped[1], 0);
}
END_TEST

START_TEST(a_listener_that_takes_nothing_stops_its_command_and_no_other)
{
    struct talk t;

    talk_start(&t, (struct execution_request){0}, "yes | head -c 4000000; echo through >&2");
    t.takes = false;
    TALK_UNTIL(&t, t.untaken[0] == EXECUTION_WINDOW);
    /* Others go on, and it stays where it is. */
    ck_assert_str_eq(session_output(&S, "head -c 3000000 /dev/zero | wc -c"), "3000000\n");
    ck_assert_str_eq(session_output(&S, "sleep 0.2; echo b"), "b\n");
    ck_assert_uint_eq(t.came[0], EXECUTION_WINDOW);
    ck_assert(!t.done);
    t.takes = true;
    execution_take(t.execution, 0, t.untaken[0]);
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_uint_eq(t.came[0], 4000000);
    ck_assert_str_eq(t.head[1], "through\n");
}
END_TEST

START_TEST(a_deadline_holds_though_nobody_takes_the_output)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.timeout_ms = 1000}, "yes stubborn-writer");
    t.takes = false;
    talk_end(&t);
    assert_ran(t.run);
    ck_assert(t.run.result.timed_out);
    ck_assert_uint_le(t.came[0], EXECUTION_MAX_UNTAKEN);
    ck_assert_int_eq(session_wait_count(&S, "yes stubborn-writer", 0), 0);
}
END_TEST

/* ---- Input and signals ------------------------------------------------------------------------ */

START_TEST(input_that_is_written_bit_by_bit_arrives_whole)
{
    static const size_t piece = 200000;
    size_t total = 8u << 20;
    cleanup_free uint8_t *input = noise(total, 21);
    struct talk t;
    struct error err;
    uint32_t sum = 0;

    for (size_t i = 0; i < total; i++) {
        sum = sum * 31 + input[i];
    }
    talk_start(&t, (struct execution_request){.has_stdin = true}, "cat");
    for (size_t at = 0; at < total; at += piece) {
        size_t length = total - at < piece ? total - at : piece;

        if (execution_unread(t.execution) >= EXECUTION_ROOM) {
            t.room = false;
            execution_want_room(t.execution);
            TALK_UNTIL(&t, t.room);
        }
        ck_assert_uint_lt(execution_unread(t.execution), EXECUTION_ROOM);
        assert_ok(execution_write(t.execution, input + at, length, at + length == total, &err), err);
    }
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_uint_eq(t.came[0], total);
    ck_assert_uint_eq(t.sum, sum);
}
END_TEST

START_TEST(a_signal_may_come_at_any_time)
{
    struct talk t;

    talk_start(&t, (struct execution_request){0}, "exec sleep 60");
    execution_signal(t.execution, SIGTERM); /* before it has even started */
    talk_end(&t);
    assert_ran(t.run);
    ck_assert_int_eq(t.run.result.signal, SIGTERM);
    talk_start(&t, (struct execution_request){0}, "trap 'echo caught; exit 9' USR1; echo x; while :; do sleep 0.05; done");
    TALK_UNTIL(&t, t.came[0] == 2);
    execution_signal(t.execution, SIGUSR1);
    talk_end(&t);
    assert_exit(t.run, 9);
    ck_assert_str_eq(t.head[0], "x\ncaught\n");
}
END_TEST

/* ---- Terminals -------------------------------------------------------------------------------- */

START_TEST(a_terminal_controls_its_command)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true, .rows = 40, .columns = 100},
               "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && : </dev/tty && echo \"$TERM\"; echo err >&2; "
               "set -- $(cat /proc/self/stat); [ \"$7\" != 0 ] && echo controlled");
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_str_eq(t.head[0], "xterm\r\nerr\r\ncontrolled\r\n");
    ck_assert_uint_eq(t.came[1], 0);
}
END_TEST

START_TEST(a_terminal_without_input_is_at_its_end)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true}, "cat; echo end");
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_str_eq(t.head[0], "end\r\n");
}
END_TEST

START_TEST(what_is_typed_is_read_and_the_end_of_input_too)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true, .has_stdin = true},
               "echo go; read -r x; echo \"got $x\"; cat; echo; echo end");
    TALK_UNTIL(&t, strstr(t.head[0], "go") != NULL);
    say(&t, "typed\n", false);
    TALK_UNTIL(&t, strstr(t.head[0], "got typed\r\n") != NULL);
    say(&t, "in a line", true);
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_ptr_nonnull(strstr(t.head[0], "in a line\r\nend\r\n"));
}
END_TEST

START_TEST(the_interrupt_character_ends_what_runs_in_front)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true, .has_stdin = true}, "echo go; sleep 60; echo no");
    TALK_UNTIL(&t, strstr(t.head[0], "go") != NULL);
    say(&t, "\003", false);
    talk_end(&t);
    assert_ran(t.run);
    ck_assert_int_eq(t.run.result.signal, SIGINT);
    ck_assert_ptr_null(strstr(t.head[0], "no"));
}
END_TEST

START_TEST(a_terminal_changes_its_size)
{
    static const char command[] =
        "trap 'shopt -s checkwinsize; (:); echo \"$LINES $COLUMNS\"; exit 5' WINCH; shopt -s checkwinsize; "
        "(:); echo \"$LINES $COLUMNS\"; while :; do sleep 0.05; done";
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true, .rows = 30, .columns = 90}, command);
    TALK_UNTIL(&t, strstr(t.head[0], "30 90\r\n") != NULL);
    execution_resize(t.execution, 33, 44);
    talk_end(&t);
    assert_exit(t.run, 5);
    ck_assert_str_eq(t.head[0], "30 90\r\n33 44\r\n");
}
END_TEST

START_TEST(a_terminal_loses_nothing_at_the_end)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true},
               "stty -opost; i=0; while [ $i -lt 20000 ]; do echo 12345678; i=$((i+1)); done");
    talk_end(&t);
    assert_exit(t.run, 0);
    ck_assert_uint_eq(t.came[0], 20000 * 9);
}
END_TEST

START_TEST(a_command_on_a_terminal_dies_whole_when_it_is_cancelled)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true},
               "trap '' HUP INT TERM; setsid sleep 61.5 & set -m; sleep 61.5 & echo go; sleep 61.5");
    TALK_UNTIL(&t, strstr(t.head[0], "go") != NULL);
    execution_cancel(t.execution);
    talk_end(&t);
    ck_assert(t.run.failed);
    ck_assert_int_eq(t.run.err.code, ERROR_CANCELLED);
    ck_assert_int_eq(session_wait_count(&S, "sleep 61.5", 0), 0);
}
END_TEST

START_TEST(what_stays_in_the_background_does_not_hold_a_terminal_s_answer)
{
    struct talk t;

    talk_start(&t, (struct execution_request){.terminal = true},
               "trap '' HUP; (while :; do echo noise; sleep 0.1; done) & echo go; exit 3");
    talk_end(&t);
    assert_exit(t.run, 3);
    ck_assert_uint_ge(t.run.result.left, 1);
    ck_assert_str_eq(session_output(&S, "echo other"), "other\n");
}
END_TEST

/* ---- Results ---------------------------------------------------------------------------------- */

START_TEST(processes_that_are_left_are_named)
{
    struct run run = session_exec(&S, "sleep 300 & sleep 301 & exit 0", 0);
    unsigned sleeps = 0;

    assert_exit(run, 0);
    ck_assert(run.result.told);
    ck_assert_uint_eq(run.result.left, 2);
    ck_assert_uint_eq(run.result.named, 2);
    for (unsigned i = 0; i < run.result.named; i++) {
        ck_assert_uint_gt(run.result.background[i].pid, 1);
        /* One may not have come to be what it will be. */
        sleeps += strcmp(run.result.background[i].name, "sleep") == 0 ||
                  strcmp(run.result.background[i].name, "bash") == 0 ||
                  strcmp(run.result.background[i].name, "busybox") == 0;
    }
    ck_assert_uint_eq(sleeps, 2);
    session_output(&S, "pkill sleep || killall sleep || :");
}
END_TEST

START_TEST(time_and_memory_of_a_command_are_told)
{
    struct run run = session_exec(&S, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done", 0);

    assert_exit(run, 0);
    ck_assert(run.result.told);
    ck_assert_uint_gt(run.result.user_us, 10000);
    ck_assert_uint_gt(run.result.peak_kib, 500);
    ck_assert(!run.result.oom_killed);
    ck_assert_uint_eq(run.result.named, 0);
}
END_TEST

TCase *case_stream(void)
{
    TCase *tc = tcase_create("stream");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_test(tc, output_comes_while_the_command_runs);
    tcase_add_test(tc, all_output_is_streamed_and_the_result_keeps_to_its_cap);
    tcase_add_test(tc, a_listener_that_takes_nothing_stops_its_command_and_no_other);
    tcase_add_test(tc, a_deadline_holds_though_nobody_takes_the_output);
    tcase_add_test(tc, input_that_is_written_bit_by_bit_arrives_whole);
    tcase_add_test(tc, a_signal_may_come_at_any_time);
    tcase_add_test(tc, a_terminal_controls_its_command);
    tcase_add_test(tc, a_terminal_without_input_is_at_its_end);
    tcase_add_test(tc, what_is_typed_is_read_and_the_end_of_input_too);
    tcase_add_test(tc, the_interrupt_character_ends_what_runs_in_front);
    tcase_add_test(tc, a_terminal_changes_its_size);
    tcase_add_test(tc, a_terminal_loses_nothing_at_the_end);
    tcase_add_test(tc, a_command_on_a_terminal_dies_whole_when_it_is_cancelled);
    tcase_add_test(tc, what_stays_in_the_background_does_not_hold_a_terminal_s_answer);
    tcase_add_test(tc, processes_that_are_left_are_named);
    tcase_add_test(tc, time_and_memory_of_a_command_are_told);
    return tc;
}
