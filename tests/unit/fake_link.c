#include "tests/unit/fake_link.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LATE_MS 60
#define FILES 64

struct file {
    char *path;
    uint8_t *data;
    size_t length;
};

struct link {
    uv_loop_t *loop;
    struct sandbox sandbox;
    struct link_peer peer;
    struct fake_link_counts counts;
    struct file files[FILES];
    bool held;
    struct file_call *waiting; /* while held */
};

struct link *fake_link_new(uv_loop_t *loop)
{
    struct link *link = calloc(1, sizeof *link);

    link->loop = loop;
    link->sandbox.session = strdup("s1");
    link->sandbox.id = strdup("fake-1");
    link->sandbox.workdir = strdup("/workspace");
    memcpy(link->peer.version, "0.1.0", 6);
    memcpy(link->peer.machine, "x86_64", 7);
    return link;
}

void fake_link_free(struct link *link)
{
    free(link->sandbox.session);
    free(link->sandbox.id);
    free(link->sandbox.workdir);
    for (size_t i = 0; i < FILES; i++) {
        free(link->files[i].path);
        free(link->files[i].data);
    }
    free(link);
}

struct fake_link_counts fake_link_counts(const struct link *link)
{
    return link->counts;
}

enum link_state link_state(const struct link *link)
{
    (void)link;
    return LINK_UP;
}

const struct sandbox *link_sandbox(const struct link *link)
{
    return &link->sandbox;
}

const struct link_peer *link_peer(const struct link *link)
{
    return &link->peer;
}

/* ---- Executions ---- */

struct execution {
    struct link *link;
    uv_timer_t timer;
    char *command;
    char *cwd;
    struct buffer env;
    struct buffer input;
    bool cancelled;
    bool held_input; /* "reader" reads nothing before a signal comes */
    bool wants_room;
    size_t given, taken; /* of what is produced */
    execution_output output;
    void (*room)(void *arg);
    execution_done done;
    void *arg;
};

static void append(struct buffer *b, const void *data, size_t length)
{
    if (buffer_append(b, data, length) < 0) {
        abort();
    }
}

/* What follows `word` in the command, or NULL where it is another. */
static const char *argument(const struct execution *e, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(e->command, word, length) != 0) {
        return NULL;
    }
    return e->command[length] == ' ' ? e->command + length + 1 : e->command + length;
}

static void append_fill(struct buffer *b, size_t n)
{
    uint8_t *to = buffer_reserve(b, n);

    memset(to, 'x', n);
    buffer_commit(b, n);
}

static void play_output(struct execution *e, struct execution_result *result)
{
    struct buffer *out = &result->out[0];
    const char *text;

    if ((text = argument(e, "echo")) != NULL || (text = argument(e, "late")) != NULL) {
        append(out, text, strlen(text));
        append(out, "\n", 1);
    } else if (argument(e, "cat") != NULL || argument(e, "reader") != NULL) {
        buffer_move(out, &e->input);
    } else if (argument(e, "pwd") != NULL) {
        append(out, e->cwd, strlen(e->cwd));
    } else if (argument(e, "env") != NULL) {
        buffer_move(out, &e->env);
    } else if ((text = argument(e, "fill")) != NULL) {
        append_fill(out, (size_t)strtoul(text, NULL, 10));
    } else if (argument(e, "binary") != NULL) {
        append(out, "\xff\xfe", 2);
        append(&result->out[1], "bad\xc0", 4);
    } else if (argument(e, "cut") != NULL) {
        append(out, "euro \xe2\x82", 7);
        result->dropped[0] = 10;
    }
}

static void play_end(struct execution *e, struct execution_result *result)
{
    const char *text;

    if ((text = argument(e, "exit")) != NULL) {
        result->exit_code = (int)strtol(text, NULL, 10);
    } else if ((text = argument(e, "signal")) != NULL) {
        result->exit_code = -1;
        result->signal = (int)strtol(text, NULL, 10);
    } else if (argument(e, "timeout") != NULL) {
        append(&result->out[0], "partial", 7);
        result->timed_out = true;
        result->exit_code = -1;
        result->signal = SIGKILL;
    }
}

static void execution_freed(uv_handle_t *handle)
{
    struct execution *e = handle->data;

    free(e->command);
    free(e->cwd);
    buffer_release(&e->env);
    buffer_release(&e->input);
    free(e);
}

static void execution_ends(uv_timer_t *timer)
{
    struct execution *e = timer->data;
    struct execution_result result = {.duration_ms = 5};
    struct error err;
    bool failed = true;

    buffer_init(&result.out[0], 32 << 20);
    buffer_init(&result.out[1], 32 << 20);
    e->link->counts.running--;
    if (e->cancelled) {
        error_set(&err, ERROR_CANCELLED, 0, "cancelled");
    } else if (argument(e, "gone") != NULL) {
        error_set(&err, ERROR_SANDBOX_GONE, 0, "the sandbox is gone");
    } else if (argument(e, "cwd") != NULL) {
        error_set(&err, ERROR_NO_SUCH_FILE, 0, "cwd /caf\xe9: no such directory");
    } else {
        failed = false;
        play_output(e, &result);
        for (unsigned i = 0; e->output != NULL && i < 2; i++) {
            e->output(e->arg, i, result.out[i].data, result.out[i].length);
        }
        play_end(e, &result);
    }
    e->done(e->arg, failed ? &err : NULL, failed ? NULL : &result);
    buffer_release(&result.out[0]);
    buffer_release(&result.out[1]);
    uv_close((uv_handle_t *)timer, execution_freed);
}

struct execution *execution_start(struct link *link, const struct execution_request *request,
                                  execution_done done, void *arg)
{
    struct execution *e = calloc(1, sizeof *e);

    e->link = link;
    e->command = strndup(request->command, request->command_length);
    e->cwd = strdup(request->cwd != NULL ? request->cwd : "");
    e->output = request->output;
    e->room = request->room;
    e->done = done;
    e->arg = arg;
    buffer_init(&e->input, EXECUTION_MAX_QUEUED);
    buffer_init(&e->env, 1 << 20);
    for (size_t i = 0; request->env != NULL && request->env[i] != NULL; i++) {
        append(&e->env, request->env[i], strlen(request->env[i]));
        append(&e->env, "\n", 1);
    }
    link->counts.started++;
    link->counts.running++;
    uv_timer_init(link->loop, &e->timer);
    e->timer.data = e;
    e->held_input = argument(e, "reader") != NULL;
    if (argument(e, "hang") == NULL && !e->held_input) {
        uv_timer_start(&e->timer, execution_ends, argument(e, "late") != NULL ? LATE_MS : 0, 0);
    }
    return e;
}

int execution_write(struct execution *e, const void *data, size_t length, bool eof, struct error *err)
{
    e->link->counts.written += length;
    e->link->counts.ended_inputs += eof;
    if (buffer_append(&e->input, data, length) < 0) {
        return error_set(err, ERROR_TOO_LARGE, 0, "too much input");
    }
    return 0;
}

static void reader_reads(uv_timer_t *timer)
{
    struct execution *e = timer->data;

    e->held_input = false;
    if (e->wants_room) {
        e->room(e->arg);
    }
    execution_ends(timer);
}

void execution_signal(struct execution *e, int signal)
{
    e->link->counts.signalled |= UINT64_C(1) << (signal - 1);
    if (e->held_input) {
        uv_timer_start(&e->timer, reader_reads, 0, 0);
    }
}

void execution_take(struct execution *e, unsigned stream, size_t length)
{
    (void)stream;
    e->taken += length;
}

uint64_t execution_received(const struct execution *e)
{
    (void)e;
    return 0;
}

size_t execution_unread(const struct execution *e)
{
    return e->held_input ? e->input.length : 0;
}

void execution_want_room(struct execution *e)
{
    e->wants_room = true;
}

void execution_resize(struct execution *e, uint16_t rows, uint16_t columns)
{
    e->link->counts.rows = rows;
    e->link->counts.columns = columns;
}

void execution_cancel(struct execution *e)
{
    e->link->counts.cancelled++;
    e->cancelled = true;
    uv_timer_start(&e->timer, execution_ends, 0, 0);
}

/* ---- Files ---- */

struct file_call {
    struct file_call *next;
    struct link *link;
    uv_timer_cb run;
    uv_timer_t timer;
    char *path;
    uint8_t *data; /* of a write */
    size_t length;
    read_file_done read_done;
    write_file_done write_done;
    void *arg;
};

static struct file_call *file_call_new(struct link *link, const char *path, uv_timer_cb run, void *arg)
{
    struct file_call *f = calloc(1, sizeof *f);

    f->link = link;
    f->path = strdup(path);
    f->arg = arg;
    uv_timer_init(link->loop, &f->timer);
    f->timer.data = f;
    f->run = run;
    if (link->held) {
        f->next = link->waiting;
        link->waiting = f;
    } else {
        uv_timer_start(&f->timer, run, 0, 0);
    }
    link->counts.file_calls++;
    if (link->counts.file_calls > link->counts.file_calls_most) {
        link->counts.file_calls_most = link->counts.file_calls;
    }
    return f;
}

void fake_link_hold_file_calls(struct link *link, bool hold)
{
    link->held = hold;
    for (struct file_call *f = link->waiting; !hold && f != NULL; f = f->next) {
        uv_timer_start(&f->timer, f->run, 0, 0);
    }
    link->waiting = hold ? link->waiting : NULL;
}

static void file_call_freed(uv_handle_t *handle)
{
    struct file_call *f = handle->data;

    free(f->path);
    free(f->data);
    free(f);
}

static struct file *file_find(struct link *link, const char *path)
{
    for (size_t i = 0; i < FILES; i++) {
        if (link->files[i].path != NULL && strcmp(link->files[i].path, path) == 0) {
            return &link->files[i];
        }
    }
    return NULL;
}

static struct file *file_make(struct link *link, const char *path)
{
    struct file *file = file_find(link, path);

    for (size_t i = 0; file == NULL && i < FILES; i++) {
        if (link->files[i].path == NULL) {
            file = &link->files[i];
            file->path = strdup(path);
        }
    }
    return file;
}

static void run_read(uv_timer_t *timer)
{
    struct file_call *f = timer->data;
    const struct file *file = file_find(f->link, f->path);
    struct error err;

    f->link->counts.file_calls--;
    if (strncmp(f->path, "/fill/", 6) == 0) {
        f->length = (size_t)strtoul(f->path + 6, NULL, 10);
        f->data = malloc(f->length);
        memset(f->data, 'x', f->length);
        f->read_done(f->arg, NULL, f->data, f->length);
    } else if (strcmp(f->path, "/dir") == 0) {
        error_set(&err, ERROR_IS_DIRECTORY, EISDIR, "/dir: is a directory");
        f->read_done(f->arg, &err, NULL, 0);
    } else if (file == NULL) {
        error_set(&err, ERROR_NO_SUCH_FILE, ENOENT, "%s: no such file", f->path);
        f->read_done(f->arg, &err, NULL, 0);
    } else {
        f->read_done(f->arg, NULL, file->data, file->length);
    }
    uv_close((uv_handle_t *)timer, file_call_freed);
}

static void run_write(uv_timer_t *timer)
{
    struct file_call *f = timer->data;
    struct file *file;
    struct error err;

    f->link->counts.file_calls--;
    if (strcmp(f->path, "/full") == 0) {
        error_set_errno(&err, ENOSPC, "/full");
        f->write_done(f->arg, &err);
    } else {
        file = file_make(f->link, f->path);
        if (file != NULL) {
            free(file->data);
            file->data = f->data;
            file->length = f->length;
            f->data = NULL;
        }
        f->write_done(f->arg, NULL);
    }
    uv_close((uv_handle_t *)timer, file_call_freed);
}

void link_read_file(struct link *link, const char *path, uint64_t limit, uint64_t timeout_ms,
                    read_file_done done, void *arg)
{
    (void)limit;
    (void)timeout_ms;
    file_call_new(link, path, run_read, arg)->read_done = done;
}

void link_write_file(struct link *link, const char *path, const void *data, size_t length,
                     uint64_t timeout_ms, write_file_done done, void *arg)
{
    struct file_call *f = file_call_new(link, path, run_write, arg);

    (void)timeout_ms;
    f->write_done = done;
    f->data = malloc(length > 0 ? length : 1);
    f->length = length;
    if (length > 0) {
        memcpy(f->data, data, length);
    }
}
