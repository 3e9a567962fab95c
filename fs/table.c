#include "fs/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TABLE_FIRST 256 /* buckets */

int table_init(struct table *t)
{
    uint64_t seed[2] = {0};

    if (getrandom(seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        seed[0] ^= (uint64_t)(uintptr_t)t; /* early at boot: better than nothing */
    }
    *t = (struct table){
        .buckets = calloc(TABLE_FIRST, sizeof(struct table_link *)),
        .size = TABLE_FIRST,
        .seed = {seed[0], seed[1] | 1},
    };
    return t->buckets != NULL ? 0 : -1;
}

void table_release(struct table *t)
{
    free(t->buckets);
    *t = (struct table){0};
}

static uint64_t mix(uint64_t h, uint64_t word, uint64_t factor)
{
    h = (h ^ word) * factor;
    h ^= h >> 29;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 32);
}

uint64_t table_hash(const struct table *t, uint64_t number, const void *bytes, size_t length)
{
    uint64_t h = mix(t->seed[0] ^ length, number, t->seed[1]);
    const uint8_t *at = bytes;

    for (; length > 0;) {
        uint64_t word = 0;
        size_t n = length < sizeof word ? length : sizeof word;

        memcpy(&word, at, n);
        h = mix(h, word, t->seed[1]);
        at += n;
        length -= n;
    }
    return h;
}

/* Twice the buckets; without memory the chains only get longer. */
static void grow(struct table *t)
{
    size_t size = t->size * 2;
    struct table_link **buckets = calloc(size, sizeof(struct table_link *));

    if (buckets == NULL) {
        return;
    }
    for (size_t i = 0; i < t->size; i++) {
        struct table_link *link = t->buckets[i];

        while (link != NULL) {
            struct table_link *next = link->next;
            struct table_link **head = &buckets[link->hash & (size - 1)];

            link->next = *head;
            *head = link;
            link = next;
        }
    }
    free(t->buckets);
    t->buckets = buckets;
    t->size = size;
}

void table_insert(struct table *t, struct table_link *link, uint64_t hash)
{
    struct table_link **head;

    if (t->count >= t->size) {
        grow(t);
    }
    head = &t->buckets[hash & (t->size - 1)];
    link->hash = hash;
    link->next = *head;
    *head = link;
    t->count++;
}

void table_remove(struct table *t, struct table_link *link)
{
    struct table_link **at = &t->buckets[link->hash & (t->size - 1)];

    while (*at != link) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = link->next;
    link->next = NULL;
    t->count--;
}

static struct table_link *same(struct table_link *link, uint64_t hash)
{
    while (link != NULL && link->hash != hash) {
        link = link->next;
    }
    return link;
}

struct table_link *table_first(const struct table *t, uint64_t hash)
{
    return same(t->buckets[hash & (t->size - 1)], hash);
}

struct table_link *table_next(const struct table_link *link)
{
    return same(link->next, link->hash);
}
