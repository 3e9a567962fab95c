#include "hand/search_ignore.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

/* ---- Text ---- */

/* Without spaces at its end that no backslash keeps. */
static size_t trimmed(const char *line, size_t length)
{
    if (length > 0 && line[length - 1] == '\r') {
        length--;
    }
    while (length > 0 && line[length - 1] == ' ' && (length < 2 || line[length - 2] != '\\')) {
        length--;
    }
    return length;
}

/* A pattern without a slash in its middle or at its start is one at any depth. */
static int parse_rule(struct ignore_rule *rule, const char *line, size_t length)
{
    char text[PATTERN_MAX_BYTES + 4] = "**/";
    struct error err;
    const char *slash;
    size_t lead;

    *rule = (struct ignore_rule){.is_negated = length > 0 && line[0] == '!'};
    line += rule->is_negated;
    length -= rule->is_negated;
    if (length == 0 || line[0] == '#' || length > PATTERN_MAX_BYTES ||
        memchr(line, '\0', length) != NULL) {
        return -1;
    }
    slash = memchr(line, '/', length);
    lead = slash == NULL || slash == line + length - 1 ? 3 : 0;
    memcpy(text + lead, line, length);
    return path_pattern_new(&rule->pattern, text, lead + length, &err);
}

int ignore_parse(struct ignore_level *ret, const char *text, size_t length)
{
    const char *end = text + length;
    size_t capacity = 0;

    ret->rules = NULL;
    ret->count = 0;
    while (text < end && ret->count < IGNORE_MAX_RULES) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *next = newline != NULL ? newline + 1 : end;
        size_t used = trimmed(text, (size_t)((newline != NULL ? newline : end) - text));

        if (ret->count == capacity) {
            size_t larger = capacity == 0 ? 16 : capacity * 2;
            void *moved = reallocarray(ret->rules, larger, sizeof *ret->rules);

            if (moved == NULL) {
                ignore_release(ret);
                return -1;
            }
            ret->rules = moved;
            capacity = larger;
        }
        if (used > 0 && parse_rule(&ret->rules[ret->count], text, used) == 0) {
            ret->count++;
        }
        text = next;
    }
    return 0;
}

void ignore_release(struct ignore_level *level)
{
    for (size_t i = 0; i < level->count; i++) {
        path_pattern_release(&level->rules[i].pattern);
    }
    free(level->rules);
    level->rules = NULL;
    level->count = 0;
}

/* ---- Files ---- */

/* A regular file, small enough; nothing else is opened for reading. */
static int open_rules(int folder, const char *name, size_t *ret_size)
{
    struct stat st;
    cleanup_fd int fd = -1;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) {
        return -1;
    }
    fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > IGNORE_MAX_FILE_BYTES) {
        return -1;
    }
    *ret_size = (size_t)st.st_size;
    return take_fd(&fd);
}

bool ignore_load(struct ignore_level *ret, int folder, const char *name, size_t base,
                 const struct ignore_level *above)
{
    size_t size = 0;
    cleanup_fd int fd = open_rules(folder, name, &size);
    cleanup_free char *text = NULL;
    size_t length = 0;

    *ret = (struct ignore_level){.above = above, .base = base};
    if (fd < 0) {
        return true;
    }
    text = malloc(size);
    if (text == NULL) {
        return false;
    }
    while (length < size) {
        ssize_t n = read(fd, text + length, size - length);

        if (n <= 0) {
            break;
        }
        length += (size_t)n;
    }
    return ignore_parse(ret, text, length) == 0;
}

/* ---- Answers ---- */

bool ignore_has(const struct ignore_level *level, const char *path, bool is_directory)
{
    for (; level != NULL; level = level->above) {
        for (size_t i = level->count; i > 0; i--) {
            const struct ignore_rule *rule = &level->rules[i - 1];

            if ((is_directory || !rule->pattern.only_directories) &&
                path_match(&rule->pattern, path + level->base)) {
                return !rule->is_negated;
            }
        }
    }
    return false;
}

/* The length of the part of `path` that is the repository's root, 0 where it is in none. */
static size_t repository_of(const char *path)
{
    char at[PATH_MAX];
    size_t length = strlen(path);

    for (unsigned i = 0; i < IGNORE_MAX_ABOVE && length + sizeof "/.git" < sizeof at; i++) {
        memcpy(at, path, length);
        memcpy(at + length, "/.git", sizeof "/.git");
        if (access(at, F_OK) == 0) {
            return length;
        }
        while (length > 0 && path[length - 1] != '/') {
            length--;
        }
        if (length <= 1) {
            break;
        }
        length--;
    }
    return 0;
}

static void add_level(struct ignore_level *levels, size_t *count, int folder, const char *name, size_t base)
{
    if (*count < IGNORE_MAX_ABOVE &&
        ignore_load(&levels[*count], folder, name, base, *count > 0 ? &levels[*count - 1] : NULL)) {
        ++*count;
    }
}

void ignore_above(struct ignore_level levels[IGNORE_MAX_ABOVE], size_t *ret_count, const char *path)
{
    size_t root = repository_of(path);
    size_t total = strlen(path);

    *ret_count = 0;
    for (size_t length = root; length > 0; length += 1 + strcspn(path + length + 1, "/")) {
        cleanup_free char *folder = strndup(path, length);
        cleanup_fd int fd = folder != NULL ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

        if (fd >= 0 && length == root) {
            add_level(levels, ret_count, fd, ".git/info/exclude", length + 1);
        }
        if (fd < 0 || length >= total) {
            break; /* the search reads its own directory's */
        }
        add_level(levels, ret_count, fd, ".gitignore", length + 1);
    }
}
