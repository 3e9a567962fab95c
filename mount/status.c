#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "backends/registry.h"
#include "exec/client.h"
#include "mount/target.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define LABEL_WIDTH 24

/* Adds what the engine knows, under "engine". */
static void say_json(void *arg, const char *key, const char *value)
{
    json_object_set_new(arg, key, json_string(value));
}

/* NULL where the sandbox is not there, with `err` set. */
static json_t *engine_status(const struct backend *backend, const char *session,
                             json_t **ret_sandbox, struct error *err)
{
    cleanup_sandbox struct sandbox sandbox = {0};
    json_t *engine = NULL;

    if (sandbox_attach(backend, session, clock_now_ms() + ATTACH_TIMEOUT_MS, &sandbox, err) < 0) {
        return NULL;
    }
    engine = json_object();
    if (sandbox_status(&sandbox, say_json, engine, err) < 0) {
        json_decref(engine);
        return NULL;
    }
    *ret_sandbox = json_pack("{s:s, s:s, s:s, s:s}", "session", sandbox.session, "backend",
                             backend->name, "id", sandbox.id, "workdir", sandbox.workdir);
    return engine;
}

/* What a live mount's daemon says; NULL where it does not answer. */
static json_t *mount_status(struct client *client)
{
    struct error err = {0};
    json_t *status = NULL;

    if (client_call(client, "status", NULL, REPLY_TIMEOUT_MS, &status, &err) < 0) {
        log_warning("the mount's daemon does not answer: %s", err.message);
        return NULL;
    }
    return status;
}

/* A line for each value; those of an object inside are named "outer.inner". */
static void print_fields(const char *prefix, const json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        cleanup_free char *text = NULL;
        char name[64];

        snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
        if (json_is_object(value)) {
            print_fields(name, value);
        } else if (json_is_string(value)) {
            printf("%-*s %s\n", LABEL_WIDTH, name, json_string_value(value));
        } else if (!json_is_null(value) && (text = json_dumps(value, JSON_ENCODE_ANY)) != NULL) {
            printf("%-*s %s\n", LABEL_WIDTH, name, text);
        }
    }
}

/* The session that a word names: its own name, or that of the mount on a directory. */
static int find_session(const char *word, struct options *options, char **ret, struct error *err)
{
    cleanup_mount_entry struct mount_entry entry = {0};
    cleanup_free char *path = NULL;
    bool found = false;

    if (target_directory(word, &path, err) < 0) {
        return -1;
    }
    if (path != NULL) {
        if (mounts_find(path, &entry, &found, err) < 0) {
            return -1;
        }
        if (!found) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "nothing of handsfs is mounted on %s",
                             path);
        }
        free(options->backend);
        options->backend = take_ptr(entry.backend);
        *ret = take_ptr(entry.session);
        return 0;
    }
    *ret = strdup(word);
    return *ret == NULL ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;
}

/* Joins both sides. At least one of them has to be there. */
static int collect(struct options *options, const char *session, json_t **ret, struct error *err)
{
    const char *name = options->backend;
    cleanup_mount_entry struct mount_entry entry = {0};
    const struct backend *backend = NULL;
    struct client *client = NULL;
    json_t *status = NULL;
    json_t *sandbox = NULL;
    json_t *engine;

    if (verb_client(options, session, &client, &entry, err) < 0) {
        return -1;
    }
    if (client != NULL) {
        status = mount_status(client);
        client_close(client);
        name = entry.backend; /* the one that is mounted is meant, and no namesake elsewhere */
    }
    if (backend_find(name, &backend, err) < 0) {
        json_decref(status);
        return -1;
    }
    engine = engine_status(backend, session, &sandbox, err);
    if (engine == NULL && status == NULL) {
        return -1;
    }
    if (status == NULL) {
        status = sandbox;
        json_object_set_new(status, "mountpoint", json_null());
    } else {
        json_decref(sandbox);
    }
    json_object_set_new(status, "engine", engine != NULL ? engine : json_null());
    *ret = status;
    return 0;
}

static int status_run(struct invocation *invocation, struct error *err)
{
    cleanup_free char *session = NULL;
    json_t *status = NULL;

    if (find_session(invocation->arguments.words[0], &invocation->options, &session, err) < 0 ||
        collect(&invocation->options, session, &status, err) < 0) {
        return -1;
    }
    if (invocation->options.json) {
        return print_json(status, err);
    }
    print_fields("", status);
    if (json_is_null(json_object_get(status, "mountpoint"))) {
        printf("%-*s %s\n", LABEL_WIDTH, "mountpoint", "(not mounted)");
    }
    json_decref(status);
    return EXIT_DONE;
}

const struct verb verb_status = {
    .name = "status",
    .summary = "say how a session and its mount are",
    .synopsis = "SESSION|DIR [options]",
    .text = "Prints what is known about the session's sandbox: what the mount's daemon says, where "
            "there is a\n"
            "mount, and what the backend says of the sandbox itself (engine).\n",
    .examples = "  handsfs status s1\n"
                "  handsfs status ~/s1 --json\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_JSON,
    .min_words = 1,
    .max_words = 1,
    .failure = EXIT_FAILED,
    .run = status_run,
};
