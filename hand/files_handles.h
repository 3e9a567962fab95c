/* Open handles of a file server: a table of a fixed size whose identifiers are never used again. A handle
 * is counted, so that a RELEASE meets a READ that still runs without harm. Private to hand/files*.c. */
#ifndef HANDSFS_HAND_FILES_HANDLES_H
#define HANDSFS_HAND_FILES_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/buffer.h"

enum handle_kind {
    HANDLE_FILE,
    HANDLE_DIRECTORY,
    HANDLE_WRITE_FILE,
    HANDLE_HELD, /* O_PATH: of whatever there is */
};

struct handle {
    uint64_t id;
    atomic_uint references;
    enum handle_kind kind;
    int fd;
    pthread_mutex_t lock; /* the descriptor's position, and what says so below */
    bool append;
    uint64_t read_limit;        /* READ_FILE: nothing behind it is read; 0 for none */
    bool in_memory;             /* READ_FILE of a file without a size: its bytes were taken then */
    struct buffer content;      /* ... and are here */
    uint64_t position;          /* a directory's: where the descriptor stands; protected by `lock` */
    struct replacement *target; /* a WriteFile's; its state is protected by `lock` */
};

struct handles {
    pthread_mutex_t lock;
    struct handle **slots; /* protected by `lock`, as all below */
    uint16_t *unused;      /* stack of the slots that were given back */
    unsigned unused_count;
    unsigned used;     /* slots that were ever used */
    uint64_t sequence; /* of the last identifier */
};

/* 0, or -1 with errno. */
int handles_init(struct handles *handles) __attribute__((nonnull, warn_unused_result));
/* Closes them all. */
void handles_release(struct handles *handles) __attribute__((nonnull));

/* A handle with one reference, which owns `fd` (closed also on failure). NULL with errno. */
struct handle *handle_new(enum handle_kind kind, int fd) __attribute__((warn_unused_result));
/* Drops a reference; the last one closes the descriptor and gives up an unfinished WriteFile. NULL is
 * nothing. */
void handle_put(struct handle *handle);

/* Hands the caller's reference to the table; returns the identifier, or 0 with errno EMFILE and the
 * reference dropped. */
uint64_t handles_add(struct handles *handles, struct handle *handle)
    __attribute__((nonnull, warn_unused_result));
/* A reference of the caller's own, or NULL with errno EBADF. */
struct handle *handles_get(struct handles *handles, uint64_t id)
    __attribute__((nonnull, warn_unused_result));
/* Takes it out of the table. 0, or -1 with errno EBADF. */
int handles_remove(struct handles *handles, uint64_t id)
    __attribute__((nonnull, warn_unused_result));

#endif
