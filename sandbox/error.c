#include "sandbox/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The one error table. Every code has a row (checked below); no errno stands in two rows. */
static const struct row {
    int os_errno;
    enum error_audience audience;
    const char *name;
} table[ERROR_CODES] = {
    [ERROR_NONE] = {0, ERROR_FOR_CALLER, "none"},
    [ERROR_SANDBOX_GONE] = {EHOSTDOWN, ERROR_FOR_OPERATOR, "sandbox_gone"},
    [ERROR_NO_SUCH_FILE] = {ENOENT, ERROR_FOR_CALLER, "no_such_file"},
    [ERROR_IS_DIRECTORY] = {EISDIR, ERROR_FOR_CALLER, "is_a_directory"},
    [ERROR_NOT_DIRECTORY] = {ENOTDIR, ERROR_FOR_CALLER, "not_a_directory"},
    [ERROR_NOT_REGULAR] = {ENXIO, ERROR_FOR_CALLER, "not_regular"},
    [ERROR_NOT_REPLACEABLE] = {EBUSY, ERROR_FOR_CALLER, "not_replaceable"},
    [ERROR_NOT_WRITABLE] = {EACCES, ERROR_FOR_CALLER, "not_writable"},
    [ERROR_TOO_LARGE] = {EFBIG, ERROR_FOR_CALLER, "too_large"},
    [ERROR_SPEC_MISMATCH] = {EEXIST, ERROR_FOR_CALLER, "spec_mismatch"},
    [ERROR_NO_ANSWER] = {ETIMEDOUT, ERROR_FOR_OPERATOR, "no_answer"},
    [ERROR_BAD_REQUEST] = {EINVAL, ERROR_FOR_CALLER, "bad_request"},
    [ERROR_CANCELLED] = {EINTR, ERROR_FOR_CALLER, "cancelled"},
    [ERROR_NO_MEMORY] = {ENOMEM, ERROR_FOR_OPERATOR, "out_of_memory"},
    [ERROR_IO] = {EIO, ERROR_FOR_OPERATOR, "io"},
    [ERROR_ERRNO] = {0, ERROR_FOR_CALLER, "errno"},
};

_Static_assert(sizeof table / sizeof table[0] == ERROR_CODES, "every code has a row");

static const struct row *row_of(enum error_code code)
{
    unsigned i = (unsigned)code;

    return &table[i < ERROR_CODES && table[i].name != NULL ? i : ERROR_IO];
}

int error_set(struct error *err, enum error_code code, int os_errno, const char *format, ...)
{
    va_list args;

    err->code = code;
    err->os_errno = os_errno;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return -1;
}

int error_set_errno(struct error *err, int os_errno, const char *format, ...)
{
    va_list args;
    size_t used;

    if (os_errno <= 0 || os_errno > 4095) { /* the kernel's MAX_ERRNO */
        os_errno = EIO;
    }
    err->code = error_code_of_errno(os_errno);
    err->os_errno = os_errno;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(os_errno));
    return -1;
}

int error_prefix(struct error *err, const char *format, ...)
{
    char old[ERROR_MESSAGE_MAX];
    va_list args;
    size_t used;

    memcpy(old, err->message, sizeof old);
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", old);
    return -1;
}

int error_errno(const struct error *err)
{
    int os_errno = err->code == ERROR_ERRNO ? err->os_errno : row_of(err->code)->os_errno;

    return os_errno > 0 ? os_errno : EIO;
}

enum error_code error_code_of_errno(int os_errno)
{
    if (os_errno == 0) {
        return ERROR_NONE;
    }
    for (unsigned i = 0; i < ERROR_CODES; i++) {
        if (table[i].os_errno == os_errno) {
            return (enum error_code)i;
        }
    }
    return ERROR_ERRNO;
}

const char *error_name(enum error_code code)
{
    return row_of(code)->name;
}

enum error_code error_code_of_name(const char *name)
{
    for (unsigned i = 0; i < ERROR_CODES; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return (enum error_code)i;
        }
    }
    return ERROR_NONE;
}

const char *error_errno_name(int os_errno)
{
#ifdef __GLIBC__
    return strerrorname_np(os_errno);
#else
    (void)os_errno; /* the hand sends numbers */
    return NULL;
#endif
}

enum error_audience error_audience(enum error_code code)
{
    return row_of(code)->audience;
}
