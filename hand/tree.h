/* Finding and killing a whole process tree, by what the kernel says of parents: nothing that a process
 * does to itself (a session of its own, a second fork, an ignored signal) takes it out of its tree. */
#ifndef HANDSFS_HAND_TREE_H
#define HANDSFS_HAND_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TREE_MAX_PASSES 64       /* of one tree_kill(), while ever more processes appear */
#define TREE_MAX_MS 250          /* so long it goes on with that */
#define TREE_MAX_PROCESSES 65536 /* of one list; those that are over go unseen */

struct process {
    pid_t pid, parent, group, session;
    uint64_t start;    /* with pid: this very process */
    bool dead;         /* a zombie with no thread alive */
    bool stopped;
    const void *owner; /* whose tree it is in; NULL: of none that is looked for */
};

/* All processes that /proc shows, sorted by pid. Born zeroed; processes_release(). */
struct process_list {
    struct process *at;
    size_t count, capacity;
};

/* One of them: who its parent is, 0 where that is outside the PID namespace, -1 where /proc does not tell. */
pid_t process_parent(int proc_fd, pid_t pid);

/* What it calls itself, without a NUL: its length, 0 where /proc does not tell. */
size_t process_name(int proc_fd, pid_t pid, char *name, size_t size) __attribute__((nonnull));

/* -1 with errno, and an empty list. `proc_fd` is a directory descriptor of /proc. */
int processes_read(struct process_list *list, int proc_fd) __attribute__((warn_unused_result));
void processes_release(struct process_list *list);

/* NULL where there is none. */
struct process *processes_find(const struct process_list *list, pid_t pid);

/* Whatever has an owner, its descendants get the same. */
void processes_mark_below(struct process_list *list);

/* How many have this owner and are not dead. */
size_t processes_of(const struct process_list *list, const void *owner);

/* Gives owners to the trees in a list that was just read: the function of who knows their roots. */
typedef void (*tree_mark)(struct process_list *list, void *arg);

/* Stops all that `mark` gives an owner to until a look shows no more of them, then kills them all; never
 * this process. Where they are too many to be stopped in TREE_MAX_MS none is killed yet, unless by force:
 * those that stand still leave no room for new ones. Whether there was any: to be repeated, with a pause
 * for them to die. A look may miss a process that forks and ends, forks and ends: only who waits for the
 * children knows that none is left. */
bool tree_kill(int proc_fd, tree_mark mark, void *arg, bool force) __attribute__((nonnull(2)));

#endif
