/* The operations of the kernel, by subject; fs/ops.c has the table. Private to fs/. */
#ifndef HANDSFS_FS_OPS_H
#define HANDSFS_FS_OPS_H

#include "fs/face.h"

/* fs/ops_meta.c: what stands in a directory entry or an inode */
void op_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t fuse, fuse_ino_t ino, uint64_t count);
void op_forget_multi(fuse_req_t fuse, size_t count, struct fuse_forget_data *forgets);
void op_getattr(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(fuse_req_t fuse, fuse_ino_t ino, struct stat *st, int to_set,
                struct fuse_file_info *fi);
void op_readlink(fuse_req_t fuse, fuse_ino_t ino);
void op_statfs(fuse_req_t fuse, fuse_ino_t ino);

/* fs/ops_names.c: making, removing and moving entries */
void op_mknod(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void op_mkdir(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode);
void op_symlink(fuse_req_t fuse, const char *text, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t fuse, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void op_unlink(fuse_req_t fuse, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t fuse, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t fuse, fuse_ino_t parent, const char *name, fuse_ino_t parent2,
               const char *name2, unsigned flags);

/* fs/ops_dir.c */
void op_opendir(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
                struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi);
void op_releasedir(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t fuse, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

/* fs/ops_file.c */
void op_create(fuse_req_t fuse, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi);
void op_open(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi);
void op_read(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_write(fuse_req_t fuse, fuse_ino_t ino, const char *data, size_t size, off_t offset,
              struct fuse_file_info *fi);
void op_release(fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsync(fuse_req_t fuse, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t fuse, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  struct fuse_file_info *fi);
void op_lseek(fuse_req_t fuse, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void op_copy_file_range(fuse_req_t fuse, fuse_ino_t ino, off_t offset, struct fuse_file_info *fi,
                        fuse_ino_t ino2, off_t offset2, struct fuse_file_info *fi2, size_t size,
                        int flags);

/* fs/ops_xattr.c */
void op_setxattr(fuse_req_t fuse, fuse_ino_t ino, const char *name, const char *value, size_t size,
                 int flags);
void op_getxattr(fuse_req_t fuse, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t fuse, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t fuse, fuse_ino_t ino, const char *name);

#endif
