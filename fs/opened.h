/* Open files and directories: the number that the kernel holds, and the hand's number behind it. */
#ifndef HANDSFS_FS_OPENED_H
#define HANDSFS_FS_OPENED_H

#include "fs/node.h"

struct fs;
struct control_file;

struct opened {
    struct table_link by_id;
    LIST_ENTRY(opened) of_node;
    uint64_t id;   /* what the kernel calls it */
    uint64_t wire; /* what the hand calls it; 0 for a control file */
    int flags;     /* of open(2) */
    struct node *node; /* pinned; NULL for a control file */
    struct control_file *control;
    unsigned refs; /* the kernel's one, and requests */
};

/* Takes a handle of the hand over. NULL out of memory. */
struct opened *opened_new(struct fs *fs, struct node *node, uint64_t wire, int flags);

/* NULL for a number that the kernel cannot have. */
struct opened *opened_find(const struct fs *fs, uint64_t id);

struct opened *opened_hold(struct opened *handle);
void opened_drop(struct fs *fs, struct opened *handle);

/* The kernel has closed it, or was never told: the hand closes its side. */
void opened_close(struct fs *fs, struct opened *handle);

/* Closes a handle of the hand for which there is no struct. */
void opened_close_wire(struct fs *fs, uint64_t wire);

#endif
