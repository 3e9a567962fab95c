/* The hand's one loop: descriptors (epoll, level-triggered) and timers. Of one thread. Without a due
 * timer or a ready descriptor it sleeps. */
#ifndef HANDSFS_HAND_LOOP_H
#define HANDSFS_HAND_LOOP_H

#include <stdint.h>
#include <sys/epoll.h>

#include "hand/list.h"
#include "sandbox/error.h"

#define LOOP_BATCH 64 /* events taken from the kernel at once */

/* A watched descriptor; part of the struct that it belongs to. Its owner may be freed once it was
 * removed, also from inside `ready`. */
struct source {
    int fd; /* -1: not in the loop */
    uint32_t events;
    void (*ready)(struct source *source, uint32_t events);
};

/* Fires once; arm it again from `fire` for more. */
struct timer {
    struct list node; /* in no list: not armed */
    uint64_t due;
    void (*fire)(struct timer *timer);
};

struct loop {
    int epoll;
    struct list timers; /* the next one first */
    struct epoll_event batch[LOOP_BATCH];
    int batch_length;
};

int loop_init(struct loop *loop, struct error *err) __attribute__((nonnull, warn_unused_result));

/* The source takes the descriptor over. -1 with errno; then the descriptor is still the caller's. */
int loop_add(struct loop *loop, struct source *source, int fd, uint32_t events,
             void (*ready)(struct source *source, uint32_t events))
    __attribute__((nonnull, warn_unused_result));

/* From now on these events (EPOLLHUP and EPOLLERR always come). */
void loop_want(struct loop *loop, struct source *source, uint32_t events) __attribute__((nonnull));

/* Closes the descriptor; no event of it comes any more. Nothing where it is not in the loop. */
void loop_remove(struct loop *loop, struct source *source) __attribute__((nonnull));

/* Takes the source out and gives its descriptor back. */
int loop_release(struct loop *loop, struct source *source) __attribute__((nonnull));

void timer_init(struct timer *timer, void (*fire)(struct timer *timer)) __attribute__((nonnull));
void loop_arm(struct loop *loop, struct timer *timer, uint64_t milliseconds) __attribute__((nonnull));
void loop_disarm(struct timer *timer) __attribute__((nonnull));

/* Waits for what comes next and handles it. */
void loop_turn(struct loop *loop) __attribute__((nonnull));

#endif
