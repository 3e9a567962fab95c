/* Pumps between a scripted engine and a descriptor: ends, half-closes, who does not read, and what is left. */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/http.h"
#include "backends/pump.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 20000
#define REQUEST "POST /start"
#define MOST_HELD ((PUMP_BUFFER_BYTES + (2u << 20))) /* on the way: the pump's, and the sockets' of both sides */

static struct fake_engine *fake;
static struct http *http;

/* ---- A codec that passes bytes on and notes what happens ---- */

static struct {
    atomic_uint ended, ticks;
    atomic_bool failed;
    atomic_bool broken; /* decode fails */
    unsigned most_ticks;
} noted;

static int pass(struct buffer *to, const void *data, size_t length, struct error *err)
{
    return buffer_append(to, data, length) == 0 ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "full");
}

static int decode(void *state, const uint8_t *data, size_t length, struct buffer *inner, struct buffer *outer,
                  struct error *err)
{
    (void)state;
    (void)outer;
    if (noted.broken) {
        return error_set(err, ERROR_NO_ANSWER, 0, "nonsense");
    }
    return pass(inner, data, length, err);
}

static int encode(void *state, const uint8_t *data, size_t length, struct buffer *outer, struct error *err)
{
    (void)state;
    return pass(outer, data, length, err);
}

static int finish(void *state, struct buffer *outer, struct error *err)
{
    (void)state;
    return pass(outer, "<end>", 5, err);
}

static int tick(void *state, struct buffer *outer, struct error *err)
{
    (void)state;
    if (++noted.ticks > noted.most_ticks) {
        return error_set(err, ERROR_NO_ANSWER, 0, "silent");
    }
    return pass(outer, ".", 1, err);
}

static void ended(void *state, const struct error *err)
{
    ck_assert_ptr_eq(state, &noted);
    noted.failed = err != NULL;
    noted.ended++;
}

static const struct pump_codec plain = {.decode = decode, .encode = encode, .ended = ended};
static const struct pump_codec finishing = {
    .decode = decode, .encode = encode, .finish = finish, .ended = ended};
static const struct pump_codec ticking = {
    .decode = decode, .encode = encode, .tick = tick, .tick_ms = 10, .ended = ended};

/* What the engine heard until the end. */
static struct {
    char data[256];
    atomic_uint length;
    atomic_bool ended;
} heard;

static atomic_size_t flooded; /* bytes that it said */

/* ---- The bed ---- */

static void forget(void)
{
    memset(&noted, 0, sizeof noted);
    memset(&heard, 0, sizeof heard);
    flooded = 0;
}

static void open_all(void)
{
    struct http_server server;
    struct error err;

    fake = fake_engine_start();
    http_server_init(&server);
    server.url = strdup("http://server");
    server.unix_socket = strdup(fake_engine_socket(fake));
    ck_assert_msg(http_new(&http, &server, &err) == 0, "%s", err.message);
}

static void wait_for_end(void)
{
    uint64_t start = clock_now_ms();

    while (pump_count() > 0) {
        ck_assert_uint_lt(clock_now_ms() - start, PATIENCE_MS);
        poll(NULL, 0, 5);
    }
}

static void close_all(void)
{
    wait_for_end();
    http_free(http);
    fake_engine_stop(fake);
}

/* A descriptor whose other side is what the next step says. */
static int start_next(const struct pump_codec *codec)
{
    static const char *const headers[] = {"Connection: Upgrade", "Upgrade: tcp", NULL};
    const struct http_request request = {
        .method = "POST", .path = "/start", .headers = headers, .deadline_ms = clock_now_ms() + PATIENCE_MS};
    struct http_answer refused;
    struct http_stream *stream = NULL;
    struct error err;
    int fd;

    http_answer_init(&refused);
    ck_assert_msg(http_upgrade(http, &request, &stream, &refused, &err) == 0, "%s", err.message);
    ck_assert_ptr_nonnull(stream);
    ck_assert_msg(pump_start(stream, codec, &noted, &fd, &err) == 0, "%s", err.message);
    return fd;
}

/* A descriptor whose other side is in the hands of `hijack`. */
static int start(const struct pump_codec *codec, const char *early, void (*hijack)(int fd, void *arg), void *arg)
{
    fake_engine_script(fake, &(struct fake_step){
                                 .request = REQUEST, .how = FAKE_HIJACK, .body = early, .hijack = hijack, .arg = arg});
    return start_next(codec);
}

/* Reads so much, or until the end. */
static size_t take(int fd, char *data, size_t length)
{
    size_t have = 0;

    while (have < length) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        n = recv(fd, data + have, length - have, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET)) {
            break;
        }
        ck_assert_int_gt(n, 0);
        have += (size_t)n;
    }
    return have;
}

static void assert_taken(int fd, const char *text)
{
    char data[64] = "";

    ck_assert_uint_eq(take(fd, data, strlen(text)), strlen(text));
    ck_assert_str_eq(data, text);
}

static void assert_end(int fd)
{
    char byte;

    ck_assert_uint_eq(take(fd, &byte, 1), 0);
}

static void say(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* ---- Engines ---- */

static void hear_all(int fd)
{
    ssize_t n;

    while ((n = recv(fd, heard.data + heard.length, sizeof heard.data - 1 - heard.length, 0)) > 0) {
        heard.length += (unsigned)n;
    }
    heard.ended = true;
}

static void hear_and_say_bye(int fd, void *arg)
{
    (void)arg;
    hear_all(fd);
    (void)!send(fd, "bye", 3, MSG_NOSIGNAL);
}

static void say_and_leave(int fd, void *arg)
{
    (void)!send(fd, arg, strlen(arg), MSG_NOSIGNAL);
}

static void wait_for_quit(int fd, void *arg)
{
    struct pollfd p = {.fd = fd, .events = 0};

    (void)arg;
    (void)poll(&p, 1, -1);
}

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

/* ---- Ends ------------------------------------------------------------------------------------- */

START_TEST(bytes_behind_the_head_come_first)
{
    int fd;

    open_all();
    fd = start(&plain, "early", say_and_leave, (void *)"late");
    assert_taken(fd, "earlylate");
    assert_end(fd);
    wait_for_end();
    ck_assert_uint_eq(noted.ended, 1);
    ck_assert(!noted.failed);
    close(fd);
    close_all();
}
END_TEST

START_TEST(a_half_close_reaches_the_engine_and_what_it_says_then_comes_back)
{
    int fd;

    open_all();
    fd = start(&plain, NULL, hear_and_say_bye, NULL);
    say(fd, "hello");
    shutdown(fd, SHUT_WR);
    assert_taken(fd, "bye");
    assert_end(fd);
    ck_assert_str_eq(heard.data, "hello");
    close(fd);
    close_all();
}
END_TEST

START_TEST(a_codec_may_have_its_own_word_for_a_half_close)
{
    int fd;

    open_all();
    fd = start(&finishing, NULL, echo, NULL);
    say(fd, "hello");
    shutdown(fd, SHUT_WR);
    assert_taken(fd, "hello<end>");
    close(fd);
    close_all();
}
END_TEST

START_TEST(a_descriptor_that_is_closed_still_tells_the_engine_its_last_bytes)
{
    int fd;

    open_all();
    fd = start(&plain, NULL, hear_and_say_bye, NULL);
    say(fd, "last words");
    close(fd);
    close_all();
    ck_assert(heard.ended);
    ck_assert_str_eq(heard.data, "last words");
    ck_assert_uint_eq(noted.ended, 1);
}
END_TEST

START_TEST(a_descriptor_that_is_closed_does_not_wait_for_an_engine_that_does_not_read)
{
    char block[65536] = "";
    int fd;

    open_all();
    fd = start(&plain, NULL, wait_for_quit, NULL);
    for (size_t sent = 0; sent < MOST_HELD;) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, block, sizeof block, MSG_NOSIGNAL);

        if (n < 0 && poll(&p, 1, 200) == 0) {
            break; /* full all the way */
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    close_all();
    ck_assert_uint_eq(noted.ended, 1);
}
END_TEST

START_TEST(nonsense_of_the_engine_ends_the_stream)
{
    int fd;

    noted.broken = true;
    open_all();
    fd = start(&plain, "nonsense", wait_for_quit, NULL);
    assert_end(fd);
    wait_for_end();
    ck_assert_uint_eq(noted.ended, 1);
    ck_assert(noted.failed);
    close(fd);
    close_all();
}
END_TEST

START_TEST(signs_of_life_are_sent_and_their_lack_ends_the_stream)
{
    int fd;

    noted.most_ticks = 3;
    open_all();
    fd = start(&ticking, NULL, hear_and_say_bye, NULL); /* what it answered could come after the end */
    assert_end(fd);
    wait_for_end();
    ck_assert(noted.failed);
    close(fd);
    close_all();
    ck_assert_str_eq(heard.data, "...");
}
END_TEST

/* ---- Who does not read ------------------------------------------------------------------------ */

static const size_t flood_bytes = 16u << 20;

static void flood(int fd, void *arg)
{
    char block[65536];

    (void)arg;
    memset(block, 'x', sizeof block);
    while (flooded < flood_bytes) {
        ssize_t n = send(fd, block, sizeof block, MSG_NOSIGNAL);

        if (n < 0) {
            return;
        }
        flooded += (size_t)n;
    }
}

static uint64_t cpu_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

/* Waits until the engine gets rid of no more. It begins when it is scheduled, and has then said more than the sockets
 * of `fd` hold, since the pump takes some more and its own connection holds as much. */
static size_t settled(int fd)
{
    uint64_t since = clock_now_ms(), start_ms = since;
    size_t last = flooded;
    int held;
    socklen_t length = sizeof held;

    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &held, &length), 0);
    while (last <= (size_t)held || clock_now_ms() - since < 300) {
        poll(NULL, 0, 20);
        if (flooded != last) {
            last = flooded;
            since = clock_now_ms();
        }
        ck_assert_uint_lt(clock_now_ms() - start_ms, PATIENCE_MS);
    }
    return last;
}

START_TEST(who_does_not_read_stops_the_engine_and_costs_no_time)
{
    char *data = malloc(flood_bytes);
    uint64_t before;
    int fd;

    open_all();
    fd = start(&plain, NULL, flood, NULL);
    ck_assert_uint_lt(settled(fd), MOST_HELD);
    before = cpu_ms();
    poll(NULL, 0, 600);
    ck_assert_uint_lt(cpu_ms() - before, 300);
    ck_assert_uint_ge(take(fd, data, flood_bytes), flood_bytes);
    close(fd);
    close_all();
    free(data);
}
END_TEST

START_TEST(an_engine_that_hung_up_costs_no_time_while_its_bytes_wait)
{
    uint64_t before;
    int fd;

    open_all();
    fd = start(&plain, NULL, flood, NULL);
    (void)settled(fd);
    fake_engine_stop(fake); /* hangs up */
    before = cpu_ms();
    poll(NULL, 0, 600);
    ck_assert_uint_lt(cpu_ms() - before, 300);
    ck_assert_uint_eq(pump_count(), 1);
    close(fd);
    wait_for_end();
    http_free(http);
}
END_TEST

START_TEST(a_half_closed_descriptor_costs_no_time)
{
    uint64_t before;
    int fd;

    open_all();
    fd = start(&plain, NULL, wait_for_quit, NULL);
    shutdown(fd, SHUT_WR);
    before = cpu_ms();
    poll(NULL, 0, 600);
    ck_assert_uint_lt(cpu_ms() - before, 300);
    ck_assert_uint_eq(pump_count(), 1);
    close(fd);
    close_all();
}
END_TEST

/* The bytes from `offset` on: any two neighbouring blocks differ. */
static void make_bytes(char *data, size_t offset, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        data[i] = (char)((offset + i) % 251);
    }
}

START_TEST(much_goes_both_ways_at_once)
{
    static char block[65536], expected[65536];
    const size_t total = 4u << 20;
    size_t sent = 0, got = 0;
    int fd;

    open_all();
    fd = start(&plain, NULL, echo, NULL);
    while (got < total) {
        struct pollfd p = {.fd = fd, .events = (short)(POLLIN | (sent < total ? POLLOUT : 0))};
        ssize_t n;

        ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        if ((p.revents & POLLOUT) != 0) {
            make_bytes(block, sent, sizeof block);
            n = send(fd, block, total - sent < sizeof block ? total - sent : sizeof block, MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
        }
        n = recv(fd, block, sizeof block, 0);
        ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
        if (n > 0) {
            make_bytes(expected, got, (size_t)n);
            ck_assert_mem_eq(block, expected, (size_t)n);
            got += (size_t)n;
        }
    }
    close(fd);
    close_all();
}
END_TEST

/* ---- What is left ----------------------------------------------------------------------------- */

static unsigned count_of(const char *folder)
{
    DIR *dir = opendir(folder);
    unsigned n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

/* Threads and descriptors; the engine's own end a moment later than the pumps. */
static void assert_falls_to(const char *folder, unsigned count)
{
    uint64_t begin = clock_now_ms();

    while (count_of(folder) > count) {
        ck_assert_msg(clock_now_ms() - begin < PATIENCE_MS, "%s: %u", folder, count_of(folder));
        poll(NULL, 0, 5);
    }
}

START_TEST(two_hundred_streams_leave_nothing)
{
    unsigned descriptors, threads;
    int fd;

    open_all();
    threads = count_of("/proc/self/task");
    fd = start(&plain, NULL, echo, NULL); /* what is made once is made */
    say(fd, "x");
    assert_taken(fd, "x");
    close(fd);
    wait_for_end();
    assert_falls_to("/proc/self/task", threads);
    descriptors = count_of("/proc/self/fd");
    fake_engine_script(fake, &(struct fake_step){.request = REQUEST, .how = FAKE_HIJACK, .hijack = echo, .times = 200});
    for (unsigned i = 0; i < 200; i++) {
        fd = start_next(&plain);
        say(fd, "x");
        assert_taken(fd, "x");
        close(fd);
    }
    wait_for_end();
    assert_falls_to("/proc/self/task", threads);
    assert_falls_to("/proc/self/fd", descriptors);
    ck_assert_uint_eq(noted.ended, 201);
    close_all();
}
END_TEST

UNIT_SUITE(pump)
{
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, forget, NULL);
    tcase_add_test(tcase, bytes_behind_the_head_come_first);
    tcase_add_test(tcase, a_half_close_reaches_the_engine_and_what_it_says_then_comes_back);
    tcase_add_test(tcase, a_codec_may_have_its_own_word_for_a_half_close);
    tcase_add_test(tcase, a_descriptor_that_is_closed_still_tells_the_engine_its_last_bytes);
    tcase_add_test(tcase, a_descriptor_that_is_closed_does_not_wait_for_an_engine_that_does_not_read);
    tcase_add_test(tcase, nonsense_of_the_engine_ends_the_stream);
    tcase_add_test(tcase, signs_of_life_are_sent_and_their_lack_ends_the_stream);
    tcase_add_test(tcase, who_does_not_read_stops_the_engine_and_costs_no_time);
    tcase_add_test(tcase, an_engine_that_hung_up_costs_no_time_while_its_bytes_wait);
    tcase_add_test(tcase, a_half_closed_descriptor_costs_no_time);
    tcase_add_test(tcase, much_goes_both_ways_at_once);
    tcase_add_test(tcase, two_hundred_streams_leave_nothing);
}
