#include "hand/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

/* What getdents64(2) gives; the C library's readdir() would allocate. */
struct dirent_of_kernel {
    uint64_t ino;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* Few names at a time: a process that is about to be gone is looked at before it is. */
#define NAMES_BYTES 256

/* ---- Reading /proc --------------------------------------------------------------------------- */

/* The name of a process in /proc, or 0. */
static pid_t pid_of_name(const char *name)
{
    char *end;
    long pid;

    if (name[0] < '1' || name[0] > '9') {
        return 0;
    }
    pid = strtol(name, &end, 10);
    return *end == '\0' && pid <= INT32_MAX ? (pid_t)pid : 0;
}

/* Reads the line of /proc/PID/stat. A process may have any name, so the fields are counted from the
 * last parenthesis. */
static int process_parse(const char *line, struct process *ret)
{
    const char *p = strrchr(line, ')');
    long parent, group, session, threads;
    unsigned long long start;
    char state;

    if (p == NULL || sscanf(p + 1,
                            " %c %ld %ld %ld %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld"
                            " %*d %llu",
                            &state, &parent, &group, &session, &threads, &start) != 6) {
        return -1;
    }
    ret->parent = (pid_t)parent;
    ret->group = (pid_t)group;
    ret->session = (pid_t)session;
    ret->start = start;
    /* The first thread may have ended before the others: a zombie to look at, and yet it runs. */
    ret->dead = (state == 'Z' || state == 'X') && threads <= 1;
    ret->stopped = state == 'T';
    ret->owner = NULL;
    return 0;
}

static int process_read(int proc_fd, pid_t pid, struct process *ret)
{
    char path[32];
    char line[512];
    ssize_t n;
    cleanup_fd int fd = -1;

    snprintf(path, sizeof path, "%ld/stat", (long)pid);
    fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    n = read(fd, line, sizeof line - 1);
    if (n <= 0) {
        return -1;
    }
    line[n] = '\0';
    ret->pid = pid;
    return process_parse(line, ret);
}

pid_t process_parent(int proc_fd, pid_t pid)
{
    struct process process;

    return process_read(proc_fd, pid, &process) < 0 ? -1 : process.parent;
}

size_t process_name(int proc_fd, pid_t pid, char *name, size_t size)
{
    char path[32];
    ssize_t n;
    cleanup_fd int fd = -1;

    snprintf(path, sizeof path, "%ld/comm", (long)pid);
    fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, name, size);
    if (n <= 0) {
        return 0;
    }
    if (name[n - 1] == '\n') {
        n--;
    }
    return strnlen(name, (size_t)n);
}

static int list_add(struct process_list *list, const struct process *process)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? 2 * list->capacity : 64;
        struct process *at;

        if (list->count >= TREE_MAX_PROCESSES) {
            return 0;
        }
        at = realloc(list->at, capacity * sizeof *at);
        if (at == NULL) {
            return -1;
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = *process;
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct process *)a)->pid;
    pid_t y = ((const struct process *)b)->pid;

    return (x > y) - (x < y);
}

int processes_read(struct process_list *list, int proc_fd)
{
    _Alignas(struct dirent_of_kernel) char names[NAMES_BYTES];
    cleanup_fd int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;

    list->count = 0;
    if (fd < 0) {
        return -1;
    }
    while ((n = syscall(SYS_getdents64, fd, names, sizeof names)) > 0) {
        for (long at = 0; at < n;) {
            struct dirent_of_kernel *entry = (void *)(names + at);
            pid_t pid = pid_of_name(entry->name);
            struct process process;

            at += entry->length;
            if (pid > 0 && process_read(proc_fd, pid, &process) == 0 && list_add(list, &process) < 0) {
                list->count = 0;
                return -1;
            }
        }
    }
    if (n < 0) {
        list->count = 0;
        return -1;
    }
    if (list->count > 0) {
        qsort(list->at, list->count, sizeof *list->at, by_pid);
    }
    return 0;
}

void processes_release(struct process_list *list)
{
    free(list->at);
    *list = (struct process_list){NULL, 0, 0};
}

/* ---- The tree -------------------------------------------------------------------------------- */

struct process *processes_find(const struct process_list *list, pid_t pid)
{
    struct process key = {.pid = pid};

    return list->count == 0 ? NULL : bsearch(&key, list->at, list->count, sizeof key, by_pid);
}

void processes_mark_below(struct process_list *list)
{
    bool more = true;

    /* A parent has the lower number except where numbers wrapped: mostly two rounds. */
    while (more) {
        more = false;
        for (size_t i = 0; i < list->count; i++) {
            struct process *p = &list->at[i];
            const struct process *parent = p->owner != NULL ? NULL : processes_find(list, p->parent);

            if (parent != NULL && parent->owner != NULL) {
                p->owner = parent->owner;
                more = true;
            }
        }
    }
}

size_t processes_of(const struct process_list *list, const void *owner)
{
    size_t n = 0;

    for (size_t i = 0; i < list->count; i++) {
        n += list->at[i].owner == owner && !list->at[i].dead;
    }
    return n;
}

/* ---- Killing --------------------------------------------------------------------------------- */

/* Signals this very process and not another one that has got its number meanwhile. */
static void process_signal(int proc_fd, const struct process *process, int signal)
{
    cleanup_fd int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    struct process now;

    if (fd < 0 && errno != ENOSYS) {
        return;
    }
    if (process_read(proc_fd, process->pid, &now) < 0 || now.start != process->start) {
        return;
    }
    if (fd < 0) {
        kill(process->pid, signal);
    } else {
        syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    }
}

/* A group is signalled at once, whatever its members fork meanwhile. It does not reach beyond the tree:
 * a session is left for a new one only, which makes all of its members descendants of who made it. */
static void group_signal(const struct process_list *list, pid_t group, int signal)
{
    const struct process *leader = processes_find(list, group);

    if (group > 1 && (leader == NULL || leader->owner != NULL)) {
        kill(-group, signal);
    }
}

static void signal_all(int proc_fd, const struct process_list *list, int signal)
{
    pid_t self = getpid();
    pid_t last = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct process *p = &list->at[i];

        if (p->owner == NULL || p->dead || p->pid == self || (signal == SIGSTOP && p->stopped)) {
            continue;
        }
        if (p->group != last) {
            group_signal(list, p->group, signal);
            last = p->group;
        }
        process_signal(proc_fd, p, signal);
    }
}

/* True where one has an owner now and had none before. */
static bool grew(const struct process_list *before, const struct process_list *now)
{
    for (size_t i = 0; i < now->count; i++) {
        const struct process *p = &now->at[i];
        const struct process *old;

        if (p->owner == NULL || p->dead) {
            continue;
        }
        old = processes_find(before, p->pid);
        if (old == NULL || old->owner == NULL || old->start != p->start) {
            return true;
        }
    }
    return false;
}

bool tree_kill(int proc_fd, tree_mark mark, void *arg, bool force)
{
    struct process_list before = {NULL, 0, 0};
    struct process_list now = {NULL, 0, 0};
    uint64_t end = clock_now_ms() + TREE_MAX_MS;
    bool still = false;
    bool any = false;

    /* Two looks at least, or what stands still would never be seen to. */
    for (int pass = 0; pass < 2 || (pass < TREE_MAX_PASSES && clock_now_ms() <= end); pass++) {
        struct process_list swap = before;

        before = now;
        now = swap;
        if (processes_read(&now, proc_fd) < 0) {
            any = true; /* nobody knows */
            break;
        }
        mark(&now, arg);
        still = !grew(&before, &now);
        if (still) {
            break;
        }
        any = true;
        signal_all(proc_fd, &now, SIGSTOP);
    }
    if (still || force) {
        signal_all(proc_fd, &now, SIGKILL);
    }
    processes_release(&before);
    processes_release(&now);
    return any;
}
