#include "fs/node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t hash_inode(const struct nodes *nodes, uint64_t dev, uint64_t ino)
{
    return table_hash(&nodes->inodes, dev, &ino, sizeof ino);
}

static uint64_t hash_name(const struct nodes *nodes, const struct node *parent, const char *name,
                          size_t length)
{
    return table_hash(&nodes->names, parent->id, name, length);
}

static struct node *node_new(struct nodes *nodes, uint64_t id, uint32_t type)
{
    struct node *node = calloc(1, sizeof *node);

    if (node == NULL) {
        return NULL;
    }
    node->id = id;
    node->type = type;
    TAILQ_INIT(&node->names);
    LIST_INIT(&node->handles);
    LIST_INIT(&node->kept);
    table_insert(&nodes->ids, &node->by_id, table_hash(&nodes->ids, id, NULL, 0));
    return node;
}

int nodes_init(struct nodes *nodes)
{
    *nodes = (struct nodes){.next_id = NODE_FIRST_ID, .next_serial = 1};
    TAILQ_INIT(&nodes->recent);
    if (table_init(&nodes->ids) < 0 || table_init(&nodes->inodes) < 0 ||
        table_init(&nodes->names) < 0 ||
        (nodes->root = node_new(nodes, NODE_ROOT_ID, S_IFDIR)) == NULL) {
        nodes_release(nodes);
        return -1;
    }
    nodes->root->pins = 1;
    return 0;
}

void nodes_release(struct nodes *nodes)
{
    for (size_t i = 0; i < nodes->names.size; i++) {
        struct table_link *link = nodes->names.buckets[i];

        while (link != NULL) {
            struct node_name *name = table_entry(link, struct node_name, by_text);

            link = link->next;
            free(name);
        }
    }
    for (size_t i = 0; i < nodes->ids.size; i++) {
        struct table_link *link = nodes->ids.buckets[i];

        while (link != NULL) {
            struct node *node = table_entry(link, struct node, by_id);

            link = link->next;
            free(node);
        }
    }
    table_release(&nodes->ids);
    table_release(&nodes->inodes);
    table_release(&nodes->names);
    *nodes = (struct nodes){0};
}

struct node *nodes_find(const struct nodes *nodes, uint64_t id)
{
    struct table_link *link = table_first(&nodes->ids, table_hash(&nodes->ids, id, NULL, 0));

    for (; link != NULL; link = table_next(link)) {
        struct node *node = table_entry(link, struct node, by_id);

        if (node->id == id) {
            return node;
        }
    }
    return NULL;
}

/* ---- Names ------------------------------------------------------------------------------------ */

static struct node_name *find_name(const struct nodes *nodes, const struct node *parent,
                                   const char *text, size_t length)
{
    struct table_link *link = table_first(&nodes->names, hash_name(nodes, parent, text, length));

    for (; link != NULL; link = table_next(link)) {
        struct node_name *name = table_entry(link, struct node_name, by_text);

        if (name->parent == parent && name->length == length &&
            memcmp(name->text, text, length) == 0) {
            return name;
        }
    }
    return NULL;
}

/* Takes the name away and leaves node and parent as they are, held or not. */
static void unlink_name(struct nodes *nodes, struct node_name *name)
{
    table_remove(&nodes->names, &name->by_text);
    TAILQ_REMOVE(&name->node->names, name, of_node);
    name->node->name_count--;
    name->parent->children--;
    free(name);
}

static void remove_name(struct nodes *nodes, struct node_name *name)
{
    struct node *parent = name->parent;

    unlink_name(nodes, name);
    node_settle(nodes, parent);
}

static struct node_name *add_name(struct nodes *nodes, struct node *node, struct node *parent,
                                  const char *text, size_t length)
{
    struct node_name *name = malloc(sizeof *name + length + 1);

    if (name == NULL) {
        return NULL;
    }
    if (node->name_count >= NODE_MAX_NAMES) {
        remove_name(nodes, TAILQ_LAST(&node->names, node_names));
    }
    name->node = node;
    name->parent = parent;
    name->serial = nodes->next_serial++;
    name->length = length;
    memcpy(name->text, text, length);
    name->text[length] = '\0';
    table_insert(&nodes->names, &name->by_text, hash_name(nodes, parent, text, length));
    TAILQ_INSERT_HEAD(&node->names, name, of_node);
    node->name_count++;
    parent->children++;
    return name;
}

static void take_inode(struct nodes *nodes, struct node *node)
{
    if (node->has_inode) {
        table_remove(&nodes->inodes, &node->by_inode);
        node->has_inode = false;
    }
}

void node_detach(struct nodes *nodes, struct node *node)
{
    struct node_name *name;

    if (node == nodes->root) {
        return;
    }
    take_inode(nodes, node);
    while ((name = TAILQ_FIRST(&node->names)) != NULL) {
        remove_name(nodes, name);
    }
}

void nodes_detach_all(struct nodes *nodes)
{
    for (size_t i = 0; i < nodes->inodes.size; i++) {
        while (nodes->inodes.buckets[i] != NULL) {
            take_inode(nodes, table_entry(nodes->inodes.buckets[i], struct node, by_inode));
        }
    }
    for (size_t i = 0; i < nodes->names.size; i++) {
        while (nodes->names.buckets[i] != NULL) {
            remove_name(nodes,
                        table_entry(nodes->names.buckets[i], struct node_name, by_text));
        }
    }
}

/* A name of `node` is not true any more. */
static void lose_name(struct nodes *nodes, struct node_name *name)
{
    struct node *node = name->node;

    node->pins++;
    remove_name(nodes, name);
    if (TAILQ_EMPTY(&node->names) && (S_ISDIR(node->type) || node->nlink == 0)) {
        take_inode(nodes, node);
    }
    node_unpin(nodes, node);
}

void node_drop_name(struct nodes *nodes, struct node *node, uint64_t serial)
{
    struct node_name *name;

    TAILQ_FOREACH(name, &node->names, of_node)
    {
        if (name->serial == serial) {
            lose_name(nodes, name);
            return;
        }
    }
}

void node_unlinked(struct nodes *nodes, struct node *parent, const char *name, size_t length)
{
    struct node_name *found = find_name(nodes, parent, name, length);

    if (found != NULL) {
        struct node *node = found->node;

        node->nlink = node->nlink > 0 && !S_ISDIR(node->type) ? node->nlink - 1 : 0;
        lose_name(nodes, found);
    }
}

/* Gives a name another place, which is free. */
static void move_name(struct nodes *nodes, struct node_name *name, struct node *parent,
                      const char *text, size_t length)
{
    struct node *node = name->node;

    node->pins++;
    if (add_name(nodes, node, parent, text, length) == NULL) {
        node_detach(nodes, node); /* better no name than a wrong one */
    } else {
        remove_name(nodes, name);
    }
    node_unpin(nodes, node);
}

void node_renamed(struct nodes *nodes, struct node *parent, const char *name, size_t length,
                  struct node *parent2, const char *name2, size_t length2, bool exchange)
{
    struct node_name *from = find_name(nodes, parent, name, length);
    struct node_name *to = find_name(nodes, parent2, name2, length2);
    struct node *other = exchange && to != NULL ? to->node : NULL;

    if (from == to && from != NULL) {
        return;
    }
    /* Two names of one file: rename(2) does nothing. */
    if (!exchange && from != NULL && to != NULL && from->node == to->node) {
        return;
    }
    if (other != NULL) {
        other->pins++;
        remove_name(nodes, to);
    } else if (to != NULL) {
        node_unlinked(nodes, parent2, name2, length2);
    }
    if (from != NULL) {
        move_name(nodes, from, parent2, name2, length2);
    }
    if (other != NULL) {
        if (add_name(nodes, other, parent, name, length) == NULL) {
            node_detach(nodes, other);
        }
        node_unpin(nodes, other);
    }
}

/* ---- Life ------------------------------------------------------------------------------------- */

static bool is_held(const struct node *node)
{
    return node->lookups > 0 || node->pins > 0 || node->children > 0;
}

/* Frees a node that nobody holds. Returns a parent that may be held by nobody either now, or NULL. */
static struct node *node_free(struct nodes *nodes, struct node *node)
{
    struct node *parent = NULL;
    struct node_name *name;

    while ((name = TAILQ_FIRST(&node->names)) != NULL) {
        if (parent == NULL) {
            parent = name->parent;
            parent->pins++;
            unlink_name(nodes, name);
        } else {
            remove_name(nodes, name); /* of a file with several: its parents are settled here */
        }
    }
    if (parent != NULL) {
        parent->pins--;
    }
    take_inode(nodes, node);
    node_not_recent(nodes, node);
    table_remove(&nodes->ids, &node->by_id);
    free(node);
    return parent;
}

void node_settle(struct nodes *nodes, struct node *node)
{
    for (struct node *at = node; at != NULL && !is_held(at);) {
        at = node_free(nodes, at);
    }
}

void node_pin(struct node *node)
{
    node->pins++;
}

void node_unpin(struct nodes *nodes, struct node *node)
{
    assert(node->pins > 0);
    node->pins--;
    node_settle(nodes, node);
}

void node_looked_up(struct node *node)
{
    node->lookups++;
}

void node_forget(struct nodes *nodes, struct node *node, uint64_t count)
{
    node->lookups -= count < node->lookups ? count : node->lookups;
    node_settle(nodes, node);
}

static struct node *find_inode(const struct nodes *nodes, const struct wire_attr *attr)
{
    struct table_link *link =
        table_first(&nodes->inodes, hash_inode(nodes, attr->dev, attr->ino));

    for (; link != NULL; link = table_next(link)) {
        struct node *node = table_entry(link, struct node, by_inode);

        if (node->dev == attr->dev && node->ino == attr->ino) {
            return node;
        }
    }
    return NULL;
}

static bool is_this(const struct node *node, const struct wire_attr *attr)
{
    return node->has_inode && node->dev == attr->dev && node->ino == attr->ino &&
           node->type == (attr->mode & S_IFMT);
}

struct node *node_nameless(struct nodes *nodes, uint32_t type)
{
    return nodes->ids.count < NODES_MAX ? node_new(nodes, nodes->next_id++, type) : NULL;
}

static struct node *new_of(struct nodes *nodes, const struct wire_attr *attr)
{
    struct node *node = node_nameless(nodes, attr->mode & S_IFMT);

    if (node == NULL) {
        return NULL;
    }
    node->dev = attr->dev;
    node->ino = attr->ino;
    node->has_inode = true;
    table_insert(&nodes->inodes, &node->by_inode, hash_inode(nodes, attr->dev, attr->ino));
    return node;
}

/* The node for the file, where it has no name here yet. */
static struct node *node_of_inode(struct nodes *nodes, const struct wire_attr *attr)
{
    struct node *node = find_inode(nodes, attr);

    /* A directory elsewhere, or a number that was used again. */
    if (node != NULL && (S_ISDIR(attr->mode) || !is_this(node, attr))) {
        node->pins++;
        node_detach(nodes, node);
        node_unpin(nodes, node);
        node = NULL;
    }
    return node != NULL ? node : new_of(nodes, attr);
}

struct node *node_learn(struct nodes *nodes, struct node *parent, const char *name, size_t length,
                        const struct wire_attr *attr)
{
    struct node_name *known = find_name(nodes, parent, name, length);
    struct node *node;

    if (known != NULL && is_this(known->node, attr)) {
        node = known->node;
        TAILQ_REMOVE(&node->names, known, of_node);
        TAILQ_INSERT_HEAD(&node->names, known, of_node);
        node->nlink = attr->nlink;
        return node;
    }
    parent->pins++;
    if (known != NULL) {
        lose_name(nodes, known);
    }
    node = node_of_inode(nodes, attr);
    if (node != NULL) {
        node->pins++;
        node->nlink = attr->nlink;
        if (add_name(nodes, node, parent, name, length) == NULL) {
            node_unpin(nodes, node);
            node = NULL;
        } else {
            node->pins--;
        }
    }
    parent->pins--; /* the caller holds it */
    return node;
}

/* ---- Paths ------------------------------------------------------------------------------------ */

static const struct node_name *name_above(const struct node_name *name)
{
    return TAILQ_FIRST(&name->parent->names);
}

/* How many directories are above, *ret_bytes being the length of the whole path. -1 where the way up does
 * not end at the root. */
static int measure(const struct node_name *name, unsigned *ret_depth, size_t *ret_bytes)
{
    size_t bytes = name->length;
    unsigned depth = 0;

    while (name->parent->id != NODE_ROOT_ID) {
        name = name_above(name);
        if (name == NULL || depth > NODE_MAX_DEPTH) {
            return -1;
        }
        bytes += name->length + 1;
        depth++;
    }
    *ret_depth = depth;
    *ret_bytes = bytes;
    return 0;
}

int node_path(const struct node *node, struct buffer *path, uint64_t *ret_serial)
{
    const struct node_name *name = NULL;
    unsigned depth = 0;
    size_t bytes = 0;
    uint8_t *end;

    buffer_clear(path);
    if (node->id == NODE_ROOT_ID) {
        *ret_serial = 0;
        return 0;
    }
    TAILQ_FOREACH(name, &node->names, of_node)
    {
        if (measure(name, &depth, &bytes) == 0) {
            break;
        }
    }
    if (name == NULL) {
        errno = ESTALE;
        return -1;
    }
    end = buffer_reserve(path, bytes);
    if (end == NULL) {
        errno = errno == ENOBUFS ? ENAMETOOLONG : ENOMEM;
        return -1;
    }
    buffer_commit(path, bytes);
    *ret_serial = name->serial;
    end += bytes;
    for (;; name = name_above(name)) {
        end -= name->length;
        memcpy(end, name->text, name->length);
        if (name->parent->id == NODE_ROOT_ID) {
            return 0;
        }
        *--end = '/';
    }
}

int node_depth(const struct node *node, unsigned *ret_least, unsigned *ret_most)
{
    const struct node_name *name;
    bool found = false;

    TAILQ_FOREACH(name, &node->names, of_node)
    {
        unsigned depth;
        size_t bytes;

        if (measure(name, &depth, &bytes) < 0) {
            continue;
        }
        *ret_least = found && *ret_least < depth ? *ret_least : depth;
        *ret_most = found && *ret_most > depth ? *ret_most : depth;
        found = true;
    }
    return found ? 0 : -1;
}

/* ---- What the kernel was given ------------------------------------------------------------------ */

void node_not_recent(struct nodes *nodes, struct node *node)
{
    if (node->is_recent) {
        TAILQ_REMOVE(&nodes->recent, node, recent);
        node->is_recent = false;
    }
}

void node_given(struct nodes *nodes, struct node *node, const struct wire_attr *attr, uint64_t now_ms)
{
    node->given = (struct node_print){attr->size, attr->mtime, attr->ctime};
    node->given_ms = now_ms;
    node_not_recent(nodes, node);
    TAILQ_INSERT_HEAD(&nodes->recent, node, recent);
    node->is_recent = true;
}

static bool same_time(const struct wire_time *a, const struct wire_time *b)
{
    return a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

void node_wrote(struct node *node, const struct wire_attr *attr)
{
    node->given = (struct node_print){attr->size, attr->mtime, attr->ctime};
    node->given_ms = 0;
}

bool node_changed(const struct node *node, const struct wire_attr *attr)
{
    return node->given.size != attr->size || !same_time(&node->given.mtime, &attr->mtime) ||
           !same_time(&node->given.ctime, &attr->ctime);
}

bool node_differs(const struct node *node, const struct wire_attr *attr, uint64_t now_ms,
                  uint64_t ttl_ms)
{
    return node->given_ms != 0 && now_ms <= node->given_ms + ttl_ms && node_changed(node, attr);
}
