#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mount/end_daemon.h"
#include "mount/mountinfo.h"
#include "mount/target.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"

/* A mount whose daemon lives. A lazy unmount would not tell it before the last program has left, so then it
 * is asked to end, and detaches what is in use. */
static int unmount_live(const struct mount_entry *entry, bool lazy, struct error *err)
{
    if (lazy || mounted_at(entry->mountpoint) != MOUNTED_HANDSFS) {
        return end_daemon(entry, 0, err);
    }
    if (unmount_at(entry->mountpoint, false, err) < 0) {
        return err->code == ERROR_NOT_REPLACEABLE
                   ? error_set(err, ERROR_NOT_REPLACEABLE, EBUSY,
                               "%s is in use by some program; leave it first, or see --lazy",
                               entry->mountpoint)
                   : -1;
    }
    return end_daemon(entry, UNMOUNTED_GRACE_MS, err);
}

/* Unmounts an entry's mount, live or stale. */
static int unmount_entry(const struct mount_entry *entry, bool lazy, struct error *err)
{
    if (entry->alive) {
        return unmount_live(entry, lazy, err);
    }
    if (unmount_stale(entry->mountpoint, true, err) < 0) {
        return -1;
    }
    remove_stale_socket(entry->socket);
    return 0;
}

static int unmount_directory(const char *path, bool lazy, struct error *err)
{
    cleanup_mount_entry struct mount_entry entry = {0};
    cleanup_free char *socket = NULL;
    bool found = false;

    if (mounts_find(path, &entry, &found, err) < 0) {
        return -1;
    }
    if (found && (entry.alive || mounted_at(path) == MOUNTED_HANDSFS)) {
        return unmount_entry(&entry, lazy, err);
    }
    if (mounted_at(path) != MOUNTED_HANDSFS) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "nothing of handsfs is mounted on %s", path);
    }
    if (unmount_at(path, lazy, err) < 0) { /* another user's, or of another state directory */
        return -1;
    }
    if (asprintf(&socket, "%s.sock", path) >= 0) {
        remove_stale_socket(socket);
    } else {
        socket = NULL;
    }
    return 0;
}

static int unmount_session(const struct options *options, const char *session, struct error *err)
{
    cleanup_mount_list struct mount_list list = {0};
    size_t done = 0;

    if (session_name_check(session, err) < 0 || mounts_list(&list, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct mount_entry *entry = &list.entries[i];

        if (strcmp(entry->session, session) == 0 &&
            (options->backend == NULL || strcmp(entry->backend, options->backend) == 0)) {
            if (unmount_entry(entry, options->lazy, err) < 0) {
                return -1;
            }
            done++;
        }
    }
    return done > 0 ? 0 : error_set(err, ERROR_BAD_REQUEST, 0, "%s is not mounted", session);
}

static int umount_run(struct invocation *invocation, struct error *err)
{
    const char *word = invocation->arguments.words[0];
    cleanup_free char *path = NULL;
    cleanup_mount_list struct mount_list rest = {0};
    struct error ignored = {0};
    int r;

    if (target_directory(word, &path, err) < 0) {
        return -1;
    }
    r = path != NULL ? unmount_directory(path, invocation->options.lazy, err)
                     : unmount_session(&invocation->options, word, err);
    if (mounts_list(&rest, &ignored) < 0) { /* drops entries that are now stale */
        return r;
    }
    return r;
}

const struct verb verb_umount = {
    .name = "umount",
    .summary = "unmount a directory, or a session wherever it is mounted",
    .synopsis = "DIR|SESSION [options]",
    .text = "Unmounts and waits until all that was written is in the sandbox and the mount's "
            "daemon has ended.\n"
            "The sandbox and its files stay. While a program uses the directory (a shell in it, an "
            "open file)\n"
            "it is not unmounted, unless with --lazy: then the directory is empty at once and what "
            "programs\n"
            "still have open fails.\n"
            "\n"
            "It works as well where the daemon was killed or the sandbox is gone.\n",
    .examples = "  handsfs umount ~/s1\n"
                "  handsfs umount s1\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_UMOUNT,
    .min_words = 1,
    .max_words = 1,
    .failure = EXIT_FAILED,
    .run = umount_run,
};
