/* The limits of a sandbox as control groups: one of cgroup v2, or one for each controller of v1. A limit
 * that cannot be given is refused. */
#ifndef HANDSFS_BACKENDS_LOCAL_CGROUP_H
#define HANDSFS_BACKENDS_LOCAL_CGROUP_H

#include "backends/local_record.h"

enum local_controller { LOCAL_MEMORY, LOCAL_CPU, LOCAL_PIDS, LOCAL_CONTROLLERS };

/* "memory" and so on. */
const char *local_controller_name(enum local_controller controller);

/* Whether this caller can limit it here; ERROR_BAD_REQUEST says why not. */
int local_cgroup_usable(enum local_controller controller, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* 0 where all limits of the spec can be given, else ERROR_BAD_REQUEST with the limit and the reason. Makes
 * nothing. */
int local_cgroup_check(const struct sandbox_spec *spec, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Makes the groups for a record's limits, named after its id, and puts them down in record->cgroups. */
int local_cgroup_make(struct local_record *record, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Where the group of `directory` is to be seen inside, under /sys/fs/cgroup; static text. */
const char *local_cgroup_inside(const char *directory) __attribute__((nonnull));

/* Removes them as soon as they are empty, at the latest at the deadline. */
int local_cgroup_remove(const struct local_record *record, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
