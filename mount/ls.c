#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "backends/registry.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"

struct listing {
    char **names;
    size_t count;
    bool no_memory;
};

static void listing_release(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->names[i]);
    }
    free(listing->names);
}

static void add_name(void *arg, const char *session)
{
    struct listing *listing = arg;
    char **names = realloc(listing->names, (listing->count + 1) * sizeof *names);
    char *copy = strdup(session);

    if (names != NULL) {
        listing->names = names;
    }
    if (names == NULL || copy == NULL) {
        free(copy);
        listing->no_memory = true;
        return;
    }
    listing->names[listing->count++] = copy;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One session with where it is mounted. */
static json_t *session_json(const char *session, const char *backend,
                            const struct mount_list *mounts)
{
    json_t *places = json_array();

    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount_entry *entry = &mounts->entries[i];

        if (entry->alive && strcmp(entry->session, session) == 0 &&
            strcmp(entry->backend, backend) == 0) {
            json_array_append_new(places, json_string(entry->mountpoint));
        }
    }
    return json_pack("{s:s, s:s, s:o}", "session", session, "backend", backend, "mounts", places);
}

static int print_listing(const struct listing *listing, const char *backend, bool json,
                         struct error *err)
{
    cleanup_mount_list struct mount_list mounts = {0};
    json_t *array;

    if (!json) {
        for (size_t i = 0; i < listing->count; i++) {
            puts(listing->names[i]);
        }
        return 0;
    }
    if (mounts_list(&mounts, err) < 0) {
        return -1;
    }
    array = json_array();
    for (size_t i = 0; i < listing->count; i++) {
        json_array_append_new(array, session_json(listing->names[i], backend, &mounts));
    }
    return print_json(array, err);
}

static int ls_run(struct invocation *invocation, struct error *err)
{
    __attribute__((cleanup(listing_release))) struct listing listing = {0};
    const struct backend *backend = NULL;

    if (backend_find(invocation->options.backend, &backend, err) < 0 ||
        sandbox_list(backend, add_name, &listing, err) < 0) {
        return -1;
    }
    if (listing.no_memory) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (listing.count > 0) {
        qsort(listing.names, listing.count, sizeof *listing.names, by_name);
    }
    return print_listing(&listing, backend->name, invocation->options.json, err);
}

const struct verb verb_ls = {
    .name = "ls",
    .summary = "list the sessions that have a sandbox",
    .synopsis = "[options]",
    .text = "Prints the sessions whose sandboxes were made by handsfs on the backend, one name a "
            "line. With\n"
            "--json an array of objects: session, backend, and mounts, the places where it is "
            "mounted.\n",
    .examples = "  handsfs ls\n"
                "  handsfs ls --json\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_JSON,
    .failure = EXIT_FAILED,
    .run = ls_run,
};
