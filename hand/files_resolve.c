/* RESOLVE: where a path leads when links are followed as a process inside follows them, told as a path from
 * the workdir. The kernel walks it, from the root; where that led is read from procfs, as is where the
 * workdir is by now, and the one is compared with the other. A name at the end that does not exist is
 * allowed, also behind links: then its directory is resolved, and the name appended. */
#include "hand/files_server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hand/files_walk.h"
#include "sandbox/cleanup.h"

#define MAX_LINKS 40 /* dangling links at the end of a path; the kernel's own bound is the same */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The path by which procfs knows a descriptor. 0, or -1 with errno. */
static int proc_path(const struct files *files, int fd, char to[PATH_MAX])
{
    char name[FILES_PROC_NAME_SIZE];
    ssize_t n;

    files_proc_name(name, fd);
    n = readlinkat(files->proc, name, to, PATH_MAX);
    if (n < 0) {
        return -1;
    }
    if (n == PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    to[n] = '\0';
    return 0;
}

/* What follows the directory's path in `path`, or NULL where it is not below it. */
static const char *below(const char *path, const char *dir)
{
    size_t length = strlen(dir);

    if (strcmp(dir, "/") == 0) {
        return path + 1;
    }
    if (strncmp(path, dir, length) != 0) {
        return NULL;
    }
    return path[length] == '/' ? path + length + 1 : path[length] == '\0' ? path + length : NULL;
}

/* The path of a descriptor's file from the root. ENOENT where it was removed: its path has " (deleted)"
 * behind it then, or no longer leads to it. */
static int path_from_root(const struct files *files, int fd, char to[PATH_MAX])
{
    char root[PATH_MAX];
    char path[PATH_MAX];
    cleanup_fd int again = -1;
    struct stat st, st2;
    const char *rest;

    if (proc_path(files, files->root, root) < 0 || proc_path(files, fd, path) < 0) {
        return -1;
    }
    rest = below(path, root);
    if (rest == NULL) {
        errno = EXDEV;
        return -1;
    }
    again = files_walk(files, WIRE_BASE_ROOT, rest, strlen(rest), O_PATH | O_NOFOLLOW);
    if (again < 0 || fstat(again, &st) < 0 || fstat(fd, &st2) < 0) {
        return -1;
    }
    if (!is_same(&st, &st2)) {
        errno = ENOENT;
        return -1;
    }
    memcpy(to, rest, strlen(rest) + 1);
    return 0;
}

/* Joins directory and rest into `to`. Both may be "". 0, or -1 with errno. */
static int join(char to[PATH_MAX], const char *dir, const char *rest)
{
    int n = snprintf(to, PATH_MAX, "%s%s%s", dir, dir[0] != '\0' && rest[0] != '\0' ? "/" : "", rest);

    if (n < 0 || n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return 0;
}

/* A path without its leading slashes; `dir` is where a relative one begins. */
static int begin_at(char to[PATH_MAX], const char *dir, const char *path)
{
    return path[0] == '/' ? join(to, "", path + strspn(path, "/")) : join(to, dir, path);
}

/* The end of a path that could not be walked: its directory, and its last name, which has to be one that
 * could be made. */
static int split(char *path, const char **ret_name)
{
    size_t length = strlen(path);
    char *slash;

    while (length > 0 && path[length - 1] == '/') {
        path[--length] = '\0';
    }
    slash = strrchr(path, '/');
    *ret_name = slash == NULL ? path : slash + 1;
    if (length == 0 || strcmp(*ret_name, ".") == 0 || strcmp(*ret_name, "..") == 0) {
        errno = ENOENT;
        return -1;
    }
    if (slash != NULL) {
        *slash = '\0';
    }
    return 0;
}

/* `path` (changed) ends in something that does not exist. Either its directory exists and the answer is in
 * `to`: 0. Or there is a link that dangles: 1, and `path` is where that leads. Or -1 with errno. */
static int resolve_missing(const struct files *files, char path[PATH_MAX], char to[PATH_MAX])
{
    char whole[PATH_MAX];
    char link[PATH_MAX];
    char dir_path[PATH_MAX];
    const char *name;
    cleanup_fd int dir = -1;
    ssize_t n;

    memcpy(whole, path, strlen(path) + 1);
    if (split(whole, &name) < 0) {
        return -1;
    }
    dir = files_walk(files, WIRE_BASE_ROOT, whole, name == whole ? 0 : strlen(whole),
                     O_PATH | O_DIRECTORY);
    if (dir < 0 || path_from_root(files, dir, dir_path) < 0) {
        return -1;
    }
    n = readlinkat(dir, name, link, sizeof link - 1);
    if (n < 0 && errno == EINVAL) { /* somebody has just made it */
        return 1;
    }
    if (n < 0) {
        return errno == ENOENT ? join(to, dir_path, name) : -1;
    }
    link[n] = '\0';
    return begin_at(path, dir_path, link) < 0 ? -1 : 1;
}

/* Where `path`, from the root, leads: a path from the root without links. */
static int resolve(const struct files *files, char path[PATH_MAX], char to[PATH_MAX])
{
    for (int i = 0; i < MAX_LINKS; i++) {
        cleanup_fd int fd =
            files_walk(files, WIRE_BASE_ROOT, path, strlen(path), O_PATH);
        int r;

        if (fd >= 0) {
            return path_from_root(files, fd, to);
        }
        r = errno == ENOENT ? resolve_missing(files, path, to) : -1;
        if (r <= 0) {
            return r;
        }
    }
    errno = ELOOP;
    return -1;
}

/* The call's path, from the root. */
static int path_of(const struct files *files, int dir, const struct wire_text *data,
                   char to[PATH_MAX])
{
    char text[PATH_MAX];
    char dir_path[PATH_MAX];

    if (data->length >= sizeof text) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (data->length == 0 || memchr(data->data, '\0', data->length) != NULL) {
        errno = data->length == 0 ? ENOENT : EINVAL;
        return -1;
    }
    files_text(text, data);
    return path_from_root(files, dir, dir_path) < 0 ? -1 : begin_at(to, dir_path, text);
}

/* The answer: what of the path is below the workdir. */
static int answer(struct serving *s, const char *path)
{
    char workdir[PATH_MAX];
    const char *rest;

    if (path_from_root(s->files, s->files->workdir, workdir) < 0) {
        return -1;
    }
    rest = workdir[0] == '\0' ? path : below(path, workdir);
    if (rest == NULL) {
        errno = EXDEV;
        return -1;
    }
    if (buffer_append(&s->scratch, rest, strlen(rest)) < 0) {
        return -1;
    }
    s->reply.data = (struct wire_text){(const char *)s->scratch.data, s->scratch.length};
    return 0;
}

int files_resolve(struct serving *s, struct error *err)
{
    cleanup_target struct target dir = TARGET_INIT;
    char path[PATH_MAX];
    char leads_to[PATH_MAX];

    if (target_find_directory(s->files, &s->call->ref, &dir, err) < 0) {
        return -1;
    }
    if (s->files->proc < 0) {
        return target_fail(&s->call->ref, NULL, EOPNOTSUPP, err);
    }
    if (path_of(s->files, dir.fd, &s->call->data, path) < 0 ||
        resolve(s->files, path, leads_to) < 0 || answer(s, leads_to) < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    return 0;
}
