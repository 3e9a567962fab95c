/* The built hand, spoken to over its socket: greeting, commands and their streams. */
#include "tests/unit/hand_driver.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

static struct hand hand;
static struct host host;
static struct outcome o;

static void setup(void)
{
    hand_start(&hand, false);
    host_open(&host, &hand, 1);
    outcome_init(&o);
}

static void teardown(void)
{
    outcome_release(&o);
    host_close(&host);
    ck_assert_int_eq(hand_stop(&hand), 0);
}

static bool text_is(const struct buffer *b, const char *text)
{
    return b->length == strlen(text) && (b->length == 0 || memcmp(b->data, text, b->length) == 0);
}

static void run(const char *command)
{
    outcome_release(&o);
    host_run(&host, command, &o);
}

static struct wire_exec request(const char *command)
{
    return (struct wire_exec){
        .command = {command, strlen(command)},
        .cwd = {"", 0},
        .env = (const uint8_t *)"",
        .keep = 1u << 20,
    };
}

static unsigned count_entries(const char *path)
{
    cleanup_dir DIR *dir = opendir(path);
    unsigned n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    return n;
}

/* ---- Streams and results ----------------------------------------------------------------------- */

START_TEST(both_streams_come_back_apart)
{
    run("printf 'o\\n'; printf 'e\\n' >&2");
    ck_assert(text_is(&o.out[0], "o\n"));
    ck_assert(text_is(&o.out[1], "e\n"));
    ck_assert_int_eq(o.exit.exit_code, 0);
    ck_assert_uint_gt(o.pid, 0);
    ck_assert_uint_gt(o.exit.peak_kib, 100);
    ck_assert_uint_eq(o.exit.left, 0);
}
END_TEST

START_TEST(exit_codes_and_signals_are_told_apart)
{
    run("exit 7");
    ck_assert_int_eq(o.exit.exit_code, 7);
    ck_assert_uint_eq(o.exit.signal, 0);
    run("kill -9 $$");
    ck_assert_int_eq(o.exit.exit_code, -1);
    ck_assert_uint_eq(o.exit.signal, SIGKILL);
    run("kill -TERM $$");
    ck_assert_uint_eq(o.exit.signal, SIGTERM);
    run("exit 137");
    ck_assert_int_eq(o.exit.exit_code, 137);
}
END_TEST

START_TEST(a_command_starts_in_the_workdir_with_nothing_on_stdin)
{
    char expected[200];

    run("pwd; cat; umask; ls /proc/self/fd | wc -l; trap; ulimit -n");
    snprintf(expected, sizeof expected, "%s\n", hand.workdir);
    ck_assert_int_eq(memcmp(o.out[0].data, expected, strlen(expected)), 0);
    /* ls has its own directory open beside the three streams */
    ck_assert_ptr_nonnull(strstr(buffer_text(&o.out[0]), "\n4\n"));
    run("ps -o sid= -p $$ | tr -d ' '; echo $$; grep SigBlk /proc/self/status");
    ck_assert_ptr_nonnull(strstr(buffer_text(&o.out[0]), "SigBlk:\t0000000000000000"));
}
END_TEST

START_TEST(a_relative_or_absolute_cwd_is_used)
{
    struct wire_exec exec = request("pwd");
    char expected[200];

    run("mkdir -p 'a b/c'");
    exec.cwd = (struct wire_text){"a b/c", 5};
    host_send_exec(&host, 7, &exec);
    host_finish(&host, 7, &o);
    snprintf(expected, sizeof expected, "%s/a b/c\n", hand.workdir);
    ck_assert(text_is(&o.out[0], expected));
    exec.cwd = (struct wire_text){"/", 1};
    outcome_release(&o);
    host_send_exec(&host, 8, &exec);
    host_finish(&host, 8, &o);
    ck_assert(text_is(&o.out[0], "/\n"));
}
END_TEST

static void cwd_fails(const char *cwd, enum error_code code)
{
    struct wire_exec exec = request("touch ran");

    exec.cwd = (struct wire_text){cwd, strlen(cwd)};
    host_send_exec(&host, 9, &exec);
    host_finish(&host, 9, &o);
    ck_assert(o.failed);
    ck_assert_int_eq(o.code, code);
    ck_assert_ptr_nonnull(strstr(o.message, cwd));
}

START_TEST(a_cwd_that_is_none_is_said_and_nothing_runs)
{
    run("touch file; mkdir -m 0 shut");
    cwd_fails("no/such/place", ERROR_NO_SUCH_FILE);
    cwd_fails("file", ERROR_NOT_DIRECTORY);
    if (geteuid() != 0) {
        cwd_fails("shut", ERROR_NOT_WRITABLE);
    }
    run("ls ran");
    ck_assert_int_ne(o.exit.exit_code, 0);
}
END_TEST

START_TEST(the_environment_is_the_hands_and_what_was_asked_for)
{
    cleanup_buffer struct buffer env = BUFFER_INIT(4096);
    struct wire_exec exec = request("printf '%s|' \"$A\" \"$B\" \"$HANDSFS_HAND_TEST\"");

    ck_assert_int_eq(wire_put_bytes(&env, "A=$(x) y", 8), 0);
    ck_assert_int_eq(wire_put_bytes(&env, "HANDSFS_HAND_TEST=new", 21), 0);
    ck_assert_int_eq(wire_put_bytes(&env, "B=", 2), 0);
    exec.env = env.data;
    exec.env_length = env.length;
    exec.env_count = 3;
    host_send_exec(&host, 3, &exec);
    host_finish(&host, 3, &o);
    ck_assert(text_is(&o.out[0], "$(x) y||new|"));
    run("printf '%s|' \"$A\" \"$HANDSFS_HAND_TEST\"");
    ck_assert(text_is(&o.out[0], "|old|"));
}
END_TEST

START_TEST(a_command_of_four_mebibytes_is_run)
{
    size_t length = 4u << 20;
    char *command = malloc(length + 200);
    struct wire_exec exec;

    ck_assert_ptr_nonnull(command);
    memset(command, ' ', length);
    command[0] = ':';
    snprintf(command + length, 200, "\necho \"${#BASH_EXECUTION_STRING}\" >/dev/null; "
             "ls /proc/self/fd | wc -l; cat <<E\nlast\nE\nexit 3\n");
    exec = request(command);
    host_send_exec(&host, 4, &exec);
    host_finish(&host, 4, &o);
    free(command);
    ck_assert(text_is(&o.out[1], ""));
    ck_assert(text_is(&o.out[0], "4\nlast\n"));
    ck_assert_int_eq(o.exit.exit_code, 3);
}
END_TEST

START_TEST(output_over_the_cap_is_counted_and_dropped)
{
    run("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2; echo done >&2");
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(o.out[i].length, 1u << 20);
        ck_assert_uint_eq(o.exit.sent[i], 1u << 20);
    }
    ck_assert_uint_eq(o.exit.total[0], 3000000);
    ck_assert_uint_eq(o.exit.total[1], 2000005);
    ck_assert_int_eq(o.exit.exit_code, 0);
}
END_TEST

START_TEST(a_command_runs_on_though_the_host_takes_nothing)
{
    struct wire_exec exec = request("yes 0123456789 | head -c 20000000; touch through");
    uint64_t end = clock_now_ms() + DRIVER_WAIT_MS;
    char path[200];
    struct stat st;

    snprintf(path, sizeof path, "%s/through", hand.workdir);
    host_send_exec(&host, 5, &exec);
    while (stat(path, &st) < 0) {
        ck_assert(clock_now_ms() < end);
        usleep(2000);
    }
    host_finish(&host, 5, &o);
    ck_assert_uint_eq(o.exit.total[0], 20000000);
}
END_TEST

START_TEST(more_than_may_be_kept_is_refused)
{
    struct wire_exec exec = request("true");

    exec.keep = (4u << 20) + 1;
    host_send_exec(&host, 6, &exec);
    host_finish(&host, 6, &o);
    ck_assert(o.failed);
    ck_assert_int_eq(o.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(bash_env_is_the_commands_own_noise)
{
    cleanup_buffer struct buffer env = BUFFER_INIT(4096);
    char entry[200];
    struct wire_exec exec = request("echo real");

    run("echo 'echo noise' >noise.sh");
    snprintf(entry, sizeof entry, "BASH_ENV=%s/noise.sh", hand.workdir);
    ck_assert_int_eq(wire_put_bytes(&env, entry, strlen(entry)), 0);
    exec.env = env.data;
    exec.env_length = env.length;
    exec.env_count = 1;
    host_send_exec(&host, 3, &exec);
    host_finish(&host, 3, &o);
    ck_assert(text_is(&o.out[0], "noise\nreal\n"));
    ck_assert_int_eq(o.exit.exit_code, 0);
}
END_TEST

/* ---- Input ------------------------------------------------------------------------------------- */

/* Sends `length` bytes within the credit, taking frames in between; true if the execution ended first. */
static bool feed(uint64_t id, uint64_t length)
{
    static const char zeros[65536];
    uint64_t sent = 0;

    while (sent < length) {
        struct frame f;
        uint64_t room = o.want - sent < length - sent ? o.want - sent : length - sent;

        if (room > 0) {
            size_t n = room < sizeof zeros ? (size_t)room : sizeof zeros;

            host_send_input(&host, id, sent, zeros, n);
            sent += n;
            continue;
        }
        f = host_next(&host);
        if (outcome_take(&o, &f)) {
            return true;
        }
    }
    host_send_empty(&host, WIRE_EXEC_EOF, id);
    return false;
}

START_TEST(ten_mebibytes_of_stdin_arrive)
{
    struct wire_exec exec = request("wc -c");

    exec.has_stdin = true;
    host_send_exec(&host, 2, &exec);
    ck_assert(!feed(2, 10u << 20));
    host_finish(&host, 2, &o);
    ck_assert(text_is(&o.out[0], "10485760\n"));
}
END_TEST

START_TEST(stdin_that_nobody_reads_does_not_stop_the_host)
{
    struct wire_exec exec = request("exec <&-; sleep 0.2; exit 4");

    exec.has_stdin = true;
    host_send_exec(&host, 2, &exec);
    if (!feed(2, 10u << 20)) {
        host_finish(&host, 2, &o);
    }
    ck_assert_int_eq(o.exit.exit_code, 4);
}
END_TEST

START_TEST(stdin_beyond_the_credit_ends_the_connection)
{
    static const char bytes[65536];
    struct wire_exec exec = request("sleep 60");
    struct frame f;

    exec.has_stdin = true;
    host_send_exec(&host, 2, &exec);
    f = host_next(&host);
    ck_assert_int_eq(f.header.type, WIRE_EXEC_STARTED);
    host_send_input(&host, 2, 1u << 20, bytes, sizeof bytes);
    ck_assert(host_sees_end(&host));
}
END_TEST

/* ---- Many -------------------------------------------------------------------------------------- */

START_TEST(thirty_two_commands_at_once_each_get_their_own)
{
    struct outcome all[32];
    char command[32][80];
    unsigned over = 0;

    for (unsigned i = 0; i < 32; i++) {
        struct wire_exec exec;

        snprintf(command[i], sizeof command[i], "seq 1 20000; sleep 0.1; exit %u", i);
        exec = request(command[i]);
        outcome_init(&all[i]);
        host_send_exec(&host, 100 + i, &exec);
    }
    while (over < 32) {
        struct frame f = host_next(&host);

        ck_assert_uint_ge(f.header.id, 100);
        ck_assert_uint_lt(f.header.id, 132);
        over += outcome_take(&all[f.header.id - 100], &f);
    }
    for (unsigned i = 0; i < 32; i++) {
        ck_assert_int_eq(all[i].exit.exit_code, (int)i);
        ck_assert_uint_eq(all[i].out[0].length, 108894);
        host_send_empty(&host, WIRE_EXEC_FORGET, 100 + i);
        outcome_release(&all[i]);
    }
}
END_TEST

START_TEST(many_commands_leave_neither_descriptors_nor_zombies)
{
    char fds[64];
    char children[100];
    unsigned before;

    snprintf(fds, sizeof fds, "/proc/%ld/fd", (long)hand.pid);
    run("true");
    before = count_entries(fds);
    for (unsigned i = 0; i < 500; i++) {
        run("true");
        ck_assert_int_eq(o.exit.exit_code, 0);
    }
    run("true");
    /* Only root may look into the hand. */
    ck_assert(before == 0 || count_entries(fds) <= before + 3);
    snprintf(children, sizeof children, "ps -o stat= --ppid %ld | grep -c Z", (long)hand.pid);
    run(children);
    ck_assert_msg(o.out[0].data[0] <= '1', "zombies: %s", buffer_text(&o.out[0]));
}
END_TEST

START_TEST(a_command_too_many_is_refused_and_a_later_one_runs)
{
    struct wire_exec exec = request("sleep 60");
    unsigned started = 0;

    exec.keep = 0;
    for (unsigned i = 0; i < 257; i++) {
        host_send_exec(&host, 1000 + i, &exec);
    }
    while (!o.failed || started < 256) {
        struct frame f = host_next(&host);

        started += f.header.type == WIRE_EXEC_STARTED;
        outcome_take(&o, &f);
    }
    ck_assert_int_eq(o.code, ERROR_BAD_REQUEST);
    for (unsigned i = 0; i < 256; i++) {
        host_send_empty(&host, WIRE_EXEC_FORGET, 1000 + i);
    }
    do {
        run("echo free");
    } while (o.failed);
    ck_assert(text_is(&o.out[0], "free\n"));
}
END_TEST

/* ---- Coming back ------------------------------------------------------------------------------- */

START_TEST(a_host_that_comes_back_gets_what_it_missed)
{
    struct wire_exec exec = request("echo one; read -r; echo two; echo err >&2; exit 5");
    struct frame f;

    exec.has_stdin = true;
    host_send_exec(&host, 2, &exec);
    do {
        f = host_next(&host);
        outcome_take(&o, &f);
    } while (o.out[0].length < 4 || o.want == 0);
    host_close(&host);
    host_open(&host, &hand, 1);
    host_send_attach(&host, 2, 0, 0); /* as if the first line had been lost */
    buffer_clear(&o.out[0]);
    host_send_input(&host, 2, 0, "\n", 1);
    host_finish(&host, 2, &o);
    ck_assert(text_is(&o.out[0], "one\ntwo\n"));
    ck_assert(text_is(&o.out[1], "err\n"));
    ck_assert_int_eq(o.exit.exit_code, 5);
}
END_TEST

START_TEST(a_command_that_ended_meanwhile_is_still_told)
{
    struct wire_exec exec = request("echo out; exit 6");

    host_send_exec(&host, 2, &exec);
    host_finish(&host, 2, &o);
    host_send_exec(&host, 3, &exec);
    host_close(&host);
    host_open(&host, &hand, 1);
    outcome_release(&o);
    host_send_attach(&host, 3, 0, 0);
    host_finish(&host, 3, &o);
    ck_assert(o.failed || o.exit.exit_code == 6); /* the request may have been lost */
    outcome_release(&o);
    host_send_attach(&host, 2, 0, 0);
    host_finish(&host, 2, &o);
    ck_assert(o.failed);
    ck_assert_int_eq(o.code, ERROR_IO);
}
END_TEST

START_TEST(credit_lets_the_hand_forget)
{
    struct wire_exec exec = request("head -c 200000 /dev/zero; read -r; exit 0");
    struct frame f;

    exec.has_stdin = true;
    host_send_exec(&host, 2, &exec);
    while (o.out[0].length < 200000) {
        f = host_next(&host);
        outcome_take(&o, &f);
    }
    host_send_credit(&host, 2, WIRE_STDOUT, 200000);
    host_send_attach(&host, 2, 200000, 0);
    host_send_empty(&host, WIRE_EXEC_EOF, 2);
    host_finish(&host, 2, &o);
    ck_assert_uint_eq(o.exit.total[0], 200000);
    host_send_exec(&host, 3, &exec);
    while (host_next(&host).header.type != WIRE_EXEC_OUTPUT) {
    }
    host_send_credit(&host, 3, WIRE_STDOUT, 1u << 30);
    ck_assert(host_sees_end(&host));
}
END_TEST

/* ---- Hostile and odd hosts --------------------------------------------------------------------- */

START_TEST(bytes_that_are_no_frames_end_that_connection_only)
{
    static const char *const attacks[] = {
        "\xff\xff\xff\xff\x01\x00\x00\x00________",
        "\x00\x00\x00\x00\x03\x00\x00\x00________",
        "\x02\x00\x00\x00\x01\x00\x00\x00________xx",
        "\x00\x00\x00\x00\x63\x00\x00\x00________",
    };

    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        struct host attacker = {.fd = host_connect(&hand)};

        buffer_init(&attacker.in, 1u << 20);
        ck_assert_int_gt(send(attacker.fd, attacks[i], i == 2 ? 18 : 16, MSG_NOSIGNAL), 0);
        ck_assert(host_sees_end(&attacker));
        host_close(&attacker);
    }
    run("echo fine");
    ck_assert(text_is(&o.out[0], "fine\n"));
}
END_TEST

START_TEST(frames_of_a_known_host_that_make_no_sense_end_its_connection)
{
    static const enum wire_type types[] = {WIRE_HELLO, WIRE_WELCOME, WIRE_EXEC, WIRE_EXEC_SIGNAL,
                                           WIRE_EXEC_CREDIT, WIRE_EXEC_EXIT, WIRE_EXEC_INPUT};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct host attacker;

        host_open(&attacker, &hand, 9);
        host_send_empty(&attacker, types[i], 1);
        ck_assert(host_sees_end(&attacker));
        host_close(&attacker);
    }
    run("echo fine");
    ck_assert(text_is(&o.out[0], "fine\n"));
}
END_TEST

START_TEST(a_file_call_that_is_none_is_answered)
{
    struct frame f;
    struct wire_reply reply;

    host_send_empty(&host, WIRE_CALL, 77);
    f = host_next(&host);
    ck_assert_int_eq(f.header.type, WIRE_RESULT);
    ck_assert_uint_eq(f.header.id, 77);
    ck_assert_int_eq(wire_get_reply(f.payload, f.header.length, WIRE_RELEASE, &reply), 0);
    ck_assert_int_eq(reply.code, ERROR_BAD_REQUEST);
}
END_TEST

static void send_call(uint64_t id, const struct wire_call *call)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(4096);
    size_t frame = wire_begin_frame(&out, WIRE_CALL, id);

    ck_assert_int_eq(wire_put_call(&out, call), 0);
    wire_end_frame(&out, frame);
    host_send(&host, &out);
}

static void send_getattr(uint64_t id)
{
    struct wire_call call = {.op = WIRE_GETATTR, .ref = {.path = {"", 0}}};

    send_call(id, &call);
}

START_TEST(a_thousand_file_calls_in_flight_are_each_answered_once)
{
    static bool seen[1000];

    for (unsigned i = 0; i < 1000; i++) {
        send_getattr(i);
        if (i % 3 == 0) {
            host_send_empty(&host, WIRE_CANCEL, i);
        }
    }
    for (unsigned i = 0; i < 1000; i++) {
        struct frame f = host_next(&host);

        ck_assert_int_eq(f.header.type, WIRE_RESULT);
        ck_assert_uint_lt(f.header.id, 1000);
        ck_assert(!seen[f.header.id]);
        seen[f.header.id] = true;
    }
    host_send_empty(&host, WIRE_PING, 5);
    ck_assert_int_eq(host_next(&host).header.type, WIRE_PONG);
}
END_TEST

static uint64_t open_file(const char *name)
{
    struct wire_call call = {.op = WIRE_OPEN, .ref = {.path = {name, strlen(name)}}};
    struct wire_reply reply;
    struct frame f;

    send_call(1, &call);
    f = host_next(&host);
    ck_assert_int_eq(f.header.type, WIRE_RESULT);
    ck_assert_int_eq(wire_get_reply(f.payload, f.header.length, WIRE_OPEN, &reply), 0);
    ck_assert_int_eq(reply.code, ERROR_NONE);
    return reply.handle;
}

/* Kibibytes that the hand has in memory; 0 where that is not shown. */
static unsigned long resident(void)
{
    cleanup_file FILE *f = NULL;
    char path[64], line[200];
    unsigned long kib = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)hand.pid);
    f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "VmRSS: %lu", &kib) == 1) {
            break;
        }
    }
    return kib;
}

START_TEST(replies_that_the_host_does_not_take_wait_within_bounds)
{
    struct wire_call call = {.op = WIRE_READ, .size = 1u << 20};
    bool may_grow = true;
    unsigned long kib = 0;

    run("head -c 1048576 /dev/zero >file; printf '%s' done");
    ck_assert(text_is(&o.out[0], "done"));
    call.ref.handle = open_file("file");
    call.ref.path.data = "";
    for (unsigned i = 0; i < 300; i++) {
        send_call(i, &call);
    }
    while (may_grow) {
        unsigned long before = kib;

        usleep(100000);
        kib = resident();
        may_grow = kib > before + 1024;
    }
    ck_assert_uint_lt(kib, 96u << 10);
    for (unsigned i = 0; i < 300; i++) {
        struct frame f = host_next(&host);

        ck_assert_int_eq(f.header.type, WIRE_RESULT);
        ck_assert_uint_gt(f.header.length, 1u << 20);
    }
}
END_TEST

START_TEST(more_hosts_come_and_go_than_it_remembers)
{
    for (unsigned i = 2; i < 200; i++) {
        struct host other;

        host_open(&other, &hand, (uint8_t)i);
        host_send_empty(&other, WIRE_PING, 1);
        ck_assert_int_eq(host_next(&other).header.type, WIRE_PONG);
        host_close(&other);
    }
    run("echo fine");
    ck_assert(text_is(&o.out[0], "fine\n"));
}
END_TEST

START_TEST(a_host_that_comes_twice_takes_over)
{
    struct host second;

    host_open(&second, &hand, 1);
    ck_assert(host_sees_end(&host));
    host_send_empty(&second, WIRE_PING, 1);
    ck_assert_int_eq(host_next(&second).header.type, WIRE_PONG);
    host_close(&second);
}
END_TEST

/* ---- The program ------------------------------------------------------------------------------- */

/* Runs it with these words, up to the first NULL, and gives what it printed and its wait status. */
static int program(char *text, size_t size, const char *const words[8])
{
    int ends[2];
    size_t length = 0;
    ssize_t n;
    int status;
    pid_t pid;

    ck_assert_int_eq(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        char *argv[10] = {(char *)"hand"};

        for (unsigned i = 0; i < 8 && words[i] != NULL; i++) {
            argv[i + 1] = (char *)words[i];
        }
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execv(getenv("HANDSFS_HAND"), argv);
        _exit(126);
    }
    close(ends[1]);
    while (length < size - 1 && (n = read(ends[0], text + length, size - 1 - length)) > 0) {
        length += (size_t)n;
    }
    text[length] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(it_says_how_it_is_used_and_its_version)
{
    char text[4096];

    ck_assert_int_eq(program(text, sizeof text, (const char *const[8]){"--help"}), 0);
    ck_assert_ptr_nonnull(strstr(text, "--listen-fd"));
    ck_assert_int_eq(program(text, sizeof text, (const char *const[8]){"version"}), 0);
    ck_assert_str_eq(text, HANDSFS_VERSION "\n");
    ck_assert_int_ne(program(text, sizeof text, (const char *const[8]){NULL}), 0);
    ck_assert_int_ne(program(text, sizeof text, (const char *const[8]){"serve", "--workdir", "/tmp"}),
                     0);
}
END_TEST

START_TEST(what_it_cannot_do_is_said_on_the_ready_pipe)
{
    static const char *const words[8] = {"serve", "--workdir", "/dev/null/x", "--socket",
                                         "/tmp/test-hand.unused", "--ready-fd", "1"};
    char text[4096];

    ck_assert_int_ne(program(text, sizeof text, words), 0);
    unlink("/tmp/test-hand.unused");
    ck_assert_ptr_nonnull(strstr(text, "\nerror: "));
    ck_assert_ptr_nonnull(strstr(text, "/dev/null"));
}
END_TEST

/* Or it would stay, and nobody would know of it. */
START_TEST(it_ends_when_nobody_waits_for_its_readiness)
{
    int ends[2];
    int status;
    pid_t pid;

    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], 9);
        execl(getenv("HANDSFS_HAND"), "hand", "serve", "--workdir", "/tmp", "--socket",
              "/tmp/test-hand.unheard", "--ready-fd", "9", (char *)NULL);
        _exit(126);
    }
    close(ends[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    unlink("/tmp/test-hand.unheard");
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 1);
}
END_TEST

UNIT_SUITE(hand)
{
    setenv("HANDSFS_HAND_TEST", "old", 1);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, both_streams_come_back_apart);
    tcase_add_test(tcase, exit_codes_and_signals_are_told_apart);
    tcase_add_test(tcase, a_command_starts_in_the_workdir_with_nothing_on_stdin);
    tcase_add_test(tcase, a_relative_or_absolute_cwd_is_used);
    tcase_add_test(tcase, a_cwd_that_is_none_is_said_and_nothing_runs);
    tcase_add_test(tcase, the_environment_is_the_hands_and_what_was_asked_for);
    tcase_add_test(tcase, a_command_of_four_mebibytes_is_run);
    tcase_add_test(tcase, output_over_the_cap_is_counted_and_dropped);
    tcase_add_test(tcase, a_command_runs_on_though_the_host_takes_nothing);
    tcase_add_test(tcase, more_than_may_be_kept_is_refused);
    tcase_add_test(tcase, bash_env_is_the_commands_own_noise);
    tcase_add_test(tcase, ten_mebibytes_of_stdin_arrive);
    tcase_add_test(tcase, stdin_that_nobody_reads_does_not_stop_the_host);
    tcase_add_test(tcase, stdin_beyond_the_credit_ends_the_connection);
    tcase_add_test(tcase, thirty_two_commands_at_once_each_get_their_own);
    tcase_add_test(tcase, many_commands_leave_neither_descriptors_nor_zombies);
    tcase_add_test(tcase, a_command_too_many_is_refused_and_a_later_one_runs);
    tcase_add_test(tcase, a_host_that_comes_back_gets_what_it_missed);
    tcase_add_test(tcase, a_command_that_ended_meanwhile_is_still_told);
    tcase_add_test(tcase, credit_lets_the_hand_forget);
    tcase_add_test(tcase, bytes_that_are_no_frames_end_that_connection_only);
    tcase_add_test(tcase, frames_of_a_known_host_that_make_no_sense_end_its_connection);
    tcase_add_test(tcase, a_file_call_that_is_none_is_answered);
    tcase_add_test(tcase, a_thousand_file_calls_in_flight_are_each_answered_once);
    tcase_add_test(tcase, replies_that_the_host_does_not_take_wait_within_bounds);
    tcase_add_test(tcase, more_hosts_come_and_go_than_it_remembers);
    tcase_add_test(tcase, a_host_that_comes_twice_takes_over);
    tcase_add_test(tcase, it_says_how_it_is_used_and_its_version);
    tcase_add_test(tcase, what_it_cannot_do_is_said_on_the_ready_pipe);
    tcase_add_test(tcase, it_ends_when_nobody_waits_for_its_readiness);
}
