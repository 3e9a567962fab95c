/* The local backend's operations. What they stand on: the session on disk (local_state.h, local_record.h),
 * the start of a hand (local_start.h), the limits (local_cgroup.h).
 *
 * Two things decide everything. Whoever makes or removes a sandbox holds the session's lock, so of twenty
 * that provision at once one starts it and nineteen find it running. And a sandbox runs where its hand
 * listens at the socket that has the sandbox's id in its name: no list of processes is believed. */
#include "backends/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "backends/local_bwrap.h"
#include "backends/local_cgroup.h"
#include "backends/local_doctor.h"
#include "backends/local_identity.h"
#include "backends/local_record.h"
#include "backends/local_remove.h"
#include "backends/local_start.h"
#include "backends/local_state.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/dirs.h"

#define STATE_DIRECTORY "local"
#define GROUP_WAIT_MS 5000 /* for the last processes to leave the control groups */

/* A handle's own part. */
struct local_handle {
    int session_fd; /* the session's directory: the one of then, even if another has its name now */
    struct local_process process;
};

static void handle_free(struct local_handle *handle)
{
    if (handle != NULL) {
        cleanup_fd_fn(&handle->session_fd);
        local_process_release(&handle->process);
        free(handle);
    }
}

static void handle_cleanup(struct local_handle **handle)
{
    handle_free(*handle);
}

static void local_release(struct sandbox *sandbox)
{
    handle_free(sandbox->state);
}

/* Fills in `ret`; the descriptor and the process are taken over. */
static int make_handle(const struct local_record *record, int *session_fd, struct local_process *process,
                       bool created, struct sandbox *ret, struct error *err)
{
    __attribute__((cleanup(handle_cleanup))) struct local_handle *handle = malloc(sizeof *handle);
    cleanup_free char *session = strdup(record->spec.session);
    cleanup_free char *id = strdup(record->id);
    cleanup_free char *workdir = strdup(record->spec.workdir);

    if (handle == NULL || session == NULL || id == NULL || workdir == NULL) {
        free(take_ptr(handle));
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    handle->session_fd = take_fd(session_fd);
    handle->process = *process;
    *process = (struct local_process)LOCAL_NO_PROCESS;
    *ret = (struct sandbox){.backend = &backend_local,
                            .session = take_ptr(session),
                            .id = take_ptr(id),
                            .workdir = take_ptr(workdir),
                            .created = created,
                            .state = take_ptr(handle)};
    return 0;
}

/* ---- Provision ---- */

/* What no local sandbox can be, whatever there is already. */
static int check_spec(const struct sandbox_spec *spec, struct error *err)
{
    struct local_identity identity;

    if (spec->image != NULL && spec->image[0] != '\0') {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "the local backend has no images (\"%.100s\" was asked for)", spec->image);
    }
    if (spec->attach != NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "the local backend attaches to no container (\"%.100s\" was asked for)",
                         spec->attach);
    }
    if (spec->engine.count > 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the local backend has no engine setting \"%.100s\"",
                         spec->engine.entries[0]);
    }
    if (local_identity_of(spec, &identity, err) < 0 || local_workdir_check(spec->workdir, err) < 0) {
        return -1;
    }
    return local_cgroup_check(spec, err);
}

static int compare(const struct sandbox_spec *existing, const struct sandbox_spec *wanted, struct error *err)
{
    if (strcmp(existing->workdir, wanted->workdir) != 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s exists with workdir \"%.150s\", not \"%.150s\"", wanted->session,
                         existing->workdir, wanted->workdir);
    }
    if (existing->network != wanted->network) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0, "session %s exists with network %s, not %s",
                         wanted->session, network_mode_name(existing->network), network_mode_name(wanted->network));
    }
    return 0;
}

/* Starts the record's sandbox under a new id and writes both down, the record before the start: the socket
 * must not be there under an id that nobody knows. */
static int start(int session_fd, const char *state_path, struct local_record *record, uint64_t deadline_ms,
                 struct error *err)
{
    cleanup_free char *directory = NULL;
    struct error ignored = {0};

    if (asprintf(&directory, "%s/%s", state_path, record->spec.session) < 0) {
        directory = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (local_cgroup_remove(record, clock_now_ms() + GROUP_WAIT_MS, err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < LOCAL_MAX_CGROUPS; i++) {
        free(take_ptr(record->cgroups[i]));
    }
    if (local_record_renew(record, err) < 0 || local_cgroup_make(record, err) < 0) {
        return -1;
    }
    if (local_record_write(session_fd, record, err) < 0 ||
        local_start(session_fd, directory, record, deadline_ms, err) < 0) {
        (void)!local_cgroup_remove(record, clock_now_ms() + GROUP_WAIT_MS, &ignored);
        return -1;
    }
    return local_process_write(session_fd, record->id, err);
}

/* A session's name for what is being removed of it. */
static void trash_name(char name[LOCAL_NAME_BYTES], const char *session)
{
    snprintf(name, LOCAL_NAME_BYTES, ".%s.trash", session);
}

/* Takes the session out of sight, then removes it. Under the lock. */
static int discard(int state_fd, const char *session, uint64_t deadline_ms, struct error *err)
{
    char trash[LOCAL_NAME_BYTES];

    trash_name(trash, session);
    if (local_remove_tree(state_fd, trash, deadline_ms, err) < 0) { /* of one who was interrupted */
        return -1;
    }
    if (renameat(state_fd, session, state_fd, trash) < 0) {
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "remove session %s", session);
    }
    return local_remove_tree(state_fd, trash, deadline_ms, err);
}

/* Makes the session and starts it; what this call made is removed where it does not start. */
static int create(int state_fd, const char *state_path, const struct sandbox_spec *spec,
                  struct local_record *record, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    cleanup_fd int session_fd = -1;
    struct error ignored = {0};
    bool made = false;

    if (local_spec_copy(&record->spec, spec, err) < 0) {
        return -1;
    }
    if (local_session_make(state_fd, spec->session, &session_fd, &made, err) < 0 ||
        start(session_fd, state_path, record, deadline_ms, err) < 0) {
        if (made) {
            (void)!discard(state_fd, spec->session, clock_now_ms() + GROUP_WAIT_MS, &ignored);
        }
        return -1;
    }
    *ret_fd = take_fd(&session_fd);
    return 0;
}

/* Under the lock: finds the session running, or starts it, or makes it. */
static int find_or_start(int state_fd, const char *state_path, const struct sandbox_spec *spec,
                         uint64_t deadline_ms, struct sandbox *ret, struct error *err)
{
    cleanup_record struct local_record record = {.created = 0};
    cleanup_process struct local_process process = LOCAL_NO_PROCESS;
    cleanup_fd int session_fd = -1;
    struct error why = {0};
    bool created = false;

    if (local_session_open(state_fd, spec->session, &session_fd, &why) < 0 ||
        local_record_read(session_fd, &record, &why) < 0) {
        if (why.code != ERROR_SANDBOX_GONE) {
            *err = why;
            return -1;
        }
        cleanup_fd_fn(&session_fd);
        session_fd = -1;
        if (create(state_fd, state_path, spec, &record, deadline_ms, &session_fd, err) < 0) {
            return -1;
        }
        created = true;
    } else if (compare(&record.spec, spec, err) < 0) {
        return -1;
    }
    if (local_probe(session_fd, record.id, &process, &why) < 0) {
        if (why.code != ERROR_SANDBOX_GONE || created) {
            *err = why;
            return -1;
        }
        if (start(session_fd, state_path, &record, deadline_ms, err) < 0 ||
            local_probe(session_fd, record.id, &process, err) < 0) {
            return -1;
        }
        created = true;
    } else if (process.pid == 0) { /* its maker died before it wrote that down */
        if (local_process_write(session_fd, record.id, &why) == 0) {
            local_process_read(session_fd, &process);
        }
    }
    return make_handle(&record, &session_fd, &process, created, ret, err);
}

static int local_provision(const struct sandbox_spec *spec, uint64_t deadline_ms, struct sandbox *ret,
                           struct error *err)
{
    cleanup_free char *state_path = NULL;
    cleanup_fd int state_fd = -1;
    cleanup_fd int lock = -1;

    if (check_spec(spec, err) < 0 || state_dir_open(STATE_DIRECTORY, &state_fd, &state_path, err) < 0 ||
        local_lock(state_fd, spec->session, deadline_ms, &lock, err) < 0) {
        return -1;
    }
    if (find_or_start(state_fd, state_path, spec, deadline_ms, ret, err) < 0) {
        if (faccessat(state_fd, spec->session, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
            local_lock_remove(state_fd, spec->session); /* no session: no lock of it */
        }
        return -1;
    }
    return 0;
}

/* ---- Attach, list, destroy ---- */

static int local_attach(const char *session, uint64_t deadline_ms, struct sandbox *ret, struct error *err)
{
    cleanup_record struct local_record record = {.created = 0};
    cleanup_process struct local_process process = LOCAL_NO_PROCESS;
    cleanup_fd int state_fd = -1;
    cleanup_fd int session_fd = -1;

    (void)deadline_ms; /* nothing here waits */
    if (state_dir_open(STATE_DIRECTORY, &state_fd, NULL, err) < 0 ||
        local_session_open(state_fd, session, &session_fd, err) < 0) {
        return -1;
    }
    if (local_record_read(session_fd, &record, err) < 0 ||
        local_probe(session_fd, record.id, &process, err) < 0) {
        return error_prefix(err, "session %s", session);
    }
    return make_handle(&record, &session_fd, &process, false, ret, err);
}

/* Whether a directory's entry is a session. */
static bool is_session(int state_fd, const char *name)
{
    cleanup_record struct local_record record = {.created = 0};
    cleanup_fd int session_fd = -1;
    struct error why = {0};

    return session_name_check(name, &why) == 0 &&
           local_session_open(state_fd, name, &session_fd, &why) == 0 &&
           local_record_read(session_fd, &record, &why) == 0 && strcmp(record.spec.session, name) == 0;
}

static int local_list(void (*found)(void *arg, const char *session), void *arg, struct error *err)
{
    cleanup_fd int state_fd = -1;
    cleanup_dir DIR *dir = NULL;
    const struct dirent *entry;
    int fd;

    if (state_dir_open(STATE_DIRECTORY, &state_fd, NULL, err) < 0) {
        return -1;
    }
    fd = openat(state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        error_set_errno(err, errno, "the state directory");
        cleanup_fd_fn(&fd);
        return -1;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (is_session(state_fd, entry->d_name)) {
            found(arg, entry->d_name);
        }
    }
    return 0;
}

/* The hand that listens, and the one written down, which may have lost its socket. */
static int kill_sandbox(int session_fd, const char *id, uint64_t deadline_ms, struct error *err)
{
    cleanup_process struct local_process recorded = LOCAL_NO_PROCESS;
    cleanup_process struct local_process listening = LOCAL_NO_PROCESS;
    struct error why = {0};
    bool lives = id[0] != '\0' && local_probe(session_fd, id, &listening, &why) == 0;

    if (lives && listening.pid == 0 && local_process_write(session_fd, id, &why) == 0) {
        local_process_read(session_fd, &listening);
    }
    if (lives && listening.pid == 0) {
        return error_set(err, ERROR_IO, 0,
                         "the sandbox runs, but its process cannot be seen from here (another PID namespace?)");
    }
    local_process_read(session_fd, &recorded);
    return local_process_kill(&listening, deadline_ms, err) < 0
               ? -1
               : local_process_kill(&recorded, deadline_ms, err);
}

static int local_destroy(const char *session, uint64_t deadline_ms, struct error *err)
{
    cleanup_record struct local_record record = {.created = 0};
    cleanup_fd int state_fd = -1;
    cleanup_fd int session_fd = -1;
    cleanup_fd int lock = -1;
    struct error why = {0};

    if (state_dir_open(STATE_DIRECTORY, &state_fd, NULL, err) < 0 ||
        local_lock(state_fd, session, deadline_ms, &lock, err) < 0) {
        return -1;
    }
    if (local_session_open(state_fd, session, &session_fd, &why) == 0) {
        (void)!local_record_read(session_fd, &record, &why); /* a damaged one can be destroyed, too */
        if (kill_sandbox(session_fd, record.id, deadline_ms, err) < 0 ||
            local_cgroup_remove(&record, deadline_ms, err) < 0) {
            return -1;
        }
    } else if (why.code != ERROR_SANDBOX_GONE) {
        *err = why;
        return -1;
    }
    if (discard(state_fd, session, deadline_ms, err) < 0) {
        return -1;
    }
    local_lock_remove(state_fd, session);
    return 0;
}

/* ---- A handle ---- */

static int local_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    const struct local_handle *handle = sandbox->state;

    return local_socket_connect(handle->session_fd, sandbox->id, deadline_ms, ret_fd, err);
}

/* Whether the workdir under this root is the session's workspace. */
static bool shows_workspace(int root, const struct sandbox *sandbox)
{
    const struct local_handle *handle = sandbox->state;
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    struct stat inside, outside;
    cleanup_fd int fd =
        (int)syscall(SYS_openat2, root, sandbox->workdir, &how, sizeof how);

    return fd >= 0 && fstat(fd, &inside) == 0 &&
           fstatat(handle->session_fd, LOCAL_WORKSPACE, &outside, AT_SYMLINK_NOFOLLOW) == 0 &&
           inside.st_dev == outside.st_dev && inside.st_ino == outside.st_ino;
}

/* The number in the path is the hand's for as long as that lives: looked at after the path was opened. */
static int local_open_root(struct sandbox *sandbox, int *ret_fd, struct error *err)
{
    const struct local_handle *handle = sandbox->state;
    char path[64];
    cleanup_fd int root = -1;

    *ret_fd = -1;
    if (handle->process.pid == 0) {
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%d/root", (int)handle->process.pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!local_process_lives(&handle->process)) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "the sandbox is not running");
    }
    if (root >= 0 && shows_workspace(root, sandbox)) {
        *ret_fd = take_fd(&root);
    }
    return 0;
}

struct sayer {
    void (*say)(void *arg, const char *key, const char *value);
    void *arg;
};

static void say_number(const struct sayer *s, const char *key, unsigned long long value)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", value);
    s->say(s->arg, key, text);
}

static void say_spec(const struct sayer *s, const struct local_record *record)
{
    const struct sandbox_spec *spec = &record->spec;
    time_t created = (time_t)record->created;
    struct tm tm;
    char text[64];

    if (gmtime_r(&created, &tm) != NULL && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0) {
        s->say(s->arg, "started", text);
    }
    s->say(s->arg, "network", network_mode_name(spec->network));
    s->say(s->arg, "read_only_root", spec->read_only_root ? "yes" : "no");
    if (spec->user != NULL) {
        s->say(s->arg, "user", spec->user);
    }
    if (spec->memory_bytes != 0) {
        say_number(s, "memory_bytes", spec->memory_bytes);
    }
    if (spec->cpu_millis != 0) {
        say_number(s, "cpu_millis", spec->cpu_millis);
    }
    if (spec->pids != 0) {
        say_number(s, "pids", spec->pids);
    }
}

static int local_status(struct sandbox *sandbox, void (*say)(void *arg, const char *key, const char *value),
                        void *arg, struct error *err)
{
    const struct local_handle *handle = sandbox->state;
    const struct sayer sayer = {say, arg};
    cleanup_record struct local_record record = {.created = 0};
    cleanup_process struct local_process process = LOCAL_NO_PROCESS;
    char link[64];
    char path[PATH_MAX];
    ssize_t n;

    if (local_record_read(handle->session_fd, &record, err) < 0 ||
        local_probe(handle->session_fd, sandbox->id, &process, err) < 0) {
        return -1;
    }
    say(arg, "state", local_process_frozen(&process) ? "frozen" : "running");
    if (process.pid > 0) {
        say_number(&sayer, "pid", (unsigned long long)process.pid);
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle->session_fd);
    n = readlink(link, path, sizeof path - sizeof "/" LOCAL_WORKSPACE);
    if (n > 0) {
        memcpy(path + n, "/" LOCAL_WORKSPACE, sizeof "/" LOCAL_WORKSPACE);
        say(arg, "workspace", path);
    }
    say_spec(&sayer, &record);
    return 0;
}

static const struct backend_ops local_ops = {
    .provision = local_provision,
    .attach = local_attach,
    .list = local_list,
    .destroy = local_destroy,
    .connect = local_connect,
    .open_root = local_open_root,
    .status = local_status,
    .doctor = local_doctor,
    .release = local_release,
};

const struct backend backend_local = {.name = "local", .ops = &local_ops};
