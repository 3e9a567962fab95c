#include "mount/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "sandbox/buffer.h"
#include "sandbox/cleanup.h"

#define FUSERMOUNT "fusermount3"
#define MAX_STACKED 16 /* stale mounts one over the other */

/* ---- The kernel's list ---------------------------------------------------------------------- */

/* Undoes the kernel's \ooo for blanks and backslashes, in place. */
static void unescape(char *text)
{
    char *out = text;

    for (const char *p = text; *p != '\0'; out++) {
        if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
            p[3] >= '0' && p[3] <= '7') {
            *out = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
            p += 4;
        } else {
            *out = *p++;
        }
    }
    *out = '\0';
}

/* Looks at one line: "36 35 0:40 /root /mountpoint options [tags...] - type source options". */
static enum mounted read_line(char *line, const char *path, enum mounted before)
{
    char *rest = line;
    char *field = NULL;
    char *mountpoint = NULL;
    char *type = NULL;

    for (int i = 0; (field = strsep(&rest, " \n")) != NULL; i++) {
        if (i == 4) {
            mountpoint = field;
        } else if (i > 5 && strcmp(field, "-") == 0) {
            type = strsep(&rest, " \n");
            break;
        }
    }
    if (mountpoint == NULL || type == NULL) {
        return before;
    }
    unescape(mountpoint);
    if (strcmp(mountpoint, path) != 0) {
        return before;
    }
    return strcmp(type, "fuse.handsfs") == 0 ? MOUNTED_HANDSFS : MOUNTED_OTHER;
}

enum mounted mounted_at(const char *path)
{
    cleanup_file FILE *list = fopen("/proc/self/mountinfo", "re");
    cleanup_free char *line = NULL;
    size_t capacity = 0;
    enum mounted found = MOUNTED_NOTHING;

    while (list != NULL && getline(&line, &capacity, list) > 0) {
        found = read_line(line, path, found); /* a later line lies over an earlier one */
    }
    return found;
}

/* ---- Paths ---------------------------------------------------------------------------------- */

/* Resolves all but the last component, for a directory whose file system does not answer. */
static char *resolve_parent(const char *path)
{
    cleanup_free char *first = strdup(path);
    cleanup_free char *second = strdup(path);
    cleanup_free char *parent = NULL;
    char *full = NULL;

    if (first == NULL || second == NULL) {
        return NULL;
    }
    parent = realpath(dirname(first), NULL);
    if (parent == NULL ||
        asprintf(&full, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, basename(second)) < 0) {
        return NULL;
    }
    return full;
}

int mountpoint_path(const char *path, char **ret, struct error *err)
{
    char *full = realpath(path, NULL);

    if (full == NULL && errno != ENOENT && errno != ENOMEM && errno != ELOOP && errno != ENOTDIR) {
        full = resolve_parent(path);
    }
    if (full == NULL) {
        return error_set(err, error_code_of_errno(errno), errno, "%s: %s", path, strerror(errno));
    }
    *ret = full;
    return 0;
}

int absolute_path(const char *path, char **ret, struct error *err)
{
    char *full = resolve_parent(path);

    if (full == NULL) {
        return error_set(err, error_code_of_errno(errno), errno, "%s: %s", path, strerror(errno));
    }
    *ret = full;
    return 0;
}

/* ---- Taking away ---------------------------------------------------------------------------- */

/* Runs fusermount3; what it says goes to `said`. Returns its exit status, or -1 with errno. */
static int run_fusermount(const char *path, bool lazy, struct buffer *said)
{
    const char *const words[] = {FUSERMOUNT, lazy ? "-uz" : "-u", "--", path, NULL};
    posix_spawn_file_actions_t actions;
    int pipe_fds[2];
    int status = -1;
    pid_t pid;
    int r;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return -1;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDERR_FILENO);
    r = posix_spawnp(&pid, FUSERMOUNT, &actions, NULL, (char *const *)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    if (r == 0) {
        char text[512];
        ssize_t n;

        while ((n = read(pipe_fds[0], text, sizeof text)) > 0 || (n < 0 && errno == EINTR)) {
            if (n > 0 && buffer_append(said, text, (size_t)n) < 0) {
                continue; /* enough is known; it must not wait for a reader */
            }
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(pipe_fds[0]);
    errno = r;
    return r != 0 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int in_use(const char *path, struct error *err)
{
    return error_set(err, ERROR_NOT_REPLACEABLE, EBUSY, "%s is in use by some program", path);
}

static int unmount_as_user(const char *path, bool lazy, struct error *err)
{
    cleanup_buffer struct buffer said = BUFFER_INIT(ERROR_MESSAGE_MAX / 2);
    int status = run_fusermount(path, lazy, &said);
    char *text = buffer_text(&said);

    if (status < 0) {
        return error_set(err, ERROR_IO, errno, "cannot run " FUSERMOUNT ": %s", strerror(errno));
    }
    if (status == 0) {
        return 0;
    }
    if (text != NULL && strstr(text, strerror(EBUSY)) != NULL) {
        return in_use(path, err);
    }
    if (text != NULL) {
        text[strcspn(text, "\n")] = '\0';
    }
    return error_set(err, ERROR_IO, 0, "%s",
                     text != NULL && text[0] != '\0' ? text : FUSERMOUNT " failed");
}

int unmount_at(const char *path, bool lazy, struct error *err)
{
    if (geteuid() != 0) {
        return unmount_as_user(path, lazy, err);
    }
    if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) {
        return 0;
    }
    return errno == EBUSY ? in_use(path, err)
                          : error_set_errno(err, errno, "cannot unmount %s", path);
}

int unmount_stale(const char *path, bool known_dead, struct error *err)
{
    for (int i = 0; i < MAX_STACKED && mounted_at(path) == MOUNTED_HANDSFS; i++) {
        struct stat st;

        if (!known_dead && (stat(path, &st) == 0 || errno != ENOTCONN)) {
            return 0;
        }
        if (unmount_at(path, true, err) < 0) {
            return -1;
        }
    }
    return 0;
}

void remove_stale_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int fd = -1;
    struct stat st;

    if (strlen(path) >= sizeof address.sun_path || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 &&
        errno == ECONNREFUSED) {
        unlink(path);
    }
}
