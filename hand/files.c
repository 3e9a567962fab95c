#include "hand/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "hand/files_server.h"
#include "hand/files_walk.h"
#include "sandbox/cleanup.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* the same on every architecture; Linux 6.6 */
#endif

/* ---- Life ------------------------------------------------------------------------------------- */

/* This process's procfs, or -1. Held open, so that nobody can put another one in its place. */
static int open_proc(void)
{
    cleanup_fd int proc = open("/proc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct statfs fs;
    struct stat st;

    if (proc < 0 || fstatfs(proc, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC ||
        fstatat(proc, "self/fd", &st, 0) < 0) {
        return -1;
    }
    return take_fd(&proc);
}

static int open_directories(struct files *files, int root_fd, const char *workdir,
                            struct error *err)
{
    struct stat st;

    files->proc = open_proc();
    files->root = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
    if (files->root < 0) {
        return error_set_errno(err, errno, "root directory");
    }
    files->without_openat2 = !files_has_openat2(files->root);
    files->workdir = files_walk(files, WIRE_BASE_ROOT, workdir + 1, strlen(workdir + 1),
                                O_PATH | O_DIRECTORY);
    if (files->workdir < 0 || fstat(files->workdir, &st) < 0) {
        return error_set_errno(err, errno, "workdir %s", workdir);
    }
    files->workdir_dev = (uint64_t)st.st_dev;
    files->workdir_ino = files_inode(&st);
    return 0;
}

static void close_directories(struct files *files)
{
    int fds[] = {files->root, files->workdir, files->proc};

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

int files_new(struct files **ret, int root_fd, const char *workdir, struct error *err)
{
    struct files *files = calloc(1, sizeof *files);

    assert(workdir[0] == '/');
    if (files == NULL) {
        return error_set(err, ERROR_NO_MEMORY, ENOMEM, "out of memory");
    }
    files->root = -1;
    files->workdir = -1;
    if (open_directories(files, root_fd, workdir, err) == 0) {
        if (handles_init(&files->handles) == 0) {
            *ret = files;
            return 0;
        }
        error_set_errno(err, errno, "handles");
    }
    close_directories(files);
    free(files);
    return -1;
}

void files_free(struct files *files)
{
    if (files != NULL) {
        handles_release(&files->handles);
        close_directories(files);
        free(files);
    }
}

/* ---- Shared by the operations ------------------------------------------------------------------ */

uint64_t files_inode(const struct stat *st)
{
    return st->st_ino != 0 ? (uint64_t)st->st_ino : UINT64_MAX;
}

static struct wire_time time_of(const struct timespec *t)
{
    return (struct wire_time){(int64_t)t->tv_sec, (uint32_t)t->tv_nsec};
}

void files_attr_of(const struct stat *st, struct wire_attr *ret)
{
    *ret = (struct wire_attr){
        .dev = (uint64_t)st->st_dev,
        .ino = files_inode(st),
        .size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
        .blocks = (uint64_t)st->st_blocks,
        .mode = (uint32_t)st->st_mode,
        .nlink = (uint32_t)st->st_nlink,
        .uid = (uint32_t)st->st_uid,
        .gid = (uint32_t)st->st_gid,
        .block_size = (uint32_t)st->st_blksize,
        .rdev = (uint64_t)st->st_rdev,
        .atime = time_of(&st->st_atim),
        .mtime = time_of(&st->st_mtim),
        .ctime = time_of(&st->st_ctim),
    };
}

int files_reply_attr(struct serving *s, int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return -1;
    }
    files_attr_of(&st, &s->reply.attr);
    return 0;
}

int files_chmod(const struct files *files, int fd, mode_t mode)
{
    char name[FILES_PROC_NAME_SIZE];

    if (files->proc >= 0) {
        files_proc_name(name, fd);
        return fchmodat(files->proc, name, mode, 0);
    }
    if (fchmod(fd, mode) == 0) {
        return 0;
    }
    if (errno != EBADF) { /* it is for an O_PATH descriptor */
        return -1;
    }
    if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) < 0) {
        errno = errno == ENOSYS ? EOPNOTSUPP : errno;
        return -1;
    }
    return 0;
}

void files_text(char *to, const struct wire_text *text)
{
    memcpy(to, text->data, text->length);
    to[text->length] = '\0';
}

int files_release(struct serving *s, struct error *err)
{
    if (handles_remove(&s->files->handles, s->call->ref.handle) < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    return 0;
}

/* ---- Serving ------------------------------------------------------------------------------------ */

static int (*const operations[WIRE_OPS])(struct serving *s, struct error *err) = {
    [WIRE_LOOKUP] = files_lookup,
    [WIRE_GETATTR] = files_getattr,
    [WIRE_SETATTR] = files_setattr,
    [WIRE_READLINK] = files_readlink,
    [WIRE_MKNOD] = files_mknod,
    [WIRE_MKDIR] = files_mkdir,
    [WIRE_SYMLINK] = files_symlink,
    [WIRE_LINK] = files_link,
    [WIRE_UNLINK] = files_unlink,
    [WIRE_RMDIR] = files_rmdir,
    [WIRE_RENAME] = files_rename,
    [WIRE_OPEN] = files_open,
    [WIRE_CREATE] = files_create,
    [WIRE_READ] = files_read,
    [WIRE_WRITE] = files_write,
    [WIRE_FSYNC] = files_fsync,
    [WIRE_RELEASE] = files_release,
    [WIRE_OPENDIR] = files_opendir,
    [WIRE_READDIR] = files_readdir,
    [WIRE_FALLOCATE] = files_fallocate,
    [WIRE_LSEEK] = files_lseek,
    [WIRE_COPY_RANGE] = files_copy_range,
    [WIRE_STATFS] = files_statfs,
    [WIRE_GETXATTR] = files_getxattr,
    [WIRE_SETXATTR] = files_setxattr,
    [WIRE_LISTXATTR] = files_listxattr,
    [WIRE_REMOVEXATTR] = files_removexattr,
    [WIRE_READ_FILE] = files_read_file,
    [WIRE_WRITE_FILE] = files_write_file,
    [WIRE_COMMIT] = files_commit,
    [WIRE_RESOLVE] = files_resolve,
    [WIRE_HOLD] = files_hold,
};

static int answer(struct serving *s, struct error *err)
{
    if (operations[s->call->op](s, err) < 0) {
        return -1;
    }
    if (!s->replied && wire_put_reply(s->out, s->call->op, &s->reply) < 0) {
        if (s->reply.handle != 0) { /* nobody will ever know of it */
            (void)!handles_remove(&s->files->handles, s->reply.handle);
        }
        return error_set(err, ERROR_NO_MEMORY, ENOMEM, "no memory for the reply");
    }
    return 0;
}

int files_serve(struct files *files, const uint8_t *call, size_t length, struct buffer *reply)
{
    struct wire_call decoded;
    struct serving s = {
        .files = files,
        .call = &decoded,
        .scratch = BUFFER_INIT(WIRE_MAX_DATA),
        .out = reply,
    };
    size_t start = reply->length;
    struct error err;
    int r;

    if (wire_get_call(call, length, &decoded) < 0) {
        r = error_set(&err, ERROR_BAD_REQUEST, EINVAL, "these bytes are no file call");
    } else {
        r = answer(&s, &err);
    }
    buffer_release(&s.scratch);
    if (r < 0) {
        reply->length = start;
        wire_reply_error(&s.reply, &err);
        r = wire_put_reply(reply, WIRE_LOOKUP, &s.reply); /* the same for every operation */
    }
    return r;
}
