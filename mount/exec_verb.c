/* exec: through the session's mount where there is one, so that command and mount see each other's changes;
 * else over a link of its own. Either way the outcome is an ExecResult, handsfs-exec(7). */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "backends/execution.h"
#include "backends/registry.h"
#include "exec/base64.h"
#include "exec/client.h"
#include "exec/params.h"
#include "exec/result.h"
#include "exec/utf8.h"
#include "mount/attached.h"
#include "mount/quote.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"

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

/* ---- Through the mount ---------------------------------------------------------------------- */

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

/* A signal that ends this process closes the connection, and that cancels the command. */
static int run_through_mount(struct client *client, const struct job *job,
                             const struct options *options, json_t **ret, struct error *err)
{
    json_t *params = job_json(job, options);
    int r;

    if (params == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "--cwd or a value of --env is not UTF-8");
    }
    r = client_call(client, "exec", params, 0, ret, err);
    json_decref(params);
    return r;
}

/* ---- Over a link of our own ----------------------------------------------------------------- */

#define SIGNALS 3
static const int ending_signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

struct direct {
    struct attached attached;
    struct execution *execution; /* NULL once it is over */
    uv_signal_t signals[SIGNALS];
    int got_signal;
    bool done;
    bool failed;
    json_t *result;
    struct error error;
};

static void direct_done(void *arg, const struct error *err, struct execution_result *result)
{
    struct direct *direct = arg;

    direct->execution = NULL;
    direct->done = true;
    if (err != NULL && !direct->failed) {
        direct->failed = true;
        direct->error = *err;
    } else if (err == NULL) {
        direct->result = exec_result_json(result);
    }
}

static void direct_signalled(uv_signal_t *handle, int number)
{
    struct direct *direct = handle->data;

    direct->got_signal = number;
    if (direct->execution != NULL) {
        execution_cancel(direct->execution);
    }
}

/* Those that our caller chose to ignore, as nohup(1) does, stay ignored. */
static void watch_signals(struct direct *direct)
{
    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction before;

        uv_signal_init(&direct->attached.loop, &direct->signals[i]);
        direct->signals[i].data = direct;
        if (sigaction(ending_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            uv_signal_start(&direct->signals[i], direct_signalled, ending_signals[i]);
        }
    }
}

static void start_directly(struct direct *direct, const struct job *job,
                           const struct options *options)
{
    const struct execution_request request = {
        .command = (const char *)job->command.data,
        .command_length = job->command.length,
        .cwd = options->cwd,
        .env = (const char *const *)options->exec_env.entries,
        .has_stdin = job->has_input,
        .timeout_ms = options->timeout_ms,
    };
    struct error err = {0};

    direct->execution = execution_start(direct->attached.link, &request, direct_done, direct);
    if (job->has_input &&
        execution_write(direct->execution, job->input.data, job->input.length, true, &err) < 0) {
        execution_cancel(direct->execution);
        direct->error = err;
        direct->failed = true;
    }
}

/* What a caller does that a signal ends. */
static void die_of(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

static int run_directly(const struct backend *backend, const char *session, const struct job *job,
                        const struct options *options, json_t **ret, struct error *err)
{
    struct direct direct = {0};

    if (attached_open(&direct.attached, backend, session, err) < 0) {
        return -1;
    }
    watch_signals(&direct);
    start_directly(&direct, job, options);
    attached_run(&direct.attached, &direct.done);
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_close((uv_handle_t *)&direct.signals[i], NULL);
    }
    attached_close(&direct.attached);
    if (direct.got_signal != 0 && direct.failed) {
        die_of(direct.got_signal);
    }
    if (direct.failed) {
        *err = direct.error;
        return -1;
    }
    *ret = direct.result;
    return direct.result == NULL ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;
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

static int exec_run(struct invocation *invocation, struct error *err)
{
    const struct options *options = &invocation->options;
    const char *session = invocation->arguments.words[0];
    __attribute__((cleanup(job_release))) struct job job = {
        .command = BUFFER_INIT(MAX_COMMAND_BYTES),
        .input = BUFFER_INIT(INPUT_MAX),
    };
    cleanup_mount_entry struct mount_entry entry = {0};
    const struct backend *backend = NULL;
    struct client *client = NULL;
    json_t *result = NULL;
    int r;

    if (invocation->arguments.command_count == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "no command: handsfs exec SESSION -- COMMAND...");
    }
    if (read_job(invocation, &job, err) < 0 ||
        verb_client(options, session, &client, &entry, err) < 0) {
        return -1;
    }
    if (client != NULL) {
        r = run_through_mount(client, &job, options, &result, err);
        client_close(client);
    } else {
        r = backend_find(options->backend, &backend, err) < 0
                ? -1
                : run_directly(backend, session, &job, options, &result, err);
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
