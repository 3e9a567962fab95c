/* A hash table of things that carry their own link, so that putting one in never fails. What is equal is
 * the caller's to say: he walks the links of one hash. */
#ifndef HANDSFS_FS_TABLE_H
#define HANDSFS_FS_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_link {
    struct table_link *next;
    uint64_t hash;
};

struct table {
    struct table_link **buckets;
    size_t size; /* a power of two */
    size_t count;
    uint64_t seed[2]; /* random: names come from inside the sandbox */
};

/* The thing of type `type` whose member `member` is `link`. */
#define table_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* 0, or -1 with errno. */
int table_init(struct table *t) __attribute__((nonnull, warn_unused_result));

/* Forgets what is in it; that is the caller's. Accepts a zeroed table. */
void table_release(struct table *t) __attribute__((nonnull));

uint64_t table_hash(const struct table *t, uint64_t number, const void *bytes, size_t length)
    __attribute__((nonnull(1)));

void table_insert(struct table *t, struct table_link *link, uint64_t hash) __attribute__((nonnull));
void table_remove(struct table *t, struct table_link *link) __attribute__((nonnull));

/* The first and the next link with this very hash, or NULL. */
struct table_link *table_first(const struct table *t, uint64_t hash) __attribute__((nonnull));
struct table_link *table_next(const struct table_link *link) __attribute__((nonnull));

#endif
