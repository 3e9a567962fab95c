/* What a search is asked for, and the .gitignore files that it meets: the first byte says which, then a pattern,
 * a newline, and the text that it is tried on. */
#include <stdlib.h>
#include <string.h>

#include "hand/search_ignore.h"
#include "hand/search_pattern.h"
#include "hand/search_regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_TEXT 2000

static void try_regex(const char *pattern, size_t length, const char *text, unsigned flags)
{
    struct error err = {0};
    struct regex *regex;
    bool whole, pieces = false;

    if (regex_new(&regex, pattern, length, flags, &err) < 0) {
        return;
    }
    regex_begin(regex);
    whole = regex_feed(regex, (const uint8_t *)text, strlen(text)) || regex_end(regex);
    regex_begin(regex);
    for (size_t i = 0; text[i] != '\0'; i++) {
        pieces = pieces || regex_feed(regex, (const uint8_t *)text + i, 1);
    }
    if ((pieces || regex_end(regex)) != whole && !regex_failed(regex)) {
        abort();
    }
    regex_free(regex);
}

static void try_pattern(const char *pattern, const char *text)
{
    struct alternatives a;
    struct error err;

    if (alternatives_new(&a, pattern, &err) < 0) {
        return;
    }
    for (unsigned i = 0; i < a.count; i++) {
        struct path_pattern p;

        if (path_pattern_new(&p, a.texts[i], strlen(a.texts[i]), &err) == 0) {
            (void)path_match(&p, text);
            path_pattern_release(&p);
        }
    }
    alternatives_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *newline;
    char *pattern, *text;

    if (size < 2 || size > MAX_TEXT || (newline = memrchr(data + 1, '\n', size - 1)) == NULL) {
        return 0;
    }
    pattern = strndup((const char *)data + 1, (size_t)(newline - (const char *)data - 1));
    text = strndup(newline + 1, size - (size_t)(newline + 1 - (const char *)data));
    if (pattern == NULL || text == NULL) {
        abort();
    }
    if (data[0] == 'g') {
        try_pattern(pattern, text);
    } else if (data[0] == 'i') {
        struct ignore_level level = {0};

        if (ignore_parse(&level, pattern, strlen(pattern)) == 0) {
            (void)ignore_has(&level, text, true);
            ignore_release(&level);
        }
    } else {
        try_regex(pattern, strlen(pattern), text, data[0] % 4);
    }
    free(pattern);
    free(text);
    return 0;
}
