/* A link without a sandbox: file calls run over a folder of this machine (hand/files.h) on the loop's
 * thread pool, as the real link's do in-process; and it can be told to stop answering. */
#ifndef HANDSFS_TESTS_UNIT_FILES_LINK_H
#define HANDSFS_TESTS_UNIT_FILES_LINK_H

#include "backends/link.h"

enum files_link_mode {
    FILES_LINK_UP,
    FILES_LINK_FROZEN, /* calls wait for their deadline: ERROR_NO_ANSWER */
    FILES_LINK_GONE,   /* ERROR_SANDBOX_GONE at once */
};

/* `workdir` is the sandbox's root and its workdir is `inside`, an absolute path in there. */
struct link *files_link_new(uv_loop_t *loop, const char *root, const char *inside);
void files_link_free(struct link *link); /* with nothing in flight */

/* On the loop's thread, as everything of a link. What was frozen goes on when the mode changes. */
void files_link_set(struct link *link, enum files_link_mode mode);
/* Has `what` (NULL: nothing) run before each call of this op is served, on the thread that serves it. */
void files_link_before(struct link *link, enum wire_op op, void (*what)(void));
bool files_link_waits_for(const struct link *link, enum wire_op op); /* such a call is frozen */

#endif
