#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox/capability.h"
#include "sandbox/sandbox.h"

#define ID_MAX 4294967294u /* the last one means "none" */

void sandbox_spec_init(struct sandbox_spec *spec)
{
    *spec = (struct sandbox_spec){.network = NETWORK_NONE};
}

void sandbox_spec_release(struct sandbox_spec *spec)
{
    free(spec->session);
    free(spec->image);
    free(spec->workdir);
    free(spec->user);
    free(spec->attach);
    env_list_release(&spec->env);
    env_list_release(&spec->engine);
    if (spec->cap_drop != NULL) {
        for (char **cap = spec->cap_drop; *cap != NULL; cap++) {
            free(*cap);
        }
        free(spec->cap_drop);
    }
    sandbox_spec_init(spec);
}

int session_name_check(const char *session, struct error *err)
{
    size_t length = strlen(session);

    if (length == 0 || length > MAX_SESSION_NAME || !isalnum((unsigned char)session[0])) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"%.80s\" is not a session name (1 to %d letters, digits, _ . -, a letter or "
                         "digit first)",
                         session, MAX_SESSION_NAME);
    }
    for (const char *p = session; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("_.-", *p) == NULL) {
            return error_set(err, ERROR_BAD_REQUEST, 0,
                             "\"%s\" is not a session name: only letters, digits, _ . - may be in it",
                             session);
        }
    }
    return 0;
}

/* Whether `path` is `prefix` or below it. */
static bool is_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* A workdir is absolute, clean (no empty, "." or ".." component, no "/" at the end) and not one of the
 * places that a sandbox needs for itself. A container that somebody else made has its workdir where they want
 * it, but never in the kernel's file systems. */
static int workdir_check(const char *workdir, bool attach, struct error *err)
{
    static const char *const taken[] = {"/proc", "/dev", "/sys", "/tmp", "/usr", "/etc", "/run/handsfs"};
    size_t count = attach ? 3 : sizeof taken / sizeof taken[0];
    const char *p = workdir;

    if (*p != '/' || strlen(workdir) > 1024) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "workdir \"%.100s\" is not an absolute path", workdir);
    }
    while (*p == '/') {
        size_t length = strcspn(++p, "/");

        if (length == 0 || (length == 1 && p[0] == '.') ||
            (length == 2 && p[0] == '.' && p[1] == '.')) {
            return error_set(err, ERROR_BAD_REQUEST, 0,
                             "workdir \"%s\" has an empty, . or .. component", workdir);
        }
        p += length;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_below(workdir, taken[i])) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "workdir \"%s\" lies in %s", workdir, taken[i]);
        }
    }
    return 0;
}

/* Reads a decimal id and gives what follows it; NULL where there is none. */
static const char *parse_id(const char *text, uint32_t *ret)
{
    char *end;
    unsigned long long value;

    if (!isdigit((unsigned char)*text)) {
        return NULL;
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || value > ID_MAX) {
        return NULL;
    }
    *ret = (uint32_t)value;
    return end;
}

int user_parse(const char *user, uint32_t *ret_uid, uint32_t *ret_gid, struct error *err)
{
    const char *rest = parse_id(user, ret_uid);

    *ret_gid = *ret_uid;
    if (rest != NULL && *rest == ':') {
        rest = parse_id(rest + 1, ret_gid);
    }
    if (rest == NULL || *rest != '\0') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "user \"%.60s\" is not a number UID or UID:GID", user);
    }
    return 0;
}

const char *network_mode_name(enum network_mode network)
{
    return network == NETWORK_FULL ? "full" : "none";
}

static int capabilities_check(char *const *names, struct error *err)
{
    for (; names != NULL && *names != NULL; names++) {
        if (strcasecmp(*names, "ALL") != 0 && capability_bit(*names) == 0) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "there is no capability \"%.60s\"", *names);
        }
    }
    return 0;
}

int sandbox_spec_check(struct sandbox_spec *spec, struct error *err)
{
    if (session_name_check(spec->session != NULL ? spec->session : "", err) < 0 ||
        capabilities_check(spec->cap_drop, err) < 0) {
        return -1;
    }
    if (spec->attach != NULL && (spec->workdir == NULL || spec->workdir[0] == '\0')) {
        return 0; /* the container has one of its own */
    }
    if (spec->workdir == NULL || spec->workdir[0] == '\0') {
        char *workdir = strdup(DEFAULT_WORKDIR);

        if (workdir == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        free(spec->workdir);
        spec->workdir = workdir;
    }
    return workdir_check(spec->workdir, spec->attach != NULL, err);
}

/* The length of the name before "=", or 0 where it is not [A-Za-z_][A-Za-z0-9_]*. */
static size_t env_name_length(const char *assignment)
{
    size_t n = 0;

    if (isdigit((unsigned char)assignment[0])) {
        return 0;
    }
    while (isalnum((unsigned char)assignment[n]) || assignment[n] == '_') {
        n++;
    }
    return assignment[n] == '=' ? n : 0;
}

int env_list_set(struct env_list *list, const char *assignment, struct error *err)
{
    size_t name = env_name_length(assignment);
    size_t i = 0;
    char *copy;
    char **entries;

    if (name == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"%.80s\" is not NAME=VALUE with a name of letters, digits and _", assignment);
    }
    if (strlen(assignment) > MAX_ENV_VALUE) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "variable %.*s: value over the kernel's %d bytes",
                         (int)(name < 80 ? name : 80), assignment, MAX_ENV_VALUE);
    }
    while (i < list->count && strncmp(list->entries[i], assignment, name + 1) != 0) {
        i++;
    }
    if (i == MAX_ENV_VARIABLES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "more than %d variables", MAX_ENV_VARIABLES);
    }
    copy = strdup(assignment);
    if (copy == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (i < list->count) {
        free(list->entries[i]);
        list->entries[i] = copy;
        return 0;
    }
    entries = realloc(list->entries, (list->count + 2) * sizeof *entries);
    if (entries == NULL) {
        free(copy);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    entries[list->count++] = copy;
    entries[list->count] = NULL;
    list->entries = entries;
    return 0;
}

void env_list_release(struct env_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->entries[i]);
    }
    free(list->entries);
    *list = (struct env_list){0};
}
