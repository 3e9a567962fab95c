/* What readlink(2) answers, so that no symbolic link of the sandbox leads out of the mount.
 *
 * The host's kernel walks a link's text itself, from the directory that the link stands in. Text that
 * cannot leave is given as it is: it is relative, it climbs at its start no further than the link is deep,
 * and it holds no ".." after a name, because that name may be a link, or be made one while the kernel
 * walks. A target that leads through ".." after a name is replaced by the place where it ends, as the
 * sandbox says, written without such ".."; and an absolute one in the workdir by a relative one. All
 * other text is refused. Whatever is met on the way is a link that is answered in the same way. */
#ifndef HANDSFS_FS_SYMLINK_H
#define HANDSFS_FS_SYMLINK_H

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/buffer.h"

enum symlink_verdict {
    SYMLINK_TEXT,    /* `out` holds the answer */
    SYMLINK_RESOLVE, /* ask where `out` leads from the link's directory */
    SYMLINK_RESOLVE_ROOT, /* ask where `out` leads from the mount's root */
    SYMLINK_REFUSED,
    SYMLINK_NO_MEMORY,
};

/* `least` and `most` are node_depth() of the link, which differ where a link has several names; `workdir`
 * is absolute and clean. */
enum symlink_verdict symlink_judge(const char *text, size_t length, unsigned least, unsigned most,
                                   const char *workdir, struct buffer *out)
    __attribute__((nonnull, warn_unused_result));

/* The answer for a link that leads to `place`, a path from the root (not trusted to be clean). */
enum symlink_verdict symlink_to_place(const char *place, size_t length, unsigned least, unsigned most,
                                      struct buffer *out) __attribute__((nonnull, warn_unused_result));

#endif
