/* A file server over a new folder, for tests: the folder is the root, and `workspace` in it the workdir. */
#ifndef HANDSFS_TESTS_UNIT_FILES_BED_H
#define HANDSFS_TESTS_UNIT_FILES_BED_H

#include "hand/files.h"
#include "tests/unit/unit.h"

struct files_bed {
    char folder[64];
    int root;    /* descriptors to prepare and to look with, past the server */
    int workdir;
    struct files *files;
    struct buffer bytes;     /* the last reply ... */
    struct wire_reply reply; /* ... decoded */
};

/* The one bed; open in every test whose case has the fixture. */
extern struct files_bed bed;
void files_bed_open(void);
void files_bed_open_without_openat2(void); /* as on a kernel that has none */
void files_bed_open_without_proc(void);    /* as where no procfs is mounted */
void files_bed_close(void);

/* Serves the call and decodes the reply into bed.reply, valid until the next call. Returns the errno that
 * it stands for, 0 for success. */
int serve(struct wire_call call);
/* The same, and it has to succeed. */
void served(struct wire_call call);

struct wire_text text(const char *s);
struct wire_ref at(const char *path);      /* from the workdir */
struct wire_ref in_root(const char *path); /* from the root, without the "/" */
struct wire_ref by(uint64_t handle);

/* Whole operations, each of which has to succeed. */
uint64_t opened(const char *path, int flags);
struct wire_attr attr_of(const char *path);
void released(uint64_t handle);

/* Past the server, in the workdir. */
void put_file(const char *path, const void *data, size_t length);
void put_text(const char *path, const char *content);
void expect_text(const char *path, const char *content);
bool exists(const char *path);
unsigned count_entries(const char *path);
mode_t mode_of(const char *path); /* permissions */

#endif
