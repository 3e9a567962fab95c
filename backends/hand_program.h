/* The hand's binary on this host: what every backend puts into its sandboxes. */
#ifndef HANDSFS_BACKENDS_HAND_PROGRAM_H
#define HANDSFS_BACKENDS_HAND_PROGRAM_H

#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define HAND_PROGRAM_MAX (8u << 20) /* bytes; it is below 1 MiB, other builds may be larger */

/* A file that may be executed, as an absolute path to be freed; NULL where it is none, with errno. */
char *program_at(const char *path) __attribute__((nonnull, warn_unused_result));

/* The absolute path of the hand ($HANDSFS_HAND, else beside this program in a build tree, else where it was
 * installed); to be freed. ERROR_IO. */
int hand_program_find(char **ret, struct error *err) __attribute__((nonnull, warn_unused_result));

/* Its content. `ret` needs a limit of HAND_PROGRAM_MAX. ERROR_IO. */
int hand_program_read(struct buffer *ret, struct error *err) __attribute__((nonnull, warn_unused_result));

/* The machine that it runs on, as container engines call it ("amd64", "arm64"...); NULL where this is unknown. */
const char *hand_program_architecture(void);

#endif
