/* Files of a container that need no program inside: the engine's archive calls, with tar made and read by
 * libarchive. What is read comes from an image or from a sandbox: hostile, bounded, taken only where it is a
 * plain file. */
#include "backends/docker_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "backends/hand_program.h"
#include "sandbox/cleanup.h"

#define MAX_ARCHIVE (HAND_PROGRAM_MAX + (64u << 10)) /* bytes of a tar that is put in */
#define TAR_OVERHEAD (64u << 10)  /* around a file that is read: headers, padding, the end */
#define MAX_QUERY 65536           /* bytes of a request's path, percent-encoded */
#define MAX_LINKS 8               /* to follow before a file is reached */
#define MAX_LINK_TEXT 4096
#define HAND_ENTRIES 3            /* the hand itself, its directory, its run directory */

/* "/containers/ID/archive?path=PATH" */
static int archive_path(struct buffer *query, const char *id, const char *path, struct error *err)
{
    if (docker_path(query, "/containers/", id, "/archive", err) < 0) {
        return -1;
    }
    if (http_put_query(query, "path", path) < 0 || buffer_text(query) == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the path is too long: %.80s", path);
    }
    return 0;
}

/* The engine answers 404 for the container and for the path alike: another look tells which. */
static int refused(struct docker_engine *engine, const char *id, const char *path,
                   const struct docker_reply *reply, uint64_t deadline_ms, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;

    if (reply->status == 404) {
        return docker_inspect(engine, id, deadline_ms, &inspect, err) < 0
                   ? -1
                   : error_set(err, ERROR_NO_SUCH_FILE, 0, "%.200s: no such file in the container", path);
    }
    return docker_refused(reply, err, "%.200s in the container", path);
}

/* ---- Put ---- */

static la_ssize_t append(struct archive *archive, void *arg, const void *data, size_t length)
{
    if (buffer_append(arg, data, length) < 0) {
        archive_set_error(archive, ENOBUFS, "the archive is too large");
        return -1;
    }
    return (la_ssize_t)length;
}

static int write_entry(struct archive *archive, const struct docker_entry *from)
{
    struct archive_entry *entry = archive_entry_new();
    int r = ARCHIVE_FATAL;

    if (entry == NULL) {
        return r;
    }
    archive_entry_set_pathname(entry, from->path);
    archive_entry_set_filetype(entry, from->directory ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, (mode_t)from->mode);
    archive_entry_set_uid(entry, from->uid);
    archive_entry_set_gid(entry, from->gid);
    archive_entry_set_mtime(entry, time(NULL), 0);
    archive_entry_set_size(entry, (la_int64_t)from->length);
    r = archive_write_header(archive, entry);
    if (r == ARCHIVE_OK && from->length > 0 &&
        archive_write_data(archive, from->data, from->length) != (la_ssize_t)from->length) {
        r = ARCHIVE_FATAL;
    }
    archive_entry_free(entry);
    return r;
}

static int make_tar(const struct docker_entry *entries, size_t count, struct buffer *ret, struct error *err)
{
    struct archive *archive = archive_write_new();
    bool ok = archive != NULL && archive_write_set_format_pax_restricted(archive) == ARCHIVE_OK &&
              archive_write_set_bytes_per_block(archive, 0) == ARCHIVE_OK &&
              archive_write_open(archive, ret, NULL, append, NULL) == ARCHIVE_OK;

    for (size_t i = 0; ok && i < count; i++) {
        ok = write_entry(archive, &entries[i]) == ARCHIVE_OK;
    }
    ok = ok && archive_write_close(archive) == ARCHIVE_OK;
    if (!ok) {
        const char *why = archive == NULL ? NULL : archive_error_string(archive);

        error_set(err, ERROR_NO_MEMORY, 0, "make a tar archive: %s", why != NULL ? why : "out of memory");
    }
    archive_write_free(archive);
    return ok ? 0 : -1;
}

int docker_archive_put(struct docker_engine *engine, const char *id, const char *base,
                       const struct docker_entry *entries, size_t count, uint64_t deadline_ms,
                       struct error *err)
{
    cleanup_buffer struct buffer query = BUFFER_INIT(MAX_QUERY);
    cleanup_buffer struct buffer tar = BUFFER_INIT(MAX_ARCHIVE);
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    struct docker_request request = {
        .method = "PUT",
        .content_type = "application/x-tar",
        .deadline_ms = deadline_ms,
    };

    if (archive_path(&query, id, base, err) < 0 || make_tar(entries, count, &tar, err) < 0) {
        return -1;
    }
    request.path = buffer_text(&query);
    request.body = tar.data;
    request.body_length = tar.length;
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    return reply.status < 300 ? 0 : refused(engine, id, base, &reply, deadline_ms, err);
}

/* ---- Look ---- */

/* Whether the engine finds something at the path. */
static int exists(struct docker_engine *engine, const char *id, const char *path, uint64_t deadline_ms,
                  bool *ret, struct error *err)
{
    cleanup_buffer struct buffer query = BUFFER_INIT(MAX_QUERY);
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    struct docker_request request = {.method = "HEAD", .deadline_ms = deadline_ms};

    if (archive_path(&query, id, path, err) < 0) {
        return -1;
    }
    request.path = buffer_text(&query);
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    *ret = reply.status < 300;
    return 0;
}

/* Answers to HEAD have no words, and which status stands for "no directory" differs; so "PATH/." is asked for,
 * and where that is nothing, PATH. */
int docker_archive_kind(struct docker_engine *engine, const char *id, const char *path, uint64_t deadline_ms,
                        enum docker_path_kind *ret, struct error *err)
{
    cleanup_free char *dir = NULL;
    bool found = false;

    if (asprintf(&dir, "%s/.", path) < 0) {
        dir = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (exists(engine, id, dir, deadline_ms, &found, err) < 0) {
        return -1;
    }
    if (found) {
        *ret = DOCKER_PATH_DIRECTORY;
        return 0;
    }
    if (exists(engine, id, path, deadline_ms, &found, err) < 0) {
        return -1;
    }
    *ret = found ? DOCKER_PATH_OTHER : DOCKER_PATH_NONE;
    return 0;
}

/* ---- Get ---- */

static int take_data(struct archive *archive, size_t limit, struct buffer *ret, const char *path,
                     struct error *err)
{
    la_ssize_t n;

    do {
        uint8_t *to = buffer_reserve(ret, 4096);

        if (to == NULL || ret->length > limit) {
            return error_set(err, ERROR_TOO_LARGE, 0, "%.200s in the container is too large", path);
        }
        n = archive_read_data(archive, to, 4096);
        if (n < 0) {
            return error_set(err, ERROR_IO, 0, "%.200s in the container: a broken archive", path);
        }
        buffer_commit(ret, (size_t)n);
    } while (n > 0);
    return 0;
}

/* The first entry of the tar: a file's content to `ret`, or a link's text to `link` (else left empty). */
static int open_tar(const struct buffer *tar, size_t limit, const char *path, struct buffer *ret,
                    char link[MAX_LINK_TEXT], struct error *err)
{
    struct archive *archive = archive_read_new();
    struct archive_entry *entry = NULL;
    const char *text = NULL;
    int r = -1;

    link[0] = '\0';
    if (archive == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (archive_read_support_format_tar(archive) != ARCHIVE_OK ||
        archive_read_open_memory(archive, tar->data, tar->length) != ARCHIVE_OK ||
        archive_read_next_header(archive, &entry) != ARCHIVE_OK) {
        error_set(err, ERROR_IO, 0, "%.200s in the container: a broken archive", path);
    } else if (archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == NULL) {
        r = take_data(archive, limit, ret, path, err);
    } else if (archive_entry_filetype(entry) == AE_IFLNK &&
               (text = archive_entry_symlink(entry)) != NULL && text[0] != '\0' &&
               strlen(text) < MAX_LINK_TEXT) {
        memcpy(link, text, strlen(text) + 1);
        r = 0;
    } else {
        error_set(err, ERROR_NOT_REGULAR, 0, "%.200s in the container is no regular file", path);
    }
    archive_read_free(archive);
    return r;
}

/* Where a link leads; the engine walks the directories inside the container's root. To be freed. */
static char *link_target(const char *path, const char *link)
{
    const char *slash = strrchr(path, '/');
    char *joined = NULL;

    if (link[0] == '/') {
        return strdup(link);
    }
    return asprintf(&joined, "%.*s/%s", (int)(slash - path), path, link) < 0 ? NULL : joined;
}

static int get_tar(struct docker_engine *engine, const char *id, const char *path, uint64_t deadline_ms,
                   struct buffer *tar, struct error *err)
{
    cleanup_buffer struct buffer query = BUFFER_INIT(MAX_QUERY);
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    struct docker_request request = {.method = "GET", .deadline_ms = deadline_ms, .limit = tar->limit};

    if (archive_path(&query, id, path, err) < 0) {
        return -1;
    }
    request.path = buffer_text(&query);
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    if (reply.status >= 300) {
        return refused(engine, id, path, &reply, deadline_ms, err);
    }
    buffer_move(tar, &reply.body);
    return 0;
}

int docker_archive_get(struct docker_engine *engine, const char *id, const char *path, size_t limit,
                       uint64_t deadline_ms, struct buffer *ret, struct error *err)
{
    cleanup_free char *at = strdup(path);

    for (unsigned i = 0; at != NULL && i < MAX_LINKS; i++) {
        cleanup_buffer struct buffer tar = BUFFER_INIT(limit + TAR_OVERHEAD);
        char link[MAX_LINK_TEXT];
        char *next;

        if (get_tar(engine, id, at, deadline_ms, &tar, err) < 0 ||
            open_tar(&tar, limit, at, ret, link, err) < 0) {
            return -1;
        }
        if (link[0] == '\0') {
            return 0;
        }
        next = link_target(at, link);
        free(at);
        at = next;
    }
    return at == NULL ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
                      : error_set(err, ERROR_NO_SUCH_FILE, 0, "%.200s in the container: too many links", path);
}

/* ---- The hand ---- */

/* The binary is root's and may be executed but not read: so its processes cannot be looked into by another
 * user from their very first instruction. */
int docker_put_hand(struct docker_engine *engine, const char *id, const char *dir, uint32_t uid, uint32_t gid,
                    bool is_volume, const struct docker_entry *more, size_t more_count, uint64_t deadline_ms,
                    struct error *err)
{
    cleanup_buffer struct buffer hand = BUFFER_INIT(HAND_PROGRAM_MAX);
    cleanup_free struct docker_entry *entries = NULL;
    const char *name = dir + 1; /* below "/" */
    char top[64], binary[80], run[80];
    struct docker_entry own[HAND_ENTRIES] = {
        {.path = top, .directory = true, .mode = 0711},
        {.path = binary, .mode = 0511},
        {.path = run, .directory = true, .mode = 0700, .uid = uid, .gid = gid},
    };

    assert(!is_volume || more_count == 0);
    if (hand_program_read(&hand, err) < 0) {
        return -1;
    }
    own[1].data = hand.data;
    own[1].length = hand.length;
    snprintf(top, sizeof top, "%s", is_volume ? "/" : name);
    snprintf(binary, sizeof binary, "%s%shand", is_volume ? "" : name, is_volume ? "" : "/");
    snprintf(run, sizeof run, "%s%srun", is_volume ? "" : name, is_volume ? "" : "/");
    entries = calloc(HAND_ENTRIES + more_count, sizeof *entries);
    if (entries == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    memcpy(entries, own, sizeof own);
    if (more_count > 0) {
        memcpy(entries + HAND_ENTRIES, more, more_count * sizeof *more);
    }
    return docker_archive_put(engine, id, is_volume ? dir : "/", entries, HAND_ENTRIES + more_count, deadline_ms,
                              err);
}
