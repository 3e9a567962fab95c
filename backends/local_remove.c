/* A tree that a sandbox's programs made may be deeper than any path, and closed to its owner. So it is
 * neither walked by recursion nor by path: a directory that is not empty is moved up to the top under a
 * number, until the top holds nothing but directories without directories. Two descriptors are enough, and
 * nothing depends on "..". Nobody else is expected to change the tree meanwhile; if somebody does (a late
 * call of a mount), the round is repeated a few times. */
#include "backends/local_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define REMOVE_ROUNDS 8

struct removal {
    int top;
    uint64_t deadline_ms;
    unsigned long long next; /* the next number at the top */
};

/* Opens a directory for reading, and to its owner first. */
static int open_directory(int parent, const char *name)
{
    cleanup_fd int path = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char proc[64];
    struct stat st;

    if (path < 0 || fstat(path, &st) < 0) {
        return -1;
    }
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", path);
    if ((st.st_mode & 0700) != 0700 && chmod(proc, 0700) < 0) {
        return -1;
    }
    return openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Moves a directory that is not empty to the top. */
static int move_up(struct removal *r, int parent, const char *name)
{
    cleanup_fd int fd = open_directory(parent, name); /* to move it needs it writable */
    char number[32];

    if (fd < 0) {
        return -1;
    }
    do {
        snprintf(number, sizeof number, "%llu", r->next++);
        if (renameat2(parent, name, r->top, number, RENAME_NOREPLACE) == 0) {
            return 0;
        }
    } while (errno == EEXIST);
    return -1;
}

static int remove_entry(struct removal *r, int parent, const struct dirent *entry)
{
    if (entry->d_type != DT_DIR) {
        if (unlinkat(parent, entry->d_name, 0) == 0 || errno == ENOENT) {
            return 0;
        }
        if (errno != EISDIR) {
            return -1;
        }
    }
    if (unlinkat(parent, entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES) {
        return -1;
    }
    return parent == r->top ? 0 : move_up(r, parent, entry->d_name);
}

/* Empties the directory `fd` (taken over): files go, directories with content go to the top. */
static int empty_directory(struct removal *r, int fd)
{
    cleanup_dir DIR *dir = fdopendir(fd);
    const struct dirent *entry;

    if (dir == NULL) {
        cleanup_fd_fn(&fd);
        return -1;
    }
    for (;;) {
        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            return errno != 0 ? -1 : 0;
        }
        if (clock_now_ms() >= r->deadline_ms) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (!is_dots(entry->d_name) && remove_entry(r, dirfd(dir), entry) < 0) {
            return -1;
        }
    }
}

/* Empties each directory at the top once, and the top of what is no directory. Counts what it met. */
static int one_round(struct removal *r, unsigned long *ret_met)
{
    int fd = openat(r->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_dir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    *ret_met = 0;
    if (dir == NULL) {
        cleanup_fd_fn(&fd);
        return -1;
    }
    for (;;) {
        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            return errno != 0 ? -1 : 0;
        }
        if (is_dots(entry->d_name)) {
            continue;
        }
        ++*ret_met;
        fd = open_directory(r->top, entry->d_name);
        if (fd >= 0 && empty_directory(r, fd) < 0) {
            return -1;
        }
        if (remove_entry(r, r->top, entry) < 0) {
            return -1;
        }
    }
}

/* Rounds until the top is empty. Each may move directories up behind the reader's back, which the next one
 * meets; so as long as numbers are given out there is progress. */
static int empty_top(struct removal *r)
{
    unsigned idle = 0;

    while (idle < REMOVE_ROUNDS) {
        unsigned long long before = r->next;
        unsigned long met;

        if (one_round(r, &met) < 0) {
            return -1;
        }
        if (met == 0) {
            return 0;
        }
        idle = r->next == before ? idle + 1 : 0;
    }
    errno = ENOTEMPTY;
    return -1;
}

int local_remove_tree(int parent_fd, const char *name, uint64_t deadline_ms, struct error *err)
{
    cleanup_fd int top = open_directory(parent_fd, name);
    struct removal r = {.top = top, .deadline_ms = deadline_ms};

    if (top < 0) {
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "remove %s", name);
    }
    if (empty_top(&r) < 0 || (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)) {
        return errno == ETIMEDOUT
                   ? error_set(err, ERROR_NO_ANSWER, 0, "not all files could be removed in time; once more")
                   : error_set_errno(err, errno, "remove %s", name);
    }
    return 0;
}
