/* A gateway over a fake link, on a loop in a thread of its own, with a socket in a new folder. */
#ifndef HANDSFS_TESTS_UNIT_GATEWAY_BED_H
#define HANDSFS_TESTS_UNIT_GATEWAY_BED_H

#include <pthread.h>
#include <semaphore.h>

#include <jansson.h>

#include "exec/gateway.h"
#include "tests/unit/fake_link.h"

struct bed {
    uv_loop_t loop;
    uv_async_t wake;
    struct link *link;
    struct gateway *gateway;
    struct gateway_host host; /* to be filled in before bed_open(); `barrier.ctx` and `ctx` too */
    char folder[64];
    char path[128]; /* of the socket */
    pthread_t thread;
    sem_t done;
    void (*job)(struct bed *bed, void *arg);
    void *job_arg;
};

void bed_open(struct bed *bed);

/* Closes all; fails the test where a handle is left in the loop. */
void bed_close(struct bed *bed);

/* Runs `job` on the loop's thread and waits for it. */
void bed_run(struct bed *bed, void (*job)(struct bed *bed, void *arg), void *arg);

struct gateway_counts bed_counts(struct bed *bed);
struct fake_link_counts bed_link_counts(struct bed *bed);

/* A plain client. Lines are read with a time-out that fails the test. */
int bed_connect(struct bed *bed);
void bed_send(int fd, const char *text);
void bed_send_bytes(int fd, const void *data, size_t length);
json_t *bed_receive(int fd);  /* NULL where the other side closed */
void bed_expect_end(int fd);  /* the other side closes now and says nothing */

/* Sends one request and gives its "result" or "error" object; new reference. */
json_t *bed_call(int fd, const char *method, const char *params);

#endif
