/* handsfs: finds the verb, reads its options, runs it, and is the one place that says why it failed.
 *
 * It is also what mount(8) calls for the type fuse.handsfs, then without a verb: handsfs SESSION DIR -o LIST. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mount/verbs.h"
#include "sandbox/log.h"

static const struct verb *find_verb(const char *name)
{
    for (const struct verb *const *verb = verbs; *verb != NULL; verb++) {
        if (strcmp((*verb)->name, name) == 0) {
            return *verb;
        }
    }
    return NULL;
}

/* Whether the message begins with the word, or with a path that ends in it, and a colon. */
static bool begins_with(const char *message, const char *word)
{
    size_t head = strcspn(message, ":");
    size_t length = strlen(word);

    return length <= head && strncmp(message + head - length, word, length) == 0 &&
           (length == head || message[head - length - 1] == '/');
}

/* Says why, in one line, with what was asked for before it: "handsfs: read s1: /x: ...". */
static int report(const struct invocation *invocation, const struct error *err)
{
    char about[ERROR_MESSAGE_MAX] = "";
    size_t used = 0;

    for (size_t i = 0; i < invocation->arguments.count && used < sizeof about; i++) {
        const char *word = invocation->arguments.words[i];

        if (!begins_with(err->message, word)) {
            used += (size_t)snprintf(about + used, sizeof about - used, " %s", word);
        }
    }
    log_error("%s%s: %s", invocation->verb->name, about, err->message);
    return invocation->verb->failure;
}

static int usage(const struct verb *verb, const char *why)
{
    log_error("%s: %s", verb->name, why);
    fprintf(stderr, "Usage: handsfs %s %s\n       handsfs %s --help\n", verb->name, verb->synopsis,
            verb->name);
    return verb->failure == EXIT_EXEC_FAILED ? EXIT_EXEC_FAILED : EXIT_USAGE;
}

/* Puts the session's name in front of the words where it may be left out and is. */
static int name_session(struct invocation *invocation, struct error *err)
{
    struct arguments *arguments = &invocation->arguments;

    if (invocation->options.spec.attach == NULL || (invocation->verb->groups & OPTIONS_SPEC) == 0 ||
        arguments->count + 1 != invocation->verb->min_words) {
        return 0;
    }
    if (options_session_of_attach(&invocation->options, invocation->session, err) < 0) {
        return -1;
    }
    memmove(arguments->words + 1, arguments->words, arguments->count * sizeof *arguments->words);
    arguments->words[0] = invocation->session;
    arguments->count++;
    return 0;
}

static int run_verb(const struct verb *verb, int count, char **words)
{
    struct invocation invocation = {.verb = verb};
    struct error err = {0};
    int r;

    options_init(&invocation.options);
    if (options_read_defaults(&invocation.options, &err) < 0) {
        log_error("%s", err.message);
        r = verb->failure == EXIT_EXEC_FAILED ? EXIT_EXEC_FAILED : EXIT_USAGE;
    } else if (options_read_arguments(&invocation.options, count, words, verb->groups,
                                      verb->max_words, verb->takes_command, &invocation.arguments,
                                      &err) < 0) {
        r = usage(verb, err.message);
    } else if (invocation.options.help) {
        help_verb(stdout, verb);
        r = EXIT_DONE;
    } else if (name_session(&invocation, &err) < 0) {
        r = usage(verb, err.message);
    } else if (invocation.arguments.count < verb->min_words) {
        r = usage(verb, "too few arguments");
    } else {
        if (invocation.options.verbose) {
            log_set_level(LOG_LEVEL_TRACE);
        }
        r = verb->run(&invocation, &err);
        if (r < 0) {
            r = report(&invocation, &err);
        }
    }
    free(invocation.arguments.words);
    options_release(&invocation.options);
    return r;
}

/* A verb's output that could not be written is a failure that nobody would see otherwise. */
static int finish(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        log_error("cannot write to standard output");
        return code == EXIT_DONE ? EXIT_FAILED : code;
    }
    return code;
}

/* With one of them closed the next file that is opened would take its place, and what is printed would go
 * there. */
static void open_standard_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : "--help";
    const struct verb *verb = find_verb(first);

    open_standard_streams();
    /* Nothing that the caller happens to have open goes on to programs that we start. */
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    if (verb != NULL) {
        return finish(run_verb(verb, argc - 2, argv + 2));
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        help_all(argc > 1 ? stdout : stderr);
        return finish(argc > 1 ? EXIT_DONE : EXIT_USAGE);
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        puts("handsfs " HANDSFS_VERSION);
        return finish(EXIT_DONE);
    }
    if (first[0] != '-' && argc > 2) { /* as mount(8) calls us */
        return finish(run_verb(&verb_mount, argc - 1, argv + 1));
    }
    log_error("unknown verb \"%s\"; handsfs --help lists them", first);
    return EXIT_USAGE;
}
