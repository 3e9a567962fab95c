/* An engine's exec stream: the input is what the engine says, after a byte that tells in which pieces it comes.
 * Whatever the pieces, the output is the same, and no more than the input; text of it can be shown. */
#include <stdlib.h>
#include <string.h>

#include "backends/docker_stream.h"
#include "backends/printable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* Gives whether all of it made sense; *ret_end whether it ended between two frames. */
static bool demux(const uint8_t *data, size_t size, size_t piece, struct buffer *output, bool *ret_end)
{
    struct docker_demux state = {.have = 0};
    struct error err;
    bool fine = true;

    for (size_t at = 0; fine && at < size; at += piece) {
        fine = docker_demux_take(&state, data + at, size - at < piece ? size - at : piece, output, &err) == 0;
        must(fine || err.code == ERROR_NO_ANSWER);
        must(output->length <= size);
    }
    *ret_end = docker_demux_end(&state);
    must(state.lines <= DOCKER_ERRORS_LINES);
    return fine;
}

static void show(const uint8_t *data, size_t size)
{
    char text[64];
    size_t n = copy_printable(text, sizeof text, data, size);

    must(n < sizeof text && strlen(text) == n);
    for (size_t i = 0; i < n; i++) {
        must((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
    }
    must(n == 0 || (text[0] != ' ' && text[n - 1] != ' '));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size > 0 && data[0] > 0 ? data[0] : 1;
    struct buffer whole = BUFFER_INIT(size), pieces = BUFFER_INIT(size);
    bool end, pieces_end;
    bool fine;

    if (size > 0) {
        data++;
        size--;
    }
    show(data, size);
    fine = demux(data, size, size > 0 ? size : 1, &whole, &end);
    must(demux(data, size, piece, &pieces, &pieces_end) == fine);
    if (fine) {
        must(end == pieces_end && whole.length == pieces.length);
        must(whole.length == 0 || memcmp(whole.data, pieces.data, whole.length) == 0);
    }
    buffer_release(&whole);
    buffer_release(&pieces);
    return 0;
}
