/* Running a program over lines: an automaton whose states are sets of instructions, made when they are first
 * needed and kept in a table.
 *
 * A state is the set of instructions that the bytes so far lead to, before anything that costs no byte is
 * followed: whether an assertion holds is known only with the next byte. So a step first follows splits and
 * assertions, knowing what was before and what comes, then takes the byte. A match is seen one step late, at
 * the latest at the line's end, which is a step like any other. A search begins at every byte. */
#include "hand/search_regex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hand/search_regex_internal.h"

#define MAX_CLASSES 257          /* of bytes that no instruction tells apart, and the line's end */
#define HASH_SIZE 8192           /* more than twice the states */
#define MAX_POOL (4u << 20)      /* numbers in all states' sets together */
#define MATCHED 0                /* the number of the state that is a match */
#define UNKNOWN UINT32_MAX

enum state_flags { AT_START = 1, AFTER_WORD = 2 };

struct state {
    uint32_t *next; /* by class */
    size_t set;     /* where its numbers begin in the pool */
    uint32_t count;
    uint8_t flags;
};

struct regex {
    struct regex_program program;
    uint8_t class_of[256];
    unsigned classes; /* the last is the line's end */
    uint8_t byte_of[MAX_CLASSES]; /* one of each class */

    struct state states[REGEX_MAX_STATES];
    uint32_t count;
    uint32_t hash[HASH_SIZE]; /* of states; 0: none (the match is never looked up) */
    uint32_t *pool;
    size_t pool_used, pool_capacity;

    uint32_t *stack, *marks, *set; /* of one step: as large as the program */
    uint32_t mark;
    uint32_t current;
    bool failed;
};

static bool is_word(int byte)
{
    return byte == '_' || (byte < 0x80 && isalnum(byte));
}

/* ---- Classes of bytes ---- */

static void mark_edges(const struct regex_program *p, bool *edges)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct regex_instruction *in = &p->code[i];

        if (in->op == OP_BYTE) {
            edges[in->lo] = edges[in->hi + 1] = true;
        } else if (in->op == OP_SET) {
            for (unsigned b = 1; b < 256; b++) {
                edges[b] |= regex_set_has(&p->sets[in->y], b) != regex_set_has(&p->sets[in->y], b - 1);
            }
        } else if (in->op == OP_ASSERT && in->lo >= REGEX_WORD_EDGE) {
            for (int b = 1; b < 256; b++) {
                edges[b] |= is_word(b) != is_word(b - 1);
            }
        }
    }
}

static void make_classes(struct regex *re)
{
    bool edges[257] = {false};
    unsigned class = 0;

    mark_edges(&re->program, edges);
    for (unsigned b = 0; b < 256; b++) {
        class += b > 0 && edges[b];
        re->class_of[b] = (uint8_t)class;
        re->byte_of[class] = (uint8_t)b;
    }
    re->classes = class + 2;
}

/* ---- States ---- */

static void forget_states(struct regex *re)
{
    for (uint32_t i = 0; i < re->count; i++) {
        free(re->states[i].next);
    }
    memset(re->hash, 0, sizeof re->hash);
    re->count = 1; /* MATCHED */
    re->states[0] = (struct state){0};
    re->pool_used = 0;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static uint32_t hash_of(const uint32_t *set, uint32_t count, uint8_t flags)
{
    uint32_t h = 2166136261u ^ flags;

    for (uint32_t i = 0; i < count; i++) {
        h = (h ^ set[i]) * 16777619u;
        h ^= h >> 15;
    }
    return h;
}

static bool is_state(const struct regex *re, uint32_t n, uint32_t count, uint8_t flags)
{
    const struct state *s = &re->states[n];

    return s->count == count && s->flags == flags &&
           (count == 0 || memcmp(re->pool + s->set, re->set, count * sizeof *re->set) == 0);
}

static int room_in_pool(struct regex *re, uint32_t count)
{
    size_t larger = re->pool_capacity == 0 ? 4096 : re->pool_capacity;
    uint32_t *moved;

    while (larger < re->pool_used + count) {
        larger *= 2;
    }
    if (larger == re->pool_capacity) {
        return 0;
    }
    moved = reallocarray(re->pool, larger, sizeof *moved);
    if (moved == NULL) {
        return -1;
    }
    re->pool = moved;
    re->pool_capacity = larger;
    return 0;
}

/* The state with the `count` numbers in re->set. UNKNOWN out of memory. */
static uint32_t state_of(struct regex *re, uint32_t count, uint8_t flags)
{
    uint32_t slot, n;
    struct state *s;

    qsort(re->set, count, sizeof *re->set, by_number);
    slot = hash_of(re->set, count, flags) % HASH_SIZE;
    while ((n = re->hash[slot]) != 0) {
        if (is_state(re, n, count, flags)) {
            return n;
        }
        slot = (slot + 1) % HASH_SIZE;
    }
    s = &re->states[re->count];
    if (room_in_pool(re, count) < 0 || (s->next = malloc(re->classes * sizeof *s->next)) == NULL) {
        return UNKNOWN;
    }
    memset(s->next, 0xff, re->classes * sizeof *s->next);
    s->set = re->pool_used;
    s->count = count;
    s->flags = flags;
    memcpy(re->pool + re->pool_used, re->set, count * sizeof *re->set);
    re->pool_used += count;
    re->hash[slot] = re->count;
    return re->count++;
}

/* ---- A step ---- */

static bool holds(enum regex_assert kind, uint8_t flags, bool at_end, bool word_next)
{
    bool word_before = (flags & AFTER_WORD) != 0;

    switch (kind) {
    case REGEX_LINE_START:
        return (flags & AT_START) != 0;
    case REGEX_LINE_END:
        return at_end;
    case REGEX_WORD_EDGE:
        return word_before != word_next;
    default:
        return word_before == word_next;
    }
}

/* Adds to the set of the next state. */
static void reach(struct regex *re, uint32_t *count, uint32_t pc)
{
    if (re->marks[re->program.count + pc] != re->mark) {
        re->marks[re->program.count + pc] = re->mark;
        re->set[(*count)++] = pc;
    }
}

static void push(struct regex *re, uint32_t *top, uint32_t pc)
{
    if (re->marks[pc] != re->mark) {
        re->marks[pc] = re->mark;
        re->stack[(*top)++] = pc;
    }
}

/* Follows everything from `state` with the byte (256: the line's end). True for a match; else re->set has the
 * *ret_count numbers of the next state. */
static bool follow(struct regex *re, const struct state *state, unsigned byte, uint32_t *ret_count)
{
    const struct regex_program *p = &re->program;
    bool at_end = byte == 256;
    bool word_next = !at_end && is_word((int)byte);
    uint32_t top = 0;

    *ret_count = 0;
    re->mark++;
    for (uint32_t i = 0; i < state->count; i++) {
        push(re, &top, re->pool[state->set + i]);
    }
    while (top > 0) {
        const struct regex_instruction *in = &p->code[re->stack[--top]];

        switch (in->op) {
        case OP_MATCH:
            return true;
        case OP_SPLIT:
            push(re, &top, in->y);
            push(re, &top, in->x);
            break;
        case OP_ASSERT:
            if (holds((enum regex_assert)in->lo, state->flags, at_end, word_next)) {
                push(re, &top, in->x);
            }
            break;
        case OP_BYTE:
            if (byte >= in->lo && byte <= in->hi) {
                reach(re, ret_count, in->x);
            }
            break;
        default:
            if (!at_end && regex_set_has(&p->sets[in->y], byte)) {
                reach(re, ret_count, in->x);
            }
        }
    }
    if (!at_end) {
        reach(re, ret_count, p->start);
    }
    return false;
}

/* The state after `n` by a class; MATCHED, or UNKNOWN out of memory. */
static uint32_t step(struct regex *re, uint32_t n, unsigned class)
{
    unsigned byte = class == re->classes - 1 ? 256 : re->byte_of[class];
    uint8_t flags = byte < 256 && is_word((int)byte) ? AFTER_WORD : 0;
    uint32_t count, next;

    if (re->mark == UINT32_MAX) {
        memset(re->marks, 0, 2 * re->program.count * sizeof *re->marks);
        re->mark = 0;
    }
    if (follow(re, &re->states[n], byte, &count)) {
        re->states[n].next[class] = MATCHED;
        return MATCHED;
    }
    if (re->count >= REGEX_MAX_STATES || re->pool_used + count > MAX_POOL) {
        forget_states(re);
        next = state_of(re, count, flags);
    } else {
        next = state_of(re, count, flags);
        re->states[n].next[class] = next;
    }
    re->failed |= next == UNKNOWN;
    return next;
}

/* ---- Lines ---- */

void regex_begin(struct regex *re)
{
    re->set[0] = re->program.start;
    if (re->count >= REGEX_MAX_STATES) {
        forget_states(re);
    }
    re->current = state_of(re, 1, AT_START);
    re->failed |= re->current == UNKNOWN;
}

bool regex_feed(struct regex *re, const uint8_t *data, size_t length)
{
    uint32_t n = re->current;

    for (size_t i = 0; i < length && n != MATCHED && n != UNKNOWN; i++) {
        unsigned class = re->class_of[data[i]];
        uint32_t next = re->states[n].next[class];

        n = next != UNKNOWN ? next : step(re, n, class);
    }
    re->current = n;
    return n == MATCHED;
}

bool regex_end(struct regex *re)
{
    uint32_t n = re->current;

    if (n != MATCHED && n != UNKNOWN) {
        uint32_t next = re->states[n].next[re->classes - 1];

        re->current = next != UNKNOWN ? next : step(re, n, re->classes - 1);
    }
    return re->current == MATCHED;
}

bool regex_failed(const struct regex *re)
{
    return re->failed;
}

/* ---- Life ---- */

static int prepare(struct regex *re, struct error *err)
{
    size_t count = re->program.count;

    re->stack = calloc(count, sizeof *re->stack);
    re->marks = calloc(count, 2 * sizeof *re->marks);
    re->set = calloc(count + 1, sizeof *re->set);
    if (re->stack == NULL || re->marks == NULL || re->set == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    make_classes(re);
    forget_states(re);
    return 0;
}

int regex_new(struct regex **ret, const char *pattern, size_t length, unsigned flags, struct error *err)
{
    struct regex *re = calloc(1, sizeof *re);
    struct regex_tree tree = {0};
    int r;

    if (re == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    r = regex_parse(&tree, pattern, length, flags, err);
    if (r == 0) {
        r = regex_compile(&re->program, &tree, err);
    }
    if (r == 0) {
        r = prepare(re, err);
    }
    regex_tree_release(&tree);
    if (r < 0) {
        regex_free(re);
        return -1;
    }
    *ret = re;
    return 0;
}

void regex_free(struct regex *re)
{
    if (re == NULL) {
        return;
    }
    for (uint32_t i = 0; i < re->count; i++) {
        free(re->states[i].next);
    }
    regex_program_release(&re->program);
    free(re->pool);
    free(re->stack);
    free(re->marks);
    free(re->set);
    free(re);
}
