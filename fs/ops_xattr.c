#include "fs/ops.h"

#include <errno.h>
#include <limits.h>
#include <linux/limits.h>
#include <string.h>

#include "fs/control.h"
#include "fs/reply.h"

/* A request about one attribute of the node, whose name is kept. */
static struct request *begin(fuse_req_t fuse, fuse_ino_t ino, const char *name, enum wire_op op)
{
    struct request *r;

    if (strlen(name) > XATTR_NAME_MAX) {
        fuse_reply_err(fuse, ERANGE);
        return NULL;
    }
    r = request_begin(fuse, ino);
    if (r == NULL) {
        return NULL;
    }
    r->name = strdup(name);
    if (r->name == NULL) {
        answer_errno(r, ENOMEM);
        return NULL;
    }
    r->wire.op = op;
    r->about_node = true;
    return r;
}

static void done(struct request *r, const struct wire_reply *reply __attribute__((unused)))
{
    answer_errno(r, 0);
}

void op_setxattr(fuse_req_t fuse, fuse_ino_t ino, const char *name, const char *value, size_t size,
                 int flags)
{
    struct request *r = begin(fuse, ino, name, WIRE_SETXATTR);

    if (r != NULL && request_keep(r, value, size)) {
        r->wire.data = (struct wire_text){(const char *)r->kept.data, r->kept.length};
        r->wire.flags = (uint32_t)flags;
        request_send(r, done);
    }
}

/* The value or the list, or with a size of 0 how long it is. */
static void got(struct request *r, const struct wire_reply *reply)
{
    if (r->size == 0) {
        if (reply->size > XATTR_SIZE_MAX) {
            answer_errno(r, E2BIG);
        } else {
            answer_xattr_size(r, (size_t)reply->size);
        }
    } else if (reply->data.length > r->size) {
        answer_errno(r, ERANGE);
    } else {
        answer_data(r, reply->data.data, reply->data.length);
    }
}

void op_getxattr(fuse_req_t fuse, fuse_ino_t ino, const char *name, size_t size)
{
    struct request *r;

    if (control_owns(ino)) {
        fuse_reply_err(fuse, ENODATA);
        return;
    }
    r = begin(fuse, ino, name, WIRE_GETXATTR);
    if (r != NULL) {
        r->size = size < XATTR_SIZE_MAX ? size : XATTR_SIZE_MAX;
        r->wire.size = r->size;
        request_send(r, got);
    }
}

void op_listxattr(fuse_req_t fuse, fuse_ino_t ino, size_t size)
{
    struct request *r;

    if (control_owns(ino)) {
        fuse_reply_err(fuse, EOPNOTSUPP);
        return;
    }
    r = request_begin(fuse, ino);
    if (r != NULL) {
        r->size = size < XATTR_LIST_MAX ? size : XATTR_LIST_MAX;
        r->wire.op = WIRE_LISTXATTR;
        r->wire.size = r->size;
        r->about_node = true;
        request_send(r, got);
    }
}

void op_removexattr(fuse_req_t fuse, fuse_ino_t ino, const char *name)
{
    struct request *r = begin(fuse, ino, name, WIRE_REMOVEXATTR);

    if (r != NULL) {
        request_send(r, done);
    }
}
