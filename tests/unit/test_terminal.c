/* A terminal that is lent to a command, and that is as it was however the process that lent it ends. */
#include "mount/terminal.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static int terminal, person;
static struct termios before;

/* Who has a handler of its own for a crash, as a sanitizer has, keeps it; here there is none. Once, before the
 * first terminal is made raw. */
static void forget_handlers(void)
{
    static bool done;

    for (size_t i = 0; !done && i < sizeof crashes / sizeof crashes[0]; i++) {
        signal(crashes[i], SIG_DFL);
    }
    done = true;
}

static void set_up(void)
{
    forget_handlers();
    person = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(person, 0);
    ck_assert_int_eq(grantpt(person), 0);
    ck_assert_int_eq(unlockpt(person), 0);
    terminal = open(ptsname(person), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(terminal, 0);
    ck_assert_int_eq(tcgetattr(terminal, &before), 0);
    before.c_cc[VINTR] = 7; /* it is not just made a usual one */
    before.c_lflag &= (tcflag_t)~ECHOE;
    ck_assert_int_eq(tcsetattr(terminal, TCSANOW, &before), 0);
}

static void tear_down(void)
{
    close(terminal);
    close(person);
}

static bool is_raw(void)
{
    struct termios now;

    ck_assert_int_eq(tcgetattr(terminal, &now), 0);
    return (now.c_lflag & (ICANON | ISIG | ECHO)) == 0 && (now.c_oflag & OPOST) == 0;
}

static void assert_as_before(void)
{
    struct termios now;

    ck_assert_int_eq(tcgetattr(terminal, &now), 0);
    ck_assert_uint_eq(now.c_iflag, before.c_iflag);
    ck_assert_uint_eq(now.c_oflag, before.c_oflag);
    ck_assert_uint_eq(now.c_cflag, before.c_cflag);
    ck_assert_uint_eq(now.c_lflag, before.c_lflag);
    ck_assert_mem_eq(now.c_cc, before.c_cc, sizeof now.c_cc);
}

static void make_raw(void)
{
    struct error err;

    ck_assert_int_eq(terminal_make_raw(terminal, &err), 0);
    ck_assert(is_raw());
}

START_TEST(it_is_raw_until_it_is_restored_as_often_as_one_likes)
{
    for (int i = 0; i < 3; i++) {
        make_raw();
        terminal_restore();
        assert_as_before();
        terminal_restore(); /* nothing to do */
        assert_as_before();
    }
}
END_TEST

START_TEST(what_somebody_else_sets_after_the_restoring_stays)
{
    make_raw();
    terminal_restore();
    before.c_cc[VINTR] = 5;
    ck_assert_int_eq(tcsetattr(terminal, TCSANOW, &before), 0);
    terminal_restore();
    assert_as_before();
}
END_TEST

START_TEST(what_is_no_terminal_is_refused)
{
    struct error err;
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(terminal_make_raw(ends[0], &err), -1);
    ck_assert_int_eq(terminal_make_raw(1000, &err), -1);
    terminal_restore();
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* A process that makes it raw and then ends by `signal`, or for 0 by exit(3): how it ended. */
static int ends_by(int signal_number)
{
    const struct rlimit none = {0, 0};
    struct error err;
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &none);
        if (terminal_make_raw(terminal, &err) < 0 || !is_raw()) {
            _exit(99);
        }
        if (signal_number == 0) {
            exit(7);
        }
        raise(signal_number);
        _exit(98);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(it_is_as_it_was_when_the_process_exits)
{
    int status = ends_by(0);

    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    assert_as_before();
}
END_TEST

START_TEST(it_is_as_it_was_when_the_process_crashes_and_the_crash_is_still_one)
{
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        int status = ends_by(crashes[i]);

        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == crashes[i], "signal %d: status %x", crashes[i],
                      (unsigned)status);
        assert_as_before();
    }
}
END_TEST

static void own_handler(int number)
{
    (void)number;
    terminal_restore();
    _exit(55);
}

START_TEST(a_handler_that_is_there_stays)
{
    struct error err;
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        signal(SIGSEGV, own_handler);
        (void)!terminal_make_raw(terminal, &err);
        raise(SIGSEGV);
        _exit(98);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 55);
    assert_as_before();
}
END_TEST

START_TEST(its_size_is_told_and_changes)
{
    static const struct winsize sizes[] = {{.ws_row = 24, .ws_col = 80}, {.ws_row = 1, .ws_col = 65535}, {0}};
    uint16_t rows, columns;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_int_eq(ioctl(person, TIOCSWINSZ, &sizes[i]), 0);
        terminal_size(terminal, &rows, &columns);
        ck_assert_uint_eq(rows, sizes[i].ws_row);
        ck_assert_uint_eq(columns, sizes[i].ws_col);
    }
}
END_TEST

START_TEST(what_is_no_terminal_has_no_size)
{
    uint16_t rows = 1, columns = 1;

    terminal_size(1000, &rows, &columns);
    ck_assert_uint_eq(rows, 0);
    ck_assert_uint_eq(columns, 0);
}
END_TEST

UNIT_SUITE(terminal)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, it_is_raw_until_it_is_restored_as_often_as_one_likes);
    tcase_add_test(tcase, what_somebody_else_sets_after_the_restoring_stays);
    tcase_add_test(tcase, what_is_no_terminal_is_refused);
    tcase_add_test(tcase, it_is_as_it_was_when_the_process_exits);
    tcase_add_test(tcase, it_is_as_it_was_when_the_process_crashes_and_the_crash_is_still_one);
    tcase_add_test(tcase, a_handler_that_is_there_stays);
    tcase_add_test(tcase, its_size_is_told_and_changes);
    tcase_add_test(tcase, what_is_no_terminal_has_no_size);
}
