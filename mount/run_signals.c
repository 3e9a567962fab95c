/* Signals, read as bytes in the loop and never in a handler. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "mount/run_internal.h"
#include "mount/terminal.h"

static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) < 0 || action.sa_handler == SIG_IGN;
}

int run_signals_begin(struct run *run, sigset_t *ret_before, struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (!is_ignored(taken[i])) { /* as under nohup(1) */
            sigaddset(&set, taken[i]);
        }
    }
    sigaddset(&set, SIGPIPE); /* write(2) tells it, too, and there is an order to keep at the end */
    if (run->plan->terminal) {
        sigaddset(&set, SIGWINCH);
        sigaddset(&set, SIGTSTP);
        sigaddset(&set, SIGCONT);
    }
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signals < 0) {
        return error_set_errno(err, errno, "signalfd");
    }
    pthread_sigmask(SIG_BLOCK, &set, ret_before);
    return 0;
}

void run_signals_end(struct run *run, const sigset_t *before)
{
    struct signalfd_siginfo info;

    while (read(run->signals, &info, sizeof info) > 0) {
        /* what came too late to be handed on */
    }
    close(run->signals);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static int hand_on(struct run *run, int number, struct error *err)
{
    return run_notify(run, "exec.signal", "signal", json_integer(number), err);
}

static int interrupt(struct run *run, struct error *err)
{
    if (!run->interrupted && !run->over) {
        run->interrupted = true;
        return hand_on(run, SIGINT, err);
    }
    return run_cancel(run, SIGINT, NULL, err);
}

static int resize(struct run *run, struct error *err)
{
    json_t *params;
    uint16_t rows, columns;
    int r;

    terminal_size(STDIN_FILENO, &rows, &columns);
    if (rows == 0 || columns == 0) {
        return 0;
    }
    params = json_pack("{s:I, s:i, s:i}", "id", run->id, "rows", rows, "cols", columns);
    r = client_notify(run->client, "exec.resize", params, err);
    json_decref(params);
    return r;
}

/* Somebody stops this process from outside (Ctrl-Z goes to the command): not with a raw terminal. SIGCONT
 * follows. */
static void stop_here(struct run *run)
{
    if (run->raw) {
        terminal_restore();
    }
    raise(SIGSTOP);
}

static int go_on(struct run *run, struct error *err)
{
    return run->raw && terminal_make_raw(STDIN_FILENO, err) < 0 ? -1 : resize(run, err);
}

static int take(struct run *run, int number, struct error *err)
{
    switch (number) {
    case SIGPIPE:
        return 0;
    case SIGWINCH:
        return resize(run, err);
    case SIGTSTP:
        stop_here(run);
        return 0;
    case SIGCONT:
        return go_on(run, err);
    case SIGINT:
        return interrupt(run, err);
    case SIGTERM:
    case SIGHUP:
        return run_cancel(run, number, NULL, err);
    default:
        return hand_on(run, number, err);
    }
}

int run_signals_take(struct run *run, struct error *err)
{
    struct signalfd_siginfo info;

    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (take(run, (int)info.ssi_signo, err) < 0) {
            return -1;
        }
    }
    return 0;
}
