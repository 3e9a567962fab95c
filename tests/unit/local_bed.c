#include "tests/unit/local_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/local.h"
#include "backends/local_process.h"
#include "backends/local_programs.h"
#include "backends/local_remove.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/dirs.h"
#include "tests/unit/unit.h"

static char base[PATH_MAX / 4];
static uid_t user;
static gid_t user_group;

bool bed_possible(void)
{
    const char *required = getenv("HANDSFS_REQUIRE");
    cleanup_free char *bwrap = NULL;
    struct error err = {0};
    char output[256];

    if (required != NULL && strstr(required, "local") != NULL) {
        return true;
    }
    return local_find_bwrap(&bwrap, &err) == 0 &&
           local_run((char *const[]){bwrap, (char[]){"--unshare-all"}, (char[]){"--ro-bind"}, (char[]){"/"},
                                     (char[]){"/"}, (char[]){"--proc"}, (char[]){"/proc"}, (char[]){"true"},
                                     NULL},
                     10000, output, sizeof output) == 0;
}

int bed_callers(void)
{
    const char *fork_mode = getenv("CK_FORK");
    const struct passwd *entry;

    if (geteuid() != 0 || (fork_mode != NULL && strcmp(fork_mode, "no") == 0)) {
        return 1;
    }
    setpwent();
    while (user == 0 && (entry = getpwent()) != NULL) {
        if (entry->pw_uid >= 1000 && entry->pw_uid < 60000) {
            user = entry->pw_uid;
            user_group = entry->pw_gid;
        }
    }
    endpwent();
    return user != 0 ? 2 : 1;
}

/* A copy that everybody may read and execute, wherever the tests were built. */
static void copy_hand(const char *to)
{
    char from[PATH_MAX];
    char bytes[65536];
    ssize_t n = readlink("/proc/self/exe", from, sizeof from - 32);
    cleanup_fd int in = -1;
    cleanup_fd int out = -1;

    ck_assert_int_gt(n, 0);
    from[n] = '\0';
    memcpy(strrchr(from, '/'), "/fake-hand", sizeof "/fake-hand");
    in = open(from, O_RDONLY | O_CLOEXEC);
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ck_assert_msg(in >= 0 && out >= 0, "%s: %s", from, strerror(errno));
    while ((n = read(in, bytes, sizeof bytes)) > 0) {
        ck_assert_int_eq(write(out, bytes, (size_t)n), n);
    }
    fchmod(out, 0755);
}

/* Where the caller of this number keeps its sessions. */
static void use_state(int caller)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/state%d", base, caller);
    setenv("HANDSFS_STATE_DIR", path, 1);
    if (mkdir(path, 0700) == 0 && caller > 0) {
        ck_assert_int_eq(chown(path, user, user_group), 0);
    }
}

void bed_open(void)
{
    char hand[PATH_MAX];

    snprintf(base, sizeof base, "/tmp/handsfs-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    ck_assert_int_eq(chmod(base, 0711), 0);
    snprintf(hand, sizeof hand, "%s/hand", base);
    copy_hand(hand);
    setenv("HANDSFS_HAND", hand, 1);
    for (int caller = bed_callers() - 1; caller >= 0; caller--) {
        use_state(caller);
    }
}

/* Every session of this caller's, the damaged ones, which no list names, included. */
static void destroy_all(void)
{
    cleanup_dir DIR *dir = NULL;
    const struct dirent *entry;
    struct error err = {0};
    int fd = -1;

    if (state_dir_open("local", &fd, NULL, &err) < 0 || (dir = fdopendir(fd)) == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)!sandbox_destroy(&backend_local, entry->d_name, bed_deadline(), &err);
        }
    }
}

/* Also what failed tests left. Those of the other caller are destroyed by a process that is he. */
void bed_close(void)
{
    struct error err = {0};

    use_state(0);
    destroy_all();
    if (user != 0) {
        pid_t pid = fork();

        if (pid == 0) {
            bed_become(1);
            destroy_all();
            _exit(0);
        }
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    (void)!local_remove_tree(AT_FDCWD, base, bed_deadline(), &err);
}

void bed_become(int caller)
{
    if (caller > 0 && geteuid() != user) {
        ck_assert_int_eq(setgroups(0, NULL), 0);
        ck_assert_int_eq(setresgid(user_group, user_group, user_group), 0);
        ck_assert_int_eq(setresuid(user, user, user), 0);
        prctl(PR_SET_DUMPABLE, 1); /* as after a login */
    }
    use_state(caller);
    /* The dead hands are this process's then, which never reaps them: nothing may count on an init that does,
     * at once or at all. */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

uint64_t bed_deadline(void)
{
    return clock_now_ms() + BED_DEADLINE_MS;
}

void bed_spec(struct sandbox_spec *spec, const char *session)
{
    struct error err = {0};

    sandbox_spec_init(spec);
    spec->session = strdup(session);
    ck_assert_int_eq(sandbox_spec_check(spec, &err), 0);
}

void bed_provision(const struct sandbox_spec *spec, struct sandbox *ret)
{
    struct error err = {0};

    ck_assert_msg(sandbox_provision(&backend_local, spec, bed_deadline(), ret, &err) == 0, "%s",
                  err.message);
}

void bed_destroy(const char *session)
{
    struct error err = {0};

    ck_assert_msg(sandbox_destroy(&backend_local, session, bed_deadline(), &err) == 0, "%s", err.message);
}

char *bed_run(struct sandbox *sandbox, const char *script)
{
    struct error err = {0};
    char *output = calloc(1, BED_OUTPUT_BYTES);
    size_t used = 0;
    int fd = -1;

    ck_assert_ptr_nonnull(output);
    ck_assert_msg(sandbox_connect(sandbox, bed_deadline(), &fd, &err) == 0, "%s", err.message);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    ck_assert_int_eq(write(fd, script, strlen(script)), (ssize_t)strlen(script));
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        ck_assert_msg(poll(&p, 1, BED_DEADLINE_MS) > 0, "no answer to: %s", script);
        n = read(fd, output + used, BED_OUTPUT_BYTES - 1 - used);
        if (n <= 0) {
            close(fd);
            return output;
        }
        used += (size_t)n;
    }
}

void bed_expect(struct sandbox *sandbox, const char *script, const char *output)
{
    cleanup_free char *said = bed_run(sandbox, script);

    ck_assert_msg(strcmp(said, output) == 0, "%s\nsaid: %s\nnot: %s", script, said, output);
}

void bed_hand(struct sandbox *sandbox, struct local_process *ret)
{
    struct error err = {0};
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    cleanup_fd int fd = -1;

    ck_assert_int_eq(sandbox_connect(sandbox, bed_deadline(), &fd, &err), 0);
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length), 0);
    local_process_of(peer.pid, ret);
    ck_assert_int_gt(ret->pid, 1);
}

void bed_kill(struct sandbox *sandbox)
{
    cleanup_process struct local_process hand = LOCAL_NO_PROCESS;
    struct error err = {0};

    bed_hand(sandbox, &hand);
    ck_assert_msg(local_process_kill(&hand, bed_deadline(), &err) == 0, "%s", err.message);
}

void bed_freeze(struct sandbox *sandbox, struct local_process *ret)
{
    uint64_t deadline = bed_deadline();

    bed_hand(sandbox, ret);
    ck_assert_int_eq(kill(ret->pid, SIGSTOP), 0);
    while (!local_process_frozen(ret)) { /* nobody is told when it has stopped but its parent */
        ck_assert_uint_lt(clock_now_ms(), deadline);
        sched_yield();
    }
}

size_t bed_names(const char *session)
{
    struct error err = {0};
    cleanup_dir DIR *dir = NULL;
    const struct dirent *entry;
    size_t count = 0;
    int fd = -1;

    ck_assert_int_eq(state_dir_open("local", &fd, NULL, &err), 0);
    dir = fdopendir(fd);
    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)) != NULL) {
        count += strstr(entry->d_name, session) != NULL;
    }
    return count;
}
