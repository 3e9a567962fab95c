/* What the two source files of executions share: execution.c decides when one ends and what is answered,
 * execution_wire.c speaks with the hand about it.
 *
 * An execution is over once its answer is decided. It stays in the link's list until the hand has said
 * EXIT or FAILED (then it is forgotten in the hand too), or the sandbox is gone; what still comes for it until
 * then is counted and thrown away. */
#ifndef HANDSFS_BACKENDS_EXECUTION_INTERNAL_H
#define HANDSFS_BACKENDS_EXECUTION_INTERNAL_H

#include "backends/link_internal.h"

#define EXECUTION_INPUT_BYTES (64u << 10) /* stdin in one frame */
#define EXECUTION_MAX_WINDOW (1u << 20)   /* stdin that was sent and is kept, to be sent again */
#define EXECUTION_ASK_AGAIN_MS 10000      /* less than a hand remembers a host that does not come back */
#define EXECUTION_INPUT_UNSENT (1u << 20) /* no more stdin is queued while this much waits to be sent */

struct execution {
    struct link *link;
    TAILQ_ENTRY(execution) listed;    /* in link->executions */
    TAILQ_ENTRY(execution) answering; /* in link->execution_answers */
    uint64_t id;
    bool in_list;
    bool sent;      /* the hand was told, or may have been */
    bool started;   /* the hand has said that it runs */
    bool attached;  /* ATTACH was sent: a FAILED may say that the hand does not know it */
    bool killed;    /* KILL was sent, or is when there is a stream again */
    bool late;      /* the deadline has passed */
    bool cancelled;
    bool over;
    bool timer_closed;
    execution_done done; /* NULL once called */
    void *arg;

    uint64_t started_ns; /* uv_hrtime() of the request */
    uint64_t timeout_ns; /* 0: none */
    uint64_t heard_ms;   /* silence is counted from here at the earliest */
    uv_timer_t timer;    /* the deadline, then the wait for the end after KILL */

    struct buffer frame; /* EXEC, until it has arrived */
    uint64_t keep;
    uint64_t received[2]; /* bytes of stdout and stderr */
    uint64_t taken[2];    /* of those, dealt with here: the hand may forget them, and more may come */
    uint64_t credited[2]; /* ... that the hand was told of */
    execution_output output; /* or NULL: all that comes is taken */
    struct execution_result result;
    enum error_code code; /* ERROR_NONE: the result is the answer */
    int os_errno;
    char message[ERROR_MESSAGE_MAX];

    bool in_shell; /* it may wait for its turn in the hand */
    bool has_stdin;
    bool eof;      /* no more will be written */
    bool eof_sent;
    struct fifo in;     /* stdin from `in_start` on: what the hand may ask for again, then what waits */
    uint64_t in_start;
    uint64_t in_sent;   /* the stream's offset behind what was sent */
    uint64_t in_want;   /* ... and behind what may be */
    uint64_t in_window; /* what the hand buffers: its first credit */
    uint64_t signals;   /* to be sent, one bit a number */
    void (*room)(void *arg);
    bool room_wanted;
    bool room_due;      /* `room` is called in a while */
    bool terminal;
    bool resized;       /* to be sent */
    uint16_t rows, columns;
};

/* ---- execution.c: decisions ---- */

/* Its turn in its shell has come: its time begins. */
void execution_turn(struct execution *x);
/* The hand has said how it ended. */
void execution_exited(struct execution *x, const struct wire_exit *e);
/* It ends with an error, unless the deadline had passed: then as a timeout. */
void execution_fail(struct execution *x, enum error_code code, int os_errno, const char *message);
/* The hand owes nothing more: out of the list, and freed when it is answered. */
void execution_settle(struct execution *x);

/* ---- execution_wire.c: frames ---- */

/* Encodes EXEC into x->frame; ERROR_BAD_REQUEST where the hand would not take it. */
int execution_encode(struct execution *x, const struct execution_request *request, struct error *err);
/* Tells the hand, where there is a stream: starts it, or takes it up again. */
void execution_tell(struct execution *x);
void execution_send_kill(struct execution *x);
void execution_send_forget(struct execution *x);
void execution_send_signals(struct execution *x);
void execution_send_size(struct execution *x);
/* Sends stdin as far as credit and the stream's queue allow. */
void execution_pump(struct execution *x);

#endif
