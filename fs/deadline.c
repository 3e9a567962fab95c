#include "fs/deadline.h"

static void arm(struct deadlines *deadlines);

static void fire(uv_timer_t *timer)
{
    struct deadlines *deadlines = timer->data;
    uint64_t now = uv_now(timer->loop);
    struct deadline *first;

    while ((first = TAILQ_FIRST(&deadlines->waiting)) != NULL && first->at <= now) {
        TAILQ_REMOVE(&deadlines->waiting, first, entry);
        first->is_set = false;
        first->expired(first);
    }
    arm(deadlines);
}

static void arm(struct deadlines *deadlines)
{
    struct deadline *first = TAILQ_FIRST(&deadlines->waiting);
    uint64_t now = uv_now(deadlines->timer.loop);

    if (uv_is_closing((uv_handle_t *)&deadlines->timer)) {
        return;
    }
    if (first == NULL) {
        uv_timer_stop(&deadlines->timer);
    } else {
        uv_timer_start(&deadlines->timer, fire, first->at > now ? first->at - now : 0, 0);
    }
}

void deadlines_init(struct deadlines *deadlines, uv_loop_t *loop)
{
    TAILQ_INIT(&deadlines->waiting);
    uv_timer_init(loop, &deadlines->timer);
    deadlines->timer.data = deadlines;
}

void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t ms,
                  void (*expired)(struct deadline *deadline))
{
    struct deadline *before;

    if (deadline->is_set) {
        TAILQ_REMOVE(&deadlines->waiting, deadline, entry);
    }
    uv_update_time(deadlines->timer.loop);
    deadline->at = uv_now(deadlines->timer.loop) + ms;
    deadline->expired = expired;
    deadline->is_set = true;
    before = TAILQ_LAST(&deadlines->waiting, deadline_list);
    while (before != NULL && before->at > deadline->at) {
        before = TAILQ_PREV(before, deadline_list, entry);
    }
    if (before == NULL) {
        TAILQ_INSERT_HEAD(&deadlines->waiting, deadline, entry);
    } else {
        TAILQ_INSERT_AFTER(&deadlines->waiting, before, deadline, entry);
    }
    arm(deadlines);
}

void deadline_clear(struct deadlines *deadlines, struct deadline *deadline)
{
    if (deadline->is_set) {
        TAILQ_REMOVE(&deadlines->waiting, deadline, entry);
        deadline->is_set = false;
        arm(deadlines);
    }
}
