/* What the tools share; private to exec/tool*.c.
 *
 * tools.c         the table, and a call's life: arguments checked, barrier, run, barrier, done
 * tool_check.c    arguments against the schema
 * tool_text.c     what is answered: faults in words, the cap
 * tool_spill.c    the file for what is over the cap
 * tool_program.c  the hand's own tool program, run as an execution
 * tool_bash.c tool_read.c tool_edit.c (write too) tool_glob.c tool_grep.c
 * tool_methods.c  tools.list and tools.call
 *
 * A tool's run() starts one thing (an execution, a file call, a command of the shell); that thing's end
 * starts the next, or ends the call with one of the tool_end functions, once. Between them at most one
 * callback of somebody else's knows the call. */
#ifndef HANDSFS_EXEC_TOOL_INTERNAL_H
#define HANDSFS_EXEC_TOOL_INTERNAL_H

#include "exec/server.h"
#include "exec/tools.h"
#include "sandbox/buffer.h"

#define TOOL_PROGRAM_STATS_BYTES 4096 /* of what the program says on stderr */
#define TOOL_MAX_PATH 4096            /* bytes of a path or a pattern */
#define TOOL_MAX_OUTPUT (4u << 20)    /* bytes of a text before it is cut: what the hand keeps at most */
#define TOOL_MAX_SPILLED_FILES 64     /* whole texts that are kept inside, the newest */
#define TOOL_MAX_SPILLED_BYTES (64 << 20) /* ... of all of them */

struct tool_program_end;

struct tool_call {
    struct gateway *gateway;
    const struct tool *tool; /* NULL: unknown */
    char name[65];
    json_t *arguments; /* an object, or NULL */
    tool_progress progress;
    tool_done done;
    void *arg;

    uv_timer_t timer; /* progress; and the first turn, so that nothing is answered from inside */
    uint64_t started_ms;
    bool cancelled;

    /* What is under way. */
    struct execution *execution;
    void (*cancel)(struct tool_call *call); /* of the step; may be NULL */
    void *step;

    /* The tool's own. */
    struct buffer path; /* of the file or folder: absolute, clean */
    struct buffer text; /* what is answered */
    void (*program_done)(struct tool_call *call, const struct tool_program_end *end);

    /* The end. */
    char trailer[256];
    char spill[128]; /* the file with all of the text */
    void (*spilled)(void *call, const struct error *err); /* when it is there, or could not be written */
    struct tool_result result;
    bool failed;
    struct error error;
};

/* ---- Arguments (tool_check.c) ---- */

/* Compares with the schema: required, types, unknown names, NUL characters (in all strings but "content",
 * "old_string", "new_string", "command"). -1 with a message for a model in `err`. */
int tool_check(const struct tool *tool, const json_t *arguments, struct error *err)
    __attribute__((nonnull(1, 3), warn_unused_result));

/* A checked argument, or the default. A number with a zero fraction counts as whole; one out of 64 bits is
 * the nearest that is in. */
const char *tool_string(const struct tool_call *call, const char *name, size_t *ret_length)
    __attribute__((nonnull(1, 2)));
int64_t tool_number(const struct tool_call *call, const char *name, int64_t otherwise)
    __attribute__((nonnull));
int64_t tool_whole(const json_t *value, int64_t otherwise);
bool tool_flag(const struct tool_call *call, const char *name) __attribute__((nonnull));

/* Puts the argument `name` as an absolute clean path into call->path, the workdir where it is not given.
 * -1 where it is too long. */
int tool_path_of(struct tool_call *call, const char *path) __attribute__((nonnull(1), warn_unused_result));
int tool_path(struct tool_call *call, const char *name) __attribute__((nonnull, warn_unused_result));

/* ---- Ends (tool_text.c) ---- */

void tool_strip_nul(struct buffer *text) __attribute__((nonnull));

/* Ends with a result: call->text, capped, what is over the cap in a file inside. `trailer` (may be NULL) is
 * never cut; `structured` is stolen, NULL for none. */
void tool_end(struct tool_call *call, bool is_error, const char *trailer, json_t *structured)
    __attribute__((nonnull(1)));
/* The same without a cap. */
void tool_end_whole(struct tool_call *call, bool is_error, json_t *structured) __attribute__((nonnull(1)));
/* Ends with an error result of this text. */
void tool_end_text(struct tool_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(1, 2)));
/* Ends with what a file call or an execution failed with: a result "VERB PATH: reason" where the caller of the
 * tool can do something about it, else the error. */
void tool_end_fault(struct tool_call *call, const struct error *err) __attribute__((nonnull));

void tool_end_reason(struct tool_call *call, const struct error *err) __attribute__((nonnull));

/* Writes call->text into a file inside, call->spill, and removes the oldest of such files past
 * TOOL_MAX_SPILLED_FILES and TOOL_MAX_SPILLED_BYTES (tool_spill.c). `then` is called once, with what the writing
 * failed with. */
void tool_spill(struct tool_call *call, void (*then)(void *call, const struct error *err))
    __attribute__((nonnull));

/* The last step: the barrier, then `done` (tools.c). */
void tool_finish(struct tool_call *call) __attribute__((nonnull));

/* ---- The hand's tool program (tool_program.c) ---- */

/* The arguments of the program, and its input. */
struct tool_program {
    struct buffer arguments;
    struct buffer input;
    bool has_input;
    bool failed; /* something did not fit */
};
#define TOOL_PROGRAM_INIT {BUFFER_INIT(EXECUTION_MAX_ARGUMENTS), BUFFER_INIT(2 * MAX_FILE_BYTES), false, false}

void tool_program_text(struct tool_program *program, const char *name, const char *value, size_t length)
    __attribute__((nonnull));
void tool_program_number(struct tool_program *program, const char *name, int64_t value)
    __attribute__((nonnull));
void tool_program_input(struct tool_program *program, const void *data, size_t length)
    __attribute__((nonnull(1)));

/* How it ended. */
struct tool_program_end {
    struct buffer *out; /* what it printed; may be taken with buffer_move() */
    bool timed_out;
    json_t *said;       /* what else it said, by name: numbers and words; borrowed */
};

/* Runs `verb` of the hand's tool program; `program` is released. `out_max` bounds what it prints. `then` is called
 * where it ran, and did not fail by its own account; else the call is ended. */
void tool_program_run(struct tool_call *call, const char *verb, struct tool_program *program,
                      uint64_t out_max,
                      void (*then)(struct tool_call *call, const struct tool_program_end *end))
    __attribute__((nonnull));

/* A number that it said, 0 where none. */
int64_t tool_said(const struct tool_program_end *end, const char *name) __attribute__((nonnull));

/* Adds what a search could not look at, each on a line. */
void tool_add_notes(const struct tool_program_end *end, char *notes, size_t size) __attribute__((nonnull));

/* Ends the call where it had no end of its own: with what it printed until then. */
void tool_end_timed_out(struct tool_call *call, const struct tool_program_end *end, json_t *structured)
    __attribute__((nonnull(1, 2)));

/* ---- The tools ---- */

extern const struct tool tool_bash;
extern const struct tool tool_read;
extern const struct tool tool_write;
extern const struct tool tool_edit;
extern const struct tool tool_glob;
extern const struct tool tool_grep;

#endif
