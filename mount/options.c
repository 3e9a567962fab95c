/* The table of options, and how one is set. Where options are read from is mount/options_read.c. */
#include "mount/options.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/units.h"

#define ATTACH_BACKEND "docker" /* where containers of others are looked for, */
#define NO_CONTAINERS "local"   /* if the default is this one */
#define FULL_ID_LENGTH 64       /* of a container, in hexadecimal digits; */
#define SHORT_ID_LENGTH 12      /* as people are shown it */

enum option_kind {
    OPTION_TEXT,     /* char *; an empty one is refused */
    OPTION_FLAG,     /* bool */
    OPTION_DURATION, /* uint64_t, milliseconds */
    OPTION_SIZE,     /* uint64_t, bytes */
    OPTION_COUNT,    /* uint64_t */
    OPTION_CPUS,     /* uint64_t, thousandths */
    OPTION_CHOICE,   /* int, the place in `choices` */
    OPTION_ENV,
    OPTION_CAPS,
    OPTION_SETTING,
    OPTION_LIST, /* -o itself */
};

struct option_row {
    const char *name;
    char letter; /* 0 for none */
    enum option_kind kind;
    unsigned groups;
    size_t offset; /* in struct options */
    const char *const *choices;
    const char *value;  /* how help calls the value; NULL for a flag */
    const char *help;   /* one line */
    bool only_argument; /* has a meaning on a command line alone */
};

static const char *const network_choices[] = {
    [NETWORK_NONE] = "none", [NETWORK_FULL] = "full", NULL};
static const char *const idmap_choices[] = {
    [FS_IDMAP_USER] = "user", [FS_IDMAP_NONE] = "none", NULL};
static const char *const symlink_choices[] = {
    [FS_SYMLINKS_CONTAINED] = "contained", [FS_SYMLINKS_RAW] = "raw", NULL};
static const char *const special_choices[] = {
    [FS_SPECIAL_SOCKET] = "socket", [FS_SPECIAL_REAL] = "real", NULL};

#define AT(field) offsetof(struct options, field)

static const struct option_row rows[] = {
    {"backend", 0, OPTION_TEXT, OPTIONS_BACKEND, AT(backend), NULL, "local|docker|k8s",
     "where the sandbox lives (default: local)", false},
    {"image", 0, OPTION_TEXT, OPTIONS_SPEC, AT(spec.image), NULL, "IMAGE",
     "what it is made from, for backends that have images", false},
    {"workdir", 0, OPTION_TEXT, OPTIONS_SPEC, AT(spec.workdir), NULL, "PATH",
     "the workspace's path inside (default: /workspace)", false},
    {"env", 0, OPTION_ENV, OPTIONS_SPEC | OPTIONS_EXEC | OPTIONS_SHELL, 0, NULL, "NAME=VALUE",
     "a variable for its commands; may be repeated", false},
    {"network", 0, OPTION_CHOICE, OPTIONS_SPEC, AT(network), network_choices, "none|full",
     "what commands inside can reach (default: none)", false},
    {"memory", 0, OPTION_SIZE, OPTIONS_SPEC, AT(spec.memory_bytes), NULL, "SIZE",
     "limit of memory, such as 512M or 2G", false},
    {"cpus", 0, OPTION_CPUS, OPTIONS_SPEC, AT(spec.cpu_millis), NULL, "NUMBER",
     "limit of processor time, such as 0.5, 2 or 500m", false},
    {"pids", 0, OPTION_COUNT, OPTIONS_SPEC, AT(spec.pids), NULL, "NUMBER",
     "limit of processes and threads", false},
    {"read-only-root", 0, OPTION_FLAG, OPTIONS_SPEC, AT(spec.read_only_root), NULL, NULL,
     "nothing but the workspace and /tmp can be written to", false},
    {"user", 0, OPTION_TEXT, OPTIONS_SPEC, AT(spec.user), NULL, "UID[:GID]",
     "who commands run as, in numbers", false},
    {"cap-drop", 0, OPTION_CAPS, OPTIONS_SPEC, 0, NULL, "NAMES",
     "capabilities to take away, with : between them; ALL for all", false},
    {"attach", 0, OPTION_TEXT, OPTIONS_SPEC, AT(spec.attach), NULL, "CONTAINER",
     "work in this container, which somebody else made", false},
    {"set", 0, OPTION_SETTING, OPTIONS_SPEC, 0, NULL, "NAME=VALUE",
     "a setting that the backend knows; may be repeated", false},

    {"socket", 0, OPTION_TEXT, OPTIONS_MOUNT, AT(socket), NULL, "PATH",
     "the control socket (default: DIR.sock)", false},
    {"op-timeout", 0, OPTION_DURATION, OPTIONS_MOUNT, AT(op_timeout_ms), NULL, "TIME",
     "how long a file operation may wait (default: 30s)", false},
    {"max-file-size", 0, OPTION_SIZE, OPTIONS_MOUNT, AT(max_file_size), NULL, "SIZE",
     "larger files are not read or written (default: 4M; 0: no limit)", false},
    {"idmap", 0, OPTION_CHOICE, OPTIONS_MOUNT, AT(idmap), idmap_choices, "user|none",
     "user: files of the sandbox's user appear as yours (default)", false},
    {"symlinks", 0, OPTION_CHOICE, OPTIONS_MOUNT, AT(symlinks), symlink_choices, "contained|raw",
     "contained: links that leave the mount are refused (default)", false},
    {"special", 0, OPTION_CHOICE, OPTIONS_MOUNT, AT(special), special_choices, "socket|real",
     "socket: opening a FIFO or device fails at once (default)", false},
    {"allow-other", 0, OPTION_FLAG, OPTIONS_MOUNT, AT(allow_other), NULL, NULL,
     "other users may enter the mount", false},
    {"ro", 0, OPTION_FLAG, OPTIONS_MOUNT, AT(read_only), NULL, NULL, "mount read-only", false},
    {"noexec", 0, OPTION_FLAG, OPTIONS_MOUNT, AT(no_exec), NULL, NULL,
     "programs in the mount cannot be run from outside", false},
    {"", 'o', OPTION_LIST, OPTIONS_MOUNT, 0, NULL, "LIST",
     "options as mount(8) writes them: backend=local,op_timeout=5s,ro", true},
    {"foreground", 'f', OPTION_FLAG, OPTIONS_MOUNT, AT(foreground), NULL, NULL,
     "stay in the foreground and log to standard error", true},

    {"timeout", 0, OPTION_DURATION, OPTIONS_EXEC, AT(timeout_ms), NULL, "TIME",
     "kill it and exit 124 after this (250ms, 30s, 5m; default: never)", false},
    {"cwd", 0, OPTION_TEXT, OPTIONS_EXEC | OPTIONS_SHELL, AT(cwd), NULL, "PATH",
     "run it there; a relative path starts at the workspace", true},
    {"shell", 0, OPTION_TEXT, OPTIONS_EXEC, AT(shell), NULL, "NAME",
     "run it in this shell, whose directory and variables stay for the next", true},
    {"no-stdin", 'n', OPTION_FLAG, OPTIONS_EXEC, AT(no_stdin), NULL, NULL,
     "give it an empty standard input", true},
    {"tty", 't', OPTION_FLAG, OPTIONS_EXEC, AT(tty), NULL, NULL,
     "run it on a terminal, with this one's keys and size", true},
    {"detach", 'd', OPTION_FLAG, OPTIONS_EXEC, AT(detach), NULL, NULL,
     "start it, print the name of its job, and do not wait for it", true},

    {"timeout", 0, OPTION_DURATION, OPTIONS_WAIT, AT(wait_ms), NULL, "TIME",
     "exit 124 after this, and leave the job running (0: at once; default: never)", true},
    {"kill", 0, OPTION_FLAG, OPTIONS_WAIT, AT(kill), NULL, NULL,
     "kill it first, with everything that it started", true},

    {"lazy", 'l', OPTION_FLAG, OPTIONS_UMOUNT, AT(lazy), NULL, NULL,
     "detach it even while programs still use it", true},
    {"json", 0, OPTION_FLAG, OPTIONS_JSON, AT(json), NULL, NULL, "answer in JSON, for programs",
     true},
    {"verbose", 'v', OPTION_FLAG, OPTIONS_COMMON, AT(verbose), NULL, NULL,
     "say what is being done, on standard error", false},
    {"help", 'h', OPTION_FLAG, OPTIONS_COMMON, AT(help), NULL, NULL, "this text", true},
};

#define ROWS (sizeof rows / sizeof rows[0])
_Static_assert(ROWS <= 64, "a bit of `said` for each row");

void options_init(struct options *options)
{
    *options = (struct options){
        .network = NETWORK_NONE,
        .max_file_size = MAX_FILE_BYTES,
        .idmap = FS_IDMAP_USER,
        .symlinks = FS_SYMLINKS_CONTAINED,
        .special = FS_SPECIAL_SOCKET,
        .wait_ms = OPTIONS_WAIT_FOR_EVER,
    };
    sandbox_spec_init(&options->spec);
}

void options_release(struct options *options)
{
    sandbox_spec_release(&options->spec);
    env_list_release(&options->exec_env);
    free(options->backend);
    free(options->socket);
    free(options->cwd);
    free(options->shell);
    options_init(options);
}

/* ---- Setting one ---------------------------------------------------------------------------- */

static int set_text(char **field, const struct option_row *row, const char *value,
                    struct error *err)
{
    char *copy;

    if (value[0] == '\0') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s: the value is empty", row->name);
    }
    copy = strdup(value);
    if (copy == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    free(*field);
    *field = copy;
    return 0;
}

static int set_flag(bool *field, const struct option_row *row, const char *value, struct error *err)
{
    static const char *const words[2][5] = {{"no", "off", "false", "0", NULL},
                                            {"yes", "on", "true", "1", NULL}};

    if (value == NULL) {
        *field = true;
        return 0;
    }
    for (int truth = 0; truth < 2; truth++) {
        for (const char *const *word = words[truth]; *word != NULL; word++) {
            if (strcasecmp(value, *word) == 0) {
                *field = truth == 1;
                return 0;
            }
        }
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s: \"%.80s\" is neither yes nor no", row->name,
                     value);
}

static int set_choice(int *field, const struct option_row *row, const char *value,
                      struct error *err)
{
    for (int i = 0; row->choices[i] != NULL; i++) {
        if (strcmp(value, row->choices[i]) == 0) {
            *field = i;
            return 0;
        }
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s: \"%.80s\" is not one of %s", row->name, value,
                     row->value);
}

/* A whole number without sign or unit. */
static int parse_count(const char *text, uint64_t *ret, struct error *err)
{
    uint64_t value = 0;

    for (const char *p = text; *p != '\0'; p++) {
        if (!isdigit((unsigned char)*p) || value > UINT32_MAX) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "\"%.80s\" is not a number", text);
        }
        value = value * 10 + (uint64_t)(*p - '0');
    }
    if (text[0] == '\0' || value > UINT32_MAX) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%.80s\" is not a number", text);
    }
    *ret = value;
    return 0;
}

/* "2", "0.5" and "1.25" processors, or "500m" thousandths of one. A decimal number of processors reads
 * like a duration in seconds, and its thousandths like milliseconds. */
static int parse_cpus(const char *text, uint64_t *ret, struct error *err)
{
    struct error ignored = {0};
    char number[32];
    size_t length = strlen(text);
    bool thousandths = length > 0 && text[length - 1] == 'm';

    if (length + 2 > sizeof number || strspn(text, "0123456789.") + thousandths != length) {
        length = 0;
    }
    snprintf(number, sizeof number, "%.*s%s", (int)length, text, thousandths ? "s" : "");
    if (length == 0 || parse_duration(number, ret, &ignored) < 0 || *ret > 1000 * 1000) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"%.80s\" is not a number of processors (such as 2, 0.5, 500m)", text);
    }
    return 0;
}

/* Adds the names of a list with ":" or "," between them. */
static int add_caps(struct sandbox_spec *spec, const char *value, struct error *err)
{
    size_t count = 0;

    while (spec->cap_drop != NULL && spec->cap_drop[count] != NULL) {
        count++;
    }
    for (const char *p = value;; p++) {
        size_t length = strcspn(p, ":,");
        char **caps;
        char *name;

        if (length > 4 && strncasecmp(p, "CAP_", 4) == 0) {
            p += 4;
            length -= 4;
        }
        if (length == 0 || length > 40 || count == OPTIONS_MAX_CAPS) {
            return error_set(err, ERROR_BAD_REQUEST, 0,
                             "cap-drop: \"%.80s\" is not a list of names", value);
        }
        caps = realloc(spec->cap_drop, (count + 2) * sizeof *caps);
        if (caps == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        spec->cap_drop = caps;
        caps[count] = NULL;
        name = strndup(p, length);
        if (name == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        for (char *c = name; *c != '\0'; c++) {
            *c = (char)toupper((unsigned char)*c);
        }
        caps[count++] = name;
        caps[count] = NULL;
        p += length;
        if (*p == '\0') {
            return 0;
        }
    }
}

/* A variable of exec's own command line is for this one command, all others are for the sandbox. */
static int add_env(struct options *options, const char *value, unsigned groups,
                   enum option_source source, struct error *err)
{
    bool for_command = source == OPTION_FROM_ARGUMENTS && (groups & (OPTIONS_EXEC | OPTIONS_SHELL)) != 0;

    return env_list_set(for_command ? &options->exec_env : &options->spec.env, value, err);
}

static int set_row(struct options *options, const struct option_row *row, const char *value,
                   unsigned groups, enum option_source source, struct error *err)
{
    void *field = (char *)options + row->offset;

    if (value == NULL && row->kind != OPTION_FLAG) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a value is missing");
    }
    switch (row->kind) {
    case OPTION_TEXT:
        return set_text(field, row, value, err);
    case OPTION_FLAG:
        return set_flag(field, row, value, err);
    case OPTION_DURATION:
        return parse_duration(value, field, err);
    case OPTION_SIZE:
        return parse_size(value, field, err);
    case OPTION_COUNT:
        return parse_count(value, field, err);
    case OPTION_CPUS:
        return parse_cpus(value, field, err);
    case OPTION_CHOICE:
        return set_choice(field, row, value, err);
    case OPTION_ENV:
        return add_env(options, value, groups, source, err);
    case OPTION_CAPS:
        return add_caps(&options->spec, value, err);
    case OPTION_SETTING:
        return env_list_set(&options->spec.engine, value, err);
    case OPTION_LIST:
        return options_read_list(options, value, err);
    }
    return 0;
}

static bool same_name(const char *said, const char *name)
{
    for (; *said != '\0' && *name != '\0'; said++, name++) {
        if (*said != *name && !(*said == '_' && *name == '-')) {
            return false;
        }
    }
    return *said == *name;
}

/* One of these groups where there is one, for a name may mean several things; else any. */
static const struct option_row *find_row(const char *name, unsigned groups)
{
    const struct option_row *found = NULL;

    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].name[0] != '\0' && same_name(name, rows[i].name) &&
            (found == NULL || (found->groups & groups) == 0)) {
            found = &rows[i];
        }
    }
    return found;
}

int options_set(struct options *options, const char *name, const char *value, unsigned groups,
                enum option_source source, struct error *err)
{
    const struct option_row *row = find_row(name, groups);

    if (row == NULL || (row->only_argument && source != OPTION_FROM_ARGUMENTS)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "unknown option \"%.80s\"", name);
    }
    if ((row->groups & groups) == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the option \"%s\" does not go with this verb",
                         row->name);
    }
    if (set_row(options, row, value, groups, source, err) < 0) {
        return strncmp(err->message, row->name, strlen(row->name)) == 0
                   ? -1
                   : error_prefix(err, "%s", row->name);
    }
    if (source == OPTION_FROM_ARGUMENTS || source == OPTION_FROM_LIST) {
        options->said |= UINT64_C(1) << (row - rows);
    }
    return 0;
}

/* ---- The environment ------------------------------------------------------------------------ */

/* Whether `variable` (NAME=...) is called like the option. */
static bool is_variable_of(const char *variable, const char *name)
{
    for (; *name != '\0'; name++, variable++) {
        if (*variable != (*name == '-' ? '_' : toupper((unsigned char)*name))) {
            return false;
        }
    }
    return *variable == '=';
}

int options_read_environment(struct options *options, char *const *environment, struct error *err)
{
    static const char prefix[] = "HANDSFS_";

    for (; *environment != NULL; environment++) {
        const char *variable = *environment + strlen(prefix);
        const char *value;

        if (strncmp(*environment, prefix, strlen(prefix)) != 0) {
            continue;
        }
        value = strchr(variable, '=');
        if (value == NULL || value[1] == '\0') {
            continue;
        }
        for (size_t i = 0; i < ROWS; i++) {
            if (rows[i].name[0] != '\0' && !rows[i].only_argument &&
                is_variable_of(variable, rows[i].name) &&
                set_row(options, &rows[i], value + 1, ~0u, OPTION_FROM_ENVIRONMENT, err) < 0) {
                return error_prefix(err, "environment variable %.*s", (int)(value - *environment),
                                    *environment);
            }
        }
    }
    return 0;
}

/* ---- The command line ----------------------------------------------------------------------- */

static const struct option_row *find_letter(char letter, unsigned groups)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].letter == letter && (rows[i].groups & groups) != 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Reads the option in words[*at] and steps over the words that it takes. */
static int read_long(struct options *options, int count, char **words, int *at, unsigned groups,
                     struct error *err)
{
    const char *said = words[*at] + 2;
    size_t length = strcspn(said, "=");
    const char *value = said[length] == '=' ? said + length + 1 : NULL;
    char name[OPTIONS_MAX_NAME];
    const struct option_row *row;

    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), said);
    row = length < sizeof name ? find_row(name, groups) : NULL;
    if (row != NULL && row->kind != OPTION_FLAG && value == NULL) {
        if (*at + 1 >= count) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "--%s: a value is missing", row->name);
        }
        value = words[++*at];
    }
    ++*at;
    if (row == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "unknown option \"--%.*s\"",
                         (int)(length < 80 ? length : 80), said);
    }
    return options_set(options, name, value, groups, OPTION_FROM_ARGUMENTS, err);
}

/* The same for "-fv" and "-o LIST" or "-oLIST". */
static int read_letters(struct options *options, int count, char **words, int *at, unsigned groups,
                        struct error *err)
{
    const char *p = words[(*at)++] + 1;

    for (; *p != '\0'; p++) {
        const struct option_row *row = find_letter(*p, groups);
        const char *value = NULL;

        if (row == NULL) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "unknown option \"-%c\"",
                             isprint((unsigned char)*p) ? *p : '?');
        }
        if (row->kind != OPTION_FLAG) {
            value = p[1] != '\0' ? p + 1 : *at < count ? words[(*at)++] : NULL;
        }
        if (set_row(options, row, value, groups, OPTION_FROM_ARGUMENTS, err) < 0) {
            return error_prefix(err, "-%c", *p);
        }
        if (value != NULL) {
            break;
        }
    }
    return 0;
}

int options_read_arguments(struct options *options, int count, char **words, unsigned groups,
                           size_t max_words, bool takes_command, struct arguments *ret,
                           struct error *err)
{
    cleanup_free char **kept = calloc(max_words + 1, sizeof *kept);
    size_t n = 0;
    int at = 0;

    if (kept == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    while (at < count) {
        char *word = words[at];
        int r = 0;

        if (strcmp(word, "--") == 0) {
            at++;
            if (takes_command) {
                break;
            }
            groups = 0; /* from here on, words only */
        } else if (groups != 0 && strncmp(word, "--", 2) == 0) {
            r = read_long(options, count, words, &at, groups, err);
        } else if (groups != 0 && word[0] == '-' && word[1] != '\0') {
            r = read_letters(options, count, words, &at, groups, err);
        } else if (n == max_words && takes_command) {
            break;
        } else if (n == max_words) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "\"%.80s\" is one word too many", word);
        } else {
            kept[n++] = word;
            at++;
        }
        if (r < 0) {
            return -1;
        }
    }
    *ret = (struct arguments){.words = take_ptr(kept), .count = n};
    if (at < count) {
        ret->command = words + at;
        ret->command_count = (size_t)(count - at);
    }
    return 0;
}

/* ---- What becomes of them ------------------------------------------------------------------- */

int options_session_of_attach(const struct options *options, char ret[MAX_SESSION_NAME + 1],
                              struct error *err)
{
    const char *container = options->spec.attach != NULL ? options->spec.attach : "";
    size_t length = strlen(container);
    struct error why = {0};

    if (length == FULL_ID_LENGTH && strspn(container, "0123456789abcdef") == length) {
        length = SHORT_ID_LENGTH;
    }
    snprintf(ret, MAX_SESSION_NAME + 1, "%.*s", (int)(length > MAX_SESSION_NAME ? 0 : length),
             container);
    if (session_name_check(ret, &why) < 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"%.80s\" cannot be the session's name, too: give the session one",
                         container);
    }
    return 0;
}

static bool is_said(const struct options *options, const char *name)
{
    return (options->said >> (find_row(name, ~0u) - rows) & 1) != 0;
}

/* A container that is there already is taken as it is. Defaults of files and the environment are for those that
 * are made; what is asked for in this very call and cannot be had is an error. */
static int settle_attach(struct options *options, struct error *err)
{
    static const char *const of_made_ones[] = {
        "image", "network", "memory", "cpus", "pids", "read-only-root", "cap-drop", "user", NULL};
    struct sandbox_spec *spec = &options->spec;

    for (const char *const *name = of_made_ones; *name != NULL; name++) {
        if (is_said(options, *name)) {
            return error_set(
                err, ERROR_BAD_REQUEST, 0,
                "--%s does not go with --attach: the container is there already and is "
                "taken as it is",
                *name);
        }
    }
    if (options->backend == NULL ||
        (!is_said(options, "backend") && strcmp(options->backend, NO_CONTAINERS) == 0)) {
        char *backend = strdup(ATTACH_BACKEND);

        if (backend == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        free(options->backend);
        options->backend = backend;
    }
    free(take_ptr(spec->image));
    free(take_ptr(spec->user));
    for (char **cap = spec->cap_drop; cap != NULL && *cap != NULL; cap++) {
        free(*cap);
    }
    free(take_ptr(spec->cap_drop));
    spec->memory_bytes = spec->cpu_millis = spec->pids = 0;
    spec->read_only_root = false;
    options->network = NETWORK_NONE;
    return 0;
}

int options_spec(struct options *options, const char *session, struct error *err)
{
    char *copy;

    if (options->spec.attach != NULL && settle_attach(options, err) < 0) {
        return -1;
    }
    copy = strdup(session);
    if (copy == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    free(options->spec.session);
    options->spec.session = copy;
    options->spec.network = (enum network_mode)options->network;
    return sandbox_spec_check(&options->spec, err);
}

bool options_say_spec(const struct options *options)
{
    for (size_t i = 0; i < ROWS; i++) {
        if ((rows[i].groups & OPTIONS_SPEC) != 0 && (options->said >> i & 1) != 0) {
            return true;
        }
    }
    return false;
}

void options_fs(const struct options *options, struct fs_options *ret)
{
    fs_options_init(ret);
    ret->op_timeout_ms = options->op_timeout_ms;
    ret->max_file_size = options->max_file_size;
    ret->idmap = (enum fs_idmap)options->idmap;
    ret->symlinks = (enum fs_symlinks)options->symlinks;
    ret->special = (enum fs_special)options->special;
    ret->allow_other = options->allow_other;
    ret->read_only = options->read_only;
    ret->no_exec = options->no_exec;
    ret->uid = getuid();
    ret->gid = getgid();
}

void options_print_help(FILE *out, unsigned groups)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct option_row *row = &rows[i];
        char left[64];

        if ((row->groups & groups) == 0) {
            continue;
        }
        if (row->name[0] == '\0') {
            snprintf(left, sizeof left, "-%c %s", row->letter, row->value);
        } else if (row->letter != 0) {
            snprintf(left, sizeof left, "-%c, --%s", row->letter, row->name);
        } else {
            snprintf(left, sizeof left, "    --%s%s%s", row->name, row->value != NULL ? " " : "",
                     row->value != NULL ? row->value : "");
        }
        fprintf(out, "  %-30s %s\n", left, row->help);
    }
}
