/* Base64 (sandbox/base64.h) in JSON. */
#ifndef HANDSFS_EXEC_BASE64_H
#define HANDSFS_EXEC_BASE64_H

#include <jansson.h>

#include "sandbox/base64.h"

/* New reference to a JSON string, NULL out of memory. */
json_t *base64_json(const uint8_t *data, size_t length);

#endif
