#include "exec/utf8.h"

#include <string.h>

#include "sandbox/buffer.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* How many bytes a character has that starts with this one; 0 where none does. */
static size_t length_by_first(uint8_t first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) { /* a continuation, an overlong form, above U+10FFFF */
        return 0;
    }
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Whether `second` may follow: this is where the remaining overlong forms, the surrogates and what is
 * above U+10FFFF are told. */
static bool second_fits(uint8_t first, uint8_t second)
{
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

    return second >= low && second <= high;
}

/* The bytes of the character at `p`: 0 where there is none. With `cut` an unfinished one at the end of
 * the data counts with the bytes that are there. */
static size_t character(const uint8_t *p, size_t left, bool cut)
{
    size_t n = length_by_first(p[0]);

    if (n > left) {
        if (!cut) {
            return 0;
        }
        n = left;
    }
    if (n >= 2 && !second_fits(p[0], p[1])) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

bool utf8_valid(const uint8_t *data, size_t length)
{
    size_t at = 0;

    while (at < length) {
        size_t n = character(data + at, length - at, false);

        if (n == 0) {
            return false;
        }
        at += n;
    }
    return true;
}

size_t utf8_whole(const uint8_t *data, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const uint8_t *p = data + length - back;

        if ((*p & 0xc0) == 0x80) {
            continue;
        }
        if (length_by_first(*p) > back && character(p, back, true) == back) {
            return length - back;
        }
        break;
    }
    return length;
}

json_t *utf8_json(const char *text, size_t length)
{
    const uint8_t *data = (const uint8_t *)text;
    cleanup_buffer struct buffer clean = BUFFER_INIT(3 * length);
    size_t at = 0;

    if (utf8_valid(data, length)) {
        return json_stringn_nocheck(text, length);
    }
    while (at < length) {
        size_t n = character(data + at, length - at, false);
        int r = n > 0 ? buffer_append(&clean, data + at, n)
                      : buffer_append_string(&clean, REPLACEMENT);

        if (r < 0) {
            return NULL;
        }
        at += n > 0 ? n : 1;
    }
    return json_stringn_nocheck((const char *)clean.data, clean.length);
}
