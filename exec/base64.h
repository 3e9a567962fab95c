/* Base64 as RFC 4648 has it in section 4, padded, in one piece: no line breaks, nothing ignored. */
#ifndef HANDSFS_EXEC_BASE64_H
#define HANDSFS_EXEC_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "sandbox/buffer.h"

/* New reference to a JSON string, NULL out of memory. */
json_t *base64_json(const uint8_t *data, size_t length);

/* Appends what `text` stands for. -1 with errno EINVAL where it is not base64, else as buffer_append(). */
int base64_decode(struct buffer *out, const char *text, size_t length)
    __attribute__((nonnull(1), warn_unused_result));

#endif
