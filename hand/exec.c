#include "hand/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Life of a record ------------------------------------------------------------------------- */

static void execution_free(struct execution *e)
{
    struct executions *set = e->set;

    for (unsigned i = 0; i < 2; i++) {
        stream_close(&e->streams[i]);
        buffer_release(&e->streams[i].kept);
    }
    input_close(e);
    buffer_release(&e->input.queue);
    if (e->terminal >= 0) {
        close(e->terminal);
    }
    loop_remove(set->loop, &e->report);
    shell_leave(e);
    strays_disown(set, e);
    if (e->supervisor != NULL) {
        e->supervisor->execution = NULL;
    }
    list_remove(&e->by_owner);
    list_remove(&e->by_set);
    set->count--;
    free(e->cwd);
    free(e);
}

/* Nothing more will happen to it. */
static bool execution_over(const struct execution *e)
{
    return !e->killing && (e->settled || e->state == EXECUTION_FAILED);
}

void execution_changed(struct execution *e)
{
    if (e->owner != NULL) {
        e->owner->changed(e->owner);
    } else if (execution_over(e)) {
        execution_free(e);
    }
}

void execution_forget(struct execution *e)
{
    e->owner = NULL;
    list_remove(&e->by_owner);
    if (e->settled) {
        shell_leave(e);
    }
    if (execution_over(e)) {
        execution_free(e);
    } else {
        execution_kill(e);
    }
}

struct execution *execution_find(const struct execution_owner *owner, uint64_t id)
{
    list_each(at, next, &owner->executions) {
        struct execution *e = container_of(at, struct execution, by_owner);

        if (e->id == id) {
            return e;
        }
    }
    return NULL;
}

void execution_signal(struct execution *e, uint32_t signal)
{
    if (signal < 1 || signal > 64) {
        return;
    }
    if (e->state == EXECUTION_STARTING) {
        e->early_signals |= UINT64_C(1) << (signal - 1);
    } else if (e->state == EXECUTION_RUNNING && !e->ended) {
        kill(-e->command, (int)signal);
    }
}

static void send_early_signals(struct execution *e)
{
    for (uint32_t signal = 1; signal <= 64; signal++) {
        if ((e->early_signals >> (signal - 1) & 1) != 0) {
            execution_signal(e, signal);
        }
    }
}

/* ---- What the supervisor says ------------------------------------------------------------------ */

static void take_failure(struct execution *e, const struct report *report)
{
    int code = report->os_errno;

    e->state = EXECUTION_FAILED;
    switch (report->step) {
    case LAUNCH_CHDIR:
        error_set_errno(&e->failure, code, "%s", e->cwd != NULL ? e->cwd : e->set->workdir);
        break;
    case LAUNCH_EXEC:
        error_set_errno(&e->failure, code, "%s", e->is_tool ? "the hand" : EXEC_PROGRAM);
        break;
    default:
        error_set_errno(&e->failure, code, "cannot start a command");
    }
}

static void take_use(struct execution *e, uint64_t user_us, uint64_t system_us, uint64_t peak_kib)
{
    e->exit.user_us = user_us;
    e->exit.system_us = system_us;
    e->exit.peak_kib = peak_kib;
}

static void take_status(struct execution *e, int status)
{
    e->ended = true;
    e->exit.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    e->exit.signal = WIFEXITED(status) ? 0 : (uint32_t)WTERMSIG(status);
    e->exit.oom = oom_since_start(e);
}

/* The command has ended and nothing is in the way of saying so. */
static void settle(struct execution *e, bool others)
{
    if (e->terminal >= 0) {
        close(e->terminal);
        e->terminal = -1;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct stream *s = &e->streams[i];

        stream_finish(s);
        e->exit.total[i] = s->total;
        e->exit.sent[i] = stream_end(s);
    }
    input_close(e);
    if (others) {
        execution_look_left(e);
    }
    e->settled = true;
    shell_settle(e);
    if (e->owner == NULL) {
        shell_leave(e);
    }
}

static void take_report(struct execution *e, const struct report *report)
{
    switch (report->kind) {
    case REPORT_BORN:
        e->command = report->pid;
        break;
    case REPORT_STARTED:
        e->state = EXECUTION_RUNNING;
        e->command = report->pid;
        send_early_signals(e);
        break;
    case REPORT_FAILED:
        take_failure(e, report);
        break;
    case REPORT_ENDED:
        take_use(e, report->user_us, report->system_us, report->peak_kib);
        take_status(e, report->status);
        break;
    case REPORT_REST:
        settle(e, report->others != 0);
        break;
    }
}

/* Takes all reports that are there; returns whether there was any. */
static bool read_reports(struct execution *e)
{
    struct report report;
    bool any = false;
    ssize_t n = 0;

    while (e->report.fd >= 0 && (n = read(e->report.fd, &report, sizeof report)) == sizeof report) {
        take_report(e, &report);
        any = true;
    }
    if (n == 0) {
        loop_remove(e->set->loop, &e->report);
    }
    return any;
}

/* Takes what the supervisor has said and does what follows from it. May free `e`. */
static void hear_supervisor(struct execution *e)
{
    if (read_reports(e)) {
        execution_changed(e);
    }
}

static void report_ready(struct source *source, uint32_t events)
{
    (void)events;
    hear_supervisor(container_of(source, struct execution, report));
}

/* ---- The start --------------------------------------------------------------------------------- */

static struct execution *execution_new(struct executions *set, uint64_t id,
                                       const struct wire_exec *request)
{
    struct execution *e = calloc(1, sizeof *e);

    if (e == NULL) {
        return NULL;
    }
    e->set = set;
    e->id = id;
    e->has_stdin = request->has_stdin;
    e->is_tool = request->tool.length > 0;
    e->report.fd = -1;
    list_init(&e->by_owner);
    list_init(&e->by_set);
    e->terminal = -1;
    e->oom_before = oom_count(set);
    for (unsigned i = 0; i < 2; i++) {
        struct stream *s = &e->streams[i];

        s->execution = e;
        s->source.fd = s->held = -1;
        s->keep = request->keep;
        s->flow = request->flow;
        /* With flow, bytes that were taken may lie before those that were not. */
        buffer_init(&s->kept, (size_t)request->keep * (s->flow ? 2 : 1) + (s->flow ? WIRE_MAX_REST : 0));
    }
    e->input.source.fd = -1;
    buffer_init(&e->input.queue, 2 * EXEC_INPUT_WINDOW);
    if (request->cwd.length > 0) {
        e->cwd = strndup(request->cwd.data, request->cwd.length);
        if (e->cwd == NULL) {
            free(e);
            return NULL;
        }
    }
    list_append(&set->all, &e->by_set);
    set->count++;
    return e;
}

/* Made before the fork: memory must not run out when the child is there. */
static struct supervisor *supervisor_new(struct execution *e)
{
    struct supervisor *s = calloc(1, sizeof *s);

    if (s != NULL) {
        s->execution = e;
        list_append(&e->set->supervisors, &s->node);
        e->supervisor = s;
    }
    return s;
}

static void supervisor_free(struct supervisor *s)
{
    if (s->execution != NULL) {
        s->execution->supervisor = NULL;
    }
    list_remove(&s->node);
    free(s);
}

static int begin(struct execution *e, const struct wire_exec *request, struct error *err)
{
    if (supervisor_new(e) == NULL) {
        return error_set_errno(err, ENOMEM, "exec");
    }
    e->report.ready = report_ready;
    e->supervisor->pid = execution_launch(e, request, err);
    if (e->supervisor->pid < 0) {
        supervisor_free(e->supervisor);
        return -1;
    }
    return 0;
}

int execution_begin(struct execution *e, const struct wire_exec *request)
{
    if (begin(e, request, &e->failure) < 0) {
        e->state = EXECUTION_FAILED;
        return -1;
    }
    if (e->input.eof) { /* was said while it waited */
        execution_eof(e);
    }
    return 0;
}

int execution_start(struct executions *set, struct execution_owner *owner, uint64_t id,
                    const struct wire_exec *request, struct error *err)
{
    struct execution *e;
    int turn = 1;

    if (set->count >= EXEC_MAX_RUNNING) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "too many commands at once (%d)",
                         EXEC_MAX_RUNNING);
    }
    if (request->keep > EXEC_MAX_KEEP) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "no more than %u bytes of output can be kept",
                         EXEC_MAX_KEEP);
    }
    if (request->tool.length > 0 && request->command.length > EXEC_MAX_ARGUMENT) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a tool's arguments are %u bytes at most",
                         EXEC_MAX_ARGUMENT);
    }
    e = execution_new(set, id, request);
    if (e == NULL) {
        return error_set_errno(err, ENOMEM, "exec");
    }
    e->owner = owner;
    list_append(&owner->executions, &e->by_owner);
    if (request->shell.length > 0 && !e->is_tool) {
        turn = shell_enter(e, request, err);
    }
    if (turn < 0 || (turn > 0 && begin(e, request, err) < 0)) {
        execution_free(e);
        return -1;
    }
    return 0;
}

/* ---- Dead children ----------------------------------------------------------------------------- */

static struct execution *running_command(struct executions *set, pid_t pid)
{
    list_each(at, next, &set->all) {
        struct execution *e = container_of(at, struct execution, by_set);

        if (e->state != EXECUTION_FAILED && !e->ended && e->command == pid) {
            return e;
        }
    }
    return NULL;
}

/* Where the supervisor was killed, its command's end is ours to see, and may be seen before that of the
 * supervisor. */
static void command_reaped(struct executions *set, pid_t pid, int status, const struct rusage *use)
{
    struct execution *e = running_command(set, pid);

    if (e == NULL) { /* the supervisor's first word may not have been heard yet */
        list_each(at, next, &set->all) {
            struct execution *starting = container_of(at, struct execution, by_set);

            if (starting->state == EXECUTION_STARTING) {
                hear_supervisor(starting);
            }
        }
        e = running_command(set, pid);
    }
    if (e == NULL) {
        return;
    }
    if (read_reports(e) && e->state == EXECUTION_FAILED) {
        execution_changed(e);
        return;
    }
    e->state = EXECUTION_RUNNING;
    take_use(e, (uint64_t)use->ru_utime.tv_sec * 1000000 + (uint64_t)use->ru_utime.tv_usec,
             (uint64_t)use->ru_stime.tv_sec * 1000000 + (uint64_t)use->ru_stime.tv_usec,
             (uint64_t)use->ru_maxrss);
    take_status(e, status);
    if (e->supervisor == NULL) {
        settle(e, true);
        execution_changed(e);
    }
}

/* The supervisor is dead, and what it still had below it is ours now. */
static void supervisor_lost(struct execution *e)
{
    bool starting;

    if (e->state == EXECUTION_STARTING && e->command != 0) {
        e->state = EXECUTION_RUNNING; /* killed by its command before it could say that this runs */
    }
    starting = e->state == EXECUTION_STARTING;
    e->orphaned = true;
    strays_find(e->set, e);
    if (starting) {
        error_set(&e->failure, ERROR_IO, 0, "the command was killed while it started");
        e->state = EXECUTION_FAILED;
    }
    if (e->ended && !e->settled) {
        settle(e, true);
    } else if (e->settled && !e->told_exit) {
        execution_look_left(e);
    }
    if (starting) {
        execution_kill(e);
    }
    execution_changed(e);
}

static void supervisor_reaped(struct supervisor *s, int status)
{
    struct execution *e = s->execution;

    if (e != NULL) {
        read_reports(e);
    }
    supervisor_free(s);
    if (e == NULL) {
        return;
    }
    if (WIFSIGNALED(status) || (!e->settled && e->state != EXECUTION_FAILED)) {
        supervisor_lost(e);
    } else {
        if (e->killing) { /* it ends when nothing is left below it */
            e->killing = e->kill_waits = false;
            e->exit.left = e->exit.named = 0;
        }
        execution_changed(e);
    }
}

static struct supervisor *supervisor_find(struct executions *set, pid_t pid)
{
    list_each(at, next, &set->supervisors) {
        struct supervisor *s = container_of(at, struct supervisor, node);

        if (s->pid == pid) {
            return s;
        }
    }
    return NULL;
}

void executions_reap(struct executions *set)
{
    struct rusage use;
    bool forgotten = false;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED, &use)) > 0) {
        struct supervisor *s = supervisor_find(set, pid);

        if (WIFSTOPPED(status)) {
            if (s != NULL) {
                kill(pid, SIGCONT); /* nobody below may put it to sleep */
            }
        } else if (s != NULL) {
            forgotten |= s->execution == NULL && WIFSIGNALED(status);
            supervisor_reaped(s, status);
        } else {
            command_reaped(set, pid, status, &use);
        }
    }
    if (forgotten) {
        strays_find(set, NULL);
    }
}

/* ---- The set ----------------------------------------------------------------------------------- */

void executions_init(struct executions *set)
{
    list_init(&set->all);
    list_init(&set->supervisors);
    list_init(&set->drains);
    shells_init(&set->shells);
    timer_init(&set->kill_timer, executions_kill_step);
}

static void mark_everything(struct process_list *list, void *arg)
{
    pid_t self = getpid();

    (void)arg;
    for (size_t i = 0; i < list->count; i++) {
        list->at[i].owner = list->at[i].parent == self ? list : NULL;
    }
    processes_mark_below(list);
}

void executions_kill_all(struct executions *set)
{
    for (unsigned i = 0; i < 8 && tree_kill(set->proc_fd, mark_everything, NULL, true); i++) {
        usleep(1000U << i);
    }
}
