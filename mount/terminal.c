#include "mount/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t raw_fd = -1;

void terminal_restore(void)
{
    int fd = raw_fd;

    if (fd >= 0) {
        raw_fd = -1;
        tcsetattr(fd, TCSANOW, &before);
    }
}

/* A bug of ours is bad enough without a terminal that shows nothing any more. */
static void crashed(int number)
{
    terminal_restore();
    signal(number, SIG_DFL);
    raise(number);
}

/* Once for the process. Who has a handler of its own, as a sanitizer has, keeps it. */
static void expect_the_end(void)
{
    static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    static bool done;

    if (done) {
        return;
    }
    done = true;
    atexit(terminal_restore);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        struct sigaction action;

        if (sigaction(crashes[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
            signal(crashes[i], crashed);
        }
    }
}

int terminal_make_raw(int fd, struct error *err)
{
    struct termios raw;

    if (tcgetattr(fd, &before) < 0) {
        return error_set_errno(err, errno, "the terminal");
    }
    expect_the_end();
    raw = before;
    cfmakeraw(&raw);
    raw_fd = fd;
    if (tcsetattr(fd, TCSANOW, &raw) < 0) {
        raw_fd = -1;
        return error_set_errno(err, errno, "the terminal");
    }
    return 0;
}

void terminal_size(int fd, uint16_t *ret_rows, uint16_t *ret_columns)
{
    struct winsize size = {0};

    if (ioctl(fd, TIOCGWINSZ, &size) < 0) {
        size = (struct winsize){0};
    }
    *ret_rows = size.ws_row;
    *ret_columns = size.ws_col;
}
