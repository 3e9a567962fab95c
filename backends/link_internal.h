/* What the link's own source files share. Everything runs on the loop's thread but for the three
 * functions that the thread pool runs, which touch nothing but what their work item owns.
 *
 *     link.c         opening and closing, the state that others see, silence and pings
 *     link_dial.c    how a stream comes to be: connecting, the greeting, the placement; its loss
 *     link_stream.c  bytes of one stream: frames in, frames out
 *     link_calls.c   file calls: slots, deadlines, answers
 *     link_place.c   file calls that run in this process, in the thread pool
 *     link_files.c   whole files, as a sequence of calls
 *     execution*.c   commands
 *
 * Lifetimes. A link is freed when its last handle is closed and its last work item is back. A target (one
 * sandbox, with the file server over its root) is counted: the link holds it, and each work item that
 * uses it. A stream lives until its handle is closed, which is later than the callback that drops it; so
 * whoever calls out looks at `closed` before going on.
 *
 * Nothing is answered from inside a function of the public interface, nor in the middle of a
 * change: failures go to a list of answers, and an idle handle, active while there are some, tells them
 * on the loop's next turn. Replies that arrive are told from the stream's or the work's callback. */
#ifndef HANDSFS_BACKENDS_LINK_INTERNAL_H
#define HANDSFS_BACKENDS_LINK_INTERNAL_H

#include <sys/queue.h>

#include "backends/execution.h"
#include "backends/link.h"
#include "hand/files.h"
#include "sandbox/buffer.h"
#include "sandbox/fifo.h"

#define LINK_MAX_WORKS 64             /* calls that the thread pool holds at once; the rest waits here */
#define LINK_MAX_UNSENT (64u << 20)   /* bytes that wait for the stream to take them */
#define LINK_MAX_HELD (64u << 20)     /* bytes of calls that wait for the link or for a worker */
#define LINK_READ_BYTES (256u << 10)  /* one read from the stream */
#define LINK_READS_A_TURN 4           /* then others on the loop have theirs */
#define LINK_LAST_READS 64            /* from a stream that is broken */
#define LINK_KEEP_BYTES FIFO_KEEP_BYTES /* a buffer that is empty keeps no more memory than this */
#define LINK_PING_MS 1000             /* while calls are in flight, or the hand is silent */
#define LINK_EXECUTION_PING_MS 5000   /* while nothing but commands run */
#define LINK_BACKOFF_MIN_MS 50
#define LINK_BACKOFF_MAX_MS 1000
#define LINK_IDLE_ATTEMPTS 5          /* to connect anew while nobody waits for it */
#define LINK_STABLE_MS 2000           /* a stream that lived this long is connected anew at once */

/* ---- One sandbox ------------------------------------------------------------------------------ */

#define LINK_HANDLE_BITS 52 /* of a handle of the hand's; the rest is the target's tag */

struct target {
    unsigned refs;
    struct link *link;
    struct sandbox sandbox;
    bool in_pool;  /* connect or open_root runs: one thread at a time */
    bool met;      /* a hand has welcomed us: `instance` is known */
    bool placed;   /* it is decided where file calls run: `files` or the stream */
    uint8_t client[WIRE_ID_BYTES];
    uint8_t instance[WIRE_ID_BYTES];
    uint64_t tag; /* in the top bits of the handles that are told, so that another's are known as such */
    uint64_t capabilities;
    struct files *files;
    uv_work_t work; /* of the last one, which frees `files` */
};

/* Takes `sandbox` over in any case. NULL where memory runs out. */
struct target *target_new(struct link *link, struct sandbox *sandbox);
struct target *target_ref(struct target *target);
void target_unref(struct target *target);

/* ---- One stream ------------------------------------------------------------------------------- */

struct stream {
    struct link *link;
    uv_poll_t poll;
    int fd;
    int events; /* what `poll` waits for */
    bool is_socket;
    bool closed;
    struct buffer in;
    struct fifo out;
};

/* Takes the descriptor over in any case. */
int stream_open(struct link *link, int fd, struct error *err);
void stream_close(struct stream *stream);
/* Writes what waits, as far as the stream takes it. May lose the link. */
void stream_flush(struct stream *stream);
/* Where a frame is appended to be sent; NULL without a stream that was welcomed. */
struct buffer *link_out(struct link *link);

/* ---- Calls ------------------------------------------------------------------------------------ */

enum call_state {
    CALL_FREE,
    CALL_WAITING, /* for the link to be up */
    CALL_READY,   /* to run in this process: for a sign of life and a worker */
    CALL_SENT,    /* the hand owes a RESULT */
    CALL_WORKING, /* the thread pool has it */
    CALL_LOST,    /* was sent; its stream broke, and why is not known yet */
    CALL_REFUSED, /* from the start */
};

struct call {
    struct link *link;
    TAILQ_ENTRY(call) queued; /* in waiting, ready, answers, or free */
    TAILQ_ENTRY(call) timed;  /* by deadline; not when over */
    enum call_state state;
    bool over;     /* decided: `done` was called or is about to be */
    bool owed;     /* the hand or the pool still holds it: the slot is not free */
    bool overflow; /* not one of the link's slots */
    enum wire_op op;
    uint64_t id;
    uint64_t heard; /* link->heard at the start */
    uint64_t deadline_ms;
    call_done done; /* NULL once called */
    void *arg;
    enum error_code code; /* what an answer from the list says */
    int os_errno;
    const char *message; /* static, or the link's */
    struct buffer frame; /* encoded, while it waits or works */
    struct buffer reply; /* of the worker */
    int work_errno;
    struct target *target; /* while it works */
    uv_work_t work;
};

TAILQ_HEAD(call_list, call);

/* Decides the call: it leaves its queues and is answered from the loop. Not twice. */
void call_fail(struct call *call, enum error_code code, int os_errno, const char *message);
/* What was owed has come: answers, or releases what a late reply opened. The texts of `reply` may be the
 * call's own. */
void call_finish(struct call *call, struct wire_reply *reply);
/* The same without any reply: a failure that nobody sent. */
void call_break(struct call *call, enum error_code code, int os_errno, const char *message);
/* A RESULT from the stream. -1 where it is none of ours. */
int calls_result(struct link *link, uint64_t id, const uint8_t *payload, size_t length);
/* The link is up: what waited is started. */
void calls_up(struct link *link);
/* The stream is gone, and with it what it owed. Those that wait are told why when that is known: whether
 * the sandbox is gone too. */
void calls_lost(struct link *link);
/* It is still there. */
void calls_give_up_lost(struct link *link);
void calls_fail_all(struct link *link, enum error_code code, const char *message);
/* Tells the answers that are due. */
void calls_answer(struct link *link);
void calls_timer(uv_timer_t *timer);
/* Lets go of a handle that nobody asked for any more. */
void link_release_handle(struct link *link, uint64_t handle);

/* Starts what may run in this process. */
void place_run(struct link *link);

/* ---- Executions ------------------------------------------------------------------------------- */

TAILQ_HEAD(execution_list, execution);

/* A frame about the execution `header->id`. -1 where it breaks the rules. */
int executions_frame(struct link *link, const struct wire_header *header, const uint8_t *payload);
/* The link is up: starts them, or takes them up again. */
void executions_up(struct link *link);
/* After a batch of frames: credit for the output taken over. */
void executions_credit(struct link *link);
/* The stream has taken what waited: more stdin may go. */
void executions_drained(struct link *link);
/* All end: with `code`, or as a timeout where the deadline had passed. */
void executions_fail_all(struct link *link, enum error_code code, const char *message);
/* Kills and forgets them in the hand, and cancels them here. */
void executions_close(struct link *link);
/* Ends those that a silent hand lets wait for too long; true where there was one. */
bool executions_silent(struct link *link, uint64_t now_ms);
void executions_answer(struct link *link);

/* ---- The link --------------------------------------------------------------------------------- */

enum link_phase {
    PHASE_APART,    /* no stream, and nobody needs one */
    PHASE_BACKOFF,  /* the next attempt has its time */
    PHASE_DIALING,  /* sandbox_connect() in the pool */
    PHASE_GREETING, /* HELLO is on its way */
    PHASE_PLACING,  /* welcomed; sandbox_open_root() in the pool */
    PHASE_UP,
    PHASE_GONE,
};

struct attempt;

struct link {
    uv_loop_t *loop;
    struct link_options options;
    struct target *target;
    uint64_t targets; /* how many there were */
    enum link_phase phase;
    bool silent;
    bool closing;
    bool closed_handles;
    enum link_state told;
    struct error why;  /* of the last change for the worse */
    struct error gone; /* why everything failed */
    struct link_peer peer;
    uint32_t peer_uid, peer_gid; /* what the kernel says of the stream's other end, in our numbering */
    bool has_peer_creds;

    struct stream *stream;
    struct attempt *attempt;
    uint64_t backoff_ms;
    unsigned idle_attempts;
    uint64_t up_ms;

    uint64_t heard; /* how often */
    uint64_t heard_ms;
    uint64_t heard_before_ms; /* on the stream before this one */
    bool pinged; /* since it was heard */
    uint64_t pinged_ms;
    uint64_t pulse_ms; /* when the pulse timer is due, 0: not */

    struct call *slots; /* LINK_MAX_CALLS, those from `fresh` on were never used */
    unsigned fresh;
    unsigned live; /* calls that are not over */
    uint64_t serial;
    size_t held;
    unsigned working;
    struct call_list free, waiting, ready, answers, timed;

    struct execution_list executions; /* also those that are over and owed an EXIT */
    struct execution_list execution_answers;
    unsigned execution_count; /* in `executions` */
    unsigned running;         /* of those, not over */
    uint64_t execution_serial;
    bool credit_due;

    uv_idle_t idle;          /* active while there is something to answer or tell */
    uv_prepare_t prepare;    /* flushes once a turn */
    uv_timer_t deadline;     /* of the first call in `timed` */
    uv_timer_t pulse;        /* pings */
    uv_timer_t dial;         /* back-off, or the greeting's deadline */
    unsigned handles;        /* not closed yet, those of streams and executions included */
    unsigned works;          /* in the thread pool */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* Milliseconds on the loop's clock, which is brought up to date. */
uint64_t link_now(struct link *link);
/* There is something to tell: on the next turn. */
void link_defer(struct link *link);
/* Bytes came from the hand. */
void link_heard(struct link *link);
/* Nothing was heard for a whole deadline. */
void link_silent(struct link *link);
/* Asks for a sign of life, unless one was asked for and the question has not even left. */
void link_ping(struct link *link);
/* Sees to it that the pulse beats within `delay_ms`. */
void link_pulse(struct link *link, uint64_t delay_ms);
uint64_t link_execution_ping_ms(const struct link *link);
uint64_t link_timeout_ms(const struct link *link);
/* After a handle was closed or a work came back: frees a link that is closing and has none left. */
void link_reap(struct link *link);
void link_handle_closed(uv_handle_t *handle);

/* Somebody needs the stream: connects where nothing is under way. */
void link_want(struct link *link);
void link_dial_now(struct link *link);
void link_welcome(struct link *link, const uint8_t *payload, size_t length);
void link_refuse(struct link *link, const uint8_t *payload, size_t length);
/* The stream is of no use any more (`err` says why): drops it and connects anew where that is due. */
void link_lost(struct link *link, const struct error *err);
/* For good: everything fails. */
void link_gone(struct link *link, const struct error *err);

#endif
