#include "hand/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hand/wire.h"

struct pool {
    int event;
    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t work;
    struct list waiting;
    unsigned queued; /* jobs in `waiting` */
    struct list finished;
    unsigned threads;
    unsigned idle;
};

struct job *job_new(struct files *files, uint64_t id, const uint8_t *call, size_t length)
{
    struct job *job = calloc(1, sizeof *job);

    if (job == NULL) {
        return NULL;
    }
    list_init(&job->node);
    job->files = files;
    job->id = id;
    buffer_init(&job->call, WIRE_MAX_PAYLOAD);
    buffer_init(&job->reply, WIRE_HEADER_BYTES + WIRE_MAX_PAYLOAD);
    if (buffer_append(&job->call, call, length) < 0) {
        job_free(job);
        return NULL;
    }
    return job;
}

void job_free(struct job *job)
{
    if (job != NULL) {
        buffer_release(&job->call);
        buffer_release(&job->reply);
        free(job);
    }
}

static void job_run(struct job *job)
{
    size_t frame = wire_begin_frame(&job->reply, WIRE_RESULT, job->id);

    if (frame != SIZE_MAX &&
        files_serve(job->files, job->call.data, job->call.length, &job->reply) == 0) {
        wire_end_frame(&job->reply, frame);
    } else {
        buffer_release(&job->reply);
    }
}

/* With the lock held. */
static void finish(struct pool *pool, struct job *job)
{
    uint64_t one = 1;
    bool first = list_empty(&pool->finished);

    list_append(&pool->finished, &job->node);
    while (first && write(pool->event, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void *worker(void *arg)
{
    struct pool *pool = arg;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct job *job;

        while (list_empty(&pool->waiting)) {
            pool->idle++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->idle--;
        }
        job = container_of(pool->waiting.next, struct job, node);
        list_remove(&job->node);
        pool->queued--;
        pthread_mutex_unlock(&pool->lock);
        job_run(job);
        pthread_mutex_lock(&pool->lock);
        finish(pool, job);
    }
    return NULL;
}

int pool_new(struct pool **ret, struct error *err)
{
    struct pool *pool = calloc(1, sizeof *pool);

    if (pool == NULL) {
        return error_set_errno(err, ENOMEM, "pool");
    }
    pool->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->event < 0) {
        free(pool);
        return error_set_errno(err, errno, "eventfd");
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    list_init(&pool->waiting);
    list_init(&pool->finished);
    *ret = pool;
    return 0;
}

int pool_fd(const struct pool *pool)
{
    return pool->event;
}

/* With the lock held. */
static void start_thread(struct pool *pool)
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, POOL_STACK_BYTES);
    if (pthread_create(&thread, &attributes, worker, pool) == 0) {
        pool->threads++;
    }
    pthread_attr_destroy(&attributes);
}

void pool_submit(struct pool *pool, struct job *job)
{
    pthread_mutex_lock(&pool->lock);
    list_append(&pool->waiting, &job->node);
    pool->queued++;
    if (pool->queued > pool->idle && pool->threads < POOL_MAX_THREADS) {
        start_thread(pool);
    }
    if (pool->threads > 0) {
        pthread_cond_signal(&pool->work);
    } else {
        list_remove(&job->node);
        pool->queued--;
        job_run(job);
        finish(pool, job);
    }
    pthread_mutex_unlock(&pool->lock);
}

struct job *pool_withdraw(struct pool *pool, const void *client, uint64_t id)
{
    struct job *found = NULL;

    pthread_mutex_lock(&pool->lock);
    list_each(at, next, &pool->waiting) {
        struct job *job = container_of(at, struct job, node);

        if (job->client == client && job->id == id && job->connection != 0) {
            list_remove(&job->node);
            pool->queued--;
            found = job;
            break;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

void pool_finished(struct pool *pool, struct list *ret)
{
    uint64_t count;

    pthread_mutex_lock(&pool->lock);
    while (read(pool->event, &count, sizeof count) < 0 && errno == EINTR) {
    }
    list_take_all(ret, &pool->finished);
    pthread_mutex_unlock(&pool->lock);
}
