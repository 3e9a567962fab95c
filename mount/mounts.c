/* Entries are found by a hash of their mountpoint. The lock is a file of its own, since an entry is
 * replaced as a whole; both are removed only by who holds the lock, and who takes a lock makes sure that it
 * is still the one in the directory. */
#include "mount/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <jansson.h>

#include "mount/mountinfo.h"
#include "sandbox/buffer.h"
#include "sandbox/cleanup.h"
#include "sandbox/dirs.h"
#include "sandbox/log.h"

#define NAME_LENGTH 16 /* hexadecimal digits */
#define NAME_BYTES (NAME_LENGTH + sizeof ".json")

void mount_entry_release(struct mount_entry *entry)
{
    free(entry->session);
    free(entry->backend);
    free(entry->mountpoint);
    free(entry->socket);
    *entry = (struct mount_entry){0};
}

void mount_list_release(struct mount_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        mount_entry_release(&list->entries[i]);
    }
    free(list->entries);
    *list = (struct mount_list){0};
}

/* FNV-1a, 64 bits. */
static void entry_name(const char *mountpoint, const char *suffix, char name[NAME_BYTES])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (const char *p = mountpoint; *p != '\0'; p++) {
        hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    }
    snprintf(name, NAME_BYTES, "%0*" PRIx64 "%s", NAME_LENGTH, hash, suffix);
}

/* ---- Processes ------------------------------------------------------------------------------ */

uint64_t process_started(pid_t pid)
{
    char path[64];
    char text[1024];
    cleanup_fd int fd = -1;
    ssize_t n;
    const char *p;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    p = strrchr(text,
                ')'); /* the program's name may hold anything; fields are counted from its end */
    for (int field = 2; p != NULL && field < 22; field++) {
        p = strchr(p + 1, ' ');
        if (field == 2 && p != NULL && (p[1] == 'Z' || p[1] == 'X')) {
            return 0; /* dead, and not yet waited for */
        }
    }
    return p == NULL ? 0 : strtoull(p + 1, NULL, 10);
}

static bool is_alive(const struct mount_entry *entry)
{
    return entry->pid > 0 && entry->started != 0 && process_started(entry->pid) == entry->started;
}

/* ---- Reading -------------------------------------------------------------------------------- */

static int read_text(int fd, struct buffer *out)
{
    for (;;) {
        uint8_t *at = buffer_reserve(out, 4096);
        ssize_t n = at == NULL ? -1 : read(fd, at, 4096);

        if (n <= 0) {
            return n == 0 ? 0 : -1;
        }
        buffer_commit(out, (size_t)n);
    }
}

static int take_string(const json_t *object, const char *key, char **ret)
{
    const char *value = json_string_value(json_object_get(object, key));

    *ret = value == NULL ? NULL : strdup(value);
    return *ret == NULL ? -1 : 0;
}

/* Reads the file `name`. 0, or -1 where it is not there or makes no sense. */
static int read_entry(int dir, const char *name, struct mount_entry *ret)
{
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_buffer struct buffer text = BUFFER_INIT(MOUNTS_MAX_ENTRY);
    cleanup_mount_entry struct mount_entry entry = {0};
    json_t *object;
    int r;

    if (fd < 0 || read_text(fd, &text) < 0) {
        return -1;
    }
    object = json_loadb((const char *)text.data, text.length, 0, NULL);
    if (object == NULL) {
        return -1;
    }
    r = take_string(object, "session", &entry.session) < 0 ||
        take_string(object, "backend", &entry.backend) < 0 ||
        take_string(object, "mountpoint", &entry.mountpoint) < 0 ||
        take_string(object, "socket", &entry.socket) < 0;
    entry.pid = (pid_t)json_integer_value(json_object_get(object, "pid"));
    entry.started = (uint64_t)json_integer_value(json_object_get(object, "started"));
    json_decref(object);
    if (r != 0) {
        return -1;
    }
    entry.alive = is_alive(&entry);
    *ret = entry;
    entry = (struct mount_entry){0};
    return 0;
}

int mounts_find(const char *mountpoint, struct mount_entry *ret, bool *ret_found, struct error *err)
{
    cleanup_fd int dir = -1;
    char name[NAME_BYTES];

    if (state_dir_open("mounts", &dir, NULL, err) < 0) {
        return -1;
    }
    entry_name(mountpoint, ".json", name);
    *ret_found = read_entry(dir, name, ret) == 0;
    if (*ret_found && strcmp(ret->mountpoint, mountpoint) != 0) {
        mount_entry_release(ret);
        *ret_found = false;
    }
    return 0;
}

/* ---- Locks ---------------------------------------------------------------------------------- */

/* Whether the open file is still the one of that name. */
static bool is_in_place(int dir, const char *name, int fd)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 && fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

/* As mounts_claim(), in an open directory. -1 with errno. */
static int claim_in(int dir, const char *mountpoint, int *ret_lock)
{
    char name[NAME_BYTES];

    entry_name(mountpoint, ".lock", name);
    for (;;) {
        cleanup_fd int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0) {
            return -1;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            if (errno != EWOULDBLOCK) {
                return -1;
            }
            *ret_lock = -1;
            return 0;
        }
        /* The last owner may have removed the file between the two calls. */
        if (is_in_place(dir, name, fd)) {
            *ret_lock = take_fd(&fd);
            return 0;
        }
    }
}

static void withdraw_in(int dir, const char *mountpoint, int lock)
{
    char entry[NAME_BYTES], name[NAME_BYTES];

    entry_name(mountpoint, ".json", entry);
    entry_name(mountpoint, ".lock", name);
    if (is_in_place(dir, name,
                    lock)) { /* else it was given back already, and is someone else's now */
        unlinkat(dir, entry, 0);
        unlinkat(dir, name, 0);
    }
    close(lock);
}

int mounts_claim(const char *mountpoint, int *ret_lock, struct error *err)
{
    cleanup_fd int dir = -1;
    cleanup_free char *path = NULL;

    if (state_dir_open("mounts", &dir, &path, err) < 0) {
        return -1;
    }
    return claim_in(dir, mountpoint, ret_lock) < 0 ? error_set_errno(err, errno, "%s", path) : 0;
}

void mounts_withdraw(const char *mountpoint, int lock)
{
    cleanup_fd int dir = -1;
    struct error err = {0};

    if (state_dir_open("mounts", &dir, NULL, &err) < 0) {
        log_trace("cannot remove the entry of %s: %s", mountpoint, err.message);
        close(lock);
        return;
    }
    withdraw_in(dir, mountpoint, lock);
}

/* ---- All of them ---------------------------------------------------------------------------- */

static void remove_stale(int dir, const char *mountpoint)
{
    int lock = -1;

    if (claim_in(dir, mountpoint, &lock) == 0 && lock >= 0) {
        withdraw_in(dir, mountpoint, lock);
    }
}

static int by_mountpoint(const void *a, const void *b)
{
    return strcmp(((const struct mount_entry *)a)->mountpoint,
                  ((const struct mount_entry *)b)->mountpoint);
}

/* Takes over `entry`. */
static int append_entry(struct mount_list *list, struct mount_entry *entry, struct error *err)
{
    struct mount_entry *entries = realloc(list->entries, (list->count + 1) * sizeof *entries);

    if (entries == NULL) {
        mount_entry_release(entry);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    list->entries = entries;
    list->entries[list->count++] = *entry;
    return 0;
}

int mounts_list(struct mount_list *ret, struct error *err)
{
    cleanup_mount_list struct mount_list list = {0};
    cleanup_fd int dir = -1;
    cleanup_dir DIR *stream = NULL;
    const struct dirent *found;

    if (state_dir_open("mounts", &dir, NULL, err) < 0) {
        return -1;
    }
    stream = fdopendir(fcntl(dir, F_DUPFD_CLOEXEC, 3));
    if (stream == NULL) {
        return error_set_errno(err, errno, "cannot list the mounts");
    }
    while (list.count < MOUNTS_MAX && (found = readdir(stream)) != NULL) {
        size_t length = strlen(found->d_name);
        struct mount_entry entry = {0};

        if (length < 5 || strcmp(found->d_name + length - 5, ".json") != 0 ||
            read_entry(dir, found->d_name, &entry) < 0) {
            continue;
        }
        if (!entry.alive && mounted_at(entry.mountpoint) != MOUNTED_HANDSFS) {
            remove_stale(dir, entry.mountpoint);
            mount_entry_release(&entry);
        } else if (append_entry(&list, &entry, err) < 0) {
            return -1;
        }
    }
    if (list.count > 0) {
        qsort(list.entries, list.count, sizeof *list.entries, by_mountpoint);
    }
    *ret = list;
    list = (struct mount_list){0};
    return 0;
}

int mounts_find_session(const char *session, const char *backend, const char *preferred,
                        struct mount_entry *ret, bool *ret_found, struct error *err)
{
    cleanup_mount_list struct mount_list list = {0};
    struct mount_entry *best = NULL;

    if (mounts_list(&list, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < list.count; i++) {
        struct mount_entry *entry = &list.entries[i];

        if (!entry->alive || strcmp(entry->session, session) != 0 ||
            (backend != NULL && strcmp(entry->backend, backend) != 0)) {
            continue;
        }
        if (best == NULL ||
            (strcmp(best->backend, preferred) != 0 && strcmp(entry->backend, preferred) == 0)) {
            best = entry;
        }
    }
    *ret_found = best != NULL;
    if (best != NULL) {
        *ret = *best;
        *best = (struct mount_entry){0};
    }
    return 0;
}

/* ---- Writing -------------------------------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, text, length);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return -1;
        }
        text += n;
        length -= (size_t)n;
    }
    return 0;
}

int mounts_publish(const struct mount_entry *entry, struct error *err)
{
    cleanup_fd int dir = -1;
    cleanup_fd int fd = -1;
    cleanup_free char *text = NULL;
    char name[NAME_BYTES], temporary[NAME_BYTES];
    pid_t pid = getpid();
    json_t *object;

    if (state_dir_open("mounts", &dir, NULL, err) < 0) {
        return -1;
    }
    object = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "session", entry->session, "backend",
                       entry->backend, "mountpoint", entry->mountpoint, "socket", entry->socket,
                       "pid", (json_int_t)pid, "started", (json_int_t)process_started(pid));
    text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s: the path is not UTF-8", entry->mountpoint);
    }
    entry_name(entry->mountpoint, ".json", name);
    entry_name(entry->mountpoint, ".new", temporary); /* ours alone: we hold the claim */
    unlinkat(dir, temporary, 0);
    fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, text, strlen(text)) < 0 ||
        renameat(dir, temporary, dir, name) < 0) {
        int saved = errno;

        unlinkat(dir, temporary, 0);
        return error_set_errno(err, saved, "cannot record the mount");
    }
    return 0;
}
