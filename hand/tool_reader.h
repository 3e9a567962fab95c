/* A file line by line, in bounded memory: a long line comes in pieces. */
#ifndef HANDSFS_HAND_TOOL_READER_H
#define HANDSFS_HAND_TOOL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READER_BYTES (1u << 20)

struct line_reader {
    int fd; /* the caller's */
    uint8_t *data;
    size_t start, end;
    bool at_end;      /* of the file */
    bool saw_nul;     /* anywhere in what was read so far */
    bool in_line;     /* the last piece did not end its line */
    int failed;       /* errno of a read */
    uint64_t line;    /* of the last piece, from 1 */
    uint64_t offset;  /* of the byte behind the last piece and its newline */
};

struct line_piece {
    const uint8_t *data;
    size_t length;    /* without the newline */
    bool is_first, is_last;
    bool has_newline; /* with the last: false at the end of a file that does not end in one */
};

/* -1 out of memory. */
int reader_init(struct line_reader *reader) __attribute__((nonnull, warn_unused_result));
void reader_release(struct line_reader *reader) __attribute__((nonnull));
void reader_begin(struct line_reader *reader, int fd) __attribute__((nonnull));

/* Reads ahead, if nothing was read yet: saw_nul then tells of the file's beginning. */
void reader_peek(struct line_reader *reader) __attribute__((nonnull));

/* The next piece, valid until the next call. False at the end of the file, or where reading failed. */
bool reader_next(struct line_reader *reader, struct line_piece *ret) __attribute__((nonnull));

#endif
