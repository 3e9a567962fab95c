#include "hand/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define MAX_SAID 3500

/* ---- Arguments ---- */

static int bad_arguments(struct error *err)
{
    return error_set(err, ERROR_BAD_REQUEST, 0, "the arguments do not make sense");
}

/* Cuts the text to pieces: a NUL takes the place of each "=", and each argument moves one to the left over its ":"
 * to have one at its end. */
static int parse_arguments(struct tool_run *run, struct error *err)
{
    char *at = run->text;

    while (*at != '\0') {
        char *end;
        unsigned long length = strtoul(at, &end, 10);
        struct tool_argument *a = &run->arguments[run->argument_count];
        char *equals;

        if (end == at || *end != ':' || length > strlen(end + 1) ||
            run->argument_count == TOOL_MAX_ARGUMENTS) {
            return bad_arguments(err);
        }
        at = end + 1 + length;
        memmove(end, end + 1, length);
        end[length] = '\0';
        equals = memchr(end, '=', length);
        if (equals == NULL) {
            return bad_arguments(err);
        }
        *equals = '\0';
        a->name = end;
        a->value = equals + 1;
        a->length = length - (size_t)(equals + 1 - end);
        run->argument_count++;
    }
    return 0;
}

const char *tool_argument(const struct tool_run *run, const char *name, size_t *ret_length)
{
    for (size_t i = 0; i < run->argument_count; i++) {
        if (strcmp(run->arguments[i].name, name) == 0) {
            if (ret_length != NULL) {
                *ret_length = run->arguments[i].length;
            }
            return run->arguments[i].value;
        }
    }
    if (ret_length != NULL) {
        *ret_length = 0;
    }
    return NULL;
}

uint64_t tool_argument_number(const struct tool_run *run, const char *name)
{
    const char *text = tool_argument(run, name, NULL);

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* ---- Output ---- */

static void write_all(int fd, struct buffer *b)
{
    size_t done = 0;

    while (done < b->length) {
        ssize_t n = write(fd, b->data + done, b->length - done);

        if (n < 0 && errno != EINTR) {
            break; /* nobody reads any more */
        }
        done += n > 0 ? (size_t)n : 0;
    }
    buffer_clear(b);
}

void tool_out_flush(struct tool_run *run)
{
    write_all(STDOUT_FILENO, &run->out);
}

bool tool_out(struct tool_run *run, const void *data, size_t length)
{
    if (run->out_full || length > run->out_max - run->out_total) {
        run->out_full = true;
        return false;
    }
    run->out_total += length;
    while (length > 0) {
        size_t piece = length < TOOL_OUT_PIECE ? length : TOOL_OUT_PIECE;

        if (run->out.length + piece > TOOL_OUT_PIECE) {
            tool_out_flush(run);
        }
        if (buffer_append(&run->out, data, piece) < 0) {
            run->out_full = true;
            return false;
        }
        data = (const char *)data + piece;
        length -= piece;
    }
    return true;
}

void tool_say_number(struct tool_run *run, const char *name, uint64_t value)
{
    (void)!buffer_printf(&run->said, "%s %" PRIu64 "\n", name, value);
}

void tool_say(struct tool_run *run, const char *name, const char *text, size_t length)
{
    size_t start;

    if (length > 512) {
        length = 512;
    }
    if (buffer_printf(&run->said, "%s ", name) < 0) {
        return;
    }
    start = run->said.length;
    if (buffer_append(&run->said, text, length) < 0 || buffer_append(&run->said, "\n", 1) < 0) {
        return;
    }
    for (size_t i = start; i + 1 < run->said.length; i++) {
        if (run->said.data[i] < 0x20 || run->said.data[i] == 0x7f) {
            run->said.data[i] = '?';
        }
    }
}

static void say_error(struct tool_run *run, const struct error *err)
{
    const char *name = error_name(err->code);

    buffer_clear(&run->said);
    tool_say(run, "error", name, strlen(name));
    tool_say_number(run, "errno", (uint64_t)error_errno(err));
    tool_say(run, "message", err->message, strlen(err->message));
}

/* ---- Files ---- */

static void put_version(char to[TOOL_VERSION_SIZE], uint64_t ino, uint64_t size, const int64_t *times)
{
    snprintf(to, TOOL_VERSION_SIZE, "%" PRIx64 ".%" PRIx64 ".%" PRIx64 ".%" PRIx64, ino, size,
             (uint64_t)times[0] * 1000000000 + (uint64_t)times[1],
             (uint64_t)times[2] * 1000000000 + (uint64_t)times[3]);
}

void tool_version(char to[TOOL_VERSION_SIZE], const struct stat *st)
{
    const int64_t times[] = {st->st_mtim.tv_sec, st->st_mtim.tv_nsec, st->st_ctim.tv_sec,
                             st->st_ctim.tv_nsec};

    put_version(to, st->st_ino, (uint64_t)st->st_size, times);
}

void tool_version_of_attr(char to[TOOL_VERSION_SIZE], const struct wire_attr *attr)
{
    const int64_t times[] = {attr->mtime.seconds, attr->mtime.nanoseconds, attr->ctime.seconds,
                             attr->ctime.nanoseconds};

    put_version(to, attr->ino, attr->size, times);
}

int tool_open(const char *path, struct stat *ret, struct error *err)
{
    cleanup_fd int fd = -1;

    if (lstat(path, ret) < 0) {
        return error_set_errno(err, errno, "%s", path);
    }
    if (S_ISREG(ret->st_mode)) {
        fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, ret) < 0) {
            return error_set_errno(err, errno == ELOOP ? ENXIO : errno, "%s", path);
        }
    }
    if (S_ISDIR(ret->st_mode)) {
        return error_set_errno(err, EISDIR, "%s", path);
    }
    if (!S_ISREG(ret->st_mode)) {
        return error_set_errno(err, ENXIO, "%s", path);
    }
    return take_fd(&fd);
}

/* ---- The program ---- */

static const struct {
    const char *name;
    int (*run)(struct tool_run *run, struct error *err);
} verbs[] = {
    {"lines", tool_lines}, {"edit", tool_edit}, {"put", tool_put}, {"glob", search_glob}, {"grep", search_grep},
    {"sweep", tool_sweep},
};

/* Deep trees have a descriptor open for each level. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int run_verb(struct tool_run *run, const char *name, const char *arguments, struct error *err)
{
    run->text = strdup(arguments);
    if (run->text == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (parse_arguments(run, err) < 0) {
        return -1;
    }
    run->out_max = tool_argument_number(run, "out_max");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return verbs[i].run(run, err);
        }
    }
    return bad_arguments(err);
}

int tool_main(int argc, char **argv)
{
    struct tool_run run = {.out = BUFFER_INIT(TOOL_OUT_PIECE), .said = BUFFER_INIT(MAX_SAID)};
    struct error err;
    int r;

    setlocale(LC_CTYPE, "C.UTF-8"); /* for the other case of letters */
    allow_descriptors();
    r = argc == 4 ? run_verb(&run, argv[2], argv[3], &err) : bad_arguments(&err);
    if (r < 0) {
        say_error(&run, &err);
    }
    tool_out_flush(&run);
    write_all(STDERR_FILENO, &run.said);
    buffer_release(&run.out);
    buffer_release(&run.said);
    free(run.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
