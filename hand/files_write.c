/* The contract's WriteFile: WRITE_FILE looks at the target, makes the directories above it, and opens a
 * temporary file beside it; WRITE fills that; COMMIT gives it the target's mode and owner, syncs it, looks at
 * the target again, and renames. Whatever fails takes the temporary file and the new directories away. */
#include "hand/files_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hand/files_mount.h"
#include "hand/files_parents.h"
#include "hand/files_server.h"
#include "hand/files_walk.h"
#include "sandbox/cleanup.h"

#define NEW_FILE_MODE 0644
#define MAX_TRIES 8              /* for a temporary name, and against directories that vanish */
#define MAX_KEPT_NAMES 4096      /* bytes of extended attributes' names that are kept ... */
#define MAX_KEPT_VALUE 4096      /* ... and bytes of a value */
#define TEMPORARY_NAME_SIZE 32
#define ACL "system.posix_acl_access"

struct replacement {
    const struct files *files;
    struct wire_ref ref; /* its path is `path` */
    char *path;          /* NUL-terminated */
    const char *name;    /* the last part of it */
    uint64_t size;       /* as declared */
    uint64_t written;
    bool finished; /* committed or given up: there is no temporary file */
    int dir;       /* the target's directory, O_PATH */
    char temporary[TEMPORARY_NAME_SIZE];
    struct parents parents;
};

/* The file that is there and is to be replaced. */
struct existing {
    int fd; /* O_PATH; -1: a new file */
    struct stat stat;
};

static void close_existing(struct existing *existing)
{
    if (existing->fd >= 0) {
        close(existing->fd);
        existing->fd = -1;
    }
}

static void give_up(struct replacement *r)
{
    if (!r->finished) {
        unlinkat(r->dir, r->temporary, 0);
        parents_remove(&r->parents, r->files);
        r->finished = true;
    }
}

void replacement_free(struct replacement *r)
{
    if (r == NULL) {
        return;
    }
    give_up(r);
    if (r->dir >= 0) {
        close(r->dir);
    }
    parents_release(&r->parents);
    free(r->path);
    free(r);
}

static int refuse(const struct replacement *r, enum error_code code, const char *reason,
                  struct error *err)
{
    return target_refuse(&r->ref, NULL, code, 0, reason, err);
}

/* An errno of an attempt to make something in the target's directory. */
static int fail_to_make(const struct replacement *r, int os_errno, struct error *err)
{
    switch (os_errno) {
    case EACCES:
    case EPERM:
    case EROFS:
        return target_refuse(&r->ref, NULL, ERROR_NOT_WRITABLE, os_errno, strerror(os_errno), err);
    default:
        return target_fail(&r->ref, NULL, os_errno, err);
    }
}

/* ---- The target ----------------------------------------------------------------------------------- */

/* Whether a target that is a link leads to a directory. From the workdir no link leads anywhere. */
static bool leads_to_directory(const struct replacement *r)
{
    cleanup_fd int fd = files_walk(r->files, r->ref.base, r->path, r->ref.path.length,
                                   O_PATH | O_DIRECTORY);

    return fd >= 0;
}

/* Looks at what has the target's name, and refuses what is not to be replaced. */
static int look(const struct replacement *r, struct existing *ret, struct error *err)
{
    cleanup_fd int fd = openat(r->dir, r->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    ret->fd = -1;
    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0 || fstat(fd, &ret->stat) < 0) {
        return target_fail(&r->ref, NULL, errno, err);
    }
    if (!target_is_expected(&r->ref, &ret->stat)) {
        return target_fail(&r->ref, NULL, ESTALE, err);
    }
    switch (ret->stat.st_mode & S_IFMT) {
    case S_IFDIR:
        return target_fail(&r->ref, NULL, EISDIR, err);
    case S_IFCHR:
    case S_IFBLK:
        return refuse(r, ERROR_NOT_REPLACEABLE, "cannot be replaced: it is a device", err);
    case S_IFLNK:
        return leads_to_directory(r) ? target_fail(&r->ref, NULL, EISDIR, err) : 0;
    case S_IFREG:
        break;
    default:
        return refuse(r, ERROR_NOT_REGULAR, "not a regular file", err);
    }
    if (files_is_mount_point(fd)) {
        return refuse(r, ERROR_NOT_REPLACEABLE, "cannot be replaced: it is a mount point", err);
    }
    ret->fd = take_fd(&fd);
    return 0;
}

/* ---- WRITE_FILE ------------------------------------------------------------------------------------- */

static int open_temporary(struct replacement *r)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        uint64_t nonce;
        int fd;

        if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) {
            return -1;
        }
        snprintf(r->temporary, sizeof r->temporary, ".handsfs-%016llx", (unsigned long long)nonce);
        fd = openat(r->dir, r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

/* The directory, and a look at the target before anything is made in it. */
static int open_directory(struct replacement *r, struct error *err)
{
    size_t length = r->name == r->path ? 0 : (size_t)(r->name - r->path) - 1;
    struct existing existing;
    bool refused;

    r->dir = parents_open(&r->parents, r->files, r->ref.base, r->path, length, &refused);
    if (r->dir < 0) {
        return refused ? fail_to_make(r, errno, err) : target_fail(&r->ref, NULL, errno, err);
    }
    if (look(r, &existing, err) < 0) {
        parents_remove(&r->parents, r->files);
        return -1;
    }
    close_existing(&existing);
    return 0;
}

/* Another call that fails may take away the directory that it made and this one found: then again. */
static int begin(struct replacement *r, struct error *err)
{
    for (int i = 0;; i++) {
        int fd;

        if (open_directory(r, err) < 0) {
            return -1;
        }
        fd = open_temporary(r);
        if (fd >= 0) {
            r->finished = false;
            return fd;
        }
        fail_to_make(r, errno, err);
        parents_remove(&r->parents, r->files);
        if (err->code != ERROR_NO_SUCH_FILE || i == MAX_TRIES) {
            return -1;
        }
        close(r->dir);
        r->dir = -1;
    }
}

static struct replacement *replacement_new(const struct files *files, const struct wire_call *call)
{
    const struct wire_text *path = &call->ref.path;
    struct replacement *r = calloc(1, sizeof *r);
    char *text = malloc(path->length + 1);
    const char *slash;

    if (r == NULL || text == NULL) {
        free(r);
        free(text);
        errno = ENOMEM;
        return NULL;
    }
    files_text(text, path);
    slash = strrchr(text, '/');
    r->files = files;
    r->ref = call->ref;
    r->ref.path.data = text;
    r->path = text;
    r->name = slash == NULL ? text : slash + 1;
    r->size = call->size;
    r->finished = true;
    r->dir = -1;
    r->parents.anchor = -1;
    return r;
}

int files_write_file(struct serving *s, struct error *err)
{
    const struct wire_ref *ref = &s->call->ref;
    struct replacement *r;
    struct handle *handle;
    int fd;

    if (ref->handle != 0 || s->call->size > INT64_MAX) {
        return target_fail(ref, NULL, EINVAL, err);
    }
    if (ref->path.length == 0) {
        return target_fail(ref, NULL, EISDIR, err);
    }
    r = replacement_new(s->files, s->call);
    if (r == NULL) {
        return target_fail(ref, NULL, errno, err);
    }
    fd = begin(r, err);
    if (fd < 0) {
        replacement_free(r);
        return -1;
    }
    handle = handle_new(HANDLE_WRITE_FILE, fd);
    if (handle == NULL) {
        target_fail(ref, NULL, errno, err);
        replacement_free(r);
        return -1;
    }
    handle->target = r;
    s->reply.handle = handles_add(&s->files->handles, handle);
    return s->reply.handle == 0 ? target_fail(ref, NULL, errno, err) : 0;
}

ssize_t replacement_write(struct handle *handle, const struct wire_call *call)
{
    struct replacement *r = handle->target;
    ssize_t n = -1;

    pthread_mutex_lock(&handle->lock);
    if (r->finished) {
        errno = EINVAL;
    } else if (call->data.length > r->size || call->offset > r->size - call->data.length) {
        errno = EFBIG;
    } else {
        do {
            n = pwrite(handle->fd, call->data.data, call->data.length, (off_t)call->offset);
        } while (n < 0 && errno == EINTR);
        r->written += n > 0 ? (uint64_t)n : 0;
    }
    pthread_mutex_unlock(&handle->lock);
    return n;
}

/* ---- COMMIT ----------------------------------------------------------------------------------------- */

/* What belongs to a file's content (security.capability) is lost with it; what its user has said of it, and
 * its ACL, is kept where that can be done. */
static bool is_kept(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strcmp(name, ACL) == 0;
}

static void keep_xattrs(int from, int to)
{
    char path[FILES_PROC_NAME_SIZE + 8];
    char own[FILES_PROC_NAME_SIZE];
    char names[MAX_KEPT_NAMES];
    char value[MAX_KEPT_VALUE];
    ssize_t length;

    files_proc_name(own, from);
    snprintf(path, sizeof path, "/proc/%s", own);
    length = listxattr(path, names, sizeof names);
    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
        const char *name = names + at;
        ssize_t n = is_kept(name) ? getxattr(path, name, value, sizeof value) : -1;

        if (n >= 0) {
            (void)!fsetxattr(to, name, value, (size_t)n, 0);
        }
    }
}

/* The new file gets what the old one had. One who may not give files away keeps it as his own, without the
 * bits that would then mean another user. */
static int settle(int fd, const struct existing *old)
{
    struct stat st;
    mode_t mode = NEW_FILE_MODE;

    if (fstat(fd, &st) < 0) {
        return -1;
    }
    if (old->fd >= 0) {
        mode = old->stat.st_mode & 07777;
        (void)!fremovexattr(fd, ACL); /* the directory's default */
        if ((st.st_uid != old->stat.st_uid || st.st_gid != old->stat.st_gid) &&
            fchown(fd, old->stat.st_uid, old->stat.st_gid) < 0) {
            mode &= 0777;
            (void)!fchown(fd, (uid_t)-1, old->stat.st_gid);
        }
    }
    if (fchmod(fd, mode) < 0) {
        return -1;
    }
    if (old->fd >= 0) {
        keep_xattrs(old->fd, fd);
    }
    return 0;
}

/* So that the new name, too, is there after a power failure. Not where the directory may not be read, or
 * has nothing to sync. */
static int sync_directory(const struct replacement *r)
{
    cleanup_fd int fd = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : -1;
}

static int check_size(const struct replacement *r, int fd, struct error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return target_fail(&r->ref, NULL, errno, err);
    }
    if (r->written != r->size || (uint64_t)st.st_size != r->size) {
        char reason[80];

        snprintf(reason, sizeof reason, "%llu bytes were announced and %llu came",
                 (unsigned long long)r->size, (unsigned long long)r->written);
        return refuse(r, ERROR_BAD_REQUEST, reason, err);
    }
    return 0;
}

/* All but the name. */
static int complete(const struct replacement *r, int fd, struct error *err)
{
    struct existing old = {.fd = -1};
    int done;

    if (check_size(r, fd, err) < 0 || look(r, &old, err) < 0) {
        return -1;
    }
    done = settle(fd, &old) < 0 ? -1 : fsync(fd);
    if (done < 0) {
        target_fail(&r->ref, NULL, errno, err);
    }
    close_existing(&old);
    return done;
}

static int replace(const struct replacement *r, int fd, struct error *err)
{
    struct existing old = {.fd = -1};

    if (complete(r, fd, err) < 0 || look(r, &old, err) < 0) { /* syncing may have taken a while */
        return -1;
    }
    close_existing(&old);
    if (renameat(r->dir, r->temporary, r->dir, r->name) < 0) {
        return fail_to_make(r, errno, err);
    }
    return 0;
}

static int commit(struct serving *s, struct handle *handle, struct error *err)
{
    struct replacement *r = handle->target;

    if (r->finished) {
        return refuse(r, ERROR_BAD_REQUEST, "this WriteFile has ended", err);
    }
    if (replace(r, handle->fd, err) < 0) {
        give_up(r);
        return -1;
    }
    r->finished = true;
    parents_release(&r->parents);
    if (sync_directory(r) < 0 || files_reply_attr(s, handle->fd) < 0) {
        return target_fail(&r->ref, NULL, errno, err);
    }
    return 0;
}

int files_commit(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    int r;

    if (target_find(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    if (t.handle == NULL || t.handle->kind != HANDLE_WRITE_FILE) {
        return target_fail(&s->call->ref, NULL, EINVAL, err);
    }
    pthread_mutex_lock(&t.handle->lock);
    r = commit(s, t.handle, err);
    pthread_mutex_unlock(&t.handle->lock);
    return r;
}
