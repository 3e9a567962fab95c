#include <stdio.h>

#include <jansson.h>

#include "mount/verbs.h"

static int provision_run(struct invocation *invocation, struct error *err)
{
    cleanup_sandbox struct sandbox sandbox = {0};
    const char *how;

    if (verb_provision_session(&invocation->options, invocation->arguments.words[0], &sandbox,
                               err) < 0) {
        return -1;
    }
    how = !sandbox.created                          ? "is there already,"
          : invocation->options.spec.attach != NULL ? "attached to"
                                                    : "made";
    if (invocation->options.json) {
        return print_json(json_pack("{s:s, s:s, s:s, s:b}", "session", sandbox.session, "id",
                                    sandbox.id, "backend", sandbox.backend->name, "created",
                                    (int)sandbox.created),
                          err);
    }
    printf("%s: %s %s sandbox %s\n", sandbox.session, how, sandbox.backend->name, sandbox.id);
    return EXIT_DONE;
}

const struct verb verb_provision = {
    .name = "provision",
    .summary = "make a session's sandbox where there is none",
    .synopsis =
        "SESSION [options]\n       handsfs provision --attach CONTAINER [SESSION] [options]",
    .text = "Makes the sandbox of SESSION, unless it runs already: then nothing is changed, and "
            "one that was\n"
            "made with another image, workdir or network is an error. Live mounts of the session "
            "that have\n"
            "lost their sandbox go on with the new one.\n"
            "\n"
            "A session's name is 1 to 63 letters, digits, \".\", \"_\" and \"-\", a letter or "
            "digit first.\n",
    .examples = "  handsfs provision s1 --network full --env LANG=C.UTF-8\n"
                "  handsfs provision s1 --json\n"
                "  handsfs provision s1 --backend docker --image debian:12 --set pull=always\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_SPEC | OPTIONS_JSON,
    .min_words = 1,
    .max_words = 1,
    .failure = EXIT_FAILED,
    .run = provision_run,
};
