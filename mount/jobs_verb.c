/* jobs: what was started by exec --detach and is not forgotten yet. */
#include <stdio.h>
#include <string.h>

#include "backends/printable.h"
#include "mount/job.h"
#include "mount/verbs.h"

/* The first line of a command. It is somebody's text, and shall do nothing to a terminal. */
static void print_line(const char *text)
{
    size_t length = strcspn(text, "\n");
    char line[1024]; /* exec.list gives less of it */

    copy_printable(line, sizeof line, text, length);
    printf("%s%s\n", line, text[length] == '\n' ? " ..." : "");
}

static void print_row(const json_t *job)
{
    const char *name = json_string_value(json_object_get(job, "job"));
    const char *command = json_string_value(json_object_get(job, "command"));
    json_int_t ms = json_integer_value(json_object_get(job, "duration_ms"));

    printf("%-16s %-7s %7" JSON_INTEGER_FORMAT ".%03ds  ", name != NULL ? name : "?",
           json_is_true(json_object_get(job, "running")) ? "running" : "ended", ms / 1000, (int)(ms % 1000));
    print_line(command != NULL ? command : "");
}

static int jobs_run(struct invocation *invocation, struct error *err)
{
    struct client *client = NULL;
    json_t *result = NULL;
    json_t *jobs;
    int r;

    if (job_client(&invocation->options, invocation->arguments.words[0], &client, err) < 0) {
        return -1;
    }
    r = client_call(client, "exec.list", NULL, REPLY_TIMEOUT_MS, &result, err);
    client_close(client);
    if (r < 0) {
        return -1;
    }
    jobs = json_object_get(result, "jobs");
    if (invocation->options.json) {
        r = print_json(json_incref(jobs), err);
    } else {
        for (size_t i = 0; i < json_array_size(jobs); i++) {
            print_row(json_array_get(jobs, i));
        }
    }
    json_decref(result);
    return r;
}

const struct verb verb_jobs = {
    .name = "jobs",
    .summary = "list the commands that run detached",
    .synopsis = "SESSION [options]",
    .text = "Prints the jobs of the session's mount (exec --detach), in the order of their starts, one a line: "
            "its name,\n"
            "whether it is running or has ended, how long it ran, and the first line of its command. With --json "
            "an array\n"
            "of objects: job, command, running, duration_ms. A job is known for an hour after its end.\n",
    .examples = "  handsfs jobs s1\n"
                "  handsfs jobs s1 --json\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_JSON,
    .min_words = 1,
    .max_words = 1,
    .failure = EXIT_FAILED,
    .run = jobs_run,
};
