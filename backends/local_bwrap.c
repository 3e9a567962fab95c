/* The order matters: bubblewrap mounts from the first argument to the last. The root is an empty tmpfs; of
 * the host's there is /usr (read-only), the few files of /etc that programs from there need, and nothing of
 * anybody's home. Last come the session's own directories and the hand.
 *
 * /proc/sys needs care: the kernel lets whoever is the host's user 0 write there, in any namespace and
 * without any capability, and a sandbox made by root runs as that user. Bubblewrap protects only what looks
 * writable, so it is bound over itself read-only here. */
#include "backends/local_bwrap.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/local_cgroup.h"
#include "backends/local_state.h"
#include "sandbox/capability.h"
#include "sandbox/cleanup.h"

#define ARGUMENTS_MAX_BYTES (LOCAL_RECORD_MAX_BYTES + (1u << 20))
#define HOST_FILE_MAX 65536 /* of the host's resolv.conf */
#define SANDBOX_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

void local_arguments_init(struct local_arguments *arguments)
{
    *arguments = (struct local_arguments){.fd_count = 0};
    buffer_init(&arguments->text, ARGUMENTS_MAX_BYTES);
}

void local_arguments_release(struct local_arguments *arguments)
{
    buffer_release(&arguments->text);
    while (arguments->fd_count > 0) {
        close(arguments->fds[--arguments->fd_count]);
    }
}

/* Adds arguments up to a NULL. A failure is remembered, to be looked at once. */
static void add(struct local_arguments *arguments, ...) __attribute__((sentinel));
static void add(struct local_arguments *arguments, ...)
{
    va_list list;
    const char *argument;

    va_start(list, arguments);
    while ((argument = va_arg(list, const char *)) != NULL) {
        if (buffer_append(&arguments->text, argument, strlen(argument) + 1) < 0) {
            arguments->failed = true;
        }
    }
    va_end(list);
}

/* Takes a descriptor over, to be inherited; -1 marks the failure. */
static void take(struct local_arguments *arguments, int fd)
{
    if (fd < 0) {
        arguments->failed = true;
    } else if (arguments->fd_count == LOCAL_MAX_FDS) {
        close(fd);
        arguments->failed = true;
    } else {
        arguments->fds[arguments->fd_count++] = fd;
    }
}

static int data_fd(const void *data, size_t length)
{
    cleanup_fd int fd = memfd_create("handsfs", MFD_CLOEXEC);
    size_t done = 0;

    while (fd >= 0 && done < length) {
        ssize_t n = write(fd, (const char *)data + done, length - done);

        if (n <= 0) {
            return -1;
        }
        done += (size_t)n;
    }
    return fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -1 : take_fd(&fd);
}

/* A file inside with this content. `how` is --file, or --bind-data for a mount point. */
static void add_file(struct local_arguments *arguments, const char *how, const char *path,
                     const char *content)
{
    int fd = data_fd(content, strlen(content));
    char number[16];

    take(arguments, fd);
    snprintf(number, sizeof number, "%d", fd);
    add(arguments, "--perms", "0644", how, number, path, NULL);
}

/* ---- What the host lends ---- */

/* /bin and its like as the host has them: links to /usr, or directories of their own. */
static void add_programs(struct local_arguments *arguments)
{
    static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    char target[PATH_MAX];

    add(arguments, "--ro-bind", "/usr", "/usr", NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct stat st;
        ssize_t n = readlink(names[i], target, sizeof target - 1);

        if (n > 0) {
            target[n] = '\0';
            add(arguments, "--symlink", target, names[i], NULL);
        } else if (stat(names[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            add(arguments, "--ro-bind", names[i], names[i], NULL);
        }
    }
}

/* One entry of the host's /etc: a link as a link, anything else read-only. */
static void add_host_file(struct local_arguments *arguments, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);

    if (n > 0) {
        target[n] = '\0';
        if (strncmp(target, "/usr/", 5) == 0 || strncmp(target, "../usr/", 7) == 0) {
            add(arguments, "--symlink", target, path, NULL);
            return;
        }
    }
    add(arguments, "--ro-bind-try", path, path, NULL);
}

/* Nothing that may hold a secret: of /etc/ssl and /etc/pki the certificates, not the keys. */
static void add_host_files(struct local_arguments *arguments)
{
    static const char *const patterns[] = {
        "/etc/ld.so.*",         "/etc/alternatives",    "/etc/ssl/certs",         "/etc/ssl/openssl.cnf",
        "/etc/ca-certificates*", "/etc/pki/ca-trust",   "/etc/pki/tls/certs",     "/etc/pki/tls/openssl.cnf",
        "/etc/crypto-policies", "/etc/localtime",       "/etc/mime.types",        "/etc/magic*",
        "/etc/os-release",      "/etc/debian_version",  "/etc/protocols",         "/etc/services",
        "/etc/host.conf",       "/etc/gai.conf",        "/etc/terminfo",          "/etc/inputrc",
        "/etc/fonts",           "/etc/java-*",          "/etc/python3*",          "/etc/perl",
        "/etc/vim",             "/etc/locale.alias",
    };

    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        glob_t found = {0};

        if (glob(patterns[i], 0, NULL, &found) == 0) {
            for (size_t j = 0; j < found.gl_pathc; j++) {
                add_host_file(arguments, found.gl_pathv[j]);
            }
        }
        globfree(&found);
    }
}

/* What of /proc says too much of the host, or lets its user 0 change it. */
static void add_proc(struct local_arguments *arguments)
{
    static const char *const directories[] = {"/proc/acpi", "/proc/scsi", "/proc/fs", "/proc/asound"};
    static const char *const files[] = {"/proc/kcore",       "/proc/keys",          "/proc/timer_list",
                                        "/proc/sched_debug", "/proc/latency_stats", "/proc/kpagecount",
                                        "/proc/kpageflags",  "/proc/kpagecgroup",   "/proc/slabinfo",
                                        "/proc/vmallocinfo", "/proc/mtrr"};

    add(arguments, "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", NULL);
    if (access("/proc/sysrq-trigger", F_OK) == 0) {
        add(arguments, "--ro-bind", "/dev/null", "/proc/sysrq-trigger", NULL);
    }
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        if (access(directories[i], F_OK) == 0) {
            add(arguments, "--tmpfs", directories[i], "--remount-ro", directories[i], NULL);
        }
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (access(files[i], F_OK) == 0) {
            add(arguments, "--ro-bind", "/dev/null", files[i], NULL);
        }
    }
}

void local_arguments_base(struct local_arguments *arguments, const struct local_identity *identity,
                          int userns_fd)
{
    char number[16];

    if (userns_fd >= 0) {
        take(arguments, fcntl(userns_fd, F_DUPFD_CLOEXEC, 3));
        snprintf(number, sizeof number, "%d",
                 arguments->fd_count > 0 ? arguments->fds[arguments->fd_count - 1] : -1);
        add(arguments, "--userns", number, NULL);
    } else {
        add(arguments, "--unshare-user", NULL);
        snprintf(number, sizeof number, "%u", identity->uid);
        add(arguments, "--uid", number, NULL);
        snprintf(number, sizeof number, "%u", identity->gid);
        add(arguments, "--gid", number, NULL);
    }
    add(arguments, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1",
        "--cap-drop", "ALL", NULL);
    for (unsigned i = 0; capability_name(i) != NULL; i++) {
        if ((identity->capabilities >> i & 1) != 0) {
            add(arguments, "--cap-add", capability_name(i), NULL);
        }
    }
    add_programs(arguments);
    add_proc(arguments);
    add(arguments, "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--perms", "1777", "--tmpfs",
        "/tmp", NULL);
}

/* ---- What is made for it ---- */

static void add_accounts(struct local_arguments *arguments, const struct local_identity *identity)
{
    static const char *const passwd = "root:x:0:0:root:/root:/bin/bash\n"
                                      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    static const char *const group = "root:x:0:\ntty:x:5:\nstaff:x:50:\nusers:x:100:\nnogroup:x:65534:\n";
    char users[512];
    char groups[512];

    if (identity->uid == 0) {
        snprintf(users, sizeof users, "root:x:0:%u:root:" LOCAL_HOME_INSIDE ":/bin/bash\n%s", identity->gid,
                 strchr(passwd, '\n') + 1);
    } else if (identity->uid == 65534) {
        snprintf(users, sizeof users, "nobody:x:65534:%u:nobody:" LOCAL_HOME_INSIDE ":/bin/bash\n%.*s",
                 identity->gid, (int)strcspn(passwd, "\n") + 1, passwd);
    } else {
        snprintf(users, sizeof users, "sandbox:x:%u:%u:sandbox:" LOCAL_HOME_INSIDE ":/bin/bash\n%s",
                 identity->uid, identity->gid, passwd);
    }
    snprintf(groups, sizeof groups, identity->gid == 0 ? "%s" : "%ssandbox:x:%u:\n", group, identity->gid);
    add_file(arguments, "--file", "/etc/passwd", users);
    add_file(arguments, "--file", "/etc/group", groups);
}

/* The host's resolv.conf where the sandbox has the host's network. */
static void add_resolver(struct local_arguments *arguments, const char *how,
                         const struct sandbox_spec *spec)
{
    char content[HOST_FILE_MAX];
    cleanup_fd int fd =
        spec->network == NETWORK_FULL ? open("/etc/resolv.conf", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, content, sizeof content - 1) : 0;

    content[n > 0 ? n : 0] = '\0';
    add_file(arguments, how, "/etc/resolv.conf", content);
}

/* The files that any container has as mount points are such here too: they can be written, not replaced. */
static void add_etc(struct local_arguments *arguments, const struct sandbox_spec *spec,
                    const struct local_identity *identity)
{
    const char *how = spec->read_only_root ? "--ro-bind-data" : "--bind-data";
    char text[512];

    add(arguments, "--perms", "0755", "--tmpfs", "/etc", NULL);
    add_accounts(arguments, identity);
    add_file(arguments, "--file", "/etc/nsswitch.conf",
             "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"
             "protocols: files\n");
    snprintf(text, sizeof text,
             "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 %s\n", spec->session);
    add_file(arguments, how, "/etc/hosts", text);
    snprintf(text, sizeof text, "%s\n", spec->session);
    add_file(arguments, how, "/etc/hostname", text);
    add_resolver(arguments, how, spec);
    add_host_files(arguments);
}

/* Whether `path` is `prefix` or below it. */
static bool is_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

int local_workdir_check(const char *workdir, struct error *err)
{
    static const char *const taken[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (is_below(workdir, taken[i])) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "workdir \"%s\" lies in %s", workdir, taken[i]);
        }
    }
    if (strcmp(workdir, "/run") == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "workdir \"/run\" is where the sandbox keeps its hand");
    }
    return 0;
}

/* $HOME inside: its own directory, unless the workdir covers that or nothing but /tmp is writable. */
static const char *home_inside(const struct sandbox_spec *spec)
{
    if (is_below(LOCAL_HOME_INSIDE, spec->workdir)) {
        return spec->workdir;
    }
    return spec->read_only_root ? "/tmp" : LOCAL_HOME_INSIDE;
}

static void add_environment(struct local_arguments *arguments, const struct sandbox_spec *spec,
                            const struct local_identity *identity)
{
    add(arguments, "--clearenv", "--setenv", "PATH", SANDBOX_PATH, "--setenv", "HOME", home_inside(spec),
        "--setenv", "USER",
        identity->uid == 0       ? "root"
        : identity->uid == 65534 ? "nobody"
                                 : "sandbox",
        "--setenv", "LANG", "C.UTF-8", "--setenv", "TERM", "dumb", "--setenv", "HANDSFS_SESSION",
        spec->session, NULL);
    for (size_t i = 0; i < spec->env.count; i++) {
        const char *entry = spec->env.entries[i];
        size_t name = strcspn(entry, "=");

        add(arguments, "--setenv", NULL);
        if (buffer_append(&arguments->text, entry, name) < 0 ||
            buffer_append(&arguments->text, "", 1) < 0) {
            arguments->failed = true;
        }
        add(arguments, entry + name + (entry[name] == '='), NULL);
    }
}

/* Binds a directory of the session's. */
static void add_own(struct local_arguments *arguments, const char *directory, const char *name,
                    const char *inside)
{
    cleanup_free char *path = NULL;

    if (asprintf(&path, "%s/%s", directory, name) < 0) {
        path = NULL;
        arguments->failed = true;
        return;
    }
    add(arguments, "--bind", path, inside, NULL);
}

/* All but the workdir, /tmp and what the kernel itself provides. */
static void add_read_only(struct local_arguments *arguments, const char *workdir)
{
    static const char *const mounts[] = {"/etc", "/var", "/run", "/dev", "/"};

    for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        if (strcmp(mounts[i], workdir) != 0) {
            add(arguments, "--remount-ro", mounts[i], NULL);
        }
    }
}

int local_arguments_build(struct local_arguments *arguments, const struct local_record *record,
                          const struct local_identity *identity, int userns_fd, const char *directory,
                          const char *hand, struct error *err)
{
    const struct sandbox_spec *spec = &record->spec;

    local_arguments_base(arguments, identity, userns_fd);
    add(arguments, "--hostname", spec->session, NULL);
    if (spec->network == NETWORK_NONE) {
        add(arguments, "--unshare-net", NULL);
    }
    add_environment(arguments, spec, identity);
    add_etc(arguments, spec, identity);
    for (char *const *group = record->cgroups; *group != NULL; group++) {
        add(arguments, "--ro-bind", *group, local_cgroup_inside(*group), NULL);
    }
    add(arguments, "--perms", "0755", "--tmpfs", "/var", "--perms", "1777", "--dir", "/var/tmp", "--perms",
        "0755", "--tmpfs", "/run", "--ro-bind", hand, LOCAL_HAND_INSIDE, NULL);
    if (!is_below(LOCAL_HOME_INSIDE, spec->workdir) && !spec->read_only_root) {
        add_own(arguments, directory, LOCAL_HOME, LOCAL_HOME_INSIDE);
    }
    add_own(arguments, directory, LOCAL_WORKSPACE, spec->workdir);
    if (spec->read_only_root) {
        add_read_only(arguments, spec->workdir);
    }
    add(arguments, "--chdir", "/", NULL);
    return arguments->failed ? error_set(err, ERROR_NO_MEMORY, 0, "no memory for bubblewrap's arguments")
                             : 0;
}

int local_arguments_seal(struct local_arguments *arguments, int *ret_fd, struct error *err)
{
    int fd = data_fd(arguments->text.data, arguments->text.length);

    take(arguments, fd);
    if (arguments->failed) {
        return error_set(err, ERROR_NO_MEMORY, 0, "no memory for bubblewrap's arguments");
    }
    *ret_fd = fd;
    return 0;
}
