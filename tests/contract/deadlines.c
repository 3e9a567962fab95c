/* The contract's rows about deadlines, cancelling and killing. */
#include <string.h>

#include "sandbox/clock.h"
#include "tests/contract/session.h"

/* Kills every other child of the shell and of its parent: whatever the sandbox might run to watch over a
 * deadline from inside. */
#define SABOTAGE                                                                                   \
    "for t in /proc/self/task/*/children /proc/$PPID/task/*/children; do\n"                        \
    "  read -r pids <\"$t\"; for p in $pids; do [ \"$p\" = $$ ] || kill -9 \"$p\"; done\n"         \
    "done 2>/dev/null\n"

START_TEST(a_hung_command_is_stopped_and_the_sandbox_survives)
{
    struct run run = session_exec(&S, "sleep 300", 1000);

    assert_ran(run);
    ck_assert(run.result.timed_out);
    ck_assert_int_eq(run.result.exit_code, -1);
    ck_assert_uint_eq(run.result.out[0].length + run.result.out[1].length, 0);
    ck_assert_uint_lt(run.result.duration_ms, 30000);
    ck_assert_str_eq(session_output(&S, "echo alive"), "alive\n");
}
END_TEST

START_TEST(a_deadline_kills_the_whole_tree)
{
    static const char *const rows[] = {
        "sleep 987654 & wait",
        "setsid sleep 987654 & wait",
        "(setsid bash -c 'sleep 987654 & disown; sleep 987654' &) ; sleep 987654",
        "trap '' TERM INT HUP; (trap '' TERM; exec sleep 987654) & wait; sleep 987654",
        "sleep 987654 & kill -STOP $!; wait",
        "for i in $(seq 40); do (setsid bash -c '(sleep 987654 &) ; sleep 987654' &) ; done; sleep 987654",
        "kill -9 $PPID; sleep 987654",
        "kill -9 -1; setsid sleep 987654 & wait; sleep 987654",
    };
    struct run run = session_exec(&S, rows[_i], 1000);

    assert_ran(run);
    ck_assert(run.result.timed_out);
    ck_assert_int_eq(session_wait_count(&S, "sleep 987654", 0), 0);
}
END_TEST

START_TEST(a_deadline_keeps_what_was_written)
{
    struct run run = session_exec(&S, "printf out; printf err >&2; sleep 300", 5000);

    assert_ran(run);
    ck_assert(run.result.timed_out);
    assert_text(run.result.out[0], "out");
    assert_text(run.result.out[1], "err");
}
END_TEST

/* No busy machine is so every time: one that rounds to seconds is. */
START_TEST(a_deadline_is_kept_to_the_millisecond_not_to_the_second)
{
    static const uint64_t rows[] = {50, 300, 1500};
    uint64_t best = UINT64_MAX;

    for (unsigned i = 0; i < 20 && best >= rows[_i] + 400; i++) {
        struct run run = session_exec(&S, "sleep 300", rows[_i]);

        assert_ran(run);
        ck_assert(run.result.timed_out);
        ck_assert_uint_ge(run.result.duration_ms, rows[_i]);
        best = run.result.duration_ms < best ? run.result.duration_ms : best;
    }
    ck_assert_uint_lt(best, rows[_i] + 400);
}
END_TEST

START_TEST(a_long_deadline_does_not_overflow)
{
    struct run run = session_exec(&S, "echo x", UINT64_C(10) * 365 * 86400 * 1000);

    assert_exit(run, 0);
    ck_assert(!run.result.timed_out);
}
END_TEST

START_TEST(a_deadline_leaves_no_machinery_behind)
{
    int before = session_count(&S, "sleep ");

    for (unsigned i = 0; i < 3; i++) {
        struct run run = session_exec(&S, "echo hi", 60000);

        assert_exit(run, 0);
        ck_assert_uint_eq(run.result.out[1].length, 0);
    }
    ck_assert_int_eq(session_wait_count(&S, "sleep ", before), before);
}
END_TEST

START_TEST(sabotage_does_not_lift_a_deadline)
{
    uint64_t start = clock_now_ms();
    struct run run = session_exec(&S, SABOTAGE "sleep 987321", 1000);

    assert_ran(run);
    ck_assert(run.result.timed_out);
    ck_assert_uint_lt(clock_now_ms() - start, 20000);
}
END_TEST

START_TEST(a_killed_parent_hides_no_survivor)
{
    struct run run = session_exec(&S, SABOTAGE "kill -9 $PPID\nsleep 987322", 1000);

    assert_ran(run);
    ck_assert(run.result.timed_out || session_wait_count(&S, "sleep 987322", 0) == 0);
}
END_TEST

START_TEST(an_overrun_is_reported_though_the_process_is_gone)
{
    struct run run = session_exec(&S, SABOTAGE "sleep 2; exit 0", 1000);

    assert_ran(run);
    ck_assert(run.result.timed_out);
}
END_TEST

START_TEST(closing_its_output_does_not_free_a_command)
{
    struct run run = session_exec(&S, SABOTAGE "exec 1>&- 2>&-\nsleep 987323", 1000);

    assert_ran(run);
    ck_assert(run.result.timed_out);
    ck_assert_int_eq(session_wait_count(&S, "sleep 987323", 0), 0);
}
END_TEST

START_TEST(a_command_that_kills_itself_did_not_time_out)
{
    struct run run = session_exec(&S, "kill -9 $$", 30000);

    assert_ran(run);
    ck_assert(!run.result.timed_out);
    ck_assert_int_eq(run.result.signal, 9);
    ck_assert_int_eq(run.result.exit_code, -1);
    ck_assert_uint_lt(run.result.duration_ms, 10000);
}
END_TEST

START_TEST(a_fast_exit_124_did_not_time_out)
{
    struct run run = session_exec(&S, "exit 124", 30000);

    assert_exit(run, 124);
    ck_assert(!run.result.timed_out);
}
END_TEST

START_TEST(a_quick_command_with_a_deadline_is_quick)
{
    struct run run = session_exec(&S, "echo x", 30000);

    assert_exit(run, 0);
    ck_assert_uint_lt(run.result.duration_ms, 20000);
}
END_TEST

START_TEST(a_cancelled_command_is_gone_with_its_tree)
{
    struct run run = session_exec_cancelled(&S, "setsid sleep 987655 & (sleep 987655 &) ; sleep 987655", 400);

    ck_assert(run.failed);
    ck_assert_int_eq(run.err.code, ERROR_CANCELLED);
    ck_assert_int_eq(session_wait_count(&S, "sleep 987655", 0), 0);
}
END_TEST

START_TEST(a_deadline_hurts_no_other_command)
{
    struct run run;

    session_output(&S, "setsid sleep 987656 >/dev/null 2>&1 & echo");
    run = session_exec(&S, "sleep 300", 300);
    assert_ran(run);
    ck_assert(run.result.timed_out);
    ck_assert_int_eq(session_wait_count(&S, "sleep 987656", 1), 1); /* it may have been setsid still */
}
END_TEST

START_TEST(nothing_inside_kills_the_hand)
{
    static const char *const rows[] = {
        "bash -c 'kill -9 -1; sleep 0.5; echo alive'",
        "kill -9 1; kill -TERM 1; kill -STOP 1; kill -SEGV 1; echo alive",
        "kill -9 -1; sleep 0.5; echo alive",
        "cat /proc/1/mem /proc/1/environ /proc/1/maps >/dev/null 2>&1; ls /proc/1/fd >/dev/null 2>&1; echo alive",
    };
    struct run run = session_exec(&S, rows[_i], 20000);

    assert_exit(run, 0);
    assert_text(run.result.out[0], "alive\n");
    ck_assert_str_eq(session_output(&S, "echo again"), "again\n");
}
END_TEST

START_TEST(the_hand_s_descriptors_and_memory_are_out_of_reach)
{
    ck_assert_str_eq(session_output(&S, "cat /proc/1/mem >/dev/null 2>&1 && echo mem; "
                                        "for n in 0 1 2 3 4 5 6 7 8 9; do (: </proc/1/fd/$n) 2>/dev/null "
                                        "&& echo fd; readlink /proc/1/fd/$n; done; echo none"),
                     "none\n");
}
END_TEST

/* A process that doubles itself until it is 2^8 of them, all of which go on forking. */
#define SWARM                                                                                      \
    "f() { [ $1 = 0 ] && { while :; do sleep 987657; done; }; f $(($1 - 1)) & f $(($1 - 1)); }\n"    \
    "f 8"

START_TEST(a_swarm_of_forking_processes_ends_at_its_deadline)
{
    struct run run = session_exec(&S, SWARM, 700);

    assert_ran(run);
    ck_assert(run.result.timed_out);
    ck_assert_int_eq(session_wait_count(&S, "sleep 987657", 0), 0);
    ck_assert_int_eq(session_wait_count(&S, "bash -c f()", 0), 0);
}
END_TEST

TCase *case_deadlines(void)
{
    TCase *tc = tcase_create("deadlines");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_test(tc, a_hung_command_is_stopped_and_the_sandbox_survives);
    tcase_add_loop_test(tc, a_deadline_kills_the_whole_tree, 0, 8);
    tcase_add_test(tc, a_deadline_keeps_what_was_written);
    tcase_add_loop_test(tc, a_deadline_is_kept_to_the_millisecond_not_to_the_second, 0, 3);
    tcase_add_test(tc, a_long_deadline_does_not_overflow);
    tcase_add_test(tc, a_deadline_leaves_no_machinery_behind);
    tcase_add_test(tc, sabotage_does_not_lift_a_deadline);
    tcase_add_test(tc, a_killed_parent_hides_no_survivor);
    tcase_add_test(tc, an_overrun_is_reported_though_the_process_is_gone);
    tcase_add_test(tc, closing_its_output_does_not_free_a_command);
    tcase_add_test(tc, a_command_that_kills_itself_did_not_time_out);
    tcase_add_test(tc, a_fast_exit_124_did_not_time_out);
    tcase_add_test(tc, a_quick_command_with_a_deadline_is_quick);
    tcase_add_test(tc, a_cancelled_command_is_gone_with_its_tree);
    tcase_add_test(tc, a_deadline_hurts_no_other_command);
    tcase_add_loop_test(tc, nothing_inside_kills_the_hand, 0, 4);
    tcase_add_test(tc, the_hand_s_descriptors_and_memory_are_out_of_reach);
    tcase_add_test(tc, a_swarm_of_forking_processes_ends_at_its_deadline);
    return tc;
}
