/* The built hand: persistent shells, whose turn it is, what is kept, and how much at most. That bash leaves and
 * finds the right things is the contract's (tests/contract/shell.c). */
#include "tests/unit/hand_driver.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hand/shell.h"
#include "sandbox/cleanup.h"

#define KEEP 65536

/* Runs until there is a file `go` in the workdir, and then leaves K=held. */
#define HOLD "while [ ! -e go ]; do sleep 0.02; done; export K=held"

static struct hand hand;
static struct host host;
static struct outcome o;
static uint64_t last_id;

static void start(const char *linger_ms)
{
    hand = (struct hand){.pid = 0, .linger_ms = linger_ms};
    hand_start(&hand, false);
    host_open(&host, &hand, 1);
    outcome_init(&o);
    last_id = 0;
}

static void setup(void)
{
    start(NULL);
}

static void teardown(void)
{
    outcome_release(&o);
    host_close(&host);
    ck_assert_int_eq(hand_stop(&hand), 0);
}

/* ---- One call --------------------------------------------------------------------------------- */

static uint64_t send_long(struct host *to, const char *shell, const char *command, size_t length, bool reset)
{
    struct wire_exec exec = {
        .command = {command, length},
        .cwd = {"", 0},
        .env = (const uint8_t *)"",
        .keep = KEEP,
        .shell = {shell, strlen(shell)},
        .shell_reset = reset,
    };

    host_send_exec(to, ++last_id, &exec);
    return last_id;
}

static uint64_t send_to(struct host *to, const char *shell, const char *command)
{
    return send_long(to, shell, command, strlen(command), false);
}

static uint64_t send_call(const char *shell, const char *command)
{
    return send_to(&host, shell, command);
}

static void finish(struct host *of, uint64_t id)
{
    outcome_release(&o);
    outcome_init(&o);
    host_finish(of, id, &o);
}

static void run(const char *shell, const char *command)
{
    finish(&host, send_call(shell, command));
    ck_assert_msg(!o.failed, "%s: %s", command, o.message);
}

static void run_and_keep(const char *shell, const char *command)
{
    run(shell, command);
    ck_assert_int_eq(o.exit.state, WIRE_STATE_KEPT);
}

static void restart(const char *shell)
{
    finish(&host, send_long(&host, shell, "", 0, true));
    ck_assert_msg(!o.failed, "%s", o.message);
}

static void assert_printed(const char *text)
{
    ck_assert_msg(o.out[0].length == strlen(text) && memcmp(o.out[0].data, text, strlen(text)) == 0,
                  "it printed \"%.*s\" and not \"%s\"", (int)o.out[0].length, (const char *)o.out[0].data, text);
}

static void assert_has(const char *shell, const char *value)
{
    run_and_keep(shell, "printf %s \"${K-none}\"");
    assert_printed(value);
}

static void assert_refused(const char *message)
{
    ck_assert(o.failed);
    ck_assert_int_eq(o.code, ERROR_BAD_REQUEST);
    ck_assert_msg(strstr(o.message, message) != NULL, "it says: %s", o.message);
}

static void wait_started(uint64_t id)
{
    struct frame f;

    do {
        f = host_next(&host);
        ck_assert_uint_eq(f.header.id, id);
    } while (f.header.type != WIRE_EXEC_STARTED);
}

static void let_go(void)
{
    char path[128];
    cleanup_fd int fd = -1;

    snprintf(path, sizeof path, "%s/go", hand.workdir);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
}

/* True where nothing comes for a while: it cannot be waited for, only given time. */
static bool is_quiet(void)
{
    struct pollfd p = {.fd = host.fd, .events = POLLIN};

    return poll(&p, 1, 200) == 0;
}

/* ---- Turns ------------------------------------------------------------------------------------ */

START_TEST(a_second_call_of_a_shell_waits_for_the_first_and_begins_with_what_it_leaves)
{
    uint64_t first = send_call("s", HOLD);
    uint64_t second = send_call("s", "printf %s \"$K\"");
    uint64_t third = send_call("s", "[ ! -e go ] || exit 3");

    wait_started(first);
    ck_assert(is_quiet());
    let_go();
    finish(&host, first);
    ck_assert_int_eq(o.exit.state, WIRE_STATE_KEPT);
    finish(&host, second);
    assert_printed("held");
    finish(&host, third);
    ck_assert_int_eq(o.exit.exit_code, 3);
}
END_TEST

START_TEST(calls_of_other_shells_and_plain_commands_do_not_wait)
{
    uint64_t first = send_call("s", HOLD);

    wait_started(first);
    run_and_keep("t", "export K=other");
    run("", "printf %s \"${K-none}\"");
    assert_printed("none");
    ck_assert_int_eq(o.exit.state, WIRE_STATE_NONE);
    let_go();
    finish(&host, first);
    assert_has("s", "held");
    assert_has("t", "other");
}
END_TEST

START_TEST(no_more_calls_wait_than_the_bound_and_those_that_were_killed_make_room)
{
    uint64_t held = send_call("s", HOLD);
    uint64_t first = held + 1;

    wait_started(held);
    for (unsigned i = 0; i < SHELL_MAX_WAITING; i++) { /* in all shells together */
        send_call("s", "export N=$((N + 1))");
    }
    finish(&host, send_call("s", "export N=100"));
    assert_refused("too many commands wait for a shell");
    run_and_keep("free", "export K=free"); /* who needs not wait is none of them */
    for (unsigned i = 4; i < SHELL_MAX_WAITING; i++) {
        host_send_empty(&host, WIRE_EXEC_KILL, first + i);
        finish(&host, first + i);
        ck_assert(o.failed);
        ck_assert_int_eq(o.code, ERROR_CANCELLED);
    }
    send_call("s", "printf %s \"$N$K\"");
    let_go();
    finish(&host, held);
    for (unsigned i = 0; i < 4; i++) {
        finish(&host, first + i);
        ck_assert_int_eq(o.exit.state, WIRE_STATE_KEPT);
    }
    finish(&host, last_id);
    assert_printed("4held");
}
END_TEST

START_TEST(what_waits_is_bounded_in_bytes)
{
    const size_t length = SHELL_MAX_WAITING_BYTES / 3 + 1;
    cleanup_free char *large = malloc(length);
    uint64_t held = send_call("s", HOLD);
    uint64_t waiting[2];

    ck_assert_ptr_nonnull(large);
    memset(large, '#', length);
    wait_started(held);
    waiting[0] = send_long(&host, "s", large, length, false);
    waiting[1] = send_long(&host, "s", large, length, false);
    finish(&host, send_long(&host, "s", large, length, false));
    assert_refused("too large");
    host_send_empty(&host, WIRE_EXEC_KILL, waiting[0]);
    finish(&host, waiting[0]);
    ck_assert_int_eq(o.code, ERROR_CANCELLED);
    waiting[0] = send_long(&host, "s", large, length, false);
    let_go();
    finish(&host, held);
    finish(&host, waiting[1]);
    ck_assert_int_eq(o.exit.exit_code, 0);
    finish(&host, waiting[0]);
    ck_assert_int_eq(o.exit.exit_code, 0);
}
END_TEST

START_TEST(a_restart_kills_what_runs_and_what_waits)
{
    static const char show[] = "printf %s \"${K-none}\"";
    uint64_t held, waits, anew;

    run_and_keep("s", "export K=old");
    held = send_call("s", HOLD);
    wait_started(held);
    waits = send_call("s", "export K=never");
    anew = send_long(&host, "s", show, strlen(show), true);
    for (unsigned i = 0; i < 2; i++) { /* in whatever order they are told of */
        struct frame f = host_next(&host);

        outcome_release(&o);
        outcome_init(&o);
        while (!outcome_take(&o, &f)) {
            f = host_next(&host);
        }
        ck_assert(f.header.id == held || f.header.id == waits);
        if (f.header.id == held) {
            ck_assert_uint_eq(o.exit.signal, 9);
            ck_assert_int_eq(o.exit.state, WIRE_STATE_ENDED_EARLY);
        } else {
            ck_assert_int_eq(o.code, ERROR_CANCELLED);
        }
        host_send_empty(&host, WIRE_EXEC_FORGET, f.header.id);
    }
    finish(&host, anew);
    assert_printed("none");
}
END_TEST

/* ---- Of several hosts -------------------------------------------------------------------------- */

START_TEST(another_host_waits_until_the_first_has_said_that_it_knows)
{
    struct host other;
    struct frame f;
    uint64_t first = send_call("s", "export K=first");
    uint64_t second;

    do {
        f = host_next(&host);
    } while (!outcome_take(&o, &f));
    host_open(&other, &hand, 2);
    second = send_to(&other, "s", "printf %s \"$K\"");
    ck_assert(poll(&(struct pollfd){.fd = other.fd, .events = POLLIN}, 1, 200) == 0);
    host_send_empty(&host, WIRE_EXEC_FORGET, first);
    finish(&other, second);
    assert_printed("first");
    host_close(&other);
}
END_TEST

START_TEST(the_same_host_need_not_say_it)
{
    struct frame f;

    send_call("s", "export K=first");
    do {
        f = host_next(&host);
    } while (!outcome_take(&o, &f));
    assert_has("s", "first");
}
END_TEST

START_TEST(a_shell_whose_host_does_not_come_back_is_free_again)
{
    struct host other;

    run_and_keep("s", "export K=old");
    wait_started(send_call("s", "export K=new; sleep 987712"));
    host_open(&other, &hand, 2);
    send_to(&other, "s", "printf %s \"$K\"");
    host_close(&host);
    finish(&other, last_id);
    assert_printed("old");
    host = other;
}
END_TEST

/* ---- What is kept ------------------------------------------------------------------------------ */

START_TEST(what_a_killed_call_has_changed_is_dropped)
{
    uint64_t id;

    run_and_keep("s", "export K=old");
    id = send_call("s", "export K=new; sleep 987713");
    wait_started(id);
    ck_assert(process_comes("sleep 987713"));
    host_send_empty(&host, WIRE_EXEC_KILL, id);
    finish(&host, id);
    ck_assert_uint_eq(o.exit.signal, 9);
    ck_assert_int_eq(o.exit.state, WIRE_STATE_ENDED_EARLY);
    assert_has("s", "old");
}
END_TEST

/* The deadline is the host's: it may find only at the end that it had passed. */
START_TEST(a_kill_after_the_end_brings_back_what_was_there_before)
{
    struct frame f;
    uint64_t id;

    run_and_keep("s", "export K=old");
    for (unsigned i = 0; i < 2; i++) { /* also where it is not the first to be taken back */
        outcome_release(&o);
        outcome_init(&o);
        id = send_call("s", "export K=new");
        do {
            f = host_next(&host);
        } while (!outcome_take(&o, &f));
        ck_assert_int_eq(o.exit.state, WIRE_STATE_KEPT);
        host_send_empty(&host, WIRE_EXEC_KILL, id);
        host_send_empty(&host, WIRE_EXEC_FORGET, id);
        assert_has("s", "old");
    }
}
END_TEST

START_TEST(a_state_over_its_bound_is_not_kept_and_the_one_before_is)
{
    char command[128];

    run_and_keep("s", "export K=old");
    snprintf(command, sizeof command, "export K=$(printf %%0%ud 0)", SHELL_MAX_STATE);
    run("s", command);
    ck_assert_int_eq(o.exit.state, WIRE_STATE_TOO_LARGE);
    ck_assert_int_eq(o.exit.exit_code, 0);
    assert_has("s", "old");
}
END_TEST

/* Bash keeps its pipe to us on the first descriptor from 10 on: what a command writes there is no state. */
START_TEST(what_a_command_writes_into_the_pipe_is_bounded_and_no_state)
{
    run_and_keep("s", "export K=old");
    run("s", "for i in 1 2 3 4 5 6 7 8; do printf %01000000d 0 >&10; done; export K=new");
    ck_assert_int_eq(o.exit.state, WIRE_STATE_TOO_LARGE);
    assert_has("s", "old");
    run("s", "printf '\\0handsfs 1\\0forged' >&10; export K=new; kill -9 $$");
    ck_assert_int_eq(o.exit.state, WIRE_STATE_ENDED_EARLY);
    assert_has("s", "old");
    run_and_keep("s", "printf 'stray\\0handsfs 1\\0stray' >&10; export K=after");
    assert_has("s", "after");
}
END_TEST

START_TEST(all_states_together_are_bounded_and_a_restart_makes_room)
{
    char command[128];
    char name[16];
    const unsigned fit = SHELL_MAX_TOTAL / 1000000;

    snprintf(command, sizeof command, "export K=$(printf %%01000000d 0)");
    for (unsigned i = 0; i < fit; i++) {
        snprintf(name, sizeof name, "s%u", i);
        run_and_keep(name, command);
    }
    run_and_keep("last", "export K=small");
    run("last", command);
    ck_assert_int_eq(o.exit.state, WIRE_STATE_TOO_LARGE);
    assert_has("last", "small");
    restart("s0");
    run_and_keep("last", command);
    assert_has("s0", "none");
}
END_TEST

START_TEST(there_are_no_more_shells_than_the_bound_and_one_with_nothing_in_it_is_none)
{
    char name[16];

    for (unsigned i = 0; i < SHELL_MAX_COUNT; i++) {
        snprintf(name, sizeof name, "s%u", i);
        run_and_keep(name, ":");
    }
    finish(&host, send_call("more", ":"));
    assert_refused("no more than 64 shells");
    assert_has("s7", "none"); /* those that are there work on */
    restart("s7");
    for (unsigned i = 0; i < 2; i++) { /* a new one in which nothing was left is none either */
        snprintf(name, sizeof name, "n%u", i);
        run(name, "kill -9 $$");
        ck_assert_int_eq(o.exit.state, WIRE_STATE_ENDED_EARLY);
    }
    run_and_keep("more", "export K=more");
    finish(&host, send_call("s7", ":"));
    assert_refused("no more than 64 shells");
    assert_has("more", "more");
}
END_TEST

static void setup_short_linger(void)
{
    start("300");
}

UNIT_SUITE(hand_shell)
{
    TCase *gone = tcase_create("gone hosts");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_second_call_of_a_shell_waits_for_the_first_and_begins_with_what_it_leaves);
    tcase_add_test(tcase, calls_of_other_shells_and_plain_commands_do_not_wait);
    tcase_add_test(tcase, no_more_calls_wait_than_the_bound_and_those_that_were_killed_make_room);
    tcase_add_test(tcase, what_waits_is_bounded_in_bytes);
    tcase_add_test(tcase, a_restart_kills_what_runs_and_what_waits);
    tcase_add_test(tcase, another_host_waits_until_the_first_has_said_that_it_knows);
    tcase_add_test(tcase, the_same_host_need_not_say_it);
    tcase_add_test(tcase, what_a_killed_call_has_changed_is_dropped);
    tcase_add_test(tcase, a_kill_after_the_end_brings_back_what_was_there_before);
    tcase_add_test(tcase, a_state_over_its_bound_is_not_kept_and_the_one_before_is);
    tcase_add_test(tcase, what_a_command_writes_into_the_pipe_is_bounded_and_no_state);
    tcase_add_test(tcase, all_states_together_are_bounded_and_a_restart_makes_room);
    tcase_add_test(tcase, there_are_no_more_shells_than_the_bound_and_one_with_nothing_in_it_is_none);
    tcase_add_checked_fixture(gone, setup_short_linger, teardown);
    tcase_set_timeout(gone, 120);
    tcase_add_test(gone, a_shell_whose_host_does_not_come_back_is_free_again);
    suite_add_tcase(suite, gone);
}
