#include "backends/printable.h"

#include <assert.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The length of the character of UTF-8 that begins here, 0 where there is none that may be shown: control
 * characters (those of Latin-1 and those that change the direction of writing too) are none. */
static size_t character(const uint8_t *at, size_t length)
{
    size_t n = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
               : at[0] >= 0xf0 && at[0] < 0xf5 ? 4 : 0;
    uint32_t code = n > 1 ? at[0] & (0xffu >> (n + 1)) : at[0];

    if (n == 0 || n > length) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (at[i] & 0x3fu);
    }
    if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (n == 3 && code < 0x800) ||
        (code >= 0xd800 && code < 0xe000) || (n == 4 && (code < 0x10000 || code > 0x10ffff)) ||
        (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
        (code >= 0x2066 && code <= 0x2069) || code == 0xfeff) {
        return 0;
    }
    return n;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t copy_printable(char *to, size_t size, const void *from, size_t length)
{
    const uint8_t *at = from;
    size_t used = 0;
    bool space = false;

    assert(size > 0);
    for (size_t i = 0, n; i < length; i += n) {
        size_t shown = character(at + i, length - i);

        n = shown > 0 ? shown : 1;
        if (is_space(at[i])) {
            space = used > 0;
            continue;
        }
        if (used + space + n >= size) {
            break;
        }
        if (space) {
            to[used++] = ' ';
            space = false;
        }
        if (shown > 0) {
            memcpy(to + used, at + i, n);
        } else {
            to[used] = '?';
        }
        used += n;
    }
    to[used] = '\0';
    return used;
}

char *printed(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    return n < 0 ? NULL : text;
}
