#include "mount/quote.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "exec/utf8.h"

static bool is_utf8(const char *s)
{
    return utf8_valid((const uint8_t *)s, strlen(s));
}

/* Words that the shell reads as something else where a command's name stands. */
static bool is_reserved(const char *word)
{
    static const char *const reserved[] = {"if",   "then", "else",   "elif",     "fi",    "case",
                                           "esac", "for",  "select", "while",    "until", "do",
                                           "done", "in",   "time",   "function", "coproc"};

    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (strcmp(word, reserved[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the word means itself without quotes. The first one is a command's name: "=" would make it an
 * assignment. */
static bool is_plain(const char *word, bool first)
{
    static const char marks[] = "_@%+:,./-";

    if (word[0] == '\0' || (first && (is_reserved(word) || word[0] == '-'))) {
        return false;
    }
    for (; *word != '\0'; word++) {
        bool letter = (unsigned char)*word < 0x80 && isalnum((unsigned char)*word);

        if (!letter && strchr(marks, *word) == NULL && (first || *word != '=')) {
            return false;
        }
    }
    return true;
}

/* 'text': all but ' means itself; that is put between two such strings. */
static int append_quoted(struct buffer *out, const char *word)
{
    int r = buffer_append_string(out, "'");

    while (r == 0 && *word != '\0') {
        size_t length = strcspn(word, "'");

        r = buffer_append(out, word, length);
        word += length;
        if (r == 0 && *word == '\'') {
            r = buffer_append_string(out, "'\\''");
            word++;
        }
    }
    return r < 0 ? r : buffer_append_string(out, "'");
}

/* $'text' with every byte that is no plain ASCII as an octal number. */
static int append_bytes(struct buffer *out, const char *word)
{
    int r = buffer_append_string(out, "$'");

    for (; r == 0 && *word != '\0'; word++) {
        unsigned char c = (unsigned char)*word;

        if (c < 0x20 || c > 0x7e || c == '\'' || c == '\\') {
            r = buffer_printf(out, "\\%03o", c);
        } else {
            r = buffer_append(out, word, 1);
        }
    }
    return r < 0 ? r : buffer_append_string(out, "'");
}

static int append_word(struct buffer *out, const char *word, bool first)
{
    if (!is_utf8(word)) {
        return append_bytes(out, word);
    }
    return is_plain(word, first) ? buffer_append_string(out, word) : append_quoted(out, word);
}

static int too_long(const struct buffer *out, struct error *err)
{
    return error_set(err, ERROR_TOO_LARGE, 0, "the command is over %zu bytes", out->limit);
}

int quote_words(struct buffer *out, char *const *words, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if ((i > 0 && buffer_append_string(out, " ") < 0) ||
            append_word(out, words[i], i == 0) < 0) {
            return too_long(out, err);
        }
    }
    return 0;
}

int quote_command(struct buffer *out, char *const *words, size_t count, struct error *err)
{
    if (count != 1) {
        return quote_words(out, words, count, err);
    }
    if (is_utf8(words[0])) {
        return buffer_append_string(out, words[0]) < 0 ? too_long(out, err) : 0;
    }
    /* The same text, in letters that JSON has. */
    if (buffer_append_string(out, "eval ") < 0 || append_bytes(out, words[0]) < 0) {
        return too_long(out, err);
    }
    return 0;
}
