/* sweep: of the outputs that are kept in a folder (exec/tool_spill.c) the newest stay, so many and so many bytes of
 * them, and those that are older are removed. The folder is anybody's inside: what has not a name of ours, or is
 * no regular file, is not touched, nothing is followed, and a folder that is a link is none. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "hand/tool.h"
#include "sandbox/cleanup.h"

#define SWEEP_MAX_KEPT 256
#define SWEEP_MAX_NAMES 100000 /* that are looked at in one folder */
#define SWEEP_TOOL_LETTERS 16
#define SWEEP_DIGITS 16
#define SWEEP_NAME_BYTES (SWEEP_TOOL_LETTERS + 1 + SWEEP_DIGITS + sizeof ".txt")

struct kept {
    char name[SWEEP_NAME_BYTES];
    struct timespec time;
    uint64_t size;
};

struct sweep {
    int folder;
    struct kept kept[SWEEP_MAX_KEPT]; /* the newest first */
    size_t count, max;
    uint64_t removed;
};

/* "grep-0123456789abcdef.txt" */
static bool is_ours(const char *name)
{
    size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyz");

    return letters > 0 && letters <= SWEEP_TOOL_LETTERS && name[letters] == '-' &&
           strspn(name + letters + 1, "0123456789abcdef") == SWEEP_DIGITS &&
           strcmp(name + letters + 1 + SWEEP_DIGITS, ".txt") == 0;
}

static bool is_newer(const struct kept *a, const struct kept *b)
{
    if (a->time.tv_sec != b->time.tv_sec) {
        return a->time.tv_sec > b->time.tv_sec;
    }
    return a->time.tv_nsec > b->time.tv_nsec;
}

static void drop(struct sweep *s, const char *name)
{
    s->removed += unlinkat(s->folder, name, 0) == 0;
}

static void look_at(struct sweep *s, const char *name)
{
    struct kept one = {.size = 0};
    struct stat st;
    size_t at = s->count;

    if (!is_ours(name) || fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) {
        return;
    }
    memcpy(one.name, name, strlen(name) + 1);
    one.time = st.st_mtim;
    one.size = (uint64_t)st.st_size;
    while (at > 0 && is_newer(&one, &s->kept[at - 1])) {
        at--;
    }
    if (at == s->max) {
        drop(s, name);
        return;
    }
    if (s->count == s->max) {
        drop(s, s->kept[--s->count].name);
    }
    memmove(&s->kept[at + 1], &s->kept[at], (s->count - at) * sizeof one);
    s->kept[at] = one;
    s->count++;
}

static void drop_over(struct sweep *s, uint64_t bytes)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->kept[i].size > bytes) {
            bytes = 0; /* nor is an older one kept that would fit */
            drop(s, s->kept[i].name);
        } else {
            bytes -= s->kept[i].size;
        }
    }
}

int tool_sweep(struct tool_run *run, struct error *err)
{
    const char *path = tool_argument(run, "path", NULL);
    uint64_t files = tool_argument_number(run, "files");
    struct sweep s = {.max = files < SWEEP_MAX_KEPT ? (size_t)files : SWEEP_MAX_KEPT};
    cleanup_dir DIR *dir = NULL;
    const struct dirent *entry;

    if (path == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "path is missing");
    }
    s.folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s.folder < 0 && errno == ENOENT) {
        return 0;
    }
    dir = s.folder >= 0 ? fdopendir(s.folder) : NULL;
    if (dir == NULL) {
        return error_set_errno(err, errno, "%s", path);
    }
    for (unsigned i = 0; i < SWEEP_MAX_NAMES && (entry = readdir(dir)) != NULL; i++) {
        look_at(&s, entry->d_name);
    }
    drop_over(&s, tool_argument_number(run, "bytes"));
    tool_say_number(run, "removed", s.removed);
    return 0;
}
