/* Operations on the entries of a directory: one walk to the directory, one system call with the name. A
 * name is never followed. */
#include "hand/files_server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hand/files_walk.h"

#define LOOK (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT)

/* The call's directory and name; the attributes of the entry when it is there. */
static int entry_attr(struct serving *s, const struct target *dir, const char *name,
                      struct error *err)
{
    struct stat st;

    if (fstatat(dir->fd, name, &st, LOOK) < 0) {
        return target_fail(dir->ref, &s->call->name, errno, err);
    }
    files_attr_of(&st, &s->reply.attr);
    return 0;
}

int files_lookup(struct serving *s, struct error *err)
{
    cleanup_target struct target dir = TARGET_INIT;
    char name[FILES_NAME_SIZE];

    files_text(name, &s->call->name);
    return target_find_directory(s->files, &s->call->ref, &dir, err) < 0
               ? -1
               : entry_attr(s, &dir, name, err);
}

/* A handle of what has the name now, into the reply with its attributes. -1 with errno. */
static int hold(struct serving *s, int dir, const char *name)
{
    int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct handle *handle = fd < 0 ? NULL : handle_new(HANDLE_HELD, fd);

    if (handle == NULL) {
        return -1;
    }
    if (files_reply_attr(s, fd) < 0) {
        handle_put(handle);
        return -1;
    }
    s->reply.handle = handles_add(&s->files->handles, handle);
    return s->reply.handle == 0 ? -1 : 0;
}

int files_hold(struct serving *s, struct error *err)
{
    cleanup_target struct target dir = TARGET_INIT;
    char name[FILES_NAME_SIZE];

    files_text(name, &s->call->name);
    if (target_find_directory(s->files, &s->call->ref, &dir, err) < 0) {
        return -1;
    }
    return hold(s, dir.fd, name) == 0 ? 0 : target_fail(dir.ref, &s->call->name, errno, err);
}

/* How an operation makes an entry. 0, or -1 with errno. */
typedef int (*make_entry)(int dir, const char *name, const struct wire_call *call);

static int make(struct serving *s, make_entry how, struct error *err)
{
    cleanup_target struct target dir = TARGET_INIT;
    char name[FILES_NAME_SIZE];

    files_text(name, &s->call->name);
    if (target_find_directory(s->files, &s->call->ref, &dir, err) < 0) {
        return -1;
    }
    if (how(dir.fd, name, s->call) < 0) {
        return target_fail(&s->call->ref, &s->call->name, errno, err);
    }
    return entry_attr(s, &dir, name, err);
}

static int make_node(int dir, const char *name, const struct wire_call *call)
{
    mode_t type = call->mode & S_IFMT;

    if (type != 0 && type != S_IFREG && type != S_IFIFO && type != S_IFSOCK) {
        errno = EPERM; /* no devices, whoever asks */
        return -1;
    }
    return mknodat(dir, name, (type != 0 ? type : S_IFREG) | (call->mode & 07777), 0);
}

int files_mknod(struct serving *s, struct error *err)
{
    return make(s, make_node, err);
}

static int make_directory(int dir, const char *name, const struct wire_call *call)
{
    return mkdirat(dir, name, call->mode & 07777);
}

int files_mkdir(struct serving *s, struct error *err)
{
    return make(s, make_directory, err);
}

static int make_symlink(int dir, const char *name, const struct wire_call *call)
{
    char text[PATH_MAX];

    if (call->data.length >= sizeof text) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (memchr(call->data.data, '\0', call->data.length) != NULL) {
        errno = EINVAL;
        return -1;
    }
    files_text(text, &call->data);
    return symlinkat(text, dir, name);
}

int files_symlink(struct serving *s, struct error *err)
{
    return make(s, make_symlink, err);
}

/* A name for exactly the inode that the reference means, whatever its old name means by now. */
static int link_target(const struct files *files, const struct target *from, int dir,
                       const char *name)
{
    char old[FILES_PROC_NAME_SIZE];

    if (files->proc < 0) { /* takes a capability on older kernels */
        return linkat(from->fd, "", dir, name, AT_EMPTY_PATH);
    }
    files_proc_name(old, from->fd);
    return linkat(files->proc, old, dir, name, AT_SYMLINK_FOLLOW);
}

int files_link(struct serving *s, struct error *err)
{
    cleanup_target struct target from = TARGET_INIT;
    cleanup_target struct target dir = TARGET_INIT;
    char name[FILES_NAME_SIZE];

    files_text(name, &s->call->name);
    if (target_find(s->files, &s->call->ref, &from, err) < 0 ||
        target_find_directory(s->files, &s->call->ref2, &dir, err) < 0) {
        return -1;
    }
    if (link_target(s->files, &from, dir.fd, name) < 0) {
        return target_fail(&s->call->ref2, &s->call->name, errno, err);
    }
    return entry_attr(s, &dir, name, err);
}

static int remove_entry(struct serving *s, int flags, struct error *err)
{
    cleanup_target struct target dir = TARGET_INIT;
    char name[FILES_NAME_SIZE];

    files_text(name, &s->call->name);
    if (target_find_directory(s->files, &s->call->ref, &dir, err) < 0) {
        return -1;
    }
    if (unlinkat(dir.fd, name, flags) < 0) {
        return target_fail(&s->call->ref, &s->call->name, errno, err);
    }
    return 0;
}

int files_unlink(struct serving *s, struct error *err)
{
    return remove_entry(s, 0, err);
}

int files_rmdir(struct serving *s, struct error *err)
{
    return remove_entry(s, AT_REMOVEDIR, err);
}

int files_rename(struct serving *s, struct error *err)
{
    cleanup_target struct target from = TARGET_INIT;
    cleanup_target struct target to = TARGET_INIT;
    unsigned flags = s->call->flags;
    char name[FILES_NAME_SIZE];
    char name2[FILES_NAME_SIZE];

    files_text(name, &s->call->name);
    files_text(name2, &s->call->name2);
    if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0) {
        return target_fail(&s->call->ref, &s->call->name, EINVAL, err);
    }
    if (target_find_directory(s->files, &s->call->ref, &from, err) < 0 ||
        target_find_directory(s->files, &s->call->ref2, &to, err) < 0) {
        return -1;
    }
    if (syscall(SYS_renameat2, from.fd, name, to.fd, name2, flags) < 0) {
        return target_fail(&s->call->ref, &s->call->name, errno, err);
    }
    return 0;
}

int files_readlink(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    size_t reply;
    uint8_t *to;
    ssize_t n;

    if (target_find(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    if (target_stat(&t) < 0 || !S_ISLNK(t.stat.st_mode)) {
        return target_fail(&s->call->ref, NULL, EINVAL, err);
    }
    reply = wire_begin_data_reply(s->out);
    to = reply == SIZE_MAX ? NULL : buffer_reserve(s->out, PATH_MAX);
    if (to == NULL) {
        return target_fail(&s->call->ref, NULL, ENOMEM, err);
    }
    n = readlinkat(t.fd, "", (char *)to, PATH_MAX);
    if (n < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    buffer_commit(s->out, (size_t)n);
    wire_end_data_reply(s->out, reply);
    s->replied = true;
    return 0;
}
