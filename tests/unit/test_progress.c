/* The line that shows long work, on a terminal of the test's own. */
#include "mount/progress.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 20000

static int terminal, shown; /* what programs write to, and what a person would see */

static void set_up(void)
{
    shown = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(shown, 0);
    ck_assert_int_eq(grantpt(shown), 0);
    ck_assert_int_eq(unlockpt(shown), 0);
    terminal = open(ptsname(shown), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(terminal, 0);
}

static void tear_down(void)
{
    close(terminal);
    close(shown);
}

/* What came to the screen until `last` did, or all there is where it is NULL. */
static const char *seen(const char *last)
{
    static char text[4096];
    size_t used = 0;
    struct pollfd p = {.fd = shown, .events = POLLIN};

    text[0] = '\0';
    while ((last == NULL || strstr(text, last) == NULL) && used < sizeof text - 1 &&
           poll(&p, 1, last != NULL ? WAIT_MS : 0) > 0) {
        ssize_t n = read(shown, text + used, sizeof text - 1 - used);

        if (n <= 0) {
            break;
        }
        used += (size_t)n;
        text[used] = '\0';
    }
    return text;
}

START_TEST(a_line_is_shown_and_taken_away_at_the_end)
{
    struct progress progress;

    progress_begin(&progress, terminal);
    progress.sandbox.say(&progress.sandbox, "pulling debian:12");
    progress_end(&progress);
    ck_assert_str_eq(seen("12\r\033[K"), "\r\033[Kpulling debian:12\r\033[K");
}
END_TEST

START_TEST(work_that_says_nothing_shows_nothing)
{
    struct progress progress;

    progress_begin(&progress, terminal);
    progress_end(&progress);
    ck_assert_str_eq(seen(NULL), "");
}
END_TEST

START_TEST(control_characters_do_not_reach_the_terminal)
{
    struct progress progress;

    progress_begin(&progress, terminal);
    progress.sandbox.say(&progress.sandbox, "a\033[2Jb\nc");
    progress_end(&progress);
    ck_assert_str_eq(seen("c\r\033[K"), "\r\033[Ka?[2Jb?c\r\033[K");
}
END_TEST

START_TEST(a_long_line_is_cut_before_it_wraps)
{
    struct progress progress;
    char text[300];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    progress_begin(&progress, terminal);
    progress.sandbox.say(&progress.sandbox, text);
    progress_end(&progress);
    ck_assert_uint_eq(strspn(seen("x\r\033[K") + strlen("\r\033[K"), "x"), 79);
}
END_TEST

START_TEST(where_there_is_no_terminal_nothing_is_said)
{
    struct progress progress;
    int ends[2];
    char byte;

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    progress_begin(&progress, ends[1]);
    progress.sandbox.say(&progress.sandbox, "pulling");
    progress_end(&progress);
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}
END_TEST

START_TEST(a_signal_takes_the_line_away_and_ends_the_process)
{
    int status = 0;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct progress progress;

        signal(SIGINT, SIG_DFL); /* the test's runner has one of its own */
        dup2(terminal, STDERR_FILENO);
        progress_begin(&progress, STDERR_FILENO);
        progress.sandbox.say(&progress.sandbox, "pulling");
        raise(SIGINT);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    ck_assert_str_eq(seen("g\r\033[K"), "\r\033[Kpulling\r\033[K");
}
END_TEST

START_TEST(a_signal_that_the_caller_ignores_stays_ignored)
{
    struct progress progress;

    ck_assert(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    ck_assert(signal(SIGINT, SIG_DFL) != SIG_ERR); /* the test's runner has one of its own */
    progress_begin(&progress, terminal);
    progress.sandbox.say(&progress.sandbox, "pulling");
    ck_assert_int_eq(raise(SIGHUP), 0);
    progress_end(&progress);
    ck_assert(signal(SIGHUP, SIG_DFL) == SIG_IGN);
    ck_assert(signal(SIGINT, SIG_DFL) == SIG_DFL);
}
END_TEST

UNIT_SUITE(progress)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_line_is_shown_and_taken_away_at_the_end);
    tcase_add_test(tcase, work_that_says_nothing_shows_nothing);
    tcase_add_test(tcase, control_characters_do_not_reach_the_terminal);
    tcase_add_test(tcase, a_long_line_is_cut_before_it_wraps);
    tcase_add_test(tcase, where_there_is_no_terminal_nothing_is_said);
    tcase_add_test(tcase, a_signal_takes_the_line_away_and_ends_the_process);
    tcase_add_test(tcase, a_signal_that_the_caller_ignores_stays_ignored);
}
