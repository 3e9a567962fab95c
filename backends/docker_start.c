/* The steps between a container and a running one, and its end. */
#include "backends/docker_internal.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "backends/printable.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define MAX_PARTS 128          /* of a workdir's path that can be missing */
#define WAIT_MS 25             /* between two looks at a container that is on its way out */
#define MAX_LOG (64u << 10)    /* bytes of a container's last lines */
#define LOG_HEADER 8           /* a frame of the log: stream, three zeros, length (big-endian) */

/* ---- What is put in ---- */

/* The directories of a workdir that are to be made, with the owner's numbers. */
struct missing {
    uint32_t uid, gid;
    char *text; /* the path without its first slash, cut into the parts' paths */
    char *paths[MAX_PARTS];
    size_t count;
};

static void missing_release(struct missing *missing)
{
    for (size_t i = 0; i < missing->count; i++) {
        free(missing->paths[i]);
    }
}

/* One level that was looked at; where it is not there, it is noted. */
static int take_level(const char *path, enum docker_path_kind kind, struct missing *missing, struct error *err)
{
    if (kind == DOCKER_PATH_DIRECTORY) {
        return 0;
    }
    if (kind == DOCKER_PATH_OTHER) {
        return error_set(err, ERROR_NOT_DIRECTORY, 0, "workdir: %.200s in the image is not a directory", path);
    }
    if (missing->count == MAX_PARTS) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the workdir is too deep");
    }
    missing->paths[missing->count] = strdup(path + 1);
    if (missing->paths[missing->count] == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    missing->count++;
    return 0;
}

/* Nothing is looked at twice: for each look the engine mounts the container's root, which takes it several times as
 * long as to inspect the container. */
static int find_missing(struct docker_engine *engine, const char *id, const char *workdir,
                        uint64_t deadline_ms, struct missing *missing, struct error *err)
{
    cleanup_free char *path = strdup(workdir);
    enum docker_path_kind kind = DOCKER_PATH_NONE;

    if (path == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (docker_archive_kind(engine, id, workdir, deadline_ms, &kind, err) < 0) {
        return -1;
    }
    if (kind == DOCKER_PATH_DIRECTORY) {
        return 0;
    }
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        enum docker_path_kind above = DOCKER_PATH_NONE; /* below something that is missing all is */

        *slash = '\0';
        if ((missing->count == 0 && docker_archive_kind(engine, id, path, deadline_ms, &above, err) < 0) ||
            take_level(path, above, missing, err) < 0) {
            return -1;
        }
        *slash = '/';
    }
    return take_level(path, kind, missing, err);
}

static int put_hand_and_workdir(struct docker_engine *engine, const char *id, const char *workdir, uint32_t uid,
                                uint32_t gid, uint64_t deadline_ms, struct error *err)
{
    struct missing missing = {.count = 0};
    struct docker_entry entries[MAX_PARTS];
    int r = find_missing(engine, id, workdir, deadline_ms, &missing, err);

    for (size_t i = 0; i < missing.count; i++) {
        entries[i] = (struct docker_entry){
            .path = missing.paths[i], .directory = true, .mode = 0755, .uid = uid, .gid = gid};
    }
    if (r == 0) {
        r = docker_put_hand(engine, id, DOCKER_HAND_DIR, uid, gid, false, entries, missing.count, deadline_ms, err);
    }
    missing_release(&missing);
    return r;
}

/* Volumes are there from the creation on, and the engine's root's. Their tops get what they are meant to have; an entry "."
 * would be passed over by Docker. */
static int give_volumes(struct docker_engine *engine, const char *id, const char *workdir, uint32_t uid,
                        uint32_t gid, uint64_t deadline_ms, struct error *err)
{
    struct docker_entry own = {.path = "/", .directory = true, .mode = 0755, .uid = uid, .gid = gid};
    struct docker_entry common = {.path = "/", .directory = true, .mode = 01777};

    if (docker_archive_put(engine, id, workdir, &own, 1, deadline_ms, err) < 0) {
        return -1;
    }
    return strcmp(workdir, "/tmp") == 0 ? 0 : docker_archive_put(engine, id, "/tmp", &common, 1, deadline_ms, err);
}

int docker_prepare(struct docker_engine *engine, const char *id, const char *user, const char *workdir,
                   bool read_only_root, uint64_t deadline_ms, struct error *err)
{
    uint32_t uid = 0, gid = 0;

    if (docker_user_resolve(engine, id, user, deadline_ms, &uid, &gid, err) < 0) {
        return -1;
    }
    if (!read_only_root) {
        return put_hand_and_workdir(engine, id, workdir, uid, gid, deadline_ms, err);
    }
    return docker_put_hand(engine, id, DOCKER_HAND_DIR, uid, gid, true, NULL, 0, deadline_ms, err) < 0
               ? -1
               : give_volumes(engine, id, workdir, uid, gid, deadline_ms, err);
}

/* ---- Start ---- */

static int call(struct docker_engine *engine, const char *method, const char *id, const char *what,
                uint64_t deadline_ms, struct docker_reply *reply, struct error *err)
{
    char path[128];
    struct docker_request request = {.method = method, .path = path, .deadline_ms = deadline_ms};

    snprintf(path, sizeof path, "/containers/%s%s", id, what);
    return docker_call(engine, &request, reply, err);
}

int docker_start(struct docker_engine *engine, const char *id, uint64_t deadline_ms, struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;

    if (call(engine, "POST", id, "/start", deadline_ms, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "container %.12s is no more", id);
    }
    return reply.status < 300 || reply.status == 304 ? 0 : docker_refused(&reply, err, "start the container");
}

/* ---- The end ---- */

/* Waits until the engine knows it no more. */
static int wait_gone(struct docker_engine *engine, const char *id, uint64_t deadline_ms, struct error *err)
{
    for (;;) {
        cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
        struct error why = {0};

        if (docker_inspect(engine, id, deadline_ms, &inspect, &why) < 0) {
            if (why.code == ERROR_SANDBOX_GONE) {
                return 0;
            }
            *err = why;
            return -1;
        }
        if (clock_now_ms() + WAIT_MS > deadline_ms) {
            return error_set(err, ERROR_NO_ANSWER, 0, "container %.12s is not removed in time", id);
        }
        poll(NULL, 0, WAIT_MS);
    }
}

int docker_remove(struct docker_engine *engine, const char *id, uint64_t deadline_ms, struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;

    if (call(engine, "DELETE", id, "?force=1&v=1", deadline_ms, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404) {
        return 0;
    }
    if (reply.status >= 300 && reply.status != 409) { /* 409: somebody else removes it at the moment */
        return docker_refused(&reply, err, "remove container %.12s", id);
    }
    return wait_gone(engine, id, deadline_ms, err);
}

/* ---- Last words ---- */

/* The payload of the last frame that holds a letter. */
static void last_line(const uint8_t *data, size_t length, char *ret, size_t size)
{
    while (length >= LOG_HEADER) {
        size_t n = (size_t)data[4] << 24 | (size_t)data[5] << 16 | (size_t)data[6] << 8 | data[7];
        char line[ERROR_MESSAGE_MAX];

        if (n > length - LOG_HEADER) {
            return;
        }
        if (copy_printable(line, sizeof line < size ? sizeof line : size, data + LOG_HEADER, n) > 0) {
            memcpy(ret, line, strlen(line) + 1);
        }
        data += LOG_HEADER + n;
        length -= LOG_HEADER + n;
    }
}

void docker_last_words(struct docker_engine *engine, const char *id, uint64_t deadline_ms, char *ret, size_t size)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    struct error ignored = {0};
    char path[160];
    struct docker_request request = {
        .method = "GET", .path = path, .deadline_ms = deadline_ms, .limit = MAX_LOG};

    ret[0] = '\0';
    snprintf(path, sizeof path, "/containers/%s/logs?stdout=1&stderr=1&tail=5", id);
    if (docker_call(engine, &request, &reply, &ignored) == 0 && reply.status < 300 && reply.body.data != NULL) {
        last_line(reply.body.data, reply.body.length, ret, size);
    }
}
