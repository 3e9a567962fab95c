/* Option lists and configuration files: the first byte says which, the rest is the text. */
#include "mount/options.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options options;
    struct error err = {0};
    char *text;
    int r;

    if (size == 0 || size > OPTIONS_MAX_FILE) {
        return 0;
    }
    options_init(&options);
    if (data[0] == 'f') {
        r = options_read_config(&options, (const char *)data + 1, size - 1, "file", &err);
    } else {
        text = strndup((const char *)data + 1, size - 1);
        if (text == NULL) {
            return 0;
        }
        r = options_read_list(&options, text, &err);
        free(text);
    }
    if (r == 0) {
        r = options_spec(&options, "s1", &err);
    }
    if ((r < 0) != (err.code != ERROR_NONE)) {
        abort(); /* the error is set where there is one, and untouched on success */
    }
    options_release(&options);
    return 0;
}
