#include "hand/files_handles.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "hand/files.h"
#include "hand/files_write.h"

/* An identifier is a sequence number and the handle's slot below it. */
#define SLOT_BITS 14

_Static_assert(FILES_MAX_HANDLES == 1 << SLOT_BITS, "a slot's number fits");

int handles_init(struct handles *h)
{
    h->slots = calloc(FILES_MAX_HANDLES, sizeof *h->slots);
    h->unused = calloc(FILES_MAX_HANDLES, sizeof *h->unused);
    h->unused_count = 0;
    h->used = 0;
    h->sequence = 0;
    if (h->slots == NULL || h->unused == NULL) {
        free(h->slots);
        free(h->unused);
        errno = ENOMEM;
        return -1;
    }
    pthread_mutex_init(&h->lock, NULL);
    return 0;
}

void handles_release(struct handles *h)
{
    for (unsigned i = 0; i < h->used; i++) {
        handle_put(h->slots[i]);
    }
    free(h->slots);
    free(h->unused);
    pthread_mutex_destroy(&h->lock);
}

struct handle *handle_new(enum handle_kind kind, int fd)
{
    struct handle *handle = calloc(1, sizeof *handle);

    if (handle == NULL) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    atomic_init(&handle->references, 1);
    handle->kind = kind;
    handle->fd = fd;
    pthread_mutex_init(&handle->lock, NULL);
    buffer_init(&handle->content, 0);
    return handle;
}

void handle_put(struct handle *handle)
{
    if (handle == NULL || atomic_fetch_sub(&handle->references, 1) > 1) {
        return;
    }
    replacement_free(handle->target);
    close(handle->fd);
    buffer_release(&handle->content);
    pthread_mutex_destroy(&handle->lock);
    free(handle);
}

uint64_t handles_add(struct handles *h, struct handle *handle)
{
    unsigned slot;

    assert(handle->id == 0);
    pthread_mutex_lock(&h->lock);
    if (h->unused_count == 0 && h->used == FILES_MAX_HANDLES) {
        pthread_mutex_unlock(&h->lock);
        handle_put(handle);
        errno = EMFILE;
        return 0;
    }
    slot = h->unused_count > 0 ? h->unused[--h->unused_count] : h->used++;
    handle->id = ++h->sequence << SLOT_BITS | slot;
    h->slots[slot] = handle;
    pthread_mutex_unlock(&h->lock);
    return handle->id;
}

/* The handle of this identifier, under the table's lock. */
static struct handle *find(const struct handles *h, uint64_t id)
{
    struct handle *handle = h->slots[id & (FILES_MAX_HANDLES - 1)];

    return handle != NULL && handle->id == id ? handle : NULL;
}

struct handle *handles_get(struct handles *h, uint64_t id)
{
    struct handle *handle;

    pthread_mutex_lock(&h->lock);
    handle = find(h, id);
    if (handle != NULL) {
        atomic_fetch_add(&handle->references, 1);
    }
    pthread_mutex_unlock(&h->lock);
    if (handle == NULL) {
        errno = EBADF;
    }
    return handle;
}

int handles_remove(struct handles *h, uint64_t id)
{
    struct handle *handle;

    pthread_mutex_lock(&h->lock);
    handle = find(h, id);
    if (handle != NULL) {
        unsigned slot = (unsigned)(id & (FILES_MAX_HANDLES - 1));

        h->slots[slot] = NULL;
        h->unused[h->unused_count++] = (uint16_t)slot;
    }
    pthread_mutex_unlock(&h->lock);
    if (handle == NULL) {
        errno = EBADF;
        return -1;
    }
    handle_put(handle);
    return 0;
}
