/* Regular expressions for searching lines: whether a line has a match, in time linear in its length whatever
 * the pattern (an automaton over bytes, made as the text needs it, in bounded memory; nothing is tried twice).
 *
 * Syntax: | () (?:) * + ? {n} {n,} {n,m} . [] [^] [[:alpha:]] ^ $ \b \B \d \D \w \W \s \S \t \r \f \v \e \a
 * \xHH \x{H...} and a backslash before punctuation; (?i) at the start. A lazy quantifier is as good as
 * a greedy one. Text is UTF-8: "." and a class are one character, and bytes that are no UTF-8 match neither.
 * \d \w \s and [[:alpha:]] are ASCII. There are no back-references and no look-around, and a line's end is never
 * inside a match: patterns that ask for them are refused. Hostile patterns cost no more than the bounds. */
#ifndef HANDSFS_HAND_SEARCH_REGEX_H
#define HANDSFS_HAND_SEARCH_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/error.h"

#define REGEX_MAX_PATTERN 4096       /* bytes */
#define REGEX_MAX_DEPTH 200          /* groups in groups */
#define REGEX_MAX_REPEAT 1000        /* in {n,m} */
#define REGEX_MAX_INSTRUCTIONS 50000 /* what all repetitions written out come to */
#define REGEX_MAX_STATES 2000        /* of the automaton; then it forgets them and begins anew */

enum regex_flags {
    REGEX_IGNORE_CASE = 1 << 0,
    REGEX_FIXED = 1 << 1, /* the pattern is the text itself */
};

struct regex;

/* ERROR_BAD_REQUEST with a message that says what is wrong with the pattern. Free with regex_free(). */
int regex_new(struct regex **ret, const char *pattern, size_t length, unsigned flags, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void regex_free(struct regex *regex);

/* One line: begin, then its bytes in any number of pieces (without the newline), then the end. Once either says
 * true the line matches. Out of memory is ERROR_NO_MEMORY by regex_failed(), and no match. */
void regex_begin(struct regex *regex) __attribute__((nonnull));
bool regex_feed(struct regex *regex, const uint8_t *data, size_t length) __attribute__((nonnull(1)));
bool regex_end(struct regex *regex) __attribute__((nonnull));
bool regex_failed(const struct regex *regex) __attribute__((nonnull));

/* What tells the characters of a named class, such as "alpha", as in ctype.h(0p): for ASCII only. NULL for no name of
 * one. */
int (*class_named(const char *name, size_t length))(int) __attribute__((nonnull));

#endif
