/* What is written down of a session: the file spec.json in its directory. It appears and changes by
 * rename alone, so whoever reads it, with or without the lock, reads one whole state of it. */
#ifndef HANDSFS_BACKENDS_LOCAL_RECORD_H
#define HANDSFS_BACKENDS_LOCAL_RECORD_H

#include "sandbox/sandbox.h"

#define LOCAL_ID_LENGTH 32               /* 128 random bits in hexadecimal */
#define LOCAL_RECORD_MAX_BYTES (16u << 20)
#define LOCAL_MAX_CGROUPS 4

struct local_record {
    char id[LOCAL_ID_LENGTH + 1];
    int64_t created; /* seconds since 1970 */
    struct sandbox_spec spec;
    char *cgroups[LOCAL_MAX_CGROUPS + 1]; /* directories made for the limits; NULL-terminated, owned */
};

#define cleanup_record __attribute__((cleanup(local_record_release)))

/* Accepts a zeroed record. */
void local_record_release(struct local_record *record) __attribute__((nonnull));

/* A new id and the time of now. */
int local_record_renew(struct local_record *record, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* A deep copy of a spec into a zeroed one. */
int local_spec_copy(struct sandbox_spec *ret, const struct sandbox_spec *spec, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Reads it from the session's directory into a zeroed record. ERROR_SANDBOX_GONE where there is none,
 * ERROR_IO where it does not make sense. */
int local_record_read(int session_fd, struct local_record *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Writes it, mode 0600: the variables may be secrets. ERROR_BAD_REQUEST where it would be too large. */
int local_record_write(int session_fd, const struct local_record *record, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
