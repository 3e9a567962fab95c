#include "sandbox/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* A character's value and one; 0: it is not of the alphabet. Comparisons in place of the table would cost a guess or
 * two of the processor's for every character. */
static const uint8_t values[256] = {
    ['A'] = 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    ['a'] = 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
    ['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62,
    ['+'] = 63,
    ['/'] = 64,
};

static void encode_group(uint8_t *to, uint32_t bits)
{
    to[0] = (uint8_t)alphabet[bits >> 18];
    to[1] = (uint8_t)alphabet[bits >> 12 & 63];
    to[2] = (uint8_t)alphabet[bits >> 6 & 63];
    to[3] = (uint8_t)alphabet[bits & 63];
}

int base64_encode(struct buffer *out, const uint8_t *data, size_t length)
{
    size_t size = (length + 2) / 3 * 4;
    uint8_t *to = buffer_reserve(out, size);
    size_t rest = length % 3;
    size_t whole = length - rest;

    if (to == NULL) {
        return -1;
    }
    for (size_t at = 0; at < whole; at += 3, to += 4) {
        encode_group(to, (uint32_t)data[at] << 16 | (uint32_t)data[at + 1] << 8 | data[at + 2]);
    }
    if (rest > 0) {
        encode_group(to, (uint32_t)data[whole] << 16 | (rest > 1 ? (uint32_t)data[whole + 1] << 8 : 0));
        to[3] = '=';
        to[2] = rest > 1 ? to[2] : '=';
    }
    buffer_commit(out, size);
    return 0;
}

/* Four characters, of which the last `padding` are "=". Returns the 24 bits or -1. */
static int32_t decode_group(const char *text, size_t padding)
{
    int32_t bits = 0;

    for (size_t i = 0; i < 4 - padding; i++) {
        int32_t value = values[(uint8_t)text[i]];

        if (value == 0) {
            return -1;
        }
        bits |= (value - 1) << (18 - 6 * i);
    }
    /* One text stands for one content: the bits that padding leaves over are zero. */
    return (bits & ((1 << 8 * padding) - 1)) == 0 ? bits : -1;
}

static int decode(uint8_t *to, const char *text, size_t length, size_t padding)
{
    size_t whole = length - (padding > 0 ? 4 : 0);
    int32_t bits;

    for (size_t at = 0; at < whole; at += 4, to += 3) {
        bits = decode_group(text + at, 0);
        if (bits < 0) {
            return -1;
        }
        to[0] = (uint8_t)(bits >> 16);
        to[1] = (uint8_t)(bits >> 8);
        to[2] = (uint8_t)bits;
    }
    if (padding == 0) {
        return 0;
    }
    bits = decode_group(text + whole, padding);
    to[0] = (uint8_t)(bits >> 16);
    if (padding == 1) {
        to[1] = (uint8_t)(bits >> 8);
    }
    return bits < 0 ? -1 : 0;
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
    if (decode(to, text, length, padding) < 0) {
        errno = EINVAL;
        return -1;
    }
    buffer_commit(out, length / 4 * 3 - padding);
    return 0;
}
