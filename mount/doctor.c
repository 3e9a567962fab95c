#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <jansson.h>

#include "backends/registry.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"
#include "sandbox/dirs.h"

#define KERNEL_MAJOR 5 /* openat2(2) and close_range(2), pidfd_open(2) */
#define KERNEL_MINOR 9

struct findings {
    json_t *rows; /* NULL: print them as they come */
    const char *about;
    bool needed; /* what is found now is needed here */
    bool missing;
};

static void found(void *arg, enum doctor_finding finding, const char *what, const char *fix)
{
    struct findings *findings = arg;
    bool ok = finding == DOCTOR_OK;
    bool needed = findings->needed && finding != DOCTOR_OPTIONAL;

    if (!ok && needed) {
        findings->missing = true;
    }
    if (findings->rows != NULL) {
        json_array_append_new(findings->rows,
                              json_pack("{s:s, s:b, s:b, s:s, s:s?}", "about", findings->about,
                                        "ok", (int)ok, "needed", (int)needed, "what", what, "fix",
                                        ok ? NULL : fix));
        return;
    }
    printf("%-8s %s: %s\n", ok ? "ok" : needed ? "missing" : "optional", findings->about, what);
    if (!ok && fix != NULL) {
        printf("         -> %s\n", fix);
    }
}

static enum doctor_finding is_there(bool ok)
{
    return ok ? DOCTOR_OK : DOCTOR_MISSING;
}

static void look_at_kernel(struct findings *findings)
{
    struct utsname name;
    char what[sizeof name.release + 64];
    int major = 0, minor = 0;

    if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2) {
        found(findings, DOCTOR_MISSING, "no kernel version can be read", NULL);
        return;
    }
    snprintf(what, sizeof what, "kernel %s (%d.%d or newer is needed)", name.release, KERNEL_MAJOR,
             KERNEL_MINOR);
    found(findings,
          is_there(major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR)), what,
          "run a newer kernel");
}

static void look_at_device(struct findings *findings)
{
    cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    if (fd >= 0) {
        found(findings, DOCTOR_OK, "/dev/fuse can be opened", NULL);
    } else if (errno == ENOENT || errno == ENODEV || errno == ENXIO) {
        found(findings, DOCTOR_MISSING, "/dev/fuse is not there",
              "modprobe fuse; in a container: give it the device /dev/fuse");
    } else {
        char what[128];

        snprintf(what, sizeof what, "/dev/fuse cannot be opened: %s", strerror(errno));
        found(findings, DOCTOR_MISSING, what,
              "chmod 0666 /dev/fuse; in a container: allow it the device");
    }
}

/* The path of a program as the shell would find it. */
static bool find_program(const char *name, char *path, size_t size, struct stat *st)
{
    const char *folders = getenv("PATH");

    for (const char *p = folders != NULL ? folders : "/usr/bin:/bin"; *p != '\0';) {
        size_t length = strcspn(p, ":");

        snprintf(path, size, "%.*s/%s", (int)length, p, name);
        if (access(path, X_OK) == 0 && stat(path, st) == 0 && S_ISREG(st->st_mode)) {
            return true;
        }
        p += length + (p[length] == ':' ? 1 : 0);
    }
    return false;
}

/* Root mounts without it. */
static void look_at_fusermount(struct findings *findings)
{
    char path[4096];
    char what[4200];
    struct stat st;
    bool root = geteuid() == 0;

    findings->needed = !root;
    if (!find_program("fusermount3", path, sizeof path, &st)) {
        found(findings, DOCTOR_MISSING, "fusermount3 is not there (only root can mount without it)",
              "apt-get install fuse3");
    } else if (!root && ((st.st_mode & S_ISUID) == 0 || st.st_uid != 0)) {
        snprintf(what, sizeof what, "%s is not set-user-ID root", path);
        found(findings, DOCTOR_MISSING, what,
              "chown root and chmod 4755 it, or apt-get install --reinstall fuse3");
    } else {
        snprintf(what, sizeof what, "%s", path);
        found(findings, DOCTOR_OK, what, NULL);
    }
    findings->needed = true;
}

static void look_at_state(struct findings *findings)
{
    cleanup_free char *path = NULL;
    cleanup_fd int fd = -1;
    struct error err = {0};

    if (state_dir_open("mounts", &fd, &path, &err) < 0) {
        found(findings, DOCTOR_MISSING, err.message,
              "set HANDSFS_STATE_DIR to a directory that is yours alone");
    } else if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
        found(findings, DOCTOR_MISSING, "the state directory cannot be written to",
              "set HANDSFS_STATE_DIR to a directory that is yours alone");
    } else {
        char what[4200];

        snprintf(what, sizeof what, "state directory %s", path);
        found(findings, DOCTOR_OK, what, NULL);
    }
}

static int doctor_run(struct invocation *invocation, struct error *err)
{
    struct findings findings = {.about = "mount", .needed = true};
    const struct backend *chosen = NULL;

    if (backend_find(invocation->options.backend, &chosen, err) < 0) {
        return -1;
    }
    findings.rows = invocation->options.json ? json_array() : NULL;
    look_at_kernel(&findings);
    look_at_device(&findings);
    look_at_fusermount(&findings);
    look_at_state(&findings);
    for (const struct backend *const *backend = backend_all(); *backend != NULL; backend++) {
        findings.about = (*backend)->name;
        findings.needed = *backend == chosen;
        sandbox_doctor(*backend, found, &findings);
    }
    if (findings.rows != NULL &&
        print_json(json_pack("{s:b, s:o}", "ok", (int)!findings.missing, "found", findings.rows),
                   err) < 0) {
        return -1;
    }
    return findings.missing ? EXIT_FAILED : EXIT_DONE;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "say what this machine lacks and how to get it",
    .synopsis = "[options]",
    .text = "Looks at everything that handsfs needs of this machine, for you as the user that you "
            "are, and says\n"
            "what to do about what is missing. Exit code 1 where something is missing that is "
            "needed for the\n"
            "chosen backend.\n",
    .examples = "  handsfs doctor\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_JSON,
    .failure = EXIT_FAILED,
    .run = doctor_run,
};
