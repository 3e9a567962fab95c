/* Deadlines on one timer of the loop, which sleeps while there are none. On the loop's thread. */
#ifndef HANDSFS_FS_DEADLINE_H
#define HANDSFS_FS_DEADLINE_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

struct deadline {
    TAILQ_ENTRY(deadline) entry;
    bool is_set;
    uint64_t at; /* on the loop's clock */
    void (*expired)(struct deadline *deadline);
};

struct deadlines {
    TAILQ_HEAD(deadline_list, deadline) waiting; /* the earliest first */
    uv_timer_t timer;
};

void deadlines_init(struct deadlines *deadlines, uv_loop_t *loop) __attribute__((nonnull));

/* `expired` is called once, from the loop, in `ms` milliseconds unless cleared before. A deadline that is
 * set already is moved. A zeroed one is not set. */
void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t ms,
                  void (*expired)(struct deadline *deadline)) __attribute__((nonnull));
void deadline_clear(struct deadlines *deadlines, struct deadline *deadline) __attribute__((nonnull));

#endif
