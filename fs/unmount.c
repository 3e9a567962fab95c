#include "fs/unmount.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/log.h"

struct unmounter {
    pthread_t thread;
    uv_async_t wake;
    char *mountpoint;
    dev_t dev;
    int os_errno; /* written by the thread before it wakes the loop */
    void (*done)(void *arg);
    void *arg;
};

dev_t unmount_device(const char *path)
{
    struct statx st;

    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st) < 0) {
        return 0;
    }
    return makedev(st.stx_dev_major, st.stx_dev_minor);
}

/* For those who may not unmount themselves. 0 or an errno. */
static int run_fusermount(const char *mountpoint, bool lazily)
{
    const char *const argv[] = {"fusermount3", "-u", lazily ? "-qz" : "-q", "--", mountpoint, NULL};
    pid_t pid;
    int status;
    int r = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);

    if (r != 0) {
        return r;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EBUSY;
}

static int unmount_once(const char *mountpoint, bool lazily)
{
    int flags = UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH : 0);
    int r = umount2(mountpoint, flags) == 0 ? 0 : errno;

    return r == EPERM ? run_fusermount(mountpoint, lazily) : r;
}

static void *run(void *arg)
{
    struct unmounter *u = arg;
    dev_t dev = unmount_device(u->mountpoint);

    if (u->dev == 0 || dev == 0 || u->dev == dev) {
        u->os_errno = unmount_once(u->mountpoint, false);
        if (u->os_errno == EBUSY) {
            u->os_errno = unmount_once(u->mountpoint, true);
        }
    }
    uv_async_send(&u->wake);
    return NULL;
}

static void freed(uv_handle_t *handle)
{
    struct unmounter *u = handle->data;
    void (*done)(void *arg) = u->done;
    void *arg = u->arg;

    free(u->mountpoint);
    free(u);
    if (done != NULL) {
        done(arg);
    }
}

static void woken(uv_async_t *wake)
{
    struct unmounter *u = wake->data;

    pthread_join(u->thread, NULL); /* at its end */
    if (u->os_errno != 0 && u->os_errno != EINVAL && u->os_errno != ENOENT) {
        log_warning("%s: cannot be unmounted: %s", u->mountpoint, strerror(u->os_errno));
    }
    uv_close((uv_handle_t *)wake, freed);
}

int unmount_start(struct unmounter **ret, uv_loop_t *loop, const char *mountpoint, dev_t dev,
                  void (*done)(void *arg), void *arg, struct error *err)
{
    struct unmounter *u = calloc(1, sizeof *u);
    int r;

    if (u == NULL || (u->mountpoint = strdup(mountpoint)) == NULL) {
        free(u);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    u->dev = dev;
    u->done = done;
    u->arg = arg;
    r = -uv_async_init(loop, &u->wake, woken);
    if (r != 0) {
        free(u->mountpoint);
        free(u);
        return error_set_errno(err, r, "unmounting");
    }
    u->wake.data = u;
    r = pthread_create(&u->thread, NULL, run, u);
    if (r != 0) {
        u->done = NULL;
        uv_close((uv_handle_t *)&u->wake, freed);
        return error_set_errno(err, r, "unmounting");
    }
    *ret = u;
    return 0;
}
