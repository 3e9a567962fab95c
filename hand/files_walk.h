/* From a reference on the wire to a descriptor of the file that it means; private to hand/files*.c.
 *
 * A path leads to an O_PATH descriptor: looking at it runs nothing of the file's, be it a FIFO or a device.
 * What is to be opened is opened from that very descriptor, through a procfs that was opened when the
 * server began, so that no name can be exchanged between the look and the opening. */
#ifndef HANDSFS_HAND_FILES_WALK_H
#define HANDSFS_HAND_FILES_WALK_H

#include <sys/stat.h>

#include "hand/files_server.h"

/* Opens base and path with openat2(2), with these flags of open(2) and O_CLOEXEC. Without O_NOFOLLOW and
 * from WIRE_BASE_ROOT a link at the end is followed. Returns a descriptor of the caller's, or -1 with
 * errno: ESTALE where, from the workdir, a component is a symbolic link. */
int files_walk(const struct files *files, enum wire_base base, const char *path, size_t length,
               int flags) __attribute__((nonnull, warn_unused_result));

/* The same from a directory, through no symbolic link (ELOOP). */
int files_walk_from(const struct files *files, int dir, const char *path, size_t length, int flags)
    __attribute__((nonnull, warn_unused_result));

/* Whether there is an openat2(2); else the walk goes name by name (hand/files_slow.h). */
bool files_has_openat2(int dir);

/* What a reference means, while a call runs. */
struct target {
    int fd;                /* O_PATH, or a handle's own; not to be closed */
    int own;               /* that descriptor where it is this target's, else -1 */
    struct handle *handle; /* a reference, or NULL */
    const struct wire_ref *ref;
    bool has_stat;
    struct stat stat; /* see target_stat() */
};

#define TARGET_INIT {-1, -1, NULL, NULL, false, {0}}
#define cleanup_target __attribute__((cleanup(target_release)))

/* Finds it, and has looked whether it has the inode that the reference tells. */
int target_find(struct files *files, const struct wire_ref *ref, struct target *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* Only a directory: else ERROR_NOT_DIRECTORY. */
int target_find_directory(struct files *files, const struct wire_ref *ref, struct target *ret,
                          struct error *err) __attribute__((nonnull, warn_unused_result));
void target_release(struct target *target) __attribute__((nonnull));

/* Whether this is the inode that the reference tells, where it tells one. */
bool target_is_expected(const struct wire_ref *ref, const struct stat *st) __attribute__((nonnull));

/* Sees to it that `stat` is filled in. 0, or -1 with errno. */
int target_stat(struct target *target) __attribute__((nonnull, warn_unused_result));

/* Whether a handle means it that was opened, so that its descriptor has bytes. */
bool target_is_open(const struct target *target) __attribute__((nonnull));

/* A new descriptor of this very file; O_CLOEXEC, O_NONBLOCK and O_NOCTTY are added. Not for anything but
 * regular files and directories. -1 with errno. */
int target_open(const struct files *files, const struct target *target, int flags)
    __attribute__((nonnull, warn_unused_result));

/* The name of a descriptor's file relative to `files->proc`, which leads to that very file. */
#define FILES_PROC_NAME_SIZE 32
void files_proc_name(char name[FILES_PROC_NAME_SIZE], int fd);

/* Fill the error from an errno, and begin its message with the file's path; `name` (may be NULL) is an
 * entry of the directory that `ref` means. Return -1. */
int target_fail(const struct wire_ref *ref, const struct wire_text *name, int os_errno,
                struct error *err) __attribute__((nonnull(1, 4)));
/* The same with a code and a reason of ours. */
int target_refuse(const struct wire_ref *ref, const struct wire_text *name, enum error_code code,
                  int os_errno, const char *reason, struct error *err)
    __attribute__((nonnull(1, 5, 6)));

#endif
