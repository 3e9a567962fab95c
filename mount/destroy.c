#include <string.h>

#include <jansson.h>

#include "backends/registry.h"
#include "exec/client.h"
#include "mount/verbs.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

/* Lets the daemon of a live mount do it, so that what was written through the mount is dealt with first and
 * the mount knows at once. What it cannot do is done by the caller. */
static void ask_mount(struct client *client, const struct mount_entry *entry)
{
    struct error err = {0};
    json_t *result = NULL;

    if (client_call(client, "destroy", NULL, REPLY_TIMEOUT_MS, &result, &err) < 0) {
        log_trace("%s: %s", entry->mountpoint, err.message);
    }
    json_decref(result);
}

static int destroy_run(struct invocation *invocation, struct error *err)
{
    const char *session = invocation->arguments.words[0];
    const char *name = invocation->options.backend;
    cleanup_mount_entry struct mount_entry entry = {0};
    const struct backend *backend = NULL;
    struct client *client = NULL;

    if (verb_client(&invocation->options, session, &client, &entry, err) < 0) {
        return -1;
    }
    if (client != NULL) {
        ask_mount(client, &entry);
        client_close(client);
        name = entry.backend; /* the one that is mounted is meant, and no namesake elsewhere */
    }
    return backend_find(name, &backend, err) < 0
               ? -1
               : sandbox_destroy(backend, session, clock_now_ms() + DESTROY_TIMEOUT_MS, err);
}

const struct verb verb_destroy = {
    .name = "destroy",
    .summary = "remove a session's sandbox with all that is in it",
    .synopsis = "SESSION [options]",
    .text = "Removes the sandbox of SESSION: its processes, its workspace, everything. There is no "
            "way back.\n"
            "A session that is not there is no error. Where it is mounted the mount stays and "
            "answers \"Host is\n"
            "down\" until the session is provisioned again or the directory is unmounted.\n",
    .examples = "  handsfs umount ~/s1; handsfs destroy s1\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND,
    .min_words = 1,
    .max_words = 1,
    .failure = EXIT_FAILED,
    .run = destroy_run,
};
