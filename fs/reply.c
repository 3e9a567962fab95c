#include "fs/reply.h"

#include <errno.h>
#include <string.h>

#include "sandbox/clock.h"
#include "sandbox/log.h"

/* Every answer ends here. */
static void finish(struct request *r, int os_errno)
{
    r->fs->counts.requests++;
    r->fs->counts.errors += os_errno != 0;
    if (os_errno == ESTALE) {
        kept_begin(r->fs);
    }
    request_free(r);
}

void answer_errno(struct request *r, int os_errno)
{
    fuse_reply_err(r->fuse, os_errno);
    finish(r, os_errno);
}

void answer_failure(struct request *r, const struct error *err)
{
    struct fs *fs = r->fs;

    if (fs->refusing && err->code == ERROR_CANCELLED) {
        answer_errno(r, ECONNABORTED);
        return;
    }
    if (error_audience(err->code) == ERROR_FOR_OPERATOR && fs->logged != err->code) {
        fs->logged = err->code;
        log_warning("%s: %s", fs->mountpoint, err->message);
    }
    answer_errno(r, error_errno(err));
}

static void remember(struct request *r, struct node *node, const struct wire_attr *attr)
{
    if (fs_ttl(r->fs, r->generation) > 0) {
        node_given(&r->fs->nodes, node, attr, clock_now_ms());
    }
}

void answer_attr(struct request *r, const struct wire_attr *attr)
{
    struct fs *fs = r->fs;
    struct stat st;

    if ((attr->mode & S_IFMT) != r->node->type) { /* another file by now: walk again */
        node_detach(&fs->nodes, r->node);
        answer_errno(r, r->node == fs->nodes.root ? EIO : ESTALE);
        return;
    }
    if (attr_to_stat(fs_rules(fs), attr, &st) < 0) {
        answer_errno(r, EIO);
        return;
    }
    r->node->nlink = attr->nlink;
    remember(r, r->node, attr);
    fuse_reply_attr(r->fuse, &st, fs_ttl(fs, r->generation));
    finish(r, 0);
}

int make_entry(struct request *r, struct node *parent, const char *name, size_t length,
               const struct wire_attr *attr, struct fuse_entry_param *ret, struct node **ret_node)
{
    struct fs *fs = r->fs;
    struct node *node;

    *ret = (struct fuse_entry_param){
        .attr_timeout = fs_ttl(fs, r->generation),
        .entry_timeout = fs_ttl(fs, r->generation),
    };
    if (attr_to_stat(fs_rules(fs), attr, &ret->attr) < 0) {
        return EIO;
    }
    node = node_learn(&fs->nodes, parent, name, length, attr);
    if (node == NULL) {
        return ENOMEM;
    }
    ret->ino = node->id;
    node_looked_up(node);
    remember(r, node, attr);
    *ret_node = node;
    return 0;
}

void answer_entry(struct request *r, struct node *parent, const char *name,
                  const struct wire_attr *attr)
{
    struct fuse_entry_param entry;
    struct node *node;
    int e = make_entry(r, parent, name, strlen(name), attr, &entry, &node);

    if (e != 0) {
        answer_errno(r, e);
        return;
    }
    if (fuse_reply_entry(r->fuse, &entry) != 0) {
        node_forget(&r->fs->nodes, node, 1);
    }
    finish(r, 0);
}

void answer_passing(struct request *r, const struct wire_attr *attr, mode_t type)
{
    struct fs *fs = r->fs;
    struct fuse_entry_param entry = {0};
    struct node *node;

    if (attr_to_stat(fs_rules(fs), attr, &entry.attr) < 0) {
        answer_errno(r, EIO);
        return;
    }
    node = node_nameless(&fs->nodes, attr->mode & S_IFMT);
    if (node == NULL) {
        answer_errno(r, ENOMEM);
        return;
    }
    entry.ino = node->id;
    entry.attr.st_mode = type | (entry.attr.st_mode & 07777);
    node_looked_up(node);
    if (fuse_reply_entry(r->fuse, &entry) != 0) {
        node_forget(&fs->nodes, node, 1);
    }
    finish(r, 0);
}

void answer_create(struct request *r, const struct wire_attr *attr, uint64_t wire)
{
    struct fs *fs = r->fs;
    struct fuse_entry_param entry;
    struct fuse_file_info fi = {.flags = r->flags, .direct_io = (r->flags & O_APPEND) != 0};
    struct opened *handle;
    struct node *node;
    int e = S_ISREG(attr->mode)
                ? make_entry(r, r->node, r->name, strlen(r->name), attr, &entry, &node)
                : EIO;

    if (e != 0) {
        opened_close_wire(fs, wire);
        answer_errno(r, e);
        return;
    }
    handle = opened_new(fs, node, wire, r->flags);
    if (handle == NULL) {
        opened_close_wire(fs, wire);
        node_forget(&fs->nodes, node, 1);
        answer_errno(r, ENOMEM);
        return;
    }
    fi.fh = handle->id;
    if (fuse_reply_create(r->fuse, &entry, &fi) != 0) {
        opened_close(fs, handle);
        node_forget(&fs->nodes, node, 1);
    }
    finish(r, 0);
}

void answer_open(struct request *r, struct opened *handle, bool direct)
{
    struct fuse_file_info fi = {
        .flags = handle->flags,
        .fh = handle->id,
        .direct_io = direct,
    };

    if (fuse_reply_open(r->fuse, &fi) != 0) {
        opened_close(r->fs, handle);
    }
    finish(r, 0);
}

void answer_data(struct request *r, const void *data, size_t length)
{
    fuse_reply_buf(r->fuse, data, length);
    finish(r, 0);
}

bool answer_listing(struct request *r, const void *data, size_t length)
{
    bool arrived = fuse_reply_buf(r->fuse, data, length) == 0;

    finish(r, 0);
    return arrived;
}

void answer_text(struct request *r, const char *text)
{
    fuse_reply_readlink(r->fuse, text);
    finish(r, 0);
}

void answer_count(struct request *r, size_t count)
{
    fuse_reply_write(r->fuse, count);
    finish(r, 0);
}

void answer_xattr_size(struct request *r, size_t size)
{
    fuse_reply_xattr(r->fuse, size);
    finish(r, 0);
}

void answer_offset(struct request *r, uint64_t offset)
{
    fuse_reply_lseek(r->fuse, (off_t)offset);
    finish(r, 0);
}

void answer_statfs(struct request *r, const struct wire_statfs *s)
{
    struct statvfs st = {
        .f_bsize = s->bsize,
        .f_frsize = s->frsize,
        .f_blocks = s->blocks,
        .f_bfree = s->bfree,
        .f_bavail = s->bavail,
        .f_files = s->files,
        .f_ffree = s->ffree,
        .f_favail = s->ffree,
        .f_namemax = s->namelen,
    };

    fuse_reply_statfs(r->fuse, &st);
    finish(r, 0);
}
