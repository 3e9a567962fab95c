/* One command of `exec` or of `shell.run`, for as long as its request is in flight: command.c runs it, stream.c gives its
 * output to the client while it runs, steer.c has the methods that reach into it, job.c lets it outlive
 * its client. Part of the gateway's inside. */
#ifndef HANDSFS_EXEC_COMMAND_H
#define HANDSFS_EXEC_COMMAND_H

#include <sys/queue.h>

#include "exec/server.h"
#include "sandbox/fifo.h"

#define JOB_KEPT_MS (UINT64_C(3600) * 1000) /* after its end */
#define STREAM_CHUNK_BYTES (32u << 10)   /* of output in one notification */
#define STREAM_MAX_UNSENT (256u << 10)   /* on one connection; past it, output waits with its command */

struct command {
    struct request *request;
    struct exec_request exec;    /* until it is launched */
    struct execution *execution; /* while it runs */
    char shell[WIRE_MAX_SHELL_NAME + 1]; /* that it is a command of, or "" */
    bool over;                   /* ran; its end only waits for the barrier */
    bool has_input;              /* exec.write is possible */
    bool has_terminal;
    bool eof;                    /* exec.write has ended its stdin */
    uint64_t early_signals;      /* that came before it was launched, one bit a number */
    struct request_queue writes; /* exec.write requests whose bytes were not taken yet */

    TAILQ_ENTRY(command) streaming; /* in gateway->streams, where it streams */
    bool streams;
    struct fifo out[2]; /* came, and waits to be sent */
};
/* ---- command.c ---- */

/* The command of `exec` that `params` names, by the id of a request on the same connection or by a job, and
 * that is not over; else *ret is NULL. ERROR_BAD_REQUEST where they name none. */
int command_named(const struct request *request, struct command **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- stream.c ---- */

void command_stream_open(struct command *command) __attribute__((nonnull));
void command_stream_close(struct command *command) __attribute__((nonnull));
/* An execution_output. */
void command_output(void *arg, unsigned stream, const void *data, size_t length);
/* Sends all that waits, whatever the connection has to send already: the command is over. */
void command_stream_flush(struct command *command) __attribute__((nonnull));

/* ---- job.c ---- */

/* Forgets one that is over where that helps. */
bool jobs_have_room(struct gateway *gateway) __attribute__((nonnull));
/* Answers the request with a job's name, and makes it that job's; `run` is only looked at. -1 out of memory,
 * then it is not answered. */
int job_begin(struct request *request, const struct execution_request *run)
    __attribute__((nonnull, warn_unused_result));
/* The command of a job that runs, or NULL. */
struct command *job_command(const struct request *request, const char *name) __attribute__((nonnull));

/* ---- steer.c ---- */

/* Hands on the bytes of exec.write as far as there is room, and answers. */
void command_feed(struct command *command) __attribute__((nonnull));
/* Answers what waits: the command takes nothing any more. */
void command_starve(struct command *command) __attribute__((nonnull));

#endif
