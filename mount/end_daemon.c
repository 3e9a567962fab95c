#include "mount/end_daemon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

/* Holds on to the entry's process, so that no later owner of its number can be meant. -1 where it is gone. */
static int open_daemon(const struct mount_entry *entry)
{
    cleanup_fd int fd = (int)syscall(SYS_pidfd_open, entry->pid, 0);

    return fd >= 0 && process_started(entry->pid) == entry->started ? take_fd(&fd) : -1;
}

/* Whether it has ended within the time. */
static bool ends_within(int daemon, uint64_t ms)
{
    uint64_t deadline = clock_now_ms() + ms;

    for (;;) {
        struct pollfd waiting = {.fd = daemon, .events = POLLIN};
        uint64_t now = clock_now_ms();
        int r = poll(&waiting, 1, now < deadline ? (int)(deadline - now) : 0);

        if (r > 0 || (r == 0 && now >= deadline)) {
            return r > 0;
        }
    }
}

int end_daemon(const struct mount_entry *entry, uint64_t grace_ms, struct error *err)
{
    cleanup_fd int daemon = open_daemon(entry);

    if (daemon < 0 || (grace_ms > 0 && ends_within(daemon, grace_ms))) {
        return 0;
    }
    if (syscall(SYS_pidfd_send_signal, daemon, SIGTERM, NULL, 0) < 0 && errno != ESRCH) {
        return error_set_errno(err, errno, "cannot end the daemon of %s", entry->mountpoint);
    }
    if (!ends_within(daemon, DAEMON_END_MS)) {
        return error_set(err, ERROR_NO_ANSWER, 0,
                         "%s: the daemon (process %d) did not end within %d s", entry->mountpoint,
                         (int)entry->pid, DAEMON_END_MS / 1000);
    }
    return 0;
}
