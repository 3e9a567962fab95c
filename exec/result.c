#include "exec/result.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "exec/base64.h"
#include "exec/utf8.h"

#define NAME_BYTES 32

int result_put_bytes(json_t *into, const char *name, const uint8_t *data, size_t length)
{
    char with_suffix[NAME_BYTES];

    if (utf8_valid(data, length)) {
        return json_object_set_new(
            into, name, json_stringn_nocheck(length > 0 ? (const char *)data : "", length));
    }
    snprintf(with_suffix, sizeof with_suffix, "%s_base64", name);
    return json_object_set_new(into, with_suffix, base64_json(data, length));
}

static json_t *signal_json(int number)
{
    char name[NAME_BYTES];
    const char *known = sigabbrev_np(number);

    if (number == 0) {
        return json_null();
    }
    if (known != NULL) {
        snprintf(name, sizeof name, "SIG%s", known);
    } else if (number >= SIGRTMIN && number <= SIGRTMAX) {
        snprintf(name, sizeof name, "SIGRTMIN+%d", number - SIGRTMIN);
    } else {
        snprintf(name, sizeof name, "SIG%d", number);
    }
    return json_string(name);
}

/* How much of a stream is given, and how many bytes are not. Where the cap fell inside a character, its
 * first bytes count as dropped too; of bytes that are no text anyway every one is given. */
struct stream {
    size_t length;
    uint64_t dropped;
};

static struct stream stream_of(const struct buffer *kept, uint64_t dropped)
{
    struct stream s = {kept->length, dropped};

    if (dropped > 0) {
        size_t whole = utf8_whole(kept->data, kept->length);

        if (utf8_valid(kept->data, whole)) {
            s.dropped += kept->length - whole;
            s.length = whole;
        }
    }
    return s;
}

static json_t *boolean_or_null(bool known, bool value)
{
    return known ? json_boolean(value) : json_null();
}

/* What was left, by the names that the processes give themselves: any bytes, so not more than to look at. */
static json_t *background_json(const struct execution_result *result)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < result->named; i++) {
        const struct execution_left *left = &result->background[i];

        json_array_append_new(list, json_pack("{s:I, s:o}", "pid", (json_int_t)left->pid, "name",
                                              utf8_json(left->name, strlen(left->name))));
    }
    return list;
}

/* What only the hand can tell; null where it did not. */
static json_t *use_json(const struct execution_result *result)
{
    bool peak_fits = result->peak_kib <= INT64_MAX / 1024;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "user_ms",
                     result->told ? json_integer((json_int_t)(result->user_us / 1000)) : json_null(),
                     "system_ms",
                     result->told ? json_integer((json_int_t)(result->system_us / 1000)) : json_null(),
                     "peak_memory",
                     result->told && peak_fits ? json_integer((json_int_t)(result->peak_kib * 1024))
                                               : json_null(),
                     "oom_killed", boolean_or_null(result->oom_known, result->oom_killed),
                     "background", background_json(result), "background_count",
                     (json_int_t)result->left);
}

json_t *exec_result_json(const struct execution_result *result)
{
    bool exited = result->signal == 0 && !result->timed_out && result->exit_code >= 0;
    struct stream out = stream_of(&result->out[0], result->dropped[0]);
    struct stream err = stream_of(&result->out[1], result->dropped[1]);
    json_t *rest = json_pack(
        "{s:o, s:o, s:b, s:b, s:b, s:b, s:I, s:I, s:I}", "exit_code",
        exited ? json_integer(result->exit_code) : json_null(), "signal", signal_json(result->signal),
        "timed_out", (int)result->timed_out, "truncated", out.dropped > 0 || err.dropped > 0,
        "stdout_truncated", out.dropped > 0, "stderr_truncated", err.dropped > 0, "stdout_dropped",
        (json_int_t)out.dropped, "stderr_dropped", (json_int_t)err.dropped, "duration_ms",
        (json_int_t)result->duration_ms);
    json_t *use = use_json(result);
    json_t *object = json_object();

    if (result_put_bytes(object, "stdout", result->out[0].data, out.length) < 0 ||
        result_put_bytes(object, "stderr", result->out[1].data, err.length) < 0 ||
        json_object_update(object, rest) < 0 || json_object_update(object, use) < 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(rest);
    json_decref(use);
    return object;
}

int signal_named(const char *name)
{
    int real_time;
    char rest;

    name += strncasecmp(name, "SIG", 3) == 0 ? 3 : 0;
    for (int i = 1; i < SIGRTMIN; i++) {
        const char *known = sigabbrev_np(i);

        if (known != NULL && strcasecmp(known, name) == 0) {
            return i;
        }
    }
    return sscanf(name, "RTMIN+%2d%c", &real_time, &rest) == 1 && real_time >= 0 &&
                   real_time <= SIGRTMAX - SIGRTMIN
               ? SIGRTMIN + real_time
               : 0;
}
