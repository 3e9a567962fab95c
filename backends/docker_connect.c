/* The way to the hand.
 *
 * The fast lane: where this process is root on the engine's own host, the hand's socket is reached through the
 * container's root as the kernel shows it (/proc/PID/root). Nothing there is believed: the process is checked to be
 * the container's first one (docker_process.h), the walk to the socket follows no link, and who listens
 * there must be that very process, which nothing inside can bring about.
 *
 * The relay: an exec of `hand connect` by the engine, whose stream is the hand's. It runs a binary that a root inside
 * might have replaced, and then speaks with whoever did; the wire is decoded as hostile in any case, so such a sandbox
 * lies about itself and about nothing else.
 *
 * Why a way is closed is asked of the engine, never read from a message. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "backends/docker_process.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define RETRY_MS 10
#define SLOW_RETRY_MS 50   /* where each look is a call of the engine's */

/* ---- What has become of the container ---- */

int docker_state_check(const struct docker_state *state, uint64_t deadline_ms, struct docker_inspect *ret,
                       struct error *err)
{
    if (docker_inspect(state->engine, state->id, deadline_ms, ret, err) < 0) {
        return -1;
    }
    switch (ret->condition) {
    case DOCKER_CREATED:
    case DOCKER_STOPPED:
        return error_set(err, ERROR_SANDBOX_GONE, 0, "container %.12s is not running (exit code %d%s)",
                         state->id, ret->exit_code, ret->oom_killed ? ", out of memory" : "");
    case DOCKER_REMOVING:
        return error_set(err, ERROR_SANDBOX_GONE, 0, "container %.12s is being removed", state->id);
    case DOCKER_PAUSED:
    case DOCKER_RUNNING:
        break;
    }
    if (strcmp(ret->started_at, state->started_at) != 0) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "container %.12s was started anew", state->id);
    }
    if (ret->condition == DOCKER_PAUSED) {
        return error_set(err, ERROR_NO_ANSWER, 0, "container %.12s is paused", state->id);
    }
    return 0;
}

/* ---- The fast lane ---- */

static int open_beneath(int root, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

/* The handle's own process, opened. */
static int open_process(const struct docker_state *state, struct docker_process *ret)
{
    if (state->process_start == 0 || docker_process_open(state->pid, state->id, ret) < 0) {
        return -1;
    }
    if (ret->start != state->process_start) {
        docker_process_release(ret);
        return -1;
    }
    return 0;
}

static int open_root(const struct docker_process *process)
{
    return openat(process->dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Waits a little, but not past the deadline: false then. */
static bool pause_until(uint64_t deadline_ms, unsigned ms)
{
    if (clock_now_ms() + ms > deadline_ms) {
        return false;
    }
    poll(NULL, 0, (int)ms);
    return true;
}

/* Connects to the socket behind `path_fd`. -1 with errno. */
static int dial(int path_fd, uint64_t deadline_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", path_fd);
    while (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        /* EAGAIN: the queue of a hand that does not run at the moment is full */
        if ((errno != EAGAIN && errno != EINTR) || !pause_until(deadline_ms, RETRY_MS)) {
            return -1;
        }
    }
    return fd < 0 ? -1 : take_fd(&fd);
}

/* -1 with errno; EPERM where it is not the hand who listens. */
static int dial_hand(const struct docker_state *state, const struct docker_process *process,
                     uint64_t deadline_ms, int *ret_fd)
{
    cleanup_fd int root = open_root(process);
    cleanup_fd int path = root < 0 ? -1 : open_beneath(root, state->socket_path + 1);
    cleanup_fd int fd = -1;
    struct ucred peer = {.pid = 0};
    socklen_t length = sizeof peer;
    struct stat st;

    if (path < 0 || fstat(path, &st) < 0) {
        return -1;
    }
    if (!S_ISSOCK(st.st_mode)) {
        errno = EPERM;
        return -1;
    }
    fd = dial(path, deadline_ms);
    if (fd < 0) {
        return -1;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 || peer.pid != state->pid) {
        errno = EPERM;
        return -1;
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* 0 with a stream; -1 where the way is closed, with errno ESRCH where the process is not to be seen. */
static int fast_lane(const struct docker_state *state, uint64_t deadline_ms, int *ret_fd)
{
    cleanup_docker_process struct docker_process process = DOCKER_NO_PROCESS;

    if (open_process(state, &process) < 0) {
        errno = ESRCH;
        return -1;
    }
    return dial_hand(state, &process, deadline_ms, ret_fd);
}

/* ---- The relay ---- */

static json_t *relay_body(const struct docker_state *state)
{
    json_t *body = json_pack("{s:b, s:b, s:b, s:b, s:[s,s,s,s], s:s}", "AttachStdin", 1, "AttachStdout", 1,
                             "AttachStderr", 1, "Tty", 0, "Cmd", state->hand_path, "connect", "--socket",
                             state->socket_path, "WorkingDir", "/");

    if (body != NULL && !state->attached &&
        (json_array_append_new(json_object_get(body, "Cmd"), json_string("--peer-pid")) < 0 ||
         json_array_append_new(json_object_get(body, "Cmd"), json_string("1")) < 0)) {
        json_decref(body);
        return NULL;
    }
    if (body != NULL && state->user != NULL &&
        json_object_set_new(body, "User", json_string(state->user)) < 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}

/* The engine refuses: the container's state says more than its words. */
static int relay_refused(const struct docker_state *state, const struct docker_reply *reply,
                         uint64_t deadline_ms, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;

    return docker_state_check(state, deadline_ms, &inspect, err) < 0
               ? -1
               : docker_refused(reply, err, "reach the hand in container %.12s", state->id);
}

static int make_exec(const struct docker_state *state, uint64_t deadline_ms, char id[DOCKER_ID_BYTES],
                     struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    char path[128];
    json_t *body = relay_body(state);
    struct docker_request request = {.method = "POST", .path = path, .json = body, .deadline_ms = deadline_ms};
    const char *text;
    int r;

    snprintf(path, sizeof path, "/containers/%s/exec", state->id);
    if (body == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    r = docker_call(state->engine, &request, &reply, err);
    json_decref(body);
    if (r < 0) {
        return -1;
    }
    if (reply.status >= 300) {
        return relay_refused(state, &reply, deadline_ms, err);
    }
    text = json_string_value(json_object_get(reply.json, "Id"));
    if (text == NULL || strlen(text) >= DOCKER_ID_BYTES || text[strspn(text, "0123456789abcdef")] != '\0') {
        return error_set(err, ERROR_NO_ANSWER, 0, "what the engine says of an exec makes no sense");
    }
    memcpy(id, text, strlen(text) + 1);
    return 0;
}

int docker_relay(const struct docker_state *state, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    cleanup_reply struct docker_reply refused = DOCKER_REPLY_INIT;
    char exec[DOCKER_ID_BYTES];
    int fd = -1;

    if (docker_state_check(state, deadline_ms, &inspect, err) < 0 ||
        make_exec(state, deadline_ms, exec, err) < 0 ||
        docker_exec_stream(state->engine, exec, deadline_ms, &fd, &refused, err) < 0) {
        return -1;
    }
    if (fd < 0) {
        return relay_refused(state, &refused, deadline_ms, err);
    }
    *ret_fd = fd;
    return 0;
}

/* ---- Operations ---- */

/* The lane is closed: the engine says whether there still is a container behind it. */
static int lane_closed(const struct docker_state *state, uint64_t deadline_ms, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    int why = errno;

    if (docker_state_check(state, deadline_ms, &inspect, err) < 0) {
        return -1;
    }
    if (why == EAGAIN) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the hand in container %.12s takes no connection", state->id);
    }
    log_trace("container %.12s: no way past the engine: %s", state->id, strerror(why));
    return 0;
}

int docker_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    struct docker_state *state = sandbox->state;

    if (state->attached) {
        return docker_attach_connect(state, deadline_ms, ret_fd, err);
    }
    if (docker_fast_lane(state->engine)) {
        if (fast_lane(state, deadline_ms, ret_fd) == 0) {
            return 0;
        }
        if (lane_closed(state, deadline_ms, err) < 0) {
            return -1;
        }
    }
    return docker_relay(state, deadline_ms, ret_fd, err);
}

/* Through the engine: whether the socket is there yet. */
static bool socket_is_there(const struct docker_state *state, uint64_t deadline_ms)
{
    enum docker_path_kind kind = DOCKER_PATH_NONE;
    struct error why = {0};

    return docker_archive_kind(state->engine, state->id, state->socket_path, deadline_ms, &kind, &why) == 0 &&
           kind == DOCKER_PATH_OTHER;
}

int docker_wait_ready(const struct docker_state *state, uint64_t deadline_ms, struct error *err)
{
    bool fast = docker_fast_lane(state->engine) && state->process_start != 0;

    for (unsigned i = 0;; i++) {
        cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
        cleanup_fd int fd = -1;

        if (fast ? fast_lane(state, deadline_ms, &fd) == 0 : socket_is_there(state, deadline_ms)) {
            return 0;
        }
        if ((!fast || i % 4 == 3) && docker_state_check(state, deadline_ms, &inspect, err) < 0) {
            return -1;
        }
        if (!pause_until(deadline_ms, fast ? RETRY_MS : SLOW_RETRY_MS)) {
            return error_set(err, ERROR_NO_ANSWER, 0, "the hand in container %.12s does not listen in time",
                             state->id);
        }
    }
}

/* File calls that run in this process act as the container's user. Within a user namespace of its own that would take
 * more than ids: there a root's power ends at the namespace's files. */
int docker_open_root(struct sandbox *sandbox, int *ret_fd, struct error *err)
{
    const struct docker_state *state = sandbox->state;
    cleanup_docker_process struct docker_process process = DOCKER_NO_PROCESS;
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;

    *ret_fd = -1;
    if (state->attached || !docker_fast_lane(state->engine)) {
        return 0;
    }
    if (open_process(state, &process) < 0) {
        return docker_state_check(state, clock_now_ms() + DOCKER_CALL_MS, &inspect, err);
    }
    if (!process.foreign_users) {
        *ret_fd = open_root(&process);
        sandbox->rights = process.rights;
    }
    return 0;
}
