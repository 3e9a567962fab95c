#include "hand/loop.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "sandbox/clock.h"

int loop_init(struct loop *loop, struct error *err)
{
    list_init(&loop->timers);
    loop->batch_length = 0;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    return loop->epoll < 0 ? error_set_errno(err, errno, "epoll_create1") : 0;
}

int loop_add(struct loop *loop, struct source *source, int fd, uint32_t events,
             void (*ready)(struct source *source, uint32_t events))
{
    struct epoll_event e = {.events = events, .data = {.ptr = source}};

    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        return -1;
    }
    source->fd = fd;
    source->events = events;
    source->ready = ready;
    return 0;
}

void loop_want(struct loop *loop, struct source *source, uint32_t events)
{
    struct epoll_event e = {.events = events, .data = {.ptr = source}};

    if (source->fd >= 0 && source->events != events &&
        epoll_ctl(loop->epoll, EPOLL_CTL_MOD, source->fd, &e) == 0) {
        source->events = events;
    }
}

int loop_release(struct loop *loop, struct source *source)
{
    int fd = source->fd;

    if (fd >= 0) {
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL);
        source->fd = -1;
        for (int i = 0; i < loop->batch_length; i++) {
            if (loop->batch[i].data.ptr == source) {
                loop->batch[i].data.ptr = NULL;
            }
        }
    }
    return fd;
}

void loop_remove(struct loop *loop, struct source *source)
{
    int fd = loop_release(loop, source);

    if (fd >= 0) {
        close(fd);
    }
}

void timer_init(struct timer *timer, void (*fire)(struct timer *timer))
{
    list_init(&timer->node);
    timer->due = 0;
    timer->fire = fire;
}

void loop_arm(struct loop *loop, struct timer *timer, uint64_t milliseconds)
{
    struct list *at;

    list_remove(&timer->node);
    timer->due = clock_now_ms() + milliseconds;
    for (at = loop->timers.next; at != &loop->timers; at = at->next) {
        if (container_of(at, struct timer, node)->due > timer->due) {
            break;
        }
    }
    list_insert_before(at, &timer->node);
}

void loop_disarm(struct timer *timer)
{
    list_remove(&timer->node);
}

/* Milliseconds until the next timer, as epoll_wait(2) takes them. */
static int time_left(const struct loop *loop)
{
    uint64_t now;
    uint64_t due;

    if (list_empty(&loop->timers)) {
        return -1;
    }
    now = clock_now_ms();
    due = container_of(loop->timers.next, struct timer, node)->due;
    if (due <= now) {
        return 0;
    }
    return due - now > INT_MAX ? INT_MAX : (int)(due - now);
}

static void fire_timers(struct loop *loop)
{
    uint64_t now = clock_now_ms();

    while (!list_empty(&loop->timers)) {
        struct timer *timer = container_of(loop->timers.next, struct timer, node);

        if (timer->due > now) {
            return;
        }
        list_remove(&timer->node);
        timer->fire(timer);
    }
}

void loop_turn(struct loop *loop)
{
    int n = epoll_wait(loop->epoll, loop->batch, LOOP_BATCH, time_left(loop));

    loop->batch_length = n > 0 ? n : 0;
    for (int i = 0; i < loop->batch_length; i++) {
        struct source *source = loop->batch[i].data.ptr;

        if (source != NULL) {
            source->ready(source, loop->batch[i].events);
        }
    }
    loop->batch_length = 0;
    if (!list_empty(&loop->timers)) {
        fire_timers(loop);
    }
}
