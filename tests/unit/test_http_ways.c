/* Servers that are reached in other ways: over TLS (a program of its own in front of the scripted server) and through
 * a program that is the connection. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/http.h"
#include "backends/http_dial.h"
#include "backends/pump.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 30000
#define SHORT_MS 500

static struct fake_engine *fake;
static struct http_server server;
static struct http *http;

static void open_fake(void)
{
    fake = fake_engine_start();
    http_server_init(&server);
}

static void open_client(void)
{
    struct error err;

    ck_assert_msg(http_new(&http, &server, &err) == 0, "%s", err.message);
}

static struct http_request get(unsigned ms)
{
    return (struct http_request){.method = "GET", .path = "/x", .deadline_ms = clock_now_ms() + ms};
}

/* One request with the server as it is set. Gives the status, or -1. */
static long ask(unsigned ms, struct error *err)
{
    struct http_request request = get(ms);
    struct http_answer answer;
    long status = -1;

    http_answer_init(&answer);
    if (http_perform(http, &request, &answer, err) == 0) {
        status = answer.status;
    }
    http_answer_release(&answer);
    return status;
}

static void assert_served(void)
{
    struct error err;

    open_client();
    fake_engine_answer(fake, "GET /x", 200, "{}");
    ck_assert_msg(ask(PATIENCE_MS, &err) == 200, "%s", err.message);
    http_free(http);
}

static void assert_refused(enum error_code code, const char *text)
{
    struct error err;

    open_client();
    ck_assert_int_eq(ask(PATIENCE_MS, &err), -1);
    ck_assert_msg(err.code == code, "%s: %s", error_name(err.code), err.message);
    ck_assert_msg(strstr(err.message, text) != NULL, "%s", err.message);
    http_free(http);
}

static struct http_stream *upgraded(void)
{
    static const char *const headers[] = {"Connection: Upgrade", "Upgrade: tcp", NULL};
    struct http_request request = get(PATIENCE_MS);
    struct http_stream *stream = NULL;
    struct http_answer refused;
    struct error err;

    request.headers = headers;
    http_answer_init(&refused);
    ck_assert_msg(http_upgrade(http, &request, &stream, &refused, &err) == 0, "%s", err.message);
    ck_assert_ptr_nonnull(stream);
    return stream;
}

/* ---- A pump over such a connection ---- */

static int decode(void *state, const uint8_t *data, size_t length, struct buffer *inner, struct buffer *outer,
                  struct error *err)
{
    (void)state;
    (void)outer;
    return buffer_append(inner, data, length) == 0 ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "full");
}

static int encode(void *state, const uint8_t *data, size_t length, struct buffer *outer, struct error *err)
{
    (void)state;
    return buffer_append(outer, data, length) == 0 ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "full");
}

static void ended(void *state, const struct error *err)
{
    (void)state;
    (void)err;
}

static const struct pump_codec plain = {.decode = decode, .encode = encode, .ended = ended};

static void echo(int fd, void *arg)
{
    char data[8192];
    ssize_t n;

    (void)arg;
    while ((n = recv(fd, data, sizeof data, 0)) > 0) {
        for (ssize_t at = 0, sent; at < n; at += sent) {
            sent = send(fd, data + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (sent < 0) {
                return;
            }
        }
    }
}

static void wait_for_pumps(void)
{
    uint64_t begin = clock_now_ms();

    while (pump_count() > 0) {
        ck_assert_uint_lt(clock_now_ms() - begin, PATIENCE_MS);
        poll(NULL, 0, 5);
    }
}

/* Sends a MiB through an echo, and takes what came before. */
static void assert_pumped(void)
{
    static char block[16384], back[16384];
    const size_t total = 1u << 20;
    size_t sent = 0, got = 0, early = strlen("early");
    struct error err;
    int fd;

    open_client();
    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /x", .how = FAKE_HIJACK, .body = "early", .hijack = echo});
    ck_assert_msg(pump_start(upgraded(), &plain, NULL, &fd, &err) == 0, "%s", err.message);
    memset(block, 'b', sizeof block);
    while (got < total + early) {
        struct pollfd p = {.fd = fd, .events = (short)(POLLIN | (sent < total ? POLLOUT : 0))};
        ssize_t n;

        ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        if (sent < total) {
            n = send(fd, block, sizeof block, MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
        }
        n = recv(fd, back, sizeof back, 0);
        if (n > 0 && got == 0) {
            ck_assert_mem_eq(back, "early", early);
        }
        ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
        got += n > 0 ? (size_t)n : 0;
    }
    ck_assert_uint_eq(got, sent + early);
    close(fd);
    wait_for_pumps();
    http_free(http);
}

/* ---- TLS ---- */

static char folder[64];
static pid_t front = -1;
static int port;

static pid_t start(const char *const *argv, int errors)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (errors >= 0) {
        posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    } else {
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    ck_assert_int_eq(posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void run(const char *const *argv)
{
    int status;

    ck_assert_int_eq(waitpid(start(argv, -1), &status, 0) > 0 ? status : -1, 0);
}

static char *file(const char *name)
{
    static char paths[4][128];
    static unsigned n;
    char *path = paths[n++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* A certificate of an authority: of the one named "ca", which signs itself, or by it. */
static void make_certificate(const char *name)
{
    bool signs_itself = strcmp(name, "ca") == 0;
    char key[128], pem[128], ca_key[128], ca_pem[128], subject[64], names[64];
    const char *argv[] = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                          "-nodes", "-days", "2", "-subj", subject, "-addext", names, "-keyout", key, "-out", pem,
                          signs_itself ? NULL : "-CA", ca_pem, "-CAkey", ca_key, NULL};

    snprintf(key, sizeof key, "%s/%s.key", folder, name);
    snprintf(pem, sizeof pem, "%s/%s.pem", folder, name);
    snprintf(ca_key, sizeof ca_key, "%s/ca.key", folder);
    snprintf(ca_pem, sizeof ca_pem, "%s/ca.pem", folder);
    snprintf(subject, sizeof subject, "/CN=%s", name);
    snprintf(names, sizeof names, "subjectAltName=DNS:%s.test", name);
    run(argv);
}

/* Waits until socat tells its port. */
static int read_port(int fd)
{
    static const char before[] = "listening on AF=2 127.0.0.1:";
    char text[4096] = "";
    size_t have = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const char *at = strstr(text, before);
        ssize_t n;

        if (at != NULL && strchr(at, '\n') != NULL) {
            return atoi(at + strlen(before));
        }
        ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        n = read(fd, text + have, sizeof text - 1 - have);
        ck_assert_msg(n > 0, "%s", text);
        have += (size_t)n;
    }
}

static void open_tls(bool asks)
{
    char from[512], to[128];
    const char *argv[] = {"socat", "-d", "-d", from, to, NULL};
    int errors[2];

    open_fake();
    snprintf(folder, sizeof folder, "/tmp/handsfs-tls.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    make_certificate("ca");
    make_certificate("server");
    snprintf(from, sizeof from, "OPENSSL-LISTEN:0,bind=127.0.0.1,reuseaddr,fork,cert=%s,key=%s,cafile=%s,verify=%d",
             file("server.pem"), file("server.key"), file("ca.pem"), asks);
    snprintf(to, sizeof to, "UNIX-CONNECT:%s", fake_engine_socket(fake));
    ck_assert_int_eq(pipe2(errors, O_CLOEXEC), 0);
    front = start(argv, errors[1]);
    close(errors[1]);
    port = read_port(errors[0]);
    close(errors[0]);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void close_tls(void)
{
    fake_engine_stop(fake);
    kill(front, SIGTERM);
    waitpid(front, NULL, 0);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The server as clients know it: by its address, with a certificate for another name. */
static void set_tls(const char *ca, const char *name)
{
    char url[64];

    http_server_release(&server);
    snprintf(url, sizeof url, "https://127.0.0.1:%d", port);
    server.url = strdup(url);
    server.ca_file = ca != NULL ? strdup(file(ca)) : NULL;
    server.tls_name = name != NULL ? strdup(name) : NULL;
}

static void load(struct buffer *to, const char *name)
{
    FILE *f = fopen(file(name), "r");
    char text[8192];
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(text, 1, sizeof text, f);
    ck_assert_int_eq(buffer_append(to, text, n), 0);
    fclose(f);
}

START_TEST(a_server_must_have_a_certificate_of_the_authority_for_its_name)
{
    open_tls(false);
    set_tls("ca.pem", "server.test");
    assert_served();
    set_tls(NULL, "server.test");
    load(&server.ca_pem, "ca.pem");
    assert_served();
    set_tls(NULL, NULL);
    server.insecure = true;
    assert_served();
    set_tls(NULL, "server.test"); /* the system's authorities */
    assert_refused(ERROR_BAD_REQUEST, "certificate");
    set_tls("ca.pem", "other.test");
    assert_refused(ERROR_BAD_REQUEST, "other.test");
    set_tls("ca.pem", NULL);
    assert_refused(ERROR_BAD_REQUEST, "127.0.0.1");
    set_tls("missing.pem", "server.test");
    assert_refused(ERROR_BAD_REQUEST, "missing.pem");
    close_tls();
}
END_TEST

START_TEST(a_server_may_ask_for_our_certificate)
{
    struct error err;

    open_tls(true);
    make_certificate("client");
    set_tls("ca.pem", "server.test");
    open_client();
    ck_assert_int_eq(ask(PATIENCE_MS, &err), -1);
    http_free(http);
    set_tls("ca.pem", "server.test");
    server.cert_file = strdup(file("client.pem"));
    server.key_file = strdup(file("client.key"));
    assert_served();
    set_tls("ca.pem", "server.test");
    load(&server.cert_pem, "client.pem");
    load(&server.key_pem, "client.key");
    assert_served();
    close_tls();
}
END_TEST

START_TEST(a_stream_over_tls_is_pumped_like_another)
{
    struct http_stream *stream;

    open_tls(false);
    set_tls("ca.pem", "server.test");
    assert_pumped();
    set_tls("ca.pem", "server.test");
    open_client();
    fake_engine_script(fake, &(struct fake_step){.request = "GET /x", .how = FAKE_HIJACK, .hijack = echo});
    stream = upgraded();
    ck_assert(!http_stream_shutdown(stream));
    http_stream_close(stream);
    http_free(http);
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 1)->head, "\r\nHost: 127.0.0.1:"));
    close_tls();
}
END_TEST

/* What the client said until its end. */
static struct {
    char data[64];
    size_t length;
    int pipe[2]; /* a byte when it has ended */
} heard;

static void hear(int fd, void *arg)
{
    ssize_t n;

    (void)arg;
    while ((n = recv(fd, heard.data + heard.length, sizeof heard.data - 1 - heard.length, 0)) > 0) {
        heard.length += (size_t)n;
    }
    (void)!write(heard.pipe[1], "", 1);
}

START_TEST(a_process_that_exits_while_a_stream_is_at_work_ends_well_and_has_sent_all)
{
    static const char *const ways[] = {"open", "closed"};
    char url[64], path[4096];
    const char *argv[] = {path, url, NULL, "server.test", "last words", ways[_i], NULL};
    const char *folder_of_build = getenv("HANDSFS_BUILDDIR");
    int status;
    char byte;

    snprintf(path, sizeof path, "%s/tests/unit/leaver", folder_of_build != NULL ? folder_of_build : ".");
    memset(&heard, 0, sizeof heard);
    ck_assert_int_eq(pipe2(heard.pipe, O_CLOEXEC), 0);
    open_tls(false);
    argv[2] = file("ca.pem");
    snprintf(url, sizeof url, "https://127.0.0.1:%d", port);
    fake_engine_script(fake, &(struct fake_step){.request = "GET /x", .how = FAKE_HIJACK, .hijack = hear});
    ck_assert_int_gt(waitpid(start(argv, STDERR_FILENO), &status, 0), 0);
    ck_assert_msg(status == 0, "it ended with status %x", (unsigned)status);
    ck_assert_int_eq(read(heard.pipe[0], &byte, 1), 1);
    ck_assert_str_eq(heard.data, "last words");
    close_tls();
}
END_TEST

#define LATE_BYTES (32u << 20) /* more than all the sockets on the way hold */

static int go_on[2]; /* a pipe */

/* Reads nothing until it is told to, then all of it, and says whether it was what is expected. */
static void sum_late(int fd, void *arg)
{
    static uint8_t data[65536];
    size_t got = 0;
    bool right = true;
    ssize_t n;

    (void)arg;
    (void)!read(go_on[0], data, 1); /* until the other side has been kept waiting */
    while (got < LATE_BYTES && (n = recv(fd, data, sizeof data, 0)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            right = right && data[i] == (uint8_t)((got + (size_t)i) * 31 >> 3);
        }
        got += (size_t)n;
    }
    (void)!send(fd, right && got == LATE_BYTES ? "right" : "wrong", 5, MSG_NOSIGNAL);
}

/* From other memory each time. Returns how often the stream had to be waited for. */
static unsigned send_all(struct http_stream *stream)
{
    static uint8_t pieces[2][300000];
    unsigned waits = 0;
    size_t sent = 0;
    struct error err;

    for (unsigned turn = 0; sent < LATE_BYTES; turn++) {
        uint8_t *piece = pieces[turn % 2];
        struct pollfd p = {.fd = http_stream_fd(stream), .events = POLLOUT};
        size_t length = LATE_BYTES - sent < sizeof pieces[0] ? LATE_BYTES - sent : sizeof pieces[0];
        ssize_t n;

        for (size_t i = 0; i < length; i++) {
            piece[i] = (uint8_t)((sent + i) * 31 >> 3);
        }
        n = http_stream_send(stream, piece, length, &err);
        memset(piece, 0, length);
        ck_assert_msg(n != -1, "%s", err.message);
        if (n == HTTP_AGAIN) {
            if (waits++ == 0) {
                ck_assert_int_eq(write(go_on[1], "", 1), 1);
            }
            ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        } else {
            sent += (size_t)n;
        }
    }
    return waits;
}

START_TEST(what_tls_cannot_send_yet_may_be_sent_from_other_memory_later)
{
    struct http_stream *stream;
    char answer[5];
    size_t got = 0;
    struct error err;

    ck_assert_int_eq(pipe(go_on), 0);
    open_tls(false);
    set_tls("ca.pem", "server.test");
    open_client();
    fake_engine_script(fake, &(struct fake_step){.request = "GET /x", .how = FAKE_HIJACK, .hijack = sum_late});
    stream = upgraded();
    ck_assert_uint_gt(send_all(stream), 0);
    while (got < sizeof answer) {
        struct pollfd p = {.fd = http_stream_fd(stream), .events = POLLIN};
        ssize_t n = http_stream_recv(stream, answer + got, sizeof answer - got, &err);

        ck_assert(n > 0 || n == HTTP_AGAIN);
        if (n > 0) {
            got += (size_t)n;
        } else {
            ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        }
    }
    ck_assert_mem_eq(answer, "right", sizeof answer);
    http_stream_close(stream);
    http_free(http);
    close_tls();
    close(go_on[0]);
    close(go_on[1]);
}
END_TEST

START_TEST(a_server_without_tls_is_no_server_with_it)
{
    open_fake();
    server.url = strdup("https://server");
    server.unix_socket = strdup(fake_engine_socket(fake));
    open_client();
    fake_engine_script(fake, &(struct fake_step){.request = "*", .how = FAKE_CLOSE, .times = FAKE_ALWAYS});
    {
        struct error err;

        ck_assert_int_eq(ask(SHORT_MS, &err), -1);
        ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    }
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

/* ---- Programs that are connections ---- */

static void set_dial(const char *first, const char *second, const char *third)
{
    http_server_release(&server);
    server.url = strdup("http://server");
    server.dial = calloc(4, sizeof *server.dial);
    server.dial[0] = strdup(first);
    server.dial[1] = second != NULL ? strdup(second) : NULL;
    server.dial[2] = third != NULL ? strdup(third) : NULL;
}

static void set_socat(void)
{
    char to[128];

    snprintf(to, sizeof to, "UNIX-CONNECT:%s", fake_engine_socket(fake));
    set_dial("socat", "-", to);
}

static void assert_no_children(void)
{
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

START_TEST(a_program_serves_a_row_of_requests_and_is_gone_afterwards)
{
    struct error err;

    open_fake();
    set_socat();
    open_client();
    fake_engine_script(fake, &(struct fake_step){.request = "GET /x", .body = "{}", .times = 3});
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_msg(ask(PATIENCE_MS, &err) == 200, "%s", err.message);
    }
    ck_assert_uint_eq(fake_engine_connections(fake), 1);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), 0);
    http_free(http);
    assert_no_children();
    fake_engine_stop(fake);
}
END_TEST

START_TEST(a_stream_through_a_program_is_pumped_like_another)
{
    open_fake();
    set_socat();
    assert_pumped();
    assert_no_children();
    fake_engine_stop(fake);
}
END_TEST

START_TEST(what_a_program_said_at_its_end_is_told)
{
    open_fake();
    set_dial("sh", "-c", "echo 'no such host' >&2; exit 255");
    assert_refused(ERROR_NO_ANSWER, "no such host");
    assert_no_children();
    fake_engine_stop(fake);
}
END_TEST

/* Not under valgrind, whose process dies of an execve(2) that fails. */
START_TEST(a_program_that_is_not_there_is_told)
{
    struct error err;

    if (getenv("LD_PRELOAD") != NULL && strstr(getenv("LD_PRELOAD"), "vgpreload") != NULL) {
        return;
    }
    open_fake();
    set_dial("handsfs-no-such-program", NULL, NULL);
    open_client();
    ck_assert_int_eq(ask(PATIENCE_MS, &err), -1); /* a sanitizer's spawn cannot tell */
    ck_assert_msg(err.code == ERROR_BAD_REQUEST || err.code == ERROR_NO_ANSWER, "%s", error_name(err.code));
    ck_assert_msg(strstr(err.message, "cannot be run") != NULL, "%s", err.message);
    http_free(http);
    fake_engine_stop(fake);
}
END_TEST

static const char *const silent[] = {
    "exec sleep 1000",
    "trap '' TERM; while :; do sleep 1; done",
    "yes >&2; exec sleep 1000",
};

START_TEST(a_program_that_stays_silent_is_ended_at_the_deadline)
{
    struct error err;

    open_fake();
    set_dial("sh", "-c", silent[_i]);
    open_client();
    ck_assert_int_eq(ask(SHORT_MS, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_ptr_nonnull(strstr(err.message, "in time"));
    http_free(http);
    assert_no_children();
    fake_engine_stop(fake);
}
END_TEST

/* ---- */

static bool there_is(const char *program)
{
    const char *path = getenv("PATH");
    char *dirs = strdup(path != NULL ? path : "/usr/bin:/bin"), *at = dirs, *dir;
    bool found = false;

    while (!found && (dir = strsep(&at, ":")) != NULL) {
        char whole[512];

        snprintf(whole, sizeof whole, "%s/%s", dir, program);
        found = access(whole, X_OK) == 0;
    }
    free(dirs);
    return found;
}

UNIT_SUITE(http_ways)
{
    tcase_set_timeout(tcase, 120);
    if (there_is("socat") && there_is("openssl")) {
        tcase_add_test(tcase, a_server_must_have_a_certificate_of_the_authority_for_its_name);
        tcase_add_test(tcase, a_server_may_ask_for_our_certificate);
        tcase_add_test(tcase, a_stream_over_tls_is_pumped_like_another);
        tcase_add_loop_test(
            tcase, a_process_that_exits_while_a_stream_is_at_work_ends_well_and_has_sent_all, 0, 2);
        tcase_add_test(tcase, what_tls_cannot_send_yet_may_be_sent_from_other_memory_later);
    }
    tcase_add_test(tcase, a_server_without_tls_is_no_server_with_it);
    if (there_is("socat")) {
        tcase_add_test(tcase, a_program_serves_a_row_of_requests_and_is_gone_afterwards);
        tcase_add_test(tcase, a_stream_through_a_program_is_pumped_like_another);
    }
    tcase_add_test(tcase, what_a_program_said_at_its_end_is_told);
    tcase_add_test(tcase, a_program_that_is_not_there_is_told);
    tcase_add_loop_test(tcase, a_program_that_stays_silent_is_ended_at_the_deadline, 0,
                        sizeof silent / sizeof silent[0]);
}
