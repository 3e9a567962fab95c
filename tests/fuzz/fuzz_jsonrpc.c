/* The gateway's side of a connection: the input is what a client sends before it ends its side. All
 * lines go through the real reader, parser and methods, over a link without a sandbox. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/server.h"
#include "tests/unit/fake_link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TURNS 20000

static void must(int holds)
{
    if (!holds) {
        abort();
    }
}

/* Writes what fits and reads what comes, so that neither side waits for the other. */
static void exchange(uv_loop_t *loop, int fd, const uint8_t *data, size_t size)
{
    char sink[65536];
    bool shut = false;
    ssize_t n = 1;

    for (int i = 0; i < TURNS && n != 0; i++) {
        ssize_t sent = size > 0 ? send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
        if (size == 0 && !shut) {
            shut = true;
            shutdown(fd, SHUT_WR);
        }
        uv_run(loop, UV_RUN_NOWAIT);
        do {
            n = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
        } while (n > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gateway_host host = {.ctx = NULL};
    struct gateway *gateway;
    struct error err;
    uv_loop_t loop;
    struct link *link;
    int fds[2];

    must(uv_loop_init(&loop) == 0);
    link = fake_link_new(&loop);
    must(gateway_open(&gateway, &loop, link, NULL, &host, &err) == 0);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    must(connection_open(gateway, fds[0]) == 0);
    exchange(&loop, fds[1], data, size);
    close(fds[1]);
    gateway_close(gateway, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&loop) == 0);
    fake_link_free(link);
    return 0;
}
