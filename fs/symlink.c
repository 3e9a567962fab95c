#include "fs/symlink.h"

#include <string.h>

/* Takes the next component off the text; *ret_length 0 at the end. */
static const char *next_component(const char **at, const char *end, size_t *ret_length)
{
    const char *start = *at;
    const char *stop;

    while (start < end && *start == '/') {
        start++;
    }
    stop = start;
    while (stop < end && *stop != '/') {
        stop++;
    }
    *at = stop;
    *ret_length = (size_t)(stop - start);
    return start;
}

static bool is_up(const char *component, size_t length)
{
    return length == 2 && memcmp(component, "..", 2) == 0;
}

static bool is_here(const char *component, size_t length)
{
    return length == 1 && component[0] == '.';
}

struct climb {
    unsigned up;      /* ".." before the first name */
    bool up_after_name;
};

static struct climb climb_of(const char *text, size_t length)
{
    struct climb climb = {0};
    const char *at = text, *end = text + length;
    bool named = false;
    const char *component;
    size_t n;

    for (component = next_component(&at, end, &n); n > 0;
         component = next_component(&at, end, &n)) {
        if (is_up(component, n)) {
            if (named) {
                climb.up_after_name = true;
            } else {
                climb.up++;
            }
        } else if (!is_here(component, n)) {
            named = true;
        }
    }
    return climb;
}

enum symlink_verdict symlink_to_place(const char *place, size_t length, unsigned least, unsigned most,
                                      struct buffer *out)
{
    struct climb climb = climb_of(place, length);

    if (least != most || climb.up > 0 || climb.up_after_name) {
        return SYMLINK_REFUSED;
    }
    while (length > 0 && place[0] == '/') {
        place++;
        length--;
    }
    buffer_clear(out);
    for (unsigned i = 0; i < least; i++) {
        if (buffer_append(out, "../", 3) < 0) {
            return SYMLINK_NO_MEMORY;
        }
    }
    if (buffer_append(out, place, length) < 0) {
        return SYMLINK_NO_MEMORY;
    }
    return out->length > 0 || buffer_append(out, ".", 1) == 0 ? SYMLINK_TEXT : SYMLINK_NO_MEMORY;
}

/* Where the text goes on behind the workdir's components; NULL where it is not the workdir or below. */
static const char *behind_workdir(const char *text, const char *end, const char *workdir)
{
    const char *workdir_end = workdir + strlen(workdir);
    const char *component;
    size_t n;

    for (component = next_component(&workdir, workdir_end, &n); n > 0;
         component = next_component(&workdir, workdir_end, &n)) {
        const char *other;
        size_t other_length;

        do {
            other = next_component(&text, end, &other_length);
        } while (is_here(other, other_length));
        if (other_length != n || memcmp(other, component, n) != 0) {
            return NULL;
        }
    }
    return text;
}

static enum symlink_verdict judge_absolute(const char *text, const char *end, unsigned least,
                                           unsigned most, const char *workdir, struct buffer *out)
{
    const char *rest = behind_workdir(text, end, workdir);
    struct climb climb;

    if (rest == NULL) {
        return SYMLINK_REFUSED;
    }
    climb = climb_of(rest, (size_t)(end - rest));
    if (climb.up > 0) {
        return SYMLINK_REFUSED; /* out of the workdir and perhaps back */
    }
    if (!climb.up_after_name) {
        return symlink_to_place(rest, (size_t)(end - rest), least, most, out);
    }
    while (rest < end && *rest == '/') {
        rest++;
    }
    return buffer_append(out, rest, (size_t)(end - rest)) < 0 ? SYMLINK_NO_MEMORY
                                                               : SYMLINK_RESOLVE_ROOT;
}

enum symlink_verdict symlink_judge(const char *text, size_t length, unsigned least, unsigned most,
                                   const char *workdir, struct buffer *out)
{
    struct climb climb;

    buffer_clear(out);
    if (length == 0 || memchr(text, '\0', length) != NULL) {
        return SYMLINK_REFUSED;
    }
    if (text[0] == '/') {
        return judge_absolute(text, text + length, least, most, workdir, out);
    }
    climb = climb_of(text, length);
    if (climb.up > least) {
        return SYMLINK_REFUSED;
    }
    if (buffer_append(out, text, length) < 0) {
        return SYMLINK_NO_MEMORY;
    }
    return climb.up_after_name ? SYMLINK_RESOLVE : SYMLINK_TEXT;
}
