#include "tests/unit/fake_exec.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/websocket.h"

#define MAX_SCRIPTS 4
#define MAX_HEAD 8192

struct fake_exec {
    struct fake_exec_script scripts[MAX_SCRIPTS];
    unsigned count;
    char folder[64];
    char path[96];
    char heads[MAX_SCRIPTS][MAX_HEAD];
    int listener;
    pthread_t thread;
};

static void send_all(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

        if (n <= 0) {
            return;
        }
        at += n;
        length -= (size_t)n;
    }
}

static int receive_all(int fd, void *data, size_t length)
{
    return length == 0 || recv(fd, data, length, MSG_WAITALL) == (ssize_t)length ? 0 : -1;
}

static void answer(int fd, const struct fake_exec_script *script, char *head)
{
    char accept[32] = "";
    char text[512];
    size_t length = 0;
    const char *key;

    while (length < MAX_HEAD - 1 && recv(fd, head + length, 1, 0) == 1) {
        head[++length] = '\0';
        if (length >= 4 && strcmp(head + length - 4, "\r\n\r\n") == 0) {
            break;
        }
    }
    key = strcasestr(head, "\r\nSec-WebSocket-Key: ");
    if (key != NULL) {
        char copy[64];

        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(key + 21, "\r"), key + 21);
        (void)!websocket_accept_of(copy, accept);
    }
    snprintf(text, sizeof text,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
             script->accept != NULL ? script->accept : accept, script->protocol);
    send_all(fd, script->head != NULL ? script->head : text,
             strlen(script->head != NULL ? script->head : text));
}

static void *play(void *arg)
{
    struct fake_exec *fake = arg;

    for (unsigned i = 0; i < fake->count; i++) {
        int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0) {
            break;
        }
        answer(fd, &fake->scripts[i], fake->heads[i]);
        if (fake->scripts[i].serve != NULL) {
            fake->scripts[i].serve(fd, fake->scripts[i].arg);
        }
        close(fd);
    }
    return NULL;
}

struct fake_exec *fake_exec_start(const struct fake_exec_script *scripts, unsigned count)
{
    struct fake_exec *fake = calloc(1, sizeof *fake);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    ck_assert_ptr_nonnull(fake);
    ck_assert_uint_le(count, MAX_SCRIPTS);
    memcpy(fake->scripts, scripts, count * sizeof *scripts);
    fake->count = count;
    snprintf(fake->folder, sizeof fake->folder, "/tmp/test-exec-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fake->folder));
    snprintf(fake->path, sizeof fake->path, "%s/socket", fake->folder);
    memcpy(address.sun_path, fake->path, strlen(fake->path) + 1);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fake->listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fake->listener, 8), 0);
    ck_assert_int_eq(pthread_create(&fake->thread, NULL, play, fake), 0);
    return fake;
}

const char *fake_exec_socket(const struct fake_exec *fake)
{
    return fake->path;
}

const char *fake_exec_head(const struct fake_exec *fake, unsigned number)
{
    return fake->heads[number];
}

void fake_exec_stop(struct fake_exec *fake)
{
    /* Who has connected is served; who has not, because its time was over, is not waited for. */
    (void)shutdown(fake->listener, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
    unlink(fake->path);
    ck_assert_int_eq(rmdir(fake->folder), 0);
    free(fake);
}

void fake_exec_say(int fd, int channel, const void *data, size_t length)
{
    size_t whole = length + (channel >= 0);
    unsigned char head[5] = {0x82, (unsigned char)whole};
    size_t used = 2;

    if (whole >= 126) {
        head[1] = 126;
        head[2] = (unsigned char)(whole >> 8);
        head[3] = (unsigned char)whole;
        used = 4;
    }
    if (channel >= 0) {
        head[used++] = (unsigned char)channel;
    }
    send_all(fd, head, used);
    send_all(fd, data, length);
}

void fake_exec_close(int fd)
{
    send_all(fd, "\x88\x02\x03\xe8", 4);
}

long fake_exec_hear(int fd, int *channel, unsigned char *data, size_t size)
{
    for (;;) {
        unsigned char head[4], mask[4];
        size_t length;

        if (receive_all(fd, head, 2) < 0 || (head[1] & 0x80) == 0) {
            return -1;
        }
        length = head[1] & 0x7f;
        if (length == 126) {
            if (receive_all(fd, head + 2, 2) < 0) {
                return -1;
            }
            length = (size_t)head[2] << 8 | head[3];
        }
        if (length > size || receive_all(fd, mask, 4) < 0 || receive_all(fd, data, length) < 0) {
            return -1;
        }
        for (size_t i = 0; i < length; i++) {
            data[i] ^= mask[i % 4];
        }
        if ((head[0] & 0xf) == 8) {
            return -1;
        }
        if ((head[0] & 0xf) != 2) {
            continue;
        }
        *channel = length > 0 ? data[0] : -1;
        memmove(data, data + (length > 0), length > 0 ? length - 1 : 0);
        return length > 0 ? (long)length - 1 : 0;
    }
}
