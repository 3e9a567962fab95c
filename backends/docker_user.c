/* A USER as numbers, by the rules of passwd(5) and of the engines: a number stands for itself and has the group
 * that /etc/passwd gives it, or 0; a name must be there; what stands behind a colon overrides the group. The
 * files are the image's, so any bytes may be in them: a line that does not parse is no line. */
#include "backends/docker_internal.h"

#include <ctype.h>
#include <string.h>

#include "sandbox/cleanup.h"

#define MAX_DATABASE (1u << 20) /* bytes of /etc/passwd or /etc/group */
#define MAX_USER 256            /* of a USER text */
#define ID_MAX UINT32_C(4294967294)

/* A decimal id of `length` letters. */
static bool parse_id(const char *text, size_t length, uint32_t *ret)
{
    uint64_t value = 0;

    if (length == 0 || length > 10) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) {
            return false;
        }
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (value > ID_MAX) {
        return false;
    }
    *ret = (uint32_t)value;
    return true;
}

/* Field number `n` of a line that ends at `end`; NULL where it has not that many. */
static const char *field(const char *line, const char *end, unsigned n, size_t *ret_length)
{
    const char *stop;

    for (; n > 0; n--) {
        line = memchr(line, ':', (size_t)(end - line));
        if (line == NULL) {
            return NULL;
        }
        line++;
    }
    stop = memchr(line, ':', (size_t)(end - line));
    *ret_length = (size_t)((stop != NULL ? stop : end) - line);
    return line;
}

/* The first line whose name is `wanted`, or, where that is a number, whose id is. Id and the number behind it (a
 * user's group) are filled in. */
static bool find(const struct docker_text *database, const char *wanted, bool by_id, uint32_t id,
                 uint32_t *ret_id, uint32_t *ret_next)
{
    const char *line = database->data;
    const char *end = line != NULL ? line + database->length : NULL;

    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline != NULL ? newline : end;
        size_t name_length, id_length, next_length = 0;
        const char *name = field(line, stop, 0, &name_length);
        const char *number = field(line, stop, 2, &id_length);
        const char *next = field(line, stop, 3, &next_length);
        uint32_t value = 0;

        if (number != NULL && parse_id(number, id_length, &value) &&
            (by_id ? value == id
                   : name_length == strlen(wanted) && memcmp(name, wanted, name_length) == 0)) {
            *ret_id = value;
            if (next == NULL || !parse_id(next, next_length, ret_next)) {
                *ret_next = 0;
            }
            return true;
        }
        line = newline != NULL ? newline + 1 : end;
    }
    return false;
}

int docker_user_lookup(const char *user, const struct docker_text *passwd, const struct docker_text *group,
                       uint32_t *ret_uid, uint32_t *ret_gid, struct error *err)
{
    char name[MAX_USER];
    const char *colon = strchr(user, ':');
    size_t length = colon != NULL ? (size_t)(colon - user) : strlen(user);
    const char *group_name = colon != NULL ? colon + 1 : "";
    uint32_t uid = 0, gid = 0, ignored;
    bool numeric;

    if (length >= sizeof name) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the user's name is too long: %.80s", user);
    }
    memcpy(name, user, length);
    name[length] = '\0';
    numeric = length == 0 || parse_id(name, length, &uid);
    if (!find(passwd, name, numeric, uid, &uid, &gid) && !numeric) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the image's /etc/passwd knows no user \"%.80s\"", name);
    }
    if (group_name[0] != '\0') {
        numeric = parse_id(group_name, strlen(group_name), &gid);
        if (!numeric && !find(group, group_name, false, 0, &gid, &ignored)) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "the image's /etc/group knows no group \"%.80s\"",
                             group_name);
        }
    }
    *ret_uid = uid;
    *ret_gid = gid;
    return 0;
}

/* A file that need not be there. */
static int read_database(struct docker_engine *engine, const char *id, const char *path, uint64_t deadline_ms,
                         struct buffer *ret, struct error *err)
{
    struct error why = {0};

    if (docker_archive_get(engine, id, path, MAX_DATABASE, deadline_ms, ret, &why) == 0) {
        return 0;
    }
    if (why.code == ERROR_NO_SUCH_FILE || why.code == ERROR_NOT_REGULAR) {
        buffer_clear(ret);
        return 0;
    }
    *err = why;
    return -1;
}

int docker_user_resolve(struct docker_engine *engine, const char *id, const char *user, uint64_t deadline_ms,
                        uint32_t *ret_uid, uint32_t *ret_gid, struct error *err)
{
    cleanup_buffer struct buffer passwd = BUFFER_INIT(MAX_DATABASE + 4096);
    cleanup_buffer struct buffer group = BUFFER_INIT(MAX_DATABASE + 4096);
    const char *colon = strchr(user, ':');
    uint32_t uid, gid;

    if (user[0] == '\0' || strcmp(user, "0") == 0 || strcmp(user, "0:0") == 0) {
        *ret_uid = *ret_gid = 0;
        return 0;
    }
    if (colon != NULL && parse_id(user, (size_t)(colon - user), &uid) &&
        parse_id(colon + 1, strlen(colon + 1), &gid)) {
        *ret_uid = uid;
        *ret_gid = gid;
        return 0;
    }
    if (read_database(engine, id, "/etc/passwd", deadline_ms, &passwd, err) < 0 ||
        (colon != NULL && read_database(engine, id, "/etc/group", deadline_ms, &group, err) < 0)) {
        return -1;
    }
    return docker_user_lookup(user, &(struct docker_text){(const char *)passwd.data, passwd.length},
                              &(struct docker_text){(const char *)group.data, group.length}, ret_uid, ret_gid,
                              err);
}
