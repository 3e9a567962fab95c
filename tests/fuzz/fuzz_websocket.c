/* What a hostile server could say on an exec stream. The first byte says how large the pieces are in which it comes. */
#include "backends/k8s_channels.h"

#include <stdlib.h>

#define LARGEST_PONG 131 /* to a ping of which the last byte came alone */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer output = BUFFER_INIT(1u << 20);
    struct buffer outer = BUFFER_INIT(1u << 20);
    struct k8s_channels channels;
    struct error err = {0};
    size_t piece;
    int code = -1;
    int r = 0;

    if (size == 0 || k8s_channels_init(&channels, true, &err) < 0) {
        return 0;
    }
    piece = data[0] > 0 ? data[0] : 65536;
    for (size_t at = 1; at < size && r == 0; at += piece) {
        size_t n = piece < size - at ? piece : size - at;
        size_t before = outer.length;

        r = k8s_channels_take(&channels, data + at, n, &output, &outer, &err);
        if (outer.length - before > 4 * n + LARGEST_PONG) {
            abort(); /* answers are never much larger than what they answer: the pump's buffers rely on it */
        }
    }
    if ((r < 0) != (err.code != ERROR_NONE) || output.length > size) {
        abort();
    }
    err = (struct error){0};
    if (k8s_channels_exit(&channels, &code, &err) == 0 && (code < 0 || code > 255)) {
        abort();
    }
    k8s_channels_release(&channels);
    buffer_release(&output);
    buffer_release(&outer);
    return 0;
}
