#include "fs/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/reply.h"

enum { CONTROL_DIR = NODE_ROOT_ID + 1, CONTROL_EXEC, CONTROL_STATUS, CONTROL_END };

_Static_assert(CONTROL_END <= NODE_FIRST_ID, "control files have numbers that no node gets");

static const struct entry {
    fuse_ino_t ino;
    const char *name;
    mode_t mode;
} entries[] = {
    {CONTROL_EXEC, "exec", S_IFREG | 0600},
    {CONTROL_STATUS, "status", S_IFREG | 0400},
};

#define ENTRIES (sizeof entries / sizeof entries[0])

static const struct entry directory = {CONTROL_DIR, ".handsfs", S_IFDIR | 0500};

enum talk_state {
    TALK_LISTENING, /* takes the request, in as many writes as it comes */
    TALK_RUNNING,
    TALK_ANSWERING, /* gives the result, in as many reads as it takes */
};

/* One open control file. */
struct control_file {
    fuse_ino_t ino;
    enum talk_state state;
    struct buffer request; /* so far */
    struct buffer answer;
    size_t given;          /* bytes of the answer that were read: offsets are the writer's too, so
                              they say nothing */
    void *token;           /* of the command that runs */
    struct request *reader; /* who waits for it */
    struct fs *fs;
};

bool control_owns(fuse_ino_t ino)
{
    return ino >= CONTROL_DIR && ino < CONTROL_END;
}

bool control_reserves(const struct fs *fs, uint64_t parent, const char *name)
{
    return fs->has_control && parent == FUSE_ROOT_ID && strcmp(name, directory.name) == 0;
}

static struct stat stat_of(const struct fs *fs, const struct entry *entry)
{
    struct timespec mounted = {.tv_sec = (time_t)fs->mounted_s};

    return (struct stat){
        .st_ino = UINT64_MAX - entry->ino, /* no file system gives such numbers */
        .st_mode = entry->mode,
        .st_nlink = S_ISDIR(entry->mode) ? 2 : 1,
        .st_uid = fs->options.uid,
        .st_gid = fs->options.gid,
        .st_blksize = 4096,
        .st_atim = mounted,
        .st_mtim = mounted,
        .st_ctim = mounted,
    };
}

static const struct entry *entry_of(fuse_ino_t ino)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        if (entries[i].ino == ino) {
            return &entries[i];
        }
    }
    return &directory;
}

static void reply_error(struct fs *fs, fuse_req_t fuse, int os_errno)
{
    fs->counts.requests++;
    fs->counts.errors += os_errno != 0;
    fuse_reply_err(fuse, os_errno);
}

static const struct entry *find(fuse_ino_t parent, const char *name)
{
    if (parent == FUSE_ROOT_ID) {
        return &directory;
    }
    for (size_t i = 0; i < ENTRIES; i++) {
        if (parent == CONTROL_DIR && strcmp(entries[i].name, name) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

void control_lookup(struct fs *fs, fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
    const struct entry *entry = find(parent, name);
    struct fuse_entry_param param = {.attr_timeout = 1, .entry_timeout = 1};

    if (entry == NULL) {
        reply_error(fs, fuse, ENOENT);
        return;
    }
    param.ino = entry->ino;
    param.attr = stat_of(fs, entry);
    fs->counts.requests++;
    fuse_reply_entry(fuse, &param);
}

void control_getattr(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino)
{
    struct stat st = stat_of(fs, entry_of(ino));

    fs->counts.requests++;
    fuse_reply_attr(fuse, &st, 1);
}

/* `> exec` truncates, and touch(1) sets times: neither means anything. */
void control_setattr(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino, int to_set)
{
    if ((to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
        reply_error(fs, fuse, EPERM);
    } else {
        control_getattr(fs, fuse, ino);
    }
}

void control_opendir(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
    if (ino != CONTROL_DIR) {
        reply_error(fs, fuse, ENOTDIR);
        return;
    }
    fi->fh = 0;
    fs->counts.requests++;
    fuse_reply_open(fuse, fi);
}

void control_readdir(struct fs *fs, fuse_req_t fuse, size_t size, off_t offset, bool plus)
{
    char data[1024];
    size_t length = 0;

    size = size < sizeof data ? size : sizeof data;
    for (size_t i = (size_t)offset; i < ENTRIES; i++) {
        struct fuse_entry_param param = {.attr = stat_of(fs, &entries[i])};
        size_t need = plus ? fuse_add_direntry_plus(fuse, data + length, size - length,
                                                    entries[i].name, &param, (off_t)(i + 1))
                           : fuse_add_direntry(fuse, data + length, size - length,
                                               entries[i].name, &param.attr, (off_t)(i + 1));

        if (need > size - length) {
            break;
        }
        length += need;
    }
    fs->counts.requests++;
    fuse_reply_buf(fuse, data, length);
}

/* ---- Open ones ---------------------------------------------------------------------------------- */

static void file_free(struct control_file *file)
{
    buffer_release(&file->request);
    buffer_release(&file->answer);
    free(file);
}

static struct control_file *file_new(struct fs *fs, fuse_ino_t ino)
{
    struct control_file *file = calloc(1, sizeof *file);

    if (file != NULL) {
        file->fs = fs;
        file->ino = ino;
        buffer_init(&file->request, CONTROL_MAX_REQUEST);
        buffer_init(&file->answer, ino == CONTROL_EXEC ? CONTROL_MAX_RESULT : CONTROL_MAX_STATUS);
    }
    return file;
}

void control_open(struct fs *fs, fuse_req_t fuse, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct control_file *file;
    struct opened *handle;

    if (ino == CONTROL_DIR || fs->refusing || fs->controls >= CONTROL_MAX_OPEN) {
        reply_error(fs, fuse, ino == CONTROL_DIR ? EISDIR : fs->refusing ? ENODEV : EMFILE);
        return;
    }
    file = file_new(fs, ino);
    handle = file == NULL ? NULL : opened_new(fs, NULL, 0, fi->flags);
    if (handle == NULL) {
        free(file);
        reply_error(fs, fuse, ENOMEM);
        return;
    }
    handle->control = file;
    fs->controls++;
    if (ino == CONTROL_STATUS) {
        file->state = TALK_ANSWERING;
        if (fs->control.status == NULL || fs->control.status(fs->control.ctx, &file->answer) < 0) {
            buffer_clear(&file->answer);
        }
    }
    fi->fh = handle->id;
    fi->direct_io = 1;
    fi->nonseekable = ino == CONTROL_EXEC;
    fs->counts.requests++;
    if (fuse_reply_open(fuse, fi) != 0) {
        control_release(fs, handle);
        opened_close(fs, handle);
    }
}

static void stop(struct control_file *file)
{
    if (file->state == TALK_RUNNING) {
        void *token = file->token;

        file->state = TALK_LISTENING;
        file->token = NULL;
        buffer_clear(&file->request);
        if (token != NULL && file->fs->control.exec_cancel != NULL) {
            file->fs->control.exec_cancel(file->fs->control.ctx, token);
        }
    }
}

void control_release(struct fs *fs, struct opened *handle)
{
    struct control_file *file = handle->control;

    stop(file);
    if (file->reader != NULL) {
        struct request *reader = file->reader;

        file->reader = NULL;
        answer_errno(reader, EINTR);
    }
    file_free(file);
    handle->control = NULL;
    fs->controls--;
}

void control_write(struct fs *fs, fuse_req_t fuse, const char *data, size_t size,
                   struct fuse_file_info *fi)
{
    struct opened *handle = opened_find(fs, fi->fh);
    struct control_file *file = handle == NULL ? NULL : handle->control;

    if (file == NULL || file->ino != CONTROL_EXEC) {
        reply_error(fs, fuse, EBADF);
        return;
    }
    if (file->state == TALK_RUNNING) {
        reply_error(fs, fuse, EBUSY);
        return;
    }
    if (file->state == TALK_ANSWERING) { /* the next request of this conversation */
        buffer_release(&file->answer);
        buffer_clear(&file->request);
        file->state = TALK_LISTENING;
    }
    if (buffer_append(&file->request, data, size) < 0) {
        reply_error(fs, fuse, errno == ENOBUFS ? EFBIG : ENOMEM);
        return;
    }
    fs->counts.requests++;
    fuse_reply_write(fuse, size);
}

/* What comes next of the answer. At its end nothing, which is the end of the file to the reader. */
static void give(struct control_file *file, struct request *r)
{
    size_t left = file->answer.length - file->given;
    size_t n = left < r->size ? left : r->size;
    const char *from = (const char *)file->answer.data;

    from = n > 0 ? from + file->given : "";
    file->given += n;
    answer_data(r, from, n);
}

static void ran(void *arg, const char *text, size_t length)
{
    struct control_file *file = arg;
    struct request *reader = file->reader;

    file->token = NULL;
    file->reader = NULL;
    file->state = TALK_ANSWERING;
    file->given = 0;
    buffer_clear(&file->answer);
    if (buffer_append(&file->answer, text, length) < 0) {
        file->state = TALK_LISTENING;
        if (reader != NULL) {
            answer_errno(reader, errno == ENOBUFS ? EFBIG : ENOMEM);
        }
    } else if (reader != NULL) {
        give(file, reader);
    }
    buffer_release(&file->request); /* the text may be of it */
}

static void reader_cancelled(struct request *r)
{
    struct control_file *file = r->control;

    file->reader = NULL;
    stop(file);
    answer_errno(r, r->fs->refusing ? ECONNABORTED : EINTR);
}

static void run(struct control_file *file, struct request *r)
{
    struct fs *fs = file->fs;
    void *token;

    file->state = TALK_RUNNING;
    file->reader = r;
    r->control = file;
    r->cancel = reader_cancelled;
    token = fs->control.exec(fs->control.ctx, (const char *)file->request.data,
                             file->request.length, ran, file);
    if (file->state == TALK_RUNNING) { /* else it has answered already */
        file->token = token;
        request_can_be_interrupted(r);
    }
}

static void read_status(struct control_file *file, struct request *r, off_t offset)
{
    file->given = (uint64_t)offset < file->answer.length ? (size_t)offset : file->answer.length;
    give(file, r);
}

void control_read(struct fs *fs, fuse_req_t fuse, size_t size, off_t offset,
                  struct fuse_file_info *fi)
{
    struct opened *handle = opened_find(fs, fi->fh);
    struct control_file *file = handle == NULL ? NULL : handle->control;
    struct request *r;

    if (file == NULL) {
        reply_error(fs, fuse, EBADF);
        return;
    }
    r = request_begin(fuse, 0);
    if (r == NULL) {
        return;
    }
    r->size = size;
    if (file->ino == CONTROL_STATUS) {
        read_status(file, r, offset);
    } else if (file->state == TALK_ANSWERING) {
        give(file, r);
    } else if (file->state == TALK_RUNNING) {
        answer_errno(r, EBUSY);
    } else if (file->request.length == 0) {
        answer_data(r, "", 0); /* nothing was asked */
    } else if (fs->control.exec == NULL) {
        answer_errno(r, EOPNOTSUPP);
    } else {
        run(file, r);
    }
}
