/* exec: through the session's mount where there is one, so that command and mount see each other's changes;
 * else over a gateway of our own (session_client.h). */
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <jansson.h>

#include "mount/exec_params.h"
#include "mount/job.h"
#include "mount/outcome.h"
#include "mount/quote.h"
#include "mount/run_command.h"
#include "mount/session_client.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"

/* Standard input goes along where somebody gave one: a pipe, a file, a socket, and no terminal. */
static bool input_is_given(const struct options *options)
{
    struct stat st;

    if (options->no_stdin || fstat(STDIN_FILENO, &st) < 0 || S_ISDIR(st.st_mode)) {
        return false;
    }
    return options->tty || !(isatty(STDIN_FILENO) ||
                             (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))); /* /dev/null */
}

/* What a caller does that a signal ends. */
static void die_of(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* Steals the result. */
static int finish(json_t *result, const struct options *options, struct error *err)
{
    int code = outcome_exit_code(result);

    if (options->json) {
        return print_json(result, err) < 0 ? -1 : code;
    }
    outcome_tell_timeout(result, options->timeout_ms);
    json_decref(result);
    return code;
}

int verb_run(const struct options *options, const char *session, const struct run_plan *plan,
             struct error *err)
{
    cleanup_session_client struct session_client *client = NULL;
    struct run_outcome outcome;

    if (session_client_open(&client, options, session, err) < 0) {
        return -1;
    }
    if (run_command(session_client_get(client), plan, &outcome, err) == 0) {
        return finish(outcome.result, options, err);
    }
    session_client_close(take_ptr(client)); /* what runs inside is dead before we are */
    if (outcome.signal != 0) {
        die_of(outcome.signal);
    }
    return -1;
}

static int exec_run(struct invocation *invocation, struct error *err)
{
    const struct options *options = &invocation->options;
    const struct arguments *arguments = &invocation->arguments;
    cleanup_buffer struct buffer command = BUFFER_INIT(MAX_COMMAND_BYTES);
    struct run_plan plan = {
        .stream = !options->json,
        .input = input_is_given(options),
        .terminal = options->tty,
    };
    int r;

    if (arguments->command_count == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "no command: handsfs exec SESSION -- COMMAND...");
    }
    if (options->tty && (options->json || options->detach)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s does not go with -t",
                         options->json ? "--json" : "--detach");
    }
    if (quote_command(&command, arguments->command, arguments->command_count, err) < 0) {
        return -1;
    }
    plan.params = exec_params(options, (const char *)command.data, command.length, err);
    if (plan.params == NULL) {
        return -1;
    }
    r = options->detach ? job_start(options, arguments->words[0], plan.params, err)
                        : verb_run(options, arguments->words[0], &plan, err);
    json_decref(plan.params);
    return r;
}

const struct verb verb_exec = {
    .name = "exec",
    .summary = "run a command inside",
    .synopsis = "SESSION [options] -- COMMAND...",
    .text =
        "Runs COMMAND with bash in the workspace, in this process's place: what it prints comes out\n"
        "as it is printed, byte by byte, and a reader that is slow slows it down. One word is the text\n"
        "of a command (\"make && ./a.out\"); several are a program and its arguments, taken as they are.\n"
        "Where the session is mounted, the command sees all that was written through the mount, and\n"
        "the mount shows all that the command did.\n"
        "\n"
        "Standard input is given to the command as it comes where it is not a terminal, and is empty\n"
        "where it is one, or with -n: use -n in loops that read from a file. With -t the command runs\n"
        "on a terminal of its own, to which this one is lent: every key goes there, Ctrl-C too.\n"
        "With --json the whole result is one line at the end, with at most 1 MiB of each output.\n"
        "\n"
        "With --detach the command is a job of the session's mount, which there must be: its name is printed,\n"
        "its standard input is empty, and it runs on until its end, its --timeout, or that of the mount. See\n"
        "`handsfs jobs` and `handsfs wait`.\n"
        "\n"
        "Exit code: the command's own; 128 and the signal's number where a signal ended it; 124 after\n"
        "the timeout; 125 where handsfs itself failed. Ctrl-C interrupts the command; a second one kills\n"
        "it with everything it started, and so do SIGTERM and a reader that goes away.\n",
    .examples = "  handsfs exec s1 -- make test\n"
                "  handsfs exec s1 --timeout 90s --cwd src -- 'grep -rn main . | head'\n"
                "  tar -c . | handsfs exec s1 -- tar -x\n"
                "  handsfs exec -t s1 -- vi main.c\n"
                "  handsfs exec --detach s1 -- make\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_EXEC | OPTIONS_JSON,
    .min_words = 1,
    .max_words = 1,
    .takes_command = true,
    .failure = EXIT_EXEC_FAILED,
    .run = exec_run,
};
