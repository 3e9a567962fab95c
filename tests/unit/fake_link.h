/* A link without a sandbox: what exec/ calls of backends/, with answers by script. A command's text says
 * what it does:
 *
 *     echo TEXT    TEXT and a newline on stdout       exit N      that exit code
 *     cat          stdin on stdout                    signal N    ended by that signal
 *     pwd          its cwd                            env         its variables, one a line
 *     late TEXT    as echo, after all others          hang        runs until it is cancelled
 *     fill N       N bytes "x" on stdout              cut         a character cut by the cap
 *     binary       no UTF-8                           timeout     passed its deadline, with a word out
 *     gone         ERROR_SANDBOX_GONE                 cwd         ERROR_NO_SUCH_FILE
 *
 *     reader       reads no stdin before a signal comes; then as cat
 *
 * Files: what was written can be read; "/fill/N" reads as N bytes, "/dir" is a directory, "/full" takes
 * nothing (ENOSPC). All answers come from the loop, as the real link's. */
#ifndef HANDSFS_TESTS_UNIT_FAKE_LINK_H
#define HANDSFS_TESTS_UNIT_FAKE_LINK_H

#include "backends/execution.h"
#include "backends/link.h"

struct link *fake_link_new(uv_loop_t *loop);
void fake_link_free(struct link *link);

/* While held, file calls are not answered. */
void fake_link_hold_file_calls(struct link *link, bool hold);

struct fake_link_counts {
    unsigned started;
    unsigned cancelled;
    unsigned running;
    uint64_t signalled; /* one bit a number */
    uint16_t rows, columns;
    size_t written; /* bytes of stdin */
    unsigned ended_inputs;
    unsigned file_calls;      /* now */
    unsigned file_calls_most; /* at any time */
};
struct fake_link_counts fake_link_counts(const struct link *link);

#endif
