#include "hand/files_parents.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hand/files_walk.h"
#include "sandbox/cleanup.h"

#define DIRECTORY_MODE 0755

/* The length of the path without its last name. */
static size_t parent_length(const char *path, size_t length)
{
    const char *slash = memrchr(path, '/', length);

    return slash == NULL ? 0 : (size_t)(slash - path);
}

/* The names of the path from `start` on. */
static int list_names(struct parents *p, const char *path, size_t start, size_t length)
{
    p->path = path;
    p->count = 0;
    while (start < length) {
        const char *slash = memchr(path + start, '/', length - start);
        size_t end = slash == NULL ? length : (size_t)(slash - path);

        if (p->count == PARENTS_MAX_NEW || end - start > WIRE_MAX_NAME) {
            errno = ENAMETOOLONG;
            return -1;
        }
        p->names[p->count].start = start;
        p->names[p->count].length = end - start;
        p->names[p->count].made = false;
        p->count++;
        start = end + 1;
    }
    return 0;
}

static void name_at(const struct parents *p, unsigned i, char to[FILES_NAME_SIZE])
{
    struct wire_text name = {p->path + p->names[i].start, p->names[i].length};

    files_text(to, &name);
}

/* Neither the umask nor a default ACL of the parent decides the mode. */
static int settle_mode(const struct files *files, int dir)
{
    struct stat st;

    if (fstat(dir, &st) < 0) {
        return -1;
    }
    if ((st.st_mode & 0777) == DIRECTORY_MODE) {
        return 0;
    }
    return files_chmod(files, dir, DIRECTORY_MODE | (st.st_mode & S_ISGID));
}

/* Makes the i-th directory in `dir` and opens it. A link that leads nowhere is in the way. */
static int make_one(struct parents *p, const struct files *files, int dir, unsigned i,
                    bool *ret_refused)
{
    char name[FILES_NAME_SIZE];
    cleanup_fd int fd = -1;

    name_at(p, i, name);
    if (mkdirat(dir, name, DIRECTORY_MODE) == 0) {
        p->names[i].made = true;
    } else if (errno != EEXIST) {
        *ret_refused = true;
        return -1;
    }
    fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (p->names[i].made && settle_mode(files, fd) < 0)) {
        return -1;
    }
    return take_fd(&fd);
}

static int make_all(struct parents *p, const struct files *files, bool *ret_refused)
{
    cleanup_fd int dir = fcntl(p->anchor, F_DUPFD_CLOEXEC, 0);

    for (unsigned i = 0; i < p->count && dir >= 0; i++) {
        int next = make_one(p, files, dir, i, ret_refused);

        close(dir);
        dir = next;
    }
    return take_fd(&dir);
}

int parents_open(struct parents *p, const struct files *files, enum wire_base base, const char *path,
                 size_t length, bool *ret_refused)
{
    size_t there = length;
    int fd = files_walk(files, base, path, length, O_PATH | O_DIRECTORY);

    p->anchor = -1;
    p->count = 0;
    *ret_refused = false;
    if (fd >= 0 || errno != ENOENT) {
        return fd;
    }
    while (p->anchor < 0) {
        if (there == 0 || errno != ENOENT) {
            return -1;
        }
        there = parent_length(path, there);
        p->anchor = files_walk(files, base, path, there, O_PATH | O_DIRECTORY);
    }
    if (list_names(p, path, there == 0 ? 0 : there + 1, length) == 0) {
        fd = make_all(p, files, ret_refused);
    }
    if (fd < 0) {
        int saved = errno;

        parents_remove(p, files);
        errno = saved;
    }
    return fd;
}

static int remove_one(const struct parents *p, const struct files *files, unsigned i)
{
    size_t top = p->names[0].start;
    size_t start = p->names[i].start;
    cleanup_fd int dir = -1;
    char name[FILES_NAME_SIZE];

    name_at(p, i, name);
    dir = files_walk_from(files, p->anchor, p->path + top, i == 0 ? 0 : start - 1 - top,
                          O_PATH | O_DIRECTORY | O_NOFOLLOW);
    return dir < 0 ? -1 : unlinkat(dir, name, AT_REMOVEDIR);
}

void parents_remove(struct parents *p, const struct files *files)
{
    for (unsigned i = p->count; i > 0; i--) {
        if (p->names[i - 1].made && remove_one(p, files, i - 1) < 0) {
            break;
        }
    }
    parents_release(p);
}

void parents_release(struct parents *p)
{
    if (p->anchor >= 0) {
        close(p->anchor);
    }
    p->anchor = -1;
    p->count = 0;
}
