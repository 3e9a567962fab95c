/* Patterns of names and of paths, as in a shell and in .gitignore. Patterns are hostile: matching takes time
 * in proportion to name times pattern, never more.
 *
 * In a name: * any characters, ? one, [abc] [a-z] [!a] [^a] [[:alpha:]] one of, \ takes the next as it is. A
 * bracket that is not closed is itself. Text is UTF-8; a byte that is no part of that is a character of its own.
 * In a path: names between slashes, and ** for any number of directories; as the last name for everything below. */
#ifndef HANDSFS_HAND_SEARCH_PATTERN_H
#define HANDSFS_HAND_SEARCH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/error.h"

#define PATTERN_MAX_BYTES 4096
#define PATTERN_MAX_PARTS 62         /* names in one path */
#define PATTERN_MAX_ALTERNATIVES 128 /* what the braces of one pattern come to */

bool name_match(const char *pattern, size_t pattern_length, const char *name, size_t length)
    __attribute__((nonnull));

/* Whether there is anything in it that is not simply itself. */
bool name_is_wild(const char *pattern, size_t length) __attribute__((nonnull));

enum part_kind { PART_LITERAL, PART_WILD, PART_DEEP };

struct path_part {
    enum part_kind kind;
    const char *text; /* in the pattern's own; a literal without its backslashes */
    size_t length;
};

struct path_pattern {
    char *text;
    struct path_part *parts;
    unsigned count;
    bool only_directories; /* it ended with a slash */
};

/* `pattern` from some directory; slashes at its start, empty names and "." are nothing. ERROR_BAD_REQUEST with
 * too many names, or none. */
int path_pattern_new(struct path_pattern *ret, const char *pattern, size_t length, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void path_pattern_release(struct path_pattern *pattern) __attribute__((nonnull));

/* Matching name by name: the places in the pattern that the names so far lead to, one bit each. */
uint64_t path_start(const struct path_pattern *pattern) __attribute__((nonnull));
/* After one more name. ** goes through it unless `is_link`: it leads through no symbolic link. */
uint64_t path_step(const struct path_pattern *pattern, uint64_t places, const char *name, size_t length,
                   bool is_link) __attribute__((nonnull));
bool path_matched(const struct path_pattern *pattern, uint64_t places) __attribute__((nonnull));
/* Whether a longer path could match. */
bool path_goes_on(const struct path_pattern *pattern, uint64_t places) __attribute__((nonnull));

/* All names at once: `path` has no slash at its start. */
bool path_match(const struct path_pattern *pattern, const char *path) __attribute__((nonnull));

/* What the braces of a pattern, {a,b{c,d}}, come to. Braces without a comma are themselves. */
struct alternatives {
    char *texts[PATTERN_MAX_ALTERNATIVES];
    unsigned count;
};
int alternatives_new(struct alternatives *ret, const char *pattern, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void alternatives_release(struct alternatives *alternatives) __attribute__((nonnull));

#endif
