/* edit and put: a file is replaced by what another text makes of it, if it still is what its editor took it for.
 *
 * Two of these never lose each other's change: each holds a lock (flock(2)) on the file that it is about to
 * replace, and looks after it got the lock whether the name still stands for that file; so they queue, from
 * however many hosts they come. Others know nothing of the lock. Against them the file is compared with what was
 * read in the last moment before the new one is renamed into its place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hand/files.h"
#include "hand/tool.h"
#include "sandbox/cleanup.h"
#include "sandbox/sandbox.h"

#define MAX_TRIES 20       /* against others who change the file all the time */
#define LOCK_WAIT_MS 10000 /* then somebody holds it who is no editor */
#define LOCK_PAUSE_MS 2

/* The file that is edited. */
struct target {
    const char *path;
    int fd; /* locked */
    struct stat st;
    struct buffer content;
};

static void target_close(struct target *t)
{
    if (t->fd >= 0) {
        close(t->fd);
        t->fd = -1;
    }
    buffer_clear(&t->content);
}

/* ---- Looking ---- */

static bool same_state(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Without the lock after a while: it only keeps editors apart. */
static void lock(int fd)
{
    struct timespec pause = {0, LOCK_PAUSE_MS * 1000000};

    for (unsigned i = 0; i < LOCK_WAIT_MS / LOCK_PAUSE_MS; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
            return;
        }
        nanosleep(&pause, NULL);
    }
}

/* Opens and locks what the path stands for. 1, or 0 where it stood for something else afterwards. */
static int target_open(struct target *t, uint64_t limit, struct error *err)
{
    struct stat now;

    t->fd = tool_open(t->path, &t->st, err);
    if (t->fd < 0) {
        return -1;
    }
    lock(t->fd);
    if (fstat(t->fd, &t->st) < 0) {
        return error_set_errno(err, errno, "%s", t->path);
    }
    if (lstat(t->path, &now) < 0 || now.st_ino != t->st.st_ino || now.st_dev != t->st.st_dev) {
        return 0;
    }
    if ((uint64_t)t->st.st_size > limit) {
        return error_set_errno(err, EFBIG, "%s", t->path);
    }
    return 1;
}

/* All from the start of a descriptor, at most the buffer's limit. */
static int read_all(int fd, struct buffer *to, struct error *err)
{
    for (;;) {
        uint8_t *room = buffer_reserve(to, 65536);
        ssize_t n = room != NULL ? read(fd, room, 65536) : -1;

        if (room == NULL) {
            return error_set_errno(err, errno == ENOBUFS ? EFBIG : ENOMEM, "reading");
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, errno, "reading");
        }
        if (n == 0) {
            return 0;
        }
        buffer_commit(to, (size_t)n);
    }
}

/* Whether the path still stands for the same file with the same content. */
static bool unchanged(const struct target *t, bool with_content)
{
    uint8_t piece[65536];
    struct stat now;
    size_t at = 0;

    if (lstat(t->path, &now) < 0 || !same_state(&now, &t->st)) {
        return false;
    }
    while (with_content) {
        ssize_t n = pread(t->fd, piece, sizeof piece, (off_t)at);

        if (n <= 0) {
            return n == 0 && at == t->content.length;
        }
        if ((size_t)n > t->content.length - at || memcmp(piece, t->content.data + at, (size_t)n) != 0) {
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

/* ---- Replacing ---- */

static int serve(struct files *files, const struct wire_call *call, struct buffer *scratch,
                 struct wire_reply *reply, struct error *err)
{
    cleanup_buffer struct buffer encoded = BUFFER_INIT(WIRE_MAX_PAYLOAD);

    buffer_clear(scratch);
    if (wire_put_call(&encoded, call) < 0 ||
        files_serve(files, encoded.data, encoded.length, scratch) < 0 ||
        wire_get_reply(scratch->data, scratch->length, call->op, reply) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (reply->code != ERROR_NONE) {
        return error_set(err, reply->code, (int)reply->os_errno, "%.*s", (int)reply->message.length,
                         reply->message.data);
    }
    return 0;
}

static int write_content(struct files *files, uint64_t handle, const struct buffer *content,
                         struct buffer *scratch, struct error *err)
{
    for (size_t at = 0; at < content->length;) {
        size_t piece = content->length - at < WIRE_MAX_DATA ? content->length - at : WIRE_MAX_DATA;
        struct wire_call call = {.op = WIRE_WRITE,
                                 .ref.handle = handle,
                                 .offset = at,
                                 .data = {(const char *)content->data + at, piece}};
        struct wire_reply reply;

        if (serve(files, &call, scratch, &reply, err) < 0) {
            return -1;
        }
        at += piece;
    }
    return 0;
}

/* 1 with the new file's version, 0 where the old one is not what it was any more. */
static int commit(struct files *files, const struct target *t, bool with_content,
                  const struct buffer *content, char *version, struct error *err)
{
    cleanup_buffer struct buffer scratch = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    struct wire_call begin = {.op = WIRE_WRITE_FILE,
                              .ref = {.base = WIRE_BASE_ROOT, .path = {t->path + 1, strlen(t->path + 1)}},
                              .size = content->length};
    struct wire_call end = {.op = WIRE_COMMIT};
    struct wire_reply reply;

    if (serve(files, &begin, &scratch, &reply, err) < 0) {
        return -1;
    }
    end.ref.handle = reply.handle;
    if (write_content(files, end.ref.handle, content, &scratch, err) < 0) {
        return -1;
    }
    if (!unchanged(t, with_content)) {
        return 0; /* and files_free() leaves no trace */
    }
    if (serve(files, &end, &scratch, &reply, err) < 0) {
        return -1;
    }
    tool_version_of_attr(version, &reply.attr);
    return 1;
}

static int replace(const struct target *t, bool with_content, const struct buffer *content, char *version,
                   struct error *err)
{
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct files *files = NULL;
    int r;

    umask(0); /* the file server gives modes itself */
    if (root < 0) {
        return error_set_errno(err, errno, "/");
    }
    if (files_new(&files, root, "/", err) < 0) {
        return -1;
    }
    r = commit(files, t, with_content, content, version, err);
    files_free(files);
    return r;
}

/* ---- edit ---- */

struct edit {
    struct tool_run *run;
    struct buffer input; /* old, then new */
    size_t old_length;
    bool all;
    uint64_t limit;
    const char *version; /* NULL: any */
};

static size_t count_old(const struct edit *e, const struct buffer *content, size_t *ret_first)
{
    const uint8_t *at = content->data;
    size_t left = content->length;
    size_t count = 0;

    while (left >= e->old_length) {
        const uint8_t *found = memmem(at, left, e->input.data, e->old_length);

        if (found == NULL) {
            break;
        }
        if (count++ == 0) {
            *ret_first = (size_t)(found - content->data);
        }
        left -= (size_t)(found - at) + e->old_length;
        at = found + e->old_length;
    }
    return count;
}

static int put_new(const struct edit *e, const struct buffer *from, size_t count, struct buffer *to,
                   struct error *err)
{
    const uint8_t *at = from->data;
    const uint8_t *end = from->data + from->length;
    int r = 0;

    while (count-- > 0 && r == 0) {
        const uint8_t *found = memmem(at, (size_t)(end - at), e->input.data, e->old_length);

        r = buffer_append(to, at, (size_t)(found - at)) < 0 ||
                    buffer_append(to, e->input.data + e->old_length, e->input.length - e->old_length) < 0
                ? -1
                : 0;
        at = found + e->old_length;
    }
    if (r < 0 || buffer_append(to, at, (size_t)(end - at)) < 0) {
        return error_set_errno(err, errno == ENOBUFS ? EFBIG : ENOMEM, "the edited file");
    }
    return 0;
}

static size_t line_of(const struct buffer *content, size_t offset)
{
    size_t line = 1;

    for (size_t i = 0; i < offset; i++) {
        line += content->data[i] == '\n';
    }
    return line;
}

static int say_conflict(struct tool_run *run, const struct stat *st)
{
    char version[TOOL_VERSION_SIZE];

    tool_version(version, st);
    tool_say_number(run, "conflict", 1);
    tool_say(run, "version", version, strlen(version));
    return 1;
}

static bool is_version(const struct stat *st, const char *version)
{
    char now[TOOL_VERSION_SIZE];

    tool_version(now, st);
    return version == NULL || strcmp(now, version) == 0;
}

/* 1: all is said, 0: the file changed meanwhile. */
static int edit_once(const struct edit *e, struct target *t, struct error *err)
{
    cleanup_buffer struct buffer edited = BUFFER_INIT(e->limit);
    char version[TOOL_VERSION_SIZE];
    size_t first = 0;
    size_t count;
    int r = target_open(t, e->limit, err);

    if (r <= 0) {
        return r;
    }
    if (!is_version(&t->st, e->version)) {
        return say_conflict(e->run, &t->st);
    }
    if (read_all(t->fd, &t->content, err) < 0) {
        return -1;
    }
    count = count_old(e, &t->content, &first);
    if (count == 0 || (count > 1 && !e->all)) {
        tool_say_number(e->run, "count", count);
        return 1;
    }
    if (put_new(e, &t->content, count, &edited, err) < 0) {
        return -1;
    }
    r = replace(t, true, &edited, version, err);
    if (r > 0) {
        tool_say_number(e->run, "edited", 1);
        tool_say_number(e->run, "count", count);
        tool_say_number(e->run, "line", line_of(&t->content, first));
        tool_say(e->run, "version", version, strlen(version));
    }
    return r;
}

static int always_changed(struct error *err)
{
    return error_set(err, ERROR_BAD_REQUEST, 0, "the file is being changed all the time by something else");
}

static int edit_until_done(const struct edit *e, struct target *t, struct error *err)
{
    for (unsigned i = 0; i < MAX_TRIES; i++) {
        int r = edit_once(e, t, err);

        target_close(t);
        if (r != 0) {
            return r < 0 ? -1 : 0;
        }
    }
    return always_changed(err);
}

int tool_edit(struct tool_run *run, struct error *err)
{
    struct edit e = {.run = run,
                     .input = BUFFER_INIT(4 * MAX_FILE_BYTES),
                     .old_length = tool_argument_number(run, "old"),
                     .all = tool_argument_number(run, "all") != 0,
                     .limit = tool_argument_number(run, "limit"),
                     .version = tool_argument(run, "version", NULL)};
    struct target t = {.path = tool_argument(run, "path", NULL), .fd = -1,
                       .content = BUFFER_INIT(e.limit + 65536)};
    int r = read_all(STDIN_FILENO, &e.input, err);

    if (r == 0 && (t.path == NULL || t.path[0] != '/' || e.old_length == 0 ||
                   e.old_length > e.input.length)) {
        r = error_set(err, ERROR_BAD_REQUEST, 0, "the arguments do not make sense");
    }
    if (r == 0) {
        r = edit_until_done(&e, &t, err);
    }
    buffer_release(&e.input);
    buffer_release(&t.content);
    return r;
}

/* ---- put ---- */

static int put_once(struct tool_run *run, struct target *t, const struct buffer *content, struct error *err)
{
    char version[TOOL_VERSION_SIZE];
    int r = target_open(t, UINT64_MAX, err);

    if (r <= 0) {
        return r;
    }
    if (!is_version(&t->st, tool_argument(run, "version", NULL))) {
        return say_conflict(run, &t->st);
    }
    r = replace(t, false, content, version, err);
    if (r > 0) {
        tool_say(run, "version", version, strlen(version));
    }
    return r;
}

int tool_put(struct tool_run *run, struct error *err)
{
    cleanup_buffer struct buffer content = BUFFER_INIT(MAX_FILE_BYTES + 65536);
    struct target t = {.path = tool_argument(run, "path", NULL), .fd = -1, .content = BUFFER_INIT(1)};

    if (t.path == NULL || t.path[0] != '/') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the arguments do not make sense");
    }
    if (read_all(STDIN_FILENO, &content, err) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < MAX_TRIES; i++) {
        int r = put_once(run, &t, &content, err);

        target_close(&t);
        if (r != 0) {
            return r < 0 ? -1 : 0;
        }
    }
    return always_changed(err);
}
