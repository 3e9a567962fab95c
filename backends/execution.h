/* One command run by the hand, with its promises: the deadline is decided here, on this host's clock;
 * on a deadline or a cancel the whole process tree inside dies; nothing is invented. On the link's loop;
 * nothing blocks; `done` is called exactly once, from the loop. */
#ifndef HANDSFS_BACKENDS_EXECUTION_H
#define HANDSFS_BACKENDS_EXECUTION_H

#include "backends/link.h"
#include "sandbox/buffer.h"

struct execution;

/* Bytes of stdout (0) or stderr (1), in order; borrowed. The command goes on while less than
 * EXECUTION_WINDOW bytes of the stream were not taken with execution_take(). Not called after `done`. May not
 * start or write to an execution. */
#define EXECUTION_WINDOW (256u << 10)
#define EXECUTION_MAX_UNTAKEN (EXECUTION_WINDOW + (1u << 20)) /* with what a pipe holds at the command's end */
typedef void (*execution_output)(void *arg, unsigned stream, const void *data, size_t length);

#define EXECUTION_MAX_ARGUMENTS (96u << 10)
struct execution_request {
    const char *tool;    /* NULL: bash runs the command; else a verb of the hand's tool program (hand/tool.h),
                            with `command` as its arguments, EXECUTION_MAX_ARGUMENTS bytes at most */
    const char *command; /* for /bin/bash -c, at most MAX_COMMAND_BYTES, no NUL inside */
    size_t command_length;
    const char *cwd;       /* NULL or "": the workdir; a relative one starts there */
    const char *const *env; /* NULL-terminated NAME=VALUE, added to the session's; may be NULL */
    bool has_stdin;        /* else /dev/null; bytes come with execution_write() */
    uint64_t timeout_ms;   /* 0: no deadline */
    uint64_t keep;         /* bytes of each stream to keep; 0: MAX_OUTPUT_BYTES */
    bool terminal;         /* on a new terminal; all output is stdout's. Without stdin it is at its end at once */
    uint16_t rows, columns; /* of that; 0: 24 and 80 */
    execution_output output; /* is given all output as it comes, beyond `keep` too; NULL: nobody */
    void (*room)(void *arg); /* execution_want_room() is fulfilled, from the loop; may be NULL */
    /* NULL, or the persistent shell (hand/shell.h) that it is a command of: it waits for the one before it,
     * and its time is counted from its turn on. */
    const char *shell;
    bool shell_reset; /* ends what runs or waits in the shell, which begins anew; with "" that is all */
};

#define EXECUTION_MAX_NAMED 32  /* processes in the background that a result names */
#define EXECUTION_NAME_BYTES 65 /* with a NUL */

struct execution_result {
    struct buffer out[2];  /* stdout, stderr: what was kept; done() may take them with buffer_move() */
    uint64_t dropped[2];   /* bytes beyond that, until the command's end */
    bool timed_out;        /* the deadline passed here before the end was heard */
    int exit_code;         /* -1 where a signal or the deadline ended it */
    int signal;            /* 0, or the signal that ended it (SIGKILL for a deadline) */
    uint64_t duration_ms;  /* from the request to the end, on this host's clock */
    bool told;             /* the hand has said what follows; else it is 0 */
    uint64_t user_us, system_us; /* of the command and what it waited for */
    uint64_t peak_kib;     /* of the largest process of those */
    bool oom_known, oom_killed; /* by the kernel, for want of memory */
    uint32_t left;         /* processes left in the background */
    unsigned named;        /* of those, in `background` */
    struct execution_left {
        uint32_t pid;      /* inside */
        char name[EXECUTION_NAME_BYTES]; /* any bytes */
    } background[EXECUTION_MAX_NAMED];
    enum wire_state state; /* what became of its changes to its shell */
};

/* `err` is NULL and `result` given where the command ran (whatever its exit, a deadline included);
 * otherwise the sandbox failed us: ERROR_SANDBOX_GONE, ERROR_NO_ANSWER (a silent hand), ERROR_CANCELLED,
 * ERROR_NO_SUCH_FILE or ERROR_NOT_DIRECTORY with a message that names the cwd or /bin/bash,
 * ERROR_BAD_REQUEST. */
typedef void (*execution_done)(void *arg, const struct error *err, struct execution_result *result);

/* Starts it; the request is copied. Never NULL. The execution is freed after `done`. */
struct execution *execution_start(struct link *link, const struct execution_request *request,
                                  execution_done done, void *arg) __attribute__((nonnull(1, 2, 3)));

/* Adds bytes for stdin (copied) and, with `eof`, ends it. What the command never reads is dropped at its
 * end. ERROR_TOO_LARGE where more than EXECUTION_MAX_QUEUED bytes would wait. */
#define EXECUTION_MAX_QUEUED (16u << 20)
int execution_write(struct execution *execution, const void *data, size_t length, bool eof,
                    struct error *err) __attribute__((nonnull(1, 5), warn_unused_result));

/* Of what `output` was given, so much more was dealt with. */
void execution_take(struct execution *execution, unsigned stream, size_t length)
    __attribute__((nonnull));

/* Bytes of output that have come so far. */
uint64_t execution_received(const struct execution *execution) __attribute__((nonnull));

/* Bytes of stdin that wait here, and the wish to be told (once) when they are less than EXECUTION_ROOM. */
#define EXECUTION_ROOM (256u << 10)
size_t execution_unread(const struct execution *execution) __attribute__((nonnull));
void execution_want_room(struct execution *execution) __attribute__((nonnull));

/* The size of its terminal; nothing where it has none or is over. */
void execution_resize(struct execution *execution, uint16_t rows, uint16_t columns)
    __attribute__((nonnull));

/* Sends a signal to the command's process group. Silent where it is over already. */
void execution_signal(struct execution *execution, int signal) __attribute__((nonnull));

/* Kills the tree; `done` is called with ERROR_CANCELLED once the hand has confirmed it, or after
 * EXECUTION_KILL_WAIT_MS without an answer. */
#define EXECUTION_KILL_WAIT_MS 2000
void execution_cancel(struct execution *execution) __attribute__((nonnull));

/* ---- The barrier between the mount and the commands ---- */

/* What a mount does around each command that goes through its gateway. Either may be NULL. Each calls
 * `then(arg)` from the loop, exactly once and within a second: `before` when all that was written through
 * the mount is visible inside, `after` when the mount shows all that the command did. */
struct exec_barrier {
    void (*before)(void *ctx, void (*then)(void *arg), void *arg);
    void (*after)(void *ctx, void (*then)(void *arg), void *arg);
    void *ctx;
};

#endif
