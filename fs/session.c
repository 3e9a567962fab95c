/* Mounting, and the requests on the loop. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/face.h"
#include "fs/unmount.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"
#include "sandbox/sandbox.h"

#define MAX_CACHE_MS 1000 /* what changes inside without a command shows within this */

void fs_options_init(struct fs_options *options)
{
    *options = (struct fs_options){
        .max_file_size = MAX_FILE_BYTES,
        .cache_ms = MAX_CACHE_MS,
        .uid = getuid(),
        .gid = getgid(),
    };
}

double fs_ttl(const struct fs *fs, uint64_t generation)
{
    return generation == fs->generation ? (double)fs->options.cache_ms / 1000 : 0;
}

const struct attr_rules *fs_rules(struct fs *fs)
{
    const struct link_peer *peer = link_peer(fs->link);

    if (peer != NULL) {
        fs->rules.map_owner = fs->options.idmap == FS_IDMAP_USER;
        fs->rules.inside_uid = peer->uid;
        fs->rules.inside_gid = peer->gid;
    }
    return &fs->rules;
}

struct fs_counts fs_counts(const struct fs *fs)
{
    struct fs_counts counts = fs->counts;

    counts.nodes = fs->nodes.ids.count;
    return counts;
}

int fs_refresh(const struct fs *fs, struct notify_job *job, enum notify_kind kind,
               const struct node *node)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(WIRE_MAX_PATH);
    cleanup_buffer struct buffer full = BUFFER_INIT(2 * WIRE_MAX_PATH);
    uint64_t serial;

    if (notify_job_add(job, kind, node->id, NULL) < 0) {
        return -1;
    }
    if (node_path(node, &path, &serial) < 0) {
        return 0; /* no name leads to it any more */
    }
    return buffer_printf(&full, "%s/", fs->mountpoint) < 0 ||
                   buffer_append(&full, path.data, path.length) < 0 ||
                   buffer_text(&full) == NULL ||
                   notify_job_add(job, NOTIFY_STAT, node->id, (const char *)full.data) < 0
               ? -1
               : 0;
}

/* ---- Requests ----------------------------------------------------------------------------------- */

static void end(struct fs *fs)
{
    uv_poll_stop(&fs->poll);
    if (fs->ended) {
        return;
    }
    fs->ended = true;
    if (fs->closing) {
        close_check(fs);
    } else {
        fs->on_end(fs->on_end_arg);
    }
}

static void readable(uv_poll_t *poll, int status __attribute__((unused)),
                     int events __attribute__((unused)))
{
    struct fs *fs = poll->data;

    for (int i = 0; i < FS_REQUESTS_A_TURN; i++) {
        int n = fuse_session_receive_buf(fs->session, &fs->incoming);

        if (n == -EAGAIN) {
            return;
        }
        if (n == -EINTR) {
            continue;
        }
        if (n <= 0) {
            end(fs);
            return;
        }
        fuse_session_process_buf(fs->session, &fs->incoming);
        if (fs->initialized && !fs->tuned) {
            init_tune(fs);
            notifier_ask(fs->notifier);
        }
    }
}

/* ---- Mounting ----------------------------------------------------------------------------------- */

/* The source may hold commas and backslashes, which separate and escape options. */
static int append_escaped(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (((*text == ',' || *text == '\\') && buffer_append(out, "\\", 1) < 0) ||
            buffer_append(out, text, 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static int mount_options(const struct fs *fs, const char *source, struct buffer *out)
{
    return buffer_printf(out, "default_permissions,nosuid,nodev,max_read=%u%s%s%s,subtype=handsfs",
                         WIRE_MAX_DATA, fs->options.allow_other ? ",allow_other" : "",
                         fs->options.read_only ? ",ro" : "",
                         fs->options.no_exec ? ",noexec" : "") < 0 ||
                   buffer_append_string(out, ",fsname=") < 0 || append_escaped(out, source) < 0
               ? -1
               : 0;
}

static int make_session(struct fs *fs, const char *source, struct error *err)
{
    cleanup_buffer struct buffer text = BUFFER_INIT(65536);
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    const char *options = mount_options(fs, source, &text) == 0 ? buffer_text(&text) : NULL;

    if (options == NULL || fuse_opt_add_arg(&args, "handsfs") != 0 ||
        fuse_opt_add_arg(&args, "-o") != 0 || fuse_opt_add_arg(&args, options) != 0) {
        fuse_opt_free_args(&args);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    fs->session = fuse_session_new(&args, &fs_operations, sizeof fs_operations, fs);
    fuse_opt_free_args(&args);
    if (fs->session == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "libfuse refuses the mount options: %s",
                         options);
    }
    return 0;
}

static int mount_it(struct fs *fs, struct error *err)
{
    int fd;

    if (fuse_session_mount(fs->session, fs->mountpoint) != 0) {
        return error_set(err, ERROR_IO, errno, "%s: cannot be mounted (is fuse3 installed?)",
                         fs->mountpoint);
    }
    fd = fuse_session_fd(fs->session);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        fuse_session_unmount(fs->session);
        return error_set_errno(err, errno, "%s", fs->mountpoint);
    }
    fs->dev = unmount_device(fs->mountpoint);
    init_session(fs);
    return 0;
}

/* What is there before anything of it is the loop's. */
static int build(struct fs *fs, const char *mountpoint, const char *source, struct error *err)
{
    const struct sandbox *sandbox = link_sandbox(fs->link);

    if (nodes_init(&fs->nodes) < 0 || table_init(&fs->handles) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    fs->mountpoint = realpath(mountpoint, NULL);
    if (fs->mountpoint == NULL) {
        return error_set_errno(err, errno, "%s", mountpoint);
    }
    fs->workdir = strdup(sandbox->workdir != NULL ? sandbox->workdir : DEFAULT_WORKDIR);
    if (fs->workdir == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return make_session(fs, source, err);
}

/* Puts it onto the loop. */
static int start(struct fs *fs, struct error *err)
{
    int r;

    deadlines_init(&fs->deadlines, fs->loop);
    fs->loop_handles = 1;
    r = -uv_poll_init(fs->loop, &fs->poll, fuse_session_fd(fs->session));
    if (r == 0) {
        fs->loop_handles++;
        fs->poll.data = fs;
        r = -uv_poll_start(&fs->poll, UV_READABLE, readable);
    }
    if (r != 0) {
        return error_set_errno(err, r, "%s", fs->mountpoint);
    }
    return notifier_start(&fs->notifier, fs->loop, fs->session, err);
}

int fs_open(struct fs **ret, uv_loop_t *loop, struct link *link, const char *mountpoint,
            const char *source, const struct fs_options *options, const struct fs_control *control,
            void (*ended)(void *arg), void *arg, struct error *err)
{
    struct fs *fs = calloc(1, sizeof *fs);

    if (fs == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    fs->loop = loop;
    fs->link = link;
    fs->options = *options;
    if (fs->options.cache_ms > MAX_CACHE_MS) {
        fs->options.cache_ms = MAX_CACHE_MS;
    }
    fs->rules.uid = options->uid;
    fs->rules.gid = options->gid;
    fs->rules.special_as_socket = options->special == FS_SPECIAL_SOCKET;
    fs->has_control = control != NULL;
    fs->control = control != NULL ? *control : (struct fs_control){0};
    fs->mounted_s = (uint64_t)time(NULL);
    fs->on_end = ended;
    fs->on_end_arg = arg;
    TAILQ_INIT(&fs->requests);
    TAILQ_INIT(&fs->checks);
    TAILQ_INIT(&fs->kept);
    fs->kept_ms = KEPT_MS;
    if (build(fs, mountpoint, source, err) < 0 || mount_it(fs, err) < 0) {
        close_free(fs);
        return -1;
    }
    if (start(fs, err) < 0) {
        close_loop(fs);
        return -1;
    }
    *ret = fs;
    return 0;
}
