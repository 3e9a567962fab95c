/* Attributes of files and of file systems. */
#include "hand/files_server.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "hand/files_walk.h"
#include "sandbox/cleanup.h"

int files_getattr(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;

    if (target_find(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    if (target_stat(&t) < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    files_attr_of(&t.stat, &s->reply.attr);
    return 0;
}

/* ---- SETATTR: each sets one thing; 0, or -1 with errno ------------------------------------------- */

static int set_size(const struct files *files, const struct target *t, const struct wire_call *call)
{
    cleanup_fd int fd = -1;

    if (call->size > INT64_MAX || (call->limit > 0 && call->size > call->limit)) {
        errno = EFBIG;
        return -1;
    }
    if (!S_ISREG(t->stat.st_mode)) {
        errno = S_ISDIR(t->stat.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    if (target_is_open(t)) {
        if (ftruncate(t->fd, (off_t)call->size) == 0) {
            return 0;
        }
        if (errno != EINVAL && errno != EBADF) { /* those two: it was opened for reading */
            return -1;
        }
    }
    fd = target_open(files, t, O_WRONLY);
    return fd < 0 ? -1 : ftruncate(fd, (off_t)call->size);
}

static int set_owner(const struct target *t, const struct wire_call *call)
{
    uid_t uid = (call->mask & WIRE_SET_UID) != 0 ? (uid_t)call->uid : (uid_t)-1;
    gid_t gid = (call->mask & WIRE_SET_GID) != 0 ? (gid_t)call->gid : (gid_t)-1;

    return fchownat(t->fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
}

static int set_mode(const struct files *files, const struct target *t, const struct wire_call *call)
{
    if (S_ISLNK(t->stat.st_mode)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return files_chmod(files, t->fd, call->mode & 07777);
}

static struct timespec time_to_set(uint32_t mask, uint32_t set, uint32_t now,
                                   const struct wire_time *time)
{
    if ((mask & now) != 0) {
        return (struct timespec){.tv_nsec = UTIME_NOW};
    }
    if ((mask & set) != 0) {
        return (struct timespec){.tv_sec = (time_t)time->seconds,
                                 .tv_nsec = (long)time->nanoseconds};
    }
    return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_times(const struct files *files, const struct target *t, const struct wire_call *call)
{
    struct timespec times[2] = {
        time_to_set(call->mask, WIRE_SET_ATIME, WIRE_SET_ATIME_NOW, &call->atime),
        time_to_set(call->mask, WIRE_SET_MTIME, WIRE_SET_MTIME_NOW, &call->mtime),
    };
    char name[FILES_PROC_NAME_SIZE];

    if (utimensat(t->fd, "", times, AT_EMPTY_PATH) == 0) {
        return 0;
    }
    if (errno != EINVAL || files->proc < 0) {
        return -1;
    }
    files_proc_name(name, t->fd); /* before Linux 5.8 */
    return utimensat(files->proc, name, times, 0);
}

int files_setattr(struct serving *s, struct error *err)
{
    const uint32_t owner = WIRE_SET_UID | WIRE_SET_GID;
    const uint32_t times =
        WIRE_SET_ATIME | WIRE_SET_MTIME | WIRE_SET_ATIME_NOW | WIRE_SET_MTIME_NOW;
    cleanup_target struct target t = TARGET_INIT;
    const struct wire_call *call = s->call;
    uint32_t mask = call->mask;

    if (target_find(s->files, &call->ref, &t, err) < 0) {
        return -1;
    }
    /* The size first, since it is what fails; the mode after the owner, whose change clears bits of it;
     * the times last, since all the others change them. */
    if (target_stat(&t) < 0 ||
        ((mask & WIRE_SET_SIZE) != 0 && set_size(s->files, &t, call) < 0) ||
        ((mask & owner) != 0 && set_owner(&t, call) < 0) ||
        ((mask & WIRE_SET_MODE) != 0 && set_mode(s->files, &t, call) < 0) ||
        ((mask & times) != 0 && set_times(s->files, &t, call) < 0) ||
        files_reply_attr(s, t.fd) < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    return 0;
}

int files_statfs(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    struct statfs fs;

    if (target_find(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    if (fstatfs(t.fd, &fs) < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    s->reply.statfs = (struct wire_statfs){
        .blocks = (uint64_t)fs.f_blocks,
        .bfree = (uint64_t)fs.f_bfree,
        .bavail = (uint64_t)fs.f_bavail,
        .files = (uint64_t)fs.f_files,
        .ffree = (uint64_t)fs.f_ffree,
        .bsize = (uint32_t)fs.f_bsize,
        .namelen = (uint32_t)fs.f_namelen,
        .frsize = (uint32_t)(fs.f_frsize != 0 ? fs.f_frsize : fs.f_bsize),
    };
    return 0;
}
