/* The log. Below the edge (sandbox, hand, backends) only log_trace(); at the edge (fs operations, the
 * gateway's methods, the program) one line a failure. Lines go to standard error, or to syslog(3) when
 * the program has become a daemon; text from a sandbox is escaped. */
#ifndef HANDSFS_SANDBOX_LOG_H
#define HANDSFS_SANDBOX_LOG_H

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_TRACE };

/* What is above `level` is dropped; LOG_LEVEL_WARNING until said otherwise. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

/* The name before each line on standard error ("handsfs" until said otherwise). Not copied. */
void log_set_name(const char *name);

/* From now on syslog(3), facility daemon. */
void log_to_syslog(void);

/* One line each; a control character in the text is written as \xHH. Keeps errno. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
