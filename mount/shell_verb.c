/* shell: a bash on a terminal inside, for people. (A shell that carries its state from one exec to the next,
 * for programs, is another thing: handsfs-shell(7).) */
#include <string.h>
#include <unistd.h>

#include "mount/exec_params.h"
#include "mount/run_command.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"

/* The image's and the user's settings first, then a prompt that says where one is: nobody shall take the
 * inside for the outside. A session's name has no letter that is special in a prompt. */
static const char interactive[] =
    "exec bash --rcfile <(printf '%%s\\n' '"
    "[ -r /etc/bash.bashrc ] && . /etc/bash.bashrc\n"
    "[ -r ~/.bashrc ] && . ~/.bashrc\n"
    "case $TERM in\n"
    "dumb) PS1=\"%s:\\w\\\\\\$ \" ;;\n"
    "*) PS1=\"\\[\\e[1;32m\\]%s\\[\\e[0m\\]:\\[\\e[1;34m\\]\\w\\[\\e[0m\\]\\\\\\$ \" ;;\n"
    "esac') -i";

static int shell_run(struct invocation *invocation, struct error *err)
{
    const struct options *options = &invocation->options;
    const char *session = invocation->arguments.words[0];
    cleanup_buffer struct buffer command = BUFFER_INIT(MAX_COMMAND_BYTES);
    struct run_plan plan = {.stream = true, .input = true, .terminal = isatty(STDIN_FILENO) != 0};
    int r;

    r = session_name_check(session, err);
    if (r == 0 && (plan.terminal ? buffer_printf(&command, interactive, session, session)
                                 : buffer_append_string(&command, "exec bash")) < 0) {
        r = error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (r < 0) {
        return -1;
    }
    plan.params = exec_params(options, (const char *)command.data, command.length, err);
    if (plan.params == NULL) {
        return -1;
    }
    r = verb_run(options, session, &plan, err);
    json_decref(plan.params);
    return r;
}

const struct verb verb_shell = {
    .name = "shell",
    .summary = "a terminal inside",
    .synopsis = "SESSION [options]",
    .text = "Opens a shell (bash) in the workspace, on a terminal inside to which this one is lent: "
            "job control,\n"
            "Ctrl-C, Ctrl-Z and the window's size work as they do here. The prompt begins with the "
            "session's name.\n"
            "It ends with exit or Ctrl-D, and its exit code is handed on. Where standard input is "
            "no terminal\n"
            "the commands are read from there.\n",
    .examples = "  handsfs shell s1\n"
                "  handsfs shell s1 --cwd src\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_SHELL,
    .min_words = 1,
    .max_words = 1,
    .failure = EXIT_EXEC_FAILED,
    .run = shell_run,
};
