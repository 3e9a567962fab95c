/* How the socket comes to stand at its path.
 *
 * bind(2) makes the file, listen(2) makes it answer, and in between it looks like one that was left
 * behind. So both are done under a name that nobody knows, and then the file is put at its place: linked
 * there where the place is free, exchanged with what is there where that is a socket that nobody listens
 * on. What came out of an exchange is looked at again; if it is not what was judged, it goes back. So
 * two gateways that start at once at one path never take it from one another. */
#include "exec/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "sandbox/cleanup.h"

#define BACKLOG 128
#define ATTEMPTS 8
#define HIDDEN_NAME_BYTES 32

/* The address of a file in an opened folder: short, however long the folder's path is. */
static int address_in(struct sockaddr_un *address, int folder, const char *name)
{
    int n;

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s", folder, name);
    return n > 0 && (size_t)n < sizeof address->sun_path ? 0 : -1;
}

/* Splits `path` into its folder, opened, and the name in it. */
static int open_folder(struct socket_file *file, const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    cleanup_free char *folder = NULL;

    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "socket \"%s\" is not a file's path", path);
    }
    folder = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    file->name = strdup(name);
    if (folder == NULL || file->name == NULL) {
        return error_set_errno(err, ENOMEM, "socket %s", path);
    }
    file->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (file->folder < 0) {
        return error_set_errno(err, errno, "socket %s", path);
    }
    return 0;
}

/* Listens under a hidden name. */
static int listen_hidden(struct socket_file *file, char hidden[HIDDEN_NAME_BYTES], const char *path,
                         struct error *err)
{
    struct sockaddr_un address;
    struct stat st;
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        return error_set_errno(err, errno, "getrandom");
    }
    snprintf(hidden, HIDDEN_NAME_BYTES, ".handsfs-%016jx", (uintmax_t)random);
    if (address_in(&address, file->folder, hidden) < 0) {
        return error_set_errno(err, ENAMETOOLONG, "socket %s", path);
    }
    file->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The file gets the mode that the unbound socket has. */
    if (file->fd < 0 || fchmod(file->fd, 0600) < 0 ||
        bind(file->fd, (struct sockaddr *)&address, sizeof address) < 0) {
        return error_set_errno(err, errno, "socket %s", path);
    }
    if (listen(file->fd, BACKLOG) < 0 ||
        fstatat(file->folder, hidden, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        error_set_errno(err, errno, "socket %s", path);
        unlinkat(file->folder, hidden, 0);
        return -1;
    }
    file->dev = st.st_dev;
    file->ino = st.st_ino;
    return 0;
}

/* Whether somebody listens on the socket that `fd` (O_PATH) stands for. */
static bool is_live(int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", fd);
    return probe < 0 || connect(probe, (struct sockaddr *)&address, sizeof address) == 0 ||
           errno != ECONNREFUSED;
}

/* Refuses what may not be replaced; 1 where there is nothing (any more). */
static int judge(const struct socket_file *file, struct stat *st, const char *path, struct error *err)
{
    cleanup_fd int fd = openat(file->folder, file->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return errno == ENOENT ? 1 : error_set_errno(err, errno, "socket %s", path);
    }
    if (fstat(fd, st) < 0) {
        return error_set_errno(err, errno, "socket %s", path);
    }
    if (!S_ISSOCK(st->st_mode)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "socket %s: something else is there", path);
    }
    if (st->st_uid != geteuid() && geteuid() != 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "socket %s: another user's is there", path);
    }
    if (is_live(fd)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "socket %s: another process listens there", path);
    }
    return 0;
}

/* Puts the hidden file where the stale one is. 1: something else stands there by now. */
static int exchange(const struct socket_file *file, const char *hidden, const struct stat *stale,
                    const char *path, struct error *err)
{
    struct stat st;

    if (renameat2(file->folder, hidden, file->folder, file->name, RENAME_EXCHANGE) < 0) {
        if (errno == EINVAL && renameat(file->folder, hidden, file->folder, file->name) == 0) {
            return 0; /* a file system that cannot exchange */
        }
        return errno == ENOENT ? 1 : error_set_errno(err, errno, "socket %s", path);
    }
    if (fstatat(file->folder, hidden, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (st.st_dev != stale->st_dev || st.st_ino != stale->st_ino)) {
        if (renameat2(file->folder, hidden, file->folder, file->name, RENAME_EXCHANGE) == 0) {
            return 1;
        }
    }
    return 0;
}

static int publish(const struct socket_file *file, const char *hidden, const char *path,
                   struct error *err)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        struct stat stale;
        int r;

        /* The second is for a file system without hard links. */
        if (linkat(file->folder, hidden, file->folder, file->name, 0) == 0 ||
            (errno != EEXIST && renameat2(file->folder, hidden, file->folder, file->name,
                                          RENAME_NOREPLACE) == 0)) {
            return 0;
        }
        if (errno != EEXIST) {
            return error_set_errno(err, errno, "socket %s", path);
        }
        r = judge(file, &stale, path, err);
        if (r == 0) {
            r = exchange(file, hidden, &stale, path, err);
        }
        if (r <= 0) {
            return r;
        }
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "socket %s: others want the same path", path);
}

int socket_file_create(struct socket_file *ret, const char *path, struct error *err)
{
    struct socket_file file = {.fd = -1, .folder = -1};
    char hidden[HIDDEN_NAME_BYTES];
    int r;

    if (open_folder(&file, path, err) < 0 || listen_hidden(&file, hidden, path, err) < 0) {
        socket_file_remove(&file);
        return -1;
    }
    r = publish(&file, hidden, path, err);
    unlinkat(file.folder, hidden, 0);
    if (r < 0) {
        socket_file_remove(&file);
        return -1;
    }
    *ret = file;
    return 0;
}

void socket_file_remove(struct socket_file *file)
{
    struct stat st;

    if (file->fd >= 0) {
        if (file->ino != 0 && fstatat(file->folder, file->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_dev == file->dev && st.st_ino == file->ino) {
            unlinkat(file->folder, file->name, 0);
        }
        close(file->fd);
    }
    if (file->folder >= 0) {
        close(file->folder);
    }
    free(file->name);
    *file = (struct socket_file){.fd = -1, .folder = -1};
}
