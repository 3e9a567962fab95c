/* Base64 as RFC 4648 has it in section 4, padded, in one piece: no line breaks, nothing ignored. */
#ifndef HANDSFS_SANDBOX_BASE64_H
#define HANDSFS_SANDBOX_BASE64_H

#include "sandbox/buffer.h"

/* Appends the bytes' text. Fails as buffer_append(). */
int base64_encode(struct buffer *out, const uint8_t *data, size_t length)
    __attribute__((nonnull(1), warn_unused_result));

/* Appends what `text` stands for. -1 with errno EINVAL where it is not base64, else as buffer_append(). */
int base64_decode(struct buffer *out, const char *text, size_t length)
    __attribute__((nonnull(1), warn_unused_result));

#endif
