/* A session on disk: STATE/local/SESSION/ with
 *
 *     spec.json    what it is (local_record.h); a directory without it is none
 *     workspace/   bound at the workdir
 *     home/        bound at $HOME
 *     ID.sock      where its hand listens. The name has the sandbox's id, so a handle of an earlier sandbox
 *                  of the session cannot reach a later one
 *     process      the hand's process, for when it does not answer
 *     log          what bubblewrap and the hand had to complain about
 *
 * and beside it .SESSION.lock, which whoever provisions or destroys holds, and .SESSION.trash while a
 * session is being removed. (A session's name does not begin with a dot.) */
#ifndef HANDSFS_BACKENDS_LOCAL_STATE_H
#define HANDSFS_BACKENDS_LOCAL_STATE_H

#include "backends/local_process.h"
#include "sandbox/error.h"
#include "sandbox/sandbox.h"

#define LOCAL_WORKSPACE "workspace"
#define LOCAL_HOME "home"
#define LOCAL_LOG "log"
#define LOCAL_NAME_BYTES (MAX_SESSION_NAME + 16)

/* Waits for the session's lock and takes it; held until `*ret_fd` is closed. ERROR_NO_ANSWER. */
int local_lock(int state_fd, const char *session, uint64_t deadline_ms, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Removes the lock's file, by its holder. Whoever waits for it finds that out and starts anew. */
void local_lock_remove(int state_fd, const char *session) __attribute__((nonnull));

/* The session's directory. ERROR_SANDBOX_GONE where there is none. */
int local_session_open(int state_fd, const char *session, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Makes what is missing of the directory; `*ret_made` where it was not there at all. */
int local_session_make(int state_fd, const char *session, int *ret_fd, bool *ret_made,
                       struct error *err) __attribute__((nonnull, warn_unused_result));

/* A bound, not yet listening socket for the hand of this id; sockets of earlier ones go. */
int local_socket_bind(int session_fd, const char *id, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* A non-blocking stream to that hand. ERROR_SANDBOX_GONE where nobody listens; ERROR_NO_ANSWER where its
 * queue stays full until the deadline (0: do not wait). */
int local_socket_connect(int session_fd, const char *id, uint64_t deadline_ms, int *ret_fd,
                         struct error *err) __attribute__((nonnull, warn_unused_result));

/* 0 where the hand of this id lives (a frozen one does), and, as far as it can be told, its process.
 * ERROR_SANDBOX_GONE where it does not. */
int local_probe(int session_fd, const char *id, struct local_process *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Writes down the process that listens at the socket; under the lock. */
int local_process_write(int session_fd, const char *id, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The process written down, where it is still that one; for a hand that does not answer. */
void local_process_read(int session_fd, struct local_process *ret) __attribute__((nonnull));

#endif
