/* How a command is started: pipes, environment, and a text of any length for bash. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hand/exec.h"
#include "sandbox/cleanup.h"

/* ---- Environment ------------------------------------------------------------------------------- */

/* The NAME=VALUE strings of a request, each with a NUL, in one piece of memory that is theirs. */
struct additions {
    char *text;
    char **strings;
    size_t count;
};

static void additions_free(struct additions *a)
{
    free(a->text);
    free(a->strings);
}

#define cleanup_additions __attribute__((cleanup(additions_free)))

static int additions_copy(struct additions *a, const struct wire_exec *request)
{
    struct wire_reader r = {request->env, request->env_length, false};
    char *at;

    a->text = malloc(request->env_length + 1);
    a->strings = calloc(request->env_count + 1, sizeof *a->strings);
    if (a->text == NULL || a->strings == NULL) {
        return -1;
    }
    at = a->text;
    for (uint32_t i = 0; i < request->env_count; i++) {
        size_t length;
        const uint8_t *bytes = wire_get_bytes(&r, request->env_length, &length);

        memcpy(at, bytes, length);
        at[length] = '\0';
        a->strings[a->count++] = at;
        at += length + 1; /* a length before each string is longer than the NUL after it */
    }
    return 0;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");

    return strncmp(a, b, length) == 0 && (b[length] == '=' || b[length] == '\0');
}

static void env_set(char **env, size_t *count, char *entry)
{
    for (size_t i = 0; i < *count; i++) {
        if (same_name(entry, env[i])) {
            env[i] = entry;
            return;
        }
    }
    env[(*count)++] = entry;
}

static bool is_name(const char *entry)
{
    size_t length = strspn(entry, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return length > 0 && entry[length] == '=' && !(entry[0] >= '0' && entry[0] <= '9');
}

/* Leaves only what bash has no variables for, and thus does not carry in a shell's state either. */
static size_t remove_variables(char **env, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_name(env[i]) && strncmp(env[i], "BASH_FUNC_", strlen("BASH_FUNC_")) != 0) {
            env[kept++] = env[i];
        }
    }
    memset(env + kept, 0, (count - kept) * sizeof *env);
    return kept;
}

/* The hand's own environment and on top of it the request's; free() the array only. */
static char **env_new(const struct execution *e, const struct additions *additions, bool with_terminal)
{
    static char term[] = "TERM=" EXEC_TERM;
    size_t count = 0;
    char **env;

    while (environ[count] != NULL) {
        count++;
    }
    env = calloc(count + additions->count + 2, sizeof *env);
    if (env == NULL) {
        return NULL;
    }
    memcpy(env, environ, count * sizeof *env);
    if (shell_has_state(e)) {
        count = remove_variables(env, count);
    }
    if (with_terminal && (getenv("TERM") == NULL || strcmp(getenv("TERM"), "dumb") == 0)) {
        env_set(env, &count, term);
    }
    for (size_t i = 0; i < additions->count; i++) {
        env_set(env, &count, additions->strings[i]);
    }
    return env;
}

/* ---- Text -------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, data, length);

        if (n < 0) {
            return -1;
        }
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

/* A text that is too long for an argument is read by bash itself, which closes the file before the first
 * word of it runs: no child inherits it, and no variable holds it. */
static char *text_in_file(const struct wire_text *command, int *ret_fd)
{
    cleanup_fd int fd = memfd_create("command", MFD_CLOEXEC);
    char *text = NULL;

    if (fd < 0 || write_all(fd, command->data, command->length) < 0 ||
        asprintf(&text, "eval \"exec %d<&-;$(</proc/self/fd/%d)\"", COMMAND_TEXT_FD,
                 COMMAND_TEXT_FD) < 0) {
        return NULL;
    }
    *ret_fd = take_fd(&fd);
    return text;
}

/* What follows `bash -c`, and the descriptors that go with it. */
static int make_text(struct execution *e, const struct wire_text *command, char **ret_text,
                     int *ret_text_fd, int *ret_state_fd)
{
    if (e->call != NULL) {
        return shell_launch(e, command, ret_text, ret_text_fd, ret_state_fd);
    }
    *ret_text = command->length <= EXEC_MAX_ARGUMENT ? strndup(command->data, command->length)
                                                     : text_in_file(command, ret_text_fd);
    return *ret_text != NULL ? 0 : -1;
}

/* ---- Pipes ------------------------------------------------------------------------------------- */

enum pipe_name { PIPE_OUT, PIPE_ERR, PIPE_REPORT, PIPE_IN, PIPES };

struct pipes {
    int ours[PIPES], theirs[PIPES];
};

static void pipes_close(struct pipes *p)
{
    for (unsigned i = 0; i < PIPES; i++) {
        cleanup_fd_fn(&p->ours[i]);
        cleanup_fd_fn(&p->theirs[i]);
    }
}

#define cleanup_pipes __attribute__((cleanup(pipes_close)))

static int pipes_open(struct pipes *p, const struct wire_exec *request)
{
    for (unsigned i = 0; i < PIPES; i++) {
        int ends[2];
        unsigned ours = i == PIPE_IN; /* the end that we have: [1] is for writing */

        if (i != PIPE_REPORT && (request->terminal || (i == PIPE_IN && !request->has_stdin))) {
            continue;
        }
        if (pipe2(ends, O_CLOEXEC) < 0) {
            return -1;
        }
        p->ours[i] = ends[ours];
        p->theirs[i] = ends[ours ^ 1];
        if (fcntl(p->ours[i], F_SETFL, O_NONBLOCK) < 0) {
            return -1;
        }
    }
    return 0;
}

/* In place of the pipes for stdin, stdout and stderr. */
static int terminal_watch(struct pipes *p, struct execution *e, const struct wire_exec *request,
                          struct error *err)
{
    int ours = -1;
    int input;

    if (terminal_open(e->set, request->rows, request->columns, &ours, &p->theirs[PIPE_IN], err) < 0) {
        return -1;
    }
    p->ours[PIPE_OUT] = ours;
    e->is_terminal = true;
    e->terminal = fcntl(p->theirs[PIPE_IN], F_DUPFD_CLOEXEC, 3);
    input = fcntl(ours, F_DUPFD_CLOEXEC, 3);
    p->ours[PIPE_IN] = input;
    if (e->terminal < 0 || input < 0) {
        return error_set_errno(err, errno, "the command's terminal");
    }
    return 0;
}

/* `ready` of the report's source is set by who reads it. */
static int pipes_watch(struct pipes *p, struct execution *e)
{
    for (unsigned i = 0; i < 2; i++) {
        if (p->ours[PIPE_OUT + i] < 0) {
            continue; /* a terminal has but one */
        }
        if (stream_open(e, i, p->ours[PIPE_OUT + i]) < 0) {
            return -1;
        }
        p->ours[PIPE_OUT + i] = -1;
    }
    if (loop_add(e->set->loop, &e->report, p->ours[PIPE_REPORT], EPOLLIN, e->report.ready) < 0) {
        return -1;
    }
    p->ours[PIPE_REPORT] = -1;
    if (p->ours[PIPE_IN] >= 0) {
        if (input_open(e, p->ours[PIPE_IN]) < 0) {
            return -1;
        }
        p->ours[PIPE_IN] = -1;
    }
    return 0;
}

/* ---- The start --------------------------------------------------------------------------------- */

static pid_t start_with(struct execution *e, struct pipes *pipes, char *verb, char *text, int text_fd,
                        int state_fd, char **env)
{
    char bash[] = EXEC_PROGRAM, option[] = "-c";
    char hand[] = "hand", tool[] = "tool";
    char *command[] = {bash, option, text, NULL};
    char *tool_command[] = {hand, tool, verb, text, NULL};
    struct launch launch = {
        .in = pipes->theirs[PIPE_IN] >= 0 ? pipes->theirs[PIPE_IN] : e->set->null_fd,
        .out = pipes->theirs[e->is_terminal ? PIPE_IN : PIPE_OUT],
        .err = pipes->theirs[e->is_terminal ? PIPE_IN : PIPE_ERR],
        .terminal = e->is_terminal,
        .report = pipes->theirs[PIPE_REPORT],
        .workdir = e->set->workdir_fd,
        .text = text_fd,
        .state = state_fd,
        .cwd = e->cwd,
        .program = e->is_tool ? e->set->program_fd : -1,
        .argv = e->is_tool ? tool_command : command,
        .env = env,
        .umask = e->set->umask,
        .descriptors = e->set->descriptors,
    };

    return supervisor_start(&launch);
}

pid_t execution_launch(struct execution *e, const struct wire_exec *request, struct error *err)
{
    cleanup_pipes struct pipes pipes = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
    cleanup_additions struct additions additions = {NULL, NULL, 0};
    cleanup_free char *verb = strndup(request->tool.data, request->tool.length);
    cleanup_free char *text = NULL;
    cleanup_free char **env = NULL;
    cleanup_fd int text_fd = -1;
    cleanup_fd int state_fd = -1;
    pid_t pid;

    if (verb == NULL || make_text(e, &request->command, &text, &text_fd, &state_fd) < 0) {
        return error_set_errno(err, errno, "the command's text");
    }
    if (additions_copy(&additions, request) < 0 || (env = env_new(e, &additions, request->terminal)) == NULL) {
        return error_set_errno(err, ENOMEM, "the command's environment");
    }
    if (request->terminal && terminal_watch(&pipes, e, request, err) < 0) {
        return -1;
    }
    if (pipes_open(&pipes, request) < 0 || pipes_watch(&pipes, e) < 0) {
        return error_set_errno(err, errno, "the command's pipes");
    }
    if (e->is_terminal && !request->has_stdin) {
        execution_eof(e);
    }
    pid = start_with(e, &pipes, verb, text, text_fd, state_fd, env);
    return pid < 0 ? error_set_errno(err, errno, "cannot start a command") : pid;
}
