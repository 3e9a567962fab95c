/* The answers to requests. Each answers the request exactly once and frees it. */
#ifndef HANDSFS_FS_REPLY_H
#define HANDSFS_FS_REPLY_H

#include "fs/request.h"

/* 0 for success without anything to say. */
void answer_errno(struct request *r, int os_errno);

/* The errno that the one error table gives. What only the operator can mend is logged, once while it lasts. */
void answer_failure(struct request *r, const struct error *err);

/* The attributes of the request's node. */
void answer_attr(struct request *r, const struct wire_attr *attr);

/* What is called `name` in `parent`. */
void answer_entry(struct request *r, struct node *parent, const char *name,
                  const struct wire_attr *attr);

/* A new file of this type that is to be looked up again at its next use. */
void answer_passing(struct request *r, const struct wire_attr *attr, mode_t type);

/* The new file r->name in r->node, and it is open: takes the hand's handle over. */
void answer_create(struct request *r, const struct wire_attr *attr, uint64_t wire);

/* Open now: gives the handle to the kernel. */
void answer_open(struct request *r, struct opened *handle, bool direct);

void answer_data(struct request *r, const void *data, size_t length);
bool answer_listing(struct request *r, const void *data, size_t length); /* whether it arrived */
void answer_text(struct request *r, const char *text); /* a symbolic link's */
void answer_count(struct request *r, size_t count); /* of a write */
void answer_xattr_size(struct request *r, size_t size);
void answer_offset(struct request *r, uint64_t offset);
void answer_statfs(struct request *r, const struct wire_statfs *statfs);

/* Fills in what is called `name` in `parent` for the kernel and counts its lookup; *ret_node is taken
 * back with node_forget() where the kernel does not get it. 0 or an errno. */
int make_entry(struct request *r, struct node *parent, const char *name, size_t length,
               const struct wire_attr *attr, struct fuse_entry_param *ret, struct node **ret_node);

#endif
