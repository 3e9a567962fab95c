/* What the three steps of a regular expression share: search_regex_parse.c makes a tree of the pattern,
 * search_regex_program.c instructions of the tree, search_regex.c runs them. */
#ifndef HANDSFS_HAND_SEARCH_REGEX_INTERNAL_H
#define HANDSFS_HAND_SEARCH_REGEX_INTERNAL_H

#include "hand/search_regex.h"

#define REGEX_MAX_CODE 0x10ffffu

enum regex_assert { REGEX_LINE_START, REGEX_LINE_END, REGEX_WORD_EDGE, REGEX_NO_WORD_EDGE };

/* ---- The tree ---- */

enum regex_node_type { NODE_EMPTY, NODE_CLASS, NODE_ASSERT, NODE_CAT, NODE_ALT, NODE_REPEAT };

struct regex_range {
    uint32_t first, last; /* code points */
};

struct regex_node {
    enum regex_node_type type;
    enum regex_assert assert_kind;
    uint32_t a, b;        /* nodes; of a class: its first range and their number */
    uint32_t min, max;    /* of a repetition; max UINT32_MAX: without end */
};

struct regex_tree {
    struct regex_node *nodes;
    size_t count, capacity;
    struct regex_range *ranges; /* of all classes: sorted, apart from one another */
    size_t range_count, range_capacity;
    uint32_t root;
};

int regex_parse(struct regex_tree *ret, const char *pattern, size_t length, unsigned flags,
                struct error *err) __attribute__((nonnull, warn_unused_result));
void regex_tree_release(struct regex_tree *tree) __attribute__((nonnull));

/* ---- The instructions ---- */

enum regex_op {
    OP_MATCH,
    OP_BYTE,   /* one byte from lo to hi, then x */
    OP_SET,    /* one byte of set y, then x */
    OP_SPLIT,  /* x and y */
    OP_ASSERT, /* where `lo` (enum regex_assert) holds, x */
};

struct regex_instruction {
    uint8_t op, lo, hi;
    uint32_t x, y;
};

struct regex_set {
    uint64_t bits[4];
};

struct regex_program {
    struct regex_instruction *code;
    size_t count, capacity;
    struct regex_set *sets;
    size_t set_count, set_capacity;
    uint32_t start;
};

int regex_compile(struct regex_program *ret, const struct regex_tree *tree, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void regex_program_release(struct regex_program *program) __attribute__((nonnull));

static inline bool regex_set_has(const struct regex_set *set, unsigned byte)
{
    return (set->bits[byte / 64] >> (byte % 64) & 1) != 0;
}

/* Room for one more item of a growing array; -1 out of memory. */
int regex_grow(void **items, size_t *capacity, size_t count, size_t size)
    __attribute__((nonnull, warn_unused_result));

#endif
