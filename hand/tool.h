/* The hand as a tool: `hand tool VERB ARGUMENTS`, run as an execution like any command of the sandbox's user, with
 * an execution's promises (a deadline, its end with its whole tree, a cap), and needing nothing of the image.
 *
 * ARGUMENTS is one text: for each argument its length in decimal, ":", and NAME=VALUE of that length. The answer
 * is on stdout. On stderr come lines NAME VALUE that say what else there is to say: numbers, or words in
 * which what does not print is "?". Where the first of them is `error` it has failed, with an error code's name,
 * `errno` and `message`. */
#ifndef HANDSFS_HAND_TOOL_H
#define HANDSFS_HAND_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "hand/wire.h"
#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define TOOL_MAX_ARGUMENTS 24
#define TOOL_OUT_PIECE (64u << 10) /* bytes of output that are written at once */
#define TOOL_MAX_UNREADABLE 3      /* files that could not be read of which the answer has the names */

struct tool_argument {
    const char *name;
    const char *value; /* NUL-terminated */
    size_t length;
};

struct tool_run {
    char *text; /* the arguments, cut to pieces */
    struct tool_argument arguments[TOOL_MAX_ARGUMENTS];
    size_t argument_count;
    struct buffer out;
    uint64_t out_total, out_max; /* bytes of stdout so far, and at most */
    bool out_full;               /* something did not fit */
    struct buffer said;          /* for stderr */
};

/* The program. Returns its exit status. */
int tool_main(int argc, char **argv);

/* An argument, NULL (0) where it was not given. */
const char *tool_argument(const struct tool_run *run, const char *name, size_t *ret_length)
    __attribute__((nonnull(1, 2)));
uint64_t tool_argument_number(const struct tool_run *run, const char *name) __attribute__((nonnull));

/* Output. Past `out_max` nothing more is taken, `out_full` is set, and false returned. */
bool tool_out(struct tool_run *run, const void *data, size_t length) __attribute__((nonnull(1)));
void tool_out_flush(struct tool_run *run) __attribute__((nonnull));

/* What else there is to say. */
void tool_say_number(struct tool_run *run, const char *name, uint64_t value) __attribute__((nonnull));
void tool_say(struct tool_run *run, const char *name, const char *text, size_t length)
    __attribute__((nonnull));

/* A file's state: another one after every change. */
#define TOOL_VERSION_SIZE 96
void tool_version(char to[TOOL_VERSION_SIZE], const struct stat *st) __attribute__((nonnull));
void tool_version_of_attr(char to[TOOL_VERSION_SIZE], const struct wire_attr *attr) __attribute__((nonnull));

/* Opens a regular file for reading, and nothing else: directories, links, FIFOs, devices are refused unopened. The
 * descriptor, or -1. */
int tool_open(const char *path, struct stat *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The verbs. */
int tool_lines(struct tool_run *run, struct error *err); /* tool_lines.c */
int tool_edit(struct tool_run *run, struct error *err);  /* tool_edit.c */
int tool_put(struct tool_run *run, struct error *err);   /* tool_edit.c */
int tool_sweep(struct tool_run *run, struct error *err); /* tool_sweep.c */
int search_glob(struct tool_run *run, struct error *err); /* search_glob.c */
int search_grep(struct tool_run *run, struct error *err); /* search_grep.c */

#endif
