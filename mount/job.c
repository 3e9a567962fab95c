#include "mount/job.h"

#include <stdio.h>

#include "mount/verbs.h"
#include "sandbox/cleanup.h"

int job_client(const struct options *options, const char *session, struct client **ret, struct error *err)
{
    struct mount_entry entry = {0};

    if (verb_client(options, session, ret, &entry, err) < 0) {
        return -1;
    }
    mount_entry_release(&entry);
    if (*ret == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "it is not mounted: jobs live in the daemon of a session's mount (handsfs mount %s DIR)",
                         session);
    }
    return 0;
}

static int print_job(const struct options *options, json_t *result, struct error *err)
{
    const char *job = json_string_value(json_object_get(result, "job"));

    if (job == NULL) {
        return error_set(err, ERROR_IO, 0, "the gateway's answer has no job");
    }
    if (options->json) {
        return print_json(json_incref(result), err);
    }
    return puts(job) < 0 || fflush(stdout) != 0 ? error_set(err, ERROR_IO, 0, "cannot write to standard output") : 0;
}

int job_start(const struct options *options, const char *session, json_t *params, struct error *err)
{
    const char *method = json_object_get(params, "shell") != NULL ? "shell.run" : "exec";
    struct client *client = NULL;
    json_t *result = NULL;
    int r;

    if (json_object_set_new(params, "detach", json_true()) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (job_client(options, session, &client, err) < 0) {
        return -1;
    }
    r = client_call(client, method, params, REPLY_TIMEOUT_MS, &result, err);
    client_close(client);
    if (r == 0) {
        r = print_job(options, result, err);
        json_decref(result);
    }
    return r;
}
