#include "fs/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/reply.h"
#include "sandbox/cleanup.h"

static void made(struct request *r, const struct wire_reply *reply)
{
    answer_entry(r, r->node, r->name, &reply->attr);
}

/* The kernel takes an answer of another type than it asked for as an error, and a FIFO is shown as a socket:
 * so a new FIFO is given under a number that nobody uses again, and is looked up at its next use. */
static void made_node(struct request *r, const struct wire_reply *reply)
{
    if (attr_type(fs_rules(r->fs), reply->attr.mode & S_IFMT) == (r->wire.mode & S_IFMT)) {
        made(r, reply);
    } else {
        answer_passing(r, &reply->attr, r->wire.mode & S_IFMT);
    }
}

void op_mknod(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode,
              dev_t rdev __attribute__((unused)))
{
    struct request *r = request_begin_name(fuse, parent, name);

    if (r == NULL) {
        return;
    }
    if (S_ISCHR(mode) || S_ISBLK(mode)) {
        answer_errno(r, EPERM);
        return;
    }
    r->wire.op = WIRE_MKNOD;
    r->wire.mode = mode;
    request_send(r, made_node);
}

void op_mkdir(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct request *r = request_begin_name(fuse, parent, name);

    if (r != NULL) {
        r->wire.op = WIRE_MKDIR;
        r->wire.mode = mode & 07777;
        request_send(r, made);
    }
}

void op_symlink(fuse_req_t fuse, const char *text, fuse_ino_t parent, const char *name)
{
    struct request *r = request_begin_name(fuse, parent, name);

    if (r != NULL) {
        r->wire.op = WIRE_SYMLINK;
        r->wire.data = (struct wire_text){text, strlen(text)};
        request_send(r, made);
    }
}

static void linked(struct request *r, const struct wire_reply *reply)
{
    answer_entry(r, r->node2, r->name, &reply->attr);
}

void op_link(fuse_req_t fuse, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    struct request *r = request_begin(fuse, ino);

    if (r != NULL && request_second(r, parent, name)) {
        r->name = take_ptr(r->name2); /* it is the call's only one */
        r->wire.op = WIRE_LINK;
        request_send(r, linked);
    }
}

static void removed(struct request *r, const struct wire_reply *reply __attribute__((unused)))
{
    node_unlinked(&r->fs->nodes, r->node, r->name, strlen(r->name));
    answer_errno(r, 0);
}

static void remove_entry(fuse_req_t fuse, fuse_ino_t parent, const char *name, enum wire_op op)
{
    struct request *r = request_begin_name(fuse, parent, name);

    if (r != NULL) {
        r->wire.op = op;
        request_send(r, removed);
    }
}

void op_unlink(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    remove_entry(fuse, parent, name, WIRE_UNLINK);
}

void op_rmdir(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    remove_entry(fuse, parent, name, WIRE_RMDIR);
}

static void renamed(struct request *r, const struct wire_reply *reply __attribute__((unused)))
{
    node_renamed(&r->fs->nodes, r->node, r->name, strlen(r->name), r->node2, r->name2,
                 strlen(r->name2), (r->wire.flags & RENAME_EXCHANGE) != 0);
    answer_errno(r, 0);
}

void op_rename(fuse_req_t fuse, fuse_ino_t parent, const char *name, fuse_ino_t parent2,
               const char *name2, unsigned flags)
{
    struct request *r = request_begin_name(fuse, parent, name);

    if (r == NULL || !request_second(r, parent2, name2)) {
        return;
    }
    if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0) {
        answer_errno(r, EINVAL);
        return;
    }
    r->wire.op = WIRE_RENAME;
    r->wire.flags = flags;
    request_send(r, renamed);
}
