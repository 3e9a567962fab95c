/* What is text and what is not: JSON carries UTF-8 alone. */
#ifndef HANDSFS_EXEC_UTF8_H
#define HANDSFS_EXEC_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* Whole and well-formed: no overlong form, no surrogate, nothing above U+10FFFF. */
bool utf8_valid(const uint8_t *data, size_t length);

/* The length without a character that is cut off at the end: at most three bytes less. */
size_t utf8_whole(const uint8_t *data, size_t length);

/* A JSON string of text for people: what is not UTF-8 becomes U+FFFD. New reference, NULL out of memory. */
json_t *utf8_json(const char *text, size_t length);

#endif
