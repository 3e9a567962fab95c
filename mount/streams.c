/* Standard input and output of the verbs. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "mount/verbs.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"

#define READ_BYTES 65536
#define NOTICE_MS 2000 /* then somebody is told what we wait for */

/* Tells a person at a terminal why nothing happens. */
static void notice_waiting(void)
{
    struct pollfd waiting = {.fd = STDIN_FILENO, .events = POLLIN};

    if (isatty(STDERR_FILENO) && poll(&waiting, 1, NOTICE_MS) == 0) {
        log_warning("reading standard input until its end");
    }
}

int read_standard_input(struct buffer *out, struct error *err)
{
    size_t limit = out->limit;

    out->limit++; /* one byte more tells that it is too much */
    notice_waiting();
    while (out->length <= limit) {
        size_t room = limit + 1 - out->length;
        uint8_t *at = buffer_reserve(out, room < READ_BYTES ? room : READ_BYTES);
        ssize_t n;

        if (at == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        n = read(STDIN_FILENO, at, room < READ_BYTES ? room : READ_BYTES);
        if (n < 0 && errno != EINTR) {
            return error_set_errno(err, errno, "cannot read standard input");
        }
        if (n == 0) {
            out->limit = limit;
            return 0;
        }
        buffer_commit(out, n > 0 ? (size_t)n : 0);
    }
    return error_set(err, ERROR_TOO_LARGE, 0, "standard input has more than %zu bytes", limit);
}

/* Ends this process as a reader that went away ends any other. */
static void die_of_broken_pipe(void)
{
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

int write_out(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = write(fd, at, length);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd waiting = {.fd = fd, .events = POLLOUT};

            poll(&waiting, 1, -1);
        } else if (n < 0 && errno == EPIPE) {
            die_of_broken_pipe();
            return -1;
        } else if (n < 0 && errno != EINTR) {
            return -1;
        } else if (n > 0) {
            at += n;
            length -= (size_t)n;
        }
    }
    return 0;
}

int print_json(struct json_t *value, struct error *err)
{
    cleanup_free char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY);

    json_decref(value);
    if (text == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (write_out(STDOUT_FILENO, text, strlen(text)) < 0 || write_out(STDOUT_FILENO, "\n", 1) < 0) {
        return error_set_errno(err, errno, "cannot write to standard output");
    }
    return 0;
}
