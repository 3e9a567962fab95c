/* The registry of this user's live mounts: one file for each in the state directory, which says who serves
 * it, and beside it a lock that is held for as long as somebody mounts there or serves it. An entry whose
 * process is gone is a stale one: it counts for nothing but to clean up after it. */
#ifndef HANDSFS_MOUNT_MOUNTS_H
#define HANDSFS_MOUNT_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/error.h"

#define MOUNTS_MAX_ENTRY 65536 /* bytes of an entry's file */
#define MOUNTS_MAX 4096        /* entries that are looked at */

struct mount_entry {
    char *session;
    char *backend;
    char *mountpoint; /* absolute, without symbolic links */
    char *socket;
    pid_t pid;
    uint64_t
        started; /* of the process, in the kernel's ticks since boot: tells a pid from its next owner */
    bool alive; /* filled in by who reads it */
};

void mount_entry_release(struct mount_entry *entry) __attribute__((nonnull));
#define cleanup_mount_entry __attribute__((cleanup(mount_entry_release)))

struct mount_list {
    struct mount_entry *entries;
    size_t count;
};

void mount_list_release(struct mount_list *list) __attribute__((nonnull));
#define cleanup_mount_list __attribute__((cleanup(mount_list_release)))

/* All entries, by mountpoint. Those that are stale and where nothing is mounted any more are removed on the
 * way and left out. */
int mounts_list(struct mount_list *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The entry of a mountpoint. 0 and *ret_found false where there is none. */
int mounts_find(const char *mountpoint, struct mount_entry *ret, bool *ret_found, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* A live mount of the session. `backend` may be NULL: then one on `preferred` is taken before others. */
int mounts_find_session(const char *session, const char *backend, const char *preferred,
                        struct mount_entry *ret, bool *ret_found, struct error *err)
    __attribute__((nonnull(1, 3, 4, 5, 6), warn_unused_result));

/* Takes the mountpoint's lock for this process and those that inherit the descriptor; *ret_lock is -1 (and
 * the return 0) where another one holds it. */
int mounts_claim(const char *mountpoint, int *ret_lock, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Writes the entry; to be called by the process that serves the mount, which is filled in. Needs the claim. */
int mounts_publish(const struct mount_entry *entry, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Removes the entry and gives the claim back. */
void mounts_withdraw(const char *mountpoint, int lock) __attribute__((nonnull));

/* When the process started, or 0 where there is none. */
uint64_t process_started(pid_t pid);

#endif
