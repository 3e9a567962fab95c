#include "exec/base64.h"

#include <stdint.h>

json_t *base64_json(const uint8_t *data, size_t length)
{
    cleanup_buffer struct buffer text = BUFFER_INIT(SIZE_MAX / 2);

    if (base64_encode(&text, data, length) < 0) {
        return NULL;
    }
    return json_stringn_nocheck(text.data != NULL ? (const char *)text.data : "", text.length);
}
