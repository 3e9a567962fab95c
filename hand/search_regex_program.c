/* From the tree of a pattern to instructions, each of which knows what comes after it: so they are made from
 * the end to the start. */
#include <stdlib.h>

#include "hand/search_regex_internal.h"

#define FAILED UINT32_MAX

struct compiler {
    const struct regex_tree *tree;
    struct regex_program *program;
    struct error *err;
};

static uint32_t emit(struct compiler *c, struct regex_instruction instruction)
{
    struct regex_program *p = c->program;

    if (p->count >= REGEX_MAX_INSTRUCTIONS) {
        error_set(c->err, ERROR_BAD_REQUEST, 0,
                  "invalid regular expression: its repetitions come to too much");
        return FAILED;
    }
    if (regex_grow((void **)&p->code, &p->capacity, p->count, sizeof *p->code) < 0) {
        error_set(c->err, ERROR_NO_MEMORY, 0, "out of memory");
        return FAILED;
    }
    p->code[p->count] = instruction;
    return (uint32_t)p->count++;
}

/* Both of two ways, each of which may have failed. */
static uint32_t either(struct compiler *c, uint32_t a, uint32_t b)
{
    if (a == FAILED || b == FAILED) {
        return FAILED;
    }
    return emit(c, (struct regex_instruction){.op = OP_SPLIT, .x = a, .y = b});
}

/* ---- Characters as bytes ---- */

static unsigned encode(uint32_t code, uint8_t *to)
{
    unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};

    for (unsigned i = more; i > 0; i--) {
        to[i] = (uint8_t)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    to[0] = (uint8_t)(lead[more] | code);
    return more + 1;
}

/* A range whose ends have as many bytes, and whose bytes run independently of one another. */
static uint32_t emit_bytes(struct compiler *c, struct regex_range r, uint32_t next)
{
    uint8_t first[4], last[4];
    unsigned length = encode(r.first, first);

    encode(r.last, last);
    while (length-- > 0 && next != FAILED) {
        next = emit(c, (struct regex_instruction){
                           .op = OP_BYTE, .lo = first[length], .hi = last[length], .x = next});
    }
    return next;
}

/* Where a range is to be cut in two so that its parts are nearer to that; 0 where it need not be. */
static uint32_t cut_of(struct regex_range r)
{
    static const uint32_t lengths[] = {0x80, 0x800, 0x10000};

    for (unsigned i = 0; i < 3; i++) {
        if (r.first < lengths[i] && r.last >= lengths[i]) {
            return lengths[i];
        }
    }
    for (unsigned i = 1; i < 4 && r.last >= 0x80; i++) {
        uint32_t mask = (1u << (6 * i)) - 1;

        if ((r.first & ~mask) == (r.last & ~mask)) {
            continue;
        }
        if ((r.first & mask) != 0) {
            return (r.first | mask) + 1;
        }
        if ((r.last & mask) != mask) {
            return r.last & ~mask;
        }
    }
    return 0;
}

/* `so_far` is the other ways. */
static uint32_t emit_range(struct compiler *c, struct regex_range range, uint32_t next, uint32_t so_far)
{
    struct regex_range waiting[16] = {range}; /* each cut leaves one behind: 3 + 2 * 3 at most */
    unsigned count = 1;

    while (count > 0) {
        struct regex_range r = waiting[--count];
        uint32_t cut = cut_of(r);

        if (cut != 0) {
            waiting[count++] = (struct regex_range){cut, r.last};
            waiting[count++] = (struct regex_range){r.first, cut - 1};
            continue;
        }
        so_far = either(c, so_far, emit_bytes(c, r, next));
        if (so_far == FAILED) {
            break;
        }
    }
    return so_far;
}

/* All characters of one byte are one instruction. */
static uint32_t emit_set(struct compiler *c, const struct regex_range *ranges, uint32_t count, uint32_t next)
{
    struct regex_program *p = c->program;
    struct regex_set set = {{0}};

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t b = ranges[i].first; b <= ranges[i].last && b < 0x80; b++) {
            set.bits[b / 64] |= UINT64_C(1) << (b % 64);
        }
    }
    if (regex_grow((void **)&p->sets, &p->set_capacity, p->set_count, sizeof *p->sets) < 0) {
        error_set(c->err, ERROR_NO_MEMORY, 0, "out of memory");
        return FAILED;
    }
    p->sets[p->set_count] = set;
    return emit(c, (struct regex_instruction){.op = OP_SET, .x = next, .y = (uint32_t)p->set_count++});
}

static uint32_t emit_class(struct compiler *c, const struct regex_node *node, uint32_t next)
{
    const struct regex_range *ranges = c->tree->ranges + node->a;
    uint32_t way = emit_set(c, ranges, node->b, next); /* an empty one: nothing matches */

    for (uint32_t i = 0; i < node->b && way != FAILED; i++) {
        struct regex_range r = ranges[i];

        if (r.last >= 0x80) {
            r.first = r.first < 0x80 ? 0x80 : r.first;
            way = emit_range(c, r, next, way);
        }
    }
    return way;
}

/* ---- The tree ---- */

static uint32_t emit_node(struct compiler *c, uint32_t index, uint32_t next);

static uint32_t emit_repeat(struct compiler *c, const struct regex_node *node, uint32_t next)
{
    uint32_t way = next;

    if (node->max == UINT32_MAX) {
        uint32_t loop = emit(c, (struct regex_instruction){.op = OP_SPLIT, .y = next});
        uint32_t body = loop != FAILED ? emit_node(c, node->a, loop) : FAILED;

        if (body == FAILED) {
            return FAILED;
        }
        c->program->code[loop].x = body;
        way = loop;
    } else {
        for (uint32_t i = node->min; i < node->max && way != FAILED; i++) {
            way = either(c, emit_node(c, node->a, way), next);
        }
    }
    for (uint32_t i = 0; i < node->min && way != FAILED; i++) {
        way = emit_node(c, node->a, way);
    }
    return way;
}

static uint32_t emit_node(struct compiler *c, uint32_t index, uint32_t next)
{
    const struct regex_node *node = &c->tree->nodes[index];

    if (next == FAILED) {
        return FAILED;
    }
    switch (node->type) {
    case NODE_CLASS:
        return emit_class(c, node, next);
    case NODE_ASSERT:
        return emit(c, (struct regex_instruction){
                           .op = OP_ASSERT, .lo = (uint8_t)node->assert_kind, .x = next});
    case NODE_CAT:
        return emit_node(c, node->a, emit_node(c, node->b, next));
    case NODE_ALT:
        return either(c, emit_node(c, node->a, next), emit_node(c, node->b, next));
    case NODE_REPEAT:
        return emit_repeat(c, node, next);
    default:
        return next;
    }
}

int regex_compile(struct regex_program *ret, const struct regex_tree *tree, struct error *err)
{
    struct compiler c = {.tree = tree, .program = ret, .err = err};
    uint32_t match;

    *ret = (struct regex_program){0};
    match = emit(&c, (struct regex_instruction){.op = OP_MATCH});
    ret->start = match != FAILED ? emit_node(&c, tree->root, match) : FAILED;
    return ret->start == FAILED ? -1 : 0;
}

void regex_program_release(struct regex_program *program)
{
    free(program->code);
    free(program->sets);
}
