/* The barrier around commands, private to fs/; its face is fs_barrier(). */
#ifndef HANDSFS_FS_BARRIER_H
#define HANDSFS_FS_BARRIER_H

#include "fs/face.h"

/* Cancels what barriers ask of the sandbox; they pass nevertheless. */
void barrier_stop_checks(struct fs *fs);

#endif
