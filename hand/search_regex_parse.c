/* From a pattern to its tree. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "hand/search_regex_internal.h"

#define NODE_FAILED UINT32_MAX
#define FOLD_AT_MOST 2048 /* code points of one range whose other case is looked up */

struct parser {
    struct regex_tree *tree;
    const char *at, *end;
    bool ignore_case;
    unsigned depth;
    struct error *err;
};

int regex_grow(void **items, size_t *capacity, size_t count, size_t size)
{
    size_t larger = *capacity == 0 ? 32 : *capacity * 2;
    void *moved;

    if (count < *capacity) {
        return 0;
    }
    moved = reallocarray(*items, larger, size);
    if (moved == NULL) {
        return -1;
    }
    *items = moved;
    *capacity = larger;
    return 0;
}

static uint32_t fail(struct parser *p, const char *why)
{
    error_set(p->err, ERROR_BAD_REQUEST, 0, "invalid regular expression: %s", why);
    return NODE_FAILED;
}

static uint32_t out_of_memory(struct parser *p)
{
    error_set(p->err, ERROR_NO_MEMORY, 0, "out of memory");
    return NODE_FAILED;
}

static uint32_t add_node(struct parser *p, struct regex_node node)
{
    struct regex_tree *t = p->tree;

    if (regex_grow((void **)&t->nodes, &t->capacity, t->count, sizeof *t->nodes) < 0) {
        return out_of_memory(p);
    }
    t->nodes[t->count] = node;
    return (uint32_t)t->count++;
}

/* ---- Characters ---- */

/* One character of the pattern, -1 where it is no UTF-8. */
static int32_t take_character(struct parser *p)
{
    const uint8_t *s = (const uint8_t *)p->at;
    size_t left = (size_t)(p->end - p->at);
    unsigned more = s[0] < 0x80 ? 0 : s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1;
    uint32_t code = more == 0 ? s[0] : s[0] & (0x3fu >> more);

    if ((s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4 || more >= left) {
        return -1;
    }
    for (unsigned i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return -1;
        }
        code = code << 6 | (s[i] & 0x3f);
    }
    p->at += more + 1;
    return code <= REGEX_MAX_CODE ? (int32_t)code : -1;
}

/* ---- Classes: ranges are added at the end of the tree's, then put in order ---- */

static int add_range(struct parser *p, uint32_t first, uint32_t last)
{
    struct regex_tree *t = p->tree;

    if (regex_grow((void **)&t->ranges, &t->range_capacity, t->range_count, sizeof *t->ranges) < 0) {
        out_of_memory(p);
        return -1;
    }
    t->ranges[t->range_count++] = (struct regex_range){first, last};
    return 0;
}

static int by_first(const void *a, const void *b)
{
    const struct regex_range *x = a;
    const struct regex_range *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

static void put_in_order(struct regex_tree *t, size_t from)
{
    struct regex_range *r = t->ranges + from;
    size_t count = t->range_count - from;
    size_t kept = 0;

    if (count == 0) {
        return;
    }
    qsort(r, count, sizeof *r, by_first);
    for (size_t i = 1; i < count; i++) {
        if (r[i].first <= r[kept].last + 1) {
            r[kept].last = r[i].last > r[kept].last ? r[i].last : r[kept].last;
        } else {
            r[++kept] = r[i];
        }
    }
    t->range_count = from + kept + 1;
}

static int fold(struct parser *p, size_t from)
{
    size_t end = p->tree->range_count;

    for (size_t i = from; i < end; i++) {
        struct regex_range range = p->tree->ranges[i];

        for (uint32_t c = range.first; c <= range.last && c - range.first < FOLD_AT_MOST; c++) {
            uint32_t lower = (uint32_t)towlower((wint_t)c);
            uint32_t upper = (uint32_t)towupper((wint_t)c);

            if ((lower != c && add_range(p, lower, lower) < 0) ||
                (upper != c && add_range(p, upper, upper) < 0)) {
                return -1;
            }
        }
    }
    return 0;
}

/* What is not in the ranges from `from` on, in their place. */
static int negate(struct parser *p, size_t from)
{
    struct regex_tree *t = p->tree;
    size_t count = t->range_count;
    uint32_t next = 0;

    put_in_order(t, from);
    count = t->range_count;
    for (size_t i = from; i < count; i++) {
        struct regex_range r = t->ranges[i];

        if (r.first > next && add_range(p, next, r.first - 1) < 0) {
            return -1;
        }
        next = r.last + 1;
    }
    if (next <= REGEX_MAX_CODE && add_range(p, next, REGEX_MAX_CODE) < 0) {
        return -1;
    }
    memmove(t->ranges + from, t->ranges + count, (t->range_count - count) * sizeof *t->ranges);
    t->range_count -= count - from;
    return 0;
}

static uint32_t class_of(struct parser *p, size_t from, bool is_negated)
{
    struct regex_tree *t = p->tree;

    if ((p->ignore_case && fold(p, from) < 0) || (is_negated && negate(p, from) < 0)) {
        return NODE_FAILED;
    }
    put_in_order(t, from);
    return add_node(p, (struct regex_node){.type = NODE_CLASS,
                                           .a = (uint32_t)from,
                                           .b = (uint32_t)(t->range_count - from)});
}

static uint32_t one_character(struct parser *p, uint32_t code)
{
    size_t from = p->tree->range_count;

    if (code == '\n') {
        return fail(p, "it is matched with one line at a time, so it can have no newline in it");
    }
    return add_range(p, code, code) < 0 ? NODE_FAILED : class_of(p, from, false);
}

/* ---- Named classes ---- */

int (*class_named(const char *name, size_t length))(int)
{
    static const struct {
        const char *name;
        int (*has)(int);
    } classes[] = {
        {"alpha", isalpha}, {"digit", isdigit}, {"alnum", isalnum}, {"upper", isupper},
        {"lower", islower}, {"space", isspace}, {"blank", isblank}, {"punct", ispunct},
        {"print", isprint}, {"graph", isgraph}, {"cntrl", iscntrl}, {"xdigit", isxdigit},
    };

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strlen(classes[i].name) == length && memcmp(classes[i].name, name, length) == 0) {
            return classes[i].has;
        }
    }
    return NULL;
}

static int add_named(struct parser *p, int (*has)(int))
{
    for (int c = 0; c < 128; c++) {
        if (has(c) && add_range(p, (uint32_t)c, (uint32_t)c) < 0) {
            return -1;
        }
    }
    return 0;
}

static int is_word(int c)
{
    return isalnum(c) || c == '_';
}

/* \d and its like, upper case for what is not in it. 1 where `letter` is one, 0 where not, -1 on failure. */
static int add_shorthand(struct parser *p, char letter)
{
    size_t from = p->tree->range_count;
    int (*has)(int) = letter == 'd' || letter == 'D'   ? isdigit
                      : letter == 's' || letter == 'S' ? isspace
                      : letter == 'w' || letter == 'W' ? is_word
                                                       : NULL;

    if (has == NULL) {
        return 0;
    }
    if (add_named(p, has) < 0 || (isupper((unsigned char)letter) && negate(p, from) < 0)) {
        return -1;
    }
    return 1;
}

/* ---- Escapes ---- */

static int digit_value(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* \xHH or \x{H...}, behind the x. */
static int64_t take_hexadecimal(struct parser *p)
{
    bool in_braces = p->at < p->end && *p->at == '{';
    uint32_t code = 0;
    unsigned digits = 0;

    p->at += in_braces;
    while (p->at < p->end && digits < (in_braces ? 6 : 2) && digit_value(*p->at) >= 0) {
        code = code * 16 + (uint32_t)digit_value(*p->at++);
        digits++;
    }
    if (in_braces && (p->at == p->end || *p->at++ != '}')) {
        digits = 0;
    }
    if (digits == 0 || code > REGEX_MAX_CODE) {
        fail(p, "after \\x come two hexadecimal digits, or some in braces");
        return -1;
    }
    return code;
}

/* The character that an escape stands for, behind the backslash. -1 where it is none. */
static int64_t take_escape(struct parser *p)
{
    static const char letters[] = "tnrfvea0";
    static const char meant[] = "\t\n\r\f\v\033\a";
    const char *letter;
    int32_t c;

    if (*p->at == 'x') {
        p->at++;
        return take_hexadecimal(p);
    }
    letter = *p->at != '\0' ? strchr(letters, *p->at) : NULL;
    if (letter != NULL) {
        p->at++;
        return meant[letter - letters];
    }
    if (isdigit((unsigned char)*p->at)) {
        fail(p, "there are no back-references");
        return -1;
    }
    if (isalpha((unsigned char)*p->at)) {
        error_set(p->err, ERROR_BAD_REQUEST, 0, "invalid regular expression: unknown escape \\%c", *p->at);
        return -1;
    }
    c = take_character(p);
    if (c < 0) {
        fail(p, "it is not UTF-8");
    }
    return c;
}

static uint32_t parse_escape(struct parser *p)
{
    size_t from = p->tree->range_count;
    int64_t c;
    int r;

    if (p->at == p->end) {
        return fail(p, "a backslash at its end");
    }
    if (*p->at == 'b' || *p->at == 'B') {
        return add_node(p, (struct regex_node){
                               .type = NODE_ASSERT,
                               .assert_kind = *p->at++ == 'b' ? REGEX_WORD_EDGE : REGEX_NO_WORD_EDGE});
    }
    r = add_shorthand(p, *p->at);
    if (r != 0) {
        p->at++;
        return r < 0 ? NODE_FAILED : class_of(p, from, false);
    }
    c = take_escape(p);
    return c < 0 ? NODE_FAILED : one_character(p, (uint32_t)c);
}

/* ---- [...] ---- */

/* [:name:] at the parser's place. 1 where it was one, 0 where not, -1 on failure. */
static int parse_named(struct parser *p)
{
    const char *close;

    if (p->end - p->at < 4 || p->at[0] != '[' || p->at[1] != ':') {
        return 0;
    }
    close = memmem(p->at + 2, (size_t)(p->end - p->at - 2), ":]", 2);
    if (close == NULL) {
        return 0;
    }
    int (*has)(int) = class_named(p->at + 2, (size_t)(close - p->at - 2));

    if (has == NULL) {
        fail(p, "an unknown class between [: and :]");
        return -1;
    }
    p->at = close + 2;
    return add_named(p, has) < 0 ? -1 : 1;
}

/* One end of a range, or -2 where a whole class was added instead. */
static int64_t take_member(struct parser *p)
{
    int32_t c;
    int r;

    if (*p->at == '\\') {
        if (++p->at == p->end) {
            fail(p, "a backslash at its end");
            return -1;
        }
        if (*p->at == 'b') {
            p->at++;
            return '\b';
        }
        r = add_shorthand(p, *p->at);
        if (r != 0) {
            p->at++;
            return r < 0 ? -1 : -2;
        }
        return take_escape(p);
    }
    r = parse_named(p);
    if (r != 0) {
        return r < 0 ? -1 : -2;
    }
    c = take_character(p);
    if (c < 0) {
        fail(p, "it is not UTF-8");
    }
    return c;
}

static int parse_member(struct parser *p)
{
    int64_t first = take_member(p);
    int64_t last = first;

    if (first < 0) {
        return first == -2 ? 0 : -1;
    }
    if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
        p->at++;
        last = take_member(p);
        if (last == -2) {
            fail(p, "a range in brackets ends with a class");
        }
        if (last >= 0 && last < first) {
            fail(p, "a range in brackets is the wrong way round");
        }
        if (last < first) {
            return -1;
        }
    }
    return add_range(p, (uint32_t)first, (uint32_t)last);
}

static uint32_t parse_class(struct parser *p)
{
    size_t from = p->tree->range_count;
    bool is_negated = p->at < p->end && *p->at == '^';
    bool is_first = true;

    p->at += is_negated;
    while (p->at < p->end && (is_first || *p->at != ']')) {
        is_first = false;
        if (parse_member(p) < 0) {
            return NODE_FAILED;
        }
    }
    if (p->at == p->end) {
        return fail(p, "a [ without its ]");
    }
    p->at++;
    return class_of(p, from, is_negated);
}

/* ---- Groups ---- */

static uint32_t parse_alternatives(struct parser *p);

/* What stands behind "(?". 1: a group follows, 0: flags for what follows were all, -1: refused. */
static int parse_group_kind(struct parser *p)
{
    if (p->at < p->end && *p->at == 'P') {
        p->at++;
    }
    if (p->end - p->at >= 2 && *p->at == '<' && p->at[1] != '=' && p->at[1] != '!') {
        const char *close = memchr(p->at, '>', (size_t)(p->end - p->at));

        if (close != NULL) {
            p->at = close + 1;
            return 1;
        }
    }
    while (p->at < p->end && *p->at == 'i') {
        p->ignore_case = true;
        p->at++;
    }
    if (p->at < p->end && (*p->at == ':' || *p->at == ')')) {
        return *p->at++ == ':';
    }
    fail(p, "there is no look-around, and of flags only (?i)");
    return -1;
}

static uint32_t parse_group(struct parser *p)
{
    bool ignore_case = p->ignore_case;
    uint32_t node;
    int kind = 1;

    if (p->at < p->end && *p->at == '?') {
        p->at++;
        kind = parse_group_kind(p);
        if (kind < 0) {
            return NODE_FAILED;
        }
        if (kind == 0) {
            return add_node(p, (struct regex_node){.type = NODE_EMPTY});
        }
    }
    if (++p->depth > REGEX_MAX_DEPTH) {
        return fail(p, "too many groups in groups");
    }
    node = parse_alternatives(p);
    p->depth--;
    p->ignore_case = ignore_case;
    if (node == NODE_FAILED) {
        return node;
    }
    if (p->at == p->end || *p->at != ')') {
        return fail(p, "a ( without its )");
    }
    p->at++;
    return node;
}

/* ---- The rest ---- */

static uint32_t parse_any(struct parser *p)
{
    size_t from = p->tree->range_count;

    return add_range(p, 0, REGEX_MAX_CODE) < 0 ? NODE_FAILED : class_of(p, from, false);
}

static uint32_t parse_atom(struct parser *p)
{
    int32_t c;

    switch (*p->at) {
    case '(':
        p->at++;
        return parse_group(p);
    case '[':
        p->at++;
        return parse_class(p);
    case '.':
        p->at++;
        return parse_any(p);
    case '\\':
        p->at++;
        return parse_escape(p);
    case '^':
    case '$':
        return add_node(p, (struct regex_node){.type = NODE_ASSERT,
                                               .assert_kind = *p->at++ == '^' ? REGEX_LINE_START
                                                                              : REGEX_LINE_END});
    case '*':
    case '+':
    case '?':
        return fail(p, "a quantifier with nothing before it");
    default:
        c = take_character(p);
        return c < 0 ? fail(p, "it is not UTF-8") : one_character(p, (uint32_t)c);
    }
}

static bool take_count(const char **at, const char *end, uint32_t *ret)
{
    const char *start = *at;

    *ret = 0;
    while (*at < end && isdigit((unsigned char)**at) && *ret <= REGEX_MAX_REPEAT) {
        *ret = *ret * 10 + (uint32_t)(*(*at)++ - '0');
    }
    return *at > start;
}

/* {n}, {n,} or {n,m}; anything else is a brace like any other character. */
static bool take_braces(struct parser *p, uint32_t *min, uint32_t *max)
{
    const char *at = p->at + 1;

    if (!take_count(&at, p->end, min)) {
        return false;
    }
    *max = *min;
    if (at < p->end && *at == ',') {
        at++;
        if (!take_count(&at, p->end, max)) {
            *max = UINT32_MAX;
        }
    }
    if (at == p->end || *at != '}') {
        return false;
    }
    p->at = at + 1;
    return true;
}

static bool take_quantifier(struct parser *p, uint32_t *min, uint32_t *max)
{
    *min = 0;
    *max = UINT32_MAX;
    switch (p->at < p->end ? *p->at : '\0') {
    case '*':
        break;
    case '+':
        *min = 1;
        break;
    case '?':
        *max = 1;
        break;
    case '{':
        return take_braces(p, min, max);
    default:
        return false;
    }
    p->at++;
    return true;
}

static uint32_t parse_repeated(struct parser *p)
{
    uint32_t node = parse_atom(p);
    uint32_t min, max;

    while (node != NODE_FAILED && take_quantifier(p, &min, &max)) {
        if (min > REGEX_MAX_REPEAT || (max != UINT32_MAX && (max > REGEX_MAX_REPEAT || max < min))) {
            return fail(p, "the numbers in braces are too large, or the wrong way round");
        }
        if (p->at < p->end && *p->at == '+') {
            return fail(p, "there are no possessive quantifiers");
        }
        p->at += p->at < p->end && *p->at == '?';
        node = add_node(p, (struct regex_node){.type = NODE_REPEAT, .a = node, .min = min, .max = max});
    }
    return node;
}

static uint32_t join(struct parser *p, enum regex_node_type type, uint32_t a, uint32_t b)
{
    if (a == NODE_FAILED || b == NODE_FAILED) {
        return NODE_FAILED;
    }
    return add_node(p, (struct regex_node){.type = type, .a = a, .b = b});
}

static uint32_t parse_sequence(struct parser *p)
{
    uint32_t node = add_node(p, (struct regex_node){.type = NODE_EMPTY});

    while (node != NODE_FAILED && p->at < p->end && *p->at != '|' && *p->at != ')') {
        node = join(p, NODE_CAT, node, parse_repeated(p));
    }
    return node;
}

static uint32_t parse_alternatives(struct parser *p)
{
    uint32_t node = parse_sequence(p);

    while (node != NODE_FAILED && p->at < p->end && *p->at == '|') {
        p->at++;
        node = join(p, NODE_ALT, node, parse_sequence(p));
    }
    return node;
}

static uint32_t parse_fixed(struct parser *p)
{
    uint32_t node = add_node(p, (struct regex_node){.type = NODE_EMPTY});

    while (node != NODE_FAILED && p->at < p->end) {
        int32_t c = take_character(p);

        node = join(p, NODE_CAT, node,
                    c < 0 ? fail(p, "it is not UTF-8") : one_character(p, (uint32_t)c));
    }
    return node;
}

int regex_parse(struct regex_tree *ret, const char *pattern, size_t length, unsigned flags,
                struct error *err)
{
    struct parser p = {.tree = ret,
                       .at = pattern,
                       .end = pattern + length,
                       .ignore_case = (flags & REGEX_IGNORE_CASE) != 0,
                       .err = err};

    *ret = (struct regex_tree){0};
    if (length > REGEX_MAX_PATTERN) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the pattern is longer than %d bytes",
                         REGEX_MAX_PATTERN);
    }
    ret->root = (flags & REGEX_FIXED) != 0 ? parse_fixed(&p) : parse_alternatives(&p);
    if (ret->root != NODE_FAILED && p.at < p.end) {
        ret->root = fail(&p, "a ) without its (");
    }
    return ret->root == NODE_FAILED ? -1 : 0;
}

void regex_tree_release(struct regex_tree *tree)
{
    free(tree->nodes);
    free(tree->ranges);
}
