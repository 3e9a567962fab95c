/* Extended attributes. These calls take no directory descriptor, so for what is not open they go through
 * /proc/self/fd by its absolute path. Where someone inside has put another /proc in its place, an answer is
 * his, with no other rights than he has anyway. */
#include "hand/files_server.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "hand/files_walk.h"

/* What a call works on: a handle's descriptor, or the path of an O_PATH one. */
struct subject {
    int fd; /* -1: by path */
    char path[FILES_PROC_NAME_SIZE + 8];
};

static int find(struct serving *s, struct target *t, struct subject *ret, struct error *err)
{
    char name[FILES_PROC_NAME_SIZE];

    if (target_find(s->files, &s->call->ref, t, err) < 0) {
        return -1;
    }
    ret->fd = target_is_open(t) ? t->fd : -1;
    files_proc_name(name, t->fd);
    snprintf(ret->path, sizeof ret->path, "/proc/%s", name);
    if (ret->fd < 0 && s->files->proc < 0) {
        return target_fail(&s->call->ref, NULL, EOPNOTSUPP, err);
    }
    return 0;
}

/* The call's attribute name, as a path-independent C string. */
struct attribute {
    char name[FILES_NAME_SIZE];
};

static struct attribute attribute_of(const struct wire_call *call)
{
    struct attribute a;

    files_text(a.name, &call->name);
    return a;
}

/* Answers with what `get` puts into the memory it is given; size 0 asks for the length alone. */
static int answer(struct serving *s, const struct subject *subject, size_t max,
                  ssize_t (*get)(const struct subject *subject, const char *name, void *to,
                                 size_t size),
                  const char *name, struct error *err)
{
    size_t size = s->call->size < max ? (size_t)s->call->size : max;
    uint8_t *to = size == 0 ? NULL : buffer_reserve(&s->scratch, size);
    ssize_t n;

    if (size > 0 && to == NULL) {
        return target_fail(&s->call->ref, NULL, ENOMEM, err);
    }
    n = get(subject, name, to, size);
    if (n < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    s->reply.size = (uint64_t)n;
    s->reply.data = (struct wire_text){(const char *)to, size == 0 ? 0 : (size_t)n};
    return 0;
}

static ssize_t get_value(const struct subject *subject, const char *name, void *to, size_t size)
{
    return subject->fd >= 0 ? fgetxattr(subject->fd, name, to, size)
                            : getxattr(subject->path, name, to, size);
}

int files_getxattr(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    struct attribute a = attribute_of(s->call);
    struct subject subject;

    return find(s, &t, &subject, err) < 0
               ? -1
               : answer(s, &subject, XATTR_SIZE_MAX, get_value, a.name, err);
}

static ssize_t get_list(const struct subject *subject, const char *name, void *to, size_t size)
{
    (void)name;
    return subject->fd >= 0 ? flistxattr(subject->fd, to, size)
                            : listxattr(subject->path, to, size);
}

int files_listxattr(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    struct subject subject;

    return find(s, &t, &subject, err) < 0
               ? -1
               : answer(s, &subject, XATTR_LIST_MAX, get_list, "", err);
}

int files_setxattr(struct serving *s, struct error *err)
{
    const struct wire_text *data = &s->call->data;
    int flags = (int)s->call->flags & (XATTR_CREATE | XATTR_REPLACE);
    cleanup_target struct target t = TARGET_INIT;
    struct attribute a = attribute_of(s->call);
    struct subject subject;
    int r;

    if (find(s, &t, &subject, err) < 0) {
        return -1;
    }
    r = subject.fd >= 0 ? fsetxattr(subject.fd, a.name, data->data, data->length, flags)
                        : setxattr(subject.path, a.name, data->data, data->length, flags);
    return r < 0 ? target_fail(&s->call->ref, NULL, errno, err) : 0;
}

int files_removexattr(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    struct attribute a = attribute_of(s->call);
    struct subject subject;
    int r;

    if (find(s, &t, &subject, err) < 0) {
        return -1;
    }
    r = subject.fd >= 0 ? fremovexattr(subject.fd, a.name) : removexattr(subject.path, a.name);
    return r < 0 ? target_fail(&s->call->ref, NULL, errno, err) : 0;
}
