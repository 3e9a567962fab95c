/* The contract's rows about networks, hardening and hostile surroundings. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "tests/contract/session.h"

START_TEST(without_a_network_there_is_no_route)
{
    struct sandbox_spec spec;

    session_spec(&spec);
    session_open(&S, &spec);
    ck_assert_str_eq(session_output(&S, "tail -n +2 /proc/net/route"), "");
    session_close(&S, true);
}
END_TEST

START_TEST(with_the_full_network_it_is_the_engine_s)
{
    struct sandbox_spec spec;
    struct run run;

    session_spec(&spec);
    spec.network = NETWORK_FULL;
    session_open(&S, &spec);
    run = session_exec(&S, "tail -n +2 /proc/net/route; grep -c . /proc/net/dev", 10000);
    assert_exit(run, 0);
    if (fixture.is_local) { /* the host's own: as many interfaces as here */
        cleanup_file FILE *host = fopen("/proc/net/dev", "r");
        char line[512];
        int lines = 0;

        while (host != NULL && fgets(line, sizeof line, host) != NULL) {
            lines++;
        }
        ck_assert_int_eq(atoi(session_output(&S, "grep -c . /proc/net/dev")), lines);
    } else {
        ck_assert_uint_gt(run.result.out[0].length, 3);
    }
    session_close(&S, true);
}
END_TEST

static void read_only(struct sandbox_spec *spec)
{
    spec->read_only_root = true;
}

static void read_only_as_nobody(struct sandbox_spec *spec)
{
    spec->read_only_root = true;
    spec->user = strdup("65534");
}

START_TEST(a_read_only_root_has_a_writable_workdir_and_tmp)
{
    static void (*const changes[])(struct sandbox_spec *) = {read_only, read_only_as_nobody};
    static uint8_t large[256 * 1024];
    struct sandbox_spec spec;
    struct error err = {0};
    struct run run;

    session_spec(&spec);
    changes[_i](&spec);
    session_open(&S, &spec);
    run = session_exec(&S, "touch /etc/x", 10000);
    assert_ran(run);
    ck_assert_int_ne(run.result.exit_code, 0);
    session_output(&S, "mkdir -p /workspace/d /tmp/d && touch /workspace/d/f /tmp/d/f");
    assert_ok(session_write(&S, "/workspace/a/b", "x", 1, &err), err);
    assert_ok(session_write(&S, "/tmp/a/b", "x", 1, &err), err);
    assert_fault(session_write(&S, "/etc/x", large, sizeof large, &err), err, ERROR_NOT_WRITABLE);
    assert_fault(session_write(&S, "/etc/y", "x", 1, &err), err, ERROR_NOT_WRITABLE);
    assert_fault(session_write(&S, "/newtop/y", "x", 1, &err), err, ERROR_NOT_WRITABLE);
    assert_fault(session_write(&S, "/etc/hosts", large, sizeof large, &err), err, ERROR_NOT_REPLACEABLE);
    assert_fault(session_write(&S, "/dev/null", "x", 1, &err), err, ERROR_NOT_REPLACEABLE);
    session_close(&S, true);
}
END_TEST

START_TEST(a_configured_user_is_the_one_inside)
{
    struct sandbox_spec spec;
    struct error err;

    session_spec(&spec);
    spec.user = strdup("65534");
    session_open(&S, &spec);
    ck_assert_str_eq(session_output(&S, "id -u"), "65534\n");
    assert_ok(session_write(&S, "/workspace/f", "x", 1, &err), err);
    ck_assert_str_eq(session_output(&S, "stat -c %u f"), "65534\n");
    session_close(&S, true);
}
END_TEST

/* What root may do and an unprivileged user may not: read a file of mode 0. */
#define OVERRIDE "echo x >f; chmod 0 f; cat f >/dev/null 2>&1 && echo may || echo may not"

START_TEST(a_dropped_capability_is_gone)
{
    struct sandbox_spec spec;
    const char *plain;

    if (geteuid() != 0) {
        return; /* an ordinary user's sandbox has no capability to drop */
    }
    session_spec(&spec);
    session_open(&S, &spec);
    plain = session_output(&S, OVERRIDE);
    ck_assert_str_eq(plain, "may\n");
    session_close(&S, true);

    session_spec(&spec);
    spec.cap_drop = calloc(2, sizeof *spec.cap_drop);
    spec.cap_drop[0] = strdup("DAC_OVERRIDE");
    session_open(&S, &spec);
    ck_assert_str_eq(session_output(&S, OVERRIDE), "may not\n");
    session_close(&S, true);
}
END_TEST

START_TEST(an_unknown_capability_is_refused)
{
    cleanup_spec struct sandbox_spec spec = {0};
    struct error err = {0};

    session_spec(&spec);
    spec.cap_drop = calloc(2, sizeof *spec.cap_drop);
    spec.cap_drop[0] = strdup("FLYING");
    assert_fault(sandbox_spec_check(&spec, &err), err, ERROR_BAD_REQUEST);
}
END_TEST

static bool is_cluster(void)
{
    return strcmp(fixture.backend->name, "k8s") == 0;
}

#define LIMIT_MS 180000 /* until a shell has taken in what is too much, on a busy machine */

static void check_limit(int which)
{
    static const char *const commands[] = {
        "for i in $(seq 200); do sleep 300 & done 2>/dev/null; jobs -p | wc -l",
        "x=$(head -c 600M /dev/zero | tr '\\0' x); echo ${#x}",
        "s=$(date +%s%N); while [ $(($(date +%s%N) - s)) -lt 2000000000 ]; do :; done",
    };
    struct run run = session_exec(&S, commands[which], LIMIT_MS);

    assert_ran(run);
    if (which == 0) {
        ck_assert_int_lt(atoi(buffer_text(&run.result.out[0])), 64);
    } else if (which == 1) {
        ck_assert_str_ne(buffer_text(&run.result.out[0]), "629145600\n");
        ck_assert(!run.result.oom_known || run.result.oom_killed);
    } else {
        ck_assert_uint_gt(run.result.user_us + run.result.system_us, 0);
        ck_assert_uint_lt(run.result.user_us + run.result.system_us, 1700000); /* half of two seconds, and slack */
    }
}

/* A limit is kept, or provision says that it cannot be: never neither. */
START_TEST(a_limit_is_kept_or_refused)
{
    struct sandbox_spec spec;
    struct error err = {0};
    struct sandbox probe = {0};

    session_spec(&spec);
    if (_i == 0) {
        spec.pids = 64;
    } else if (_i == 1) {
        spec.memory_bytes = UINT64_C(256) << 20;
    } else {
        spec.cpu_millis = 500;
    }
    assert_ok(sandbox_spec_check(&spec, &err), err);
    if (sandbox_provision(fixture.backend, &spec, UINT64_MAX, &probe, &err) < 0) {
        ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
        /* Here root can give every one of them, but no Pod can be given a number of processes. */
        ck_assert(geteuid() != 0 || (_i == 0 && is_cluster()));
        sandbox_spec_release(&spec);
        return;
    }
    sandbox_release(&probe);
    session_open(&S, &spec);
    check_limit(_i);
    session_close(&S, true);
}
END_TEST

START_TEST(a_fork_bomb_within_its_limit_ends_at_its_deadline)
{
    struct sandbox_spec spec;
    struct run run;

    if (geteuid() != 0 || is_cluster()) {
        return; /* no limit can be given here, and without one this would be the machine's end */
    }
    session_spec(&spec);
    spec.pids = 300;
    session_open(&S, &spec);
    run = session_exec(&S, "f() { sleep 987658 & f | f; }; f 2>/dev/null; sleep 987658", 1000);
    assert_ran(run);
    ck_assert(run.result.timed_out);
    for (unsigned i = 0; i < 600; i++) { /* until the last of them has left room for a command */
        run = session_exec(&S, "true", 10000);
        if (!run.failed) {
            break;
        }
        usleep(50000);
    }
    ck_assert_int_eq(session_wait_count(&S, "sleep 987658", 0), 0);
    session_close(&S, true);
}
END_TEST

START_TEST(hostile_variables_corrupt_nothing)
{
    static const char *const rows[] = {"BASH_ENV=/workspace/evil", "SHELLOPTS=monitor",
                                       "PATH=/workspace/bin:/nonexistent", "LD_PRELOAD=/workspace/evil.so",
                                       "IFS=abc", "PS4=$(echo x >&2)", "ENV=/workspace/evil"};
    struct sandbox_spec spec;
    struct buffer content;
    struct error err;
    struct run run;

    session_spec(&spec);
    assert_ok(env_list_set(&spec.env, rows[_i], &err), err);
    session_open(&S, &spec);
    assert_ok(session_write(&S, "evil", "echo banner; set -e\n", 20, &err), err);
    assert_ok(session_write(&S, "bin/mv", "#!/bin/sh\necho planted\n", 23, &err), err);
    assert_ok(session_write(&S, "bin/cat", "#!/bin/sh\necho planted\n", 23, &err), err);
    assert_ok(session_read(&S, "evil", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "echo banner; set -e\n");
    run = session_exec(&S, "exit 3", 20000);
    assert_exit(run, 3);
    run = session_exec(&S, "/bin/sleep 987700 & /bin/sleep 987700", 500);
    assert_ran(run);
    ck_assert(run.result.timed_out);
    assert_no_sleep_is_left(&S);
    session_close(&S, true);
}
END_TEST

START_TEST(a_full_disk_is_said_and_the_old_content_stays)
{
    static uint8_t bytes[3u << 20];
    cleanup_free char *before = strdup(getenv("HANDSFS_STATE_DIR"));
    char dir[] = "/tmp/handsfs-contract-XXXXXX";
    struct sandbox_spec spec;
    struct buffer content;
    struct error err = {0};
    int r;

    const char *fork_mode = getenv("CK_FORK");

    if (geteuid() != 0 || !fixture.is_local) {
        return; /* needs a small disk below the workdir; engines have the row below */
    }
    if (fork_mode != NULL && strcmp(fork_mode, "no") == 0) {
        return; /* the mount namespace made here would stay with the rows that follow */
    }
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=700"), 0);
    ck_assert_int_eq(setenv("HANDSFS_STATE_DIR", dir, 1), 0);
    session_spec(&spec);
    session_open(&S, &spec);
    memset(bytes, 'x', sizeof bytes);
    assert_ok(session_write(&S, "kept", "old", 3, &err), err);
    assert_ok(session_write(&S, "one", bytes, sizeof bytes, &err), err);
    assert_ok(session_write(&S, "two", bytes, sizeof bytes, &err), err);
    r = session_write(&S, "kept", bytes, sizeof bytes, &err);
    ck_assert_int_eq(r, -1);
    ck_assert_int_eq(error_errno(&err), ENOSPC);
    assert_ok(session_read(&S, "kept", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "old");
    ck_assert_str_eq(session_output(&S, "ls -A"), "kept\none\ntwo\n");
    session_close(&S, true);
    ck_assert_int_eq(setenv("HANDSFS_STATE_DIR", before, 1), 0);
    umount2(dir, MNT_DETACH);
    rmdir(dir);
}
END_TEST

/* Where there is a small disk: engines give a sandbox one for shared memory. */
START_TEST(a_full_disk_of_an_engine_s_is_said_and_the_old_content_stays)
{
    static uint8_t bytes[3u << 20];
    struct buffer content;
    struct error err = {0};

    if (fixture.is_local) {
        return; /* the row above */
    }
    setup_session();
    memset(bytes, 'x', sizeof bytes);
    assert_ok(session_write(&S, "/dev/shm/kept", "old", 3, &err), err);
    session_exec(&S, "head -c 1G /dev/zero >/dev/shm/fills; truncate -s -1M /dev/shm/fills", 60000);
    ck_assert_int_eq(session_write(&S, "/dev/shm/kept", bytes, sizeof bytes, &err), -1);
    ck_assert_int_eq(error_errno(&err), ENOSPC);
    assert_ok(session_read(&S, "/dev/shm/kept", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "old");
    ck_assert_str_eq(session_output(&S, "ls -A /dev/shm"), "fills\nkept\n");
    teardown_session();
}
END_TEST

START_TEST(nothing_of_the_host_s_is_inside)
{
    struct sandbox_spec spec;
    char marker[] = "/tmp/handsfs-marker-XXXXXX";
    cleanup_fd int fd = mkstemp(marker);
    cleanup_free char *command = NULL;

    ck_assert_int_ge(fd, 0);
    session_spec(&spec);
    session_open(&S, &spec);
    /* An image may have a home of root's. */
    ck_assert_int_gt(asprintf(&command, "ls -A %s /home/*/.ssh %s %s 2>/dev/null; ls -A /tmp; echo end",
                              fixture.is_local ? "/root" : "", marker, getenv("HANDSFS_STATE_DIR")),
                     0);
    ck_assert_str_eq(session_output(&S, command), "end\n");
    unlink(marker);
    session_close(&S, true);
}
END_TEST

TCase *case_isolation(void)
{
    TCase *tc = tcase_create("isolation");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, without_a_network_there_is_no_route);
    tcase_add_test(tc, with_the_full_network_it_is_the_engine_s);
    tcase_add_loop_test(tc, a_read_only_root_has_a_writable_workdir_and_tmp, 0, 2);
    tcase_add_test(tc, a_configured_user_is_the_one_inside);
    tcase_add_test(tc, a_dropped_capability_is_gone);
    tcase_add_test(tc, an_unknown_capability_is_refused);
    tcase_add_loop_test(tc, a_limit_is_kept_or_refused, 0, 3);
    tcase_add_test(tc, a_fork_bomb_within_its_limit_ends_at_its_deadline);
    tcase_add_loop_test(tc, hostile_variables_corrupt_nothing, 0, 7);
    tcase_add_test(tc, a_full_disk_is_said_and_the_old_content_stays);
    tcase_add_test(tc, a_full_disk_of_an_engine_s_is_said_and_the_old_content_stays);
    tcase_add_test(tc, nothing_of_the_host_s_is_inside);
    return tc;
}
