/* Killing one execution's tree and no other's.
 *
 * While the supervisor lives, the tree is what is below it. Where the command has killed it, its children
 * are the hand's ("strays"), as those of others may be: so whenever a supervisor is lost, all processes
 * that are below the hand and below no supervisor are written down with the execution that they belong
 * to, and their descendants inherit that. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hand/exec.h"
#include "sandbox/clock.h"

/* ---- Strays ------------------------------------------------------------------------------------ */

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct stray *)a)->pid;
    pid_t y = ((const struct stray *)b)->pid;

    return (x > y) - (x < y);
}

static const struct stray *stray_find(const struct executions *set, const struct process *p)
{
    struct stray key = {.pid = p->pid};
    const struct stray *stray = set->stray_count == 0 ? NULL
                                                      : bsearch(&key, set->strays, set->stray_count,
                                                                sizeof key, by_pid);

    return stray != NULL && stray->start == p->start ? stray : NULL;
}

static bool is_supervisor(const struct executions *set, pid_t pid)
{
    list_each(at, next, &set->supervisors) {
        if (container_of(at, struct supervisor, node)->pid == pid) {
            return true;
        }
    }
    return false;
}

/* Whose a process is that nobody knew before: its session may still say so. */
static struct execution *guess(const struct executions *set, const struct process *p,
                               struct execution *newest)
{
    list_each(at, next, &set->all) {
        struct execution *e = container_of(at, struct execution, by_set);

        if (e->orphaned && (e->command == p->session || e->command == p->pid)) {
            return e;
        }
    }
    return newest;
}

/* Walks from `p` up to the hand. False where it is below a supervisor, or not below the hand. */
static bool stray_owner(const struct executions *set, const struct process_list *list,
                        const struct process *p, struct execution *newest, struct execution **ret)
{
    const struct stray *known = NULL;
    pid_t self = getpid();

    for (size_t steps = 0; steps <= list->count; steps++) {
        if (p == NULL || is_supervisor(set, p->pid)) {
            return false;
        }
        if (known == NULL) {
            known = stray_find(set, p);
        }
        if (p->parent == self) {
            *ret = known != NULL ? known->owner : guess(set, p, newest);
            return true;
        }
        p = processes_find(list, p->parent);
    }
    return false;
}

/* Writes down all strays of the list anew, by pid as the list is. */
static void strays_note(struct executions *set, const struct process_list *list,
                        struct execution *newest)
{
    struct stray *strays = calloc(list->count > 0 ? list->count : 1, sizeof *strays);
    size_t count = 0;

    if (strays == NULL) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct process *p = &list->at[i];
        struct execution *owner;

        if (!p->dead && stray_owner(set, list, p, newest, &owner)) {
            strays[count++] = (struct stray){p->pid, p->start, owner};
        }
    }
    free(set->strays);
    set->strays = strays;
    set->stray_count = count;
}

void strays_find(struct executions *set, struct execution *newest)
{
    struct process_list list = {NULL, 0, 0};

    if (processes_read(&list, set->proc_fd) == 0) {
        strays_note(set, &list, newest);
    }
    processes_release(&list);
}

void strays_disown(struct executions *set, const struct execution *e)
{
    for (size_t i = 0; i < set->stray_count; i++) {
        if (set->strays[i].owner == e) {
            set->strays[i].owner = NULL;
        }
    }
}

/* ---- The tree of one execution ------------------------------------------------------------------ */

/* The one that lost its supervisor last, for what nobody knows. */
static struct execution *newest_orphaned(struct executions *set)
{
    for (struct list *at = set->all.prev; at != &set->all; at = at->prev) {
        struct execution *e = container_of(at, struct execution, by_set);

        if (e->orphaned) {
            return e;
        }
    }
    return NULL;
}

static void mark_tree(struct process_list *list, void *arg)
{
    struct execution *e = arg;
    struct executions *set = e->set;

    if (e->orphaned) {
        strays_note(set, list, newest_orphaned(set));
        for (size_t i = 0; i < list->count; i++) {
            const struct stray *stray = stray_find(set, &list->at[i]);

            list->at[i].inside = stray != NULL && stray->owner == e;
        }
    } else if (e->supervisor != NULL) {
        for (size_t i = 0; i < list->count; i++) {
            list->at[i].inside = list->at[i].parent == e->supervisor->pid;
        }
    }
    processes_mark_below(list);
}

uint32_t execution_count_left(struct execution *e)
{
    struct process_list list = {NULL, 0, 0};
    uint32_t n = 0;

    if (processes_read(&list, e->set->proc_fd) == 0) {
        mark_tree(&list, e);
        n = (uint32_t)processes_inside(&list);
    }
    processes_release(&list);
    return n;
}

/* ---- Killing ------------------------------------------------------------------------------------ */

static void kill_finished(struct execution *e, size_t left)
{
    e->killing = false;
    loop_disarm(&e->kill_timer);
    if (e->settled) {
        e->exit.left = left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
    }
    execution_changed(e);
}

void execution_kill_step(struct execution *e)
{
    size_t left = tree_kill(e->set->proc_fd, mark_tree, e);

    if (left == 0) {
        kill_finished(e, 0);
        return;
    }
    if (clock_now_ms() >= e->kill_until) {
        kill_finished(e, left);
        return;
    }
    loop_arm(e->set->loop, &e->kill_timer, e->kill_pause_ms);
    if (e->kill_pause_ms < 50) {
        e->kill_pause_ms *= 2;
    }
}

void execution_kill(struct execution *e)
{
    if (e->killing) {
        return;
    }
    e->killing = true;
    e->kill_until = clock_now_ms() + EXEC_KILL_GIVE_UP_MS;
    e->kill_pause_ms = 1;
    if (e->state != EXECUTION_STARTING) {
        execution_kill_step(e);
    }
}
