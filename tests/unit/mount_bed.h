/* A real mount over a folder, without a sandbox, for tests. A process of its own serves it, so that a test
 * that is killed while it waits for the mount is let go; the test is the program that uses the mount. What
 * it does in `inside` is what an agent does. */
#ifndef HANDSFS_TESTS_UNIT_MOUNT_BED_H
#define HANDSFS_TESTS_UNIT_MOUNT_BED_H

#include "fs/fs.h"
#include "tests/unit/files_link.h"
#include "tests/unit/unit.h"

#define BED_OP_TIMEOUT_MS 60000 /* longer than ... */
#define BED_PATIENCE_MS 30000   /* ... what has to happen before it takes, under valgrind and load, too */

struct mount_bed {
    char folder[64];
    char mount[80], inside[96]; /* the mountpoint; the workdir past it */
    pid_t server;               /* 0 when it was closed */
    /* Of the serving process: */
    struct fs *fs;
    struct link *link;
    unsigned execs, cancels; /* of the control file */
    bool ended;              /* the kernel's side went away by itself */
};

extern struct mount_bed mount_bed;

/* Whether this machine can mount, or is to be told off for it (HANDSFS_REQUIRE). */
bool mount_bed_possible(void);

/* `options` NULL: the defaults, but for BED_OP_TIMEOUT_MS. */
void mount_bed_open(const struct fs_options *options);
void mount_bed_default(void); /* a fixture */
void mount_bed_close(void);   /* the other; closes what is still open */
void mount_bed_unmount(void); /* fs_close() and all that follows it */

/* Runs it on the loop of the serving process and waits for it. It gets a copy of the `size` bytes at
 * `arg`, BED_ARG_BYTES at most, and what it makes of them is copied back. */
#define BED_ARG_BYTES 64
void on_loop(void (*what)(void *arg), void *arg, size_t size);
void set_mode(enum files_link_mode mode);

/* Around the commands, as the gateway does; waits until they have passed. */
void barrier_before(void);
void barrier_after(void);

/* Waits until `has_happened`, which is run on the loop, is true. */
void wait_until(bool (*has_happened)(void));

/* Paths: "mount/a" and "inside/a", valid until the fourth call after it. */
const char *outer(const char *name);
const char *inner(const char *name);

/* Whole files. Each has to succeed. */
void write_text(const char *path, const char *text);
void expect_content(const char *path, const char *text);
/* The errno of opening, 0 for success. */
int open_errno(const char *path, int flags);

/* Runs it in a child process, which exits with what it returns. */
pid_t in_child(int (*what)(void));
/* The status of the child's end, -1 where it has not ended within BED_PATIENCE_MS. */
int end_of_child(pid_t pid);

#endif
