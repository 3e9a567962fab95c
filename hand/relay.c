#include "hand/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

/* One direction. */
struct way {
    int from, to;
    uint8_t bytes[RELAY_BUFFER_BYTES];
    size_t at, length; /* the bytes from `at` to `length` wait */
    bool end;          /* `from` has ended */
    bool told;         /* and `to` was told so */
};

/* Who listened is who the kernel says. */
static int check_peer(int fd, int peer_pid, struct error *err)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (peer_pid == 0) {
        return 0;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) {
        return error_set_errno(err, errno, "SO_PEERCRED");
    }
    return peer.pid == peer_pid ? 0
                                : error_set(err, ERROR_NOT_WRITABLE, 0, "process %d listens, not %d",
                                            (int)peer.pid, peer_pid);
}

static int connect_to(const char *path, int peer_pid, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof address.sun_path) {
        return error_set_errno(err, ENAMETOOLONG, "%s", path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        return error_set_errno(err, errno, "%s", path);
    }
    return check_peer(fd, peer_pid, err) < 0 ? -1 : take_fd(&fd);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Takes from one side what is there and gives to the other what it takes. -1 where a side is broken. */
static int way_move(struct way *w)
{
    ssize_t n;

    if (!w->end && w->length == 0) {
        n = read(w->from, w->bytes, sizeof w->bytes);
        if (n < 0 && !would_block()) {
            return -1;
        }
        w->end = n == 0;
        w->length = n > 0 ? (size_t)n : 0;
    }
    if (w->at < w->length) {
        n = write(w->to, w->bytes + w->at, w->length - w->at);
        if (n < 0 && !would_block()) {
            return -1;
        }
        w->at += n > 0 ? (size_t)n : 0;
    }
    if (w->at == w->length) {
        w->at = w->length = 0;
    }
    return 0;
}

/* What one direction waits for: its source while it is empty, else its destination. */
static struct pollfd way_poll(const struct way *w)
{
    struct pollfd p = {.fd = -1};

    if (w->length > 0) {
        p.fd = w->to;
        p.events = POLLOUT;
    } else if (!w->end) {
        p.fd = w->from;
        p.events = POLLIN;
    }
    return p;
}

static void not_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0) {
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
}

static int relay(struct way *in, struct way *out)
{
    for (;;) {
        struct pollfd p[2];

        if (way_move(in) < 0 || way_move(out) < 0) {
            return 0;
        }
        if (in->end && in->length == 0 && !in->told) {
            shutdown(in->to, SHUT_WR); /* the hand may still have something to say */
            in->told = true;
        }
        if (out->end && out->length == 0) {
            return 0;
        }
        p[0] = way_poll(in);
        p[1] = way_poll(out);
        if (poll(p, 2, -1) < 0 && errno != EINTR) {
            return -1;
        }
    }
}

int relay_run(const char *socket_path, int peer_pid, struct error *err)
{
    struct way in = {.from = STDIN_FILENO};
    struct way out = {.to = STDOUT_FILENO};
    cleanup_fd int fd = -1;

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) { /* nobody is to speak to the hand through this process */
        return error_set_errno(err, errno, "prctl");
    }
    fd = connect_to(socket_path, peer_pid, err);
    if (fd < 0) {
        return -1;
    }
    signal(SIGPIPE, SIG_IGN);
    not_blocking(STDIN_FILENO);
    not_blocking(STDOUT_FILENO);
    not_blocking(fd);
    in.to = out.from = fd;
    return relay(&in, &out) < 0 ? error_set_errno(err, errno, "poll") : 0;
}
