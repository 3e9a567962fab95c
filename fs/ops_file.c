#include "fs/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/control.h"
#include "fs/reply.h"
#include "sandbox/clock.h"

/* O_DIRECT and the like are the host's kernel's business. */
#define OPEN_FLAGS (O_ACCMODE | O_APPEND | O_TRUNC | O_SYNC | O_DSYNC)

/* The kernel knows by itself that its attributes of the node are not true any more. */
static void not_given(struct node *node)
{
    node->given_ms = 0;
}

/* ---- Opening ------------------------------------------------------------------------------------ */

static void create_done(struct request *r, const struct wire_reply *reply)
{
    answer_create(r, &reply->attr, reply->handle);
}

void op_create(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi)
{
    struct request *r = request_begin_name(fuse, parent, name);

    if (r == NULL) {
        return;
    }
    r->flags = fi->flags & (OPEN_FLAGS | O_EXCL);
    r->wire.op = WIRE_CREATE;
    r->wire.flags = (uint32_t)r->flags | O_CREAT;
    r->wire.mode = mode & 07777;
    r->wire.limit = r->fs->options.max_file_size;
    request_send(r, create_done);
}

static bool is_direct(const struct opened *handle)
{
    return (handle->flags & O_APPEND) != 0;
}

static void open_told(void *arg)
{
    struct request *r = arg;

    r->job = NULL;
    answer_open(r, r->opened, is_direct(r->opened));
}

/* The notifier is stuck. Without the kernel's pages the first read is right all the same. */
static void open_not_told(struct request *r)
{
    notify_job_abandon(r->job);
    r->job = NULL;
    answer_open(r, r->opened, true);
}

static void open_waited(struct deadline *deadline)
{
    open_not_told(table_entry(deadline, struct request, deadline));
}

/* Keeps the opener until the kernel has dropped the attributes that it holds: what it reads first is to be
 * whole and right, which the size that the kernel remembers would cut short. */
static void tell_first(struct request *r)
{
    struct fs *fs = r->fs;
    struct notify_job *job = notify_job_new(open_told, r);

    if (job == NULL || fs_refresh(fs, job, NOTIFY_ATTR, r->node) < 0) {
        if (job != NULL) {
            notify_job_free(job);
        }
        answer_open(r, r->opened, true);
        return;
    }
    r->job = job;
    r->cancel = open_not_told;
    deadline_set(&fs->deadlines, &r->deadline, FS_NOTIFY_WAIT_MS, open_waited);
    notifier_submit(fs->notifier, job);
}

static void open_done(struct request *r, const struct wire_reply *reply)
{
    struct fs *fs = r->fs;
    bool truncated = (r->flags & O_TRUNC) != 0;

    kept_opened(r->node, request_pid(r));
    r->opened = opened_new(fs, r->node, reply->handle, r->flags);
    if (r->opened == NULL) {
        opened_close_wire(fs, reply->handle);
        answer_errno(r, ENOMEM);
        return;
    }
    if (!truncated && node_differs(r->node, &reply->attr, clock_now_ms(),
                                   fs->options.cache_ms + FS_TTL_SLACK_MS)) {
        tell_first(r);
        return;
    }
    if (truncated) {
        not_given(r->node);
    }
    answer_open(r, r->opened, is_direct(r->opened));
}

void op_open(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct request *r;

    if (control_owns(ino)) {
        control_open(fuse_req_userdata(fuse), fuse, ino, fi);
        return;
    }
    r = request_begin(fuse, ino);
    if (r == NULL) {
        return;
    }
    r->flags = fi->flags & OPEN_FLAGS;
    r->wire.op = WIRE_OPEN;
    r->wire.flags = (uint32_t)r->flags;
    r->wire.limit = r->fs->options.max_file_size;
    r->about_node = true;
    request_send(r, open_done);
}

void op_release(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = fuse_req_userdata(fuse);
    struct opened *handle = opened_find(fs, fi->fh);

    fs->counts.requests++;
    fuse_reply_err(fuse, 0);
    if (handle == NULL) {
        return; /* of the control directory */
    }
    if (handle->control != NULL) {
        control_release(fs, handle);
    }
    (void)ino;
    opened_close(fs, handle);
}

/* ---- Bytes -------------------------------------------------------------------------------------- */

/* A request about the open file, whose inode the kernel says too. */
static struct request *begin_open(fuse_req_t fuse, fuse_ino_t ino, const struct fuse_file_info *fi)
{
    struct request *r = request_begin(fuse, ino);

    return r != NULL && request_handle(r, fi->fh) ? r : NULL;
}

static void read_done(struct request *r, const struct wire_reply *reply)
{
    if (reply->data.length > r->size) {
        answer_errno(r, EIO);
    } else {
        answer_data(r, reply->data.data, reply->data.length);
    }
}

void op_read(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
    struct request *r;

    if (control_owns(ino)) {
        control_read(fuse_req_userdata(fuse), fuse, size, offset, fi);
        return;
    }
    r = begin_open(fuse, ino, fi);
    if (r == NULL) {
        return;
    }
    r->size = size < WIRE_MAX_DATA ? size : WIRE_MAX_DATA;
    r->wire.op = WIRE_READ;
    r->wire.offset = (uint64_t)offset;
    r->wire.size = r->size;
    request_send(r, read_done);
}

static void write_done(struct request *r, const struct wire_reply *reply)
{
    if (reply->size > r->size) {
        answer_errno(r, EIO);
        return;
    }
    /* Where it was appended behind what somebody inside appended, the kernel finds out as it asks. */
    node_wrote(r->node, &reply->attr);
    answer_count(r, (size_t)reply->size);
}

void op_write(fuse_req_t fuse, fuse_ino_t ino, const char *data, size_t size, off_t offset,
              struct fuse_file_info *fi)
{
    struct request *r;

    if (control_owns(ino)) {
        control_write(fuse_req_userdata(fuse), fuse, data, size, fi);
        return;
    }
    r = begin_open(fuse, ino, fi);
    if (r == NULL) {
        return;
    }
    r->size = size < WIRE_MAX_DATA ? size : WIRE_MAX_DATA; /* a short write goes on */
    r->wire.op = WIRE_WRITE;
    r->wire.offset = (uint64_t)offset;
    r->wire.limit = r->fs->options.max_file_size;
    r->wire.data = (struct wire_text){data, r->size}; /* encoded before this returns */
    request_send(r, write_done);
}

static void done(struct request *r, const struct wire_reply *reply __attribute__((unused)))
{
    answer_errno(r, 0);
}

void op_fsync(fuse_req_t fuse, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    struct request *r;

    if (control_owns(ino)) {
        fuse_reply_err(fuse, 0);
        return;
    }
    r = begin_open(fuse, ino, fi);
    if (r != NULL) {
        r->wire.op = WIRE_FSYNC;
        r->wire.flags = datasync != 0;
        request_send(r, done);
    }
}

static void allocated(struct request *r, const struct wire_reply *reply __attribute__((unused)))
{
    not_given(r->node);
    answer_errno(r, 0);
}

void op_fallocate(fuse_req_t fuse, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  struct fuse_file_info *fi)
{
    struct request *r = begin_open(fuse, ino, fi);

    if (r != NULL) {
        r->wire.op = WIRE_FALLOCATE;
        r->wire.mode = (uint32_t)mode;
        r->wire.offset = (uint64_t)offset;
        r->wire.size = (uint64_t)length;
        r->wire.limit = r->fs->options.max_file_size;
        request_send(r, allocated);
    }
}

static void sought(struct request *r, const struct wire_reply *reply)
{
    if (reply->offset > INT64_MAX) {
        answer_errno(r, EIO);
    } else {
        answer_offset(r, reply->offset);
    }
}

void op_lseek(fuse_req_t fuse, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
    struct request *r = begin_open(fuse, ino, fi);

    if (r != NULL) {
        r->wire.op = WIRE_LSEEK;
        r->wire.offset = (uint64_t)offset;
        r->wire.flags = (uint32_t)whence;
        request_send(r, sought);
    }
}

static void copied(struct request *r, const struct wire_reply *reply)
{
    if (reply->size > r->size) {
        answer_errno(r, EIO);
        return;
    }
    not_given(r->handle2->node);
    answer_count(r, (size_t)reply->size);
}

void op_copy_file_range(fuse_req_t fuse, fuse_ino_t ino, off_t offset, struct fuse_file_info *fi,
                        fuse_ino_t ino2 __attribute__((unused)), off_t offset2,
                        struct fuse_file_info *fi2, size_t size, int flags __attribute__((unused)))
{
    struct request *r;
    struct opened *to;

    if (control_owns(ino)) {
        fuse_reply_err(fuse, EXDEV); /* the kernel reads and writes then */
        return;
    }
    r = begin_open(fuse, ino, fi);
    if (r == NULL) {
        return;
    }
    to = opened_find(r->fs, fi2->fh);
    if (to == NULL || to->control != NULL) {
        answer_errno(r, EBADF);
        return;
    }
    r->handle2 = opened_hold(to);
    r->size = size < (1u << 30) ? size : 1u << 30;
    r->wire.op = WIRE_COPY_RANGE;
    r->wire.offset = (uint64_t)offset;
    r->wire.offset2 = (uint64_t)offset2;
    r->wire.size = r->size;
    r->wire.limit = r->fs->options.max_file_size;
    request_send(r, copied);
}
