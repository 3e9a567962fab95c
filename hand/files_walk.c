#include "hand/files_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hand/files_slow.h"
#include "sandbox/cleanup.h"

/* openat2(2) gives EAGAIN where a path with ".." (out of a link's text) may have been led astray by a
 * rename that happened meanwhile. */
#define MAX_TRIES 32

/* A path that is short enough for the kernel. */
static int open_piece(const struct files *files, int dir, const char *path, size_t length, int flags,
                      uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
    };
    char text[PATH_MAX];

    if (length >= sizeof text) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (files->without_openat2) {
        return files_walk_slowly(dir, path, length, flags, (resolve & RESOLVE_NO_SYMLINKS) == 0);
    }
    memcpy(text, path, length);
    text[length] = '\0';
    for (int i = 0; i < MAX_TRIES; i++) {
        int fd = (int)syscall(SYS_openat2, dir, text, &how, sizeof how);

        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
            return fd;
        }
    }
    errno = ESTALE;
    return -1;
}

/* Where to cut a path that is too long for the kernel: at the last slash that it could take, or 0. */
static size_t cut_of(const char *path)
{
    const char *slash = memrchr(path, '/', PATH_MAX);

    return slash == NULL ? 0 : (size_t)(slash - path);
}

/* Longer paths go in pieces. Behind the first one no link is followed, since it would be taken to begin
 * in the piece's directory; no program inside can name such a file in one go either. */
static int walk(const struct files *files, int base, const char *path, size_t length, int flags,
                uint64_t resolve)
{
    cleanup_fd int dir = -1;

    while (length >= PATH_MAX) {
        size_t cut = cut_of(path);
        int next;

        if (cut == 0) {
            errno = ENAMETOOLONG;
            return -1;
        }
        next = open_piece(files, dir >= 0 ? dir : base, path, cut, O_PATH | O_DIRECTORY,
                          resolve);
        if (next < 0) {
            return -1;
        }
        if (dir >= 0) {
            close(dir);
        }
        dir = next;
        path += cut + 1;
        length -= cut + 1;
        resolve |= RESOLVE_NO_SYMLINKS;
    }
    return open_piece(files, dir >= 0 ? dir : base, path, length, flags, resolve);
}

int files_walk(const struct files *files, enum wire_base base, const char *path, size_t length,
               int flags)
{
    int dir = base == WIRE_BASE_ROOT ? files->root : files->workdir;
    int fd;

    if (length == 0) {
        return fcntl(dir, F_DUPFD_CLOEXEC, 0);
    }
    fd = walk(files, dir, path, length, flags, base == WIRE_BASE_ROOT ? 0 : RESOLVE_NO_SYMLINKS);
    if (fd < 0 && errno == ELOOP && base == WIRE_BASE_WORKDIR) {
        errno = ESTALE;
    }
    return fd;
}

int files_walk_from(const struct files *files, int dir, const char *path, size_t length, int flags)
{
    return length == 0 ? fcntl(dir, F_DUPFD_CLOEXEC, 0)
                       : walk(files, dir, path, length, flags, RESOLVE_NO_SYMLINKS);
}

bool files_has_openat2(int dir)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    int fd = (int)syscall(SYS_openat2, dir, ".", &how, sizeof how);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0 || (errno != ENOSYS && errno != EPERM); /* EPERM: a seccomp filter of old */
}

/* ---- Targets --------------------------------------------------------------------------------- */

int target_stat(struct target *t)
{
    if (!t->has_stat) {
        if (fstat(t->fd, &t->stat) < 0) {
            return -1;
        }
        t->has_stat = true;
    }
    return 0;
}

bool target_is_expected(const struct wire_ref *ref, const struct stat *st)
{
    return ref->ino == 0 || (ref->ino == files_inode(st) && ref->dev == (uint64_t)st->st_dev);
}

bool target_is_open(const struct target *t)
{
    return t->handle != NULL && t->handle->kind != HANDLE_HELD;
}

/* The workdir itself, by far the most frequent directory: nothing needs to be asked. */
static int find_workdir(const struct files *files, const struct wire_ref *ref, struct target *ret)
{
    ret->fd = files->workdir;
    if (ref->ino != 0 && (ref->ino != files->workdir_ino || ref->dev != files->workdir_dev)) {
        errno = ESTALE;
        return -1;
    }
    return 0;
}

static int find_path(const struct files *files, const struct wire_ref *ref, struct target *ret)
{
    if (ref->path.length == 0 && ref->base == WIRE_BASE_WORKDIR) {
        return find_workdir(files, ref, ret);
    }
    ret->own = files_walk(files, ref->base, ref->path.data, ref->path.length, O_PATH | O_NOFOLLOW);
    ret->fd = ret->own;
    if (ret->fd < 0 || target_stat(ret) < 0) {
        return -1;
    }
    if (!target_is_expected(ref, &ret->stat)) {
        errno = ESTALE;
        return -1;
    }
    return 0;
}

int target_find(struct files *files, const struct wire_ref *ref, struct target *ret,
                struct error *err)
{
    ret->ref = ref;
    if (ref->handle == 0) {
        return find_path(files, ref, ret) < 0 ? target_fail(ref, NULL, errno, err) : 0;
    }
    ret->handle = handles_get(&files->handles, ref->handle);
    if (ret->handle == NULL) {
        return target_fail(ref, NULL, errno, err);
    }
    ret->fd = ret->handle->fd;
    return 0;
}

int target_find_directory(struct files *files, const struct wire_ref *ref, struct target *ret,
                          struct error *err)
{
    if (target_find(files, ref, ret, err) < 0) {
        return -1;
    }
    if (ret->fd == files->workdir || (ret->handle != NULL && ret->handle->kind == HANDLE_DIRECTORY)) {
        return 0;
    }
    if (target_stat(ret) < 0) {
        return target_fail(ref, NULL, errno, err);
    }
    if (S_ISLNK(ret->stat.st_mode) && ref->base == WIRE_BASE_WORKDIR) {
        return target_fail(ref, NULL, ESTALE, err);
    }
    return S_ISDIR(ret->stat.st_mode) ? 0 : target_fail(ref, NULL, ENOTDIR, err);
}

void target_release(struct target *t)
{
    if (t->own >= 0) {
        close(t->own);
    }
    handle_put(t->handle);
    *t = (struct target)TARGET_INIT;
}

/* ---- From a descriptor to another of the same file -------------------------------------------- */

void files_proc_name(char name[FILES_PROC_NAME_SIZE], int fd)
{
    snprintf(name, FILES_PROC_NAME_SIZE, "self/fd/%d", fd);
}

/* Without a procfs: by name again, and then a look whether it was the same file. */
static int open_by_name(const struct files *files, const struct target *t, int flags)
{
    const struct wire_text *path = &t->ref->path;
    const char *slash = memrchr(path->data, '/', path->length);
    size_t parent = slash == NULL ? 0 : (size_t)(slash - path->data);
    struct wire_text last = {path->data + (slash == NULL ? 0 : parent + 1), 0};
    cleanup_fd int dir = -1;
    cleanup_fd int fd = -1;
    char name[FILES_NAME_SIZE];
    struct stat st;

    last.length = path->length - (size_t)(last.data - path->data);
    if (t->ref->handle != 0 || last.length == 0 || last.length > WIRE_MAX_NAME) {
        errno = EBADF;
        return -1;
    }
    files_text(name, &last);
    dir = files_walk(files, t->ref->base, path->data, parent, O_PATH | O_DIRECTORY);
    if (dir < 0) {
        return -1;
    }
    fd = openat(dir, name, flags | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -1;
    }
    if (st.st_dev != t->stat.st_dev || st.st_ino != t->stat.st_ino ||
        (st.st_mode & S_IFMT) != (t->stat.st_mode & S_IFMT)) {
        errno = ESTALE;
        return -1;
    }
    return take_fd(&fd);
}

int target_open(const struct files *files, const struct target *t, int flags)
{
    char name[FILES_PROC_NAME_SIZE];

    flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    if (files->proc >= 0) {
        files_proc_name(name, t->fd);
        return openat(files->proc, name, flags);
    }
    if ((flags & O_DIRECTORY) != 0) {
        return openat(t->fd, ".", flags);
    }
    return open_by_name(files, t, flags);
}

/* ---- Errors ----------------------------------------------------------------------------------- */

#define DESCRIPTION_MAX 320 /* of a path in a message; the end of a longer one says less */

static void describe(char to[DESCRIPTION_MAX], const struct wire_ref *ref,
                     const struct wire_text *name)
{
    static const struct wire_text none = {"", 0};

    if (ref->handle != 0) {
        snprintf(to, DESCRIPTION_MAX, "handle %llx", (unsigned long long)ref->handle);
        return;
    }
    name = name == NULL ? &none : name;
    snprintf(to, DESCRIPTION_MAX, "%s%.*s%s%.*s", ref->base == WIRE_BASE_ROOT ? "/" : "",
             (int)ref->path.length, ref->path.data,
             name->length > 0 && ref->path.length > 0 ? "/" : "", (int)name->length, name->data);
    if (to[0] == '\0') {
        to[0] = '.';
        to[1] = '\0';
    }
}

int target_fail(const struct wire_ref *ref, const struct wire_text *name, int os_errno,
                struct error *err)
{
    char text[DESCRIPTION_MAX];

    describe(text, ref, name);
    return error_set_errno(err, os_errno, "%s", text);
}

int target_refuse(const struct wire_ref *ref, const struct wire_text *name, enum error_code code,
                  int os_errno, const char *reason, struct error *err)
{
    char text[DESCRIPTION_MAX];

    describe(text, ref, name);
    return error_set(err, code, os_errno, "%s: %s", text, reason);
}
