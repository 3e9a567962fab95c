/* What is agreed with the kernel at the start.
 *
 * libfuse before 3.17 on some systems leaves two things out of its answer to INIT although the kernel
 * offers them: parallel lookups and listings in one directory, and that set-user-ID bits are cleared on
 * our side (without which every write is preceded by a GETXATTR). There the answer is completed on its
 * way to the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/face.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"

#define MAX_BACKGROUND 256
#define CONGESTION 192
#define READAHEAD_KIB 1024

/* The set-user-ID bits are cleared inside: the hand, and the threads that act for it, lack CAP_FSETID. */
#define WANTED_FLAGS (FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2)

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 17)

static uint32_t offered; /* by the kernel, in INIT; one kernel, so one value for all mounts */

static ssize_t read_request(int fd, void *buf, size_t length, void *userdata)
{
    struct fs *fs = userdata;
    const struct fuse_in_header *header = buf;
    ssize_t n = read(fd, buf, length);

    if (n >= (ssize_t)(sizeof *header + sizeof(struct fuse_init_in)) && !fs->initialized &&
        header->opcode == FUSE_INIT) {
        struct fuse_init_in init;

        memcpy(&init, (const char *)buf + sizeof *header, sizeof init);
        offered = init.flags;
        fs->init_unique = header->unique;
    }
    return n;
}

/* libfuse gives each answer as its header and what follows. */
static ssize_t write_answer(int fd, struct iovec *iov, int count, void *userdata)
{
    struct fs *fs = userdata;
    const struct fuse_out_header *header = iov[0].iov_base;

    if (fs->init_unique != 0 && header->unique == fs->init_unique) {
        fs->init_unique = 0;
        if (header->error == 0 && count > 1 &&
            iov[1].iov_len >= offsetof(struct fuse_init_out, max_background)) {
            struct fuse_init_out *init = iov[1].iov_base;

            init->flags |= offered & (uint32_t)WANTED_FLAGS;
        }
    }
    return writev(fd, iov, count);
}

void init_session(struct fs *fs)
{
    static const struct fuse_custom_io io = {.read = read_request, .writev = write_answer};

    if (fuse_session_custom_io(fs->session, &io, fuse_session_fd(fs->session)) != 0) {
        log_trace("%s: the answer to INIT stays as it is", fs->mountpoint);
    }
}

static void want_more(struct fuse_conn_info *conn __attribute__((unused)))
{
}

#else

void init_session(struct fs *fs __attribute__((unused)))
{
}

static void want_more(struct fuse_conn_info *conn)
{
    fuse_set_feature_flag(conn, FUSE_CAP_PARALLEL_DIROPS);
    fuse_set_feature_flag(conn, FUSE_CAP_HANDLE_KILLPRIV_V2);
}

#endif

/* Off: READDIRPLUS_AUTO, which falls back to one lookup an entry; the writeback cache, which ignores sizes
 * and times that changed inside; cached links, since a link's text depends on where it stands; splice,
 * which gains nothing here. */
void init_capabilities(void *userdata, struct fuse_conn_info *conn)
{
    struct fs *fs = userdata;

    conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_WRITEBACK_CACHE |
                              FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_SPLICE_READ |
                              FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
    want_more(conn);
    conn->max_background = MAX_BACKGROUND;
    conn->congestion_threshold = CONGESTION;
    conn->max_write = WIRE_MAX_DATA;
    conn->max_read = WIRE_MAX_DATA;
    fs->initialized = true;
}

/* Larger reads ahead, so that a file comes in requests of 1 MiB; only root may. */
void init_tune(struct fs *fs)
{
    char path[64];
    char text[16];
    cleanup_fd int fd = -1;
    int length;

    fs->tuned = true;
    if (fs->dev == 0) {
        return;
    }
    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(fs->dev),
             minor(fs->dev));
    fd = open(path, O_WRONLY | O_CLOEXEC);
    length = snprintf(text, sizeof text, "%d\n", READAHEAD_KIB);
    if (fd < 0 || write(fd, text, (size_t)length) != length) {
        log_trace("%s: %s", path, strerror(errno));
    }
}
