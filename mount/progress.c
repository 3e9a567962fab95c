#include "mount/progress.h"

#include <ctype.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sandbox/clock.h"
#include "sandbox/log.h"

#define ERASE "\r\033[K" /* ECMA-48: to the line's start, and erase it */
#define LINE_MAX_BYTES 256
#define LINE_DEFAULT_COLUMNS 80

static const int ending_signals[PROGRESS_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

/* Nobody needs to know whether it worked: the line is for people. */
static void put(int fd, const char *bytes, size_t length)
{
    (void)!write(fd, bytes, length);
}

/* The default action comes when this returns (SA_RESETHAND). */
static void take_away(int number)
{
    put(STDERR_FILENO, ERASE, sizeof ERASE - 1);
    raise(number);
}

static void catch_signals(struct progress *progress)
{
    const struct sigaction action = {.sa_handler = take_away, .sa_flags = (int)SA_RESETHAND};

    for (size_t i = 0; i < PROGRESS_SIGNALS; i++) {
        sigaction(ending_signals[i], NULL, &progress->before[i]);
        if (progress->before[i].sa_handler == SIG_DFL) { /* others, as nohup(1)'s, stay */
            sigaction(ending_signals[i], &action, NULL);
        }
    }
}

static void release_signals(struct progress *progress)
{
    for (size_t i = 0; i < PROGRESS_SIGNALS; i++) {
        sigaction(ending_signals[i], &progress->before[i], NULL);
    }
}

static size_t columns(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : LINE_DEFAULT_COLUMNS;
}

static void say(struct sandbox_progress *sandbox, const char *text)
{
    struct progress *progress = (struct progress *)sandbox;
    char line[LINE_MAX_BYTES] = ERASE;
    size_t used = strlen(line);
    size_t room = columns(progress->fd) - 1; /* the last column would wrap on some terminals */
    uint64_t now = clock_now_ms();

    if (now < progress->next_ms) {
        return;
    }
    for (; *text != '\0' && room > 0 && used < sizeof line; text++, room--) {
        line[used++] = isprint((unsigned char)*text) ? *text : '?';
    }
    if (!progress->shown) {
        catch_signals(progress);
        progress->shown = true;
    }
    put(progress->fd, line, used);
    progress->next_ms = now + PROGRESS_PAUSE_MS;
}

static void say_nothing(struct sandbox_progress *sandbox, const char *text)
{
    (void)sandbox;
    (void)text;
}

void progress_begin(struct progress *progress, int fd)
{
    bool shows = isatty(fd) == 1 && !log_enabled(LOG_LEVEL_TRACE);

    *progress = (struct progress){.sandbox = {.say = shows ? say : say_nothing}, .fd = fd};
}

void progress_end(struct progress *progress)
{
    if (progress->shown) {
        put(progress->fd, ERASE, sizeof ERASE - 1);
        release_signals(progress);
        progress->shown = false;
    }
}
