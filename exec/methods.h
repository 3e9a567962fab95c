/* Requests in flight and the methods that answer them.
 *
 * A request comes from a connection or from the mount's control file, runs one method, and is answered
 * exactly once: request_answer() or one of request_fail(), request_refuse(), request_over_limit(), which
 * free it. At any time at most one callback of somebody else's knows it. Where its client has hung up it
 * is cancelled and still runs to its answer, which then goes nowhere. */
#ifndef HANDSFS_EXEC_METHODS_H
#define HANDSFS_EXEC_METHODS_H

#include <sys/queue.h>

#include "exec/gateway.h"
#include "exec/request.h"
#include "exec/rpc.h"

struct connection;
struct command;
struct job;
struct request;
struct tool_call;
TAILQ_HEAD(request_queue, request);

/* How requests of a method are carried out. */
struct method {
    const char *name;
    /* Is expected to answer the request, now or later. */
    void (*run)(struct request *request);
    /* May be NULL. Is expected to make the answer come soon, never to answer from inside. False where it
     * is too late for that. */
    bool (*cancel)(struct request *request);
    bool by_client; /* exec.cancel may name a request of it */
};

struct request {
    TAILQ_ENTRY(request) in_flight;
    TAILQ_ENTRY(request) turn;       /* in gateway->waiting, or a command's writes */
    struct gateway *gateway;
    const struct method *method;
    struct connection *connection;   /* where the answer goes, or */
    struct gateway_exec *control;    /* here, or */
    struct job *job;                 /* here; all NULL: nowhere any more */
    json_t *id;                      /* NULL: a notification */
    json_t *params;                  /* may be NULL */
    size_t charged;                  /* memory of the gateway's */
    bool cancelled;
    void (*next)(struct request *request); /* behind the barrier */

    /* The method's own. */
    struct command *command;   /* of exec */
    struct params_bytes bytes; /* of exec.write */
    bool eof;                  /* of exec.write */
    struct tool_call *tool;    /* of tools.call, while it runs */
    json_t *result;              /* what will be answered: this, or with `failed` the error */
    bool failed;
    struct error error;
};

extern const struct method method_exec;       /* command.c */
extern const struct method method_shell_run;  /* command.c */
extern const struct method method_shell_restart; /* shell.c */
extern const struct method method_write;      /* steer.c */
extern const struct method method_signal;     /* steer.c */
extern const struct method method_resize;     /* steer.c */
extern const struct method method_wait;       /* job.c */
extern const struct method method_list;       /* job.c */
extern const struct method method_read_file;  /* files.c */
extern const struct method method_write_file; /* files.c */
extern const struct method method_tools_list; /* tool_methods.c */
extern const struct method method_tools_call; /* tool_methods.c */

/* A new request in flight, `charged` counted already. The references `id` and `params` are taken. NULL
 * out of memory, nothing taken. */
struct request *request_new(struct gateway *gateway, json_t *id, json_t *params, size_t charged);

/* Runs one line's call for a connection: answers it, now or later. */
void methods_dispatch(struct connection *connection, struct gateway *gateway, struct rpc_call *call,
                      size_t charged);

/* NULL for an unknown name, and where the host does not offer it. */
const struct method *method_find(const struct gateway *gateway, const char *name);

void request_answer(struct request *request, json_t *result); /* stolen; NULL: out of memory */
void request_fail(struct request *request, const struct error *err);
void request_refuse(struct request *request, enum rpc_code code, const struct error *err);
void request_over_limit(struct request *request, const char *limit, uint64_t maximum,
                        const char *message);

/* An error object, which is stolen. */
void request_answer_error(struct request *request, json_t *error);

/* Gives the client its answer (stolen; NULL: out of memory) and leaves the request in flight, without it: the
 * job of `request` gets what it ends with. */
void request_answer_early(struct request *request, json_t *result);

/* The request of a job has ended. Both are stolen (job.c). */
void job_end(struct job *job, json_t *result, json_t *error);

/* Its client wants no answer any more, or asks for its end. False where there is nothing to cancel. */
bool request_cancel(struct request *request);

/* Goes on with `next` behind the mount's barrier, which may be NULL. */
void request_step(struct request *request,
                  void (*barrier)(void *ctx, void (*then)(void *arg), void *arg),
                  void (*next)(struct request *request));

/* Gives the control file its answer (control.c). Both are stolen. */
void gateway_exec_answer(struct gateway_exec *exec, json_t *result, json_t *error);

#endif
