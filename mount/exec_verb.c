/* exec: through the session's mount where there is one, so that command and mount see each other's changes;
 * else over a gateway of our own (session_client.h). The outcome is an ExecResult, handsfs-exec(7). */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "exec/base64.h"
#include "exec/params.h"
#include "mount/quote.h"
#include "mount/run_command.h"
#include "mount/session_client.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"

#define INPUT_MAX                                                                                  \
    (8u << 20) /* standard input is held whole; as base64 it has to fit into a request's line */

/* What is to be run. */
struct job {
    struct buffer command;
    struct buffer input;
    bool has_input;
};

static void job_release(struct job *job)
{
    buffer_release(&job->command);
    buffer_release(&job->input);
}

/* Standard input goes along where somebody gave one: a pipe, a file, a socket, and no terminal. */
static bool input_is_given(const struct options *options)
{
    struct stat st;

    return !options->no_stdin && fstat(STDIN_FILENO, &st) == 0 && !S_ISCHR(st.st_mode) &&
           !S_ISDIR(st.st_mode);
}

static int read_job(const struct invocation *invocation, struct job *job, struct error *err)
{
    const struct arguments *arguments = &invocation->arguments;

    if (quote_command(&job->command, arguments->command, arguments->command_count, err) < 0) {
        return -1;
    }
    if (buffer_text(&job->command) == NULL) { /* also gives an empty one bytes to point to */
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    job->has_input = input_is_given(&invocation->options);
    return job->has_input ? read_standard_input(&job->input, err) : 0;
}

/* ---- The request ---------------------------------------------------------------------------- */

static json_t *env_json(const struct env_list *env)
{
    json_t *object = json_object();

    for (size_t i = 0; i < env->count; i++) {
        const char *value = strchr(env->entries[i], '=') + 1;
        cleanup_free char *name = strndup(env->entries[i], (size_t)(value - 1 - env->entries[i]));

        if (name == NULL || json_object_set_new(object, name, json_string(value)) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* The parameters of the method. NULL where something is no text that JSON can carry. */
static json_t *job_json(const struct job *job, const struct options *options)
{
    json_t *params = json_pack("{s:o, s:I, s:o}", "command",
                               json_stringn((const char *)job->command.data, job->command.length),
                               "timeout_ms", (json_int_t)options->timeout_ms, "env",
                               env_json(&options->exec_env));

    if (params != NULL && options->cwd != NULL &&
        json_object_set_new(params, "cwd", json_string(options->cwd)) < 0) {
        json_decref(params);
        return NULL;
    }
    if (params != NULL && job->has_input &&
        json_object_set_new(params, "stdin_base64",
                            base64_json(job->input.data, job->input.length)) < 0) {
        json_decref(params);
        return NULL;
    }
    return params;
}

/* ---- The outcome ---------------------------------------------------------------------------- */

/* The number of a signal that an ExecResult names, 0 for none. */
static int signal_number(const char *name)
{
    int offset;

    if (name == NULL) {
        return 0;
    }
    if (sscanf(name, "SIGRTMIN+%d", &offset) == 1) {
        return SIGRTMIN + offset;
    }
    if (sscanf(name, "SIG%d", &offset) == 1) {
        return offset;
    }
    for (int i = 1; i < SIGRTMIN; i++) {
        const char *known = sigabbrev_np(i);

        if (known != NULL && strncmp(name, "SIG", 3) == 0 && strcmp(name + 3, known) == 0) {
            return i;
        }
    }
    return SIGKILL;
}

/* Prints a stream's bytes to `fd`, and says what is missing. */
static int print_stream(const json_t *result, const char *name, int fd, struct error *err)
{
    struct params_bytes bytes = {0};
    char field[32];
    json_int_t dropped;
    int r = params_bytes(result, name, &bytes, err);

    if (r == 0 && write_out(fd, bytes.data, bytes.length) < 0) {
        r = error_set_errno(err, errno, "cannot write %s", name);
    }
    buffer_release(&bytes.decoded);
    snprintf(field, sizeof field, "%s_dropped", name);
    dropped = json_integer_value(json_object_get(result, field));
    if (r == 0 && dropped > 0) {
        fprintf(stderr,
                "handsfs: %" JSON_INTEGER_FORMAT " bytes of its %s were dropped (%" PRIu64
                " are kept)\n",
                dropped, name, MAX_OUTPUT_BYTES);
    }
    return r;
}

static int exit_code(const json_t *result)
{
    const json_t *code = json_object_get(result, "exit_code");
    int number = signal_number(json_string_value(json_object_get(result, "signal")));

    if (json_is_true(json_object_get(result, "timed_out"))) {
        return EXIT_TIMED_OUT;
    }
    return json_is_integer(code) && number == 0 ? (int)json_integer_value(code)
                                                : EXIT_SIGNALLED + number;
}

/* Steals the result. */
static int print_result(json_t *result, const struct options *options, struct error *err)
{
    int code = exit_code(result);
    int r;

    if (options->json) {
        return print_json(result, err) < 0 ? -1 : code;
    }
    r = print_stream(result, "stdout", STDOUT_FILENO, err) < 0 ||
                print_stream(result, "stderr", STDERR_FILENO, err) < 0
            ? -1
            : code;
    if (r >= 0 && json_is_true(json_object_get(result, "timed_out"))) {
        fprintf(stderr, "handsfs: timed out after %" PRIu64 ".%03" PRIu64 " s\n",
                options->timeout_ms / 1000, options->timeout_ms % 1000);
    }
    json_decref(result);
    return r;
}

/* What a caller does that a signal ends. */
static void die_of(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

static int exec_run(struct invocation *invocation, struct error *err)
{
    const struct options *options = &invocation->options;
    const char *session = invocation->arguments.words[0];
    __attribute__((cleanup(job_release))) struct job job = {
        .command = BUFFER_INIT(MAX_COMMAND_BYTES),
        .input = BUFFER_INIT(INPUT_MAX),
    };
    cleanup_session_client struct session_client *client = NULL;
    json_t *result = NULL;
    json_t *params;
    int ended_by = 0;
    int r;

    if (invocation->arguments.command_count == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "no command: handsfs exec SESSION -- COMMAND...");
    }
    if (read_job(invocation, &job, err) < 0) {
        return -1;
    }
    params = job_json(&job, options);
    if (params == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "--cwd or a value of --env is not UTF-8");
    }
    r = session_client_open(&client, options, session, err);
    if (r == 0) {
        r = run_command(session_client_get(client), params, &result, &ended_by, err);
    }
    json_decref(params);
    if (r < 0 && ended_by != 0) {
        session_client_close(take_ptr(client)); /* the command is dead inside before we are */
        die_of(ended_by);
    }
    return r < 0 ? -1 : print_result(result, options, err);
}

const struct verb verb_exec = {
    .name = "exec",
    .summary = "run a command inside",
    .synopsis = "SESSION [options] -- COMMAND...",
    .text = "Runs COMMAND with bash in the workspace and prints what it printed, when it has "
            "ended. One word is\n"
            "the text of a command (\"make && ./a.out\"); several are a program and its arguments, "
            "taken as they\n"
            "are. Where the session is mounted, the command sees all that was written through the "
            "mount, and\n"
            "the mount shows all that the command did.\n"
            "\n"
            "Standard input is given to the command where it is a pipe or a file (read to its end "
            "first, 8 MiB\n"
            "at most), and is empty where it is a terminal or with -n: use -n in loops that read "
            "from a file.\n"
            "At most 1 MiB of each of its outputs is kept, and what was dropped is told.\n"
            "\n"
            "Exit code: the command's own; 128 and the signal's number where a signal ended it; "
            "124 after the\n"
            "timeout; 125 where handsfs itself failed. Ctrl-C kills the command with everything it "
            "started.\n",
    .examples = "  handsfs exec s1 -- make test\n"
                "  handsfs exec s1 --timeout 90s --cwd src -- 'grep -rn main . | head'\n"
                "  tar -c . | handsfs exec s1 -- tar -x\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_EXEC | OPTIONS_JSON,
    .min_words = 1,
    .max_words = 1,
    .takes_command = true,
    .failure = EXIT_EXEC_FAILED,
    .run = exec_run,
};
