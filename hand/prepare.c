#include "hand/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define AWAIT_PAUSE_NS 20000000
#define LINE_MAX_BYTES 512

/* ---- Directories and files --------------------------------------------------------------------- */

/* Reads a number of this base up to the colon and steps over that. */
static int take_number(char **at, int base, uint32_t *ret)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(*at, &end, base);
    if (end == *at || *end != ':' || errno != 0 || value >= UINT32_MAX || **at == '-') {
        return -1;
    }
    *ret = (uint32_t)value;
    *at = end + 1;
    return 0;
}

/* The same, where "-" stands for UINT32_MAX: chown(2)'s "leave it". */
static int take_owner(char **at, uint32_t *ret)
{
    if (strncmp(*at, "-:", 2) == 0) {
        *at += 2;
        *ret = UINT32_MAX;
        return 0;
    }
    return take_number(at, 10, ret);
}

static int make(char *value, struct error *err)
{
    char *at = value;
    uint32_t mode, uid, gid;
    struct stat st;
    cleanup_fd int fd = -1;

    if (take_number(&at, 8, &mode) < 0 || take_owner(&at, &uid) < 0 || take_owner(&at, &gid) < 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "make=%s: not MODE:UID:GID:PATH", value);
    }
    if (mkdir(at, 0700) < 0 && errno != EEXIST) {
        return error_set_errno(err, errno, "mkdir %s", at);
    }
    fd = open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return error_set_errno(err, errno, "%s", at);
    }
    /* The mode first: once given away it is no more ours to change, unless CAP_FOWNER is here. So of a
     * second run only the outcome counts. */
    if (fchmod(fd, mode & 07777) < 0 && (st.st_mode & 07777) != (mode & 07777)) {
        return error_set_errno(err, errno, "chmod %s", at);
    }
    if (((uid != UINT32_MAX && uid != st.st_uid) || (gid != UINT32_MAX && gid != st.st_gid)) &&
        fchown(fd, uid, gid) < 0) {
        return error_set_errno(err, errno, "chown %s", at);
    }
    return 0;
}

static int publish(char *value, struct error *err)
{
    char *to = strchr(value, ':');
    cleanup_fd int fd = -1;

    if (to == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "publish=%s: not FROM:TO", value);
    }
    *to++ = '\0';
    fd = open(value, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0) {
        return error_set_errno(err, errno, "%s", value);
    }
    return rename(value, to) < 0 ? error_set_errno(err, errno, "rename to %s", to) : 0;
}

/* ---- The network ------------------------------------------------------------------------------- */

static int interface_flags(int fd, const char *name, struct ifreq *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret->ifr_name, name, strnlen(name, IFNAMSIZ - 1));
    return ioctl(fd, SIOCGIFFLAGS, ret);
}

static int take_down(int fd, const char *name, struct error *err)
{
    struct ifreq request;

    if (interface_flags(fd, name, &request) < 0) {
        return error_set_errno(err, errno, "network interface %s", name);
    }
    if ((request.ifr_flags & IFF_LOOPBACK) != 0) {
        return 0;
    }
    if ((request.ifr_flags & IFF_UP) != 0) {
        request.ifr_flags = (short)(request.ifr_flags & ~IFF_UP);
        if (ioctl(fd, SIOCSIFFLAGS, &request) < 0) {
            return error_set_errno(err, errno, "take network interface %s down", name);
        }
    }
    if (interface_flags(fd, name, &request) < 0) {
        return error_set_errno(err, errno, "network interface %s", name);
    }
    return (request.ifr_flags & IFF_UP) != 0
               ? error_set(err, ERROR_IO, 0, "network interface %s stays up", name)
               : 0;
}

/* No route of IPv4 may be left at all, and of IPv6 none that leaves by an interface other than
 * the loopback. A kernel without either has no such file. */
static int no_route_left(const char *path, unsigned header_lines, const char *allowed,
                         struct error *err)
{
    cleanup_file FILE *file = fopen(path, "re");
    char line[LINE_MAX_BYTES];

    if (file == NULL) {
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "%s", path);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        const char *device;

        line[strcspn(line, "\n")] = '\0';
        device = strrchr(line, ' '); /* of an IPv6 route, which has it last */
        if (header_lines > 0) {
            header_lines--;
        } else if (allowed == NULL || device == NULL || strcmp(device + 1, allowed) != 0) {
            return error_set(err, ERROR_IO, 0, "a route is left in %s: %s", path, line);
        }
    }
    return ferror(file) ? error_set(err, ERROR_IO, 0, "%s cannot be read", path) : 0;
}

static int cut_network(struct error *err)
{
    cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct if_nameindex *interfaces = fd < 0 ? NULL : if_nameindex();
    int r = 0;

    if (interfaces == NULL) {
        return error_set_errno(err, errno, "the network's interfaces");
    }
    for (const struct if_nameindex *i = interfaces; r == 0 && i->if_name != NULL; i++) {
        r = take_down(fd, i->if_name, err);
    }
    if_freenameindex(interfaces);
    if (r < 0) {
        return -1;
    }
    return no_route_left("/proc/net/route", 1, NULL, err) < 0
               ? -1
               : no_route_left("/proc/net/ipv6_route", 0, "lo", err);
}

/* ---- Waiting ----------------------------------------------------------------------------------- */

static int await(const char *path, uint64_t deadline, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timespec pause = {0, AWAIT_PAUSE_NS};

    if (strlen(path) >= sizeof address.sun_path) {
        return error_set_errno(err, ENAMETOOLONG, "%s", path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    for (;;) {
        cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
            return 0;
        }
        if (clock_now_ms() >= deadline) {
            return error_set_errno(err, errno, "%s", path);
        }
        nanosleep(&pause, NULL);
    }
}

int prepare_run(int count, char **steps, struct error *err)
{
    for (int i = 0; i < count; i++) {
        char *value = strchr(steps[i], '=');
        size_t length = value != NULL ? (size_t)(value - steps[i]) : strlen(steps[i]);
        int r;

        value = value != NULL ? value + 1 : steps[i] + length;
        if (strcmp(steps[i], "cut-network") == 0) {
            r = cut_network(err);
        } else if (length == 4 && strncmp(steps[i], "make", length) == 0) {
            r = make(value, err);
        } else if (length == 7 && strncmp(steps[i], "publish", length) == 0) {
            r = publish(value, err);
        } else if (length == 5 && strncmp(steps[i], "await", length) == 0) {
            r = await(value, clock_now_ms() + PREPARE_AWAIT_MS, err);
        } else if (length == 7 && strncmp(steps[i], "listens", length) == 0) {
            r = await(value, 0, err);
        } else {
            r = error_set(err, ERROR_BAD_REQUEST, 0, "prepare: unknown step \"%s\"", steps[i]);
        }
        if (r < 0) {
            return -1;
        }
    }
    return 0;
}
