#include "backends/docker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/cleanup.h"

#define MAX_FILE 16384 /* bytes of a file below /proc/PID that we read */

void docker_process_release(struct docker_process *process)
{
    cleanup_fd_fn(&process->dir);
    *process = (struct docker_process)DOCKER_NO_PROCESS;
}

bool docker_fast_lane(const struct docker_engine *engine)
{
    const char *relay = getenv("HANDSFS_DOCKER_RELAY");

    return geteuid() == 0 && docker_engine_is_local(engine) &&
           (relay == NULL || relay[0] == '\0' || strcmp(relay, "0") == 0);
}

/* A whole file below `dir`, NUL-terminated. */
static bool read_file(int dir, const char *name, char text[MAX_FILE])
{
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t used = 0;
    ssize_t n;

    while (fd >= 0 && used < MAX_FILE - 1 && (n = read(fd, text + used, MAX_FILE - 1 - used)) != 0) {
        if (n < 0) {
            return false;
        }
        used += (size_t)n;
    }
    text[used] = '\0';
    return fd >= 0;
}

/* What stands behind "NAME:\t" in /proc/PID/status. */
static const char *status_field(const char *status, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = status; line != NULL && *line != '\0';) {
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            return line + length + 1;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return NULL;
}

/* The numbers of a field, at most `max`; SIZE_MAX where there are more. */
static size_t numbers(const char *field, uint32_t *ret, size_t max)
{
    size_t count = 0;
    char *end;

    for (;;) {
        unsigned long value;

        field += strspn(field, " \t");
        if (*field < '0' || *field > '9') {
            return count;
        }
        value = strtoul(field, &end, 10);
        if (count == max) {
            return SIZE_MAX;
        }
        ret[count++] = (uint32_t)value;
        field = end;
    }
}

/* The user of its file accesses is the fourth of the four numbers. */
static bool read_rights(const char *status, struct sandbox_rights *rights)
{
    const char *uid = status_field(status, "Uid");
    const char *gid = status_field(status, "Gid");
    const char *groups = status_field(status, "Groups");
    const char *effective = status_field(status, "CapEff");
    uint32_t uids[4], gids[4];

    if (uid == NULL || gid == NULL || groups == NULL || effective == NULL || numbers(uid, uids, 4) != 4 ||
        numbers(gid, gids, 4) != 4) {
        return false;
    }
    rights->uid = uids[3];
    rights->gid = gids[3];
    rights->group_count = numbers(groups, rights->groups, SANDBOX_MAX_GROUPS);
    rights->capabilities = strtoull(effective, NULL, 16);
    rights->known = rights->group_count != SIZE_MAX;
    return rights->known;
}

/* The last of the numbers that it has in the PID namespaces around it is 1. */
static bool is_first(const char *status)
{
    const char *field = status_field(status, "NSpid");
    uint32_t pids[32];
    size_t count = field == NULL ? 0 : numbers(field, pids, sizeof pids / sizeof pids[0]);

    return count != SIZE_MAX && count > 1 && pids[count - 1] == 1;
}

/* Field 22 of /proc/PID/stat; the name in field 2 may have anything in it. */
static bool read_start(int dir, unsigned long long *ret)
{
    char text[MAX_FILE];
    const char *at;

    if (!read_file(dir, "stat", text) || (at = strrchr(text, ')')) == NULL) {
        return false;
    }
    at++;
    for (unsigned field = 3; field < 22; field++) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    *ret = strtoull(at, NULL, 10);
    return *ret != 0;
}

static bool same_user_namespace(int dir)
{
    struct stat theirs, ours;

    return fstatat(dir, "ns/user", &theirs, 0) == 0 && stat("/proc/self/ns/user", &ours) == 0 &&
           theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

int docker_process_open(pid_t pid, const char *id, struct docker_process *ret)
{
    cleanup_docker_process struct docker_process process = DOCKER_NO_PROCESS;
    char path[64];
    char text[MAX_FILE];

    if (pid <= 1) {
        return -1;
    }
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    process.dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (process.dir < 0 || !read_file(process.dir, "cgroup", text) || strstr(text, id) == NULL ||
        !read_file(process.dir, "status", text) || !is_first(text) || !read_rights(text, &process.rights) ||
        !read_start(process.dir, &process.start)) {
        return -1;
    }
    process.foreign_users = !same_user_namespace(process.dir);
    *ret = process;
    process.dir = -1;
    return 0;
}
