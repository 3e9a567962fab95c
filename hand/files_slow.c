/* Each name is opened with O_NOFOLLOW, so that nothing is followed but what is read here and put before the
 * rest of the path. A ".." in a link's text stops at the root; who could move a directory out of the root
 * could reach what is there without this. */
#include "hand/files_slow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define MAX_LINKS 40           /* the kernel's bound */
#define MAX_REST (256u << 10)  /* bytes of a path with links' texts put in */

struct walk {
    int root;
    int at;     /* where it is; owned */
    char *text; /* owned; `rest` points into it */
    char *rest;
    unsigned links;
    bool follow; /* links on the way */
    int flags;
};

static bool is_root(const struct walk *w)
{
    struct stat a, b;

    return fstat(w->root, &a) == 0 && fstat(w->at, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int step_to(struct walk *w, int fd)
{
    if (fd < 0) {
        return -1;
    }
    close(w->at);
    w->at = fd;
    return 0;
}

/* Links of procfs that are no text but a jump, which leads out of everything. */
static bool is_magic(int link, const char *text)
{
    struct statfs fs;

    return fstatfs(link, &fs) < 0 || (fs.f_type == PROC_SUPER_MAGIC &&
                                      (text[0] == '/' || strchr(text, ':') != NULL));
}

/* Puts the link's text before the rest. */
static int follow(struct walk *w, int link)
{
    char text[PATH_MAX];
    ssize_t n = readlinkat(link, "", text, sizeof text - 1);
    cleanup_free char *joined = NULL;
    size_t size;

    if (n < 0) {
        return -1;
    }
    text[n] = '\0';
    size = (size_t)n + strlen(w->rest) + 2;
    if (!w->follow || ++w->links > MAX_LINKS || is_magic(link, text)) {
        errno = ELOOP;
        return -1;
    }
    if (n == 0 || size > MAX_REST) {
        errno = n == 0 ? ENOENT : ENAMETOOLONG;
        return -1;
    }
    joined = malloc(size);
    if (joined == NULL) {
        return -1;
    }
    snprintf(joined, size, "%s%s%s", text, w->rest[0] != '\0' ? "/" : "", w->rest);
    free(w->text);
    w->text = take_ptr(joined);
    w->rest = w->text;
    return text[0] == '/' ? step_to(w, fcntl(w->root, F_DUPFD_CLOEXEC, 0)) : 0;
}

/* One name; `last` where nothing comes behind it. */
static int step(struct walk *w, const char *name, bool last)
{
    cleanup_fd int next = -1;
    struct stat st;

    if (strcmp(name, ".") == 0 || (strcmp(name, "..") == 0 && is_root(w))) {
        return 0;
    }
    next = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 || fstat(next, &st) < 0) {
        return -1;
    }
    if (S_ISLNK(st.st_mode) && (!last || (w->flags & O_NOFOLLOW) == 0)) {
        return follow(w, next);
    }
    if (!S_ISDIR(st.st_mode) && (!last || (w->flags & O_DIRECTORY) != 0)) {
        errno = ENOTDIR;
        return -1;
    }
    return step_to(w, take_fd(&next));
}

static int walk_all(struct walk *w)
{
    for (;;) {
        char *name = w->rest + strspn(w->rest, "/");
        size_t length = strcspn(name, "/");
        bool last = name[length] == '\0';

        if (length == 0) {
            return 0;
        }
        w->rest = last ? name + length : name + length + 1;
        name[length] = '\0';
        if (step(w, name, last) < 0) {
            return -1;
        }
    }
}

int files_walk_slowly(int root, const char *path, size_t length, int flags, bool links)
{
    struct walk w = {.root = root, .follow = links, .flags = flags};
    int r;

    w.text = strndup(path, length);
    w.rest = w.text;
    w.at = w.text == NULL ? -1 : fcntl(root, F_DUPFD_CLOEXEC, 0);
    r = w.at < 0 ? -1 : walk_all(&w);
    free(w.text);
    if (r < 0 && w.at >= 0) {
        close(w.at);
    }
    return r < 0 ? -1 : w.at;
}
