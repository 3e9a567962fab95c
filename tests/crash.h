/* Where a test's process died of a fault, on stderr: an exit status alone does not tell. The first line says whether it
 * was the main thread. Link with -rdynamic for names. */
#ifndef HANDSFS_TESTS_CRASH_H
#define HANDSFS_TESTS_CRASH_H

#include <execinfo.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static inline void crash_tell(int sig)
{
    static const char main_thread[] = "a fault in the main thread:\n", other[] = "a fault in another thread:\n";
    bool is_main = gettid() == getpid();
    void *frames[48];

    (void)!write(STDERR_FILENO, is_main ? main_thread : other, (is_main ? sizeof main_thread : sizeof other) - 1);
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
    raise(sig); /* SA_RESETHAND: as it would have ended */
}

/* Sanitizers tell on their own. */
static inline void crash_watch(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction tell = {.sa_handler = crash_tell, .sa_flags = SA_RESETHAND | SA_NODEFER}, is;
    void *frame;

    (void)backtrace(&frame, 1); /* loads what it needs: in a handler it may not */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (sigaction(faults[i], NULL, &is) == 0 && is.sa_handler == SIG_DFL) {
            sigaction(faults[i], &tell, NULL);
        }
    }
}

#endif
