/* A TCP proxy on loopback that cuts connections on purpose: cutting_proxy TARGET PORT [BYTES]
 *
 * Listens on a free port of 127.0.0.1, prints it, and passes every connection on to TARGET:PORT until
 * it is killed. With BYTES, each connection is reset once so many bytes have come from the target: in the
 * middle of whatever they belong to. SIGUSR1 resets all connections that there are; SIGUSR2 lets one pass
 * one more piece of what the target sends, cut in half, and resets it then. Stopped (SIGSTOP), it is a
 * network that loses everything. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_CONNECTIONS 256
#define CHUNK 65536

/* [0] is the client's end, [1] the target's. */
struct connection {
    int fds[2];
    bool ended[2]; /* that side sends no more */
    unsigned long received; /* from the target */
};

static struct connection connections[MAX_CONNECTIONS];
static size_t connection_count;
static unsigned long limit; /* 0: none */
static volatile sig_atomic_t cut_now, cut_next;

static void on_signal(int number)
{
    if (number == SIGUSR1) {
        cut_now = 1;
    } else {
        cut_next = 1;
    }
}

/* With a reset, which loses what has not been read. */
static void cut(struct connection *c)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    for (unsigned i = 0; i < 2; i++) {
        setsockopt(c->fds[i], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(c->fds[i]);
        c->fds[i] = -1;
    }
}

static void finish(struct connection *c)
{
    close(c->fds[0]);
    close(c->fds[1]);
    c->fds[0] = c->fds[1] = -1;
}

static int connect_to(const struct sockaddr_in *target)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)target, sizeof *target) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void take_connection(int listener, const struct sockaddr_in *target)
{
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int server;

    if (client < 0) {
        return;
    }
    server = connection_count < MAX_CONNECTIONS ? connect_to(target) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    connections[connection_count++] = (struct connection){.fds = {client, server}};
}

static bool write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, data, length, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        data += n;
        length -= (size_t)n;
    }
    return true;
}

/* What one side has sent goes to the other; cuts where it is to be cut. */
static void pass(struct connection *c, unsigned from)
{
    static char chunk[CHUNK];
    ssize_t n = recv(c->fds[from], chunk, sizeof chunk, 0);
    bool last = false;
    size_t length;

    if (n < 0 && errno == EINTR) {
        return;
    }
    if (n <= 0) {
        c->ended[from] = true;
        shutdown(c->fds[1 - from], SHUT_WR);
        if (n < 0 || c->ended[1 - from]) {
            finish(c);
        }
        return;
    }
    length = (size_t)n;
    if (from == 1 && limit != 0 && c->received + length >= limit) {
        length = limit - c->received;
        last = true;
    } else if (from == 1 && cut_next) {
        length /= 2;
        last = true;
    }
    c->received += from == 1 ? length : 0;
    if (!write_all(c->fds[1 - from], chunk, length)) {
        finish(c);
        return;
    }
    if (last) {
        cut_next = 0;
        usleep(20000); /* a reset overtakes what the reader has not taken yet */
        cut(c);
    }
}

static void forget_closed(void)
{
    size_t kept = 0;

    for (size_t i = 0; i < connection_count; i++) {
        if (connections[i].fds[0] >= 0) {
            connections[kept++] = connections[i];
        }
    }
    connection_count = kept;
}

static void serve(int listener, const struct sockaddr_in *target, const sigset_t *unblocked)
{
    static struct pollfd polled[1 + 2 * MAX_CONNECTIONS];
    size_t count = connection_count;

    polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (size_t i = 0; i < count; i++) {
        for (unsigned side = 0; side < 2; side++) {
            polled[1 + 2 * i + side] = (struct pollfd){
                .fd = connections[i].ended[side] ? -1 : connections[i].fds[side],
                .events = POLLIN,
            };
        }
    }
    /* Signals come only here, so that none is missed. */
    if (ppoll(polled, 1 + 2 * count, NULL, unblocked) > 0) {
        for (size_t i = 0; i < count; i++) {
            for (unsigned side = 0; side < 2; side++) {
                if (connections[i].fds[0] >= 0 && polled[1 + 2 * i + side].revents != 0) {
                    pass(&connections[i], side);
                }
            }
        }
        if (polled[0].revents != 0) {
            take_connection(listener, target);
        }
    }
    for (size_t i = 0; cut_now && i < connection_count; i++) {
        if (connections[i].fds[0] >= 0) {
            cut(&connections[i]);
        }
    }
    cut_now = 0;
    forget_closed();
}

int main(int argc, char **argv)
{
    struct sockaddr_in target = {.sin_family = AF_INET};
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sigaction action = {.sa_handler = on_signal};
    socklen_t length = sizeof here;
    sigset_t blocked;
    sigset_t unblocked;
    int listener;

    if (argc < 3 || argc > 4 || inet_pton(AF_INET, argv[1], &target.sin_addr) != 1) {
        fprintf(stderr, "usage: cutting_proxy TARGET PORT [BYTES]\n");
        return 2;
    }
    target.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
    limit = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, &unblocked);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, sizeof here) < 0 ||
        listen(listener, SOMAXCONN) < 0 ||
        getsockname(listener, (struct sockaddr *)&here, &length) < 0) {
        perror("cutting_proxy");
        return 1;
    }
    printf("%u\n", ntohs(here.sin_port));
    fflush(stdout);
    for (;;) {
        serve(listener, &target, &unblocked);
    }
}
