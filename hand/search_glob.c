/* glob: the files of a tree that one of some patterns describes, the newest first, each path with a NUL. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hand/search_dir.h"
#include "hand/search_ignore.h"
#include "hand/search_pattern.h"
#include "hand/tool.h"
#include "sandbox/cleanup.h"

#define GLOB_MAX_SHOWN 10000

struct found {
    char *path;
    struct timespec mtime;
};

struct glob {
    struct search search;
    struct path_pattern patterns[PATTERN_MAX_ALTERNATIVES];
    unsigned count;
    bool ignore;
    struct found *found; /* a heap: the first is the one that goes next */
    size_t found_count, limit;
    uint64_t matches;
};

/* Places in all patterns. */
struct places {
    uint64_t in[PATTERN_MAX_ALTERNATIVES];
};

/* ---- The newest ---- */

/* Whether a is after b in the answer. */
static bool is_after(const struct found *a, const struct found *b)
{
    if (a->mtime.tv_sec != b->mtime.tv_sec) {
        return a->mtime.tv_sec < b->mtime.tv_sec;
    }
    if (a->mtime.tv_nsec != b->mtime.tv_nsec) {
        return a->mtime.tv_nsec < b->mtime.tv_nsec;
    }
    return strcmp(a->path, b->path) > 0;
}

static void swap(struct found *a, struct found *b)
{
    struct found c = *a;

    *a = *b;
    *b = c;
}

static void sift_down(struct glob *g, size_t i)
{
    for (;;) {
        size_t last = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < g->found_count; child++) {
            if (is_after(&g->found[child], &g->found[last])) {
                last = child;
            }
        }
        if (last == i) {
            return;
        }
        swap(&g->found[i], &g->found[last]);
        i = last;
    }
}

static void sift_up(struct glob *g, size_t i)
{
    while (i > 0 && is_after(&g->found[i], &g->found[(i - 1) / 2])) {
        swap(&g->found[i], &g->found[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

/* The search's path is a match. */
static int keep(struct glob *g, const struct stat *st)
{
    struct found f = {strdup(search_path(&g->search)), st->st_mtim};

    g->matches++;
    if (f.path == NULL) {
        return -1;
    }
    if (g->found_count < g->limit) {
        g->found[g->found_count] = f;
        sift_up(g, g->found_count++);
    } else if (g->limit > 0 && is_after(&g->found[0], &f)) {
        free(g->found[0].path);
        g->found[0] = f;
        sift_down(g, 0);
    } else {
        free(f.path);
    }
    return 0;
}

static int in_order(const void *a, const void *b)
{
    return is_after(a, b) ? 1 : -1;
}

/* ---- The walk ---- */

static int walk(struct glob *g, int fd, const struct places *places, const struct ignore_level *above);

enum { MATCHED = 1, GOES_ON = 2, THROUGH_LINK = 4 };

/* The places after one more name, and what they mean. */
static unsigned step(const struct glob *g, const struct places *places, const char *name, size_t length,
                     bool is_link, struct places *ret)
{
    unsigned result = 0;

    for (unsigned i = 0; i < g->count; i++) {
        const struct path_pattern *p = &g->patterns[i];

        ret->in[i] = places->in[i] != 0 ? path_step(p, places->in[i], name, length, is_link) : 0;
        result |= path_goes_on(p, ret->in[i]) ? GOES_ON : 0;
        result |= path_matched(p, ret->in[i]) ? (p->only_directories ? THROUGH_LINK : MATCHED) : 0;
    }
    return result;
}

/* THROUGH_LINK stands here for "matched if it is a directory". */
static int look_at(struct glob *g, int fd, const char *name, size_t length, const struct places *places,
                   const struct ignore_level *ignore)
{
    size_t before = search_enter(&g->search, name, length);
    struct places next;
    struct stat st;
    unsigned what;
    int r = 0;

    if (before == 0) {
        return 0;
    }
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        search_unreadable(&g->search, errno);
        search_leave(&g->search, before);
        return 0;
    }
    what = step(g, places, name, length, S_ISLNK(st.st_mode), &next);
    if (what != 0 && g->ignore &&
        (strcmp(name, ".git") == 0 ||
         ignore_has(ignore, search_path(&g->search), S_ISDIR(st.st_mode)))) {
        what = 0;
    }
    if ((what & MATCHED) != 0 || ((what & THROUGH_LINK) != 0 && S_ISDIR(st.st_mode))) {
        r = keep(g, &st);
    }
    if (r == 0 && (what & GOES_ON) != 0 && (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))) {
        cleanup_fd int inner = search_open(&g->search, fd, name, S_ISLNK(st.st_mode));

        if (inner >= 0) {
            r = walk(g, inner, &next, ignore);
        }
    }
    search_leave(&g->search, before);
    return r;
}

/* Where only names that are known can go on, the directory need not be read: it may be one that cannot be. */
static bool all_literal(const struct glob *g, const struct places *places)
{
    for (unsigned i = 0; i < g->count; i++) {
        for (unsigned j = 0; j < g->patterns[i].count; j++) {
            if ((places->in[i] >> j & 1) != 0 && g->patterns[i].parts[j].kind != PART_LITERAL) {
                return false;
            }
        }
    }
    return true;
}

static bool was_before(const struct glob *g, const struct places *places, unsigned i, unsigned j)
{
    const struct path_part *part = &g->patterns[i].parts[j];

    for (unsigned k = 0; k <= i; k++) {
        for (unsigned l = 0; l < g->patterns[k].count && (k < i || l < j); l++) {
            const struct path_part *other = &g->patterns[k].parts[l];

            if ((places->in[k] >> l & 1) != 0 && other->length == part->length &&
                memcmp(other->text, part->text, part->length) == 0) {
                return true;
            }
        }
    }
    return false;
}

static int walk_literal(struct glob *g, int fd, const struct places *places,
                        const struct ignore_level *ignore)
{
    for (unsigned i = 0; i < g->count; i++) {
        for (unsigned j = 0; j < g->patterns[i].count; j++) {
            const struct path_part *part = &g->patterns[i].parts[j];
            char name[WIRE_MAX_NAME + 1];

            if ((places->in[i] >> j & 1) == 0 || part->length > WIRE_MAX_NAME ||
                was_before(g, places, i, j)) {
                continue;
            }
            memcpy(name, part->text, part->length);
            name[part->length] = '\0';
            if (look_at(g, fd, name, part->length, places, ignore) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int walk_listed(struct glob *g, int fd, const struct places *places,
                       const struct ignore_level *ignore)
{
    struct dir_list list;
    int r = 0;

    if (dir_list_read(&list, fd) < 0) {
        search_unreadable(&g->search, errno);
    }
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        struct dir_entry *e = &list.entries[i];
        struct places next;

        /* Most names match nothing: they are not even looked at. */
        if (step(g, places, dir_name(&list, e), e->length, false, &next) != 0) {
            r = look_at(g, fd, dir_name(&list, e), e->length, places, ignore);
        }
    }
    dir_list_release(&list);
    return r;
}

static int walk(struct glob *g, int fd, const struct places *places, const struct ignore_level *above)
{
    struct ignore_level own = {.above = above};
    dev_t dev = g->search.dev;
    struct stat st;
    int r;

    if (fstat(fd, &st) == 0) {
        g->search.dev = st.st_dev;
    }
    if (g->ignore && !ignore_load(&own, fd, ".gitignore",
                                  g->search.path.length + (g->search.path.length > 1), above)) {
        return -1;
    }
    g->search.depth++;
    r = all_literal(g, places) ? walk_literal(g, fd, places, &own) : walk_listed(g, fd, places, &own);
    g->search.depth--;
    g->search.dev = dev;
    ignore_release(&own);
    return r;
}

/* ---- The verb ---- */

static int parse_patterns(struct glob *g, struct error *err)
{
    const char *text = tool_argument(g->search.run, "pattern", NULL);
    struct alternatives alternatives;
    int r = 0;

    if (text == NULL || alternatives_new(&alternatives, text, err) < 0) {
        return text == NULL ? error_set(err, ERROR_BAD_REQUEST, 0, "a pattern is missing") : -1;
    }
    for (unsigned i = 0; r == 0 && i < alternatives.count; i++) {
        r = path_pattern_new(&g->patterns[i], alternatives.texts[i], strlen(alternatives.texts[i]), err);
        g->count += r == 0;
    }
    alternatives_release(&alternatives);
    return r;
}

static void answer(struct glob *g)
{
    struct tool_run *run = g->search.run;

    if (g->found_count > 0) {
        qsort(g->found, g->found_count, sizeof *g->found, in_order);
    }
    for (size_t i = 0; i < g->found_count; i++) {
        if (!tool_out(run, g->found[i].path, strlen(g->found[i].path) + 1)) {
            break;
        }
    }
    tool_say_number(run, "matches", g->matches);
    search_say(&g->search);
}

static int find(struct glob *g, struct error *err)
{
    const char *root = tool_argument(g->search.run, "path", NULL);
    struct ignore_level levels[IGNORE_MAX_ABOVE];
    size_t above = 0;
    struct places places;
    cleanup_fd int fd = -1;
    int r;

    if (root == NULL || parse_patterns(g, err) < 0) {
        return root == NULL ? error_set(err, ERROR_BAD_REQUEST, 0, "a path is missing") : -1;
    }
    fd = search_open_root(&g->search, root, err);
    if (fd < 0) {
        return -1;
    }
    for (unsigned i = 0; i < g->count; i++) {
        places.in[i] = path_start(&g->patterns[i]);
    }
    if (g->ignore) {
        ignore_above(levels, &above, root);
    }
    r = walk(g, fd, &places, above > 0 ? &levels[above - 1] : NULL);
    while (above > 0) {
        ignore_release(&levels[--above]);
    }
    return r < 0 ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;
}

int search_glob(struct tool_run *run, struct error *err)
{
    struct glob *g = calloc(1, sizeof *g);
    uint64_t limit = tool_argument_number(run, "limit");
    int r = -1;

    if (g == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    search_init(&g->search, run);
    g->limit = limit < GLOB_MAX_SHOWN ? (size_t)limit : GLOB_MAX_SHOWN;
    g->ignore = tool_argument_number(run, "gitignore") != 0;
    g->found = calloc(g->limit + 1, sizeof *g->found);
    if (g->found == NULL) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    } else {
        r = find(g, err);
    }
    if (r == 0) {
        answer(g);
    }
    for (size_t i = 0; i < g->found_count; i++) {
        free(g->found[i].path);
    }
    for (unsigned i = 0; i < g->count; i++) {
        path_pattern_release(&g->patterns[i]);
    }
    free(g->found);
    search_release(&g->search);
    free(g);
    return r;
}
