/* The contract's rows about persistent shells. A row is a list of commands for one shell, one after the other, each
 * with what it must print and how it must end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/session.h"

#define TIMES_OUT (-1)
#define KILLED (-2)
#define ANY_OUTPUT NULL

struct line {
    const char *command;
    const char *output; /* stdout whole */
    int code;
    bool dropped; /* what it changes */
};

static struct run run_in(const char *shell, const char *command, uint64_t timeout_ms, bool reset)
{
    struct execution_request request = {.command = command,
                                        .command_length = strlen(command),
                                        .timeout_ms = timeout_ms,
                                        .shell = shell,
                                        .shell_reset = reset};

    return session_exec_request(&S, &request, NULL, 0);
}

static void play(const char *shell, const struct line *line)
{
    for (; line->command != NULL; line++) {
        struct run run = run_in(shell, line->command, line->code == TIMES_OUT ? 4000 : 30000, false);
        const char *text;

        assert_ran(run);
        text = buffer_text(&run.result.out[0]);
        if (line->output != NULL) {
            ck_assert_msg(strcmp(text, line->output) == 0, "%s\nprinted: %s\nand not: %s\nwith: %.*s",
                          line->command, text, line->output, (int)run.result.out[1].length,
                          (const char *)run.result.out[1].data);
        }
        ck_assert_msg(run.result.timed_out == (line->code == TIMES_OUT), "%s", line->command);
        if (line->code >= 0) {
            ck_assert_msg(run.result.exit_code == line->code, "%s\nended with %d", line->command,
                          run.result.exit_code);
        }
        ck_assert_msg(run.result.timed_out || line->dropped == (run.result.state != WIRE_STATE_KEPT),
                      "%s\nits state: %d", line->command, (int)run.result.state);
    }
}

#define PLAY(...) play("row", (const struct line[]){__VA_ARGS__, {NULL, NULL, 0, false}})
#define OK(command, output) {(command), (output), 0, false}

START_TEST(directory_variables_functions_and_umask_are_carried)
{
    PLAY(OK("export X=1; cd /tmp; f() { echo \"f $1 $X\"; }; umask 027", ""),
         OK("f a; pwd; umask; cd -", "f a 1\n/tmp\n0027\n/workspace\n"), OK("pwd", "/workspace\n"));
    PLAY(OK("mkdir -p $'/tmp/n/l\\n\\n' && cd $'/tmp/n/l\\n\\n'", ""), OK("pwd", "/tmp/n/l\n\n\n"));
}
END_TEST

START_TEST(options_and_aliases_are_carried_and_traces_and_traps_are_not)
{
    PLAY(OK("set -o pipefail; shopt -s nullglob extglob expand_aliases; alias hi='echo hi there'", ""),
         OK("hi; echo /no/such*; set -o | grep -c 'pipefail.*on'; f() { [[ $1 == @(a|b) ]]; }",
            "hi there\n\n1\n"),
         OK("f b && echo yes; trap 'echo trapped' EXIT TERM; set -x", "yes\n"),
         OK("trap | grep trapped; case $- in *x*) echo traced;; esac", ""), {"set -e; false; echo no", "", 1, false},
         {"echo on; false; echo no", "on\n", 1, false}, {"exit 3", "", 3, false});
}
END_TEST

START_TEST(variables_keep_their_values_attributes_and_absence)
{
    PLAY(OK("a=1; export M=$'two\\nlines\"`$(id)' N=n E=; declare -rx R=r; declare -ix I=5; unset HOME", ""),
         OK("printf '%s|' \"${a-none}\" \"$M\" \"$N\" \"${E-none}\" \"$R\" \"${HOME-none}\"; I=I+1; echo $I",
            "none|two\nlines\"`$(id)|n||r|none|6\n"),
         OK("(R=2) 2>/dev/null || echo read-only", "read-only\n"), OK("export IFS= code=7 i=8 REPLY=9", ""),
         OK("echo \"$code$i$REPLY${HOME-none}\"", "789none\n"));
}
END_TEST

START_TEST(hostile_names_corrupt_neither_the_saving_nor_the_restoring)
{
    PLAY(OK("for n in printf . [ trap eval set shopt alias exit declare unset read pwd umask cd export "
            "readonly return local test : compgen; do builtin eval \"function $n { echo bad; }\"; done; "
            "function -p { echo bad; }; builtin export A=5",
            ""),
         OK("builtin echo $A; A=6", "5\n"), OK("builtin echo $A", "6\n"));
    play("aliases",
         (const struct line[]){
             OK("shopt -s expand_aliases; alias builtin=echo printf=echo if=echo {=echo trap=echo "
                "declare=echo set=echo alias=echo unset=echo __handsfs_exit=echo; export C=2; \\exit 0", ""),
             OK("echo $C", "2\n"), {NULL, NULL, 0, false}});
    play("builtin", (const struct line[]){OK("builtin() { echo hijacked; }; export B=1", ""),
                                          OK("echo $B; builtin echo real", "1\nreal\n"),
                                          {"builtin() { :; }; readonly -f builtin; export B=2; exit 5", "", 5, true},
                                          OK("echo $B", "1\n"), {NULL, NULL, 0, false}});
}
END_TEST

START_TEST(traps_that_print_do_not_lose_the_state)
{
    PLAY(OK("set -ET; trap 'echo D' DEBUG; trap 'echo E' ERR; trap 'echo X' EXIT; export Z=1; :", ANY_OUTPUT),
         OK("trap - EXIT; echo $Z", "1\n"));
    play("exit", (const struct line[]){{"set -ET; trap 'echo D' DEBUG; export Z=1; exit 4", ANY_OUTPUT, 4, false},
                                       OK("echo $Z", "1\n"), {NULL, NULL, 0, false}});
}
END_TEST

START_TEST(what_ends_early_changes_nothing)
{
    PLAY(OK("export K=old; cd /tmp", ""), {"export K=new; exec echo x", "x\n", 0, true},
         {"export K=new; kill -9 $$", "", KILLED, true}, {"export K=new; kill $$", "", KILLED, true},
         {"trap 'echo own' EXIT; export K=new; exit 3", "own\n", 3, true},
         {"export K=new; cd /; echo part; sleep 300", "part\n", TIMES_OUT, true},
         {"export K=$(head -c 1200000 /dev/zero | tr '\\0' x)", "", 0, true}, OK("echo $K; pwd", "old\n/tmp\n"));
}
END_TEST

START_TEST(no_program_and_no_path_is_needed)
{
    PLAY(OK("export PATH=/nonexistent", ""), OK("echo $PATH; export Y=1", "/nonexistent\n"),
         OK("echo $Y; mkdir x 2>/dev/null || echo none; PATH=/usr/bin:/bin", "1\nnone\n"),
         OK("mkdir x && echo made", "made\n"));
}
END_TEST

START_TEST(exit_codes_and_bytes_are_exact)
{
    struct run run;

    PLAY({"true", "", 0, false}, {"false", "", 1, false}, {"(exit 7)", "", 7, false}, {"exit 3", "", 3, false},
         {"bash -c 'exit 42'", "", 42, false}, {"if", "", 2, false}, {"${x:?}", "", 127, false});
    run = run_in("row", "printf 'a\\0b\\377\\n'; echo e >&2; head -c 1400000 /dev/zero >&2", 0, false);
    assert_exit(run, 0);
    assert_bytes(&run.result.out[0], "a\0b\377\n", 5);
    ck_assert_uint_eq(run.result.out[1].length, MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(run.result.dropped[1], 1400002 - MAX_OUTPUT_BYTES);
}
END_TEST

START_TEST(a_background_process_outlives_its_call)
{
    PLAY(OK("sleep 987711 >/dev/null 2>&1 & export P=$!", ""), OK("jobs; kill -0 $P && echo lives", "lives\n"),
         OK("[ -e /proc/$P/fd/10 ] || echo no more than it was given", "no more than it was given\n"),
         OK("kill $P", ""));
}
END_TEST

START_TEST(a_restart_begins_anew_and_keeps_files)
{
    struct run run;

    PLAY(OK("export X=1; cd /tmp; f() { :; }; echo kept > /tmp/file", ""));
    run = run_in("row", "echo ${X-none}; pwd; declare -F f; cat /tmp/file", 0, true);
    assert_ran(run);
    assert_text(run.result.out[0], "none\n/workspace\nkept\n");
    run = run_in("row", "", 0, true);
    assert_exit(run, 0);
    PLAY(OK("pwd", "/workspace\n"));
}
END_TEST

START_TEST(a_directory_that_is_gone_stops_the_command)
{
    PLAY(OK("mkdir /tmp/gone && cd /tmp/gone", ""), OK("rmdir /tmp/gone", ""),
         {"echo not here", "", 1, false}, OK("pwd", "/workspace\n"));
}
END_TEST

START_TEST(shells_of_other_names_and_plain_commands_have_nothing_of_it)
{
    PLAY(OK("export X=1; cd /tmp", ""));
    play("other", (const struct line[]){OK("echo ${X-none}; pwd", "none\n/workspace\n"), {NULL, NULL, 0, false}});
    ck_assert_str_eq(session_output(&S, "echo ${X-none}; declare -F; trap; pwd"), "none\n/workspace\n");
}
END_TEST

/* Each adds one to what the one before has left, so that a lost or raced state is seen. 200 by default. */
START_TEST(many_calls_count_right_and_leave_the_same)
{
    static const char memory_of_first[] =
        "while read -r k v r; do [ $k = VmRSS: ] && echo $v; done </proc/1/status; :";
    const char *wanted = getenv("HANDSFS_SHELL_CALLS");
    unsigned calls = wanted != NULL ? (unsigned)atoi(wanted) : 200;
    unsigned long before, after;
    char text[32];

    PLAY(OK("export N=0000000", ""));
    before = strtoul(session_output(&S, memory_of_first), NULL, 10);
    for (unsigned i = 0; i < calls; i++) {
        struct run run = run_in("row", "printf -v N %07d $((10#$N + 1))", 0, false);

        assert_exit(run, 0);
    }
    snprintf(text, sizeof text, "%07u\n", calls);
    PLAY(OK("echo $N", text));
    after = strtoul(session_output(&S, memory_of_first), NULL, 10);
    ck_assert_msg(after <= before + 4096, "the sandbox's first process had %lu KiB, and now %lu", before, after);
    ck_assert_str_eq(session_output(&S, "ls -A /workspace"), "");
}
END_TEST

/* A sandbox that rows share has the shells of the row before, too. */
static void begin_shells_anew(void)
{
    static const char *const names[] = {"row", "aliases", "builtin", "exit", "other"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct run run = run_in(names[i], "", 0, true);

        assert_ran(run);
    }
}

TCase *case_shell(void)
{
    TCase *tc = tcase_create("shell");

    tcase_set_timeout(tc, 900);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_checked_fixture(tc, begin_shells_anew, NULL);
    tcase_add_test(tc, directory_variables_functions_and_umask_are_carried);
    tcase_add_test(tc, options_and_aliases_are_carried_and_traces_and_traps_are_not);
    tcase_add_test(tc, variables_keep_their_values_attributes_and_absence);
    tcase_add_test(tc, hostile_names_corrupt_neither_the_saving_nor_the_restoring);
    tcase_add_test(tc, traps_that_print_do_not_lose_the_state);
    tcase_add_test(tc, what_ends_early_changes_nothing);
    tcase_add_test(tc, no_program_and_no_path_is_needed);
    tcase_add_test(tc, exit_codes_and_bytes_are_exact);
    tcase_add_test(tc, a_background_process_outlives_its_call);
    tcase_add_test(tc, a_restart_begins_anew_and_keeps_files);
    tcase_add_test(tc, a_directory_that_is_gone_stops_the_command);
    tcase_add_test(tc, shells_of_other_names_and_plain_commands_have_nothing_of_it);
    tcase_add_test(tc, many_calls_count_right_and_leave_the_same);
    return tc;
}
