#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "backends/registry.h"
#include "exec/utf8.h"
#include "mount/daemon.h"
#include "mount/end_daemon.h"
#include "mount/mountinfo.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define OTHERS_WAIT_MS                                                                             \
    (60 * 1000) /* for another process that mounts or unmounts the same directory */
#define OTHERS_LOOK_MS 50

/* What the verb found out before it does anything. */
struct place {
    char *mountpoint;
    char *socket;
    int claim;
    bool mounted_already; /* by a live daemon, this very session */
};

static void place_release(struct place *place)
{
    if (place->claim >= 0) {
        mounts_withdraw(place->mountpoint, place->claim);
    }
    free(place->mountpoint);
    free(place->socket);
}

/* The two paths. */
static int find_place(const struct options *options, const char *dir, struct place *place,
                      struct error *err)
{
    const struct sockaddr_un address = {0};

    if (mountpoint_path(dir, &place->mountpoint, err) < 0) {
        return -1;
    }
    if (options->socket != NULL) {
        if (absolute_path(options->socket, &place->socket, err) < 0) {
            return -1;
        }
    } else if (asprintf(&place->socket, "%s.sock", place->mountpoint) < 0) {
        place->socket = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (!utf8_valid((const uint8_t *)place->mountpoint, strlen(place->mountpoint)) ||
        !utf8_valid((const uint8_t *)place->socket, strlen(place->socket))) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s: the path is not UTF-8", dir);
    }
    if (strlen(place->socket) >= sizeof address.sun_path) {
        return error_set(
            err, ERROR_BAD_REQUEST, 0,
            "%s: too long a path for a socket (%zu bytes at most); choose another with --socket",
            place->socket, sizeof address.sun_path - 1);
    }
    return 0;
}

/* Somebody else has the claim. 1 to try again, 0 where it is this very session's live mount. */
static int look_at_owner(struct place *place, const char *session, const char *backend,
                         struct error *err)
{
    const struct timespec pause = {.tv_nsec = OTHERS_LOOK_MS * 1000 * 1000};
    cleanup_mount_entry struct mount_entry entry = {0};
    bool found = false;

    if (mounts_find(place->mountpoint, &entry, &found, err) < 0) {
        return -1;
    }
    if (found && entry.alive && mounted_at(place->mountpoint) == MOUNTED_HANDSFS) {
        if (strcmp(entry.session, session) == 0 && strcmp(entry.backend, backend) == 0) {
            place->mounted_already = true;
            return 0;
        }
        return error_set(err, ERROR_NOT_REPLACEABLE, 0,
                         "%s is the live mount of session %s (%s); unmount it first",
                         place->mountpoint, entry.session, entry.backend);
    }
    if (found && entry.alive) { /* somebody unmounted it, and the daemon is on its way out */
        return end_daemon(&entry, UNMOUNTED_GRACE_MS, err) < 0 ? -1 : 1;
    }
    nanosleep(&pause, NULL); /* it is about to be mounted */
    return 1;
}

static int claim_place(struct place *place, const char *session, const char *backend,
                       struct error *err)
{
    uint64_t deadline = clock_now_ms() + OTHERS_WAIT_MS;

    while (clock_now_ms() < deadline) {
        int r;

        if (mounts_claim(place->mountpoint, &place->claim, err) < 0) {
            return -1;
        }
        if (place->claim >= 0) {
            return 0;
        }
        r = look_at_owner(place, session, backend, err);
        if (r <= 0) {
            return r;
        }
    }
    return error_set(err, ERROR_NO_ANSWER, 0,
                     "another process has been mounting on %s for over %d s", place->mountpoint,
                     OTHERS_WAIT_MS / 1000);
}

/* Takes away what a daemon that was killed left behind. */
static int clean_place(const struct place *place, struct error *err)
{
    cleanup_mount_entry struct mount_entry entry = {0};
    bool found = false;

    if (mounts_find(place->mountpoint, &entry, &found, err) < 0 ||
        unmount_stale(place->mountpoint, found && !entry.alive, err) < 0) {
        return -1;
    }
    if (found) {
        remove_stale_socket(entry.socket);
    }
    if (mounted_at(place->mountpoint) != MOUNTED_NOTHING) {
        return error_set(err, ERROR_NOT_REPLACEABLE, 0, "something is mounted on %s already",
                         place->mountpoint);
    }
    return 0;
}

/* An empty directory: what is in it would be hidden by the mount. */
static int check_directory(const char *path, struct error *err)
{
    cleanup_dir DIR *dir = opendir(path);
    const struct dirent *entry;

    if (dir == NULL) {
        return error_set(err, error_code_of_errno(errno), errno, "%s: %s", path, strerror(errno));
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            return error_set(
                err, ERROR_ERRNO, ENOTEMPTY,
                "%s is not empty, and a mount would hide what is in it; give an empty directory",
                path);
        }
    }
    return 0;
}

/* Everything is checked and ours: makes the sandbox, and serves it. */
static int mount_place(struct invocation *invocation, const char *session, struct place *place,
                       const struct backend *backend, struct error *err)
{
    cleanup_sandbox struct sandbox sandbox = {0};
    const struct mount_plan plan = {
        .options = &invocation->options,
        .backend = backend,
        .sandbox = &sandbox,
        .session = session,
        .mountpoint = place->mountpoint,
        .socket = place->socket,
        .claim = place->claim,
    };
    int r;

    if (verb_provision_session(&invocation->options, session, &sandbox, err) < 0) {
        return -1;
    }
    if (invocation->options.foreground) {
        r = daemon_foreground(&plan, err);
        place->claim = -1; /* given back at the end */
        return r;
    }
    if (daemon_start(&plan, err) < 0) {
        return -1;
    }
    close(place->claim); /* the daemon has it */
    place->claim = -1;
    return EXIT_DONE;
}

static int mount_run(struct invocation *invocation, struct error *err)
{
    const char *session = invocation->arguments.words[0];
    const char *dir = invocation->arguments.words[1];
    struct options *options = &invocation->options;
    __attribute__((cleanup(place_release))) struct place place = {.claim = -1};
    cleanup_sandbox struct sandbox sandbox = {0};
    const struct backend *backend = NULL;

    /* What the caller happens to have open must not stay open for the life of a daemon. */
    close_range(STDERR_FILENO + 1, ~0u, 0);
    if (options_spec(options, session, err) < 0 ||
        backend_find(options->backend, &backend, err) < 0 ||
        find_place(options, dir, &place, err) < 0 ||
        claim_place(&place, session, backend->name, err) < 0) {
        return -1;
    }
    if (place.mounted_already) {
        if (verb_provision_session(options, session, &sandbox, err) < 0) {
            return -1;
        }
        printf("%s is mounted on %s already\n", session, place.mountpoint);
        return EXIT_DONE;
    }
    if (clean_place(&place, err) < 0 || check_directory(place.mountpoint, err) < 0) {
        return -1;
    }
    return mount_place(invocation, session, &place, backend, err);
}

const struct verb verb_mount = {
    .name = "mount",
    .summary = "mount a session's workspace on a directory",
    .synopsis = "SESSION DIR [options]\n       handsfs mount --attach CONTAINER [SESSION] DIR [options]",
    .text =
        "Makes the sandbox of SESSION where there is none, mounts its workspace on DIR, an empty "
        "directory\n"
        "that exists, and returns when it can be used. A small process stays behind that serves "
        "the mount\n"
        "and the control socket beside it, DIR.sock, through which programs run commands inside.\n"
        "\n"
        "Mounting a session where it is mounted already changes nothing and is no error. What a "
        "killed\n"
        "daemon left behind on DIR is cleaned up first. SIGTERM to the daemon unmounts.\n"
        "\n"
        "With --attach the workspace is that of a running container which somebody else made (a dev "
        "container,\n"
        "a compose service); SESSION is the container's name where none is given. Nothing of it is "
        "changed but\n"
        "that a small program is put in, /.handsfs/hand.\n"
        "\n"
        "mount(8) and fstab(5) know it as well: mount -t fuse.handsfs SESSION DIR -o "
        "network=full\n",
    .examples = "  mkdir ~/s1; handsfs mount s1 ~/s1\n"
                "  handsfs mount s1 ~/s1 --network full --memory 2G\n"
                "  handsfs mount s1 ~/s1 -o ro,op_timeout=5s\n"
                "  handsfs mount s1 ~/s1 --backend docker --image debian:12\n"
                "  handsfs mount --attach web ~/web --workdir /srv/app\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_SPEC | OPTIONS_MOUNT,
    .min_words = 2,
    .max_words = 2,
    .failure = EXIT_FAILED,
    .run = mount_run,
};
