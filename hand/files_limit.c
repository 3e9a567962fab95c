#include "hand/files.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the thread was before the first call, and what was last asked for. `other` is set while the ids are not
 * the thread's own. */
static _Thread_local struct {
    bool known;
    uint64_t effective;
    uid_t uid;
    gid_t gid;
    gid_t groups[SANDBOX_MAX_GROUPS];
    int group_count; /* -1: there are more */
    bool limited, other;
    struct sandbox_rights asked;
} mine;

/* The raw system calls: they are about the calling thread alone, which a C library or libcap may want to
 * make up for. The permitted set is kept, so that another thread's turn may ask for another limit. */
static int get(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};

    return (int)syscall(SYS_capget, &header, data);
}

static int set_effective(uint64_t wanted)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct data[2] = {{0}};

    if (get(data) < 0) {
        return -1;
    }
    if (wanted == ((uint64_t)data[1].effective << 32 | data[0].effective)) {
        return 0;
    }
    data[0].effective = (uint32_t)wanted;
    data[1].effective = (uint32_t)(wanted >> 32);
    return (int)syscall(SYS_capset, &header, data);
}

static int set_groups(size_t count, const gid_t *groups)
{
#ifdef SYS_setgroups32
    return (int)syscall(SYS_setgroups32, count, groups);
#else
    return (int)syscall(SYS_setgroups, count, groups);
#endif
}

static int learn(void)
{
    struct __user_cap_data_struct data[2] = {{0}};

    if (mine.known) {
        return 0;
    }
    if (get(data) < 0) {
        return -1;
    }
    mine.effective = (uint64_t)data[1].effective << 32 | data[0].effective;
    mine.uid = geteuid();
    mine.gid = getegid();
    mine.group_count = getgroups(SANDBOX_MAX_GROUPS, mine.groups);
    mine.known = true;
    return 0;
}

/* With all capabilities in effect. The calls that set an id tell only what it was before. */
static int set_ids(uid_t uid, gid_t gid, size_t count, const gid_t *groups)
{
    if (set_groups(count, groups) < 0) {
        return -1;
    }
    setfsgid(gid);
    setfsuid(uid);
    if ((gid_t)setfsgid((gid_t)-1) != gid || (uid_t)setfsuid((uid_t)-1) != uid) {
        errno = EPERM;
        return -1;
    }
    return 0;
}

static int own_ids(void)
{
    if (!mine.other) {
        return 0;
    }
    if (mine.group_count < 0 || set_effective(mine.effective) < 0 ||
        set_ids(mine.uid, mine.gid, (size_t)mine.group_count, mine.groups) < 0) {
        return -1;
    }
    mine.other = false;
    return 0;
}

/* A change of the user's id changes the effective capabilities, too: they come last. */
static int limit(uint64_t capabilities)
{
    return set_effective(mine.effective & capabilities & ~(UINT64_C(1) << CAP_FSETID));
}

int files_limit_thread(uint64_t capabilities)
{
    const struct sandbox_rights rights = {.capabilities = capabilities};

    if (mine.limited && !mine.asked.known && mine.asked.capabilities == capabilities) {
        return 0;
    }
    mine.limited = false;
    if (learn() < 0 || own_ids() < 0 || limit(capabilities) < 0) {
        return -1;
    }
    mine.asked = rights;
    mine.limited = true;
    return 0;
}

static bool same(const struct sandbox_rights *a, const struct sandbox_rights *b)
{
    return a->known == b->known && a->uid == b->uid && a->gid == b->gid && a->capabilities == b->capabilities &&
           a->group_count == b->group_count &&
           memcmp(a->groups, b->groups, a->group_count * sizeof a->groups[0]) == 0;
}

int files_act_as(const struct sandbox_rights *rights)
{
    _Static_assert(sizeof rights->groups[0] == sizeof(gid_t), "a group is as large here as there");

    if (mine.limited && same(&mine.asked, rights)) {
        return 0;
    }
    mine.limited = false;
    if (learn() < 0) {
        return -1;
    }
    if (mine.group_count < 0) { /* there would be no way back */
        errno = EOPNOTSUPP;
        return -1;
    }
    mine.other = true;
    if (set_effective(mine.effective) < 0 ||
        set_ids(rights->uid, rights->gid, rights->group_count, rights->groups) < 0 ||
        limit(rights->capabilities) < 0) {
        return -1;
    }
    mine.asked = *rights;
    mine.limited = true;
    return 0;
}
