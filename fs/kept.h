/* Files that a lookup found, kept for the request that follows it.
 *
 * On a file system of the host an open gets the file that its walk found, whatever has the name by then. Here
 * the walk and the open are two requests, and between them somebody inside may give the name to another file.
 * The kernel then gets ESTALE and walks anew, but once only: a file that is replaced all the time would fail
 * its opener. So after an ESTALE, for KEPT_MS, every lookup also gets a handle of what it found, and the
 * request that does not find the file by its name any more goes by that handle.
 *
 * Nothing is kept as long as nobody has been told ESTALE, so a lookup costs no more than it did. What is kept
 * is for the thread alone that made the lookup: who opens by a name that the kernel remembered is sent to look
 * at it himself. It is dropped when that thread opens the file, after KEPT_MS, and when a command has ended, so
 * that no walk which began after a command finds what was there before. */
#ifndef HANDSFS_FS_KEPT_H
#define HANDSFS_FS_KEPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEPT_MS 1000 /* no longer than the kernel believes in a name (fs/session.c) */
#define KEPT_MAX 64  /* files of one mount; the one kept longest makes room */

struct fs;
struct node;

/* The kernel is told ESTALE now. */
void kept_begin(struct fs *fs);

/* Whether a lookup is to keep what it finds. */
bool kept_wanted(const struct fs *fs);

/* A lookup by the thread `pid` found `node` and got this handle of the hand, which is taken over. */
void kept_add(struct fs *fs, struct node *node, pid_t pid, uint64_t wire);

/* The hand's handle of the node that is kept for this thread, or 0. */
uint64_t kept_handle(const struct node *node, pid_t pid);

/* The thread has opened the node. */
void kept_opened(const struct node *node, pid_t pid);

/* Drops them all. */
void kept_clear(struct fs *fs);

#endif
