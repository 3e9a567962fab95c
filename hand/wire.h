/* The wire between the host and the hand: length-prefixed binary frames over one byte stream.
 *
 *     u32 length of the payload | u16 type | u16 zero | u64 id | payload
 *
 * All numbers are little-endian; a string is its u32 length and its bytes, and so is `data`
 * (wire_put_bytes). Many requests are in flight at once; `id` is chosen by the host and names the call or the execution that a frame is about. The
 * host speaks first (HELLO), the hand answers WELCOME or REFUSE; what comes before that is a fault.
 *
 * Both ends treat every byte of the other as hostile. A frame that does not decode ends the connection.
 * The file calls also run without any stream: in the host's own process, encoded and decoded the same
 * way (hand/files.h), so that there is one path to check.
 *
 * Numbers that travel: enum wire_type, enum wire_op, enum error_code, errno values and S_IF/O_* bits of
 * Linux on one machine's architecture (the hand runs where its binary was built for; WELCOME says so). */
#ifndef HANDSFS_HAND_WIRE_H
#define HANDSFS_HAND_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define WIRE_MAGIC UINT32_C(0x31444e48) /* "HND1" */
#define WIRE_VERSION 4
#define WIRE_HEADER_BYTES 16
#define WIRE_MAX_DATA (1u << 20)    /* file data in one frame; larger transfers are several calls */
#define WIRE_MAX_COMMAND (8u << 20) /* EXEC is the one frame that may be larger than the rest */
#define WIRE_MAX_PATH 65536         /* longer than PATH_MAX: the walk goes in pieces */
#define WIRE_MAX_NAME 255           /* NAME_MAX */
#define WIRE_MAX_PAYLOAD (WIRE_MAX_DATA + 4 * WIRE_MAX_PATH)
#define WIRE_MAX_EXEC_PAYLOAD (WIRE_MAX_COMMAND + (4u << 20))
#define WIRE_ID_BYTES 16

enum wire_type {
    /* host to hand */
    WIRE_HELLO = 1,
    WIRE_PING,
    WIRE_CALL,         /* struct wire_call; answered by RESULT with the same id */
    WIRE_CANCEL,       /* the call `id` need not be run if it has not begun; RESULT still comes */
    WIRE_EXEC,         /* struct wire_exec; STARTED or FAILED answers; a known id: as ATTACH from 0 */
    WIRE_EXEC_INPUT,   /* u64 offset, data: bytes for stdin, within the credit */
    WIRE_EXEC_EOF,     /* no more stdin */
    WIRE_EXEC_SIGNAL,  /* u32 signal number, to the command's process group */
    WIRE_EXEC_KILL,    /* kill the whole tree; EXIT follows */
    WIRE_EXEC_CREDIT,  /* u8 stream, u64 total bytes received so far; with `flow` taken so far */
    WIRE_EXEC_ATTACH,  /* u64 stdout, u64 stderr: bytes received so far; after a reconnect */
    WIRE_EXEC_FORGET,  /* EXIT was received (or nobody cares): drop the record */
    WIRE_EXEC_RESIZE,  /* u16 rows, u16 columns: of its terminal, where it has one */
    /* hand to host */
    WIRE_WELCOME = 65,
    WIRE_REFUSE,       /* u16 code, string: the reason; the connection ends */
    WIRE_PONG,
    WIRE_RESULT,       /* struct wire_reply */
    WIRE_EXEC_STARTED, /* u32 pid inside */
    WIRE_EXEC_FAILED,  /* u16 code, u32 errno, string message: nothing was run; ends the execution */
    WIRE_EXEC_OUTPUT,  /* u8 stream, u64 offset, data */
    WIRE_EXEC_WANT,    /* u64 total bytes of stdin that may have been sent: the credit */
    WIRE_EXEC_EXIT,    /* struct wire_exit; after all OUTPUT of it */
};

enum wire_stream { WIRE_STDOUT = 1, WIRE_STDERR = 2 };

struct wire_header {
    uint32_t length;
    enum wire_type type;
    uint64_t id;
};

/* Reads WIRE_HEADER_BYTES. -1 where the type is unknown or the length over what the type may have. */
int wire_decode_header(const uint8_t *bytes, struct wire_header *ret)
    __attribute__((nonnull, warn_unused_result));

/* Appends a header whose length is filled in by wire_end_frame(); returns the frame's offset in the
 * buffer, or SIZE_MAX where the buffer is full. */
size_t wire_begin_frame(struct buffer *out, enum wire_type type, uint64_t id) __attribute__((nonnull));
void wire_end_frame(struct buffer *out, size_t frame) __attribute__((nonnull));

/* A frame without payload. 0, or -1 where the buffer is full. */
int wire_put_empty(struct buffer *out, enum wire_type type, uint64_t id)
    __attribute__((nonnull, warn_unused_result));

/* ---- Fields --------------------------------------------------------------------------------- */

int wire_put_u8(struct buffer *out, uint8_t v) __attribute__((warn_unused_result));
int wire_put_u16(struct buffer *out, uint16_t v) __attribute__((warn_unused_result));
int wire_put_u32(struct buffer *out, uint32_t v) __attribute__((warn_unused_result));
int wire_put_u64(struct buffer *out, uint64_t v) __attribute__((warn_unused_result));
int wire_put_bytes(struct buffer *out, const void *data, size_t length)
    __attribute__((warn_unused_result));

/* Reads fields one by one. Past the end, or past a string's bound, `bad` is set for good and everything
 * reads as zero or empty: look once, at the end. */
struct wire_reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

uint8_t wire_get_u8(struct wire_reader *r);
uint16_t wire_get_u16(struct wire_reader *r);
uint32_t wire_get_u32(struct wire_reader *r);
uint64_t wire_get_u64(struct wire_reader *r);
/* Bytes inside the frame (not copied, not NUL-terminated), at most `max`. */
const uint8_t *wire_get_bytes(struct wire_reader *r, size_t max, size_t *ret_length);
/* 0 where everything was read, nothing is left over and nothing was bad. */
int wire_end(const struct wire_reader *r) __attribute__((warn_unused_result));

/* Text inside a frame or of the caller; never NUL-terminated. */
struct wire_text {
    const char *data;
    size_t length;
};

/* ---- Greeting ------------------------------------------------------------------------------- */

struct wire_hello {
    uint8_t client[WIRE_ID_BYTES]; /* random; the same again after a reconnect */
};

struct wire_welcome {
    uint8_t instance[WIRE_ID_BYTES]; /* random, this hand's: another one is another sandbox */
    uint32_t uid, gid;               /* the sandbox's user, as numbered inside */
    uint64_t capabilities;           /* its effective set, one bit a capability */
    struct wire_text workdir;
    struct wire_text version; /* of the program */
    struct wire_text machine; /* uname -m */
};

int wire_put_hello(struct buffer *out, const struct wire_hello *hello) __attribute__((warn_unused_result));
int wire_get_hello(const uint8_t *payload, size_t length, struct wire_hello *ret)
    __attribute__((warn_unused_result));
int wire_put_welcome(struct buffer *out, const struct wire_welcome *w) __attribute__((warn_unused_result));
/* -1 also where magic or version differ. */
int wire_get_welcome(const uint8_t *payload, size_t length, struct wire_welcome *ret)
    __attribute__((warn_unused_result));

/* ---- File calls ----------------------------------------------------------------------------- */

enum wire_op {
    WIRE_LOOKUP = 1, /* ref: directory, name -> attr */
    WIRE_GETATTR,    /* ref -> attr */
    WIRE_SETATTR,    /* ref, mask, mode, owner, size, times, limit -> attr */
    WIRE_READLINK,   /* ref -> data */
    WIRE_MKNOD,      /* ref: directory, name, mode (regular, FIFO or socket) -> attr */
    WIRE_MKDIR,      /* ref: directory, name, mode -> attr */
    WIRE_SYMLINK,    /* ref: directory, name, data: the link's text -> attr */
    WIRE_LINK,       /* ref: the file, ref2: directory, name -> attr */
    WIRE_UNLINK,     /* ref: directory, name */
    WIRE_RMDIR,      /* ref: directory, name */
    WIRE_RENAME,     /* ref: directory, name, ref2: directory, name2, flags of renameat2(2) */
    WIRE_OPEN,       /* ref, flags of open(2), limit -> handle, attr */
    WIRE_CREATE,     /* ref: directory, name, flags, mode, limit -> handle, attr */
    WIRE_READ,       /* ref, offset, size -> data */
    WIRE_WRITE,      /* ref, offset, limit, data -> size written, offset where it went, attr */
    WIRE_FSYNC,      /* ref, flags: 1 for data only */
    WIRE_RELEASE,    /* ref: the handle */
    WIRE_OPENDIR,    /* ref -> handle */
    WIRE_READDIR,    /* ref: handle, offset (0 or an entry's `next`), size, flags: 1 with attr -> data */
    WIRE_FALLOCATE,  /* ref, mode of fallocate(2), offset, size, limit */
    WIRE_LSEEK,      /* ref, offset, flags: SEEK_HOLE or SEEK_DATA -> offset */
    WIRE_COPY_RANGE, /* ref, offset, ref2, offset2, size, limit -> size copied */
    WIRE_STATFS,     /* ref -> statfs */
    WIRE_GETXATTR,   /* ref, name, size -> data, size */
    WIRE_SETXATTR,   /* ref, name, data, flags of setxattr(2) */
    WIRE_LISTXATTR,  /* ref, size -> data, size */
    WIRE_REMOVEXATTR, /* ref, name */
    WIRE_READ_FILE,  /* the contract's ReadFile: ref (base root), limit -> handle, attr; then READ */
    WIRE_WRITE_FILE, /* the contract's WriteFile: ref (base root), size -> handle; then WRITE ... */
    WIRE_COMMIT,     /* ... and COMMIT renames into place -> attr; RELEASE without it leaves no trace */
    WIRE_RESOLVE,    /* ref: directory, data: a path from there, links followed -> data: where it leads,
                        clean, from the workdir ("" is the workdir itself); EXDEV where that is outside */
    WIRE_HOLD,       /* ref: directory, name -> attr, handle: as LOOKUP, and the handle is of that very file,
                        which is not opened: it says which one other calls mean */
    WIRE_OPS
};

/* Which file a call is about: an open handle, or a path from the workdir or the root.
 *
 * Paths have neither "/" at the start nor empty, "." or ".." components; "" is the base itself. With
 * WIRE_BASE_WORKDIR no symbolic link is followed anywhere on the way (the mount's kernel walks them
 * itself): a component that is a link is ESTALE. With WIRE_BASE_ROOT links in the parents are followed
 * within the root as a process inside would follow them. Where `ino` is not 0, the file found must have
 * this inode and device, else ESTALE. With a handle, path and ino are ignored. */
enum wire_base { WIRE_BASE_WORKDIR = 0, WIRE_BASE_ROOT = 1 };

struct wire_ref {
    uint64_t handle; /* 0: by path */
    enum wire_base base;
    uint64_t dev, ino;
    struct wire_text path;
};

enum wire_set {
    WIRE_SET_MODE = 1 << 0,
    WIRE_SET_UID = 1 << 1,
    WIRE_SET_GID = 1 << 2,
    WIRE_SET_SIZE = 1 << 3,
    WIRE_SET_ATIME = 1 << 4,
    WIRE_SET_MTIME = 1 << 5,
    WIRE_SET_ATIME_NOW = 1 << 6,
    WIRE_SET_MTIME_NOW = 1 << 7,
};

struct wire_time {
    int64_t seconds;
    uint32_t nanoseconds;
};

/* One struct for all calls; each op has the fields that its line above names, the rest is zero. */
struct wire_call {
    enum wire_op op;
    struct wire_ref ref;
    struct wire_ref ref2;
    struct wire_text name;
    struct wire_text name2;
    uint32_t mode;
    uint32_t flags;
    uint32_t mask; /* enum wire_set */
    uint32_t uid, gid;
    uint64_t offset;
    uint64_t offset2;
    uint64_t size;
    uint64_t limit; /* a file may not be larger than this after the call, or to be read; 0: no limit */
    struct wire_time atime, mtime;
    struct wire_text data;
};

struct wire_attr {
    uint64_t dev, ino, size, blocks; /* blocks of 512 bytes, as stat(2) */
    uint32_t mode, nlink, uid, gid, block_size;
    uint64_t rdev;
    struct wire_time atime, mtime, ctime;
};

struct wire_statfs {
    uint64_t blocks, bfree, bavail, files, ffree;
    uint32_t bsize, namelen, frsize;
};

struct wire_reply {
    enum error_code code; /* ERROR_NONE: the fields below are there */
    uint32_t os_errno;
    struct wire_text message;
    uint64_t handle;
    uint64_t size;
    uint64_t offset;
    struct wire_attr attr;
    struct wire_statfs statfs;
    struct wire_text data;
};

/* The call without a frame around it. 0, or -1 where the buffer is full. */
int wire_put_call(struct buffer *out, const struct wire_call *call)
    __attribute__((nonnull, warn_unused_result));
/* The texts point into `payload`. -1 for an unknown op, a name with "/" or NUL or over its bound or that
 * is "", "." or "..", a path out of the grammar above, left-over bytes. Everything that is returned has
 * been checked: nobody looks at these things again. */
int wire_get_call(const uint8_t *payload, size_t length, struct wire_call *ret)
    __attribute__((nonnull(1, 3), warn_unused_result));

/* The reply to a call of op `op`. */
int wire_put_reply(struct buffer *out, enum wire_op op, const struct wire_reply *reply)
    __attribute__((nonnull, warn_unused_result));
/* -1 also for an unknown code, a mode without a file type, nanoseconds out of range. */
int wire_get_reply(const uint8_t *payload, size_t length, enum wire_op op, struct wire_reply *ret)
    __attribute__((nonnull(1, 4), warn_unused_result));

/* A successful reply of an op that answers data alone (READLINK, READ, READDIR, RESOLVE), made in place:
 * begin, append the data to the buffer, end. Returns the reply's offset, to end it or to cut the buffer
 * back to, or SIZE_MAX where the buffer is full. */
size_t wire_begin_data_reply(struct buffer *out) __attribute__((nonnull));
void wire_end_data_reply(struct buffer *out, size_t reply) __attribute__((nonnull));

/* What a failed call answers: fills in code, errno and message (points into `err`). */
void wire_reply_error(struct wire_reply *reply, const struct error *err) __attribute__((nonnull));

/* A directory's entries in a READDIR reply's data. */
struct wire_entry {
    uint64_t next; /* READDIR's offset for what follows */
    uint64_t ino;
    uint32_t type;  /* S_IF... or 0 for unknown */
    bool has_attr;  /* false also where the entry vanished between the listing and the look */
    struct wire_attr attr;
    struct wire_text name;
};

int wire_put_entry(struct buffer *out, const struct wire_entry *entry)
    __attribute__((nonnull, warn_unused_result));
/* 1 and the entry, 0 at the end, -1 for bytes that are none: a name with "/" or NUL, or too long. */
int wire_get_entry(struct wire_reader *r, struct wire_entry *ret)
    __attribute__((nonnull, warn_unused_result));

/* ---- Execution ------------------------------------------------------------------------------ */

#define WIRE_MAX_EXEC_ENV 1024
#define WIRE_MAX_TOOL 32
#define WIRE_MAX_REST (1u << 20) /* of a stream with `flow`, over `keep`: what is in the pipe at the end */
#define WIRE_MAX_SHELL_NAME 64

struct wire_exec {
    struct wire_text tool;    /* "": bash runs; else a verb of the hand's own tool program (hand/tool.h) */
    struct wire_text command; /* text for /bin/bash -c, or the tool's arguments; may not hold NUL */
    struct wire_text cwd;     /* absolute, or relative to the workdir; "" for the workdir */
    uint32_t env_count;       /* NAME=VALUE strings, one after the other in `env` as u32 + bytes */
    const uint8_t *env;
    size_t env_length;
    bool has_stdin; /* else /dev/null */
    uint64_t keep;  /* bytes of each stream to deliver; the rest is drained and counted */
    bool flow;      /* all is delivered, and no more than `keep` bytes without CREDIT: the command waits */
    bool terminal;  /* stdin, stdout and stderr are a new terminal's, which controls it; all comes as stdout */
    uint16_t rows, columns; /* of that */
    struct wire_text shell; /* "", or the persistent shell that it is a command of: A-Z a-z 0-9 . _ - */
    bool shell_reset;       /* which begins anew; with "" for a command that is all */
};

int wire_put_exec(struct buffer *out, const struct wire_exec *exec) __attribute__((warn_unused_result));
/* `env` and the texts point into the payload; the NAME=VALUE strings are checked for NUL and "=". */
int wire_get_exec(const uint8_t *payload, size_t length, struct wire_exec *ret)
    __attribute__((warn_unused_result));

#define WIRE_MAX_LEFT 32      /* processes that are named in an EXIT */
#define WIRE_MAX_LEFT_NAME 64 /* bytes: any but NUL, as a process likes to call itself */

struct wire_left {
    uint32_t pid; /* inside */
    struct wire_text name;
};

/* Whether the kernel killed a process because memory had run out. */
enum wire_oom { WIRE_OOM_UNKNOWN, WIRE_OOM_NO, WIRE_OOM_YES };

/* What became of what a command leaves in its persistent shell. */
enum wire_state {
    WIRE_STATE_NONE,        /* it is in no shell */
    WIRE_STATE_KEPT,
    WIRE_STATE_ENDED_EARLY, /* its bash did not come to its own end; the state before is kept */
    WIRE_STATE_TOO_LARGE,   /* as above */
    WIRE_STATES
};

struct wire_exit {
    int32_t exit_code;  /* -1 where a signal ended it */
    uint32_t signal;    /* 0, or the number */
    uint64_t total[2];  /* bytes produced on stdout, stderr until the command's end */
    uint64_t sent[2];   /* of those, delivered as OUTPUT */
    uint64_t user_us, system_us; /* time of the command and what it waited for */
    uint64_t peak_kib;  /* largest resident set of one process of those */
    uint32_t left;      /* processes left in the background at the command's end */
    uint32_t named;     /* of those, in `background` */
    struct wire_left background[WIRE_MAX_LEFT];
    enum wire_oom oom;
    enum wire_state state;
};

int wire_put_exit(struct buffer *out, const struct wire_exit *e) __attribute__((warn_unused_result));
int wire_get_exit(const uint8_t *payload, size_t length, struct wire_exit *ret)
    __attribute__((warn_unused_result));

#endif
