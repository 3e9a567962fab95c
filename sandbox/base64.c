#include "sandbox/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(struct buffer *out, const uint8_t *data, size_t length)
{
    size_t size = (length + 2) / 3 * 4;
    uint8_t *to = buffer_reserve(out, size);

    if (to == NULL) {
        return -1;
    }
    for (size_t at = 0; at < length; at += 3) {
        size_t n = length - at < 3 ? length - at : 3;
        uint32_t bits = (uint32_t)data[at] << 16;

        if (n > 1) {
            bits |= (uint32_t)data[at + 1] << 8;
        }
        if (n > 2) {
            bits |= data[at + 2];
        }
        *to++ = (uint8_t)alphabet[bits >> 18];
        *to++ = (uint8_t)alphabet[bits >> 12 & 63];
        *to++ = n > 1 ? (uint8_t)alphabet[bits >> 6 & 63] : '=';
        *to++ = n > 2 ? (uint8_t)alphabet[bits & 63] : '=';
    }
    buffer_commit(out, size);
    return 0;
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters, of which the last `padding` are "=". Returns the 24 bits or -1. */
static int32_t decode_group(const char *text, size_t padding)
{
    int32_t bits = 0;

    for (size_t i = 0; i < 4 - padding; i++) {
        int value = value_of(text[i]);

        if (value < 0) {
            return -1;
        }
        bits |= (int32_t)value << (18 - 6 * i);
    }
    /* One text stands for one content: the bits that padding leaves over are zero. */
    return (bits & ((1 << 8 * padding) - 1)) == 0 ? bits : -1;
}

int base64_decode(struct buffer *out, const char *text, size_t length)
{
    size_t padding = 0;
    uint8_t *to;

    if (length % 4 != 0) {
        errno = EINVAL;
        return -1;
    }
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=') {
        padding++;
    }
    to = buffer_reserve(out, length / 4 * 3 - padding);
    if (to == NULL) {
        return -1;
    }
    for (size_t at = 0; at < length; at += 4) {
        size_t here = at + 4 == length ? padding : 0;
        int32_t bits = decode_group(text + at, here);

        if (bits < 0) {
            errno = EINVAL;
            return -1;
        }
        for (size_t i = 0; i < 3 - here; i++) {
            *to++ = (uint8_t)(bits >> (16 - 8 * i));
        }
    }
    buffer_commit(out, length / 4 * 3 - padding);
    return 0;
}
