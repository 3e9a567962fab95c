#include "fs/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/control.h"
#include "fs/reply.h"

static void opened(struct request *r, const struct wire_reply *reply)
{
    struct opened *handle = opened_new(r->fs, r->node, reply->handle, r->flags);

    kept_opened(r->node, request_pid(r));
    if (handle == NULL) {
        opened_close_wire(r->fs, reply->handle);
        answer_errno(r, ENOMEM);
        return;
    }
    answer_open(r, handle, false);
}

void op_opendir(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct request *r;

    if (control_owns(ino)) {
        control_opendir(fuse_req_userdata(fuse), fuse, ino, fi);
        return;
    }
    r = request_begin(fuse, ino);
    if (r != NULL) {
        r->flags = fi->flags;
        r->wire.op = WIRE_OPENDIR;
        r->about_node = true;
        request_send(r, opened);
    }
}

/* The answer to one READDIR(PLUS) while it is filled. */
struct listing {
    struct fs *fs;
    struct request *r; /* until it is answered */
    char *data;
    size_t length, size;
    uint64_t *nodes; /* that the kernel gets a lookup of with this answer */
    size_t node_count;
};

static bool is_dots(const struct wire_text *name)
{
    return name->data[0] == '.' &&
           (name->length == 1 || (name->length == 2 && name->data[1] == '.'));
}

/* With attributes: 0 where the entry went in, 1 where it did not fit. An entry that cannot be given whole
 * is given as a bare name. */
static int add_plus(struct listing *l, const struct wire_entry *e, const char *name)
{
    struct fs *fs = l->fs;
    struct fuse_entry_param entry = {
        .attr = {.st_ino = e->ino, .st_mode = attr_type(&fs->rules, e->type)},
    };
    struct node *node = NULL;
    size_t need;

    if (e->has_attr && !is_dots(&e->name) &&
        make_entry(l->r, l->r->handle->node, name, e->name.length, &e->attr, &entry, &node) != 0) {
        entry.ino = 0;
        node = NULL;
    }
    need = fuse_add_direntry_plus(l->r->fuse, l->data + l->length, l->size - l->length, name, &entry,
                                  (off_t)e->next);
    if (need > l->size - l->length) {
        if (node != NULL) {
            node_forget(&fs->nodes, node, 1);
        }
        return 1;
    }
    if (node != NULL) {
        l->nodes[l->node_count++] = node->id;
    }
    l->length += need;
    return 0;
}

static int add_plain(struct listing *l, const struct wire_entry *e, const char *name)
{
    struct stat st = {.st_ino = e->ino, .st_mode = attr_type(&l->fs->rules, e->type)};
    size_t need = fuse_add_direntry(l->r->fuse, l->data + l->length, l->size - l->length, name, &st,
                                    (off_t)e->next);

    if (need > l->size - l->length) {
        return 1;
    }
    l->length += need;
    return 0;
}

/* -1 where the sandbox's bytes are no entries. */
static int fill(struct listing *l, const struct wire_text *data, bool plus)
{
    struct wire_reader reader = {.at = (const uint8_t *)data->data, .left = data->length};
    struct wire_entry e;
    char name[WIRE_MAX_NAME + 1];
    int got;

    while ((got = wire_get_entry(&reader, &e)) > 0) {
        memcpy(name, e.name.data, e.name.length);
        name[e.name.length] = '\0';
        if (e.next > INT64_MAX) {
            return -1;
        }
        if (control_reserves(l->fs, l->r->handle->node->id, name)) {
            continue;
        }
        if ((plus ? add_plus(l, &e, name) : add_plain(l, &e, name)) != 0) {
            return 0; /* the kernel asks for it again */
        }
    }
    return got;
}

static void take_back(struct listing *l)
{
    for (size_t i = 0; i < l->node_count; i++) {
        struct node *node = nodes_find(&l->fs->nodes, l->nodes[i]);

        if (node != NULL) {
            node_forget(&l->fs->nodes, node, 1);
        }
    }
    l->node_count = 0;
}

#define SMALLEST_ENTRY 32 /* no FUSE directory entry is smaller */

static void listed(struct request *r, const struct wire_reply *reply)
{
    bool plus = (r->wire.flags & 1) != 0;
    struct listing l = {.fs = r->fs, .r = r, .size = r->size};

    l.data = malloc(l.size + 1);
    l.nodes = plus ? calloc(l.size / SMALLEST_ENTRY + 1, sizeof *l.nodes) : NULL;
    if (l.data == NULL || (plus && l.nodes == NULL)) {
        answer_errno(r, ENOMEM);
    } else if (fill(&l, &reply->data, plus) < 0) {
        take_back(&l);
        answer_errno(r, EIO);
    } else if (!answer_listing(r, l.data, l.length)) {
        take_back(&l);
    }
    free(l.data);
    free(l.nodes);
}

static void list(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
                 const struct fuse_file_info *fi, bool plus)
{
    struct request *r;

    if (control_owns(ino)) {
        control_readdir(fuse_req_userdata(fuse), fuse, size, offset, plus);
        return;
    }
    r = request_begin(fuse, ino);
    if (r == NULL || !request_handle(r, fi->fh)) {
        return;
    }
    r->size = size < WIRE_MAX_DATA ? size : WIRE_MAX_DATA;
    r->wire.op = WIRE_READDIR;
    r->wire.offset = (uint64_t)offset;
    r->wire.size = r->size;
    r->wire.flags = plus;
    request_send(r, listed);
}

void op_readdir(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
                struct fuse_file_info *fi)
{
    list(fuse, ino, size, offset, fi, false);
}

void op_readdirplus(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    list(fuse, ino, size, offset, fi, true);
}

void op_releasedir(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
    op_release(fuse, ino, fi);
}

void op_fsyncdir(fuse_req_t fuse, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    op_fsync(fuse, ino, datasync, fi);
}
