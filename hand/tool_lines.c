/* lines: some lines of a file, and what state the file is in. Only they leave the sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hand/tool.h"
#include "hand/tool_reader.h"
#include "sandbox/cleanup.h"

#define MAX_COUNTED (64u << 20) /* bytes behind which lines are not counted any more */

struct lines {
    struct tool_run *run;
    struct line_reader reader;
    uint64_t first, last; /* asked for; last 0: to the end */
    bool numbered;
    uint64_t shown_first, shown_last; /* 0: none */
    uint64_t full_last;               /* the last line that was shown whole */
};

/* At a character's end. */
static void put_some(struct lines *l, const uint8_t *data, size_t length)
{
    uint64_t room = l->run->out_max - l->run->out_total;
    size_t kept = length < room ? length : (size_t)room;

    while (kept > 0 && kept < length && (data[kept] & 0xc0) == 0x80) {
        kept--;
    }
    (void)tool_out(l->run, data, kept);
    if (kept < length) {
        l->run->out_full = true;
    }
}

static void put_piece(struct lines *l, const struct line_piece *piece)
{
    char number[32];

    if (piece->is_first && l->numbered &&
        !tool_out(l->run, number, (size_t)snprintf(number, sizeof number, "%6llu\t",
                                                   (unsigned long long)l->reader.line))) {
        return;
    }
    put_some(l, piece->data, piece->length);
    if (piece->has_newline) {
        (void)tool_out(l->run, "\n", 1);
    }
    if (piece->length > 0 || piece->is_first) {
        l->shown_first = l->shown_first == 0 ? l->reader.line : l->shown_first;
        l->shown_last = l->reader.line;
    }
    if (piece->is_last && !l->run->out_full) {
        l->full_last = l->reader.line;
    }
}

/* Behind the range nothing more is read; but where all of a file was asked for its lines are counted. */
static bool show(struct lines *l)
{
    bool to_the_end = l->last == 0;
    struct line_piece piece;

    while (reader_next(&l->reader, &piece)) {
        uint64_t line = l->reader.line;

        if (!to_the_end && line > l->last) {
            return false;
        }
        if (line >= l->first && !l->run->out_full) {
            put_piece(l, &piece);
        }
        if (!to_the_end && line == l->last && piece.is_last) {
            return false;
        }
        if (l->run->out_full && (!to_the_end || l->reader.offset > MAX_COUNTED)) {
            return false;
        }
    }
    return true;
}

static int lines_of(struct lines *l, int fd, const struct stat *st, struct error *err)
{
    char version[TOOL_VERSION_SIZE];
    struct stat now;
    bool whole;

    reader_begin(&l->reader, fd);
    whole = show(l);
    if (l->reader.failed != 0) {
        return error_set_errno(err, l->reader.failed, "reading");
    }
    tool_version(version, st);
    /* What changed while it was read has no version: an edit on its strength is refused. */
    if (fstat(fd, &now) == 0 && now.st_mtim.tv_sec == st->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == st->st_mtim.tv_nsec && now.st_size == st->st_size) {
        tool_say(l->run, "version", version, strlen(version));
    }
    tool_say_number(l->run, "size", (uint64_t)st->st_size);
    if (whole) {
        tool_say_number(l->run, "total_lines", l->reader.line);
    }
    tool_say_number(l->run, "first", l->shown_first);
    tool_say_number(l->run, "last", l->shown_last);
    tool_say_number(l->run, "next", l->full_last + 1);
    tool_say_number(l->run, "cut", l->run->out_full);
    return 0;
}

int tool_lines(struct tool_run *run, struct error *err)
{
    const char *path = tool_argument(run, "path", NULL);
    uint64_t limit = tool_argument_number(run, "limit");
    struct lines l = {.run = run,
                      .first = tool_argument_number(run, "first"),
                      .last = tool_argument_number(run, "last"),
                      .numbered = tool_argument_number(run, "numbers") != 0};
    cleanup_fd int fd = -1;
    struct stat st;
    int r;

    if (path == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a path is missing");
    }
    fd = tool_open(path, &st, err);
    if (fd < 0) {
        return -1;
    }
    if (limit > 0 && (uint64_t)st.st_size > limit) {
        return error_set_errno(err, EFBIG, "%s", path);
    }
    if (reader_init(&l.reader) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    r = lines_of(&l, fd, &st, err);
    reader_release(&l.reader);
    return r;
}
