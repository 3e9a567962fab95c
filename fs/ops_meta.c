#include "fs/ops.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "fs/control.h"
#include "fs/reply.h"
#include "fs/symlink.h"

static void lookup_done(struct request *r, const struct wire_reply *reply)
{
    answer_entry(r, r->node, r->name, &reply->attr);
}

static void lookup_kept(struct request *r, const struct wire_reply *reply)
{
    struct fs *fs = r->fs;
    struct node *node = node_learn(&fs->nodes, r->node, r->name, strlen(r->name), &reply->attr);

    if (node != NULL) {
        kept_add(fs, node, request_pid(r), reply->handle);
    } else {
        opened_close_wire(fs, reply->handle);
    }
    lookup_done(r, reply);
}

static void lookup_failed(struct request *r, const struct error *err)
{
    int os_errno = error_errno(err);

    if (r->wire.op == WIRE_HOLD && (os_errno == EMFILE || os_errno == ENFILE)) {
        r->wire.op = WIRE_LOOKUP; /* it can do without */
        request_send(r, lookup_done);
        return;
    }
    if (err->code == ERROR_NO_SUCH_FILE) {
        node_unlinked(&r->fs->nodes, r->node, r->name, strlen(r->name));
    }
    answer_failure(r, err);
}

void op_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    struct fs *fs = fuse_req_userdata(fuse);
    struct request *r;

    if (control_owns(parent) || control_reserves(fs, parent, name)) {
        control_lookup(fs, fuse, parent, name);
        return;
    }
    r = request_begin_name(fuse, parent, name);
    if (r != NULL) {
        r->wire.op = kept_wanted(fs) ? WIRE_HOLD : WIRE_LOOKUP;
        r->failed = lookup_failed;
        request_send(r, r->wire.op == WIRE_HOLD ? lookup_kept : lookup_done);
    }
}

static void forget(struct fs *fs, fuse_ino_t ino, uint64_t count)
{
    struct node *node = control_owns(ino) ? NULL : nodes_find(&fs->nodes, ino);

    if (node != NULL) {
        node_forget(&fs->nodes, node, count);
    }
}

void op_forget(fuse_req_t fuse, fuse_ino_t ino, uint64_t count)
{
    forget(fuse_req_userdata(fuse), ino, count);
    fuse_reply_none(fuse);
}

void op_forget_multi(fuse_req_t fuse, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++) {
        forget(fuse_req_userdata(fuse), forgets[i].ino, forgets[i].nlookup);
    }
    fuse_reply_none(fuse);
}

static void attr_done(struct request *r, const struct wire_reply *reply)
{
    answer_attr(r, &reply->attr);
}

/* A request about a node's attributes, by the open file where the kernel says one. */
static struct request *begin_attr(fuse_req_t fuse, fuse_ino_t ino, const struct fuse_file_info *fi)
{
    struct request *r = request_begin(fuse, ino);

    if (r != NULL && fi != NULL) {
        return request_handle(r, fi->fh) ? r : NULL;
    }
    return r;
}

void op_getattr(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct request *r;

    if (control_owns(ino)) {
        control_getattr(fuse_req_userdata(fuse), fuse, ino);
        return;
    }
    r = begin_attr(fuse, ino, fi);
    if (r != NULL) {
        r->wire.op = WIRE_GETATTR;
        r->about_node = true;
        request_send(r, attr_done);
    }
}

static struct wire_time to_wire_time(const struct timespec *t)
{
    return (struct wire_time){t->tv_sec, (uint32_t)t->tv_nsec};
}

void op_setattr(fuse_req_t fuse, fuse_ino_t ino, struct stat *st, int to_set,
                struct fuse_file_info *fi)
{
    static const struct {
        int fuse;
        enum wire_set wire;
    } bits[] = {
        {FUSE_SET_ATTR_MODE, WIRE_SET_MODE},
        {FUSE_SET_ATTR_UID, WIRE_SET_UID},
        {FUSE_SET_ATTR_GID, WIRE_SET_GID},
        {FUSE_SET_ATTR_SIZE, WIRE_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, WIRE_SET_ATIME},
        {FUSE_SET_ATTR_MTIME, WIRE_SET_MTIME},
        {FUSE_SET_ATTR_ATIME_NOW, WIRE_SET_ATIME_NOW},
        {FUSE_SET_ATTR_MTIME_NOW, WIRE_SET_MTIME_NOW},
    };
    struct fs *fs = fuse_req_userdata(fuse);
    struct request *r;

    if (control_owns(ino)) {
        control_setattr(fs, fuse, ino, to_set);
        return;
    }
    r = begin_attr(fuse, ino, fi);
    if (r == NULL) {
        return;
    }
    r->wire.op = WIRE_SETATTR;
    r->about_node = true;
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        if ((to_set & bits[i].fuse) != 0) {
            r->wire.mask |= (uint32_t)bits[i].wire;
        }
    }
    r->wire.mode = st->st_mode & 07777;
    r->wire.uid = attr_uid_inside(fs_rules(fs), st->st_uid);
    r->wire.gid = attr_gid_inside(fs_rules(fs), st->st_gid);
    r->wire.size = (uint64_t)st->st_size;
    r->wire.limit = fs->options.max_file_size;
    r->wire.atime = to_wire_time(&st->st_atim);
    r->wire.mtime = to_wire_time(&st->st_mtim);
    request_send(r, attr_done);
}

/* ---- Symbolic links ----------------------------------------------------------------------------- */

static void answer_verdict(struct request *r, enum symlink_verdict verdict, struct buffer *text)
{
    const char *string;

    if (verdict == SYMLINK_REFUSED) {
        answer_errno(r, EPERM);
        return;
    }
    if (text->length >= PATH_MAX) {
        answer_errno(r, ENAMETOOLONG);
        return;
    }
    string = verdict == SYMLINK_TEXT ? buffer_text(text) : NULL;
    if (string == NULL) {
        answer_errno(r, ENOMEM);
        return;
    }
    answer_text(r, string);
}

static void resolve_done(struct request *r, const struct wire_reply *reply)
{
    struct buffer text = BUFFER_INIT(WIRE_MAX_PATH);
    unsigned least, most;

    if (node_depth(r->node, &least, &most) < 0) {
        answer_errno(r, ESTALE);
        return;
    }
    answer_verdict(r,
                   symlink_to_place(reply->data.data, reply->data.length, least, most, &text),
                   &text);
    buffer_release(&text);
}

/* The place is outside, or nowhere. */
static void resolve_failed(struct request *r, const struct error *err)
{
    int os_errno = error_errno(err);

    if (os_errno == EXDEV || os_errno == ENOENT) {
        answer_errno(r, EPERM);
    } else {
        answer_failure(r, err);
    }
}

/* Asks where `text` leads, from the root or from the directory that the link stands in. */
static void resolve(struct request *r, const struct buffer *text, bool from_root)
{
    if (!request_keep(r, text->data, text->length)) {
        return;
    }
    r->from = from_root ? r->fs->nodes.root : TAILQ_FIRST(&r->node->names)->parent;
    node_pin(r->from);
    r->wire.op = WIRE_RESOLVE;
    r->wire.data = (struct wire_text){(const char *)r->kept.data, r->kept.length};
    r->about_node = false;
    r->failed = resolve_failed;
    request_send(r, resolve_done);
}

static void readlink_done(struct request *r, const struct wire_reply *reply)
{
    struct buffer text = BUFFER_INIT(WIRE_MAX_PATH);
    enum symlink_verdict verdict;
    unsigned least, most;

    if (r->fs->options.symlinks == FS_SYMLINKS_RAW) {
        verdict = buffer_append(&text, reply->data.data, reply->data.length) == 0
                      ? SYMLINK_TEXT
                      : SYMLINK_NO_MEMORY;
        answer_verdict(r, verdict, &text);
    } else if (node_depth(r->node, &least, &most) < 0) {
        answer_errno(r, ESTALE);
    } else {
        verdict = symlink_judge(reply->data.data, reply->data.length, least, most,
                                r->fs->workdir, &text);
        if (verdict == SYMLINK_RESOLVE && r->node->name_count > 1) {
            answer_errno(r, EPERM); /* leads elsewhere from each of its directories */
        } else if (verdict == SYMLINK_RESOLVE || verdict == SYMLINK_RESOLVE_ROOT) {
            resolve(r, &text, verdict == SYMLINK_RESOLVE_ROOT);
        } else {
            answer_verdict(r, verdict, &text);
        }
    }
    buffer_release(&text);
}

void op_readlink(fuse_req_t fuse, fuse_ino_t ino)
{
    struct request *r = request_begin(fuse, ino);

    if (r != NULL) {
        r->wire.op = WIRE_READLINK;
        r->about_node = true;
        request_send(r, readlink_done);
    }
}

/* ---- The file system ---------------------------------------------------------------------------- */

static void statfs_done(struct request *r, const struct wire_reply *reply)
{
    answer_statfs(r, &reply->statfs);
}

void op_statfs(fuse_req_t fuse, fuse_ino_t ino)
{
    struct request *r = request_begin(fuse, control_owns(ino) || ino == 0 ? FUSE_ROOT_ID : ino);

    if (r != NULL) {
        r->wire.op = WIRE_STATFS;
        r->about_node = true;
        request_send(r, statfs_done);
    }
}
