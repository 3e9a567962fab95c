/* wait: the end of a job, told as exec tells that of a command. */
#include <inttypes.h>
#include <stdio.h>

#include "mount/job.h"
#include "mount/outcome.h"
#include "mount/verbs.h"

/* What exec.wait answers. 0 with *ret NULL: the job was killed, by us or another. */
static int ask(struct client *client, const char *job, const struct options *options, json_t **ret,
               struct error *err)
{
    json_t *params = json_pack("{s:s}", "job", job);
    json_t *killed = NULL;
    struct error why;
    int r = 0;

    *ret = NULL;
    if (params == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "there is no such job");
    }
    if (options->kill) {
        r = client_call(client, "exec.cancel", params, REPLY_TIMEOUT_MS, &killed, err);
        json_decref(killed);
    }
    if (options->wait_ms != OPTIONS_WAIT_FOR_EVER) {
        json_object_set_new(params, "timeout_ms", json_integer((json_int_t)options->wait_ms));
    }
    if (r == 0 && client_call(client, "exec.wait", params, 0, ret, &why) < 0) {
        r = options->kill && why.code == ERROR_CANCELLED ? 0 : -1;
        if (r < 0) {
            *err = why;
        }
    }
    json_decref(params);
    return r;
}

/* Its output, and its exit code. */
static int tell(const json_t *result, struct error *err)
{
    if (outcome_print_streams(result, err) < 0) {
        return -1;
    }
    outcome_tell_timeout(result, (uint64_t)json_integer_value(json_object_get(result, "duration_ms")));
    return outcome_exit_code(result);
}

static int wait_run(struct invocation *invocation, struct error *err)
{
    const struct options *options = &invocation->options;
    const char *job = invocation->arguments.words[1];
    struct client *client = NULL;
    json_t *state = NULL;
    const json_t *result;
    int r;

    if (job_client(options, invocation->arguments.words[0], &client, err) < 0) {
        return -1;
    }
    r = ask(client, job, options, &state, err);
    client_close(client);
    if (r < 0) {
        return -1;
    }
    if (state == NULL) {
        return options->json ? print_json(json_pack("{s:s, s:b}", "job", job, "running", 0), err) : EXIT_DONE;
    }
    result = json_object_get(state, "result");
    r = result != NULL ? outcome_exit_code(result) : EXIT_TIMED_OUT;
    if (options->json) {
        return print_json(state, err) < 0 ? -1 : r;
    }
    if (result != NULL) {
        r = tell(result, err);
    } else {
        fprintf(stderr, "handsfs: %s is still running\n", job);
    }
    json_decref(state);
    return r;
}

const struct verb verb_wait = {
    .name = "wait",
    .summary = "wait for a detached command, and get its result",
    .synopsis = "SESSION JOB [options]",
    .text =
        "Waits until the job (exec --detach) has ended, prints what it wrote to standard output and then what it\n"
        "wrote to standard error, at most 1 MiB of each, and exits with its code. Any number of processes may wait\n"
        "for one job, also again, until an hour after its end. Ctrl-C ends the waiting and not the job.\n"
        "With --json what exec.wait answers: job, running and, when it has ended, result.\n"
        "\n"
        "Exit code: as that of exec; 124 also where --timeout is over and the job still runs. With --kill 0 where\n"
        "the job was running and is dead now.\n",
    .examples = "  job=$(handsfs exec --detach s1 -- make)\n"
                "  handsfs wait s1 $job\n"
                "  handsfs wait s1 $job --timeout 10s\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_WAIT | OPTIONS_JSON,
    .min_words = 2,
    .max_words = 2,
    .failure = EXIT_EXEC_FAILED,
    .run = wait_run,
};
