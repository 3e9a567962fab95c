/* The supervisor: a small child of the hand between it and one command. It is a subreaper, so that
 * whatever the command starts stays below it, and reports over a pipe. It holds no descriptor of the
 * command's. When the command kills it, its children fall to the hand, which goes on by itself: also where
 * that happens before the supervisor has run again after the start, because the command's process has told
 * its own pid before. */
#ifndef HANDSFS_HAND_SUPERVISOR_H
#define HANDSFS_HAND_SUPERVISOR_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define COMMAND_STATE_FD 251 /* where a persistent shell's command leaves its state (hand/shell.h) */
#define COMMAND_TEXT_FD 250 /* where a command finds its text when that is too long for an argument */

enum report_kind {
    REPORT_BORN,    /* the process that becomes the command is there: pid; told by that process */
    REPORT_STARTED, /* the command was executed: pid */
    REPORT_FAILED,  /* nothing was run: step, os_errno */
    REPORT_ENDED,   /* the command ended: status as of wait(2), user_us, system_us, peak_kib */
    REPORT_REST,    /* follows REPORT_ENDED: others */
};

enum launch_step { LAUNCH_FORK, LAUNCH_SETUP, LAUNCH_CHDIR, LAUNCH_EXEC };

/* One write to the pipe each, so they arrive whole. */
struct report {
    uint32_t kind;
    int32_t pid;
    uint32_t step;
    int32_t os_errno;
    int32_t status;
    uint32_t others; /* 1: the command has left children behind */
    uint64_t user_us, system_us;
    uint64_t peak_kib;
};

/* What a command starts with. All descriptors are above 2 and close on exec. */
struct launch {
    int in, out, err;
    int report;
    int workdir;
    int text;         /* becomes COMMAND_TEXT_FD; -1: none */
    int terminal;     /* 1: `in` is a terminal that is to control it */
    int program;      /* what is executed, O_PATH; -1: argv[0] */
    int state;        /* becomes COMMAND_STATE_FD; -1: none */
    const char *cwd;  /* from the workdir; NULL: the workdir itself */
    char *const *argv; /* argv[0] is the program's path */
    char *const *env;
    mode_t umask;
    struct rlimit descriptors; /* RLIMIT_NOFILE */
};

/* Forks a supervisor that starts the command. Its pid, or -1 with errno. All signals must be blocked. */
pid_t supervisor_start(const struct launch *launch) __attribute__((nonnull, warn_unused_result));

#endif
