#include "tests/contract/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define PROVISION_MS 110000
#define SETTLE_MS 10000 /* for the killed to be reaped, and the started to be executed */
#define NAME_BYTES 64

struct fixture fixture;
struct session S;

/* ---- What was handed to the test, and goes with its session ------------------------------------- */

static struct {
    void **items;
    size_t count;
} kept;

static void keep(void *memory)
{
    kept.items = realloc(kept.items, (kept.count + 1) * sizeof *kept.items);
    ck_assert_ptr_nonnull(kept.items);
    kept.items[kept.count++] = memory;
}

/* Its memory stays where it is until then: also a later buffer_text() finds room. */
static void keep_buffer(struct buffer *b)
{
    ck_assert_ptr_nonnull(buffer_text(b));
    keep(b->data);
}

static void drop_kept(void)
{
    for (size_t i = 0; i < kept.count; i++) {
        free(kept.items[i]);
    }
    free(kept.items);
    kept.items = NULL;
    kept.count = 0;
}

/* ---- The loop as a blocking call -------------------------------------------------------------- */

static void wait_for(struct session *s, const bool *done)
{
    while (!*done) {
        uv_run(&s->loop, UV_RUN_ONCE);
    }
}

static void set_flag(void *arg)
{
    *(bool *)arg = true;
}

static void flag_timer(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* ---- Sessions ---------------------------------------------------------------------------------- */

char *other_image(const char *tag)
{
    const char *colon = strrchr(fixture.image, ':');
    char *name = NULL;

    ck_assert_ptr_nonnull(colon);
    ck_assert_int_gt(asprintf(&name, "%.*s:%s", (int)(colon - fixture.image), fixture.image, tag), 0);
    return name;
}

void session_spec(struct sandbox_spec *spec)
{
    static unsigned serial;
    char name[NAME_BYTES];

    sandbox_spec_init(spec);
    snprintf(name, sizeof name, "%s%ld-%u", fixture.prefix, (long)getpid(), serial++);
    spec->session = strdup(name);
    if (fixture.image != NULL) {
        spec->image = strdup(fixture.image);
    }
}

static void open_link(struct session *s)
{
    struct link_options options = {.placement = fixture.placement, .timeout_ms = 20000};
    uint64_t until_ms = clock_now_ms() + PROVISION_MS;
    struct sandbox sandbox = {0};
    struct error err;

    snprintf(s->id, sizeof s->id, "%s", s->sandbox.id);
    assert_ok(sandbox_attach(fixture.backend, s->sandbox.session, clock_now_ms() + PROVISION_MS, &sandbox,
                             &err),
              err);
    ck_assert_int_eq(uv_loop_init(&s->loop), 0);
    assert_ok(link_open(&s->link, &s->loop, &sandbox, &options, &err), err);
    /* A deadline counts the way to the sandbox too: rows with a short one begin when the way is there. The
     * link's own attempts end, so each turn does. */
    while (link_state(s->link) == LINK_CONNECTING && clock_now_ms() < until_ms) {
        uv_run(&s->loop, UV_RUN_ONCE);
    }
}

void session_open(struct session *s, struct sandbox_spec *spec)
{
    struct error err;

    *s = (struct session){.spec = *spec};
    sandbox_spec_init(spec);
    assert_ok(sandbox_spec_check(&s->spec, &err), err);
    assert_ok(sandbox_provision(fixture.backend, &s->spec, clock_now_ms() + PROVISION_MS, &s->sandbox,
                                &err),
              err);
    s->created = s->sandbox.created;
    open_link(s);
}

void session_attach(struct session *s, const char *name)
{
    struct error err;

    *s = (struct session){0};
    sandbox_spec_init(&s->spec);
    assert_ok(sandbox_attach(fixture.backend, name, clock_now_ms() + PROVISION_MS, &s->sandbox, &err), err);
    open_link(s);
}

void session_close(struct session *s, bool destroy)
{
    struct error err;
    bool closed = false;

    if (s->link != NULL) {
        link_close(s->link, set_flag, &closed);
        wait_for(s, &closed);
        uv_run(&s->loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(uv_loop_close(&s->loop), 0);
    }
    if (destroy && !ahead_drop(s->sandbox.session)) {
        assert_ok(sandbox_destroy(fixture.backend, s->sandbox.session, clock_now_ms() + PROVISION_MS, &err),
                  err);
    }
    sandbox_release(&s->sandbox);
    sandbox_spec_release(&s->spec);
    *s = (struct session){0};
    if (destroy) {
        drop_kept();
    }
}

void setup_session(void)
{
    struct sandbox_spec spec;
    bool created = false;
    bool ready;

    session_spec(&spec);
    ready = ahead_take(&spec, &created);
    session_open(&S, &spec);
    S.created = ready ? created : S.created;
}

/* Nothing runs in it any more, and its files are gone: as the row found it. */
static bool left_clean(struct session *s)
{
    static const char clean[] =
        "until n=0; for p in /proc/[0-9]*; do"
        "  { read -r name <$p/comm; } 2>/dev/null || continue;"
        "  [ $p = /proc/$$ ] || [ \"$name\" = hand ] || ! kill -KILL ${p#/proc/} 2>/dev/null || n=1; "
        "done; [ $n = 0 ]; do :; done; find /workspace /tmp /var/tmp -xdev -mindepth 1 -delete";
    struct run run;

    if (link_state(s->link) != LINK_UP) {
        return false;
    }
    run = session_exec(s, clean, 20000);
    return !run.failed && run.result.exit_code == 0 && !run.result.timed_out;
}

void teardown_session(void)
{
    bool again = ahead_may_return(S.sandbox.session) && left_clean(&S);

    session_close(&S, !again);
    if (again) {
        drop_kept();
        ahead_return();
    }
}

/* ---- Commands ---------------------------------------------------------------------------------- */

struct waiting {
    struct run *run;
    bool done;
};

static void exec_done(void *arg, const struct error *err, struct execution_result *result)
{
    struct waiting *w = arg;

    ck_assert(!w->done); /* exactly once */
    w->done = true;
    w->run->failed = err != NULL;
    if (err != NULL) {
        w->run->err = *err;
        return;
    }
    w->run->result = *result;
    for (unsigned i = 0; i < 2; i++) {
        buffer_init(&w->run->result.out[i], result->out[i].limit);
        buffer_move(&w->run->result.out[i], &result->out[i]);
        keep_buffer(&w->run->result.out[i]);
    }
}

struct run session_exec_request(struct session *s, const struct execution_request *request,
                                const void *input, size_t length)
{
    struct run run = {0};
    struct waiting w = {&run, false};
    struct execution *e = execution_start(s->link, request, exec_done, &w);
    struct error err;

    if (request->has_stdin) {
        assert_ok(execution_write(e, input, length, true, &err), err);
    }
    wait_for(s, &w.done);
    return run;
}

struct run session_exec(struct session *s, const char *command, uint64_t timeout_ms)
{
    struct execution_request request = {
        .command = command,
        .command_length = strlen(command),
        .timeout_ms = timeout_ms,
    };

    return session_exec_request(s, &request, NULL, 0);
}

struct run session_exec_cancelled(struct session *s, const char *command, uint64_t after_ms)
{
    struct run run = {0};
    struct waiting w = {&run, false};
    struct execution_request request = {.command = command, .command_length = strlen(command)};
    struct execution *e = execution_start(s->link, &request, exec_done, &w);
    uv_timer_t timer;
    bool passed = false;

    uv_timer_init(&s->loop, &timer);
    timer.data = &passed;
    uv_timer_start(&timer, flag_timer, after_ms, 0);
    wait_for(s, &passed);
    uv_close((uv_handle_t *)&timer, NULL);
    ck_assert(!w.done);
    execution_cancel(e);
    wait_for(s, &w.done);
    return run;
}

void session_exec_all(struct session *s, const char *const *commands, size_t count, struct run *runs)
{
    struct waiting *w = calloc(count, sizeof *w);

    ck_assert_ptr_nonnull(w);
    for (size_t i = 0; i < count; i++) {
        struct execution_request request = {
            .command = commands[i],
            .command_length = strlen(commands[i]),
        };

        w[i].run = &runs[i];
        execution_start(s->link, &request, exec_done, &w[i]);
    }
    for (size_t i = 0; i < count; i++) {
        wait_for(s, &w[i].done);
    }
    free(w);
}

const char *session_output(struct session *s, const char *command)
{
    struct run run = session_exec(s, command, 0);
    const char *text;

    assert_exit(run, 0);
    text = buffer_text(&run.result.out[0]);
    ck_assert_ptr_nonnull(text);
    return text;
}

int session_count(struct session *s, const char *prefix)
{
    cleanup_free char *command = NULL;

    ck_assert_int_gt(asprintf(&command,
                              "n=0\n"
                              "for f in /proc/[0-9]*/cmdline; do\n"
                              "  c=$(tr '\\0' ' ' 2>/dev/null <\"$f\") || continue\n"
                              "  case $c in '%s'*) n=$((n + 1));; esac\n"
                              "done 2>/dev/null\n"
                              "echo $n",
                              prefix),
                     0);
    return atoi(session_output(s, command));
}

int session_wait_count(struct session *s, const char *prefix, int want)
{
    uint64_t until = clock_now_ms() + SETTLE_MS;
    int n = session_count(s, prefix);

    while (n != want && clock_now_ms() < until) {
        n = session_count(s, prefix);
    }
    return n;
}

void assert_no_sleep_is_left(struct session *s)
{
    uint64_t until_ms = clock_now_ms() + SETTLE_MS;
    struct run run;

    do {
        run = session_exec(s, "/bin/sleep 0; n=0; for p in /proc/[0-9]*/comm; do read -r c <$p; "
                              "[ \"$c\" = sleep ] && n=$((n + 1)); done 2>/dev/null; echo \"n=$n\"",
                           20000);
        assert_ran(run);
    } while (strstr(buffer_text(&run.result.out[0]), "n=0") == NULL && clock_now_ms() < until_ms);
    ck_assert_ptr_nonnull(strstr(buffer_text(&run.result.out[0]), "n=0"));
}

/* ---- Files -------------------------------------------------------------------------------------- */

struct reading {
    struct buffer *content;
    struct error *err;
    int r;
    bool done;
};

static void read_done(void *arg, const struct error *err, const uint8_t *data, size_t length)
{
    struct reading *w = arg;

    ck_assert(!w->done);
    w->done = true;
    w->r = err != NULL ? -1 : 0;
    if (err != NULL) {
        *w->err = *err;
        return;
    }
    ck_assert_int_eq(buffer_append(w->content, data, length), 0);
}

int session_read(struct session *s, const char *path, uint64_t limit, struct buffer *content,
                 struct error *err)
{
    struct reading w = {content, err, 0, false};

    buffer_init(content, SIZE_MAX / 2);
    link_read_file(s->link, path, limit, 0, read_done, &w);
    wait_for(s, &w.done);
    keep_buffer(content);
    return w.r;
}

struct writing {
    struct written *file;
    bool done;
};

static void write_done(void *arg, const struct error *err)
{
    struct writing *w = arg;

    ck_assert(!w->done);
    w->done = true;
    w->file->code = err != NULL ? err->code : ERROR_NONE;
    if (err != NULL) {
        w->file->err = *err;
    }
}

void session_write_all(struct session *s, struct written *files, size_t count)
{
    struct writing *w = calloc(count, sizeof *w);

    ck_assert_ptr_nonnull(w);
    for (size_t i = 0; i < count; i++) {
        w[i].file = &files[i];
        link_write_file(s->link, files[i].path, files[i].data, files[i].length, 0, write_done, &w[i]);
    }
    for (size_t i = 0; i < count; i++) {
        wait_for(s, &w[i].done);
    }
    free(w);
}

int session_write(struct session *s, const char *path, const void *data, size_t length,
                  struct error *err)
{
    struct written file = {.path = path, .data = data, .length = length};

    session_write_all(s, &file, 1);
    if (file.code != ERROR_NONE) {
        *err = file.err;
        return -1;
    }
    return 0;
}

/* ---- Odds and ends ------------------------------------------------------------------------------ */

void assert_bytes(const struct buffer *got, const void *want, size_t length)
{
    ck_assert_msg(got->length == length, "%zu bytes where %zu were expected: \"%.*s\"", got->length,
                  length, (int)(got->length < 200 ? got->length : 200), (const char *)got->data);
    ck_assert_msg(length == 0 || memcmp(got->data, want, length) == 0, "other bytes: \"%.*s\"",
                  (int)(length < 200 ? length : 200), (const char *)got->data);
}

uint8_t *noise(size_t length, uint32_t seed)
{
    uint8_t *bytes = malloc(length > 0 ? length : 1);
    uint32_t x = seed * 2654435761u + 1;

    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < length; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        bytes[i] = (uint8_t)(x >> 24);
    }
    return bytes;
}
