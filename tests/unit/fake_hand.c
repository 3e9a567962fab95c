/* A stand-in for the hand in tests of what starts one: it listens, says that it is ready, and gives each
 * connection a shell that runs what it sends. HANDSFS_FAKE in its environment makes it misbehave:
 * "refuse" (it says an error), "die" (it says nothing and ends), "hang" (it says nothing). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 2; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    _exit(64);
}

static void say(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0) {
        _exit(1); /* nobody waits for it any more */
    }
}

static void misbehave(const char *how, int ready)
{
    if (strcmp(how, "refuse") == 0) {
        say(ready, "error: as it was told\n");
        _exit(1);
    }
    if (strcmp(how, "die") == 0) {
        say(STDERR_FILENO, "fake: died as it was told\n");
        _exit(1);
    }
    for (;;) {
        setsid();
        pause();
    }
}

static void serve(int connection)
{
    if (fork() == 0) {
        dup2(connection, 0);
        dup2(connection, 1);
        dup2(connection, 2);
        close(connection);
        execl("/bin/bash", "bash", (char *)NULL);
        _exit(127);
    }
    close(connection);
}

int main(int argc, char **argv)
{
    int listener = (int)strtol(option(argc, argv, "--listen-fd"), NULL, 10);
    int ready = (int)strtol(option(argc, argv, "--ready-fd"), NULL, 10);
    const char *how = getenv("HANDSFS_FAKE");

    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0);
    if (how != NULL) {
        misbehave(how, ready);
    }
    if (chdir(option(argc, argv, "--workdir")) < 0 || listen(listener, 2) < 0) {
        say(ready, "error: no workdir\n");
        return 1;
    }
    say(ready, "ready\n");
    close(ready);
    for (;;) {
        int connection = accept(listener, NULL, NULL);

        if (connection >= 0) {
            serve(connection);
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}
