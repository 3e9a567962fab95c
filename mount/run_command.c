#include "mount/run_command.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

struct run {
    struct client *client;
    json_int_t id; /* of the exec */
    int signals;   /* a descriptor that reads them */
    int got_signal;
    uint64_t give_up_ms; /* a cancelled command that is not confirmed dead is left, 0: none was */
    json_t *result;
};

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* Those that our caller chose to ignore, as nohup(1) does, stay ignored. */
static void signals_to_watch(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++) {
        struct sigaction action;

        if (sigaction(ending_signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(set, ending_signals[i]);
        }
    }
}

static int cancel(struct run *run, int number, struct error *err)
{
    json_t *params = json_pack("{s:I}", "id", run->id);
    int r;

    run->got_signal = number;
    run->give_up_ms = clock_now_ms() + RUN_CANCEL_MS;
    r = client_notify(run->client, "exec.cancel", params, err);
    json_decref(params);
    return r;
}

static int take_signals(struct run *run, struct error *err)
{
    struct signalfd_siginfo info;

    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (run->got_signal == 0 && cancel(run, (int)info.ssi_signo, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* 1: the command is over, and its result is there. */
static int take_messages(struct run *run, struct error *err)
{
    json_t *message;
    int r;

    while ((r = client_receive(run->client, &message, err)) == 1) {
        json_int_t id = client_id(message);
        int done = id == run->id || id == -1;

        r = done ? client_result(message, &run->result, err) : 0;
        json_decref(message);
        if (r < 0 || done) {
            return r < 0 ? -1 : 1;
        }
    }
    return r;
}

static int wait_for_more(struct run *run, struct error *err)
{
    short out = client_has_unsent(run->client) ? POLLOUT : 0;
    struct pollfd fds[] = {
        {.fd = client_fd(run->client), .events = (short)(POLLIN | out)},
        {.fd = run->signals, .events = POLLIN},
    };
    uint64_t now = clock_now_ms();
    int timeout = run->give_up_ms == 0 ? -1 : run->give_up_ms > now ? (int)(run->give_up_ms - now) : 0;

    if (run->give_up_ms != 0 && timeout == 0) {
        return error_set(err, ERROR_CANCELLED, 0, "cancelled");
    }
    if (poll(fds, sizeof fds / sizeof fds[0], timeout) < 0 && errno != EINTR) {
        return error_set_errno(err, errno, "poll");
    }
    return 0;
}

static int run_loop(struct run *run, struct error *err)
{
    for (;;) {
        int r;

        if (take_signals(run, err) < 0 || client_flush(run->client, err) < 0) {
            return -1;
        }
        r = take_messages(run, err);
        if (r != 0) {
            return r < 0 ? -1 : 0;
        }
        if (wait_for_more(run, err) < 0) {
            return -1;
        }
    }
}

int run_command(struct client *client, json_t *params, json_t **ret_result, int *ret_signal,
                struct error *err)
{
    struct run run = {.client = client};
    cleanup_fd int signals = -1;
    sigset_t watched, before;
    int r;

    *ret_signal = 0;
    signals_to_watch(&watched);
    signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        return error_set_errno(err, errno, "signalfd");
    }
    run.signals = signals;
    pthread_sigmask(SIG_BLOCK, &watched, &before);
    r = client_send(client, "exec", params, &run.id, err);
    if (r == 0) {
        r = run_loop(&run, err);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r < 0) {
        *ret_signal = run.got_signal;
        return -1;
    }
    *ret_result = run.result;
    return 0;
}
