#include "hand/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hand/exec.h"
#include "sandbox/cleanup.h"

#define STRAY_BYTES 65536 /* what traps may print before the state begins */

/* What frames a state on its way here. */
static const char state_begin[] = "\0handsfs 1";
static const char state_end[] = "\0end";

struct shell {
    struct list node;
    char name[WIRE_MAX_SHELL_NAME + 1];
    struct buffer state;  /* what the next call begins with; empty: a new shell */
    struct buffer before; /* what was there before the holder has left something */
    struct shell_call *holder;
    struct list waiting;
};

struct shell_call {
    struct list node; /* in shell->waiting */
    struct shell *shell;
    struct execution *execution;
    struct buffer request; /* while it waits */
    struct source pipe;    /* what it leaves */
    struct buffer left;
    bool waits;
    bool reset;
    bool keeps; /* has a command: what that leaves is wanted */
    bool overflow;
    bool taken; /* shell->before is to come back if it is revoked */
};

void shells_init(struct shells *shells)
{
    *shells = (struct shells){.count = 0};
    list_init(&shells->all);
}

/* ---- Shells ------------------------------------------------------------------------------------ */

static struct shell *shell_find(struct shells *shells, const struct wire_text *name)
{
    struct shell *shell;

    list_each(at, next, &shells->all) {
        shell = container_of(at, struct shell, node);
        if (strlen(shell->name) == name->length && memcmp(shell->name, name->data, name->length) == 0) {
            return shell;
        }
    }
    if (shells->count >= SHELL_MAX_COUNT || (shell = calloc(1, sizeof *shell)) == NULL) {
        return NULL;
    }
    memcpy(shell->name, name->data, name->length);
    buffer_init(&shell->state, SHELL_MAX_STATE);
    buffer_init(&shell->before, SHELL_MAX_STATE);
    list_init(&shell->waiting);
    list_append(&shells->all, &shell->node);
    shells->count++;
    return shell;
}

static void drop(struct shells *shells, struct buffer *state)
{
    shells->bytes -= state->length;
    buffer_release(state);
}

/* A shell with nothing in it is as good as none. */
static void shell_free_unused(struct shells *shells, struct shell *shell)
{
    if (shell->holder == NULL && list_empty(&shell->waiting) && shell->state.length == 0) {
        list_remove(&shell->node);
        shells->count--;
        free(shell);
    }
}

/* ---- Turns ------------------------------------------------------------------------------------- */

static struct shell_call *call_new(struct execution *e, struct shell *shell,
                                   const struct wire_exec *request)
{
    struct shell_call *call = calloc(1, sizeof *call);

    if (call != NULL) {
        call->execution = e;
        call->shell = shell;
        call->pipe.fd = -1;
        call->reset = request->shell_reset;
        call->keeps = request->command.length > 0 || !request->shell_reset;
        buffer_init(&call->request, WIRE_MAX_EXEC_PAYLOAD);
        buffer_init(&call->left, SHELL_MAX_STATE + STRAY_BYTES);
        list_init(&call->node);
        e->call = call;
    }
    return call;
}

static void stop_waiting(struct shells *shells, struct shell_call *call)
{
    list_remove(&call->node);
    shells->waiting--;
    shells->waiting_bytes -= call->request.length;
    call->waits = false;
}

static int wait_for_turn(struct shells *shells, struct shell_call *call, const struct wire_exec *request,
                         struct error *err)
{
    if (shells->waiting >= SHELL_MAX_WAITING) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "too many commands wait for a shell (%d)",
                         SHELL_MAX_WAITING);
    }
    if (wire_put_exec(&call->request, request) < 0) {
        return error_set_errno(err, ENOMEM, "shell");
    }
    if (shells->waiting_bytes + call->request.length > SHELL_MAX_WAITING_BYTES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the commands that wait for a shell are too large");
    }
    call->waits = true;
    shells->waiting++;
    shells->waiting_bytes += call->request.length;
    list_append(&call->shell->waiting, &call->node);
    return 0;
}

static void take_turn(struct shells *shells, struct shell_call *call)
{
    call->shell->holder = call;
    if (call->reset) {
        drop(shells, &call->shell->state);
    }
}

/* Those that cannot begin have failed, and the one after them is next. */
static void next_turn(struct shells *shells, struct shell *shell)
{
    while (shell->holder == NULL && !list_empty(&shell->waiting)) {
        struct shell_call *call = container_of(shell->waiting.next, struct shell_call, node);
        struct wire_exec request;

        stop_waiting(shells, call);
        take_turn(shells, call);
        if (wire_get_exec(call->request.data, call->request.length, &request) == 0 &&
            execution_begin(call->execution, &request) == 0) {
            buffer_release(&call->request);
            return;
        }
        shell->holder = NULL;
        execution_changed(call->execution);
    }
}

/* Ends what runs and what waits in it. */
static void end_all(struct shell *shell)
{
    list_each(at, next, &shell->waiting) {
        execution_kill(container_of(at, struct shell_call, node)->execution);
    }
    if (shell->holder != NULL && !shell->holder->execution->settled) {
        execution_kill(shell->holder->execution);
    }
}

int shell_enter(struct execution *e, const struct wire_exec *request, struct error *err)
{
    struct shells *shells = &e->set->shells;
    struct shell *shell = shell_find(shells, &request->shell);
    struct shell_call *call = shell == NULL ? NULL : call_new(e, shell, request);

    if (shell == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "no more than %d shells", SHELL_MAX_COUNT);
    }
    if (call == NULL) {
        shell_free_unused(shells, shell);
        return error_set_errno(err, ENOMEM, "shell");
    }
    /* Its host knows that the one before has ended: it had one FORGET lost with a connection. */
    if (shell->holder != NULL && shell->holder->execution->settled &&
        shell->holder->execution->owner == e->owner) {
        shell_leave(shell->holder->execution);
        shell = call->shell;
    }
    if (request->shell_reset) {
        end_all(shell);
    }
    if (shell->holder != NULL) {
        return wait_for_turn(shells, call, request, err);
    }
    take_turn(shells, call);
    return 1;
}

void shell_leave(struct execution *e)
{
    struct shells *shells = &e->set->shells;
    struct shell_call *call = e->call;
    struct shell *shell;

    if (call == NULL) {
        return;
    }
    shell = call->shell;
    if (call->waits) {
        stop_waiting(shells, call);
    }
    if (shell->holder == call) {
        shell->holder = NULL;
        drop(shells, &shell->before);
    }
    loop_remove(e->set->loop, &call->pipe);
    buffer_release(&call->request);
    buffer_release(&call->left);
    free(call);
    e->call = NULL;
    next_turn(shells, shell);
    shell_free_unused(shells, shell);
}

bool shell_waits(const struct execution *e)
{
    return e->call != NULL && e->call->waits;
}

/* ---- What is left ------------------------------------------------------------------------------ */

/* Reads once; returns whether there may be more. */
static bool read_left(struct shell_call *call)
{
    struct executions *set = call->execution->set;
    ssize_t n = read(call->pipe.fd, set->scratch, sizeof set->scratch);

    if (n > 0 && (call->overflow || buffer_append(&call->left, set->scratch, (size_t)n) < 0)) {
        call->overflow = true;
        buffer_release(&call->left);
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

static void pipe_ready(struct source *source, uint32_t events)
{
    struct shell_call *call = container_of(source, struct shell_call, pipe);

    (void)events;
    if (!read_left(call) && errno != EAGAIN) {
        loop_remove(call->execution->set->loop, source);
    }
}

/* Cuts `left` down to the state in it. False where it does not hold a whole one. */
static bool find_state(struct buffer *left)
{
    const uint8_t *found = NULL;
    const uint8_t *at = left->data;
    size_t rest = left->length;

    if (rest < sizeof state_end || memcmp(at + rest - sizeof state_end, state_end, sizeof state_end) != 0) {
        return false;
    }
    while (at != NULL && (at = memmem(at, rest, state_begin, sizeof state_begin)) != NULL) {
        found = ++at;
        rest = left->length - (size_t)(at - left->data);
    }
    if (found == NULL) {
        return false;
    }
    buffer_consume(left, (size_t)(found - left->data) + sizeof state_begin - 1);
    left->length -= sizeof state_end - 1; /* the NUL of the last chunk stays */
    return true;
}

static enum wire_state take_left(struct shells *shells, struct shell_call *call)
{
    struct shell *shell = call->shell;
    const struct execution *e = call->execution;

    if (!call->keeps) {
        return WIRE_STATE_KEPT; /* there is none, as was asked for */
    }
    if (call->overflow) {
        return WIRE_STATE_TOO_LARGE;
    }
    if (e->exit.signal != 0 || e->killing || !find_state(&call->left)) {
        return WIRE_STATE_ENDED_EARLY;
    }
    if (call->left.length > SHELL_MAX_STATE || call->left.length > SHELL_MAX_TOTAL - shells->bytes) {
        return WIRE_STATE_TOO_LARGE;
    }
    drop(shells, &shell->before);
    buffer_move(&shell->before, &shell->state);
    shells->bytes += call->left.length;
    buffer_move(&shell->state, &call->left);
    call->taken = true;
    return WIRE_STATE_KEPT;
}

void shell_settle(struct execution *e)
{
    struct shell_call *call = e->call;

    if (call == NULL) {
        return;
    }
    /* What has ended has written all it will; a process in the background may go on for ever. */
    for (unsigned i = 0; call->pipe.fd >= 0 && i < 64 && read_left(call); i++) {
    }
    loop_remove(e->set->loop, &call->pipe);
    e->exit.state = take_left(&e->set->shells, call);
    buffer_release(&call->left);
}

void shell_revoke(struct execution *e)
{
    struct shell_call *call = e->call;

    if (call != NULL && call->taken) {
        call->taken = false;
        drop(&e->set->shells, &call->shell->state);
        buffer_move(&call->shell->state, &call->shell->before);
    }
}

/* ---- The start --------------------------------------------------------------------------------- */

bool shell_has_state(const struct execution *e)
{
    return e->call != NULL && e->call->shell->state.length > 0;
}

static int write_all(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = write(fd, at, length);

        if (n < 0) {
            return -1;
        }
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

static int input_file(const struct shell *shell, const struct wire_text *command)
{
    cleanup_fd int fd = memfd_create("command", MFD_CLOEXEC);

    if (fd < 0 || write_all(fd, shell_prelude, strlen(shell_prelude) + 1) < 0 ||
        write_all(fd, command->data, command->length) < 0 || write_all(fd, "", 1) < 0 ||
        write_all(fd, shell->state.data, shell->state.length) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        return -1;
    }
    return take_fd(&fd);
}

/* Its writing end. */
static int open_pipe(struct shell_call *call)
{
    cleanup_fd int ours = -1;
    cleanup_fd int theirs = -1;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -1;
    }
    ours = ends[0];
    theirs = ends[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0 ||
        loop_add(call->execution->set->loop, &call->pipe, ours, EPOLLIN, pipe_ready) < 0) {
        return -1;
    }
    (void)take_fd(&ours);
    return take_fd(&theirs);
}

int shell_launch(struct execution *e, const struct wire_text *command, char **ret_text, int *ret_text_fd,
                 int *ret_state_fd)
{
    cleanup_free char *text = strdup(shell_boot);
    cleanup_fd int text_fd = input_file(e->call->shell, command);
    int state_fd;

    if (text == NULL || text_fd < 0 || (state_fd = open_pipe(e->call)) < 0) {
        return -1;
    }
    *ret_text = take_ptr(text);
    *ret_text_fd = take_fd(&text_fd);
    *ret_state_fd = state_fd;
    return 0;
}
