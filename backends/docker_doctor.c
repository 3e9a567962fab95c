/* What this machine and its engine have and lack. */
#include "backends/docker_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "backends/docker_auth.h"
#include "backends/hand_program.h"
#include "backends/printable.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define REACH_MS 10000
#define DISK_LOW (UINT64_C(1) << 30) /* bytes free below which images will hardly fit */
#define WHAT_BYTES ERROR_MESSAGE_MAX

struct doctor {
    doctor_report report;
    void *arg;
};

static const char *fix_of(const struct error *why)
{
    switch (why->os_errno) {
    case EACCES:
    case EPERM:
        return "run as root, or be in the group of the socket (usually: usermod -aG docker USER, "
               "and a new login)";
    case ENOENT:
    case ECONNREFUSED:
        return "install and start Docker (package docker.io) or Podman's service (systemctl start "
               "podman.socket), or "
               "name the engine in DOCKER_HOST";
    default:
        return "look at DOCKER_HOST, DOCKER_CONTEXT and the docker client's own `docker version`";
    }
}

/* The engine, to be closed; NULL where there is none to be spoken to. */
static struct docker_engine *check_engine(const struct doctor *d)
{
    struct docker_engine *engine = NULL;
    struct error why = {0};
    char what[WHAT_BYTES];

    if (docker_engine_open(&engine, clock_now_ms() + REACH_MS, &why) < 0) {
        d->report(d->arg, DOCTOR_MISSING, why.message, fix_of(&why));
        return NULL;
    }
    snprintf(what, sizeof what, "%s %.60s at %.200s, spoken to by version %.8s of the API",
             docker_engine_is_podman(engine) ? "Podman" : "Docker", docker_engine_version(engine),
             docker_engine_host(engine), docker_engine_api(engine));
    d->report(d->arg, DOCTOR_OK, what, NULL);
    return engine;
}

/* What GET /info tells, to be released; NULL where it tells nothing. */
static json_t *ask_info(const struct doctor *d, struct docker_engine *engine)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    const struct docker_request request = {
        .method = "GET", .path = "/info", .deadline_ms = clock_now_ms() + REACH_MS};
    struct error why = {0};

    if (docker_call(engine, &request, &reply, &why) < 0 ||
        (reply.status != 200 && docker_refused(&reply, &why, "ask for the engine's state") < 0)) {
        d->report(d->arg, DOCTOR_MISSING, why.message, "look into the engine's log");
        return NULL;
    }
    return json_is_object(reply.json) ? json_incref(reply.json) : NULL;
}

/* A limit that an engine does not speak of is one that nobody knows to be missing. */
static void check_limit(const struct doctor *d, json_t *info, const char *key, const char *name)
{
    const json_t *value = json_object_get(info, key);
    char what[WHAT_BYTES];

    if (json_is_boolean(value)) {
        snprintf(what, sizeof what, "a limit of %s can%s be set", name,
                 json_is_true(value) ? "" : "not");
        d->report(d->arg, json_is_true(value) ? DOCTOR_OK : DOCTOR_OPTIONAL, what,
                  json_is_true(value)
                      ? NULL
                      : "needed for --memory, --cpus, --pids only: the engine's kernel lacks the "
                        "control group, or a rootless engine was not delegated it");
    }
}

/* The disk that images and containers are on, where it is this host's and to be seen. */
static void check_disk(const struct doctor *d, const struct docker_engine *engine, json_t *info)
{
    const char *root = json_string_value(json_object_get(info, "DockerRootDir"));
    struct statvfs fs;
    char clean[200];
    char what[WHAT_BYTES];
    uint64_t left;

    if (root == NULL || root[0] != '/' || !docker_engine_is_local(engine) ||
        statvfs(root, &fs) < 0) {
        return;
    }
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    copy_printable(clean, sizeof clean, root, strlen(root));
    snprintf(what, sizeof what, "%llu MB are free in %s, where images and containers are",
             (unsigned long long)(left / 1000000), clean);
    d->report(d->arg, left >= DISK_LOW ? DOCTOR_OK : DOCTOR_OPTIONAL, what,
              left >= DISK_LOW ? NULL : "make room: docker system prune");
}

/* The hand is made for one kind of machine. */
static void check_hand(const struct doctor *d, json_t *info)
{
    static const struct {
        const char *kernel, *engine;
    } machines[] = {{"x86_64", "amd64"}, {"aarch64", "arm64"},   {"armv7l", "arm"},
                    {"i686", "386"},     {"riscv64", "riscv64"}, {"ppc64le", "ppc64le"},
                    {"s390x", "s390x"}};
    cleanup_free char *path = NULL;
    const char *ours = hand_program_architecture();
    const char *theirs = json_string_value(json_object_get(info, "Architecture"));
    struct error why = {0};
    char what[WHAT_BYTES];

    if (hand_program_find(&path, &why) < 0) {
        d->report(d->arg, DOCTOR_MISSING, why.message,
                  "install handsfs as a whole (make install), or set HANDSFS_HAND");
        return;
    }
    for (size_t i = 0; theirs != NULL && i < sizeof machines / sizeof machines[0]; i++) {
        if (strcmp(theirs, machines[i].kernel) == 0) {
            theirs = machines[i].engine;
        }
    }
    if (ours != NULL && theirs != NULL && strcmp(ours, theirs) != 0) {
        snprintf(what, sizeof what,
                 "the engine's machine is %.40s, and the hand %.300s is for %.40s", theirs, path,
                 ours);
        d->report(d->arg, DOCTOR_MISSING, what,
                  "set HANDSFS_HAND to a hand that was built for that machine");
        return;
    }
    snprintf(what, sizeof what, "the hand is %.400s", path);
    d->report(d->arg, DOCTOR_OK, what, NULL);
}

static void tell_helper(void *arg, const char *program, bool found, const char *why)
{
    const struct doctor *d = arg;
    char what[WHAT_BYTES];

    if (program == NULL) {
        d->report(d->arg, DOCTOR_OPTIONAL, why,
                  "needed for images of registries with accounts only: mend the file");
        return;
    }
    snprintf(what, sizeof what, "the credential helper %.200s is %s", program,
             found ? "there" : "not to be found");
    d->report(d->arg, found ? DOCTOR_OK : DOCTOR_OPTIONAL, what,
              found ? NULL
                    : "needed for images of registries with accounts only: install it, or take it "
                      "out of the docker "
                      "client's config.json");
}

void docker_doctor(doctor_report report, void *arg)
{
    struct doctor d = {report, arg};
    cleanup_engine struct docker_engine *engine = check_engine(&d);
    json_t *info = engine != NULL ? ask_info(&d, engine) : NULL;

    if (info != NULL) {
        check_limit(&d, info, "MemoryLimit", "memory");
        check_limit(&d, info, "CpuCfsQuota", "processor time");
        check_limit(&d, info, "PidsLimit", "processes");
        check_disk(&d, engine, info);
    }
    check_hand(&d, info);
    docker_auth_helpers(tell_helper, &d);
    json_decref(info);
}
