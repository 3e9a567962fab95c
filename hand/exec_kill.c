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

#define KILL_MAX_PAUSE_MS 16

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

/* What is right below the supervisor, or all that is known of the strays. */
static void mark_roots(struct process_list *list, const struct execution *e)
{
    for (size_t i = 0; i < list->count; i++) {
        struct process *p = &list->at[i];

        if (e->orphaned) {
            const struct stray *stray = stray_find(e->set, p);

            p->owner = stray != NULL && stray->owner == e ? e : p->owner;
        } else if (e->supervisor != NULL && p->parent == e->supervisor->pid) {
            p->owner = e;
        }
    }
}

/* Puts down the first of those that have this owner. */
static void name_left(struct execution *e, const struct process_list *list)
{
    for (size_t i = 0; i < list->count && e->exit.named < WIRE_MAX_LEFT; i++) {
        const struct process *p = &list->at[i];
        struct wire_left *left = &e->exit.background[e->exit.named];
        char *name = e->left_names[e->exit.named];

        if (p->owner == e && !p->dead) {
            left->pid = (uint32_t)p->pid;
            left->name.length = process_name(e->set->proc_fd, p->pid, name, WIRE_MAX_LEFT_NAME);
            left->name.data = name;
            e->exit.named++;
        }
    }
}

void execution_look_left(struct execution *e)
{
    struct process_list list = {NULL, 0, 0};

    e->exit.left = e->exit.named = 0;
    if (processes_read(&list, e->set->proc_fd) == 0) {
        if (e->orphaned) {
            strays_note(e->set, &list, newest_orphaned(e->set));
        }
        mark_roots(&list, e);
        processes_mark_below(&list);
        e->exit.left = (uint32_t)processes_of(&list, e);
        name_left(e, &list);
    }
    processes_release(&list);
}

/* ---- Killing ------------------------------------------------------------------------------------ */

/* One that has not started has no tree yet, and is waited for. */
static bool to_be_killed(const struct execution *e)
{
    return e->killing && e->state != EXECUTION_STARTING;
}

static void mark_doomed(struct process_list *list, void *arg)
{
    struct executions *set = arg;
    const struct execution *newest = newest_orphaned(set);

    if (newest != NULL) {
        strays_note(set, list, newest_orphaned(set));
    }
    list_each(at, next, &set->all) {
        struct execution *e = container_of(at, struct execution, by_set);

        if (to_be_killed(e)) {
            mark_roots(list, e);
        }
    }
    processes_mark_below(list);
    list_each(at, next, &set->all) {
        struct execution *e = container_of(at, struct execution, by_set);

        e->kill_left = to_be_killed(e) ? processes_of(list, e) : 0;
    }
}

/* That the last look has seen nothing is not enough while a supervisor still waits for children. */
static void kill_check(struct execution *e, uint64_t now)
{
    bool dead = e->kill_left == 0 && e->supervisor == NULL;
    bool waits = !dead && now - e->kill_since < EXEC_KILL_TELL_MS;

    e->killing = !dead && now - e->kill_since < EXEC_KILL_GIVE_UP_MS;
    if (e->kill_waits && !waits && e->settled) {
        e->exit.left = (uint32_t)e->kill_left;
        e->exit.named = 0;
    }
    if (e->kill_waits != waits || !e->killing) {
        e->kill_waits = waits;
        execution_changed(e);
    }
}

void executions_kill_step(struct timer *timer)
{
    struct executions *set = container_of(timer, struct executions, kill_timer);
    uint64_t now = clock_now_ms();
    bool any = false;
    bool late = false;
    bool more = false;

    list_each(at, next, &set->all) {
        const struct execution *e = container_of(at, struct execution, by_set);

        any |= to_be_killed(e);
        late |= to_be_killed(e) && now - e->kill_since >= EXEC_KILL_TELL_MS / 2;
    }
    if (any) {
        tree_kill(set->proc_fd, mark_doomed, set, late);
    }
    list_each(at, next, &set->all) {
        struct execution *e = container_of(at, struct execution, by_set);

        if (to_be_killed(e)) {
            kill_check(e, clock_now_ms());
        }
    }
    list_each(at, next, &set->all) {
        more |= container_of(at, struct execution, by_set)->killing;
    }
    if (more) {
        loop_arm(set->loop, &set->kill_timer, set->kill_pause_ms);
        set->kill_pause_ms += set->kill_pause_ms < KILL_MAX_PAUSE_MS ? set->kill_pause_ms : 0;
    }
}

void execution_kill(struct execution *e)
{
    if (shell_waits(e)) {
        error_set(&e->failure, ERROR_CANCELLED, 0, "cancelled while it waited for its shell");
        e->state = EXECUTION_FAILED;
        shell_leave(e);
        execution_changed(e);
        return;
    }
    if (e->settled) {
        shell_revoke(e);
    }
    if (e->killing) {
        return;
    }
    e->killing = e->kill_waits = true;
    e->kill_since = clock_now_ms();
    e->set->kill_pause_ms = 1;
    /* What is still in the group that the command has begun with dies at once: a bomb that forks faster
     * than anybody looks has mostly that. */
    if (e->state == EXECUTION_RUNNING && !e->ended) {
        kill(-e->command, SIGKILL);
    }
    loop_arm(e->set->loop, &e->set->kill_timer, 0); /* together with others of this turn */
}
