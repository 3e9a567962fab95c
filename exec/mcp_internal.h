/* Shared by the files of the MCP server alone.
 *
 *   mcp.c           the loop: lines in, lines out, the bounds on both
 *   mcp_message.c   what a message is, in both eras of the protocol, and the methods but one
 *   mcp_call.c      tools/call: calls in flight, their cancelling and their progress
 *   mcp_session.c   the connection to the gateway: opened in a thread, read, lost
 *
 * All but the opening runs in the caller's thread. A call is answered once, by mcp_call_end(), unless the
 * peer has cancelled it: then it has no id any more and is only waited for. */
#ifndef HANDSFS_EXEC_MCP_INTERNAL_H
#define HANDSFS_EXEC_MCP_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "exec/mcp.h"
#include "exec/rpc.h"
#include "sandbox/buffer.h"

struct mcp_opening;

/* A tool call in flight. */
struct mcp_call {
    TAILQ_ENTRY(mcp_call) in_flight;
    json_t *id;      /* the peer's; NULL once it wants no answer */
    json_t *token;   /* under which it wants to hear of progress; NULL where it does not */
    json_t *tool;    /* as it is listed; borrowed */
    json_t *params;  /* of tools.call, until they are sent */
    json_int_t sent; /* the request's id at the gateway; 0 while it waits for the session */
    bool modern;
    uint64_t begun_ms;
    uint64_t told_ms;    /* when progress was told last */
    json_int_t progress; /* what was told: milliseconds */
};
TAILQ_HEAD(mcp_calls, mcp_call);

struct mcp {
    const struct mcp_host *host;
    int out;
    struct buffer input;
    size_t looked;     /* bytes of it without a newline */
    bool skipping;     /* the rest of a line that is too long */
    struct buffer output;
    size_t written;    /* bytes of it */
    bool broken;       /* nobody reads `out` any more */
    bool starved;      /* out of memory for an answer */
    const char *version; /* agreed on by initialize; NULL before */

    struct mcp_calls calls;
    unsigned call_count;

    struct client *client;       /* NULL: not connected */
    bool lost;                   /* the sandbox was gone: connect anew before the next call */
    struct mcp_opening *opening; /* while it is under way */
};

/* A request as it is answered. */
struct mcp_request {
    json_t *id; /* borrowed; never NULL */
    const char *method;
    json_t *params; /* borrowed; NULL where none were given */
    json_t *meta;   /* params._meta, an object, or NULL */
    bool modern;    /* says itself which revision it is of */
};

/* mcp_message.c */

/* Runs one line. */
void mcp_line(struct mcp *mcp, const char *line, size_t length);
/* Queues one message; stolen, NULL counts as out of memory. */
void mcp_send(struct mcp *mcp, json_t *message);
/* Answers. `result` and `error` are stolen; NULL counts as out of memory. `id` is borrowed; an error's may be NULL
 * where none could be made out. */
void mcp_answer(struct mcp *mcp, json_t *id, bool modern, json_t *result);
void mcp_refuse(struct mcp *mcp, json_t *id, json_t *error);
void mcp_refuse_text(struct mcp *mcp, json_t *id, enum rpc_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for an error of ours, with its name and all. */
void mcp_fail(struct mcp *mcp, json_t *id, const struct error *err);

/* mcp_call.c */
void mcp_call_start(struct mcp *mcp, const struct mcp_request *request);
void mcp_call_cancel(struct mcp *mcp, const json_t *id);
struct mcp_call *mcp_call_of_id(struct mcp *mcp, const json_t *id);
/* Sends those that wait for the session, which is open now. */
void mcp_calls_send(struct mcp *mcp);
/* Answers all with the error: those that wait, or all. */
void mcp_calls_fail(struct mcp *mcp, bool waiting_only, const struct error *err);
/* Takes a message of the gateway's; borrowed. */
void mcp_calls_take(struct mcp *mcp, const json_t *message);
/* Tells the peer of calls that take long; milliseconds until it has to be done again, -1 for never. */
int mcp_calls_beat(struct mcp *mcp);
void mcp_calls_drop(struct mcp *mcp); /* all, without an answer */

/* mcp_session.c */

/* Begins to open the session where it is not open and not being opened. True where it is open already. */
bool mcp_session_want(struct mcp *mcp);
/* Readable when an opening is over, -1 where none is under way; then mcp_session_opened(). */
int mcp_session_wakes(const struct mcp *mcp);
void mcp_session_opened(struct mcp *mcp);
/* Reads and writes what can be. Nothing where there is no connection. */
void mcp_session_turn(struct mcp *mcp);
/* Hangs up; false where an opening is left to itself. */
bool mcp_session_close(struct mcp *mcp);

#endif
