#include "sandbox/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

#define LINE_MAX_BYTES 2048 /* a longer line is cut */

static struct {
    enum log_level level;
    const char *name;
    bool syslog;
} log_state = {LOG_LEVEL_WARNING, "handsfs", false};

void log_set_level(enum log_level level)
{
    log_state.level = level;
}

bool log_enabled(enum log_level level)
{
    return level <= log_state.level;
}

void log_set_name(const char *name)
{
    log_state.name = name;
}

void log_to_syslog(void)
{
    openlog(log_state.name, LOG_PID, LOG_DAEMON);
    log_state.syslog = true;
}

/* Writes `in` to `out` with control characters made visible: a sandbox's file name must not be able to
 * forge a line or drive a terminal. */
static void escape(char *out, size_t size, const char *in)
{
    size_t used = 0;

    for (; *in != '\0' && used + 5 < size; in++) {
        unsigned char c = (unsigned char)*in;

        if (c < 0x20 || c == 0x7f) {
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", c);
        } else {
            out[used++] = (char)c;
        }
    }
    out[used] = '\0';
}

static void write_line(enum log_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void write_line(enum log_level level, const char *format, va_list args)
{
    static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    char raw[LINE_MAX_BYTES];
    char line[LINE_MAX_BYTES];
    int saved = errno;

    vsnprintf(raw, sizeof raw, format, args);
    escape(line, sizeof line, raw);
    if (log_state.syslog) {
        syslog(priorities[level], "%s", line);
    } else {
        fprintf(stderr, "%s: %s\n", log_state.name, line);
    }
    errno = saved;
}

#define DEFINE_LOG(function, level)                                                                \
    void function(const char *format, ...)                                                         \
    {                                                                                              \
        va_list args;                                                                              \
                                                                                                   \
        if (!log_enabled(level)) {                                                                 \
            return;                                                                                \
        }                                                                                          \
        va_start(args, format);                                                                    \
        write_line(level, format, args);                                                           \
        va_end(args);                                                                              \
    }

DEFINE_LOG(log_error, LOG_LEVEL_ERROR)
DEFINE_LOG(log_warning, LOG_LEVEL_WARNING)
DEFINE_LOG(log_info, LOG_LEVEL_INFO)
DEFINE_LOG(log_trace, LOG_LEVEL_TRACE)
