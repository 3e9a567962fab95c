/* Commands: each is a child of a supervisor (hand/supervisor.h), its output is kept here up to a bound
 * until the host has it, and its whole tree can be killed.
 *
 * An execution is a record that outlives the connection it was asked for on: execution_tell() makes the
 * frames that the host does not have yet, one at a time, and execution_attach() sets it back to what the
 * host says it has. The pipes are read whether or not anybody takes the frames away. */
#ifndef HANDSFS_HAND_EXEC_H
#define HANDSFS_HAND_EXEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "hand/list.h"
#include "hand/loop.h"
#include "hand/shell.h"
#include "hand/supervisor.h"
#include "hand/tree.h"
#include "hand/wire.h"
#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define EXEC_MAX_RUNNING 256              /* executions that the host has not forgotten */
#define EXEC_MAX_KEEP (4u << 20)          /* bytes of one stream */
#define EXEC_MAX_TERMINAL_REST (64u << 10) /* of a terminal, after the command's end: its buffers hold less */
#define EXEC_MAX_DRAINS 1024              /* pipes that only processes in the background still hold */
#define EXEC_INPUT_WINDOW (1u << 20)      /* bytes of stdin that may wait here */
#define EXEC_CHUNK_BYTES 65536            /* in one OUTPUT frame, or read at once */
#define EXEC_HANGUP_BYTES 512             /* read at once where the writers are gone */
#define EXEC_MAX_ARGUMENT (96u << 10)     /* a longer command goes through a file in memory */
#define EXEC_KILL_TELL_MS 2000            /* a tree that has not died by then is reported as left */
#define EXEC_KILL_GIVE_UP_MS 120000       /* and killed on until then */
#define EXEC_PROGRAM "/bin/bash"
#define EXEC_TERM "xterm" /* of a terminal, unless its environment says otherwise */

struct executions;

/* Whose executions these are: part of a client. */
struct execution_owner {
    struct list executions;
    /* One of them has something to tell. */
    void (*changed)(struct execution_owner *owner);
};

enum execution_state { EXECUTION_STARTING, EXECUTION_RUNNING, EXECUTION_FAILED };

struct stream {
    struct execution *execution;
    struct source source;
    struct buffer kept; /* what the host may still ask for */
    uint64_t base;      /* the offset of its first byte */
    uint64_t sent;      /* the offset up to which frames were made */
    uint64_t keep;
    bool flow;          /* `keep` counts from `credit` on, and past it nothing is read */
    uint64_t credit;    /* the offset up to which the host has taken it */
    int held;           /* the descriptor while it is not read, else -1 */
    uint64_t total;     /* bytes that came */
};

struct input {
    struct source source;
    struct buffer queue;
    size_t at;         /* bytes of the queue that are written */
    uint64_t received; /* offset of the next byte that is news */
    uint64_t done;     /* offset up to which all was written or dropped */
    uint64_t told;     /* the credit that the host was told of */
    bool eof;
    bool eof_typed;    /* a terminal was given its character for that */
    uint8_t last;      /* byte that was written */
};

struct execution {
    struct list by_owner, by_set;
    struct executions *set;
    struct execution_owner *owner; /* NULL: nobody waits for it any more */
    uint64_t id;
    enum execution_state state;
    struct supervisor *supervisor; /* NULL once it is dead */
    bool orphaned;                 /* the supervisor died before its children */
    pid_t command;
    uint64_t early_signals; /* that came before it was started, one bit a number */
    struct source report;
    struct stream streams[2];
    bool has_stdin;
    bool is_terminal;
    int terminal; /* the command's side of its terminal, held open until its end, so that it never hangs up; or -1 */
    struct input input;
    bool ended;   /* the status of the command is known */
    bool settled; /* and what it has left behind: `exit` is complete */
    struct wire_exit exit;
    char left_names[WIRE_MAX_LEFT][WIRE_MAX_LEFT_NAME]; /* the texts of exit.background */
    uint64_t oom_before; /* oom_count() at its start */
    struct error failure;
    bool quiet; /* the host came back and has not said yet what it has: nothing is told before that */
    bool told_started, told_exit;
    unsigned turn; /* the stream that is told next */
    bool killing;        /* until its tree is dead, or for EXEC_KILL_GIVE_UP_MS */
    bool kill_waits;     /* and until that, or for EXEC_KILL_TELL_MS, its end is not told */
    uint64_t kill_since;
    size_t kill_left; /* processes of it at the last look */
    char *cwd; /* for messages */
    bool is_tool; /* this program itself runs, and no bash */
    struct shell_call *call; /* its place in a shell, or NULL */
};

/* A living supervisor; it may outlive the record of its execution. */
struct supervisor {
    struct list node;
    pid_t pid;
    struct execution *execution; /* or NULL */
};

/* A process that lost its supervisor, and whose it is. */
struct stray {
    pid_t pid;
    uint64_t start;
    struct execution *owner; /* or NULL */
};

struct executions {
    struct loop *loop;
    const char *workdir;
    int proc_fd, workdir_fd, null_fd;
    int program_fd; /* this program, O_PATH */
    int ptmx_fd;               /* O_PATH, where terminals come from; -1: from nowhere */
    int ptmx_errno;            /* why */
    int oom_fd;                /* a file of the memory cgroup's that counts kills; -1: none is to be seen */
    mode_t umask;              /* of the commands */
    struct rlimit descriptors; /* theirs too */
    struct list all;           /* in the order of their start */
    unsigned count;
    struct list supervisors;
    struct list drains; /* the oldest first */
    unsigned drain_count;
    struct shells shells;
    struct stray *strays; /* by pid */
    size_t stray_count;
    struct timer kill_timer; /* the next look at the trees that are being killed */
    unsigned kill_pause_ms;
    uint8_t scratch[EXEC_CHUNK_BYTES];
};

/* ---- For the server (exec.c) ---- */

/* A set without executions; the fields up to `descriptors` are the caller's to fill in. */
void executions_init(struct executions *set) __attribute__((nonnull));

/* Takes care of every child that has ended or stopped: SIGCHLD. */
void executions_reap(struct executions *set) __attribute__((nonnull));

/* Kills everything below this process. */
void executions_kill_all(struct executions *set) __attribute__((nonnull));

/* What cannot be told from here (no such directory, no bash) is told as FAILED. */
int execution_start(struct executions *set, struct execution_owner *owner, uint64_t id,
                    const struct wire_exec *request, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Runs one that was waiting for its shell. -1: it is EXECUTION_FAILED. */
int execution_begin(struct execution *e, const struct wire_exec *request)
    __attribute__((nonnull, warn_unused_result));

struct execution *execution_find(const struct execution_owner *owner, uint64_t id)
    __attribute__((nonnull));

/* To the command's process group. */
void execution_signal(struct execution *e, uint32_t signal) __attribute__((nonnull));

/* The record goes; what still runs is killed. */
void execution_forget(struct execution *e) __attribute__((nonnull));

/* ---- Frames (exec_tell.c) ---- */

/* Appends the next frame that the host has not been sent: 1, or 0 where there is none, or -1 where the
 * buffer is full. Where the state is EXECUTION_FAILED that was all: forget it. */
int execution_tell(struct execution *e, struct buffer *out) __attribute__((nonnull, warn_unused_result));

/* -1 where the number makes no sense: the host is at fault. */
int execution_credit(struct execution *e, unsigned stream, uint64_t total)
    __attribute__((nonnull, warn_unused_result));
int execution_attach(struct execution *e, uint64_t out, uint64_t err)
    __attribute__((nonnull, warn_unused_result));

/* ---- Pipes (exec_stream.c) ---- */

int stream_open(struct execution *e, unsigned index, int fd) __attribute__((nonnull, warn_unused_result));
/* Takes what is in the pipe at this moment, then leaves the pipe to whoever still writes to it. */
void stream_finish(struct stream *stream) __attribute__((nonnull));
void stream_close(struct stream *stream) __attribute__((nonnull));
/* The offset behind the last byte that is kept. */
uint64_t stream_end(const struct stream *stream) __attribute__((nonnull));

/* The host has taken all up to `total`. */
void stream_credit(struct stream *stream, uint64_t total) __attribute__((nonnull));

int input_open(struct execution *e, int fd) __attribute__((nonnull, warn_unused_result));
void input_close(struct execution *e) __attribute__((nonnull));
/* -1 where the bytes leave a gap or are beyond the credit: the host is at fault. */
int execution_input(struct execution *e, uint64_t offset, const uint8_t *data, size_t length)
    __attribute__((nonnull, warn_unused_result));
void execution_eof(struct execution *e) __attribute__((nonnull));

/* ---- Terminals (terminal.c) ---- */

/* Finds where terminals come from, before anything runs here that could put something else there. */
void terminals_find(struct executions *set) __attribute__((nonnull));

/* A new one: *ret_ours is non-blocking, *ret_theirs for the command. Neither becomes ours to control. */
int terminal_open(struct executions *set, uint16_t rows, uint16_t columns, int *ret_ours,
                  int *ret_theirs, struct error *err) __attribute__((nonnull, warn_unused_result));

/* What to type for an end of input; 0 where nothing means that. `last` is the byte typed before. */
size_t terminal_eof(int fd, uint8_t last, uint8_t ret[2]) __attribute__((nonnull));

/* Nothing where it has none. */
void execution_resize(struct execution *e, uint16_t rows, uint16_t columns) __attribute__((nonnull));

/* ---- Memory (exec_oom.c) ---- */

/* Finds the kernel's count, before anything runs here that could put something else there. */
void oom_find(struct executions *set) __attribute__((nonnull));
/* How many processes of the sandbox the kernel has killed for want of memory; OOM_UNKNOWN. */
#define OOM_UNKNOWN UINT64_MAX
uint64_t oom_count(const struct executions *set) __attribute__((nonnull));
/* Whether one of them was this command's: it has ended. */
enum wire_oom oom_since_start(const struct execution *e) __attribute__((nonnull));

/* ---- The start (exec_launch.c) ---- */

/* Opens the pipes of `e` and forks its supervisor; the supervisor's pid. */
pid_t execution_launch(struct execution *e, const struct wire_exec *request, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- The end (exec_kill.c) ---- */

/* Kills the whole tree, soon; EXIT is told when it is dead, or after EXEC_KILL_TELL_MS. */
void execution_kill(struct execution *e) __attribute__((nonnull));
/* The set's kill_timer: one look at all trees that are to be killed. */
void executions_kill_step(struct timer *timer) __attribute__((nonnull));
/* Which processes of its tree are alive: into `exit`. */
void execution_look_left(struct execution *e) __attribute__((nonnull));
/* Finds out who has lost a supervisor just now; what belongs to nobody known is `newest`'s (or NULL). */
void strays_find(struct executions *set, struct execution *newest) __attribute__((nonnull(1)));
/* The strays of this execution are nobody's. */
void strays_disown(struct executions *set, const struct execution *e) __attribute__((nonnull));

/* Something changed: tells the owner, or frees what nobody waits for. The last thing to do with `e`. */
void execution_changed(struct execution *e) __attribute__((nonnull));

#endif
