#include "backends/local_record.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "sandbox/buffer.h"
#include "sandbox/cleanup.h"

#define RECORD_FILE "spec.json"
#define RECORD_TEMPORARY "spec.json.new"
#define RECORD_VERSION 1
#define RECORD_LIST_MAX 4096 /* entries of a list in it */

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
}

void local_record_release(struct local_record *record)
{
    sandbox_spec_release(&record->spec);
    for (size_t i = 0; i < LOCAL_MAX_CGROUPS; i++) {
        free(record->cgroups[i]);
    }
    *record = (struct local_record){0};
}

int local_record_renew(struct local_record *record, struct error *err)
{
    uint8_t bits[LOCAL_ID_LENGTH / 2];

    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        return error_set_errno(err, errno, "getrandom");
    }
    for (size_t i = 0; i < sizeof bits; i++) {
        snprintf(record->id + 2 * i, 3, "%02x", bits[i]);
    }
    record->created = (int64_t)time(NULL);
    return 0;
}

/* Frees and copies; NULL stays NULL. */
static int copy_string(char **ret, const char *s)
{
    *ret = NULL;
    if (s == NULL) {
        return 0;
    }
    *ret = strdup(s);
    return *ret != NULL ? 0 : -1;
}

/* A NULL-terminated copy of `count` strings; NULL for none. */
static int copy_strings(char ***ret, char *const *strings, size_t count)
{
    char **copy;

    *ret = NULL;
    if (count == 0) {
        return 0;
    }
    copy = calloc(count + 1, sizeof *copy);
    if (copy == NULL) {
        return -1;
    }
    *ret = copy;
    for (size_t i = 0; i < count; i++) {
        copy[i] = strdup(strings[i]);
        if (copy[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static size_t count_strings(char *const *strings)
{
    size_t n = 0;

    while (strings != NULL && strings[n] != NULL) {
        n++;
    }
    return n;
}

int local_spec_copy(struct sandbox_spec *ret, const struct sandbox_spec *spec, struct error *err)
{
    struct sandbox_spec copy = *spec;
    bool failed = false;

    failed |= copy_string(&copy.session, spec->session) < 0;
    failed |= copy_string(&copy.image, spec->image) < 0;
    failed |= copy_string(&copy.workdir, spec->workdir) < 0;
    failed |= copy_string(&copy.user, spec->user) < 0;
    failed |= copy_strings(&copy.env.entries, spec->env.entries, spec->env.count) < 0;
    failed |= copy_strings(&copy.cap_drop, spec->cap_drop, count_strings(spec->cap_drop)) < 0;
    copy.env.count = count_strings(copy.env.entries);
    if (failed) {
        sandbox_spec_release(&copy);
        return no_memory(err);
    }
    *ret = copy;
    return 0;
}

/* ---- Bytes as JSON: text where they are UTF-8, else {"hex": "…"} ---- */

static json_t *json_of_bytes(const char *bytes)
{
    json_t *text = json_string(bytes);
    size_t length = strlen(bytes);
    cleanup_free char *hex = NULL;

    if (text != NULL) {
        return text;
    }
    hex = malloc(2 * length + 1);
    if (hex == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < length; i++) {
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
    }
    return json_pack("{s:s#}", "hex", hex, (int)(2 * length));
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* To be freed; NULL (errno EINVAL or ENOMEM) where it is no such thing. */
static char *bytes_of_json(const json_t *value)
{
    const char *hex = json_string_value(json_object_get(value, "hex"));
    char *bytes;
    size_t length;

    if (json_is_string(value)) {
        return strdup(json_string_value(value));
    }
    errno = EINVAL;
    if (hex == NULL || json_string_length(json_object_get(value, "hex")) % 2 != 0) {
        return NULL;
    }
    length = strlen(hex) / 2;
    bytes = malloc(length + 1);
    for (size_t i = 0; bytes != NULL && i < length; i++) {
        int high = hex_digit(hex[2 * i]);
        int low = hex_digit(hex[2 * i + 1]);

        if (high < 0 || low < 0 || (high == 0 && low == 0)) {
            free(bytes);
            errno = EINVAL;
            return NULL;
        }
        bytes[i] = (char)(high * 16 + low);
    }
    if (bytes != NULL) {
        bytes[length] = '\0';
    }
    return bytes;
}

static json_t *json_of_strings(char *const *strings)
{
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && strings != NULL && strings[i] != NULL; i++) {
        if (json_array_append_new(array, json_of_bytes(strings[i])) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

/* Fills up to `max` strings and a NULL into `ret`, which starts zeroed. */
static int fill_strings(char **ret, size_t max, const json_t *array)
{
    if (json_array_size(array) > max) {
        return -1;
    }
    for (size_t i = 0; i < json_array_size(array); i++) {
        ret[i] = bytes_of_json(json_array_get(array, i));
        if (ret[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

/* A new NULL-terminated list, NULL for an empty one. */
static int strings_of_json(char ***ret, const json_t *array)
{
    size_t count = json_array_size(array);

    *ret = NULL;
    if (!json_is_array(array) || count > RECORD_LIST_MAX) {
        return -1;
    }
    if (count == 0) {
        return 0;
    }
    *ret = calloc(count + 1, sizeof **ret);
    return *ret != NULL ? fill_strings(*ret, count, array) : -1;
}

/* ---- The file ---- */

static json_t *record_to_json(const struct local_record *record)
{
    const struct sandbox_spec *spec = &record->spec;

    return json_pack("{s:i, s:s, s:s, s:I, s:o, s:s, s:s?, s:b, s:o, s:o, s:I, s:I, s:I, s:o}",
                     "version", RECORD_VERSION, "session", spec->session, "id", record->id, "created",
                     (json_int_t)record->created, "workdir", json_of_bytes(spec->workdir), "network",
                     spec->network == NETWORK_FULL ? "full" : "none", "user", spec->user,
                     "read_only_root", (int)spec->read_only_root, "cap_drop",
                     json_of_strings(spec->cap_drop), "env", json_of_strings(spec->env.entries),
                     "memory_bytes", (json_int_t)spec->memory_bytes, "cpu_millis",
                     (json_int_t)spec->cpu_millis, "pids", (json_int_t)spec->pids, "cgroups",
                     json_of_strings(record->cgroups));
}

static int record_from_json(json_t *root, struct local_record *ret)
{
    struct sandbox_spec *spec = &ret->spec;
    const char *session, *id, *network;
    json_t *workdir, *user, *caps, *env, *cgroups;
    json_int_t created, memory, cpus, pids;
    int version, read_only;

    if (json_unpack(root, "{s:i, s:s, s:s, s:I, s:o, s:s, s:o, s:b, s:o, s:o, s:I, s:I, s:I, s:o}",
                    "version", &version, "session", &session, "id", &id, "created", &created, "workdir",
                    &workdir, "network", &network, "user", &user, "read_only_root", &read_only,
                    "cap_drop", &caps, "env", &env, "memory_bytes", &memory, "cpu_millis", &cpus, "pids",
                    &pids, "cgroups", &cgroups) < 0 ||
        version != RECORD_VERSION || strlen(id) != LOCAL_ID_LENGTH ||
        strspn(id, "0123456789abcdef") != LOCAL_ID_LENGTH) {
        return -1;
    }
    memcpy(ret->id, id, sizeof ret->id);
    ret->created = created;
    spec->session = strdup(session);
    spec->workdir = bytes_of_json(workdir);
    spec->network = strcmp(network, "full") == 0 ? NETWORK_FULL : NETWORK_NONE;
    spec->read_only_root = read_only != 0;
    spec->memory_bytes = (uint64_t)memory;
    spec->cpu_millis = (uint64_t)cpus;
    spec->pids = (uint64_t)pids;
    if (spec->session == NULL || spec->workdir == NULL || copy_string(&spec->user, json_string_value(user)) < 0 ||
        strings_of_json(&spec->cap_drop, caps) < 0 ||
        fill_strings(ret->cgroups, LOCAL_MAX_CGROUPS, cgroups) < 0) {
        return -1;
    }
    if (strings_of_json(&spec->env.entries, env) < 0) {
        spec->env.count = count_strings(spec->env.entries);
        return -1;
    }
    spec->env.count = count_strings(spec->env.entries);
    return 0;
}

static int read_all(int fd, struct buffer *out)
{
    for (;;) {
        uint8_t *space = buffer_reserve(out, 65536);
        ssize_t n = space != NULL ? read(fd, space, 65536) : -1;

        if (n > 0) {
            buffer_commit(out, (size_t)n);
        } else if (n == 0) {
            return 0;
        } else if (space == NULL || errno != EINTR) {
            return -1;
        }
    }
}

int local_record_read(int session_fd, struct local_record *ret, struct error *err)
{
    cleanup_fd int fd = openat(session_fd, RECORD_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_buffer struct buffer text = BUFFER_INIT(LOCAL_RECORD_MAX_BYTES + 65536);
    json_t *root;
    int r;

    if (fd < 0) {
        return errno == ENOENT ? error_set(err, ERROR_SANDBOX_GONE, ENOENT, "there is no such sandbox")
                               : error_set_errno(err, errno, RECORD_FILE);
    }
    if (read_all(fd, &text) < 0) {
        return error_set_errno(err, errno, RECORD_FILE);
    }
    root = json_loadb((const char *)text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    r = root != NULL ? record_from_json(root, ret) : -1;
    json_decref(root);
    if (r < 0) {
        local_record_release(ret);
        return error_set(err, ERROR_IO, 0, "the session's " RECORD_FILE " is damaged; destroy the session");
    }
    return 0;
}

static int write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, data, length);

        if (n < 0 && errno != EINTR) {
            return -1;
        }
        if (n > 0) {
            data += n;
            length -= (size_t)n;
        }
    }
    return 0;
}

int local_record_write(int session_fd, const struct local_record *record, struct error *err)
{
    cleanup_fd int fd =
        openat(session_fd, RECORD_TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    json_t *root = record_to_json(record);
    cleanup_free char *text = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;

    json_decref(root);
    if (fd < 0) {
        return error_set_errno(err, errno, RECORD_TEMPORARY);
    }
    if (text == NULL) {
        return no_memory(err);
    }
    if (strlen(text) > LOCAL_RECORD_MAX_BYTES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the variables are over %u MiB together",
                         LOCAL_RECORD_MAX_BYTES >> 20);
    }
    if (write_all(fd, text, strlen(text)) < 0 || fsync(fd) < 0 ||
        renameat(session_fd, RECORD_TEMPORARY, session_fd, RECORD_FILE) < 0) {
        int saved = errno;

        unlinkat(session_fd, RECORD_TEMPORARY, 0);
        return error_set_errno(err, saved, RECORD_FILE);
    }
    return 0;
}
