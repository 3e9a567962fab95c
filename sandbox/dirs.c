#include "sandbox/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/cleanup.h"

/* The state directory's path; to be freed. NULL out of memory or (errno 0) where none is known. */
static char *state_path(void)
{
    const char *given = getenv("HANDSFS_STATE_DIR");
    const char *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char *path = NULL;

    errno = 0;
    if (given != NULL && given[0] == '/') {
        return strdup(given);
    }
    if (geteuid() == 0) {
        return strdup("/var/lib/handsfs");
    }
    if (xdg != NULL && xdg[0] == '/') {
        return asprintf(&path, "%s/handsfs", xdg) < 0 ? NULL : path;
    }
    if (home != NULL && home[0] == '/') {
        return asprintf(&path, "%s/.local/state/handsfs", home) < 0 ? NULL : path;
    }
    return NULL;
}

/* mkdir -p, mode 0700 for what is made. */
static int make_all(char *path)
{
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p != '/') {
            continue;
        }
        *p = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST) {
            return -1;
        }
        *p = '/';
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

/* A directory of ours that nobody else may change. */
static int check_private(int fd, const char *path, struct error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return error_set_errno(err, errno, "%s", path);
    }
    if (st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "%s belongs to another user or others may write to it; refusing to use it", path);
    }
    return 0;
}

int state_dir_open(const char *name, int *ret_fd, char **ret_path, struct error *err)
{
    cleanup_free char *top = state_path();
    cleanup_free char *path = NULL;
    cleanup_fd int top_fd = -1;
    cleanup_fd int fd = -1;

    if (top == NULL) {
        return errno != 0 ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
                          : error_set(err, ERROR_BAD_REQUEST, 0,
                                      "no state directory: set HOME or HANDSFS_STATE_DIR");
    }
    if (asprintf(&path, "%s/%s", top, name) < 0) {
        path = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (make_all(path) < 0) {
        return error_set_errno(err, errno, "cannot make %s", path);
    }
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top_fd < 0) {
        return error_set_errno(err, errno, "%s", top);
    }
    fd = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return error_set_errno(err, errno, "%s", path);
    }
    if (check_private(top_fd, top, err) < 0 || check_private(fd, path, err) < 0) {
        return -1;
    }
    *ret_fd = take_fd(&fd);
    if (ret_path != NULL) {
        *ret_path = take_ptr(path);
    }
    return 0;
}
