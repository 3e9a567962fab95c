/* Where options are read from besides the command line: the list behind -o and the configuration files. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mount/options.h"
#include "sandbox/buffer.h"
#include "sandbox/cleanup.h"

#define SYSTEM_FILE "/etc/handsfs/config"

/* What mount(8), fstab(5) and systemd.mount(5) say about any file system. It is for them, or it is so here
 * anyway. (`user` without a value is fstab's; with one it is ours.) */
static bool is_of_mount(const char *name, const char *value)
{
    static const char *const known[] = {
        "rw",         "auto",        "noauto",     "nouser",
        "users",      "owner",       "group",      "defaults",
        "dev",        "nodev",       "suid",       "nosuid",
        "exec",       "async",       "sync",       "nofail",
        "atime",      "noatime",     "diratime",   "nodiratime",
        "relatime",   "strictatime", "norelatime", "lazytime",
        "nolazytime", "_netdev",     "comment",    "default_permissions",
        "fsname",     "subtype"};

    if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0 ||
        (value == NULL && strcmp(name, "user") == 0)) {
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Sets what stands in `item`, "key" or "key=value". */
static int read_item(struct options *options, char *item, struct error *err)
{
    char *value = strchr(item, '=');

    if (value != NULL) {
        *value++ = '\0';
    }
    if (strcmp(item, "rw") == 0) {
        options->read_only = false;
    }
    if (strcmp(item, "exec") == 0) {
        options->no_exec = false;
    }
    if (is_of_mount(item, value)) {
        return 0;
    }
    return options_set(options, item, value,
                       OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_SPEC | OPTIONS_MOUNT,
                       OPTION_FROM_LIST, err);
}

int options_read_list(struct options *options, const char *list, struct error *err)
{
    cleanup_free char *item = malloc(strlen(list) + 1);
    size_t length = 0;

    if (item == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    for (const char *p = list;; p++) {
        if (*p == '\\' && p[1] != '\0') {
            item[length++] = *++p;
        } else if (*p != ',' && *p != '\0') {
            item[length++] = *p;
        } else {
            item[length] = '\0';
            if (length > 0 && read_item(options, item, err) < 0) {
                return -1;
            }
            length = 0;
            if (*p == '\0') {
                return 0;
            }
        }
    }
}

/* ---- Configuration files -------------------------------------------------------------------- */

/* Cuts white space off both ends. */
static char *trim(char *text)
{
    size_t length;

    while (isspace((unsigned char)*text)) {
        text++;
    }
    length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

/* One line: nothing, a comment, "key = value", or a flag's key alone. */
static int read_line(struct options *options, char *line, struct error *err)
{
    char *key = trim(line);
    char *value = strchr(key, '=');

    if (key[0] == '\0' || key[0] == '#') {
        return 0;
    }
    if (value != NULL) {
        *value++ = '\0';
        value = trim(value);
        key = trim(key);
    }
    return options_set(options, key, value, ~0u, OPTION_FROM_FILE, err);
}

int options_read_config(struct options *options, const char *text, size_t length, const char *name,
                        struct error *err)
{
    const char *end = text + length;

    for (unsigned number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t line_length = (size_t)((newline != NULL ? newline : end) - text);
        cleanup_free char *line = malloc(line_length + 1);

        if (line == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        memcpy(line, text, line_length);
        line[line_length] = '\0';
        if (strlen(line) != line_length) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "%s:%u: a NUL byte in the line", name,
                             number);
        }
        if (read_line(options, line, err) < 0) {
            return error_prefix(err, "%s:%u", name, number);
        }
        text += line_length + (newline != NULL ? 1 : 0);
    }
    return 0;
}

/* Reads the file's text; ENOENT and ENOTDIR make it an empty one. */
static int read_file(struct options *options, const char *path, struct error *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    cleanup_buffer struct buffer text = BUFFER_INIT(OPTIONS_MAX_FILE + 1);

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return 0;
    }
    if (fd < 0) {
        return error_set(err, ERROR_BAD_REQUEST, errno, "%s: %s", path, strerror(errno));
    }
    while (text.length <= OPTIONS_MAX_FILE) {
        size_t room = OPTIONS_MAX_FILE + 1 - text.length;
        uint8_t *at = buffer_reserve(&text, room);
        ssize_t n;

        if (at == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        n = read(fd, at, room);
        if (n < 0 && errno != EINTR) {
            return error_set(err, ERROR_BAD_REQUEST, errno, "%s: %s", path, strerror(errno));
        }
        if (n == 0) {
            return options_read_config(options, (const char *)text.data, text.length, path, err);
        }
        buffer_commit(&text, n > 0 ? (size_t)n : 0);
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s is over %u bytes", path, OPTIONS_MAX_FILE);
}

/* The path of the user's file, to be freed; NULL where there is no home. 0 or -1 for no memory. */
static int user_file(char **ret, struct error *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int r = 0;

    *ret = NULL;
    if (xdg != NULL && xdg[0] == '/') {
        r = asprintf(ret, "%s/handsfs/config", xdg);
    } else if (home != NULL && home[0] == '/') {
        r = asprintf(ret, "%s/.config/handsfs/config", home);
    }
    if (r < 0) {
        *ret = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return 0;
}

int options_read_defaults(struct options *options, struct error *err)
{
    cleanup_free char *user = NULL;

    if (user_file(&user, err) < 0 || read_file(options, SYSTEM_FILE, err) < 0 ||
        (user != NULL && read_file(options, user, err) < 0)) {
        return -1;
    }
    return options_read_environment(options, environ, err);
}
