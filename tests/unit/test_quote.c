/* An argument vector as a shell's text: what bash makes of it is asked of bash. */
#include "mount/quote.h"
#include "exec/utf8.h"
#include "sandbox/cleanup.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <sys/wait.h>

#define WORDS_MAX 8

static char *quoted(char *const *words, size_t count)
{
    struct buffer out = BUFFER_INIT(1 << 20);
    struct error err = {0};

    ck_assert_int_eq(quote_words(&out, words, count, &err), 0);
    ck_assert(utf8_valid(out.data, out.length));
    return buffer_text(&out);
}

/* Runs the text with bash and reads what it printed. */
static size_t run_bash(const char *text, char *said, size_t size)
{
    int fds[2];
    size_t length = 0;
    ssize_t n;
    pid_t pid;
    int status;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execl("/bin/bash", "bash", "-c", text, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    while ((n = read(fds[0], said + length, size - length)) > 0) {
        length += (size_t)n;
    }
    close(fds[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    return length;
}

START_TEST(bash_gets_back_exactly_the_words_that_went_in)
{
    static const char *const rows[] = {
        "plain",         "",         "two words", "don't",     "''",   "$HOME",
        "`id`",          "$(id)",    "a\nb",      "\t",        "*",    "~",
        "{a,b}",         "a=b",      "\\",        "\\'",       "!x",   "#no",
        ";true",         "a|b",      "&",         "--",        "-e",   "\xc3\xa9t\xc3\xa9",
        "\xff\xfe'\\\n", "\x01\x7f", "if",        "x\xff\x37", "(a)",  "<in",
        ">out",          "[[",       "\"q\"",     "%s%d",      "a\\nb"};
    const size_t count = sizeof rows / sizeof rows[0];

    for (size_t i = 0; i < count; i++) {
        char *words[] = {(char *)"printf", (char *)"%s\\001", (char *)rows[i],
                         (char *)rows[count - 1 - i]};
        cleanup_free char *text = quoted(words, 4);
        char said[256], expected[256];
        size_t length = run_bash(text, said, sizeof said);
        int n = snprintf(expected, sizeof expected, "%s\001%s\001", rows[i], rows[count - 1 - i]);

        ck_assert_msg((int)length == n && memcmp(said, expected, length) == 0, "row %zu: %s", i,
                      text);
    }
}
END_TEST

START_TEST(plain_words_stay_readable)
{
    char *words[] = {(char *)"grep", (char *)"-rn", (char *)"a=b", (char *)"./src"};
    cleanup_free char *text = quoted(words, 4);

    ck_assert_str_eq(text, "grep -rn a=b ./src");
}
END_TEST

START_TEST(a_reserved_word_or_an_assignment_is_a_commands_name)
{
    static const char *const rows[][2] = {{"time", "'time'"}, {"A=b", "'A=b'"}, {"!", "'!'"},
                                          {"if", "'if'"},     {"{", "'{'"},     {"-x", "'-x'"}};
    char *words[] = {(char *)rows[_i][0]};
    cleanup_free char *text = quoted(words, 1);

    ck_assert_str_eq(text, rows[_i][1]);
}
END_TEST

START_TEST(one_word_is_the_commands_text)
{
    struct buffer out = BUFFER_INIT(100);
    struct error err = {0};
    char *words[] = {(char *)"echo $HOME | cat"};

    ck_assert_int_eq(quote_command(&out, words, 1, &err), 0);
    ck_assert_str_eq(buffer_text(&out), "echo $HOME | cat");
    buffer_release(&out);
}
END_TEST

START_TEST(a_text_that_is_not_utf8_runs_all_the_same)
{
    struct buffer out = BUFFER_INIT(100);
    struct error err = {0};
    char *words[] = {(char *)"printf %s 'x\xff'; printf y"};
    char said[16];

    ck_assert_int_eq(quote_command(&out, words, 1, &err), 0);
    ck_assert(utf8_valid(out.data, out.length));
    ck_assert_uint_eq(run_bash(buffer_text(&out), said, sizeof said), 3);
    ck_assert_int_eq(memcmp(said, "x\xffy", 3), 0);
    buffer_release(&out);
}
END_TEST

START_TEST(a_command_over_the_bound_is_refused)
{
    struct buffer out = BUFFER_INIT(10);
    struct error err = {0};
    char *words[] = {(char *)"echo", (char *)"something long"};

    ck_assert_int_eq(quote_command(&out, words, 2, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    buffer_release(&out);
}
END_TEST

UNIT_SUITE(quote)
{
    tcase_add_test(tcase, bash_gets_back_exactly_the_words_that_went_in);
    tcase_add_test(tcase, plain_words_stay_readable);
    tcase_add_loop_test(tcase, a_reserved_word_or_an_assignment_is_a_commands_name, 0, 6);
    tcase_add_test(tcase, one_word_is_the_commands_text);
    tcase_add_test(tcase, a_text_that_is_not_utf8_runs_all_the_same);
    tcase_add_test(tcase, a_command_over_the_bound_is_refused);
}
