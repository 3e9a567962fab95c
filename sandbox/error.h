/* Errors: one value type, one table.
 *
 * A fallible function returns 0 or -1 and takes `struct error *` last; the error is untouched on
 * success. It is a plain value of the caller's (no allocation, nothing to release), so it works when
 * memory has run out. The table in error.c is the only place that maps a code to an errno, to the name
 * in the JSON protocol, and to who is told. */
#ifndef HANDSFS_SANDBOX_ERROR_H
#define HANDSFS_SANDBOX_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#define ERROR_MESSAGE_MAX 512 /* bytes with the terminating NUL; a longer text is cut */

/* The numbers travel on the wire (hand/wire.h): append only. */
enum error_code {
    ERROR_NONE = 0,
    ERROR_SANDBOX_GONE,    /* destroyed, died, or never provisioned */
    ERROR_NO_SUCH_FILE,
    ERROR_IS_DIRECTORY,
    ERROR_NOT_DIRECTORY,   /* an ancestor is not a directory */
    ERROR_NOT_REGULAR,     /* FIFO, socket, device, symbolic link */
    ERROR_NOT_REPLACEABLE, /* a device node or a mount point */
    ERROR_NOT_WRITABLE,    /* the parent takes no new file */
    ERROR_TOO_LARGE,       /* over a cap of ours */
    ERROR_SPEC_MISMATCH,   /* the existing sandbox was made differently */
    ERROR_NO_ANSWER,       /* the sandbox did not answer in time */
    ERROR_BAD_REQUEST,
    ERROR_CANCELLED,
    ERROR_NO_MEMORY,
    ERROR_IO,
    ERROR_ERRNO, /* any other errno of the sandbox's kernel: `os_errno` says which */
    ERROR_CODES  /* how many there are */
};

/* Who can do something about it. */
enum error_audience { ERROR_FOR_CALLER, ERROR_FOR_OPERATOR };

struct error {
    enum error_code code;
    int os_errno; /* with ERROR_ERRNO: the errno; else 0 or the errno behind the code, to be logged */
    char message[ERROR_MESSAGE_MAX];
};

/* Fills `err` and returns -1, so that a caller may `return error_set(...)`. */
int error_set(struct error *err, enum error_code code, int os_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5), nonnull(1, 4)));

/* Fills `err` from an errno value: the code of the table that stands for it, else ERROR_ERRNO. The
 * message is "FORMAT: strerror". Returns -1. `os_errno` 0 or out of range becomes ERROR_IO. */
int error_set_errno(struct error *err, int os_errno, const char *format, ...)
    __attribute__((format(printf, 3, 4), nonnull(1, 3)));

/* Puts "FORMAT: " before the message. Returns -1. */
int error_prefix(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(1, 2)));

/* The errno that a system call would have given: what FUSE answers. Never 0 for a set error. */
int error_errno(const struct error *err) __attribute__((nonnull));

/* The code that stands for an errno, ERROR_ERRNO where none does, ERROR_NONE for 0. */
enum error_code error_code_of_errno(int os_errno);

/* The name in the JSON protocol (`data.error`), such as "no_such_file"; "errno" for ERROR_ERRNO. A
 * static string, for every value of the type. */
const char *error_name(enum error_code code);

/* The other way: ERROR_NONE where no code has that name. */
enum error_code error_code_of_name(const char *name) __attribute__((nonnull));

/* The symbolic name of an errno ("ENOSPC"), or NULL where the C library knows none. */
const char *error_errno_name(int os_errno);

enum error_audience error_audience(enum error_code code);

#endif
