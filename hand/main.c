/* The program inside the sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "hand/prepare.h"
#include "hand/relay.h"
#include "hand/server.h"
#include "hand/tool.h"
#include "sandbox/base64.h"
#include "sandbox/cleanup.h"
#include "sandbox/error.h"

#define MAX_VARIABLE (128u << 10) /* bytes of one: MAX_ARG_STRLEN of execve(2) */

static const char help[] =
    "Usage: hand serve --workdir DIR (--listen-fd N | --socket PATH) [--ready-fd M] [--linger-ms T]\n"
    "                  [--apart-ms T] [--leave-ms T] [--env-base64 TEXT]...\n"
    "       hand connect --socket PATH [--peer-pid N]\n"
    "       hand prepare STEP...\n"
    "       hand tool VERB ARGUMENTS\n"
    "       hand version\n"
    "\n"
    "The hand is the program of handsfs inside a sandbox: it serves files and runs commands.\n"
    "\n"
    "  serve    serves until it gets SIGTERM; meant to be process 1 of the sandbox\n"
    "  connect  joins its standard input and output with the socket of one that serves\n"
    "  prepare  does what stands before a start: make=MODE:UID:GID:PATH, publish=FROM:TO, cut-network,\n"
    "           await=SOCKET, listens=SOCKET\n"
    "  tool     one of an agent's tools on the files here: lines, edit, put, glob, grep. ARGUMENTS are\n"
    "           LENGTH:NAME=VALUE one after the other\n"
    "\n"
    "  --workdir DIR   where commands start and what paths are relative to; made if it is missing\n"
    "  --listen-fd N   a Unix stream socket that is bound and does not listen yet; peers are taken\n"
    "                  from outside the PID namespace only\n"
    "  --ready-fd M    \"ready\\n\" is written there when it serves, or \"error: TEXT\\n\", then it is closed\n"
    "  --linger-ms T   so long the commands of a host live on whose connection is lost (15000)\n"
    "  --apart-ms T    and so long while no host at all comes through (as --linger-ms)\n"
    "  --leave-ms T    it ends after that long without a host and without a process (never)\n"
    "  --socket PATH   a Unix socket: bound by serve (mode 0600), connected to by connect. Process 1 takes\n"
    "                  peers there from outside the PID namespace, and relays that came into it from there\n"
    "  --peer-pid N    connect only where process N serves\n"
    "  --env-base64 T  a variable for the commands, NAME=VALUE in base64: for who can say UTF-8 only\n";

struct arguments {
    const char *verb, *workdir, *socket;
    int listen_fd, ready_fd, linger_ms, apart_ms, leave_ms, peer_pid;
};

static int parse_number(const char *text, int *ret)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (end == text || *end != '\0' || v < 0 || v > INT_MAX) {
        return -1;
    }
    *ret = (int)v;
    return 0;
}

/* Sets a variable of this process, which is every command's. */
static int set_variable(const char *text)
{
    struct buffer b = BUFFER_INIT(MAX_VARIABLE); /* the environment's from here on */
    char *assignment;

    if (base64_decode(&b, text, strlen(text)) < 0 || (assignment = buffer_text(&b)) == NULL ||
        strlen(assignment) != b.length || strchr(assignment, '=') == NULL || putenv(assignment) != 0) {
        buffer_release(&b);
        return -1;
    }
    return 0;
}

static int parse(struct arguments *a, int argc, char **argv)
{
    static const struct option options[] = {
        {"workdir", required_argument, NULL, 'w'}, {"listen-fd", required_argument, NULL, 'l'},
        {"ready-fd", required_argument, NULL, 'r'}, {"linger-ms", required_argument, NULL, 't'},
        {"socket", required_argument, NULL, 's'},   {"env-base64", required_argument, NULL, 'e'},
        {"peer-pid", required_argument, NULL, 'p'}, {"leave-ms", required_argument, NULL, 'i'},
        {"apart-ms", required_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int *number;
    int o;

    *a = (struct arguments){.listen_fd = -1, .ready_fd = -1, .linger_ms = HAND_LINGER_MS};
    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        number = o == 'l'   ? &a->listen_fd
                 : o == 'r' ? &a->ready_fd
                 : o == 'p' ? &a->peer_pid
                 : o == 'i' ? &a->leave_ms
                 : o == 'a' ? &a->apart_ms
                            : &a->linger_ms;
        if (o == 'w') {
            a->workdir = optarg;
        } else if (o == 's') {
            a->socket = optarg;
        } else if (o == 'h') {
            a->verb = "help";
            return 0;
        } else if (o == 'e') {
            if (set_variable(optarg) < 0) {
                return -1;
            }
        } else if (o == '?' || parse_number(optarg, number) < 0) {
            return -1;
        }
    }
    if (optind != argc - 1) {
        return -1;
    }
    a->verb = argv[optind];
    return 0;
}

/* Descriptors 0 to 2 exist from here on, so that none of ours gets such a number. */
static int open_standard(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= 2);
    if (fd < 0) {
        return -1;
    }
    close(fd);
    return 0;
}

static int bind_socket(const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat st;
    mode_t old;
    int r;

    if (strlen(path) >= sizeof address.sun_path) {
        return error_set_errno(err, ENAMETOOLONG, "%s", path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        unlink(path); /* of one that is no more */
    }
    old = umask(0177);
    r = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(old);
    return r < 0 ? error_set_errno(err, errno, "%s", path) : take_fd(&fd);
}

/* Tells who waits, and leaves the descriptor. -1 where nobody waits any more. */
static int say(int ready_fd, const char *word, const char *text)
{
    int r;

    if (ready_fd < 0) {
        return 0;
    }
    r = dprintf(ready_fd, "%s%s\n", word, text);
    close(ready_fd);
    return r < 0 ? -1 : 0;
}

static int start(const struct arguments *a, struct server **ret, struct error *err)
{
    struct server_options options = {
        .workdir = a->workdir,
        .listen_fd = a->listen_fd,
        .handed = a->listen_fd >= 0,
        .linger_ms = (uint64_t)a->linger_ms,
        .apart_ms = (uint64_t)a->apart_ms,
        .leave_ms = (uint64_t)a->leave_ms,
    };

    if (open_standard() < 0) {
        return error_set_errno(err, errno, "/dev/null");
    }
    if (a->ready_fd >= 0 && fcntl(a->ready_fd, F_SETFD, FD_CLOEXEC) < 0) {
        return error_set_errno(err, errno, "--ready-fd %d", a->ready_fd);
    }
    if (!options.handed) {
        options.listen_fd = bind_socket(a->socket, err);
        if (options.listen_fd < 0) {
            return -1;
        }
    }
    return server_new(ret, &options, err);
}

static int serve(const struct arguments *a)
{
    struct server *server = NULL;
    struct error err;

    if (start(a, &server, &err) < 0) {
        fprintf(stderr, "hand: %s\n", err.message);
        (void)say(a->ready_fd, "error: ", err.message);
        return EXIT_FAILURE;
    }
    if (say(a->ready_fd, "ready", "") < 0) {
        return EXIT_FAILURE; /* who asked for a sandbox has died: nobody knows of this one */
    }
    server_run(server);
    if (a->socket != NULL) {
        unlink(a->socket);
    }
    return EXIT_SUCCESS;
}

static int connect_through(const struct arguments *a)
{
    struct error err;

    if (relay_run(a->socket, a->peer_pid, &err) < 0) {
        fprintf(stderr, "hand: %s\n", err.message);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static int prepare(int count, char **steps)
{
    struct error err;

    if (prepare_run(count, steps, &err) < 0) {
        fprintf(stderr, "hand: %s\n", err.message);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct arguments a;

    if (argc > 1 && strcmp(argv[1], "prepare") == 0) {
        return prepare(argc - 2, argv + 2);
    }
    if (argc > 1 && strcmp(argv[1], "tool") == 0) {
        return tool_main(argc, argv);
    }
    if (parse(&a, argc, argv) < 0) {
        fputs(help, stderr);
        return 2;
    }
    if (strcmp(a.verb, "help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(a.verb, "version") == 0) {
        puts(HANDSFS_VERSION);
        return EXIT_SUCCESS;
    }
    if (strcmp(a.verb, "serve") == 0 && a.workdir != NULL && (a.listen_fd >= 0) != (a.socket != NULL)) {
        return serve(&a);
    }
    if (strcmp(a.verb, "connect") == 0 && a.socket != NULL) {
        return connect_through(&a);
    }
    fputs(help, stderr);
    return 2;
}
