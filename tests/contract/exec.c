/* The contract's rows about Exec: streams, codes, data, background. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "tests/contract/session.h"

START_TEST(stdout_and_stderr_are_separate)
{
    struct run run = session_exec(&S, "printf 'o\\n'; printf 'e\\n' 1>&2", 0);

    assert_exit(run, 0);
    assert_text(run.result.out[0], "o\n");
    assert_text(run.result.out[1], "e\n");
    ck_assert(!run.result.timed_out);
    ck_assert_uint_eq(run.result.dropped[0] + run.result.dropped[1], 0);
}
END_TEST

START_TEST(an_exit_code_is_reported)
{
    static const struct {
        const char *command;
        int code;
    } rows[] = {{"exit 7", 7}, {"true", 0}, {"false", 1}, {"exit 255", 255}, {"bash -c 'exit 42'", 42},
                {"/nonexistent/program", 127}, {"/etc", 126}};
    struct run run = session_exec(&S, rows[_i].command, 30000);

    assert_exit(run, rows[_i].code);
    ck_assert_int_eq(run.result.signal, 0);
    ck_assert(!run.result.timed_out);
}
END_TEST

START_TEST(a_command_runs_in_the_workdir)
{
    ck_assert_str_eq(session_output(&S, "pwd"), "/workspace\n");
}
END_TEST

START_TEST(a_relative_cwd_starts_at_the_workdir)
{
    struct execution_request request = {.command = "pwd", .command_length = 3, .cwd = "a/b c"};
    struct run run;

    session_output(&S, "mkdir -p 'a/b c'");
    run = session_exec_request(&S, &request, NULL, 0);
    assert_exit(run, 0);
    assert_text(run.result.out[0], "/workspace/a/b c\n");
}
END_TEST

START_TEST(a_missing_cwd_is_an_error_that_names_it)
{
    struct execution_request request = {.command = "true", .command_length = 4, .cwd = "/no/such/place"};
    struct run run = session_exec_request(&S, &request, NULL, 0);

    ck_assert(run.failed);
    ck_assert_int_eq(run.err.code, ERROR_NO_SUCH_FILE);
    ck_assert_ptr_nonnull(strstr(run.err.message, "/no/such/place"));
}
END_TEST

START_TEST(variables_of_one_command_are_added_to_the_session_s)
{
    static const char *const env[] = {"ONE=1 1", "TWO=$(id)/$x\nline", "EMPTY=", NULL};
    struct execution_request request = {.env = env};
    struct run run;

    request.command = "printf '%s|%s|%s' \"$ONE\" \"$TWO\" \"${EMPTY-unset}\"";
    request.command_length = strlen(request.command);
    run = session_exec_request(&S, &request, NULL, 0);
    assert_exit(run, 0);
    assert_text(run.result.out[0], "1 1|$(id)/$x\nline|");
    ck_assert_str_eq(session_output(&S, "echo ${ONE-unset}"), "unset\n");
}
END_TEST

START_TEST(stdin_is_empty_unless_given)
{
    ck_assert_str_eq(session_output(&S, "wc -c"), "0\n");
}
END_TEST

START_TEST(stdin_of_ten_mebibytes_arrives_whole)
{
    size_t length = 10u << 20;
    cleanup_free uint8_t *input = noise(length, 11);
    struct execution_request request = {.has_stdin = true};
    struct run run;

    request.command = "wc -c; echo tail";
    request.command_length = strlen(request.command);
    run = session_exec_request(&S, &request, input, length);
    assert_exit(run, 0);
    assert_text(run.result.out[0], "10485760\ntail\n");
}
END_TEST

START_TEST(stdin_that_nobody_reads_delays_nothing)
{
    size_t length = 4u << 20;
    cleanup_free uint8_t *input = noise(length, 12);
    struct execution_request request = {.command = "echo x", .command_length = 6, .has_stdin = true};
    struct run run = session_exec_request(&S, &request, input, length);

    assert_exit(run, 0);
    assert_text(run.result.out[0], "x\n");
}
END_TEST

START_TEST(output_over_the_cap_is_drained_and_counted)
{
    struct run run = session_exec(&S, "head -c 1400000 /dev/zero; printf 'done\\n' >&2", 0);

    assert_exit(run, 0);
    ck_assert_uint_eq(run.result.out[0].length, MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(run.result.dropped[0], 1400000 - MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(run.result.dropped[1], 0);
    assert_text(run.result.out[1], "done\n");
}
END_TEST

START_TEST(both_streams_over_the_cap_are_counted_each)
{
    struct run run = session_exec(
        &S, "head -c 3000000 /dev/zero & head -c 2000000 /dev/zero >&2; wait", 0);

    assert_exit(run, 0);
    ck_assert_uint_eq(run.result.out[0].length, MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(run.result.out[1].length, MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(run.result.dropped[0], 3000000 - MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(run.result.dropped[1], 2000000 - MAX_OUTPUT_BYTES);
}
END_TEST

START_TEST(output_exactly_at_the_cap_is_not_truncated)
{
    struct run run = session_exec(&S, "head -c 1048576 /dev/zero", 0);

    assert_exit(run, 0);
    ck_assert_uint_eq(run.result.out[0].length, MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(run.result.dropped[0], 0);
}
END_TEST

START_TEST(output_is_bytes_not_text)
{
    struct run run = session_exec(&S, "printf 'a\\0b\\377\\376\\200z'", 0);

    assert_exit(run, 0);
    assert_bytes(&run.result.out[0], "a\0b\377\376\200z", 7);
}
END_TEST

START_TEST(a_command_of_four_mebibytes_runs)
{
    size_t length = 4u << 20;
    cleanup_free char *command = malloc(length + 64);
    struct execution_request request = {0};
    struct run run;

    ck_assert_ptr_nonnull(command);
    memset(command, 'x', length);
    memcpy(command, "v='", 3);
    snprintf(command + length, 64, "%s", "'; echo ${#v}");
    request.command = command;
    request.command_length = strlen(command);
    run = session_exec_request(&S, &request, NULL, 0);
    assert_exit(run, 0);
    assert_text(run.result.out[0], "4194301\n");
}
END_TEST

START_TEST(a_command_text_never_hangs_or_poisons_the_next)
{
    static const struct {
        const char *command;
        const char *out; /* NULL: whatever, but it answers */
    } rows[] = {
        {"cat <<EOT\nhere $((1+1))\nEOT\n", "here 2\n"}, {"echo 'unbalanced", NULL},
        {"exec 1>&-", ""},
        {"echo trailing \\", "trailing"},
        {"cat <<EOT\nno end", "no end"},
        {"exec 1>&- 2>&- 0<&-; sleep 0.1", ""},
        {"# only a comment", ""},
        {"", ""},
    };
    struct run run = session_exec(&S, rows[_i].command, 20000);

    assert_ran(run);
    ck_assert(!run.result.timed_out);
    if (rows[_i].out != NULL) {
        ck_assert_uint_ge(run.result.out[0].length, strlen(rows[_i].out));
        ck_assert_int_eq(memcmp(run.result.out[0].length > 0 ? (char *)run.result.out[0].data : "",
                                rows[_i].out, strlen(rows[_i].out)),
                         0);
    }
    ck_assert_str_eq(session_output(&S, "echo next"), "next\n");
}
END_TEST

START_TEST(a_nul_in_the_command_is_refused)
{
    struct execution_request request = {.command = "echo a\0b", .command_length = 8};
    struct run run = session_exec_request(&S, &request, NULL, 0);

    ck_assert(run.failed);
    ck_assert_int_eq(run.err.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(a_background_process_delays_nothing_and_lives_on)
{
    uint64_t start = clock_now_ms();
    struct run run = session_exec(&S, "sleep 987123 & echo started", 60000);

    assert_exit(run, 0);
    ck_assert(!run.result.timed_out);
    assert_text(run.result.out[0], "started\n");
    ck_assert_uint_lt(clock_now_ms() - start, 30000);
    ck_assert_int_eq(session_wait_count(&S, "sleep 987123", 1), 1); /* it may have been bash still */
}
END_TEST

START_TEST(a_background_writer_lives_on_after_the_answer)
{
    uint64_t start = clock_now_ms();
    struct run run = session_exec(
        &S, "(while sleep 0.1; do echo tick; echo tick >>ticks; done) & echo started", 0);
    int first;
    int second;

    assert_exit(run, 0);
    first = atoi(session_output(&S, "cat ticks 2>/dev/null | wc -l"));
    do {
        second = atoi(session_output(&S, "cat ticks 2>/dev/null | wc -l"));
    } while (second <= first && clock_now_ms() - start < 60000);
    ck_assert_int_gt(second, first);
}
END_TEST

START_TEST(there_is_no_controlling_terminal)
{
    ck_assert_str_eq(session_output(&S, "(: </dev/tty) 2>/dev/null && echo tty || echo none"), "none\n");
}
END_TEST

START_TEST(thirty_two_commands_at_once_lose_no_byte)
{
    const char *commands[32];
    struct run runs[32];

    for (unsigned i = 0; i < 32; i++) {
        commands[i] = "seq 1 20000; sleep 0.1; echo end >&2";
    }
    session_exec_all(&S, commands, 32, runs);
    for (unsigned i = 0; i < 32; i++) {
        assert_exit(runs[i], 0);
        ck_assert_uint_eq(runs[i].result.out[0].length, 108894);
        assert_text(runs[i].result.out[1], "end\n");
        assert_bytes(&runs[i].result.out[0], runs[0].result.out[0].data, 108894);
    }
}
END_TEST

START_TEST(commands_and_file_calls_share_the_file_system)
{
    struct buffer content;
    struct error err;

    assert_ok(session_write(&S, "/workspace/from-host", "host\n", 5, &err), err);
    ck_assert_str_eq(session_output(&S, "cat from-host"), "host\n");
    session_output(&S, "echo inside >from-inside");
    assert_ok(session_read(&S, "from-inside", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "inside\n");
}
END_TEST

/* The number of processes inside, and their names. Told by one process: those of a pipeline would count each
 * other, or not, as they happen to be started. */
#define TELL_PROCESSES                                                                             \
    "set -- /proc/[0-9]*; echo $#; "                                                               \
    "for p; do read -r name <$p/comm; echo \"${p##*/} $name\"; done 2>/dev/null; true"

/* The least number in so many looks, or the first one up to `enough`: what watches over a command may live a
 * moment longer than the answer takes. */
static int fewest_processes(unsigned looks, int enough, const char **ret_told)
{
    int fewest = INT_MAX;

    for (unsigned i = 0; i < looks && fewest > enough; i++) {
        const char *told = session_output(&S, TELL_PROCESSES);

        if (atoi(told) < fewest) {
            fewest = atoi(told);
            *ret_told = told;
        }
    }
    return fewest;
}

START_TEST(five_hundred_commands_leave_nothing_behind)
{
    const char *told = NULL;
    int before = fewest_processes(10, 0, &told);
    int after;

    for (unsigned i = 0; i < 500; i++) {
        struct run run = session_exec(&S, "true", 0);

        assert_exit(run, 0);
    }
    after = fewest_processes(100, before, &told);
    ck_assert_msg(after <= before, "%d processes were there before, and now\n%s", before, told);
}
END_TEST

TCase *case_exec(void)
{
    TCase *tc = tcase_create("exec");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_test(tc, stdout_and_stderr_are_separate);
    tcase_add_loop_test(tc, an_exit_code_is_reported, 0, 7);
    tcase_add_test(tc, a_command_runs_in_the_workdir);
    tcase_add_test(tc, a_relative_cwd_starts_at_the_workdir);
    tcase_add_test(tc, a_missing_cwd_is_an_error_that_names_it);
    tcase_add_test(tc, variables_of_one_command_are_added_to_the_session_s);
    tcase_add_test(tc, stdin_is_empty_unless_given);
    tcase_add_test(tc, stdin_of_ten_mebibytes_arrives_whole);
    tcase_add_test(tc, stdin_that_nobody_reads_delays_nothing);
    tcase_add_test(tc, output_over_the_cap_is_drained_and_counted);
    tcase_add_test(tc, both_streams_over_the_cap_are_counted_each);
    tcase_add_test(tc, output_exactly_at_the_cap_is_not_truncated);
    tcase_add_test(tc, output_is_bytes_not_text);
    tcase_add_test(tc, a_command_of_four_mebibytes_runs);
    tcase_add_loop_test(tc, a_command_text_never_hangs_or_poisons_the_next, 0, 8);
    tcase_add_test(tc, a_nul_in_the_command_is_refused);
    tcase_add_test(tc, a_background_process_delays_nothing_and_lives_on);
    tcase_add_test(tc, a_background_writer_lives_on_after_the_answer);
    tcase_add_test(tc, there_is_no_controlling_terminal);
    tcase_add_test(tc, thirty_two_commands_at_once_lose_no_byte);
    tcase_add_test(tc, commands_and_file_calls_share_the_file_system);
    tcase_add_test(tc, five_hundred_commands_leave_nothing_behind);
    return tc;
}
