/* Directories as a search meets them: the names in order, and what each is, without following links. */
#ifndef HANDSFS_HAND_SEARCH_DIR_H
#define HANDSFS_HAND_SEARCH_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "hand/tool.h"
#include "sandbox/buffer.h"

#define SEARCH_MAX_DEPTH 1000          /* directories in directories */
#define SEARCH_MAX_PATH (256u << 10)   /* bytes: so many names of the longest kind */
#define SEARCH_MAX_NAMES (64u << 20)   /* bytes of one directory's names; the rest is left out */

enum entry_kind { ENTRY_FILE, ENTRY_DIRECTORY, ENTRY_LINK, ENTRY_OTHER };

struct dir_entry {
    size_t name; /* in `names` */
    unsigned length;
    enum entry_kind kind;
};

struct dir_list {
    struct buffer names; /* each with a NUL */
    struct dir_entry *entries;
    size_t count, capacity;
};

/* What both searches keep count of. */
struct search {
    struct tool_run *run;
    struct buffer path; /* of the directory, or of what is looked at in it */
    unsigned depth;
    dev_t dev; /* of the directory, to notice another file system */
    uint64_t unreadable, too_deep;
};

/* All names behind `fd`, sorted. -1 with errno; what was read until then is in the list. */
int dir_list_read(struct dir_list *ret, int fd) __attribute__((nonnull, warn_unused_result));
void dir_list_release(struct dir_list *list) __attribute__((nonnull));
static inline const char *dir_name(const struct dir_list *list, const struct dir_entry *entry)
{
    return (const char *)list->names.data + entry->name;
}

void search_init(struct search *search, struct tool_run *run) __attribute__((nonnull));
void search_release(struct search *search) __attribute__((nonnull));

/* Adds a name to the path; the length to go back to with search_leave(), 0 where it is too long. */
size_t search_enter(struct search *search, const char *name, size_t length) __attribute__((nonnull));
void search_leave(struct search *search, size_t length) __attribute__((nonnull));
/* The path as a string. */
const char *search_path(struct search *search) __attribute__((nonnull));

/* Opens a directory in another one, where it may be gone into: not too deep, not procfs or sysfs (whose files are
 * no files). -1 where not; it is counted then, unless it has gone away. */
int search_open(struct search *search, int folder, const char *name, bool follow) __attribute__((nonnull));

/* Opens the search's root: ENOTDIR and the like are errors. The descriptor, or -1. */
int search_open_root(struct search *search, const char *path, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Counts what could not be read, and tells of the first. */
void search_unreadable(struct search *search, int os_errno) __attribute__((nonnull));
void search_say(struct search *search) __attribute__((nonnull));

#endif
