/* The one clock for deadlines: CLOCK_MONOTONIC, in milliseconds. */
#ifndef HANDSFS_SANDBOX_CLOCK_H
#define HANDSFS_SANDBOX_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds since an arbitrary point; never goes back (clock_gettime(2)). */
static inline uint64_t clock_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#endif
