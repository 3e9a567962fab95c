#include "hand/search_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

/* ---- Names ---- */

static enum entry_kind kind_of_mode(mode_t mode)
{
    return S_ISREG(mode) ? ENTRY_FILE : S_ISDIR(mode) ? ENTRY_DIRECTORY : S_ISLNK(mode) ? ENTRY_LINK : ENTRY_OTHER;
}

static enum entry_kind kind_of(int fd, const struct dirent *d)
{
    struct stat st;

    switch (d->d_type) {
    case DT_REG:
        return ENTRY_FILE;
    case DT_DIR:
        return ENTRY_DIRECTORY;
    case DT_LNK:
        return ENTRY_LINK;
    case DT_UNKNOWN:
        return fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? kind_of_mode(st.st_mode) : ENTRY_OTHER;
    default:
        return ENTRY_OTHER;
    }
}

static int add_entry(struct dir_list *list, int fd, const struct dirent *d)
{
    size_t length = strlen(d->d_name);

    if (list->count == list->capacity) {
        size_t larger = list->capacity == 0 ? 64 : list->capacity * 2;
        void *moved = reallocarray(list->entries, larger, sizeof *list->entries);

        if (moved == NULL) {
            return -1;
        }
        list->entries = moved;
        list->capacity = larger;
    }
    list->entries[list->count] =
        (struct dir_entry){list->names.length, (unsigned)length, kind_of(fd, d)};
    if (buffer_append(&list->names, d->d_name, length + 1) < 0) {
        return -1;
    }
    list->count++;
    return 0;
}

static int by_name(const void *a, const void *b, void *names)
{
    const struct dir_entry *x = a;
    const struct dir_entry *y = b;

    return strcmp((const char *)names + x->name, (const char *)names + y->name);
}

int dir_list_read(struct dir_list *ret, int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_dir DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    int failed = 0;

    *ret = (struct dir_list){.names = BUFFER_INIT(SEARCH_MAX_NAMES)};
    if (dir == NULL) {
        failed = errno;
        if (copy >= 0) {
            close(copy);
        }
        errno = failed;
        return -1;
    }
    for (;;) {
        const struct dirent *d;

        errno = 0;
        d = readdir(dir);
        if (d == NULL) {
            failed = errno;
            break;
        }
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) {
            continue;
        }
        if (add_entry(ret, fd, d) < 0) {
            failed = errno;
            break;
        }
    }
    if (ret->count > 1) {
        qsort_r(ret->entries, ret->count, sizeof *ret->entries, by_name, ret->names.data);
    }
    errno = failed;
    return failed == 0 ? 0 : -1;
}

void dir_list_release(struct dir_list *list)
{
    buffer_release(&list->names);
    free(list->entries);
    list->entries = NULL;
    list->count = 0;
}

/* ---- The way ---- */

void search_init(struct search *search, struct tool_run *run)
{
    *search = (struct search){.run = run, .path = BUFFER_INIT(SEARCH_MAX_PATH)};
}

void search_release(struct search *search)
{
    buffer_release(&search->path);
}

size_t search_enter(struct search *search, const char *name, size_t length)
{
    size_t before = search->path.length;
    bool has_slash = before > 0 && search->path.data[before - 1] == '/';

    if ((!has_slash && buffer_append(&search->path, "/", 1) < 0) ||
        buffer_append(&search->path, name, length) < 0) {
        search->path.length = before;
        search->too_deep++;
        return 0;
    }
    return before;
}

void search_leave(struct search *search, size_t length)
{
    search->path.length = length;
}

const char *search_path(struct search *search)
{
    const char *text = buffer_text(&search->path);

    return text != NULL ? text : "";
}

/* Files there are asked for by reading, and some never answer. */
static bool is_of_kernel(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

int search_open(struct search *search, int folder, const char *name, bool follow)
{
    cleanup_fd int fd = -1;
    struct stat st;

    if (search->depth >= SEARCH_MAX_DEPTH) {
        search->too_deep++;
        return -1;
    }
    fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0 || fstat(fd, &st) < 0) {
        search_unreadable(search, errno);
        return -1;
    }
    if (st.st_dev != search->dev && is_of_kernel(fd)) {
        return -1;
    }
    return take_fd(&fd);
}

int search_open_root(struct search *search, const char *path, struct error *err)
{
    cleanup_fd int fd = -1;
    struct stat st;

    if (buffer_append_string(&search->path, path) < 0) {
        return error_set_errno(err, ENAMETOOLONG, "the path");
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return error_set_errno(err, errno, "%s", path);
    }
    search->dev = st.st_dev;
    return take_fd(&fd);
}

/* ---- What was not seen ---- */

void search_unreadable(struct search *search, int os_errno)
{
    if (os_errno == ENOENT || os_errno == ELOOP || os_errno == ENOTDIR) {
        return; /* it went away or became another thing while it was looked at */
    }
    if (search->unreadable++ < TOOL_MAX_UNREADABLE) {
        tool_say(search->run, "unreadable_path", search_path(search), search->path.length);
    }
}

void search_say(struct search *search)
{
    tool_say_number(search->run, "unreadable", search->unreadable);
    tool_say_number(search->run, "too_deep", search->too_deep);
}
