/* The names of capabilities(7). */
#ifndef HANDSFS_SANDBOX_CAPABILITY_H
#define HANDSFS_SANDBOX_CAPABILITY_H

#include <stdint.h>

/* "CAP_CHOWN" for 0 and so on, in the kernel's numbering; NULL past the last one. */
const char *capability_name(unsigned number);

/* The bit of a capability, with or without "CAP_" and in either case; 0 for an unknown one. */
uint64_t capability_bit(const char *name) __attribute__((nonnull));

#endif
