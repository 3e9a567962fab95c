#include "backends/docker_helper.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/http_dial.h"
#include "backends/printable.h"
#include "sandbox/buffer.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

/* What every helper says where it knows no such account; part of the protocol. */
#define NOT_FOUND "credentials not found in native keychain"

bool docker_helper_program(const char *name, char program[DOCKER_HELPER_PROGRAM])
{
    for (const char *p = name; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL) {
            return false;
        }
    }
    return name[0] != '\0' && snprintf(program, DOCKER_HELPER_PROGRAM, "docker-credential-%s",
                                       name) < DOCKER_HELPER_PROGRAM;
}

bool docker_helper_found(const char *program)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];

    for (path = path != NULL ? path : "/usr/local/bin:/usr/bin:/bin"; *path != '\0';) {
        size_t length = strcspn(path, ":");

        if (length > 0 &&
            snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, path, program) <
                PATH_MAX &&
            access(candidate, X_OK) == 0) {
            return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}

/* Writes the question, says that this was all, and reads until the end of the answer. -1 with
 * errno. */
static int converse(int fd, const char *server, struct buffer *answer)
{
    uint64_t deadline = clock_now_ms() + DOCKER_HELPER_MS;
    size_t length = strlen(server);

    if (send(fd, server, length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length) {
        shutdown(fd, SHUT_WR);
    } /* else it did not want to know, and may have said why */
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_now_ms();
        uint8_t *room;
        ssize_t n;

        if (now >= deadline) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (poll(&p, 1, (int)(deadline - now)) <= 0) {
            continue;
        }
        room = buffer_reserve(answer, 4096);
        n = room != NULL ? recv(fd, room, 4096, MSG_DONTWAIT) : -1;
        if (room == NULL) {
            return -1;
        }
        if (n == 0 || (n < 0 && errno == ECONNRESET)) {
            return 0;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return -1;
        }
        buffer_commit(answer, n > 0 ? (size_t)n : 0);
    }
}

static bool is_account(const json_t *answer)
{
    return json_is_string(json_object_get(answer, "Username")) &&
           json_is_string(json_object_get(answer, "Secret"));
}

int docker_helper_get(const char *name, const char *server, json_t **ret, struct error *err)
{
    cleanup_buffer struct buffer answer = BUFFER_INIT(DOCKER_HELPER_OUTPUT);
    char program[DOCKER_HELPER_PROGRAM];
    char words[HTTP_LAST_WORDS];
    struct http_child *child = NULL;
    json_auto_t *json = NULL;
    cleanup_fd int fd = -1;
    int ends[2];
    int r, why;

    *ret = NULL;
    if (!docker_helper_program(name, program)) {
        return error_set(err, ERROR_IO, 0, "\"%.60s\" is no credential helper's name", name);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return error_set(err, ERROR_IO, errno, "%s: %s", program, strerror(errno));
    }
    fd = ends[0];
    r = http_child_start(&child, (char *const[]){program, (char[]){"get"}, NULL}, ends[1], err);
    close(ends[1]);
    if (r < 0) {
        err->code = ERROR_IO;
        return -1;
    }
    r = converse(fd, server, &answer);
    why = errno;
    close(take_fd(&fd));
    http_child_end(child, words);
    if (r < 0) {
        return error_set(err, ERROR_IO, why, "%s: %s", program,
                         why == ENOBUFS ? "it says too much" : strerror(why));
    }
    if (answer.length >= strlen(NOT_FOUND) &&
        memcmp(answer.data, NOT_FOUND, strlen(NOT_FOUND)) == 0) {
        return 0;
    }
    json = json_loadb((const char *)answer.data, answer.length, 0, NULL);
    if (!is_account(json)) { /* an answer that is none is an error's text */
        if (words[0] == '\0' && json == NULL) {
            copy_printable(words, sizeof words, answer.data, answer.length);
        }
        return error_set(err, ERROR_IO, 0, "%s: %s", program,
                         words[0] != '\0' ? words : "it gives no account");
    }
    *ret = json_incref(json);
    if (answer.data != NULL) {
        explicit_bzero(answer.data, answer.length);
    }
    return 0;
}
