#include "fs/attr.h"

uid_t attr_uid_outside(const struct attr_rules *rules, uint32_t uid)
{
    return rules->map_owner && uid == rules->inside_uid ? rules->uid : uid;
}

gid_t attr_gid_outside(const struct attr_rules *rules, uint32_t gid)
{
    return rules->map_owner && gid == rules->inside_gid ? rules->gid : gid;
}

uint32_t attr_uid_inside(const struct attr_rules *rules, uid_t uid)
{
    return rules->map_owner && uid == rules->uid ? rules->inside_uid : uid;
}

uint32_t attr_gid_inside(const struct attr_rules *rules, gid_t gid)
{
    return rules->map_owner && gid == rules->gid ? rules->inside_gid : gid;
}

mode_t attr_type(const struct attr_rules *rules, uint32_t type)
{
    switch (type) {
    case 0: /* not known */
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK:
        return type;
    default:
        return rules->special_as_socket ? S_IFSOCK : type;
    }
}

static struct timespec to_timespec(const struct wire_time *t)
{
    return (struct timespec){.tv_sec = t->seconds, .tv_nsec = t->nanoseconds};
}

int attr_to_stat(const struct attr_rules *rules, const struct wire_attr *attr, struct stat *ret)
{
    mode_t type = attr_type(rules, attr->mode & S_IFMT);

    if (attr->size > INT64_MAX || attr->blocks > INT64_MAX || attr->uid == UINT32_MAX ||
        attr->gid == UINT32_MAX) {
        return -1;
    }
    *ret = (struct stat){
        .st_dev = attr->dev,
        .st_ino = attr->ino,
        .st_mode = type | (attr->mode & 07777),
        .st_nlink = attr->nlink,
        .st_uid = attr_uid_outside(rules, attr->uid),
        .st_gid = attr_gid_outside(rules, attr->gid),
        .st_rdev = type == S_IFCHR || type == S_IFBLK ? attr->rdev : 0,
        .st_size = (off_t)attr->size,
        .st_blksize = attr->block_size <= (1 << 20) ? (blksize_t)attr->block_size : 4096,
        .st_blocks = (blkcnt_t)attr->blocks,
        .st_atim = to_timespec(&attr->atime),
        .st_mtim = to_timespec(&attr->mtime),
        .st_ctim = to_timespec(&attr->ctime),
    };
    return 0;
}
