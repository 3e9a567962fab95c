/* Finding and killing a whole process tree, by what the kernel says of parents: nothing that a process
 * does to itself (a session of its own, a second fork, an ignored signal) takes it out of its tree. */
#ifndef HANDSFS_HAND_TREE_H
#define HANDSFS_HAND_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TREE_MAX_PASSES 64       /* of one tree_kill(), while ever more processes appear */
#define TREE_MAX_PROCESSES 65536 /* that are looked at */

struct process {
    pid_t pid, parent, session;
    uint64_t start; /* with pid: this very process */
    bool dead;      /* a zombie with no thread alive */
    bool inside;    /* marked as one of the tree */
};

/* All processes that /proc shows, sorted by pid. Born zeroed; processes_release(). */
struct process_list {
    struct process *at;
    size_t count, capacity;
};

/* -1 with errno, and an empty list. `proc_fd` is a directory descriptor of /proc. */
int processes_read(struct process_list *list, int proc_fd) __attribute__((warn_unused_result));
void processes_release(struct process_list *list);

/* NULL where there is none. */
struct process *processes_find(const struct process_list *list, pid_t pid);

/* Marks all descendants of what is marked. */
void processes_mark_below(struct process_list *list);

/* How many are marked and not dead. */
size_t processes_inside(const struct process_list *list);

/* Marks the tree in a list that was just read: the function of who knows its roots. */
typedef void (*tree_mark)(struct process_list *list, void *arg);

/* Stops all that `mark` marks until a look shows no more of them, then kills them all. Never this
 * process. Returns how many were still there afterwards, dying or not; to be repeated until it is 0. */
size_t tree_kill(int proc_fd, tree_mark mark, void *arg) __attribute__((nonnull(2)));

#endif
