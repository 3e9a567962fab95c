/* Opening files, and their bytes. */
#include "hand/files_data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "hand/files_write.h"
#include "sandbox/cleanup.h"
#include "sandbox/sandbox.h"

/* What a caller may ask for; O_SYNC holds O_DSYNC. */
#define OPEN_FLAGS (O_ACCMODE | O_APPEND | O_TRUNC | O_SYNC | O_DSYNC)

#define MAX_CREATE_TRIES 16 /* against somebody who makes and removes the name all the time */
#define CONTENT_CHUNK 65536 /* bytes at once of a file that does not know its size */

/* ---- Opening ------------------------------------------------------------------------------------ */

static int check_regular(const struct target *t, const struct wire_text *name, struct error *err)
{
    static const struct {
        mode_t type;
        const char *reason;
    } kinds[] = {
        {S_IFIFO, "not a regular file but a FIFO"},
        {S_IFSOCK, "not a regular file but a socket"},
        {S_IFLNK, "not a regular file but a symbolic link"},
        {S_IFCHR, "not a regular file but a device"},
        {S_IFBLK, "not a regular file but a device"},
    };
    mode_t type = t->stat.st_mode & S_IFMT;

    if (type == S_IFREG) {
        return 0;
    }
    if (type == S_IFDIR) {
        return target_fail(t->ref, name, EISDIR, err);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].type == type) {
            return target_refuse(t->ref, name, ERROR_NOT_REGULAR, 0, kinds[i].reason, err);
        }
    }
    return target_refuse(t->ref, name, ERROR_NOT_REGULAR, 0, "not a regular file", err);
}

static bool is_over(uint64_t size, uint64_t limit)
{
    return limit > 0 && size > limit;
}

static int too_large(const struct wire_ref *ref, const struct wire_text *name, struct error *err)
{
    return target_refuse(ref, name, ERROR_TOO_LARGE, 0, "larger than the limit for files", err);
}

/* Puts a descriptor of a regular file among the handles and into the reply. */
static int give_handle(struct serving *s, struct handle *handle, int flags, struct error *err)
{
    if (handle == NULL) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    handle->append = (flags & O_APPEND) != 0;
    s->reply.handle = handles_add(&s->files->handles, handle);
    if (s->reply.handle == 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    return 0;
}

/* The checks and the opening that OPEN and CREATE share; `t` has its stat. */
static int open_target(struct serving *s, struct target *t, const struct wire_text *name,
                       struct error *err)
{
    int flags = (int)s->call->flags & OPEN_FLAGS;
    cleanup_fd int fd = -1;

    if (check_regular(t, name, err) < 0) {
        return -1;
    }
    if ((flags & O_ACCMODE) != O_WRONLY && (flags & O_TRUNC) == 0 && t->stat.st_size > 0 &&
        is_over((uint64_t)t->stat.st_size, s->call->limit)) {
        return too_large(t->ref, name, err);
    }
    fd = target_open(s->files, t, flags);
    if (fd < 0) {
        return target_fail(t->ref, name, errno, err);
    }
    if ((flags & O_TRUNC) == 0) {
        files_attr_of(&t->stat, &s->reply.attr);
    } else if (files_reply_attr(s, fd) < 0) {
        return target_fail(t->ref, name, errno, err);
    }
    return give_handle(s, handle_new(HANDLE_FILE, take_fd(&fd)), flags, err);
}

int files_open(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;

    if (target_find(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    if (target_stat(&t) < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    return open_target(s, &t, NULL, err);
}

/* The reference to the entry `name` of the directory that the call's reference means, for the fallback of
 * target_open(), which goes by names. */
static int entry_ref(const struct wire_call *call, struct buffer *path, struct wire_ref *ret)
{
    if (buffer_append(path, call->ref.path.data, call->ref.path.length) < 0 ||
        (path->length > 0 && buffer_append(path, "/", 1) < 0) ||
        buffer_append(path, call->name.data, call->name.length) < 0) {
        return -1;
    }
    *ret = (struct wire_ref){
        .handle = call->ref.handle,
        .base = call->ref.base,
        .path = {(const char *)path->data, path->length},
    };
    return 0;
}

/* CREATE of a name that is there. -1 with *ret_gone where it no longer was. */
static int open_existing(struct serving *s, const struct target *dir, const char *name,
                         bool *ret_gone, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    cleanup_buffer struct buffer path = BUFFER_INIT(2 * WIRE_MAX_PATH);
    struct wire_ref ref;

    if (entry_ref(s->call, &path, &ref) < 0) {
        return target_fail(&s->call->ref, &s->call->name, errno, err);
    }
    t.ref = &ref;
    t.own = openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    t.fd = t.own;
    if (t.fd < 0 || target_stat(&t) < 0) {
        *ret_gone = errno == ENOENT;
        return target_fail(&s->call->ref, &s->call->name, errno, err);
    }
    return open_target(s, &t, NULL, err);
}

/* O_EXCL always, so that what is there already is looked at before it is opened. */
int files_create(struct serving *s, struct error *err)
{
    const struct wire_call *call = s->call;
    int flags = (int)call->flags & OPEN_FLAGS;
    cleanup_target struct target dir = TARGET_INIT;
    cleanup_fd int fd = -1;
    char name[FILES_NAME_SIZE];

    files_text(name, &call->name);
    if (target_find_directory(s->files, &call->ref, &dir, err) < 0) {
        return -1;
    }
    for (int i = 0; fd < 0; i++) {
        bool gone = false;

        fd = openat(dir.fd, name,
                    flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                    (mode_t)(call->mode & 07777));
        if (fd >= 0) {
            break;
        }
        if (errno != EEXIST || (call->flags & O_EXCL) != 0) {
            return target_fail(&call->ref, &call->name, errno, err);
        }
        if (open_existing(s, &dir, name, &gone, err) == 0) {
            return 0;
        }
        if (!gone || i == MAX_CREATE_TRIES) {
            return -1;
        }
    }
    if (files_reply_attr(s, fd) < 0) {
        return target_fail(&call->ref, &call->name, errno, err);
    }
    return give_handle(s, handle_new(HANDLE_FILE, take_fd(&fd)), flags, err);
}

int target_data(const struct files *files, struct target *t, int flags, int *ret_own,
                struct error *err)
{
    if (target_is_open(t)) {
        if (t->handle->kind == HANDLE_FILE) {
            return t->fd;
        }
        return target_fail(t->ref, NULL, t->handle->kind == HANDLE_DIRECTORY ? EISDIR : EBADF, err);
    }
    if (target_stat(t) < 0) {
        return target_fail(t->ref, NULL, errno, err);
    }
    if (check_regular(t, NULL, err) < 0) {
        return -1;
    }
    *ret_own = target_open(files, t, flags);
    return *ret_own < 0 ? target_fail(t->ref, NULL, errno, err) : *ret_own;
}

/* ---- READ_FILE ---------------------------------------------------------------------------------- */

/* Files of procfs and the like say size 0 and have bytes all the same. They are taken as a whole, so that
 * the size is known before anything is sent. */
static int take_content(struct handle *handle, const struct wire_ref *ref, uint64_t limit,
                        struct error *err)
{
    struct buffer *content = &handle->content;

    limit = limit > 0 && limit < MAX_FILE_BYTES ? limit : MAX_FILE_BYTES;
    buffer_init(content, (size_t)limit + CONTENT_CHUNK);
    for (;;) {
        uint8_t *to = buffer_reserve(content, CONTENT_CHUNK);
        ssize_t n = to == NULL ? -1 : pread(handle->fd, to, CONTENT_CHUNK, (off_t)content->length);

        if (n < 0) {
            return target_fail(ref, NULL, to == NULL ? ENOMEM : errno, err);
        }
        if (n == 0) {
            handle->in_memory = content->length > 0;
            if (!handle->in_memory) {
                buffer_release(content);
            }
            return 0;
        }
        buffer_commit(content, (size_t)n);
        if (content->length > limit) {
            return too_large(ref, NULL, err);
        }
    }
}

int files_read_file(struct serving *s, struct error *err)
{
    const struct wire_call *call = s->call;
    cleanup_target struct target t = TARGET_INIT;
    struct handle *handle;
    int fd;

    if (target_find(s->files, &call->ref, &t, err) < 0) {
        return -1;
    }
    if (target_stat(&t) < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    if (check_regular(&t, NULL, err) < 0) {
        return -1;
    }
    files_attr_of(&t.stat, &s->reply.attr);
    if (is_over(s->reply.attr.size, call->limit)) {
        return too_large(&call->ref, NULL, err);
    }
    fd = target_open(s->files, &t, O_RDONLY);
    handle = fd < 0 ? NULL : handle_new(HANDLE_FILE, fd);
    if (handle == NULL) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    handle->read_limit = call->limit;
    if (s->reply.attr.size == 0) {
        if (take_content(handle, &call->ref, call->limit, err) < 0) {
            handle_put(handle);
            return -1;
        }
        s->reply.attr.size = handle->content.length;
    }
    return give_handle(s, handle, O_RDONLY, err);
}

/* ---- READ and WRITE ------------------------------------------------------------------------------ */

/* Up to `size` bytes; fewer only at the end of the file. -1 with errno where there are none. */
static ssize_t read_all(int fd, uint8_t *to, size_t size, off_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pread(fd, to + done, size - done, offset + (off_t)done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && done == 0) {
            return -1;
        }
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static ssize_t read_content(const struct buffer *content, uint8_t *to, size_t size, uint64_t offset)
{
    size_t left = offset < content->length ? content->length - (size_t)offset : 0;
    size_t n = size < left ? size : left;

    if (n > 0) {
        memcpy(to, content->data + offset, n);
    }
    return (ssize_t)n;
}

int files_read(struct serving *s, struct error *err)
{
    const struct wire_call *call = s->call;
    size_t size = call->size < WIRE_MAX_DATA ? (size_t)call->size : WIRE_MAX_DATA;
    cleanup_target struct target t = TARGET_INIT;
    cleanup_fd int own = -1;
    size_t reply;
    uint8_t *to;
    ssize_t n;
    int fd;

    if (target_find(s->files, &call->ref, &t, err) < 0) {
        return -1;
    }
    fd = target_data(s->files, &t, O_RDONLY, &own, err);
    if (fd < 0) {
        return -1;
    }
    if (call->offset > (uint64_t)INT64_MAX - size) {
        return target_fail(&call->ref, NULL, EINVAL, err);
    }
    reply = wire_begin_data_reply(s->out);
    to = reply == SIZE_MAX ? NULL : buffer_reserve(s->out, size);
    if (to == NULL) {
        return target_fail(&call->ref, NULL, ENOMEM, err);
    }
    n = t.handle != NULL && t.handle->in_memory
            ? read_content(&t.handle->content, to, size, call->offset)
            : read_all(fd, to, size, (off_t)call->offset);
    if (n < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    if (n > 0 && t.handle != NULL && is_over(call->offset + (uint64_t)n, t.handle->read_limit)) {
        return too_large(&call->ref, NULL, err); /* it has grown since it was opened */
    }
    buffer_commit(s->out, (size_t)n);
    wire_end_data_reply(s->out, reply);
    s->replied = true;
    return 0;
}

/* Appends, and finds out where it went: with O_APPEND only the kernel knows, and tells by the position of
 * the descriptor. Under the handle's lock. */
static ssize_t append(struct handle *handle, const struct wire_call *call, off_t *ret_offset)
{
    struct stat st;
    ssize_t n;

    if (call->limit > 0) {
        if (fstat(handle->fd, &st) < 0) {
            return -1;
        }
        if (call->data.length > 0 && is_over((uint64_t)st.st_size + call->data.length, call->limit)) {
            errno = EFBIG;
            return -1;
        }
    }
    do {
        n = write(handle->fd, call->data.data, call->data.length);
    } while (n < 0 && errno == EINTR);
    if (n >= 0) {
        off_t end = lseek(handle->fd, 0, SEEK_CUR);

        *ret_offset = end >= n ? end - n : 0;
    }
    return n;
}

static ssize_t write_at(int fd, const struct wire_call *call)
{
    size_t length = call->data.length;
    ssize_t n;

    if (call->offset > (uint64_t)INT64_MAX - length) {
        errno = EFBIG;
        return -1;
    }
    if (length > 0 && is_over(call->offset + length, call->limit)) {
        errno = EFBIG;
        return -1;
    }
    do {
        n = pwrite(fd, call->data.data, length, (off_t)call->offset);
    } while (n < 0 && errno == EINTR);
    return n;
}

int files_write(struct serving *s, struct error *err)
{
    const struct wire_call *call = s->call;
    cleanup_target struct target t = TARGET_INIT;
    cleanup_fd int own = -1;
    off_t offset = (off_t)call->offset;
    ssize_t n;
    int fd;

    if (target_find(s->files, &call->ref, &t, err) < 0) {
        return -1;
    }
    if (t.handle != NULL && t.handle->kind == HANDLE_WRITE_FILE) {
        fd = t.fd;
        n = replacement_write(t.handle, call);
    } else {
        fd = target_data(s->files, &t, O_WRONLY, &own, err);
        if (fd < 0) {
            return -1;
        }
        if (t.handle != NULL && t.handle->append) {
            pthread_mutex_lock(&t.handle->lock);
            n = append(t.handle, call, &offset);
            pthread_mutex_unlock(&t.handle->lock);
        } else {
            n = write_at(fd, call);
        }
    }
    if (n < 0 && errno == EFBIG) {
        return too_large(&call->ref, NULL, err);
    }
    if (n < 0 || files_reply_attr(s, fd) < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    s->reply.size = (uint64_t)n;
    s->reply.offset = (uint64_t)offset;
    return 0;
}

/* ---- FSYNC --------------------------------------------------------------------------------------- */

/* A descriptor that fsync(2) takes: a file that may only be written to is opened so. */
static int open_to_sync(const struct files *files, struct target *t)
{
    int fd;

    if (S_ISDIR(t->stat.st_mode)) {
        return target_open(files, t, O_RDONLY | O_DIRECTORY);
    }
    if (!S_ISREG(t->stat.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    fd = target_open(files, t, O_RDONLY);
    return fd < 0 && errno == EACCES ? target_open(files, t, O_WRONLY) : fd;
}

int files_fsync(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    cleanup_fd int own = -1;
    int fd;

    if (target_find(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    fd = t.fd;
    if (!target_is_open(&t)) {
        own = target_stat(&t) < 0 ? -1 : open_to_sync(s->files, &t);
        fd = own;
    }
    if (fd < 0 || ((s->call->flags & 1) != 0 ? fdatasync(fd) : fsync(fd)) < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    return 0;
}
