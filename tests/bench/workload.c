/* One timed workload: `workload KIND ARGUMENT...` prints its figures, in milliseconds, on one line. bench.sh
 * runs it in turn on the mount and on its peer. Times are of the work alone, not of this program's start. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES (4u << 20)
#define RUNS_MAX 10000

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* "p50 p99" of `n` single times. */
static void print_percentiles(double *ms, size_t n)
{
    qsort(ms, n, sizeof *ms, by_size);
    printf("%.3f %.3f\n", ms[n / 2], ms[n * 99 / 100]);
}

static size_t walked;

static int count_entry(const char *path, const struct stat *st, int type, struct FTW *level)
{
    (void)path;
    (void)st;
    (void)type;
    (void)level;
    walked++;
    return 0;
}

/* walk DIR: lstat of everything below. */
static void walk(const char *dir)
{
    double start = now();

    must(nftw(dir, count_entry, 64, FTW_PHYS) == 0, dir);
    printf("%.3f %zu\n", now() - start, walked);
}

/* tree DIR N: makes N empty files, a hundred a directory. */
static void make_tree(const char *dir, unsigned n)
{
    char path[4096];

    for (unsigned i = 0; i < n; i++) {
        int fd;

        if (i % 100 == 0) {
            snprintf(path, sizeof path, "%s/d%u", dir, i / 100);
            must(mkdir(path, 0755) == 0 || errno == EEXIST, path);
        }
        snprintf(path, sizeof path, "%s/d%u/file-%u.c", dir, i / 100, i);
        fd = open(path, O_CREAT | O_WRONLY, 0644);
        must(fd >= 0, path);
        close(fd);
    }
}

/* write DIR N, read DIR N: whole files of 4 MiB; a write ends with fsync. */
static void whole_files(const char *dir, unsigned n, int writing)
{
    char *bytes = malloc(FILE_BYTES);
    char path[4096];
    double start;

    must(bytes != NULL, "malloc");
    memset(bytes, 'x', FILE_BYTES);
    start = now();
    for (unsigned i = 0; i < n; i++) {
        int fd;

        snprintf(path, sizeof path, "%s/large-%u", dir, i);
        fd = open(path, writing ? O_CREAT | O_TRUNC | O_WRONLY : O_RDONLY, 0644);
        must(fd >= 0, path);
        for (size_t done = 0; done < FILE_BYTES;) {
            ssize_t r = writing ? write(fd, bytes + done, FILE_BYTES - done)
                                : read(fd, bytes + done, FILE_BYTES - done);

            must(r > 0, path);
            done += (size_t)r;
        }
        must(!writing || fsync(fd) == 0, "fsync");
        must(close(fd) == 0, "close");
    }
    printf("%.3f\n", (now() - start) / n);
    free(bytes);
}

/* create DIR N: N files of 100 bytes, written and closed, then removed; a file's time. */
static void create_files(const char *dir, unsigned n)
{
    static const char bytes[100];
    char path[4096];
    double start = now();
    double created;

    for (unsigned i = 0; i < n; i++) {
        int fd;

        snprintf(path, sizeof path, "%s/small-%u", dir, i);
        fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
        must(fd >= 0, path);
        must(write(fd, bytes, sizeof bytes) == sizeof bytes, "write");
        must(close(fd) == 0, "close");
    }
    created = now();
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/small-%u", dir, i);
        must(unlink(path) == 0, path);
    }
    printf("%.4f %.4f\n", (created - start) / n, (now() - created) / n);
}

/* exec SOCKET N: `true` over the control socket, one after the other. */
static void exec_socket(const char *path, unsigned n)
{
    static const char request[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"exec\",\"params\":{\"command\":\"true\"}}\n";
    static double ms[RUNS_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char reply[4096];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, path);
    for (unsigned i = 0; i < n; i++) {
        double start = now();
        size_t got = 0;

        must(write(fd, request, sizeof request - 1) == (ssize_t)sizeof request - 1, "write");
        do {
            ssize_t r = read(fd, reply + got, sizeof reply - 1 - got);

            must(r > 0, "read");
            got += (size_t)r;
        } while (reply[got - 1] != '\n');
        ms[i] = now() - start;
        reply[got] = '\0';
        must(strstr(reply, "\"exit_code\":0") != NULL || strstr(reply, "\"exit_code\": 0") != NULL, reply);
    }
    print_percentiles(ms, n);
    close(fd);
}

/* spawn N PROGRAM ARGUMENT...: starts it and waits for its end, one after the other. What it prints is no figure. */
static void spawn(unsigned n, char **argv)
{
    static double ms[RUNS_MAX];
    posix_spawn_file_actions_t quiet;

    must(posix_spawn_file_actions_init(&quiet) == 0 &&
             posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0) == 0,
         "spawn");
    for (unsigned i = 0; i < n; i++) {
        double start = now();
        pid_t pid;
        int status;

        must(posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) == 0, argv[0]);
        must(waitpid(pid, &status, 0) == pid && status == 0, argv[0]);
        ms[i] = now() - start;
    }
    posix_spawn_file_actions_destroy(&quiet);
    print_percentiles(ms, n);
}

static unsigned number(const char *text)
{
    long n = strtol(text, NULL, 10);

    must(n > 0 && n <= 1000000, text);
    return (unsigned)n;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 2 ? argv[1] : "";

    if (strcmp(kind, "walk") == 0) {
        walk(argv[2]);
    } else if (strcmp(kind, "tree") == 0 && argc == 4) {
        make_tree(argv[2], number(argv[3]));
    } else if ((strcmp(kind, "read") == 0 || strcmp(kind, "write") == 0) && argc == 4) {
        whole_files(argv[2], number(argv[3]), kind[0] == 'w');
    } else if (strcmp(kind, "create") == 0 && argc == 4) {
        create_files(argv[2], number(argv[3]));
    } else if (strcmp(kind, "exec") == 0 && argc == 4 && number(argv[3]) <= RUNS_MAX) {
        exec_socket(argv[2], number(argv[3]));
    } else if (strcmp(kind, "spawn") == 0 && argc > 3 && number(argv[2]) <= RUNS_MAX) {
        spawn(number(argv[2]), argv + 3);
    } else {
        fprintf(stderr, "usage: workload walk|tree|read|write|create|exec|spawn ARGUMENT...\n");
        return 2;
    }
    return 0;
}
