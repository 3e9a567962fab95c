#include "mount/outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/params.h"
#include "exec/result.h"
#include "mount/verbs.h"

/* The number of a signal that an ExecResult names, 0 for none. */
static int signal_number(const char *name)
{
    int number = name != NULL ? signal_named(name) : 0;

    if (name == NULL || number != 0) {
        return number;
    }
    return sscanf(name, "SIG%d", &number) == 1 ? number : SIGKILL;
}

/* Prints a stream's bytes to `fd`, and says what is missing. */
static int print_stream(const json_t *result, const char *name, int fd, struct error *err)
{
    struct params_bytes bytes = {0};
    char field[32];
    json_int_t dropped;
    int r = params_bytes(result, name, &bytes, err);

    if (r == 0 && write_out(fd, bytes.data, bytes.length) < 0) {
        r = error_set_errno(err, errno, "cannot write %s", name);
    }
    buffer_release(&bytes.decoded);
    snprintf(field, sizeof field, "%s_dropped", name);
    dropped = json_integer_value(json_object_get(result, field));
    if (r == 0 && dropped > 0) {
        fprintf(stderr,
                "handsfs: %" JSON_INTEGER_FORMAT " bytes of its %s were dropped (%" PRIu64
                " are kept)\n",
                dropped, name, MAX_OUTPUT_BYTES);
    }
    return r;
}

int outcome_exit_code(const json_t *result)
{
    const json_t *code = json_object_get(result, "exit_code");
    int number = signal_number(json_string_value(json_object_get(result, "signal")));

    if (json_is_true(json_object_get(result, "timed_out"))) {
        return EXIT_TIMED_OUT;
    }
    return json_is_integer(code) && number == 0 ? (int)json_integer_value(code)
                                                : EXIT_SIGNALLED + number;
}

void outcome_tell_timeout(const json_t *result, uint64_t timeout_ms)
{
    if (json_is_true(json_object_get(result, "timed_out"))) {
        fprintf(stderr, "handsfs: timed out after %" PRIu64 ".%03" PRIu64 " s\n",
                timeout_ms / 1000, timeout_ms % 1000);
    }
}

int outcome_print_streams(const json_t *result, struct error *err)
{
    return print_stream(result, "stdout", STDOUT_FILENO, err) < 0 ||
                   print_stream(result, "stderr", STDERR_FILENO, err) < 0
               ? -1
               : 0;
}
