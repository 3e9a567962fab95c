/* What the parts of the file server share; private to hand/files*.c.
 *
 * files.c         the server and its table of operations
 * files_walk.c    from a reference to a descriptor
 * files_slow.c    the walk where there is no openat2(2)
 * files_handles.c the table of open handles
 * files_names.c   operations on directory entries
 * files_attr.c    attributes
 * files_data.c    opening files, and their bytes
 * files_space.c   holes, allocation, copies inside
 * files_dir.c     listings
 * files_xattr.c   extended attributes
 * files_resolve.c where a symbolic link leads
 * files_write.c   the contract's WriteFile, with
 * files_parents.c the directories above it, and
 * files_mount.c   whether something is mounted on it
 * files_limit.c   rights of a thread */
#ifndef HANDSFS_HAND_FILES_SERVER_H
#define HANDSFS_HAND_FILES_SERVER_H

#include <sys/stat.h>

#include "hand/files.h"
#include "hand/files_handles.h"

struct files {
    int root;    /* O_PATH */
    int workdir; /* O_PATH */
    int proc;    /* this process's procfs, O_PATH; -1 where there is none */
    uint64_t workdir_dev, workdir_ino;
    bool without_openat2;
    struct handles handles;
};

/* One call while it is served. */
struct serving {
    struct files *files;
    const struct wire_call *call;
    struct wire_reply reply; /* filled in by the operation; data may point into `scratch` */
    struct buffer scratch;
    struct buffer *out; /* where the reply goes; for READ and the like, which write it in place: */
    bool replied;       /* ... then it stands there already */
};

/* An attribute from a stat(2). Inode 0, which some file systems have, is given as another number, since
 * in a reference 0 stands for any. */
void files_attr_of(const struct stat *st, struct wire_attr *ret) __attribute__((nonnull));
uint64_t files_inode(const struct stat *st) __attribute__((nonnull));

/* fstat(2) into the reply's attributes. 0, or -1 with errno. */
int files_reply_attr(struct serving *s, int fd) __attribute__((nonnull, warn_unused_result));

/* chmod(2) of what any descriptor, O_PATH too, stands for. 0, or -1 with errno. */
int files_chmod(const struct files *files, int fd, mode_t mode)
    __attribute__((nonnull, warn_unused_result));

/* A wire text as a C string in the array `to`, which is larger than the text. */
#define FILES_NAME_SIZE (WIRE_MAX_NAME + 1)
void files_text(char *to, const struct wire_text *text) __attribute__((nonnull));

/* The operations: 0 with the reply filled in, or -1. */
int files_lookup(struct serving *s, struct error *err);
int files_getattr(struct serving *s, struct error *err);
int files_setattr(struct serving *s, struct error *err);
int files_readlink(struct serving *s, struct error *err);
int files_mknod(struct serving *s, struct error *err);
int files_mkdir(struct serving *s, struct error *err);
int files_symlink(struct serving *s, struct error *err);
int files_link(struct serving *s, struct error *err);
int files_unlink(struct serving *s, struct error *err);
int files_rmdir(struct serving *s, struct error *err);
int files_rename(struct serving *s, struct error *err);
int files_open(struct serving *s, struct error *err);
int files_create(struct serving *s, struct error *err);
int files_read(struct serving *s, struct error *err);
int files_write(struct serving *s, struct error *err);
int files_fsync(struct serving *s, struct error *err);
int files_release(struct serving *s, struct error *err);
int files_opendir(struct serving *s, struct error *err);
int files_readdir(struct serving *s, struct error *err);
int files_fallocate(struct serving *s, struct error *err);
int files_lseek(struct serving *s, struct error *err);
int files_copy_range(struct serving *s, struct error *err);
int files_statfs(struct serving *s, struct error *err);
int files_getxattr(struct serving *s, struct error *err);
int files_setxattr(struct serving *s, struct error *err);
int files_listxattr(struct serving *s, struct error *err);
int files_removexattr(struct serving *s, struct error *err);
int files_read_file(struct serving *s, struct error *err);
int files_write_file(struct serving *s, struct error *err);
int files_commit(struct serving *s, struct error *err);
int files_resolve(struct serving *s, struct error *err);
int files_hold(struct serving *s, struct error *err);

#endif
