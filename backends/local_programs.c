#include "backends/local_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "backends/hand_program.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

static char *search_path(const char *name)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];

    for (path = path != NULL ? path : DEFAULT_PATH; *path != '\0';) {
        size_t length = strcspn(path, ":");

        if (path[0] == '/' &&
            snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, path, name) < PATH_MAX) {
            char *found = program_at(candidate);

            if (found != NULL) {
                return found;
            }
        }
        path += length + (path[length] == ':');
    }
    return NULL;
}

int local_find_bwrap(char **ret, struct error *err)
{
    const char *given = getenv("HANDSFS_BWRAP");
    char *found;

    if (given != NULL && given[0] != '\0') {
        found = program_at(given);
        if (found == NULL) {
            return error_set(err, ERROR_IO, errno, "HANDSFS_BWRAP names no program: %.200s", given);
        }
    } else {
        found = search_path("bwrap");
        if (found == NULL) {
            return error_set(err, ERROR_IO, ENOENT,
                             "bubblewrap is not installed: the local backend needs bwrap (package bubblewrap)");
        }
    }
    *ret = found;
    return 0;
}

/* Reads until the end, keeps what fits. -1 at the deadline. */
static int drain(int fd, uint64_t deadline_ms, char *output, size_t size)
{
    size_t used = 0;
    char more[512];

    for (;;) {
        uint64_t now = clock_now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;
        size_t keep;

        if (now >= deadline_ms || (poll(&p, 1, (int)(deadline_ms - now)) < 0 && errno != EINTR)) {
            output[used] = '\0';
            return -1;
        }
        if (p.revents == 0) {
            continue;
        }
        n = read(fd, more, sizeof more);
        if (n <= 0) {
            output[used] = '\0';
            return n < 0 && errno != EINTR ? -1 : 0;
        }
        keep = (size_t)n < size - 1 - used ? (size_t)n : size - 1 - used;
        memcpy(output + used, more, keep);
        used += keep;
    }
}

int local_run(char *const argv[], unsigned timeout_ms, char *output, size_t size)
{
    static char *const environment[] = {NULL};
    uint64_t deadline = clock_now_ms() + timeout_ms;
    posix_spawn_file_actions_t actions;
    cleanup_fd int read_end = -1;
    cleanup_fd int write_end = -1;
    int ends[2];
    int status = 0;
    pid_t pid;
    int r;

    output[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -1;
    }
    read_end = ends[0];
    write_end = ends[1];
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, write_end, 1) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, write_end, 2) != 0 ||
        posix_spawn(&pid, argv[0], &actions, NULL, argv, environment) != 0;
    posix_spawn_file_actions_destroy(&actions);
    if (r != 0) {
        return -1;
    }
    close(take_fd(&write_end));
    if (drain(read_end, deadline, output, size) < 0) {
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}
