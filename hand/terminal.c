/* Terminals for commands. The device that makes them is looked up once, before anything runs here, and
 * opened through what was found then: whatever a command puts into /dev later, no FIFO or device of its
 * own is ever opened. The command's side is not opened by a name at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include "hand/exec.h"
#include "sandbox/cleanup.h"

#define PTMX_MAJOR 5
#define PTMX_MINOR 2

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

/* O_PATH opens no device. -1 with errno. */
static int find_at(const char *path)
{
    cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return -1;
    }
    if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(PTMX_MAJOR, PTMX_MINOR)) {
        errno = ENODEV;
        return -1;
    }
    return take_fd(&fd);
}

/* A descriptor of ours that may be read and written; -1 with errno. */
static int open_found(const struct executions *set, int found)
{
    char path[48];

    snprintf(path, sizeof path, "self/fd/%d", found);
    return openat(set->proc_fd, path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/* The one beside the terminals themselves first: a /dev/ptmx of its own may lead to others. But that may
 * be for root alone. */
void terminals_find(struct executions *set)
{
    static const char *const places[] = {"/dev/pts/ptmx", "/dev/ptmx"};

    set->ptmx_fd = -1;
    for (unsigned i = 0; i < sizeof places / sizeof places[0] && set->ptmx_fd < 0; i++) {
        cleanup_fd int found = find_at(places[i]);
        cleanup_fd int opened = found < 0 ? -1 : open_found(set, found);

        if (opened >= 0) {
            set->ptmx_fd = take_fd(&found);
        } else {
            set->ptmx_errno = errno;
        }
    }
}

static int set_size(int fd, uint16_t rows, uint16_t columns)
{
    struct winsize size = {.ws_row = rows, .ws_col = columns};

    return ioctl(fd, TIOCSWINSZ, &size);
}

int terminal_open(struct executions *set, uint16_t rows, uint16_t columns, int *ret_ours,
                  int *ret_theirs, struct error *err)
{
    cleanup_fd int ours = -1;
    int theirs;
    int unlocked = 0;

    if (set->ptmx_fd < 0) {
        return error_set_errno(err, set->ptmx_errno, "the sandbox has no terminals: /dev/ptmx");
    }
    ours = open_found(set, set->ptmx_fd);
    if (ours < 0 || ioctl(ours, TIOCSPTLCK, &unlocked) < 0) {
        return error_set_errno(err, errno, "the sandbox gives no terminal: /dev/ptmx");
    }
    theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (theirs < 0) {
        return error_set_errno(err, errno, "the command's side of a terminal");
    }
    *ret_theirs = theirs;
    if (set_size(ours, rows, columns) < 0) {
        return error_set_errno(err, errno, "the size of a terminal");
    }
    *ret_ours = take_fd(&ours);
    return 0;
}

/* In the middle of a line the character ends what a reader waits for, and only the next one its input. */
size_t terminal_eof(int fd, uint8_t last, uint8_t ret[2])
{
    struct termios mode;
    bool in_line;

    if (tcgetattr(fd, &mode) < 0 || mode.c_cc[VEOF] == _POSIX_VDISABLE) {
        return 0;
    }
    in_line = (mode.c_lflag & ICANON) != 0 && last != 0 && last != '\n' && last != '\r';
    ret[0] = ret[1] = mode.c_cc[VEOF];
    return in_line ? 2 : 1;
}

void execution_resize(struct execution *e, uint16_t rows, uint16_t columns)
{
    if (e->terminal >= 0) {
        set_size(e->terminal, rows, columns);
    }
}
