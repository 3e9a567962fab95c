/* Listings. An entry's `next` is the kernel's own cookie (d_off), so that a listing goes on at the right
 * place whatever was made or removed meanwhile, and a handle may be read from any offset again. */
#include "hand/files_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hand/files_walk.h"
#include "sandbox/cleanup.h"

#define ENTRIES_AT_ONCE 16384 /* bytes; on the stack */
#define POSITION_UNKNOWN UINT64_MAX

/* getdents64(2) */
struct kernel_entry {
    uint64_t ino;
    int64_t next;
    unsigned short length;
    unsigned char type;
    char name[];
};

int files_opendir(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    struct handle *handle;
    int fd;

    if (target_find_directory(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    fd = target_open(s->files, &t, O_RDONLY | O_DIRECTORY);
    handle = fd < 0 ? NULL : handle_new(HANDLE_DIRECTORY, fd);
    s->reply.handle = handle == NULL ? 0 : handles_add(&s->files->handles, handle);
    if (s->reply.handle == 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    return 0;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Appends the entry, unless it would go past `max` bytes of data behind `start`: then 1. */
static int put_entry(struct buffer *out, const struct kernel_entry *e, int dir, bool with_attr,
                     size_t start, size_t max)
{
    size_t before = out->length;
    struct wire_entry entry = {
        .next = (uint64_t)e->next,
        .ino = e->ino != 0 ? e->ino : UINT64_MAX,
        .type = (uint32_t)DTTOIF(e->type),
        .name = {e->name, strlen(e->name)},
    };
    struct stat st;

    if (entry.name.length > WIRE_MAX_NAME) { /* nobody could name it */
        return 0;
    }
    if (with_attr && !is_dots(e->name) &&
        fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0) {
        files_attr_of(&st, &entry.attr);
        entry.has_attr = true;
        entry.ino = entry.attr.ino; /* another one where something is mounted */
        entry.type = entry.attr.mode & S_IFMT;
    }
    if (wire_put_entry(out, &entry) < 0) {
        out->length = before;
        errno = ENOMEM;
        return -1;
    }
    if (out->length - start > max) {
        out->length = before;
        return 1;
    }
    return 0;
}

/* Entries from where the handle stands until there are `max` bytes or no more. Under its lock. */
static int list(struct handle *handle, struct buffer *out, size_t max, bool with_attr)
{
    char raw[ENTRIES_AT_ONCE] __attribute__((aligned(8)));
    size_t start = out->length;

    for (;;) {
        long n = syscall(SYS_getdents64, handle->fd, raw, sizeof raw);

        if (n == 0 || (n < 0 && (out->length > start || errno == ENOENT))) {
            return 0; /* ENOENT: the directory was removed, so it has no entries */
        }
        if (n < 0) {
            return -1;
        }
        for (long at = 0; at < n;) {
            const struct kernel_entry *e = (const void *)(raw + at); /* the kernel aligns them */
            int r = put_entry(out, e, handle->fd, with_attr, start, max);

            if (r != 0) { /* what was fetched and does not fit is fetched again from its cookie */
                bool nothing = out->length == start;

                errno = r > 0 ? EINVAL : errno;
                if (lseek(handle->fd, (off_t)handle->position, SEEK_SET) < 0) {
                    handle->position = POSITION_UNKNOWN;
                }
                return nothing ? -1 : 0;
            }
            handle->position = (uint64_t)e->next;
            at += e->length;
        }
    }
}

static int list_from(struct handle *handle, struct buffer *out, const struct wire_call *call)
{
    size_t max = call->size < WIRE_MAX_DATA ? (size_t)call->size : WIRE_MAX_DATA;

    if (call->offset > INT64_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (call->offset == 0 || call->offset != handle->position) {
        handle->position = POSITION_UNKNOWN;
        if (lseek(handle->fd, (off_t)call->offset, SEEK_SET) < 0) {
            return -1;
        }
        handle->position = call->offset;
    }
    return list(handle, out, max, (call->flags & 1) != 0);
}

int files_readdir(struct serving *s, struct error *err)
{
    cleanup_target struct target t = TARGET_INIT;
    size_t reply;
    int r;

    if (target_find(s->files, &s->call->ref, &t, err) < 0) {
        return -1;
    }
    if (t.handle == NULL || t.handle->kind != HANDLE_DIRECTORY) {
        return target_fail(&s->call->ref, NULL, t.handle == NULL ? EBADF : ENOTDIR, err);
    }
    reply = wire_begin_data_reply(s->out);
    if (reply == SIZE_MAX) {
        return target_fail(&s->call->ref, NULL, ENOMEM, err);
    }
    pthread_mutex_lock(&t.handle->lock);
    r = list_from(t.handle, s->out, s->call);
    pthread_mutex_unlock(&t.handle->lock);
    if (r < 0) {
        return target_fail(&s->call->ref, NULL, errno, err);
    }
    wire_end_data_reply(s->out, reply);
    s->replied = true;
    return 0;
}
