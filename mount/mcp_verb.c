/* mcp: the session's tools for an MCP client, which starts this process and speaks with it over standard
 * input and output. The sandbox is made when a tool is called for the first time and not before: clients start
 * their servers in advance, and give up on one that does not answer at once. Later it is only looked for: a
 * model that works on in an empty sandbox without being told would be worse off than with an error. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "backends/registry.h"
#include "exec/mcp.h"
#include "exec/tools.h"
#include "mount/session_client.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof ending_signals / sizeof ending_signals[0])

static int stop_pipe[2] = {-1, -1};

static void end(int number)
{
    int saved = errno;

    (void)number;
    (void)!write(stop_pipe[1], "", 1);
    errno = saved;
}

/* Those that our caller chose to ignore stay ignored. */
static int watch_signals(struct error *err)
{
    const struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
    struct sigaction before;

    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        return error_set_errno(err, errno, "pipe");
    }
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < SIGNALS; i++) {
        if (sigaction(ending_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(ending_signals[i], &action, NULL);
        }
    }
    return 0;
}

/* Takes standard output away from all but the protocol: what anybody else prints goes to standard error. */
static int take_output(int *ret, struct error *err)
{
    *ret = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (*ret < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return error_set_errno(err, errno, "standard output");
    }
    return 0;
}

/* ---- The session ---------------------------------------------------------------------------- */

struct served {
    struct options *options;
    const char *session;
    const struct backend *backend;
    bool found; /* once: from then on it is not made */
    struct session_client *client;
};

/* Makes it where there is none. One that is there is taken as it is, where this call says nothing about what
 * it is to be like. */
static int find_session(struct served *served, struct error *err)
{
    cleanup_sandbox struct sandbox sandbox = {0};
    struct error why = {0};

    if (!options_say_spec(served->options)) {
        if (sandbox_attach(served->backend, served->session, clock_now_ms() + ATTACH_TIMEOUT_MS, &sandbox,
                           &why) == 0) {
            return 0;
        }
        if (why.code != ERROR_SANDBOX_GONE) {
            *err = why;
            return -1;
        }
    }
    return verb_provision_session(served->options, served->session, &sandbox, err);
}

static int open_session(void *ctx, struct client **ret, struct error *err)
{
    struct served *served = ctx;

    session_client_close(take_ptr(served->client));
    if (!served->found && find_session(served, err) < 0) {
        return error_prefix(err, "session %s", served->session);
    }
    served->found = true;
    if (session_client_open(&served->client, served->options, served->session, err) < 0) {
        served->client = NULL;
        if (err->code == ERROR_SANDBOX_GONE) {
            error_prefix(err,
                         "session %s has lost its sandbox, and the files in it (`handsfs provision %s` makes "
                         "a new one)",
                         served->session, served->session);
        }
        return -1;
    }
    *ret = session_client_get(served->client);
    return 0;
}

static void close_session(void *ctx)
{
    struct served *served = ctx;

    session_client_close(take_ptr(served->client));
}

static json_t *all_tools(struct error *err)
{
    json_t *list = json_array();

    for (const struct tool *const *tool = tools; *tool != NULL; tool++) {
        if (json_array_append_new(list, tool_json(*tool)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    if (list == NULL) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return list;
}

/* ---- The verb ------------------------------------------------------------------------------- */

static int serve(struct served *served, int out, json_t *list, struct error *err)
{
    char instructions[512];
    const struct mcp_host host = {
        .instructions = instructions,
        .tools = list,
        .open = open_session,
        .hang_up = close_session,
        .ctx = served,
    };
    int r;

    snprintf(instructions, sizeof instructions,
             "These tools work in the sandbox of the session \"%s\": files and commands are the sandbox's and "
             "not those of the user's machine. Relative paths start at its workspace. Files, and what the "
             "shell remembers, stay from call to call.",
             served->session);
    r = mcp_serve(STDIN_FILENO, out, stop_pipe[0], &host, err);
    if (r > 0) {
        _exit(EXIT_DONE); /* a thread still works with all of this */
    }
    return r;
}

static int mcp_run(struct invocation *invocation, struct error *err)
{
    struct served served = {
        .options = &invocation->options,
        .session = invocation->arguments.words[0],
    };
    cleanup_fd int out = -1;
    json_t *list;
    int r;

    if (options_spec(served.options, served.session, err) < 0 ||
        backend_find(served.options->backend, &served.backend, err) < 0) {
        return -1;
    }
    if (isatty(STDIN_FILENO)) {
        fputs("handsfs: mcp: speaking MCP with whoever types here; handsfs-mcp(1) says how a client is told\n",
              stderr);
    }
    if (watch_signals(err) < 0 || take_output(&out, err) < 0) {
        return -1;
    }
    list = all_tools(err);
    if (list == NULL) {
        return -1;
    }
    r = serve(&served, out, list, err);
    json_decref(list);
    return r < 0 ? -1 : EXIT_DONE;
}

const struct verb verb_mcp = {
    .name = "mcp",
    .summary = "serve the session's tools to an MCP client",
    .synopsis = "SESSION [options]\n       handsfs mcp --attach CONTAINER [SESSION] [options]",
    .text = "Speaks the Model Context Protocol on standard input and output, for a client that "
            "starts it: the\n"
            "tools bash, read, write, edit, glob and grep, working in the sandbox of SESSION. "
            "Ends with its input;\n"
            "what runs then is killed, the sandbox stays.\n"
            "\n"
            "The sandbox is made when a tool is called for the first time, if there is none. One "
            "that is there is\n"
            "taken as it is, unless options say what it is to be like and it is not. Where the "
            "session is mounted,\n"
            "tools and mount see each other's changes.\n",
    .examples = "  handsfs mcp s1\n"
                "  handsfs mcp s1 --backend docker --image python:3.12 --network full\n"
                "  claude mcp add sandbox -- handsfs mcp s1\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_SPEC,
    .min_words = 1,
    .max_words = 1,
    .failure = EXIT_FAILED,
    .run = mcp_run,
};
