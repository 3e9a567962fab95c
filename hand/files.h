/* The file server: file calls against one root directory descriptor. Written once, placed twice: in the
 * hand inside the sandbox, and inside the host's process where its kernel can see the sandbox's files.
 *
 * Every path is walked with openat2(2) inside the root; the type of a file is known from an O_PATH
 * descriptor before anything is opened, so a planted FIFO or device is never opened; what is opened is
 * reopened from that very descriptor. No shell and no program of the sandbox is used. */
#ifndef HANDSFS_HAND_FILES_H
#define HANDSFS_HAND_FILES_H

#include "hand/wire.h"
#include "sandbox/buffer.h"
#include "sandbox/error.h"
#include "sandbox/sandbox.h"

#define FILES_MAX_HANDLES 16384 /* open files and directories of one client; then EMFILE */

struct files;

/* A server over `root_fd` (O_PATH is enough; duplicated, the caller keeps its own), with `workdir` (an
 * absolute path inside) opened once: it stays the same directory when someone renames it. Errors: those
 * of the walk to the workdir. Free with files_free(). */
int files_new(struct files **ret, int root_fd, const char *workdir, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Closes every handle; unfinished WriteFiles leave no trace. Not while a call runs. Accepts NULL. */
void files_free(struct files *files);

/* Runs one encoded call (wire_put_call) and appends its encoded reply (wire_put_reply), whatever
 * happens: bytes that are no call are answered ERROR_BAD_REQUEST. Blocks as the file system does. Any
 * number of threads at once. `reply` needs a limit of WIRE_MAX_PAYLOAD at least. Returns -1 only where
 * not even an error could be appended. */
int files_serve(struct files *files, const uint8_t *call, size_t length, struct buffer *reply)
    __attribute__((nonnull, warn_unused_result));

/* Makes the calling thread's file system work that of another user: its ids, groups and capabilities, as below. The
 * next call of either function changes it again. -1 with errno, and the thread is as it was or has less. */
int files_act_as(const struct sandbox_rights *rights) __attribute__((nonnull, warn_unused_result));

/* Gives the calling thread's file system work the rights of a process with these capabilities, at most
 * (one bit a capability, as in /proc/PID/status), and without CAP_FSETID, so that the kernel clears
 * set-user-ID bits on writes. For the threads of a host process that has more than the sandbox. The
 * process-wide umask must be 0. Cheap when repeated. -1 with errno. */
int files_limit_thread(uint64_t capabilities) __attribute__((warn_unused_result));

#endif
