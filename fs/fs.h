/* The FUSE face: a sandbox's workdir as a file system, on the link's loop. */
#ifndef HANDSFS_FS_FS_H
#define HANDSFS_FS_FS_H

#include <sys/types.h>
#include <uv.h>

#include "backends/execution.h"
#include "backends/link.h"

enum fs_idmap { FS_IDMAP_USER, FS_IDMAP_NONE };
enum fs_symlinks { FS_SYMLINKS_CONTAINED, FS_SYMLINKS_RAW };
enum fs_special { FS_SPECIAL_SOCKET, FS_SPECIAL_REAL };

struct fs_options {
    uint64_t op_timeout_ms;  /* 0: LINK_DEFAULT_TIMEOUT_MS */
    uint64_t max_file_size;  /* bytes; 0: no limit */
    uint64_t cache_ms;       /* how long the kernel may hold names and attributes, at most 1000 */
    enum fs_idmap idmap;
    enum fs_symlinks symlinks;
    enum fs_special special;
    bool allow_other;
    bool read_only;
    bool no_exec; /* its programs cannot be run from outside */
    uid_t uid; /* the mounting user: owner of what belongs to the sandbox's user */
    gid_t gid;
};

void fs_options_init(struct fs_options *options) __attribute__((nonnull));

/* What the program does behind `.handsfs/`: fs knows nothing of the gateway. All on the loop. */
struct fs_control {
    /* Runs a command written to .handsfs/exec; answers exactly once through `done` (text valid during the
     * call), unless cancelled. Returns a token for `cancel`. */
    void *(*exec)(void *ctx, const char *request, size_t length,
                  void (*done)(void *arg, const char *text, size_t length), void *arg);
    void (*exec_cancel)(void *ctx, void *token);
    /* Appends the text of .handsfs/status. 0 or -1. */
    int (*status)(void *ctx, struct buffer *out);
    void *ctx;
};

struct fs;

/* Mounts at `mountpoint` (an existing directory) and serves it from the loop. `ended` is called from the
 * loop when the kernel side is gone (unmounted by whomever). The mount is usable when this returns, as soon
 * as the loop runs. `source` is what mount(8) shows as the device. */
int fs_open(struct fs **ret, uv_loop_t *loop, struct link *link, const char *mountpoint,
            const char *source, const struct fs_options *options, const struct fs_control *control,
            void (*ended)(void *arg), void *arg, struct error *err)
    __attribute__((nonnull(1, 2, 3, 4, 5, 6, 8, 10), warn_unused_result));

/* Unmounts (lazily where it is busy), answers what is in flight, frees; `closed` (may be NULL) is called
 * from the loop when nothing of it is left there. */
void fs_close(struct fs *fs, void (*closed)(void *arg), void *arg);

/* What the gateway calls around commands; `ctx` is the fs. */
struct exec_barrier fs_barrier(struct fs *fs);

/* To be called when the session's sandbox is another one (link_adopt): every node is stale. */
void fs_sandbox_changed(struct fs *fs);

/* Counters for status and metrics: requests answered, errors, nodes known, files open. */
struct fs_counts {
    uint64_t requests, errors;
    uint64_t nodes, open_files;
};
struct fs_counts fs_counts(const struct fs *fs);

#endif
