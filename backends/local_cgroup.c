#include "backends/local_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define GROUP_PREFIX "handsfs-"
#define CPU_PERIOD_US 100000
#define RETRY_MS 10
#define LINE_BYTES 8192

static const char *const controller_names[LOCAL_CONTROLLERS] = {"memory", "cpu", "pids"};
static const char *const option_names[LOCAL_CONTROLLERS] = {"memory", "cpus", "pids"};

/* Where a controller's groups are made. */
struct place {
    char directory[PATH_MAX];
    int version;
};

const char *local_controller_name(enum local_controller controller)
{
    return controller_names[controller];
}

static uint64_t limit_of(const struct sandbox_spec *spec, enum local_controller controller)
{
    switch (controller) {
    case LOCAL_MEMORY:
        return spec->memory_bytes;
    case LOCAL_CPU:
        return spec->cpu_millis;
    default:
        return spec->pids;
    }
}

/* Whether `word` is one of the words of `text`, which stand apart by any of `separators`. */
static bool has_word(const char *text, const char *word, const char *separators)
{
    size_t length = strlen(word);

    while (*text != '\0') {
        size_t n = strcspn(text, separators);

        if (n == length && strncmp(text, word, n) == 0) {
            return true;
        }
        text += n;
        text += strspn(text, separators);
    }
    return false;
}

/* Reads the first bytes of DIRECTORY/FILE. */
static int read_file(const char *directory, const char *file, char *text, size_t size)
{
    char path[PATH_MAX];
    cleanup_fd int fd = -1;
    ssize_t n;

    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, size - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    return n < 0 ? -1 : 0;
}

static int write_file(const char *directory, const char *file, const char *text)
{
    char path[PATH_MAX];
    cleanup_fd int fd = -1;

    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static bool writable(const char *directory, const char *file)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/%s", directory, file) < (int)sizeof path &&
           access(path, W_OK) == 0;
}

/* ---- Finding a place ---- */

/* Whether children of this v2 group can have the controller; turns it on for them where it is off. */
static bool delegates(const char *directory, const char *controller)
{
    char words[1024];
    char enable[32];

    if (read_file(directory, "cgroup.subtree_control", words, sizeof words) == 0 &&
        has_word(words, controller, " \n")) {
        return true;
    }
    if (read_file(directory, "cgroup.controllers", words, sizeof words) < 0 ||
        !has_word(words, controller, " \n")) {
        return false;
    }
    snprintf(enable, sizeof enable, "+%s", controller);
    return write_file(directory, "cgroup.subtree_control", enable) == 0;
}

static bool usable_v2(const char *directory, const char *controller)
{
    return writable(directory, ".") && writable(directory, "cgroup.procs") &&
           delegates(directory, controller);
}

/* The path of this process's group in the v2 hierarchy. */
static int own_group(char *ret, size_t size)
{
    cleanup_file FILE *file = fopen("/proc/self/cgroup", "re");
    char line[LINE_BYTES];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0) {
            return snprintf(ret, size, "%s", line + 3) < (int)size ? 0 : -1;
        }
    }
    return -1;
}

/* In v2 whoever moves a process needs a group above both ends that he may write to. A root has the top;
 * others what their session manager left to them, looked for from their own group upwards. */
static int find_v2(const char *mount, const char *controller, struct place *ret)
{
    char group[PATH_MAX / 2];
    char *slash;

    ret->version = 2;
    if (snprintf(ret->directory, sizeof ret->directory, "%s", mount) >= (int)sizeof ret->directory) {
        return -1;
    }
    if (usable_v2(mount, controller)) {
        return 0;
    }
    if (own_group(group, sizeof group) < 0) {
        return -1;
    }
    while ((slash = strrchr(group, '/')) != NULL && slash != group) {
        *slash = '\0';
        if (snprintf(ret->directory, sizeof ret->directory, "%s%s", mount, group) <
                (int)sizeof ret->directory &&
            usable_v2(ret->directory, controller)) {
            return 0;
        }
    }
    return -1;
}

/* One line of mountinfo (proc(5)): 1 where the controller's groups can be made there, -1 where it is the
 * controller's hierarchy and they cannot, 0 where it is another mount. */
static int look_at_mount(char *line, const char *controller, struct place *ret)
{
    char *separator = strstr(line, " - ");
    char mount[PATH_MAX];
    char type[64];
    char options[1024];
    char words[1024];

    if (separator == NULL || sscanf(line, "%*d %*d %*s %*s %4095s", mount) != 1 ||
        sscanf(separator + 3, "%63s %*s %1023s", type, options) != 2) {
        return 0;
    }
    if (strcmp(type, "cgroup") == 0 && has_word(options, controller, ",")) {
        ret->version = 1;
        snprintf(ret->directory, sizeof ret->directory, "%s", mount);
        return writable(mount, ".") ? 1 : -1;
    }
    if (strcmp(type, "cgroup2") == 0 &&
        read_file(mount, "cgroup.controllers", words, sizeof words) == 0 &&
        has_word(words, controller, " \n")) {
        return find_v2(mount, controller, ret) == 0 ? 1 : -1;
    }
    return 0;
}

static int find_place(enum local_controller controller, struct place *ret, struct error *err)
{
    cleanup_file FILE *file = fopen("/proc/self/mountinfo", "re");
    const char *name = controller_names[controller];
    char line[LINE_BYTES];
    bool seen = false;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        int r = look_at_mount(line, name, ret);

        if (r > 0) {
            return 0;
        }
        seen |= r < 0;
    }
    return error_set(err, ERROR_BAD_REQUEST, 0,
                     seen ? "its control group (%s) is not left to this user"
                          : "this system has no control groups for it (%s)",
                     name);
}

int local_cgroup_usable(enum local_controller controller, struct error *err)
{
    struct place place;

    return find_place(controller, &place, err);
}

int local_cgroup_check(const struct sandbox_spec *spec, struct error *err)
{
    for (enum local_controller c = 0; c < LOCAL_CONTROLLERS; c++) {
        uint64_t limit = limit_of(spec, c);

        if (limit > INT64_MAX / CPU_PERIOD_US && c != LOCAL_MEMORY) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "a limit of %s that large is none", option_names[c]);
        }
        if (limit != 0 && local_cgroup_usable(c, err) < 0) {
            return error_prefix(err, "the local backend cannot limit %s here", option_names[c]);
        }
    }
    return 0;
}

/* ---- Making them ---- */

static int set_limit(const struct place *place, enum local_controller controller, uint64_t limit)
{
    const char *dir = place->directory;
    bool v1 = place->version == 1;
    unsigned long long value = limit;
    char text[64];

    if (controller == LOCAL_CPU) {
        unsigned long long quota = value * (CPU_PERIOD_US / 1000);

        snprintf(text, sizeof text, "%d", CPU_PERIOD_US);
        if (v1 && write_file(dir, "cpu.cfs_period_us", text) < 0) {
            return -1;
        }
        snprintf(text, sizeof text, v1 ? "%llu" : "%llu 100000", quota);
        return write_file(dir, v1 ? "cpu.cfs_quota_us" : "cpu.max", text);
    }
    snprintf(text, sizeof text, "%llu", value);
    if (controller == LOCAL_PIDS) {
        return write_file(dir, "pids.max", text);
    }
    if (write_file(dir, v1 ? "memory.limit_in_bytes" : "memory.max", text) < 0) {
        return -1;
    }
    /* Swap on top of it would be no limit; where the kernel does not count swap there is nothing to set. */
    return write_file(dir, v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max", v1 ? text : "0") < 0 &&
                   errno != ENOENT
               ? -1
               : 0;
}

/* Notes the group's directory in the record, once. */
static int note(struct local_record *record, const char *directory)
{
    size_t i = 0;

    for (; record->cgroups[i] != NULL; i++) {
        if (strcmp(record->cgroups[i], directory) == 0) {
            return 0;
        }
    }
    record->cgroups[i] = strdup(directory);
    return record->cgroups[i] != NULL ? 0 : -1;
}

static int make_one(struct local_record *record, enum local_controller controller, struct error *err)
{
    struct place place;
    size_t length;

    if (find_place(controller, &place, err) < 0) {
        return -1;
    }
    length = strlen(place.directory);
    if (snprintf(place.directory + length, sizeof place.directory - length, "/" GROUP_PREFIX "%s",
                 record->id) >= (int)(sizeof place.directory - length)) {
        return error_set(err, ERROR_ERRNO, ENAMETOOLONG, "the control group's name is too long");
    }
    if (mkdir(place.directory, 0755) < 0 && errno != EEXIST) {
        return error_set_errno(err, errno, "make %s", place.directory);
    }
    if (note(record, place.directory) < 0) {
        rmdir(place.directory);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (set_limit(&place, controller, limit_of(&record->spec, controller)) < 0) {
        return error_set(err, ERROR_BAD_REQUEST, errno, "the kernel refuses this limit of %s: %s",
                         option_names[controller], strerror(errno));
    }
    return 0;
}

int local_cgroup_make(struct local_record *record, struct error *err)
{
    for (enum local_controller c = 0; c < LOCAL_CONTROLLERS; c++) {
        if (limit_of(&record->spec, c) != 0 && make_one(record, c, err) < 0) {
            struct error ignored = {0};

            (void)!local_cgroup_remove(record, 0, &ignored);
            return -1;
        }
    }
    return 0;
}

const char *local_cgroup_inside(const char *directory)
{
    static const char *const inside[LOCAL_CONTROLLERS] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu",
                                                          "/sys/fs/cgroup/pids"};
    static const char *const marks[LOCAL_CONTROLLERS] = {"memory.limit_in_bytes", "cpu.cfs_quota_us",
                                                         "pids.max"};
    char words[1024];

    if (read_file(directory, "cgroup.controllers", words, sizeof words) == 0) {
        return "/sys/fs/cgroup";
    }
    for (enum local_controller c = 0; c < LOCAL_CONTROLLERS; c++) {
        if (writable(directory, marks[c])) {
            return inside[c];
        }
    }
    return "/sys/fs/cgroup/other";
}

int local_cgroup_remove(const struct local_record *record, uint64_t deadline_ms, struct error *err)
{
    const struct timespec pause = {0, RETRY_MS * 1000000};

    for (char *const *group = record->cgroups; *group != NULL; group++) {
        while (rmdir(*group) < 0 && errno != ENOENT) {
            if (errno != EBUSY) {
                return error_set_errno(err, errno, "remove %s", *group);
            }
            if (clock_now_ms() >= deadline_ms) {
                return error_set(err, ERROR_NO_ANSWER, 0, "%s is still in use", *group);
            }
            nanosleep(&pause, NULL);
        }
    }
    return 0;
}
