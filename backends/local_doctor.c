#include "backends/local_doctor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/hand_program.h"
#include "backends/local_bwrap.h"
#include "backends/local_cgroup.h"
#include "backends/local_programs.h"
#include "backends/local_start.h"
#include "sandbox/cleanup.h"
#include "sandbox/dirs.h"

#define RUN_TIMEOUT_MS 10000
#define BWRAP_MAJOR 0
#define BWRAP_MINOR 5 /* --perms */

struct doctor {
    doctor_report report;
    void *arg;
};

static void say(const struct doctor *d, bool ok, const char *what, const char *fix)
{
    d->report(d->arg, ok ? DOCTOR_OK : DOCTOR_MISSING, what, ok ? NULL : fix);
}

/* The path of bubblewrap, to be freed; NULL where there is none that would do. */
static char *check_bwrap(const struct doctor *d)
{
    cleanup_free char *path = NULL;
    struct error err = {0};
    char output[256];
    char what[ERROR_MESSAGE_MAX];
    int major = 0;
    int minor = 0;

    if (local_find_bwrap(&path, &err) < 0) {
        say(d, false, err.message, "install the package bubblewrap");
        return NULL;
    }
    if (local_run((char *const[]){path, (char[]){"--version"}, NULL}, RUN_TIMEOUT_MS, output,
                  sizeof output) < 0 ||
        sscanf(output, "bubblewrap %d.%d", &major, &minor) != 2) {
        snprintf(what, sizeof what, "%.200s does not run", path);
        say(d, false, what, "reinstall the package bubblewrap");
        return NULL;
    }
    snprintf(what, sizeof what, "bubblewrap %d.%d is installed", major, minor);
    if (major == BWRAP_MAJOR && minor < BWRAP_MINOR) {
        say(d, false, what, "upgrade the package bubblewrap to 0.5 or later");
        return NULL;
    }
    say(d, true, what, NULL);
    return take_ptr(path);
}

static bool sysctl_is(const char *name, char value)
{
    char path[128];
    char text[8] = "";
    cleanup_fd int fd = -1;

    snprintf(path, sizeof path, "/proc/sys/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, text, sizeof text - 1) > 0 && text[0] == value;
}

/* Why a namespace is refused, as far as the system says. */
static const char *namespace_fix(void)
{
    if (sysctl_is("kernel/unprivileged_userns_clone", '0')) {
        return "sysctl -w kernel.unprivileged_userns_clone=1";
    }
    if (sysctl_is("user/max_user_namespaces", '0')) {
        return "sysctl -w user.max_user_namespaces=15000";
    }
    if (sysctl_is("kernel/apparmor_restrict_unprivileged_userns", '1')) {
        return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap";
    }
    return "in a container: run it with its own user namespaces and an unmasked /proc allowed "
           "(docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)";
}

/* Makes a sandbox like any other, but for the hand, and runs true(1) in it. */
static void check_namespaces(const struct doctor *d, char *bwrap)
{
    cleanup_arguments struct local_arguments arguments = {.fd_count = 0};
    cleanup_fd int userns_fd = -1;
    struct sandbox_spec spec = {.network = NETWORK_NONE};
    struct local_identity identity;
    struct error err = {0};
    char output[256];
    char what[512];
    char number[16];
    int sealed;

    local_arguments_init(&arguments);
    if (local_identity_of(&spec, &identity, &err) < 0) {
        return;
    }
    if (identity.range) {
        local_range_namespace(&userns_fd);
        d->report(d->arg, userns_fd >= 0 ? DOCTOR_OK : DOCTOR_OPTIONAL,
                  "a sandbox made by root has a range of users",
                  userns_fd >= 0 ? NULL
                                 : "chown inside will know one user only: give this system's own user "
                                   "namespace more ids");
    }
    local_arguments_base(&arguments, &identity, userns_fd);
    if (local_arguments_seal(&arguments, &sealed, &err) < 0) {
        say(d, false, err.message, NULL);
        return;
    }
    for (size_t i = 0; i < arguments.fd_count; i++) {
        fcntl(arguments.fds[i], F_SETFD, 0);
    }
    snprintf(number, sizeof number, "%d", sealed);
    if (local_run((char *const[]){bwrap, (char[]){"--args"}, number, (char[]){"--"},
                                  (char[]){"/usr/bin/true"}, NULL},
                  RUN_TIMEOUT_MS, output, sizeof output) == 0) {
        say(d, true, "namespaces, and a /proc in them, can be made", NULL);
        return;
    }
    output[strcspn(output, "\n")] = '\0';
    snprintf(what, sizeof what, "namespaces cannot be made: %s", output);
    say(d, false, what, namespace_fix());
}

static void check_hand(const struct doctor *d)
{
    cleanup_free char *path = NULL;
    struct error err = {0};
    char what[ERROR_MESSAGE_MAX];

    if (hand_program_find(&path, &err) < 0) {
        say(d, false, err.message, "install handsfs as a whole (make install), or set HANDSFS_HAND");
        return;
    }
    snprintf(what, sizeof what, "the hand is %.400s", path);
    say(d, true, what, NULL);
}

static void check_state(const struct doctor *d)
{
    cleanup_free char *path = NULL;
    cleanup_fd int fd = -1;
    struct error err = {0};
    char what[ERROR_MESSAGE_MAX];

    if (state_dir_open("local", &fd, &path, &err) < 0) {
        say(d, false, err.message, "set HANDSFS_STATE_DIR to a directory of yours");
        return;
    }
    snprintf(what, sizeof what, "sessions are kept in %.400s", path);
    say(d, faccessat(fd, ".", W_OK, AT_EACCESS) == 0, what, "make it writable");
}

static void check_limits(const struct doctor *d)
{
    for (enum local_controller c = 0; c < LOCAL_CONTROLLERS; c++) {
        struct error err = {0};
        bool ok = local_cgroup_usable(c, &err) == 0;
        char what[ERROR_MESSAGE_MAX];

        snprintf(what, sizeof what, "a limit of %s can%s be set%s%.300s", local_controller_name(c),
                 ok ? "" : "not", ok ? "" : ": ", err.message);
        d->report(d->arg, ok ? DOCTOR_OK : DOCTOR_OPTIONAL, what,
                  ok ? NULL
                     : "only for --memory, --cpus, --pids: run as root, or from a systemd user session "
                       "(systemd-run --user --scope)");
    }
}

void local_doctor(doctor_report report, void *arg)
{
    const struct doctor d = {report, arg};
    cleanup_free char *bwrap = check_bwrap(&d);

    if (bwrap != NULL) {
        check_namespaces(&d, bwrap);
    }
    check_hand(&d);
    check_state(&d);
    check_limits(&d);
}
