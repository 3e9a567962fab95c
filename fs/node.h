/* Nodes: what the kernel knows of the sandbox's files. One node is one inode inside, by device and inode
 * number, and has the number that the kernel calls it by; numbers are never given twice. A node knows its
 * names, each a parent node and a text, so that a request can say a path; a hard link adds a name.
 *
 * A directory has one name. One that is met under another name was moved by somebody inside: it becomes a
 * new node and the old one is *detached*, that is, it has no name any more. So the kernel never moves a
 * directory of its own to another depth because of what the sandbox did, and what was decided from a depth
 * (fs/symlink.h) stays true. Renames through the mount move the names and keep the node.
 *
 * A node lives as long as the kernel counts lookups on it, somebody holds a pin, or a name hangs below it. */
#ifndef HANDSFS_FS_NODE_H
#define HANDSFS_FS_NODE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "fs/table.h"
#include "hand/wire.h"

#define NODE_ROOT_ID 1
#define NODE_FIRST_ID 16      /* below: the root and the control files */
#define NODE_MAX_NAMES 128    /* of one file; the name that was met longest ago makes room */
#define NODES_MAX 8000000     /* then ENOMEM; the kernel forgets nodes when memory gets short */
#define NODE_MAX_DEPTH 32768  /* WIRE_MAX_PATH of one-letter names */

struct node_name {
    struct table_link by_text; /* in nodes.names, by parent and text */
    TAILQ_ENTRY(node_name) of_node;
    struct node *node;
    struct node *parent; /* pinned by `children` */
    uint64_t serial;
    size_t length;
    char text[]; /* NUL-terminated */
};

struct opened;
struct kept;

/* What changes when a file's content does. */
struct node_print {
    uint64_t size;
    struct wire_time mtime, ctime;
};

struct node {
    struct table_link by_id;
    struct table_link by_inode;
    bool has_inode; /* is in nodes.inodes */
    uint64_t id;
    uint64_t dev, ino; /* inside; 0 for the root, which is found by its place */
    uint32_t type;     /* S_IFMT bits, as they are inside */
    uint32_t nlink;    /* as last heard */
    uint64_t lookups;  /* the kernel's */
    unsigned pins;     /* requests and open handles */
    unsigned children; /* names whose parent this is */
    unsigned name_count;
    TAILQ_HEAD(node_names, node_name) names; /* the one met last first */
    LIST_HEAD(, opened) handles;   /* open ones; those of fs/opened.c */
    LIST_HEAD(, kept) kept;        /* what lookups keep of it; by fs/kept.c */
    struct node_print given; /* how it was when something of it last went to the kernel */
    uint64_t given_ms;       /* when the kernel was given attributes; 0: it believes none */
    bool is_recent;
    TAILQ_ENTRY(node) recent; /* in nodes.recent, while is_recent */
};

TAILQ_HEAD(node_list, node);

struct nodes {
    struct table ids, inodes, names;
    struct node *root;
    uint64_t next_id, next_serial;
    struct node_list recent; /* given something, the latest first */
};

/* 0, or -1 out of memory. */
int nodes_init(struct nodes *nodes) __attribute__((nonnull, warn_unused_result));
void nodes_release(struct nodes *nodes) __attribute__((nonnull));

/* NULL for a number that was never given or that the kernel has forgotten. */
struct node *nodes_find(const struct nodes *nodes, uint64_t id) __attribute__((nonnull));

/* The node called `name` in `parent`, which the sandbox has just said to be the file `attr`: the known
 * one, or a new one. NULL out of memory. Nobody holds it yet: follow with node_looked_up(), node_pin()
 * or node_settle(). */
struct node *node_learn(struct nodes *nodes, struct node *parent, const char *name, size_t length,
                        const struct wire_attr *attr) __attribute__((nonnull, warn_unused_result));

/* A node that is no file that was met and never becomes one. NULL out of memory. */
struct node *node_nameless(struct nodes *nodes, uint32_t type)
    __attribute__((nonnull, warn_unused_result));

/* The kernel got the node once more; and forgets it `count` times. */
void node_looked_up(struct node *node) __attribute__((nonnull));
void node_forget(struct nodes *nodes, struct node *node, uint64_t count) __attribute__((nonnull));

void node_pin(struct node *node) __attribute__((nonnull));
void node_unpin(struct nodes *nodes, struct node *node) __attribute__((nonnull));

/* Frees it, and then its parents, where nobody holds it. */
void node_settle(struct nodes *nodes, struct node *node) __attribute__((nonnull));

/* `name` of `parent` is gone, removed through the mount or found missing. */
void node_unlinked(struct nodes *nodes, struct node *parent, const char *name, size_t length)
    __attribute__((nonnull));

/* A rename through the mount: what was at the second place is gone, or with `exchange` at the first. */
void node_renamed(struct nodes *nodes, struct node *parent, const char *name, size_t length,
                  struct node *parent2, const char *name2, size_t length2, bool exchange)
    __attribute__((nonnull));

/* The name `serial` (node_path) led to another file or nowhere. */
void node_drop_name(struct nodes *nodes, struct node *node, uint64_t serial) __attribute__((nonnull));

/* No name of it is true any more, and another file may have its inode number. */
void node_detach(struct nodes *nodes, struct node *node) __attribute__((nonnull));

/* All of them, but for the root. */
void nodes_detach_all(struct nodes *nodes) __attribute__((nonnull));

/* The path from the root by the name met last, *ret_serial being that name's (0 for the root). -1 with
 * errno: ESTALE without a name that leads to the root, ENAMETOOLONG, ENOMEM. */
int node_path(const struct node *node, struct buffer *path, uint64_t *ret_serial)
    __attribute__((nonnull, warn_unused_result));

/* How many directories below the root its names stand, the least and the most (the root's own entries
 * are at 0). -1 without a name that leads to the root. */
int node_depth(const struct node *node, unsigned *ret_least, unsigned *ret_most)
    __attribute__((nonnull, warn_unused_result));

/* The kernel is given these attributes now (a time of sandbox/clock.h). */
void node_given(struct nodes *nodes, struct node *node, const struct wire_attr *attr, uint64_t now_ms)
    __attribute__((nonnull));

/* The file was changed through the mount and is so now; the kernel knows that what it was given is over. */
void node_wrote(struct node *node, const struct wire_attr *attr) __attribute__((nonnull));

/* Whether size or times are others than when this node was last given or written. */
bool node_changed(const struct node *node, const struct wire_attr *attr) __attribute__((nonnull));

/* Whether the kernel may believe something of the file's content that `attr` does not say, when what it
 * was given counts for `ttl_ms`. */
bool node_differs(const struct node *node, const struct wire_attr *attr, uint64_t now_ms,
                  uint64_t ttl_ms) __attribute__((nonnull));

/* Takes the node out of the list of recent ones. */
void node_not_recent(struct nodes *nodes, struct node *node) __attribute__((nonnull));

#endif
