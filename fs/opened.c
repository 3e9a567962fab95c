#include "fs/opened.h"

#include <assert.h>
#include <stdlib.h>

#include "fs/face.h"

struct opened *opened_new(struct fs *fs, struct node *node, uint64_t wire, int flags)
{
    struct opened *handle = calloc(1, sizeof *handle);

    if (handle == NULL) {
        return NULL;
    }
    handle->id = ++fs->next_handle;
    handle->wire = wire;
    handle->flags = flags;
    handle->node = node;
    handle->refs = 1;
    table_insert(&fs->handles, &handle->by_id, table_hash(&fs->handles, handle->id, NULL, 0));
    if (node != NULL) {
        node_pin(node);
        LIST_INSERT_HEAD(&node->handles, handle, of_node);
    }
    fs->counts.open_files++;
    return handle;
}

struct opened *opened_find(const struct fs *fs, uint64_t id)
{
    struct table_link *link = table_first(&fs->handles, table_hash(&fs->handles, id, NULL, 0));

    for (; link != NULL; link = table_next(link)) {
        struct opened *handle = table_entry(link, struct opened, by_id);

        if (handle->id == id) {
            return handle;
        }
    }
    return NULL;
}

struct opened *opened_hold(struct opened *handle)
{
    handle->refs++;
    return handle;
}

void opened_drop(struct fs *fs, struct opened *handle)
{
    assert(handle->refs > 0);
    if (--handle->refs == 0) {
        if (handle->node != NULL) {
            node_unpin(&fs->nodes, handle->node);
        }
        free(handle);
    }
}

static void closed(void *arg __attribute__((unused)), const struct error *err __attribute__((unused)),
                   const struct wire_reply *reply __attribute__((unused)))
{
}

void opened_close_wire(struct fs *fs, uint64_t wire)
{
    struct wire_call call = {.op = WIRE_RELEASE, .ref = {.handle = wire}};

    link_call(fs->link, &call, fs->options.op_timeout_ms, closed, NULL);
}

void opened_close(struct fs *fs, struct opened *handle)
{
    table_remove(&fs->handles, &handle->by_id);
    if (handle->node != NULL) {
        LIST_REMOVE(handle, of_node);
    }
    fs->counts.open_files--;
    if (handle->wire != 0) {
        opened_close_wire(fs, handle->wire);
    }
    opened_drop(fs, handle);
}
