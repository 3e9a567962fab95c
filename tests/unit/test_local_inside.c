/* The local backend with real namespaces: what a program inside sees, may do and cannot reach. */
#include "backends/local.h"
#include "backends/local_cgroup.h"
#include "backends/local_start.h"
#include "sandbox/cleanup.h"
#include "tests/unit/local_bed.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A sandbox for one test. */
struct one {
    struct sandbox_spec spec;
    struct sandbox sandbox;
};

static void one_begin(struct one *one, int caller, const char *session)
{
    memset(one, 0, sizeof *one);
    bed_become(caller);
    bed_spec(&one->spec, session);
}

static void one_provision(struct one *one)
{
    bed_provision(&one->spec, &one->sandbox);
}

static void one_end(struct one *one)
{
    bed_destroy(one->spec.session);
    sandbox_release(&one->sandbox);
    sandbox_spec_release(&one->spec);
}

static void set_workdir(struct one *one, const char *workdir)
{
    free(one->spec.workdir);
    one->spec.workdir = strdup(workdir);
}

static void set_variable(struct one *one, const char *assignment)
{
    struct error err = {0};

    ck_assert_int_eq(env_list_set(&one->spec.env, assignment, &err), 0);
}

START_TEST(the_hand_is_process_1_of_namespaces_of_its_own)
{
    static const char *const kinds[] = {"user", "pid", "ipc", "uts", "mnt", "net"};
    struct one one;

    one_begin(&one, _i, "namespaces");
    one_provision(&one);
    bed_expect(&one.sandbox, "tr '\\0' ' ' < /proc/1/cmdline | cut -d' ' -f1-2; hostname",
               "/run/handsfs/hand serve\nnamespaces\n");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char path[64];
        char script[128];
        char outside[64] = "";
        cleanup_free char *inside = NULL;

        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        snprintf(script, sizeof script, "readlink -n %s", path);
        ck_assert_int_gt(readlink(path, outside, sizeof outside - 1), 0);
        inside = bed_run(&one.sandbox, script);
        ck_assert_int_eq(strncmp(inside, kinds[i], strlen(kinds[i])), 0);
        ck_assert_str_ne(inside, outside);
    }
    one_end(&one);
}
END_TEST

START_TEST(nothing_of_the_host_is_there_but_usr_and_its_like)
{
    struct one one;

    one_begin(&one, _i, "bare");
    one_provision(&one);
    bed_expect(&one.sandbox,
               "ls -A /home /var /run /var/tmp /tmp; ls -d /root /work /srv /opt /boot /mnt /media 2>/dev/null\n"
               "ls /etc/shadow /etc/ssl/private /etc/sudoers /etc/ssh 2>/dev/null\n"
               "test -e /proc/1/root/etc/hostname || echo hand closed",
               "/home:\nsandbox\n\n/run:\nhandsfs\n\n/tmp:\n\n/var:\ntmp\n\n/var/tmp:\nhand closed\n");
    bed_expect(&one.sandbox,
               "for d in /usr /usr/bin /usr/lib; do touch $d/x 2>/dev/null && echo $d writable; done;"
               "grep -c . /proc/net/dev; id -un; echo $HOME $USER $HANDSFS_SESSION; cd ~ && touch x && echo ok",
               _i == 0 && geteuid() == 0 ? "3\nroot\n/home/sandbox root bare\nok\n"
                                         : "3\nsandbox\n/home/sandbox sandbox bare\nok\n");
    one_end(&one);
}
END_TEST

START_TEST(the_host_s_kernel_settings_cannot_be_changed)
{
    struct one one;

    one_begin(&one, _i, "sysctl");
    one_provision(&one);
    /* Written back as it is, so that a failure of this test does the host no harm. */
    bed_expect(&one.sandbox,
               "exec 2>/dev/null\n"
               "for f in kernel/core_pattern kernel/modprobe vm/overcommit_memory kernel/hostname; do\n"
               "  v=$(cat /proc/sys/$f); (printf %s \"$v\" > /proc/sys/$f) && echo $f; done\n"
               "(: > /proc/sysrq-trigger) && echo sysrq\n"
               "unshare -Urm sh -c 'mount -o remount,rw,bind /proc/sys && echo remounted'\n"
               "unshare -Urmpf sh -c 'mount -t proc p /tmp && echo mounted'\n"
               "(: < /proc/kcore) && echo kcore\n"
               "echo tried",
               "tried\n");
    one_end(&one);
}
END_TEST

START_TEST(variables_arrive_byte_for_byte_and_stay_out_of_ps)
{
    static const char awkward[] = "$(OTHER)/$lit `x` 'q' \"d\" \n--uid\n\xff\xfe=";
    struct one one;
    char assignment[256];
    cleanup_free char *said = NULL;
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    one_begin(&one, _i, "env");
    set_variable(&one, "PLAIN=plain");
    snprintf(assignment, sizeof assignment, "AWKWARD=%s", awkward);
    set_variable(&one, assignment);
    set_variable(&one, "EMPTY=");
    set_variable(&one, "SECRET=hands-off-4711");
    one_provision(&one);
    said = bed_run(&one.sandbox, "printf '%s|%s|%s' \"$PLAIN\" \"${EMPTY-unset}\" \"$AWKWARD\"");
    snprintf(assignment, sizeof assignment, "plain||%s", awkward);
    ck_assert_str_eq(said, assignment);
    while ((entry = readdir(proc)) != NULL) {
        char path[PATH_MAX];
        char line[8192];
        cleanup_fd int fd = -1;
        ssize_t n;

        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd >= 0 ? read(fd, line, sizeof line) : -1;
        ck_assert(n <= 0 || memmem(line, (size_t)n, "hands-off-4711", 14) == NULL);
    }
    closedir(proc);
    /* The same from the record, after the hand's death. */
    bed_kill(&one.sandbox);
    sandbox_release(&one.sandbox);
    one_provision(&one);
    free(take_ptr(said));
    said = bed_run(&one.sandbox, "printf '%s|%s|%s' \"$PLAIN\" \"${EMPTY-unset}\" \"$AWKWARD\"");
    ck_assert_str_eq(said, assignment);
    one_end(&one);
}
END_TEST

START_TEST(without_a_network_there_is_no_route_and_with_it_the_host_s)
{
    char outside[64] = "";
    struct one one;
    struct one full;
    cleanup_free char *inside = NULL;

    one_begin(&one, _i, "offline");
    one_provision(&one);
    bed_expect(&one.sandbox, "tail -n +2 /proc/net/route; wc -c < /etc/resolv.conf", "0\n");
    one_end(&one);
    one_begin(&full, _i, "online");
    full.spec.network = NETWORK_FULL;
    one_provision(&full);
    ck_assert_int_gt(readlink("/proc/self/ns/net", outside, sizeof outside - 1), 0);
    inside = bed_run(&full.sandbox, "readlink -n /proc/self/ns/net");
    ck_assert_str_eq(inside, outside);
    one_end(&full);
}
END_TEST

START_TEST(the_files_of_etc_that_are_mount_points_cannot_be_replaced)
{
    struct one one;

    one_begin(&one, _i, "busy");
    one_provision(&one);
    bed_expect(&one.sandbox,
               "for f in hosts hostname resolv.conf; do touch /etc/new; mv -f /etc/new /etc/$f 2>&1 |\n"
               "  grep -c 'resource busy'; done; grep -c localhost /etc/hosts",
               "1\n1\n1\n2\n");
    one_end(&one);
}
END_TEST

START_TEST(a_read_only_root_leaves_the_workdir_and_tmp)
{
    struct one one;

    one_begin(&one, _i, "readonly");
    one.spec.read_only_root = true;
    one_provision(&one);
    bed_expect(&one.sandbox,
               "for d in / /etc /home /var /var/tmp /run /dev /usr /root /home/sandbox; do\n"
               "  (mkdir -p $d/x && touch $d/x/y) 2>/dev/null && echo $d writable; done\n"
               "(echo x >> /etc/hosts) 2>/dev/null && echo hosts writable\n"
               "for d in /workspace /tmp $HOME; do mkdir -p $d/x && touch $d/x/y && echo $d; done; echo > /dev/null",
               "/workspace\n/tmp\n/tmp\n");
    one_end(&one);
}
END_TEST

START_TEST(the_workdir_may_have_spaces_or_cover_the_home)
{
    static const char *const workdirs[] = {"/a b/c  d", "/home", "/home/sandbox", "/home/sandbox/w", "/var",
                                           "/root/x"};

    for (size_t i = 0; i < sizeof workdirs / sizeof workdirs[0]; i++) {
        struct one one;
        char expected[128];

        one_begin(&one, i == 0 ? _i : 0, "where");
        set_workdir(&one, workdirs[i]);
        one_provision(&one);
        ck_assert_str_eq(one.sandbox.workdir, workdirs[i]);
        snprintf(expected, sizeof expected, "%s\nok\n", workdirs[i]);
        bed_expect(&one.sandbox, "pwd; touch a && cd && touch b && echo ok", expected);
        one_end(&one);
    }
}
END_TEST

START_TEST(another_user_inside_owns_the_workdir_and_has_no_capabilities)
{
    struct one one;

    one_begin(&one, _i, "nobody");
    one.spec.user = strdup("65534:65533");
    one.spec.read_only_root = true;
    one_provision(&one);
    bed_expect(&one.sandbox,
               "id -u; id -g; id -un; stat -c %u:%g . ; touch f && echo ok; grep 'Cap.*:.*[1-9a-f]' /proc/self/status",
               "65534\n65533\nnobody\n65534:65533\nok\n");
    one_end(&one);
}
END_TEST

START_TEST(a_root_can_give_files_away_unless_the_capability_is_dropped)
{
    cleanup_fd int range = -1;
    struct one one;

    if (geteuid() != 0) {
        return;
    }
    local_range_namespace(&range);
    if (range < 0) {
        return; /* as under the thread sanitizer: its own thread is in every child, and so none may unshare */
    }
    one_begin(&one, 0, "caps");
    one_provision(&one);
    bed_expect(&one.sandbox, "touch f && chown 1:2 f && stat -c %u:%g f", "1:2\n");
    bed_expect(&one.sandbox, "mount -t tmpfs t /tmp 2>/dev/null || echo no; unshare -n 2>/dev/null || echo no",
               "no\nno\n");
    one_end(&one);
    one_begin(&one, 0, "nocaps");
    one.spec.cap_drop = calloc(3, sizeof *one.spec.cap_drop);
    one.spec.cap_drop[0] = strdup("chown");
    one.spec.cap_drop[1] = strdup("CAP_FOWNER");
    one_provision(&one);
    bed_expect(&one.sandbox, "touch f && chown 1:2 f 2>/dev/null; stat -c %u:%g f", "0:0\n");
    one_end(&one);
}
END_TEST

START_TEST(limits_are_set_and_go_with_the_sandbox)
{
    struct error err = {0};
    struct one one;
    cleanup_free char *group = NULL;

    if (local_cgroup_usable(LOCAL_PIDS, &err) < 0 || local_cgroup_usable(LOCAL_CPU, &err) < 0 ||
        local_cgroup_usable(LOCAL_MEMORY, &err) < 0) {
        return;
    }
    one_begin(&one, 0, "limits");
    one.spec.pids = 30;
    one.spec.cpu_millis = 500;
    one.spec.memory_bytes = 256u << 20;
    one_provision(&one);
    bed_expect(&one.sandbox,
               "cd /sys/fs/cgroup; cat pids.max pids/pids.max 2>/dev/null\n"
               "cat memory.max memory/memory.limit_in_bytes 2>/dev/null\n"
               "cat cpu.max 2>/dev/null || echo $(cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us)\n"
               "for f in pids.max pids/pids.max; do test -e $f && (echo 99 > $f) 2>/dev/null && echo changed; done",
               "30\n268435456\n50000 100000\n");
    /* How often the kernel has refused a process; to look at it takes none. */
    bed_expect(&one.sandbox,
               "f=/sys/fs/cgroup/pids.events; [ -e $f ] || f=/sys/fs/cgroup/pids/pids.events\n"
               "(for i in {1..60}; do sleep 1000 & done) </dev/null >/dev/null 2>&1 &\n"
               "until read -r _ times <$f && [ $times -gt 0 ]; do :; done; echo capped",
               "capped\n");
    ck_assert_int_gt(asprintf(&group, "/sys/fs/cgroup/pids/handsfs-%s", one.sandbox.id), 0);
    one_end(&one);
    ck_assert_int_eq(access(group, F_OK), -1);
}
END_TEST

START_TEST(the_host_sees_the_root_of_the_very_sandbox)
{
    struct error err = {0};
    struct stat inside, outside;
    char path[PATH_MAX];
    struct one one;
    int root = -1;

    if (syscall(SYS_openat2, -1, NULL, NULL, 0) < 0 && errno == ENOSYS) {
        return; /* without it (under valgrind) nothing is looked at from here */
    }
    one_begin(&one, _i, "root");
    set_workdir(&one, "/deep/work dir");
    one_provision(&one);
    bed_expect(&one.sandbox, "echo inside > file", "");
    ck_assert_int_eq(sandbox_open_root(&one.sandbox, &root, &err), 0);
    ck_assert_int_ge(root, 0);
    ck_assert_int_eq(fstatat(root, "deep/work dir/file", &inside, AT_SYMLINK_NOFOLLOW), 0);
    snprintf(path, sizeof path, "%s/local/root/workspace/file", getenv("HANDSFS_STATE_DIR"));
    ck_assert_int_eq(stat(path, &outside), 0);
    ck_assert_uint_eq(inside.st_ino, outside.st_ino);
    close(root);
    bed_expect(&one.sandbox, "mv /deep /moved && mkdir -p '/deep/work dir' && echo moved", "moved\n");
    ck_assert_int_eq(sandbox_open_root(&one.sandbox, &root, &err), 0);
    ck_assert_int_eq(root, -1);
    bed_destroy("root");
    ck_assert_int_eq(sandbox_open_root(&one.sandbox, &root, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    one_end(&one);
}
END_TEST

UNIT_SUITE(local_inside)
{
    int callers = bed_callers();

    if (!bed_possible()) {
        return;
    }
    tcase_set_timeout(tcase, BED_TIMEOUT_S);
    tcase_add_unchecked_fixture(tcase, bed_open, bed_close);
    tcase_add_loop_test(tcase, the_hand_is_process_1_of_namespaces_of_its_own, 0, callers);
    tcase_add_loop_test(tcase, nothing_of_the_host_is_there_but_usr_and_its_like, 0, callers);
    tcase_add_loop_test(tcase, the_host_s_kernel_settings_cannot_be_changed, 0, callers);
    tcase_add_loop_test(tcase, variables_arrive_byte_for_byte_and_stay_out_of_ps, 0, callers);
    tcase_add_loop_test(tcase, without_a_network_there_is_no_route_and_with_it_the_host_s, 0, callers);
    tcase_add_loop_test(tcase, the_files_of_etc_that_are_mount_points_cannot_be_replaced, 0, callers);
    tcase_add_loop_test(tcase, a_read_only_root_leaves_the_workdir_and_tmp, 0, callers);
    tcase_add_loop_test(tcase, the_workdir_may_have_spaces_or_cover_the_home, 0, 1);
    tcase_add_loop_test(tcase, another_user_inside_owns_the_workdir_and_has_no_capabilities, 0, callers);
    tcase_add_test(tcase, a_root_can_give_files_away_unless_the_capability_is_dropped);
    tcase_add_test(tcase, limits_are_set_and_go_with_the_sandbox);
    tcase_add_loop_test(tcase, the_host_sees_the_root_of_the_very_sandbox, 0, callers);
}
