/* .gitignore: which files of a tree git would leave alone. What these files say comes from inside and is
 * hostile: they are read only where they are regular and small, and rules past the bounds are none. */
#ifndef HANDSFS_HAND_SEARCH_IGNORE_H
#define HANDSFS_HAND_SEARCH_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#include "hand/search_pattern.h"

#define IGNORE_MAX_FILE_BYTES (256u << 10)
#define IGNORE_MAX_RULES 4096  /* of one file */
#define IGNORE_MAX_ABOVE 64    /* directories above the search's that are looked at */

struct ignore_rule {
    struct path_pattern pattern;
    bool is_negated;
};

/* The rules of one directory; a list from the innermost out. */
struct ignore_level {
    const struct ignore_level *above;
    struct ignore_rule *rules;
    size_t count;
    size_t base; /* where paths from this directory begin in a whole path */
};

/* Reads the text of one file. Rules that are none are left out. -1 out of memory. */
int ignore_parse(struct ignore_level *ret, const char *text, size_t length)
    __attribute__((nonnull, warn_unused_result));
void ignore_release(struct ignore_level *level) __attribute__((nonnull));

/* The rules of the directory behind `fd`, whose path has `base` bytes with its slash; none where there is no
 * such file. False where memory ran out. */
bool ignore_load(struct ignore_level *ret, int fd, const char *name, size_t base,
                 const struct ignore_level *above) __attribute__((nonnull(1, 3), warn_unused_result));

/* Whether `path`, whole, is left alone: the last rule of the innermost directory that says anything. */
bool ignore_has(const struct ignore_level *level, const char *path, bool is_directory)
    __attribute__((nonnull(2)));

/* The levels above `path` (absolute, clean) as far as the repository that it is in; none outside of one.
 * *ret_count of them, to be released one by one, are put into `levels`. */
void ignore_above(struct ignore_level levels[IGNORE_MAX_ABOVE], size_t *ret_count, const char *path)
    __attribute__((nonnull));

#endif
