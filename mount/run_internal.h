/* What run_command.c, run_signals.c and run_input.c share. */
#ifndef HANDSFS_MOUNT_RUN_INTERNAL_H
#define HANDSFS_MOUNT_RUN_INTERNAL_H

#include <signal.h>
#include <stdint.h>

#include "mount/output.h"
#include "mount/run_command.h"

struct run {
    struct client *client;
    const struct run_plan *plan;
    json_int_t id; /* of the exec */
    json_t *result;
    bool over;
    struct output out[2]; /* where it streams */

    bool input_open;        /* there may be more to read */
    unsigned input_unheard; /* exec.write requests that are not answered */

    int signals; /* a descriptor that reads them */
    bool raw;    /* our terminal is the command's */
    bool interrupted;

    bool failed;         /* it could not be run, or its end is not known: `error` */
    bool cancelled;      /* we want it to end, for ... */
    int ended_by;        /* ... this signal, or */
    struct error error;  /* ... what went wrong */
    uint64_t give_up_ms; /* when we leave it */
};

/* Has the command killed; its answer is waited for until RUN_CANCEL_MS. For one of two reasons: a signal, or
 * `why` where that is 0. The first counts. */
int run_cancel(struct run *run, int signal, const struct error *why, struct error *err)
    __attribute__((nonnull(1, 4), warn_unused_result));

/* A notification about the command: its id and, with `name`, one member more (stolen). */
int run_notify(struct run *run, const char *method, const char *name, json_t *value,
               struct error *err) __attribute__((nonnull(1, 2, 5), warn_unused_result));

/* ---- run_signals.c ---- */

/* Blocks the signals that a run takes, those that our caller ignores left out, and opens run->signals. */
int run_signals_begin(struct run *run, sigset_t *ret_before, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void run_signals_end(struct run *run, const sigset_t *before) __attribute__((nonnull));
int run_signals_take(struct run *run, struct error *err) __attribute__((nonnull, warn_unused_result));

/* ---- run_input.c ---- */

/* Whether standard input is to be polled. */
bool run_input_wanted(const struct run *run) __attribute__((nonnull));
int run_input_read(struct run *run, struct error *err) __attribute__((nonnull, warn_unused_result));
/* An exec.write was answered: `taken` where the command takes more. */
void run_input_heard(struct run *run, bool taken) __attribute__((nonnull));

#endif
