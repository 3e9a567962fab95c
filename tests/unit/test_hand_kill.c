/* The built hand: what is left in the background lives on, what is killed dies with its whole tree, and
 * nothing inside stops the hand itself; and no signal is kept from a command. */
#include "tests/unit/hand_driver.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/clock.h"

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

/* Nothing of it is told yet. */
static void start(uint64_t id, const char *command)
{
    struct wire_exec exec = {
        .command = {command, strlen(command)},
        .cwd = {"", 0},
        .env = (const uint8_t *)"",
        .keep = 1u << 20,
    };

    host_send_exec(&host, id, &exec);
}

/* Until it has said `text` on stdout. */
static void wait_output(struct outcome *of, const char *text)
{
    while (of->out[0].length < strlen(text)) {
        struct frame f = host_next(&host);

        ck_assert(!outcome_take(of, &f));
    }
    ck_assert_mem_eq(of->out[0].data, text, strlen(text));
}

static void kill_and_finish(uint64_t id)
{
    host_send_empty(&host, WIRE_EXEC_KILL, id);
    host_finish(&host, id, &o);
    ck_assert_int_eq(o.exit.exit_code, -1);
    ck_assert_uint_eq(o.exit.signal, SIGKILL);
    ck_assert_uint_eq(o.exit.left, 0);
}

static void run(const char *command)
{
    outcome_release(&o);
    host_run(&host, command, &o);
}

static bool said(const char *text)
{
    size_t length = strlen(text);

    return o.out[0].length == length && (length == 0 || memcmp(o.out[0].data, text, length) == 0);
}

/* A file in the workdir appears. */
static void wait_file(const char *name)
{
    uint64_t end = clock_now_ms() + DRIVER_WAIT_MS;
    char path[300];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", hand.workdir, name);
    while (stat(path, &st) < 0) {
        ck_assert_msg(clock_now_ms() < end, "%s does not appear", name);
        usleep(2000);
    }
}

static void make_file(const char *name)
{
    char path[300];
    int fd;

    snprintf(path, sizeof path, "%s/%s", hand.workdir, name);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

/* ---- In the background ------------------------------------------------------------------------- */

START_TEST(what_is_left_in_the_background_delays_nothing_and_lives_on)
{
    run("sleep 987001 & echo hi");
    ck_assert(said("hi\n"));
    ck_assert_int_eq(o.exit.exit_code, 0);
    ck_assert_uint_eq(o.exit.left, 1);
    ck_assert(process_comes("sleep 987001"));
    run("pkill -f 'sleep 98700[1]'");
    ck_assert(process_goes("sleep 987001"));
}
END_TEST

START_TEST(one_that_writes_for_ever_delays_nothing)
{
    run("yes 987002 & exit 3");
    ck_assert_int_eq(o.exit.exit_code, 3);
    ck_assert_uint_eq(o.exit.left, 1);
    run("pkill -f 'yes 98700[2]'");
    ck_assert(process_goes("yes 987002"));
}
END_TEST

START_TEST(one_that_writes_later_does_not_die_of_it)
{
    run("(until [ -e go ]; do sleep 0.01; done; echo late; echo late >&2; touch survived) & exit 0");
    ck_assert_int_eq(o.exit.exit_code, 0);
    make_file("go");
    wait_file("survived");
}
END_TEST

START_TEST(all_of_it_goes_with_the_hand)
{
    struct hand other = {.pid = 0};
    struct host its_host;
    struct outcome its;

    hand_start(&other, false);
    host_open(&its_host, &other, 1);
    host_run(&its_host, "setsid sleep 987003 & echo", &its);
    ck_assert(process_comes("sleep 987003"));
    outcome_release(&its);
    host_close(&its_host);
    ck_assert_int_eq(hand_stop(&other), 0);
    ck_assert(process_goes("sleep 987003"));
}
END_TEST

/* ---- Killed ------------------------------------------------------------------------------------ */

#define STUBBORN_TREE(n)                                                                           \
    "trap '' TERM HUP INT; setsid sleep " n " & (setsid bash -c 'sleep " n " & disown; exit' &);"  \
    "sleep " n " & kill -STOP $!; (trap '' TERM; sleep " n ") & echo up; sleep " n "; exit 0"

START_TEST(a_stubborn_tree_is_killed_whole)
{
    start(2, STUBBORN_TREE("987010"));
    wait_output(&o, "up\n");
    kill_and_finish(2);
    ck_assert(!process_lives("sleep 987010"));
}
END_TEST

START_TEST(a_tree_that_keeps_forking_is_killed_whole)
{
    /* One that runs away for ever, and a crowd of a bounded size. */
    start(2, "hop() { setsid bash -c \"$(declare -f hop); hop 987011\" & }; hop; echo up;"
             "for ((i = 0; i < 200; i++)); do (:) & sleep 0.01 987011 & done; sleep 987011");
    wait_output(&o, "up\n");
    kill_and_finish(2);
    ck_assert(!process_lives("987011"));
}
END_TEST

START_TEST(the_trees_of_others_are_not_hurt)
{
    struct outcome other;

    outcome_init(&other);
    start(3, "setsid sleep 987012 & echo up; read -r < <(until [ -e go ]; do sleep 0.01; done); exit 8");
    wait_output(&other, "up\n");
    start(2, STUBBORN_TREE("987013"));
    wait_output(&o, "up\n");
    kill_and_finish(2);
    ck_assert(!process_lives("sleep 987013"));
    ck_assert(process_comes("sleep 987012"));
    make_file("go");
    host_finish(&host, 3, &other);
    ck_assert_int_eq(other.exit.exit_code, 8);
    outcome_release(&other);
}
END_TEST

START_TEST(what_a_finished_command_has_left_can_be_killed_as_well)
{
    struct frame f;

    start(2, "setsid sleep 987014 & exit 0");
    do {
        f = host_next(&host);
    } while (!outcome_take(&o, &f));
    ck_assert(process_comes("sleep 987014"));
    host_send_empty(&host, WIRE_EXEC_KILL, 2);
    ck_assert(process_goes("sleep 987014"));
    host_send_empty(&host, WIRE_EXEC_FORGET, 2);
}
END_TEST

START_TEST(a_command_that_nobody_waits_for_is_killed)
{
    start(2, STUBBORN_TREE("987015"));
    wait_output(&o, "up\n");
    host_send_empty(&host, WIRE_EXEC_FORGET, 2);
    ck_assert(process_goes("sleep 987015"));
    run("echo fine");
    ck_assert(said("fine\n"));
}
END_TEST

START_TEST(a_kill_that_comes_at_once_is_not_lost)
{
    for (unsigned i = 0; i < 20; i++) {
        start(2, "sleep 987016");
        outcome_release(&o);
        kill_and_finish(2);
    }
    ck_assert(!process_lives("sleep 987016"));
}
END_TEST

START_TEST(a_signal_reaches_the_commands_group)
{
    start(2, "trap 'echo got; exit 9' USR1; echo up; while :; do sleep 0.01; done");
    wait_output(&o, "up\n");
    host_send_u32(&host, WIRE_EXEC_SIGNAL, 2, SIGUSR1);
    host_finish(&host, 2, &o);
    ck_assert(said("up\ngot\n"));
    ck_assert_int_eq(o.exit.exit_code, 9);
}
END_TEST

/* A second hand, with a host that runs something and is gone. */
static void leave_behind(struct hand *other, const char *command)
{
    struct host saved = host;

    hand_start(other, false);
    host_open(&host, other, 5);
    start(2, command);
    wait_output(&o, "up\n");
    host_close(&host);
    host = saved;
}

START_TEST(a_host_that_does_not_come_back_leaves_nothing_running)
{
    struct hand other = {.linger_ms = "100"};

    leave_behind(&other, STUBBORN_TREE("987017"));
    ck_assert(process_goes("sleep 987017"));
    ck_assert_int_eq(hand_stop(&other), 0);
}
END_TEST

START_TEST(a_host_that_stays_away_while_another_comes_is_given_up)
{
    struct hand other = {.linger_ms = "100", .apart_ms = "600000"};
    uint64_t until = clock_now_ms() + DRIVER_WAIT_MS;
    struct host second;

    leave_behind(&other, STUBBORN_TREE("987018"));
    host_open(&second, &other, 6);
    while (process_lives("sleep 987018") && clock_now_ms() < until) {
        host_send_empty(&second, WIRE_PING, 0);
        ck_assert_int_eq(host_next(&second).header.type, WIRE_PONG);
    }
    ck_assert(!process_lives("sleep 987018"));
    host_close(&second);
    ck_assert_int_eq(hand_stop(&other), 0);
}
END_TEST

START_TEST(a_host_may_come_back_late_where_none_came_through)
{
    struct hand other = {.linger_ms = "100", .apart_ms = "600000"};
    struct host late;
    char path[96];

    leave_behind(&other, "echo up; until [ -e go ]; do sleep 0.01; done; exit 6");
    poll(NULL, 0, 1000); /* ten times what it would have been given */
    host_open(&late, &other, 5);
    host_send_attach(&late, 2, 3, 0);
    snprintf(path, sizeof path, "%s/go", other.workdir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    host_finish(&late, 2, &o);
    ck_assert_int_eq(o.exit.exit_code, 6);
    host_close(&late);
    ck_assert_int_eq(hand_stop(&other), 0);
}
END_TEST

START_TEST(a_host_that_never_comes_back_is_given_up_when_none_comes)
{
    struct hand other = {.linger_ms = "100", .apart_ms = "400"};

    leave_behind(&other, STUBBORN_TREE("987019"));
    ck_assert(process_goes("sleep 987019"));
    ck_assert_int_eq(hand_stop(&other), 0);
}
END_TEST

/* ---- Against the supervisor -------------------------------------------------------------------- */

START_TEST(a_command_that_kills_its_supervisor_still_has_its_result)
{
    run("kill -9 $PPID; sleep 0.05; echo on; exit 3");
    ck_assert(said("on\n"));
    ck_assert_int_eq(o.exit.exit_code, 3);
    run("kill -9 $PPID; kill -9 $$");
    ck_assert_uint_eq(o.exit.signal, SIGKILL);
    run("kill -9 $PPID; sleep 987020 & exit 4");
    ck_assert_int_eq(o.exit.exit_code, 4);
    ck_assert_uint_eq(o.exit.left, 1);
    ck_assert(process_comes("sleep 987020"));
    run("pkill -f 'sleep 98702[0]'");
}
END_TEST

/* The next stop of what is traced, which is expected to be `event` of `pid`; what that is about. */
static pid_t traced_event(pid_t pid, int event)
{
    unsigned long about = 0;
    int status;

    ck_assert_int_eq(waitpid(pid, &status, __WALL), pid);
    ck_assert_int_eq(status >> 8, SIGTRAP | event << 8);
    ck_assert_int_eq(ptrace(PTRACE_GETEVENTMSG, pid, NULL, &about), 0);
    return (pid_t)about;
}

/* Holds a supervisor where it has made its command's process, and lets only that one go on. */
static pid_t hold_supervisor(void)
{
    pid_t supervisor = traced_event(hand.pid, PTRACE_EVENT_FORK);
    pid_t command;
    int status;

    ck_assert_int_eq(ptrace(PTRACE_DETACH, hand.pid, NULL, NULL), 0);
    ck_assert_int_eq(waitpid(supervisor, &status, __WALL), supervisor); /* stopped, being new */
    ck_assert_int_eq(ptrace(PTRACE_CONT, supervisor, NULL, NULL), 0);
    command = traced_event(supervisor, PTRACE_EVENT_VFORK);
    ck_assert_int_eq(waitpid(command, &status, __WALL), command);
    ck_assert_int_eq(ptrace(PTRACE_DETACH, command, NULL, NULL), 0);
    return supervisor;
}

START_TEST(a_command_that_kills_its_supervisor_at_once_still_has_its_result)
{
    const struct {
        const char *command;
        int exit_code;
        uint32_t signal, left;
    } rows[] = {
        {"kill -9 $PPID; sleep 0.2; exit 6", 6, 0, 0},
        {"kill -9 $PPID; kill -9 $$", -1, SIGKILL, 0},
        {"kill -9 $PPID; sleep 987024 & exit 4", 4, 0, 1},
    };
    int status;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pid_t supervisor;

        if (ptrace(PTRACE_SEIZE, hand.pid, NULL,
                   PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL) < 0) {
            return; /* only root may look into the hand */
        }
        outcome_release(&o);
        outcome_init(&o);
        start(40 + i, rows[i].command);
        supervisor = hold_supervisor();
        ck_assert_int_eq(waitpid(supervisor, &status, __WALL), supervisor);
        ck_assert(WIFSIGNALED(status));
        host_finish(&host, 40 + i, &o);
        ck_assert_int_eq(o.exit.exit_code, rows[i].exit_code);
        ck_assert_uint_eq(o.exit.signal, rows[i].signal);
        ck_assert_uint_eq(o.exit.left, rows[i].left);
    }
    run("pkill -f 'sleep 98702[4]'");
}
END_TEST

START_TEST(killing_its_supervisor_saves_no_tree)
{
    start(2, "kill -9 $PPID; " STUBBORN_TREE("987021"));
    wait_output(&o, "up\n");
    kill_and_finish(2);
    ck_assert(!process_lives("sleep 987021"));
}
END_TEST

START_TEST(trees_without_supervisors_are_not_taken_for_each_other)
{
    struct outcome other;

    outcome_init(&other);
    start(3, "kill -9 $PPID; sleep 987022 & (sleep 987022 &) ; echo up; until [ -e go ]; do sleep 0.01; done; "
             "exit 8");
    wait_output(&other, "up\n");
    start(2, "kill -9 $PPID; sleep 987023 & (sleep 987023 &) ; echo up; sleep 987023");
    wait_output(&o, "up\n");
    kill_and_finish(2);
    ck_assert(!process_lives("sleep 987023"));
    ck_assert(process_comes("sleep 987022"));
    make_file("go");
    host_finish(&host, 3, &other);
    ck_assert_int_eq(other.exit.exit_code, 8);
    ck_assert_uint_eq(other.exit.left, 2);
    outcome_release(&other);
}
END_TEST

START_TEST(a_supervisor_cannot_be_put_to_sleep)
{
    run("kill -STOP $PPID; kill -TERM $PPID; kill -INT $PPID; exit 5");
    ck_assert_int_eq(o.exit.exit_code, 5);
}
END_TEST

/* ---- As PID 1 ---------------------------------------------------------------------------------- */

/* Starts another hand, as PID 1; false where namespaces are not permitted. */
static bool become_init(struct hand *other, struct host *saved)
{
    *other = (struct hand){.pid = 0};
    if (!hand_start(other, true)) {
        return false;
    }
    *saved = host;
    host_open(&host, other, 1);
    return true;
}

static void leave_init(struct hand *other, const struct host *saved)
{
    host_close(&host);
    host = *saved;
    ck_assert_int_eq(hand_stop(other), 0);
}

START_TEST(killing_everything_leaves_the_killer_and_the_hand)
{
    struct hand other;
    struct host saved;

    if (!become_init(&other, &saved)) {
        return;
    }
    run("kill -9 -1; sleep 0.05; echo alive; exit 4");
    ck_assert(said("alive\n"));
    ck_assert_int_eq(o.exit.exit_code, 4);
    run("kill -9 1; kill -TERM 1; kill -INT 1; kill -SEGV 1; kill -STOP 1; echo $PPID");
    ck_assert_int_eq(o.exit.exit_code, 0);
    run("echo still");
    ck_assert(said("still\n"));
    leave_init(&other, &saved);
}
END_TEST

START_TEST(the_limits_of_others_cannot_be_changed)
{
    struct hand other;
    struct host saved;

    if (!become_init(&other, &saved)) {
        return;
    }
    run("prlimit --pid 1 --cpu=1:1");
    ck_assert_int_ne(o.exit.exit_code, 0);
    run("prlimit --pid 1 --nofile=0:0");
    ck_assert_int_ne(o.exit.exit_code, 0);
    run("prlimit --pid 1 >/dev/null && ulimit -n 100 && ulimit -n && prlimit --nofile=90 bash -c 'ulimit -n'");
    ck_assert(said("100\n90\n"));
    leave_init(&other, &saved);
}
END_TEST

START_TEST(every_command_gets_a_result_when_one_kills_them_all)
{
    struct hand other;
    struct host saved;
    unsigned over = 0;

    if (!become_init(&other, &saved)) {
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        start(10 + i, "setsid sleep 987030 & sleep 987030");
    }
    start(9, "sleep 0.05; kill -9 -1; sleep 0.05; exit 6");
    while (over < 9) {
        struct frame f = host_next(&host);
        struct wire_exit e;

        if (f.header.type != WIRE_EXEC_EXIT && f.header.type != WIRE_EXEC_FAILED) {
            continue;
        }
        over++;
        if (f.header.id == 9) {
            ck_assert_int_eq(wire_get_exit(f.payload, f.header.length, &e), 0);
            ck_assert_int_eq(e.exit_code, 6);
        }
    }
    ck_assert(!process_lives("sleep 987030"));
    leave_init(&other, &saved);
}
END_TEST

START_TEST(orphans_are_reaped)
{
    struct hand other;
    struct host saved;

    if (!become_init(&other, &saved)) {
        return;
    }
    run("for i in 1 2 3 4 5; do (setsid bash -c '(exit 0) & (exit 0) &' &); done; exit 0");
    run("kill -9 $PPID; (sleep 0.01 &); (sleep 0.01 &); sleep 0.05");
    run("grep -l '^State:.Z' /proc/[0-9]*/status; true");
    ck_assert(said(""));
    leave_init(&other, &saved);
}
END_TEST

START_TEST(nobody_looks_into_the_hand)
{
    struct hand other;
    struct host saved;

    if (geteuid() == 0 || !become_init(&other, &saved)) {
        return; /* root may */
    }
    run("ls /proc/1/fd || cat /proc/1/environ || ls /proc/$PPID/fd");
    ck_assert_int_ne(o.exit.exit_code, 0);
    leave_init(&other, &saved);
}
END_TEST

START_TEST(no_command_ignores_or_blocks_what_whoever_started_the_hand_did)
{
    const uint64_t of_the_library = 7ull << 31; /* 32 to 34: C libraries keep them to themselves, ignored or not */
    unsigned long long blocked = 1, ignored = 1;
    sigset_t set, before;

    host_close(&host);
    ck_assert_int_eq(hand_stop(&hand), 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    setup();
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    run("exec grep -E '^Sig(Blk|Ign)' /proc/self/status");
    ck_assert_int_eq(sscanf(buffer_text(&o.out[0]), "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    ck_assert_uint_eq(blocked & ~of_the_library, 0);
    ck_assert_uint_eq(ignored & ~of_the_library, 0);
}
END_TEST

UNIT_SUITE(hand_kill)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, what_is_left_in_the_background_delays_nothing_and_lives_on);
    tcase_add_test(tcase, one_that_writes_for_ever_delays_nothing);
    tcase_add_test(tcase, one_that_writes_later_does_not_die_of_it);
    tcase_add_test(tcase, all_of_it_goes_with_the_hand);
    tcase_add_test(tcase, a_stubborn_tree_is_killed_whole);
    tcase_add_test(tcase, a_tree_that_keeps_forking_is_killed_whole);
    tcase_add_test(tcase, the_trees_of_others_are_not_hurt);
    tcase_add_test(tcase, what_a_finished_command_has_left_can_be_killed_as_well);
    tcase_add_test(tcase, a_command_that_nobody_waits_for_is_killed);
    tcase_add_test(tcase, a_kill_that_comes_at_once_is_not_lost);
    tcase_add_test(tcase, a_signal_reaches_the_commands_group);
    tcase_add_test(tcase, a_host_that_does_not_come_back_leaves_nothing_running);
    tcase_add_test(tcase, a_host_that_stays_away_while_another_comes_is_given_up);
    tcase_add_test(tcase, a_host_may_come_back_late_where_none_came_through);
    tcase_add_test(tcase, a_host_that_never_comes_back_is_given_up_when_none_comes);
    tcase_add_test(tcase, a_command_that_kills_its_supervisor_still_has_its_result);
    tcase_add_test(tcase, a_command_that_kills_its_supervisor_at_once_still_has_its_result);
    tcase_add_test(tcase, killing_its_supervisor_saves_no_tree);
    tcase_add_test(tcase, trees_without_supervisors_are_not_taken_for_each_other);
    tcase_add_test(tcase, a_supervisor_cannot_be_put_to_sleep);
    tcase_add_test(tcase, killing_everything_leaves_the_killer_and_the_hand);
    tcase_add_test(tcase, the_limits_of_others_cannot_be_changed);
    tcase_add_test(tcase, every_command_gets_a_result_when_one_kills_them_all);
    tcase_add_test(tcase, orphans_are_reaped);
    tcase_add_test(tcase, nobody_looks_into_the_hand);
    tcase_add_test(tcase, no_command_ignores_or_blocks_what_whoever_started_the_hand_did);
}
