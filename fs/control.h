/* The control files: `.handsfs/` at the mount's root, which can be named and is not listed.
 *
 *     .handsfs/exec    write a command, read its result; each open file is a conversation of its own
 *     .handsfs/status  JSON, made when it is opened
 *
 * They are answered here, without the sandbox. A file of the sandbox with that name is not to be seen. */
#ifndef HANDSFS_FS_CONTROL_H
#define HANDSFS_FS_CONTROL_H

#include "fs/face.h"

#define CONTROL_MAX_REQUEST (16u << 20)  /* bytes of a command or an ExecRequest */
#define CONTROL_MAX_RESULT (64u << 20)   /* bytes of a result */
#define CONTROL_MAX_STATUS (1u << 20)
#define CONTROL_MAX_OPEN 256             /* conversations at once; then EMFILE */

/* Whether the kernel's number is a control file's. */
bool control_owns(fuse_ino_t ino);

/* Whether a name is taken by the control directory, so that no file can have it. */
bool control_reserves(const struct fs *fs, uint64_t parent, const char *name);

/* The operations on what control_owns() or control_reserves(). */
void control_lookup(struct fs *fs, fuse_req_t fuse, fuse_ino_t parent, const char *name);
void control_getattr(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino);
void control_setattr(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino, int to_set);
void control_opendir(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi);
void control_readdir(struct fs *fs, fuse_req_t fuse, size_t size, off_t offset, bool plus);
void control_open(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi);
void control_read(struct fs *fs, fuse_req_t fuse, size_t size, off_t offset,
                  struct fuse_file_info *fi);
void control_write(struct fs *fs, fuse_req_t fuse, const char *data, size_t size,
                   struct fuse_file_info *fi);

/* Before the handle is closed: cancels what runs and frees the conversation. */
void control_release(struct fs *fs, struct opened *handle);

#endif
