/* Attributes from inside as the host is to see them: who owns what, and what a special file looks like. */
#ifndef HANDSFS_FS_ATTR_H
#define HANDSFS_FS_ATTR_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "hand/wire.h"

struct attr_rules {
    bool map_owner;        /* the sandbox's user is the mounting user, both ways */
    uint32_t inside_uid, inside_gid;
    uid_t uid; /* the mounting user */
    gid_t gid;
    bool special_as_socket; /* FIFOs and devices too: open(2) fails with ENXIO before it gets here */
};

uid_t attr_uid_outside(const struct attr_rules *rules, uint32_t uid) __attribute__((nonnull));
gid_t attr_gid_outside(const struct attr_rules *rules, uint32_t gid) __attribute__((nonnull));
uint32_t attr_uid_inside(const struct attr_rules *rules, uid_t uid) __attribute__((nonnull));
uint32_t attr_gid_inside(const struct attr_rules *rules, gid_t gid) __attribute__((nonnull));

/* The S_IFMT bits that the host sees for those inside. */
mode_t attr_type(const struct attr_rules *rules, uint32_t type) __attribute__((nonnull));

/* -1 for what no file has: a size, a count of blocks or an owner that would be read as another number. */
int attr_to_stat(const struct attr_rules *rules, const struct wire_attr *attr, struct stat *ret)
    __attribute__((nonnull, warn_unused_result));

#endif
