#include "hand/search_pattern.h"

#include <stdlib.h>
#include <string.h>

#include "hand/search_regex.h"
#include "sandbox/cleanup.h"

/* ---- Characters ---- */

#define NO_TEXT 0x110000u /* and a byte: what is no UTF-8 */

/* One character, or a byte that is none. */
static uint32_t take_character(const char **at, const char *end)
{
    const uint8_t *s = (const uint8_t *)*at;
    size_t left = (size_t)(end - *at);
    unsigned more = s[0] < 0x80 ? 0 : s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1;
    uint32_t code = more == 0 ? s[0] : s[0] & (0x3fu >> more);
    bool good = (s[0] < 0x80 || (s[0] >= 0xc2 && s[0] <= 0xf4)) && more < left;

    for (unsigned i = 1; good && i <= more; i++) {
        good = (s[i] & 0xc0) == 0x80;
        code = code << 6 | (s[i] & 0x3f);
    }
    *at += good ? more + 1 : 1;
    return good ? code : NO_TEXT + s[0];
}

/* ---- Brackets ---- */

static bool named_has(const char *name, size_t length, uint32_t c)
{
    int (*has)(int) = class_named(name, length);

    return has != NULL && c < 128 && has((int)c) != 0;
}

/* Behind the "[" (and the "!"): the "]" that closes it, or NULL. */
static const char *bracket_end(const char *at, const char *end)
{
    bool first = true;

    for (; at < end; at++, first = false) {
        if (*at == ']' && !first) {
            return at;
        }
        if (*at == '\\' && at + 1 < end) {
            at++;
        } else if (*at == '[' && at + 1 < end && at[1] == ':') {
            const char *close = memmem(at + 2, (size_t)(end - at - 2), ":]", 2);

            if (close != NULL) {
                at = close + 1;
            }
        }
    }
    return NULL;
}

static uint32_t take_member(const char **at, const char *end)
{
    if (**at == '\\' && *at + 1 < end) {
        ++*at;
    }
    return take_character(at, end);
}

/* Between the brackets. */
static bool bracket_has(const char *at, const char *end, uint32_t c)
{
    while (at < end) {
        uint32_t first, last;

        if (end - at > 3 && at[0] == '[' && at[1] == ':') {
            const char *close = memmem(at + 2, (size_t)(end - at - 2), ":]", 2);

            if (close != NULL) {
                if (named_has(at + 2, (size_t)(close - at - 2), c)) {
                    return true;
                }
                at = close + 2;
                continue;
            }
        }
        first = last = take_member(&at, end);
        if (end - at >= 2 && at[0] == '-') {
            at++;
            last = take_member(&at, end);
        }
        if (c >= first && c <= last) {
            return true;
        }
    }
    return false;
}

/* ---- Names ---- */

/* One character of the name against what the pattern has at its place, which is no star; moves on in both. */
static bool one_match(const char **pattern, const char *pattern_end, const char **name, const char *name_end)
{
    const char *p = *pattern;
    uint32_t c = take_character(name, name_end);

    if (*p == '?') {
        *pattern = p + 1;
        return true;
    }
    if (*p == '[') {
        bool is_negated = p + 1 < pattern_end && (p[1] == '!' || p[1] == '^');
        const char *inside = p + 1 + is_negated;
        const char *close = bracket_end(inside, pattern_end);

        if (close != NULL) {
            *pattern = close + 1;
            return bracket_has(inside, close, c) != is_negated;
        }
    }
    if (*p == '\\' && p + 1 < pattern_end) {
        p++;
    }
    *pattern = p;
    return take_character(pattern, pattern_end) == c;
}

/* Where a match fails the last star takes one character more; no star before that one need be looked at again. */
bool name_match(const char *pattern, size_t pattern_length, const char *name, size_t length)
{
    const char *pattern_end = pattern + pattern_length;
    const char *name_end = name + length;
    const char *after_star = NULL;
    const char *taken = name;

    for (;;) {
        if (pattern < pattern_end && *pattern == '*') {
            after_star = ++pattern;
            taken = name;
            continue;
        }
        if (name == name_end) {
            return pattern == pattern_end;
        }
        if (pattern < pattern_end && one_match(&pattern, pattern_end, &name, name_end)) {
            continue;
        }
        if (after_star == NULL || taken == name_end) {
            return false;
        }
        take_character(&taken, name_end);
        name = taken;
        pattern = after_star;
    }
}

bool name_is_wild(const char *pattern, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (pattern[i] == '\\') {
            i++;
        } else if (strchr("*?[", pattern[i]) != NULL && pattern[i] != '\0') {
            return true;
        }
    }
    return false;
}

/* ---- Paths ---- */

static size_t drop_backslashes(char *text, size_t length)
{
    size_t kept = 0;

    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\' && i + 1 < length) {
            i++;
        }
        text[kept++] = text[i];
    }
    return kept;
}

static void add_part(struct path_pattern *p, char *text, size_t length)
{
    struct path_part *part = &p->parts[p->count];

    if (length == 2 && memcmp(text, "**", 2) == 0) {
        if (p->count > 0 && part[-1].kind == PART_DEEP) {
            return; /* twice is as good as once */
        }
        part->kind = PART_DEEP;
    } else if (name_is_wild(text, length)) {
        part->kind = PART_WILD;
    } else {
        part->kind = PART_LITERAL;
        length = drop_backslashes(text, length);
    }
    part->text = text;
    part->length = length;
    p->count++;
}

int path_pattern_new(struct path_pattern *ret, const char *pattern, size_t length, struct error *err)
{
    char *at;

    *ret = (struct path_pattern){.only_directories = length > 0 && pattern[length - 1] == '/'};
    if (length > PATTERN_MAX_BYTES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the pattern is longer than %d bytes",
                         PATTERN_MAX_BYTES);
    }
    ret->text = strndup(pattern, length);
    ret->parts = calloc(PATTERN_MAX_PARTS, sizeof *ret->parts);
    if (ret->text == NULL || ret->parts == NULL) {
        path_pattern_release(ret);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    for (at = ret->text; *at != '\0';) {
        size_t part = strcspn(at, "/");

        if (part > 0 && (part != 1 || at[0] != '.')) {
            if (ret->count == PATTERN_MAX_PARTS) {
                path_pattern_release(ret);
                return error_set(err, ERROR_BAD_REQUEST, 0, "the pattern has more than %d names",
                                 PATTERN_MAX_PARTS);
            }
            add_part(ret, at, part);
        }
        at += part + (at[part] == '/');
    }
    if (ret->count == 0) {
        path_pattern_release(ret);
        return error_set(err, ERROR_BAD_REQUEST, 0, "the pattern has no name in it");
    }
    at = reallocarray(ret->parts, ret->count, sizeof *ret->parts); /* .gitignore has many, and short ones */
    if (at != NULL) {
        ret->parts = (struct path_part *)(void *)at;
    }
    return 0;
}

void path_pattern_release(struct path_pattern *pattern)
{
    free(pattern->text);
    free(pattern->parts);
    *pattern = (struct path_pattern){0};
}

/* ** stands for nothing as well, but for the last, which needs a name. */
static uint64_t with_skipped(const struct path_pattern *p, uint64_t places)
{
    for (unsigned i = 0; i + 1 < p->count; i++) {
        if ((places >> i & 1) != 0 && p->parts[i].kind == PART_DEEP) {
            places |= UINT64_C(1) << (i + 1);
        }
    }
    return places;
}

uint64_t path_start(const struct path_pattern *pattern)
{
    return with_skipped(pattern, 1);
}

static bool part_match(const struct path_part *part, const char *name, size_t length)
{
    return part->kind == PART_WILD ? name_match(part->text, part->length, name, length)
                                   : part->length == length && memcmp(part->text, name, length) == 0;
}

uint64_t path_step(const struct path_pattern *p, uint64_t places, const char *name, size_t length,
                   bool is_link)
{
    uint64_t next = 0;

    for (unsigned i = 0; i < p->count; i++) {
        if ((places >> i & 1) == 0) {
            continue;
        }
        if (p->parts[i].kind == PART_DEEP) {
            next |= is_link ? 0 : UINT64_C(1) << i;
            next |= i + 1 == p->count ? UINT64_C(1) << p->count : 0;
        } else if (part_match(&p->parts[i], name, length)) {
            next |= UINT64_C(1) << (i + 1);
        }
    }
    return with_skipped(p, next);
}

bool path_matched(const struct path_pattern *pattern, uint64_t places)
{
    return (places >> pattern->count & 1) != 0;
}

bool path_goes_on(const struct path_pattern *pattern, uint64_t places)
{
    return (places & ~(UINT64_C(1) << pattern->count)) != 0;
}

bool path_match(const struct path_pattern *pattern, const char *path)
{
    uint64_t places = path_start(pattern);

    while (*path != '\0' && places != 0) {
        size_t length = strcspn(path, "/");

        places = path_step(pattern, places, path, length, false);
        path += length + (path[length] == '/');
        if (*path == '\0') {
            return path_matched(pattern, places);
        }
    }
    return false;
}

/* ---- Braces ---- */

/* The first pair of braces with a comma of its own: the "{", and in *ret_close the "}". NULL where there is none. */
static const char *find_braces(const char *text, const char **ret_close)
{
    for (const char *open = text; *open != '\0'; open++) {
        unsigned depth = 0;
        bool comma = false;

        if (*open == '\\' && open[1] != '\0') {
            open++;
            continue;
        }
        if (*open != '{') {
            continue;
        }
        for (const char *at = open; *at != '\0'; at++) {
            if (*at == '\\' && at[1] != '\0') {
                at++;
            } else if (*at == '{') {
                depth++;
            } else if (*at == ',' && depth == 1) {
                comma = true;
            } else if (*at == '}' && --depth == 0) {
                *ret_close = at;
                break;
            }
        }
        if (depth == 0 && comma) {
            return open;
        }
    }
    return NULL;
}

/* The end of the alternative at `at`: a comma between no further braces, or `close`. */
static const char *alternative_end(const char *at, const char *close)
{
    unsigned depth = 0;

    for (; at < close; at++) {
        if (*at == '\\' && at + 1 < close) {
            at++;
        } else if (*at == ',' && depth == 0) {
            return at;
        } else {
            depth += *at == '{';
            depth -= *at == '}' && depth > 0;
        }
    }
    return close;
}

static int too_many(struct error *err)
{
    return error_set(err, ERROR_BAD_REQUEST, 0, "the braces of the pattern come to more than %d patterns",
                     PATTERN_MAX_ALTERNATIVES);
}

static char *replaced(const char *text, const char *open, const char *close, const char *at, const char *end)
{
    size_t before = (size_t)(open - text);
    size_t middle = (size_t)(end - at);
    size_t after = strlen(close + 1);
    char *all = malloc(before + middle + after + 1);

    if (all != NULL) {
        memcpy(all, text, before);
        memcpy(all + before, at, middle);
        memcpy(all + before + middle, close + 1, after + 1);
    }
    return all;
}

/* One text of the list is taken apart, its first alternative in its place and the others at the end. */
static int take_apart(struct alternatives *a, unsigned index, const char *open, const char *close,
                      struct error *err)
{
    cleanup_free char *text = a->texts[index];
    bool is_first = true;

    a->texts[index] = NULL;
    for (const char *at = open + 1;; at++) {
        const char *end = alternative_end(at, close);

        if (!is_first && a->count == PATTERN_MAX_ALTERNATIVES) {
            return too_many(err);
        }
        unsigned place = is_first ? index : a->count++;

        is_first = false;
        a->texts[place] = replaced(text, open, close, at, end);
        if (a->texts[place] == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        at = end;
        if (at == close) {
            return 0;
        }
    }
}

int alternatives_new(struct alternatives *ret, const char *pattern, struct error *err)
{
    *ret = (struct alternatives){.count = 1};
    ret->texts[0] = strdup(pattern);
    if (ret->texts[0] == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    for (unsigned i = 0; i < ret->count;) {
        const char *close = NULL;
        const char *open = find_braces(ret->texts[i], &close);

        if (open == NULL) {
            i++;
        } else if (take_apart(ret, i, open, close, err) < 0) {
            alternatives_release(ret);
            return -1;
        }
    }
    return 0;
}

void alternatives_release(struct alternatives *alternatives)
{
    for (unsigned i = 0; i < alternatives->count; i++) {
        free(alternatives->texts[i]);
    }
    *alternatives = (struct alternatives){0};
}
