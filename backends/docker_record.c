#include "backends/docker_record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/dirs.h"

#define DIRECTORY "docker"
#define RECORD_VERSION 1
#define LOOK_MS 20
#define NAME_BYTES (MAX_SESSION_NAME + 16)

void docker_record_release(struct docker_record *record)
{
    free(record->host);
    free(record->name);
    free(record->workdir);
    json_decref(record->env);
    *record = (struct docker_record)DOCKER_RECORD_INIT;
}

/* The lock is on the directory itself. */
int docker_records_lock(uint64_t deadline_ms, int *ret_dir, struct error *err)
{
    cleanup_fd int dir = -1;

    if (state_dir_open(DIRECTORY, &dir, NULL, err) < 0) {
        return -1;
    }
    while (flock(dir, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return error_set_errno(err, errno, "lock the state directory");
        }
        if (clock_now_ms() + LOOK_MS > deadline_ms) {
            return error_set(err, ERROR_NO_ANSWER, 0,
                             "another process is attaching to a container for too long");
        }
        poll(NULL, 0, LOOK_MS);
    }
    *ret_dir = take_fd(&dir);
    return 0;
}

static void file_name(char name[NAME_BYTES], const char *session)
{
    snprintf(name, NAME_BYTES, "%s.json", session);
}

/* ---- Read ---- */

static bool is_hex(const char *text, size_t min, size_t max)
{
    size_t length = strlen(text);

    return length >= min && length <= max && strspn(text, "0123456789abcdef") == length;
}

static const char *text_at(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text != NULL ? text : "";
}

static bool is_list(const json_t *list)
{
    const json_t *text;
    size_t i;

    json_array_foreach(list, i, text)
    {
        if (!json_is_string(text)) {
            return false;
        }
    }
    return json_is_array(list);
}

static int decode(json_t *json, const char *session, struct docker_record *ret, struct error *err)
{
    cleanup_docker_record struct docker_record record = DOCKER_RECORD_INIT;

    if (json_integer_value(json_object_get(json, "version")) != RECORD_VERSION ||
        !is_hex(text_at(json, "container"), DOCKER_ID_BYTES - 1, DOCKER_ID_BYTES - 1) ||
        !is_hex(text_at(json, "exec"), 1, DOCKER_ID_BYTES - 1) ||
        !is_hex(text_at(json, "hand"), DOCKER_HAND_ID - 1, DOCKER_HAND_ID - 1) ||
        text_at(json, "workdir")[0] != '/' || !is_list(json_object_get(json, "env"))) {
        return error_set(err, ERROR_IO, 0, "the record of session %s makes no sense", session);
    }
    record.host = strdup(text_at(json, "host"));
    record.name = strdup(text_at(json, "name"));
    record.workdir = strdup(text_at(json, "workdir"));
    if (record.host == NULL || record.name == NULL || record.workdir == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    record.env = json_incref(json_object_get(json, "env"));
    snprintf(record.container, sizeof record.container, "%s", text_at(json, "container"));
    snprintf(record.exec, sizeof record.exec, "%s", text_at(json, "exec"));
    snprintf(record.hand, sizeof record.hand, "%s", text_at(json, "hand"));
    *ret = record;
    record = (struct docker_record)DOCKER_RECORD_INIT;
    return 0;
}

int docker_record_read(int dir, const char *session, struct docker_record *ret, struct error *err)
{
    char text[DOCKER_RECORD_BYTES];
    char name[NAME_BYTES];
    cleanup_fd int fd = -1;
    json_auto_t *json = NULL;
    ssize_t n;

    file_name(name, session);
    fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT
                   ? error_set(err, ERROR_SANDBOX_GONE, 0, "there is no session %s", session)
                   : error_set_errno(err, errno, "the record of session %s", session);
    }
    n = read(fd, text, sizeof text);
    if (n < 0) {
        return error_set_errno(err, errno, "the record of session %s", session);
    }
    json = json_loadb(text, (size_t)n, 0, NULL);
    return decode(json, session, ret, err);
}

/* ---- Written ---- */

static int write_whole(int dir, const char *name, const char *text, struct error *err)
{
    cleanup_fd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t length = strlen(text);

    if (fd < 0 || write(fd, text, length) != (ssize_t)length || fsync(fd) < 0) {
        return error_set_errno(err, errno != 0 ? errno : EIO, "write %s", name);
    }
    return 0;
}

static json_t *encode(const char *session, const struct docker_record *record)
{
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:O}", "version", RECORD_VERSION,
                     "session", session, "host", record->host, "container", record->container,
                     "name", record->name, "workdir", record->workdir, "hand", record->hand, "exec",
                     record->exec, "env", record->env);
}

int docker_record_write(int dir, const char *session, const struct docker_record *record,
                        struct error *err)
{
    json_auto_t *json = encode(session, record);
    cleanup_free char *text = json != NULL ? json_dumps(json, JSON_INDENT(2)) : NULL;
    char name[NAME_BYTES];
    char temporary[NAME_BYTES + 8];

    if (text != NULL && strlen(text) > DOCKER_RECORD_BYTES) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "session %s has more variables than an attached one can (%u bytes)",
                         session, DOCKER_RECORD_BYTES);
    }
    if (text == NULL) { /* memory, or a text of the caller's that is not UTF-8 */
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "session %s cannot be written down (is its workdir UTF-8?)", session);
    }
    file_name(name, session);
    snprintf(temporary, sizeof temporary, ".%s.new", name);
    if (write_whole(dir, temporary, text, err) < 0) {
        return -1;
    }
    return renameat(dir, temporary, dir, name) < 0 ? error_set_errno(err, errno, "write %s", name)
                                                   : 0;
}

void docker_record_remove(int dir, const char *session)
{
    char name[NAME_BYTES];

    file_name(name, session);
    unlinkat(dir, name, 0);
}
