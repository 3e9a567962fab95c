/* Executions against a hand that says what the test wants. */
#include "backends/execution.h"
#include "tests/unit/phony_hand.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct rig rig;

struct outcome {
    unsigned times;
    struct error err; /* code ERROR_NONE: there is a result */
    struct execution_result result;
    char text[2][64];
};

static void note_outcome(void *arg, const struct error *err, struct execution_result *result)
{
    struct outcome *o = arg;

    o->times++;
    ck_assert((err == NULL) != (result == NULL));
    o->err.code = ERROR_NONE;
    if (err != NULL) {
        ck_assert_int_ne(err->code, ERROR_NONE);
        o->err = *err;
        return;
    }
    o->result = *result;
    for (unsigned i = 0; i < 2; i++) {
        size_t length = result->out[i].length;

        ck_assert_uint_lt(length, sizeof o->text[i]);
        if (length > 0) {
            memcpy(o->text[i], result->out[i].data, length);
        }
    }
}

static struct execution *start(const char *command, uint64_t timeout_ms, bool has_stdin,
                               struct outcome *outcome)
{
    struct execution_request request = {.command = command,
                                        .command_length = strlen(command),
                                        .timeout_ms = timeout_ms,
                                        .has_stdin = has_stdin,
                                        .keep = 32};

    *outcome = (struct outcome){0};
    return execution_start(rig.link, &request, note_outcome, outcome);
}

static void finish(const struct outcome *outcome, enum error_code code)
{
    RIG_UNTIL(&rig, outcome->times > 0);
    ck_assert_msg(outcome->err.code == code, "%s: %s", error_name(outcome->err.code),
                  outcome->err.message);
    rig_close(&rig);
    ck_assert_uint_eq(outcome->times, 1);
}

/* ---- Results ---------------------------------------------------------------------------------- */

START_TEST(a_command_gives_its_streams_its_code_and_its_counts)
{
    struct outcome outcome;
    struct wire_exit e = {.exit_code = 7, .total = {5, 100}, .sent = {5, 32}, .user_us = 3,
                          .peak_kib = 4, .left = 2};
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_output(&rig, id, WIRE_STDOUT, 0, "he");
    say_output(&rig, id, WIRE_STDERR, 0, "0123456789abcdef0123456789abcdef");
    say_output(&rig, id, WIRE_STDOUT, 2, "llo");
    hear_credit(&rig, WIRE_STDOUT, 5);
    hear_credit(&rig, WIRE_STDERR, 32);
    say_exit(&rig, id, &e);
    ck_assert_uint_eq(hand_hear(&rig, WIRE_EXEC_FORGET).header.id, id);
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert_str_eq(outcome.text[0], "hello");
    ck_assert_uint_eq(strlen(outcome.text[1]), 32);
    ck_assert_uint_eq(outcome.result.dropped[0], 0);
    ck_assert_uint_eq(outcome.result.dropped[1], 68);
    ck_assert_int_eq(outcome.result.exit_code, 7);
    ck_assert_int_eq(outcome.result.signal, 0);
    ck_assert(!outcome.result.timed_out);
    ck_assert_uint_eq(outcome.result.left, 2);
    finish(&outcome, ERROR_NONE);
}
END_TEST

START_TEST(a_signal_is_no_timeout)
{
    struct outcome outcome;
    struct wire_exit e = {.exit_code = -1, .signal = SIGKILL};
    uint64_t id;

    rig_up(&rig, 0);
    start("kill -9 $$", 60000, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_exit(&rig, id, &e);
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert(!outcome.result.timed_out);
    ck_assert_int_eq(outcome.result.exit_code, -1);
    ck_assert_int_eq(outcome.result.signal, SIGKILL);
    finish(&outcome, ERROR_NONE);
}
END_TEST

START_TEST(what_was_not_run_is_an_error_that_says_why)
{
    struct outcome outcome;
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_failed(&rig, id, ERROR_NO_SUCH_FILE, "/nowhere: No such file or directory");
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert_str_eq(outcome.err.message, "/nowhere: No such file or directory");
    finish(&outcome, ERROR_NO_SUCH_FILE);
}
END_TEST

START_TEST(a_hand_cannot_claim_what_is_ours_to_find_out)
{
    static const enum error_code claims[] = {ERROR_SANDBOX_GONE, ERROR_NO_ANSWER, ERROR_CANCELLED,
                                             ERROR_NONE, ERROR_CODES};
    struct outcome outcome;
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_failed(&rig, id, claims[_i], "ha");
    finish(&outcome, ERROR_IO);
}
END_TEST

START_TEST(a_request_that_no_hand_takes_is_refused_here)
{
    static const char *const bad_env[] = {"NOEQUALS", NULL};
    const struct execution_request requests[] = {
        {.command = "a\0b", .command_length = 3},
        {.command = "x", .command_length = MAX_COMMAND_BYTES + 1},
        {.command = "x", .command_length = 1, .env = bad_env},
    };
    struct execution_request request = requests[_i];
    char *large = calloc(1, MAX_COMMAND_BYTES + 1);
    struct outcome outcome = {0};

    ck_assert_ptr_nonnull(large);
    memset(large, 'x', MAX_COMMAND_BYTES + 1);
    if (request.command_length > 3) {
        request.command = large;
    }
    rig_up(&rig, 0);
    execution_start(rig.link, &request, note_outcome, &outcome);
    ck_assert_uint_eq(outcome.times, 0);
    free(large);
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert(hand_hears_nothing(&rig));
    finish(&outcome, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(a_command_of_eight_mebibytes_is_carried_whole)
{
    char *large = malloc(MAX_COMMAND_BYTES);
    struct execution_request request = {.command = large, .command_length = MAX_COMMAND_BYTES};
    struct outcome outcome = {0};
    struct heard_frame f;
    struct wire_exec exec;

    ck_assert_ptr_nonnull(large);
    memset(large, 'x', MAX_COMMAND_BYTES);
    rig_up(&rig, 0);
    execution_start(rig.link, &request, note_outcome, &outcome);
    f = hand_hear(&rig, WIRE_EXEC);
    ck_assert_int_eq(wire_get_exec(f.payload, f.header.length, &exec), 0);
    ck_assert_uint_eq(exec.command.length, MAX_COMMAND_BYTES);
    ck_assert_uint_eq(exec.keep, MAX_OUTPUT_BYTES);
    ck_assert_mem_eq(exec.command.data, large, MAX_COMMAND_BYTES);
    free(large);
    rig_close(&rig);
    ck_assert_int_eq(outcome.err.code, ERROR_CANCELLED);
}
END_TEST

START_TEST(the_257th_command_is_refused)
{
    static struct outcome outcomes[LINK_MAX_EXECUTIONS + 1];

    rig_up(&rig, 0);
    for (unsigned i = 0; i <= LINK_MAX_EXECUTIONS; i++) {
        start("x", 0, false, &outcomes[i]);
    }
    RIG_UNTIL(&rig, outcomes[LINK_MAX_EXECUTIONS].times > 0);
    ck_assert_int_eq(outcomes[LINK_MAX_EXECUTIONS].err.code, ERROR_BAD_REQUEST);
    finish(&outcomes[LINK_MAX_EXECUTIONS], ERROR_BAD_REQUEST);
    for (unsigned i = 0; i < LINK_MAX_EXECUTIONS; i++) {
        ck_assert_uint_eq(outcomes[i].times, 1);
        ck_assert_int_eq(outcomes[i].err.code, ERROR_CANCELLED);
    }
}
END_TEST

/* ---- Deadlines and cancelling ----------------------------------------------------------------- */

START_TEST(at_the_deadline_the_tree_is_killed_and_the_output_kept)
{
    struct outcome outcome;
    struct wire_exit e = {.exit_code = 0, .total = {4, 0}, .sent = {4, 0}};
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 150, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_output(&rig, id, WIRE_STDOUT, 0, "par");
    hear_credit(&rig, WIRE_STDOUT, 3);
    ck_assert_uint_eq(hand_hear(&rig, WIRE_EXEC_KILL).header.id, id);
    ck_assert_uint_eq(outcome.times, 0);
    say_output(&rig, id, WIRE_STDOUT, 3, "t");
    say_exit(&rig, id, &e); /* "exit 0": hides nothing */
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert(outcome.result.timed_out);
    ck_assert_int_eq(outcome.result.exit_code, -1);
    ck_assert_int_eq(outcome.result.signal, SIGKILL);
    ck_assert_str_eq(outcome.text[0], "part");
    ck_assert_uint_ge(outcome.result.duration_ms, 150);
    finish(&outcome, ERROR_NONE);
}
END_TEST

START_TEST(a_hand_that_is_silent_after_the_deadline_hides_nothing)
{
    struct outcome outcome;
    struct wire_exit e = {.exit_code = 0, .total = {3, 0}, .sent = {3, 0}};
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 100, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_output(&rig, id, WIRE_STDOUT, 0, "par");
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert(outcome.result.timed_out);
    ck_assert_str_eq(outcome.text[0], "par");
    ck_assert_uint_ge(outcome.result.duration_ms, EXECUTION_KILL_WAIT_MS);
    ck_assert_uint_lt(outcome.result.duration_ms, 100 + EXECUTION_KILL_WAIT_MS + 15000);
    hear_credit(&rig, WIRE_STDOUT, 3);
    hand_hear(&rig, WIRE_EXEC_KILL);
    say_exit(&rig, id, &e); /* late: no breach, and it is forgotten */
    hand_hear(&rig, WIRE_EXEC_FORGET);
    ck_assert_int_eq(link_state(rig.link), LINK_UP);
    finish(&outcome, ERROR_NONE);
}
END_TEST

START_TEST(a_deadline_without_any_word_of_the_hand_is_no_answer)
{
    struct outcome outcome;

    rig_up(&rig, 0);
    start("x", 50, false, &outcome);
    hear_exec(&rig);
    finish(&outcome, ERROR_NO_ANSWER);
}
END_TEST

START_TEST(a_deadline_before_there_is_a_stream_is_no_answer)
{
    struct outcome outcome;

    rig_open(&rig, 0, LINK_PLACE_STREAM);
    start("x", 50, false, &outcome);
    hand_accept(&rig);
    RIG_UNTIL(&rig, outcome.times > 0);
    hand_welcome(&rig, 1);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_UP);
    ck_assert(hand_hears_nothing(&rig)); /* it is not run later */
    finish(&outcome, ERROR_NO_ANSWER);
}
END_TEST

START_TEST(a_cancelled_command_is_killed_before_it_is_answered)
{
    struct outcome outcome;
    struct wire_exit e = {.exit_code = -1, .signal = SIGKILL};
    struct execution *x;
    uint64_t id;

    rig_up(&rig, 0);
    x = start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    execution_cancel(x);
    execution_cancel(x);
    hand_hear(&rig, WIRE_EXEC_KILL);
    rig_turn(&rig);
    ck_assert_uint_eq(outcome.times, 0);
    say_exit(&rig, id, &e);
    finish(&outcome, ERROR_CANCELLED);
}
END_TEST

START_TEST(a_silent_hand_ends_a_command_without_a_deadline)
{
    struct outcome outcome;

    rig_up(&rig, 600);
    start("x", 0, false, &outcome);
    say_started(&rig, hear_exec(&rig));
    hand_hear(&rig, WIRE_PING);
    hand_send_empty(&rig, WIRE_PONG, 0);
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert_int_eq(link_state(rig.link), LINK_SILENT);
    finish(&outcome, ERROR_NO_ANSWER);
}
END_TEST

START_TEST(a_signal_reaches_the_hand)
{
    struct outcome outcome;
    struct execution *x;
    struct heard_frame f;

    rig_open(&rig, 0, LINK_PLACE_STREAM);
    x = start("x", 0, false, &outcome);
    execution_signal(x, SIGINT); /* before there is a stream */
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    hear_exec(&rig);
    f = hand_hear(&rig, WIRE_EXEC_SIGNAL);
    ck_assert_uint_eq(f.header.length, 4);
    ck_assert_uint_eq(f.payload[0], SIGINT);
    rig_close(&rig);
    ck_assert_int_eq(outcome.err.code, ERROR_CANCELLED);
}
END_TEST

START_TEST(closing_the_link_kills_and_forgets_what_runs)
{
    struct outcome outcome;
    uint64_t id;
    int hand;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    hand = rig.hand;
    link_close(rig.link, NULL, NULL);
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert_int_eq(outcome.err.code, ERROR_CANCELLED);
    rig.hand = hand;
    ck_assert_uint_eq(hand_hear(&rig, WIRE_EXEC_KILL).header.id, id);
    ck_assert_uint_eq(hand_hear(&rig, WIRE_EXEC_FORGET).header.id, id);
    RIG_UNTIL(&rig, uv_loop_close(&rig.loop) == 0);
    hand_hang_up(&rig);
    buffer_release(&rig.heard);
}
END_TEST

/* ---- Reconnecting ----------------------------------------------------------------------------- */

START_TEST(a_command_goes_on_where_it_was_on_the_next_stream)
{
    struct outcome outcome;
    struct wire_exit e = {.exit_code = 0, .total = {5, 0}, .sent = {5, 0}};
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_output(&rig, id, WIRE_STDOUT, 0, "he");
    hear_credit(&rig, WIRE_STDOUT, 2);
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    hear_attach(&rig, 2, 0);
    say_output(&rig, id, WIRE_STDOUT, 2, "llo");
    say_exit(&rig, id, &e);
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert_str_eq(outcome.text[0], "hello");
    finish(&outcome, ERROR_NONE);
}
END_TEST

START_TEST(a_command_that_the_hand_knows_no_more_is_lost_and_never_run_again)
{
    struct outcome outcome;
    struct outcome other;
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    start("y", 0, false, &other);
    hear_exec(&rig); /* what was said before it is heard now */
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    hear_attach(&rig, 0, 0);
    ck_assert_uint_eq(hear_exec(&rig), id + 1); /* that one may not have arrived */
    say_failed(&rig, id, ERROR_IO, "no such command");
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert_ptr_nonnull(strstr(outcome.err.message, "lost"));
    finish(&outcome, ERROR_IO);
}
END_TEST

START_TEST(a_deadline_holds_while_there_is_no_stream)
{
    struct outcome outcome;
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 300, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_output(&rig, id, WIRE_STDOUT, 0, "he");
    hear_credit(&rig, WIRE_STDOUT, 2);
    rig_set_mode(&rig, PHONY_BROKEN);
    hand_hang_up(&rig);
    RIG_UNTIL(&rig, outcome.times > 0);
    ck_assert(outcome.result.timed_out);
    ck_assert_str_eq(outcome.text[0], "he");
    rig_set_mode(&rig, PHONY_CONNECTS);
    start("y", 0, false, &outcome); /* which needs the stream again */
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    hear_attach(&rig, 2, 0); /* what was left behind is killed */
    ck_assert_uint_eq(hand_hear(&rig, WIRE_EXEC_KILL).header.id, id);
    rig_close(&rig);
}
END_TEST

START_TEST(a_command_ends_at_once_when_its_sandbox_is_gone)
{
    struct outcome outcome;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    say_started(&rig, hear_exec(&rig));
    rig_set_mode(&rig, PHONY_GONE);
    hand_hang_up(&rig);
    finish(&outcome, ERROR_SANDBOX_GONE);
}
END_TEST

/* ---- Standard input --------------------------------------------------------------------------- */

START_TEST(stdin_goes_as_far_as_the_hand_wants_it)
{
    static char data[100000];
    struct outcome outcome;
    struct execution *x;
    struct error err;
    uint64_t id;

    memset(data, 'a', sizeof data);
    rig_up(&rig, 0);
    x = start("cat", 0, true, &outcome);
    ck_assert_int_eq(execution_write(x, data, sizeof data, false, &err), 0);
    ck_assert_int_eq(execution_write(x, "b", 1, true, &err), 0);
    ck_assert_int_eq(execution_write(x, "c", 1, false, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    id = hear_exec(&rig);
    ck_assert(hand_hears_nothing(&rig));
    say_want(&rig, id, 70000);
    hear_input(&rig, 0, 65536, 'a');
    hear_input(&rig, 65536, 70000 - 65536, 'a');
    ck_assert(hand_hears_nothing(&rig));
    say_want(&rig, id, 140000);
    hear_input(&rig, 70000, 30001, 'a');
    ck_assert_uint_eq(hand_hear(&rig, WIRE_EXEC_EOF).header.id, id);
    rig_close(&rig);
}
END_TEST

START_TEST(stdin_that_may_be_lost_is_sent_again_after_a_reconnect)
{
    struct outcome outcome;
    struct execution *x;
    struct error err;
    uint64_t id;

    rig_up(&rig, 0);
    x = start("cat", 0, true, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    ck_assert_int_eq(execution_write(x, "abcdefghij", 10, true, &err), 0);
    say_want(&rig, id, 4);
    hear_input(&rig, 0, 4, 'a');
    say_want(&rig, id, 6); /* two are taken */
    hear_input(&rig, 4, 2, 'e');
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    hear_attach(&rig, 0, 0);
    ck_assert(hand_hears_nothing(&rig));
    say_want(&rig, id, 100);
    hear_input(&rig, 2, 8, 'c');
    hand_hear(&rig, WIRE_EXEC_EOF);
    rig_close(&rig);
}
END_TEST

START_TEST(stdin_that_nobody_reads_has_a_bound)
{
    char *data = calloc(1, EXECUTION_MAX_QUEUED);
    struct outcome outcome;
    struct execution *x;
    struct error err;

    ck_assert_ptr_nonnull(data);
    rig_up(&rig, 0);
    x = start("sleep", 0, true, &outcome);
    ck_assert_int_eq(execution_write(x, data, EXECUTION_MAX_QUEUED, false, &err), 0);
    ck_assert_int_eq(execution_write(x, data, 1, false, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    say_want(&rig, hear_exec(&rig), 1);
    hear_input(&rig, 0, 1, 0);
    ck_assert_int_eq(execution_write(x, data, 1, true, &err), 0);
    free(data);
    rig_close(&rig);
}
END_TEST

START_TEST(stdin_of_a_command_without_one_is_refused)
{
    struct outcome outcome;
    struct execution *x;
    struct error err;

    rig_up(&rig, 0);
    x = start("x", 0, false, &outcome);
    ck_assert_int_eq(execution_write(x, "a", 1, true, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    rig_close(&rig);
}
END_TEST

/* ---- Hostile hands ---------------------------------------------------------------------------- */

/* Each breaks the rules about the execution `id`, which has given "he" on stdout and is to keep 32. */
static void say_gap(uint64_t id)
{
    say_output(&rig, id, WIRE_STDOUT, 3, "lo");
}

static void say_overlap(uint64_t id)
{
    say_output(&rig, id, WIRE_STDOUT, 0, "he");
}

static void say_too_much(uint64_t id)
{
    say_output(&rig, id, WIRE_STDOUT, 2, "0123456789012345678901234567890");
}

static void say_third(uint64_t id)
{
    say_output(&rig, id, 3, 0, "x");
}

static void say_nothing_at_all(uint64_t id)
{
    say_output(&rig, id, WIRE_STDOUT, 2, "");
}

static void say_lying_exit(uint64_t id)
{
    struct wire_exit e = {.total = {3, 0}, .sent = {3, 0}};

    say_exit(&rig, id, &e);
}

static void say_lying_total(uint64_t id)
{
    struct wire_exit e = {.total = {1, 0}, .sent = {2, 0}};

    say_exit(&rig, id, &e);
}

static void say_odd_code(uint64_t id)
{
    struct wire_exit e = {.exit_code = 256, .total = {2, 0}, .sent = {2, 0}};

    say_exit(&rig, id, &e);
}

static void say_code_and_signal(uint64_t id)
{
    struct wire_exit e = {.exit_code = 0, .signal = 9, .total = {2, 0}, .sent = {2, 0}};

    say_exit(&rig, id, &e);
}

static void say_empty_exit(uint64_t id)
{
    hand_send_empty(&rig, WIRE_EXEC_EXIT, id);
}

static void say_failed_after_start(uint64_t id)
{
    say_failed(&rig, id, ERROR_NO_SUCH_FILE, "never");
}

static void say_want_of_no_stdin(uint64_t id)
{
    say_want(&rig, id, 10);
}

static void say_other_id(uint64_t id)
{
    say_output(&rig, id + 1, WIRE_STDOUT, 0, "x");
}

static const struct {
    void (*say)(uint64_t id);
    bool fails; /* this very execution, and not only the stream */
} breaches[] = {
    {say_gap, true},
    {say_overlap, true},
    {say_too_much, true},
    {say_third, true},
    {say_nothing_at_all, true},
    {say_lying_exit, true},
    {say_lying_total, true},
    {say_odd_code, true},
    {say_code_and_signal, true},
    {say_empty_exit, true},
    {say_failed_after_start, true},
    {say_want_of_no_stdin, true},
    {say_other_id, false},
};

START_TEST(a_hand_that_breaks_the_rules_of_an_execution_is_hung_up_on)
{
    struct outcome outcome;
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_output(&rig, id, WIRE_STDOUT, 0, "he");
    hear_credit(&rig, WIRE_STDOUT, 2);
    breaches[_i].say(id);
    if (breaches[_i].fails) {
        RIG_UNTIL(&rig, outcome.times > 0);
        ck_assert_int_eq(outcome.err.code, ERROR_IO);
    }
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    hear_attach(&rig, 2, 0);
    if (breaches[_i].fails) {
        hand_hear(&rig, WIRE_EXEC_KILL);
    }
    ck_assert_uint_eq(outcome.times, breaches[_i].fails ? 1 : 0);
    rig_close(&rig);
}
END_TEST

START_TEST(an_end_told_twice_is_a_breach)
{
    struct outcome outcome;
    struct wire_exit e = {.exit_code = 0};
    uint64_t id;

    rig_up(&rig, 0);
    start("x", 0, false, &outcome);
    id = hear_exec(&rig);
    say_started(&rig, id);
    say_exit(&rig, id, &e);
    say_exit(&rig, id, &e);
    RIG_UNTIL(&rig, outcome.times > 0);
    hand_accept(&rig); /* it was hung up on */
    finish(&outcome, ERROR_NONE);
}
END_TEST

UNIT_SUITE(execution)
{
    tcase_add_test(tcase, a_command_gives_its_streams_its_code_and_its_counts);
    tcase_add_test(tcase, a_signal_is_no_timeout);
    tcase_add_test(tcase, what_was_not_run_is_an_error_that_says_why);
    tcase_add_loop_test(tcase, a_hand_cannot_claim_what_is_ours_to_find_out, 0, 5);
    tcase_add_loop_test(tcase, a_request_that_no_hand_takes_is_refused_here, 0, 3);
    tcase_add_test(tcase, a_command_of_eight_mebibytes_is_carried_whole);
    tcase_add_test(tcase, the_257th_command_is_refused);
    tcase_add_test(tcase, at_the_deadline_the_tree_is_killed_and_the_output_kept);
    tcase_add_test(tcase, a_hand_that_is_silent_after_the_deadline_hides_nothing);
    tcase_add_test(tcase, a_deadline_without_any_word_of_the_hand_is_no_answer);
    tcase_add_test(tcase, a_deadline_before_there_is_a_stream_is_no_answer);
    tcase_add_test(tcase, a_cancelled_command_is_killed_before_it_is_answered);
    tcase_add_test(tcase, a_silent_hand_ends_a_command_without_a_deadline);
    tcase_add_test(tcase, a_signal_reaches_the_hand);
    tcase_add_test(tcase, closing_the_link_kills_and_forgets_what_runs);
    tcase_add_test(tcase, a_command_goes_on_where_it_was_on_the_next_stream);
    tcase_add_test(tcase, a_command_that_the_hand_knows_no_more_is_lost_and_never_run_again);
    tcase_add_test(tcase, a_deadline_holds_while_there_is_no_stream);
    tcase_add_test(tcase, a_command_ends_at_once_when_its_sandbox_is_gone);
    tcase_add_test(tcase, stdin_goes_as_far_as_the_hand_wants_it);
    tcase_add_test(tcase, stdin_that_may_be_lost_is_sent_again_after_a_reconnect);
    tcase_add_test(tcase, stdin_that_nobody_reads_has_a_bound);
    tcase_add_test(tcase, stdin_of_a_command_without_one_is_refused);
    tcase_add_loop_test(tcase, a_hand_that_breaks_the_rules_of_an_execution_is_hung_up_on, 0,
                        sizeof breaches / sizeof breaches[0]);
    tcase_add_test(tcase, an_end_told_twice_is_a_breach);
}
