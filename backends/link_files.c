/* Whole files: the contract's ReadFile and WriteFile, each a sequence of calls under one deadline. The hand
 * checks the file; what it answers is checked here, so that nothing larger than the limit is ever held. */
#include "backends/link_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct transfer {
    struct link *link;
    uint64_t deadline_ms;
    uint64_t limit;
    uint64_t size; /* what the hand said; 0: until the end (files of /proc say so) */
    uint64_t handle;
    size_t asked;  /* bytes in the READ or WRITE under way */
    size_t done_bytes;
    struct buffer data; /* read so far, or to be written */
    struct buffer path; /* from the root */
    struct error err;   /* decided before the first call */
    bool failed;
    read_file_done read_done; /* one of the two */
    write_file_done write_done;
    void *arg;
};

/* ---- Paths ------------------------------------------------------------------------------------ */

static int take_component(struct buffer *out, const char *name, size_t length)
{
    if (length == 0 || (length == 1 && name[0] == '.')) {
        return 0;
    }
    if (length == 2 && name[0] == '.' && name[1] == '.') {
        while (out->length > 0 && out->data[--out->length] != '/') {
        }
        return 0;
    }
    if (out->length > 0 && buffer_append(out, "/", 1) < 0) {
        return -1;
    }
    return buffer_append(out, name, length);
}

static int take_path(struct buffer *out, const char *path)
{
    while (*path != '\0') {
        size_t length = strcspn(path, "/");

        if (take_component(out, path, length) < 0) {
            return -1;
        }
        path += length + (path[length] == '/');
    }
    return 0;
}

/* As text: from the root, without "." and "..", without a slash at the start. */
static int normalise(struct transfer *t, const char *path, struct error *err)
{
    const char *workdir = t->link->target != NULL ? link_sandbox(t->link)->workdir : "/";

    if (path[0] == '\0') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "an empty path");
    }
    if ((path[0] != '/' && take_path(&t->path, workdir) < 0) || take_path(&t->path, path) < 0) {
        return error_set_errno(err, ENAMETOOLONG, "the path");
    }
    return 0;
}

/* ---- The sequence ----------------------------------------------------------------------------- */

static struct transfer *new_transfer(struct link *link, uint64_t timeout_ms, void *arg)
{
    struct transfer *t = calloc(1, sizeof *t);

    if (t == NULL) {
        abort(); /* not even room to say that there is none: no promise could be kept from here on */
    }
    t->link = link;
    t->arg = arg;
    t->deadline_ms = link_now(link) + (timeout_ms != 0 ? timeout_ms : link_timeout_ms(link));
    buffer_init(&t->path, WIRE_MAX_PATH);
    return t;
}

static void end(struct transfer *t, const struct error *err)
{
    if (t->handle != 0) {
        link_release_handle(t->link, t->handle);
    }
    if (t->read_done != NULL && err == NULL) {
        t->read_done(t->arg, NULL, t->data.data != NULL ? t->data.data : (const uint8_t *)"",
                     t->data.length);
    } else if (t->read_done != NULL) {
        t->read_done(t->arg, err, NULL, 0);
    } else {
        t->write_done(t->arg, err);
    }
    buffer_release(&t->data);
    buffer_release(&t->path);
    free(t);
}

static void end_with(struct transfer *t, enum error_code code, const char *message)
{
    struct error err;

    error_set(&err, code, 0, "%s", message);
    end(t, &err);
}

/* The next call, within what is left of the deadline. */
static void call(struct transfer *t, const struct wire_call *wire, call_done then)
{
    uint64_t now = link_now(t->link);

    if (now >= t->deadline_ms) {
        end_with(t, ERROR_NO_ANSWER, "the sandbox did not answer in time");
        return;
    }
    link_call(t->link, wire, t->deadline_ms - now, then, t);
}

static void refused(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct transfer *t = arg;

    (void)err;
    (void)reply;
    end(t, &t->err);
}

/* What fails before any call still answers from the loop: by way of a call that does nothing. */
static void refuse_later(struct transfer *t)
{
    struct wire_call nothing = {.op = WIRE_LOOKUP, .name = {"/", 1}};

    link_call(t->link, &nothing, 0, refused, t);
}

/* ---- ReadFile --------------------------------------------------------------------------------- */

static void read_more(struct transfer *t);

static void have_read(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct transfer *t = arg;

    if (err != NULL) {
        end(t, err);
        return;
    }
    if (reply->data.length > t->asked) {
        end_with(t, ERROR_IO, "the hand sent more than it was asked for");
        return;
    }
    if (t->data.length + reply->data.length > t->limit) {
        end_with(t, ERROR_TOO_LARGE, "the file is larger than may be read");
        return;
    }
    if (buffer_append(&t->data, reply->data.data, reply->data.length) < 0) {
        end_with(t, ERROR_NO_MEMORY, "out of memory for the file");
        return;
    }
    if (reply->data.length == 0 || (t->size != 0 && t->data.length >= t->size)) {
        end(t, NULL);
        return;
    }
    read_more(t);
}

static void read_more(struct transfer *t)
{
    /* One byte over the limit, where the size is not known, tells that there is more. */
    uint64_t left = (t->size != 0 ? t->size : t->limit + 1) - t->data.length;
    struct wire_call wire = {.op = WIRE_READ, .ref = {.handle = t->handle}};

    t->asked = left < WIRE_MAX_DATA ? (size_t)left : WIRE_MAX_DATA;
    wire.offset = t->data.length;
    wire.size = t->asked;
    call(t, &wire, have_read);
}

static void read_opened(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct transfer *t = arg;

    if (err != NULL) {
        end(t, err);
        return;
    }
    t->handle = reply->handle;
    t->size = reply->attr.size;
    if (t->size > t->limit) {
        end_with(t, ERROR_TOO_LARGE, "the file is larger than may be read");
        return;
    }
    if (t->size > 0 && buffer_reserve(&t->data, (size_t)t->size) == NULL) {
        end_with(t, ERROR_NO_MEMORY, "out of memory for the file");
        return;
    }
    read_more(t);
}

void link_read_file(struct link *link, const char *path, uint64_t limit, uint64_t timeout_ms,
                    read_file_done done, void *arg)
{
    struct transfer *t = new_transfer(link, timeout_ms, arg);
    struct wire_call wire = {.op = WIRE_READ_FILE, .ref = {.base = WIRE_BASE_ROOT}};

    t->read_done = done;
    t->limit = limit < INT64_MAX ? limit : INT64_MAX;
    buffer_init(&t->data, (size_t)t->limit);
    if (normalise(t, path, &t->err) < 0) {
        refuse_later(t);
        return;
    }
    wire.ref.path = (struct wire_text){(const char *)t->path.data, t->path.length};
    wire.limit = t->limit > 0 ? t->limit : 1;
    call(t, &wire, read_opened);
}

/* ---- WriteFile -------------------------------------------------------------------------------- */

static void write_more(struct transfer *t);

static void committed(void *arg, const struct error *err, const struct wire_reply *reply)
{
    (void)reply;
    end(arg, err);
}

static void have_written(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct transfer *t = arg;

    if (err != NULL) {
        end(t, err);
        return;
    }
    if (reply->size == 0 || reply->size > t->asked) {
        end_with(t, ERROR_IO, "the hand wrote more or less than it was asked to");
        return;
    }
    t->done_bytes += (size_t)reply->size;
    write_more(t);
}

static void write_more(struct transfer *t)
{
    size_t left = t->data.length - t->done_bytes;
    struct wire_call wire = {.ref = {.handle = t->handle}};

    if (left == 0) {
        wire.op = WIRE_COMMIT;
        call(t, &wire, committed);
        return;
    }
    t->asked = left < WIRE_MAX_DATA ? left : WIRE_MAX_DATA;
    wire.op = WIRE_WRITE;
    wire.offset = t->done_bytes;
    wire.data = (struct wire_text){(const char *)t->data.data + t->done_bytes, t->asked};
    call(t, &wire, have_written);
}

static void write_opened(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct transfer *t = arg;

    if (err != NULL) {
        end(t, err);
        return;
    }
    t->handle = reply->handle;
    write_more(t);
}

void link_write_file(struct link *link, const char *path, const void *data, size_t length,
                     uint64_t timeout_ms, write_file_done done, void *arg)
{
    struct transfer *t = new_transfer(link, timeout_ms, arg);
    struct wire_call wire = {.op = WIRE_WRITE_FILE, .ref = {.base = WIRE_BASE_ROOT}, .size = length};

    t->write_done = done;
    buffer_init(&t->data, length);
    if (normalise(t, path, &t->err) < 0) {
        refuse_later(t);
        return;
    }
    if (buffer_append(&t->data, data, length) < 0) {
        error_set(&t->err, ERROR_NO_MEMORY, 0, "out of memory for the file");
        refuse_later(t);
        return;
    }
    wire.ref.path = (struct wire_text){(const char *)t->path.data, t->path.length};
    call(t, &wire, write_opened);
}
