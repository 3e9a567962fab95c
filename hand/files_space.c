/* Where a file's bytes lie: allocation, holes, and copies that never leave the sandbox. */
#include "hand/files_server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hand/files_data.h"
#include "sandbox/cleanup.h"

#define COPY_MAX (16u << 20)  /* bytes that one COPY_RANGE copies at most, so that it ends in time */
#define COPY_CHUNK (256u << 10) /* of the copy by reading and writing */

static int too_large(const struct wire_ref *ref, struct error *err)
{
    return target_refuse(ref, NULL, ERROR_TOO_LARGE, 0, "larger than the limit for files", err);
}

/* Whether offset and size make a range that off_t has. */
static bool is_range(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

/* The size that the file could have after fallocate(2). 0, or -1 with errno. */
static int size_after(int fd, const struct wire_call *call, uint64_t *ret)
{
    struct stat st;

    *ret = 0;
    if ((call->mode & FALLOC_FL_INSERT_RANGE) != 0) {
        if (fstat(fd, &st) < 0) {
            return -1;
        }
        *ret = (uint64_t)st.st_size + call->size;
    } else if ((call->mode & (FALLOC_FL_KEEP_SIZE | FALLOC_FL_COLLAPSE_RANGE)) == 0) {
        *ret = call->offset + call->size;
    }
    return 0;
}

int files_fallocate(struct serving *s, struct error *err)
{
    const struct wire_call *call = s->call;
    cleanup_target struct target t = TARGET_INIT;
    cleanup_fd int own = -1;
    uint64_t after;
    int fd;

    if (target_find(s->files, &call->ref, &t, err) < 0) {
        return -1;
    }
    fd = target_data(s->files, &t, O_WRONLY, &own, err);
    if (fd < 0) {
        return -1;
    }
    if (!is_range(call->offset, call->size)) {
        return too_large(&call->ref, err);
    }
    if (size_after(fd, call, &after) < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    if (call->limit > 0 && after > call->limit) {
        return too_large(&call->ref, err);
    }
    if (fallocate(fd, (int)call->mode, (off_t)call->offset, (off_t)call->size) < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    return 0;
}

int files_lseek(struct serving *s, struct error *err)
{
    const struct wire_call *call = s->call;
    cleanup_target struct target t = TARGET_INIT;
    cleanup_fd int own = -1;
    off_t at = -1;
    int fd;

    if (target_find(s->files, &call->ref, &t, err) < 0) {
        return -1;
    }
    fd = target_data(s->files, &t, O_RDONLY, &own, err);
    if (fd < 0) {
        return -1;
    }
    if (call->offset > INT64_MAX || (call->flags != SEEK_HOLE && call->flags != SEEK_DATA)) {
        return target_fail(&call->ref, NULL, EINVAL, err);
    }
    if (t.handle != NULL) { /* appending looks at the position */
        pthread_mutex_lock(&t.handle->lock);
        at = lseek(fd, (off_t)call->offset, (int)call->flags);
        pthread_mutex_unlock(&t.handle->lock);
    } else {
        at = lseek(fd, (off_t)call->offset, (int)call->flags);
    }
    if (at < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    s->reply.offset = (uint64_t)at;
    return 0;
}

/* ---- COPY_RANGE ---------------------------------------------------------------------------------- */

/* For file systems that cannot do it: through memory. Returns the bytes copied, or -1 with errno. */
static ssize_t copy_by_hand(int from, off_t offset, int to, off_t offset2, size_t size)
{
    cleanup_free char *chunk = malloc(COPY_CHUNK);
    size_t done = 0;

    if (chunk == NULL) {
        return -1;
    }
    while (done < size) {
        size_t want = size - done < COPY_CHUNK ? size - done : COPY_CHUNK;
        ssize_t n = pread(from, chunk, want, offset + (off_t)done);
        ssize_t written = n <= 0 ? n : pwrite(to, chunk, (size_t)n, offset2 + (off_t)done);

        if (written < 0 && done == 0) {
            return -1;
        }
        if (written <= 0) {
            break;
        }
        done += (size_t)written;
        if (written < n) {
            break;
        }
    }
    return (ssize_t)done;
}

static ssize_t copy(int from, off_t offset, int to, off_t offset2, size_t size)
{
    off_t in = offset;
    off_t out = offset2;
    ssize_t n = syscall(SYS_copy_file_range, from, &in, to, &out, size, 0u);

    if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
        return copy_by_hand(from, offset, to, offset2, size);
    }
    return n;
}

/* How much there is to copy: up to the source's end, and less than would take long. */
static size_t size_to_copy(const struct stat *from, const struct wire_call *call)
{
    uint64_t size = call->size < COPY_MAX ? call->size : COPY_MAX;
    uint64_t end = from->st_size > 0 ? (uint64_t)from->st_size : 0;
    uint64_t left = call->offset < end ? end - call->offset : 0;

    return (size_t)(size < left ? size : left);
}

static bool overlaps(const struct stat *from, const struct stat *to, const struct wire_call *call,
                     size_t size)
{
    uint64_t distance = call->offset < call->offset2 ? call->offset2 - call->offset
                                                     : call->offset - call->offset2;

    return from->st_dev == to->st_dev && from->st_ino == to->st_ino && distance < size;
}

int files_copy_range(struct serving *s, struct error *err)
{
    const struct wire_call *call = s->call;
    cleanup_target struct target from = TARGET_INIT;
    cleanup_target struct target to = TARGET_INIT;
    cleanup_fd int own = -1;
    cleanup_fd int own2 = -1;
    struct stat st, st2;
    size_t size;
    ssize_t n;
    int fd, fd2;

    if (target_find(s->files, &call->ref, &from, err) < 0 ||
        target_find(s->files, &call->ref2, &to, err) < 0) {
        return -1;
    }
    fd = target_data(s->files, &from, O_RDONLY, &own, err);
    fd2 = fd < 0 ? -1 : target_data(s->files, &to, O_WRONLY, &own2, err);
    if (fd2 < 0) {
        return -1;
    }
    if (fstat(fd, &st) < 0 || fstat(fd2, &st2) < 0) {
        return target_fail(&call->ref, NULL, errno, err);
    }
    size = size_to_copy(&st, call);
    if (!is_range(call->offset, size) || overlaps(&st, &st2, call, size) ||
        (to.handle != NULL && to.handle->append)) {
        return target_fail(&call->ref2, NULL, EINVAL, err);
    }
    if (!is_range(call->offset2, size) ||
        (size > 0 && call->limit > 0 && call->offset2 + size > call->limit)) {
        return too_large(&call->ref2, err);
    }
    n = size == 0 ? 0 : copy(fd, (off_t)call->offset, fd2, (off_t)call->offset2, size);
    if (n < 0) {
        return target_fail(&call->ref2, NULL, errno, err);
    }
    s->reply.size = (uint64_t)n;
    return 0;
}
