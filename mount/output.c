#include "mount/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_BYTES (1u << 20) /* of memory, when all was written */

void output_open(struct output *output, int fd)
{
    char path[32];
    struct stat st;

    *output = (struct output){.fd = fd};
    buffer_init(&output->held, OUTPUT_MAX_HELD);
    if (fstat(fd, &st) < 0) {
        return; /* the first write says why */
    }
    output->is_socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
        int own;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        output->is_ours = own >= 0;
        output->may_block = own < 0;
        output->fd = own >= 0 ? own : fd;
    }
}

void output_close(struct output *output)
{
    if (output->is_ours) {
        close(output->fd);
    }
    buffer_release(&output->held);
}

int output_put(struct output *output, const void *data, size_t length)
{
    return buffer_append(&output->held, data, length);
}

/* As write(2), EAGAIN where it would block. */
static ssize_t write_some(const struct output *output, const void *data, size_t length)
{
    struct pollfd fd = {.fd = output->fd, .events = POLLOUT};

    if (output->is_socket) {
        return send(output->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (output->may_block) {
        if (poll(&fd, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        /* A pipe that has room has room for this much. */
        length = length < PIPE_BUF ? length : PIPE_BUF;
    }
    return write(output->fd, data, length);
}

int output_flush(struct output *output)
{
    while (output_held(output) > 0) {
        ssize_t n = write_some(output, output->held.data + output->written, output_held(output));

        if (n >= 0) {
            output->written += (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    if (output_held(output) == 0 || output->written > output->held.length / 2) {
        buffer_consume(&output->held, output->written);
        output->written = 0;
    }
    if (output->held.length == 0 && output->held.capacity > KEPT_BYTES) {
        buffer_release(&output->held);
    }
    return 0;
}
