/* grep: the lines of the files of a tree that match. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hand/search_dir.h"
#include "hand/search_ignore.h"
#include "hand/search_pattern.h"
#include "hand/search_regex.h"
#include "hand/tool.h"
#include "hand/tool_reader.h"
#include "sandbox/cleanup.h"

#define GREP_MAX_SHOWN 2000  /* bytes of one line */
#define GREP_MAX_CONTEXT 100 /* lines before, and after */

enum grep_mode { GREP_LINES, GREP_FILES, GREP_COUNTS };

/* The beginning of a line, as far as it is shown. */
struct shown_line {
    uint64_t number;
    size_t length, whole; /* what is here, and what there was */
    uint8_t text[GREP_MAX_SHOWN];
};

struct grep {
    struct search search;
    struct regex *regex;
    struct line_reader reader;
    enum grep_mode mode;
    unsigned before, after;
    uint64_t limit; /* of matches, or of files; 0: none */
    bool all;       /* nothing is left out by name */
    bool ignore;
    size_t root_length; /* of the path, to the names behind it */
    struct path_pattern filters[PATTERN_MAX_ALTERNATIVES];
    unsigned filter_count;
    bool filter_excludes;

    struct shown_line line;
    struct shown_line *ring; /* `before` lines */
    uint64_t ring_next;      /* lines that were put there since the last that was shown */
    uint64_t last_shown;     /* of this file; 0: none */
    bool any_shown;

    uint64_t matches, files, binary, file_matches;
    bool stop; /* the limit, or no room for more */
};

/* ---- Output ---- */

/* A newline in a path would make two lines of one. */
static void put_path(struct grep *g)
{
    const char *path = search_path(&g->search);

    for (;;) {
        size_t plain = strcspn(path, "\n");

        tool_out(g->search.run, path, plain);
        if (path[plain] == '\0') {
            return;
        }
        tool_out(g->search.run, "\\n", 2);
        path += plain + 1;
    }
}

static size_t whole_characters(const uint8_t *text, size_t length)
{
    size_t back = 0;

    while (back < 3 && back < length && (text[length - 1 - back] & 0xc0) == 0x80) {
        back++;
    }
    return back < length && text[length - 1 - back] >= 0xc0 ? length - 1 - back : length;
}

static void put_line(struct grep *g, const struct shown_line *line, char separator)
{
    struct tool_run *run = g->search.run;
    size_t length = line->length;
    char number[64];

    if (g->before + g->after > 0 && g->any_shown &&
        (g->last_shown == 0 || line->number > g->last_shown + 1)) {
        tool_out(run, "--\n", 3);
    }
    put_path(g);
    tool_out(run, number, (size_t)snprintf(number, sizeof number, "%c%llu%c", separator,
                                           (unsigned long long)line->number, separator));
    if (length < line->whole) {
        length = whole_characters(line->text, length);
    }
    tool_out(run, line->text, length);
    if (length < line->whole) {
        tool_out(run, number, (size_t)snprintf(number, sizeof number, " [%zu bytes more]",
                                               line->whole - length));
    }
    if (!tool_out(run, "\n", 1)) {
        g->stop = true;
    }
    g->last_shown = line->number;
    g->any_shown = true;
}

/* ---- One file ---- */

static void keep_for_context(struct grep *g)
{
    if (g->before > 0) {
        struct shown_line *to = &g->ring[g->ring_next++ % g->before];

        to->number = g->line.number;
        to->length = g->line.length;
        to->whole = g->line.whole;
        memcpy(to->text, g->line.text, g->line.length);
    }
}

static void put_context_before(struct grep *g)
{
    uint64_t count = g->ring_next < g->before ? g->ring_next : g->before;

    for (uint64_t i = g->ring_next - count; i < g->ring_next; i++) {
        put_line(g, &g->ring[i % g->before], '-');
    }
    g->ring_next = 0;
}

/* The line is complete. */
static void end_line(struct grep *g, bool matched, uint64_t *after_left)
{
    if (matched) {
        g->file_matches++;
        if (g->mode == GREP_LINES) {
            put_context_before(g);
            put_line(g, &g->line, ':');
        }
        *after_left = g->after;
        if (g->mode != GREP_FILES && g->limit > 0 && g->matches + g->file_matches >= g->limit) {
            g->stop = true;
        }
    } else if (g->mode == GREP_LINES && *after_left > 0) {
        put_line(g, &g->line, '-');
        --*after_left;
    } else if (g->mode == GREP_LINES) {
        keep_for_context(g);
    }
}

static void take_piece(struct grep *g, const struct line_piece *piece, size_t length)
{
    struct shown_line *line = &g->line;
    size_t room = GREP_MAX_SHOWN - line->length;

    if (piece->is_first) {
        line->number = g->reader.line;
        line->length = line->whole = 0;
        room = GREP_MAX_SHOWN;
    }
    memcpy(line->text + line->length, piece->data, length < room ? length : room);
    line->length += length < room ? length : room;
    line->whole += length;
}

static void search_lines(struct grep *g)
{
    struct line_piece piece;
    uint64_t after_left = 0;
    bool matched = false;

    while (!g->stop && reader_next(&g->reader, &piece)) {
        size_t length = piece.length;

        if (g->reader.saw_nul) {
            g->binary++;
            return;
        }
        if (piece.is_first) {
            regex_begin(g->regex);
            matched = false;
        }
        if (piece.is_last && length > 0 && piece.data[length - 1] == '\r') {
            length--;
        }
        take_piece(g, &piece, length);
        matched = matched || regex_feed(g->regex, piece.data, length) ||
                  (piece.is_last && regex_end(g->regex));
        if (piece.is_last) {
            end_line(g, matched, &after_left);
        }
        if (g->mode == GREP_FILES && matched) {
            g->file_matches = 1;
            return;
        }
    }
}

/* After what the mode says of one file. */
static void end_file(struct grep *g)
{
    char text[32];

    if (g->file_matches == 0) {
        return;
    }
    g->matches += g->file_matches;
    g->files++;
    if (g->mode != GREP_LINES) {
        put_path(g);
        if (g->mode == GREP_COUNTS) {
            tool_out(g->search.run, text, (size_t)snprintf(text, sizeof text, ":%llu",
                                                           (unsigned long long)g->file_matches));
        }
        if (!tool_out(g->search.run, "\n", 1)) {
            g->stop = true;
        }
    }
    if (g->mode == GREP_FILES && g->limit > 0 && g->files >= g->limit) {
        g->stop = true;
    }
    tool_out_flush(g->search.run); /* a deadline takes away only what comes later */
}

static void search_file(struct grep *g, int fd)
{
    g->file_matches = 0;
    g->ring_next = 0;
    g->last_shown = 0;
    reader_begin(&g->reader, fd);
    search_lines(g);
    if (g->reader.failed != 0) {
        search_unreadable(&g->search, g->reader.failed);
    }
    end_file(g);
}

/* ---- The tree ---- */

static bool passes_filter(const struct grep *g, const char *path)
{
    if (g->filter_count == 0) {
        return true;
    }
    for (unsigned i = 0; i < g->filter_count; i++) {
        if (path_match(&g->filters[i], path)) {
            return !g->filter_excludes;
        }
    }
    return g->filter_excludes;
}

static bool is_left_out(const struct grep *g, const char *name)
{
    return strcmp(name, ".git") == 0 ? !g->all || g->ignore
                                     : !g->all && strcmp(name, "node_modules") == 0;
}

static void look_at_file(struct grep *g, int folder, const char *name)
{
    cleanup_fd int fd = -1;
    struct stat st;

    if (!passes_filter(g, search_path(&g->search) + g->root_length)) {
        return;
    }
    fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        search_unreadable(&g->search, errno);
    } else if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        search_file(g, fd);
    }
}

static int walk(struct grep *g, int fd, const struct ignore_level *above);

static int look_at(struct grep *g, int folder, const struct dir_list *list, const struct dir_entry *e,
                   const struct ignore_level *ignore)
{
    const char *name = dir_name(list, e);
    bool is_directory = e->kind == ENTRY_DIRECTORY;
    size_t before;
    int r = 0;

    if ((e->kind != ENTRY_FILE && !is_directory) || (is_directory && is_left_out(g, name))) {
        return 0;
    }
    before = search_enter(&g->search, name, e->length);
    if (before == 0) {
        return 0;
    }
    if (!g->ignore || !ignore_has(ignore, search_path(&g->search), is_directory)) {
        cleanup_fd int inner = is_directory ? search_open(&g->search, folder, name, false) : -1;

        if (inner >= 0) {
            r = walk(g, inner, ignore);
        } else if (!is_directory) {
            look_at_file(g, folder, name);
        }
    }
    search_leave(&g->search, before);
    return r;
}

static int walk(struct grep *g, int fd, const struct ignore_level *above)
{
    struct ignore_level own = {.above = above};
    dev_t dev = g->search.dev;
    struct dir_list list;
    struct stat st;
    int r = 0;

    if (fstat(fd, &st) == 0) {
        g->search.dev = st.st_dev;
    }
    if (g->ignore && !ignore_load(&own, fd, ".gitignore",
                                  g->search.path.length + (g->search.path.length > 1), above)) {
        return -1;
    }
    if (dir_list_read(&list, fd) < 0) {
        search_unreadable(&g->search, errno);
    }
    g->search.depth++;
    for (size_t i = 0; r == 0 && !g->stop && i < list.count; i++) {
        r = look_at(g, fd, &list, &list.entries[i], &own);
    }
    g->search.depth--;
    g->search.dev = dev;
    dir_list_release(&list);
    ignore_release(&own);
    return r;
}

/* ---- The verb ---- */

static int search_tree(struct grep *g, const char *root, struct error *err)
{
    struct ignore_level levels[IGNORE_MAX_ABOVE];
    size_t above = 0;
    cleanup_fd int fd = search_open_root(&g->search, root, err);
    int r;

    if (fd < 0) {
        return -1;
    }
    g->root_length = g->search.path.length + (g->search.path.length > 1);
    if (g->ignore) {
        ignore_above(levels, &above, root);
    }
    r = walk(g, fd, above > 0 ? &levels[above - 1] : NULL);
    while (above > 0) {
        ignore_release(&levels[--above]);
    }
    return r < 0 || regex_failed(g->regex) ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;
}

static int search_one(struct grep *g, const char *root, struct error *err)
{
    cleanup_fd int fd = open(root, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return error_set_errno(err, errno, "%s", root);
    }
    if (!S_ISREG(st.st_mode)) {
        return error_set_errno(err, ENXIO, "%s", root);
    }
    if (buffer_append_string(&g->search.path, root) < 0) {
        return error_set_errno(err, ENAMETOOLONG, "the path");
    }
    search_file(g, fd);
    return 0;
}

static int search_root(struct grep *g, struct error *err)
{
    const char *root = tool_argument(g->search.run, "path", NULL);
    struct stat st;

    if (root == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a path is missing");
    }
    if (stat(root, &st) < 0) {
        return error_set_errno(err, errno, "%s", root);
    }
    if (S_ISDIR(st.st_mode)) {
        return search_tree(g, root, err);
    }
    return S_ISREG(st.st_mode) ? search_one(g, root, err) : error_set_errno(err, ENXIO, "%s", root);
}

/* A filter without a slash is of names at any depth; "!" before it leaves out what it describes. */
static int parse_filter(struct grep *g, struct error *err)
{
    const char *text = tool_argument(g->search.run, "glob", NULL);
    struct alternatives alternatives;
    int r = 0;

    if (text == NULL) {
        return 0;
    }
    g->filter_excludes = text[0] == '!';
    if (alternatives_new(&alternatives, text + g->filter_excludes, err) < 0) {
        return -1;
    }
    for (unsigned i = 0; r == 0 && i < alternatives.count; i++) {
        cleanup_buffer struct buffer whole = BUFFER_INIT(PATTERN_MAX_BYTES + 4);
        const char *one = alternatives.texts[i];

        if ((strchr(one, '/') == NULL && buffer_append(&whole, "**/", 3) < 0) ||
            buffer_append_string(&whole, one) < 0) {
            r = error_set(err, ERROR_BAD_REQUEST, 0, "the glob is too long");
            break;
        }
        r = path_pattern_new(&g->filters[i], (const char *)whole.data, whole.length, err);
        g->filter_count += r == 0;
    }
    alternatives_release(&alternatives);
    return r;
}

static int parse(struct grep *g, struct error *err)
{
    const struct tool_run *run = g->search.run;
    size_t length;
    const char *pattern = tool_argument(run, "pattern", &length);
    const char *mode = tool_argument(run, "mode", NULL);
    uint64_t before = tool_argument_number(run, "before");
    uint64_t after = tool_argument_number(run, "after");
    unsigned flags = (tool_argument_number(run, "ignore_case") != 0 ? REGEX_IGNORE_CASE : 0) |
                     (tool_argument_number(run, "fixed") != 0 ? REGEX_FIXED : 0);

    g->mode = mode == NULL                  ? GREP_LINES
              : strcmp(mode, "files") == 0  ? GREP_FILES
              : strcmp(mode, "count") == 0  ? GREP_COUNTS
                                            : GREP_LINES;
    g->before = before < GREP_MAX_CONTEXT ? (unsigned)before : GREP_MAX_CONTEXT;
    g->after = after < GREP_MAX_CONTEXT ? (unsigned)after : GREP_MAX_CONTEXT;
    g->limit = tool_argument_number(run, "limit");
    g->all = tool_argument_number(run, "all") != 0;
    g->ignore = tool_argument_number(run, "gitignore") != 0;
    if (pattern == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a pattern is missing");
    }
    if (regex_new(&g->regex, pattern, length, flags, err) < 0 || parse_filter(g, err) < 0) {
        return -1;
    }
    g->ring = calloc(g->before + 1, sizeof *g->ring);
    return g->ring == NULL || reader_init(&g->reader) < 0
               ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
               : 0;
}

int search_grep(struct tool_run *run, struct error *err)
{
    struct grep *g = calloc(1, sizeof *g);
    int r;

    if (g == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    search_init(&g->search, run);
    r = parse(g, err);
    if (r == 0) {
        r = search_root(g, err);
    }
    if (r == 0) {
        tool_say_number(run, "matches", g->matches);
        tool_say_number(run, "files", g->files);
        tool_say_number(run, "binary", g->binary);
        tool_say_number(run, "cut", run->out_full);
        tool_say_number(run, "limit_reached", g->stop && !run->out_full);
        search_say(&g->search);
    }
    for (unsigned i = 0; i < g->filter_count; i++) {
        path_pattern_release(&g->filters[i]);
    }
    regex_free(g->regex);
    reader_release(&g->reader);
    free(g->ring);
    search_release(&g->search);
    free(g);
    return r;
}
