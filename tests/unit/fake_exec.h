/* A server of exec streams on a Unix socket: one upgrade after the other, each answered as its script says. */
#ifndef HANDSFS_TESTS_UNIT_FAKE_EXEC_H
#define HANDSFS_TESTS_UNIT_FAKE_EXEC_H

#include <stddef.h>

struct fake_exec_script {
    const char *protocol; /* that it chooses */
    const char *accept;   /* instead of the right one; or NULL */
    const char *head;     /* instead of all of the answer's head; or NULL */
    void (*serve)(int fd, void *arg); /* after the head; may be NULL. The connection is closed afterwards */
    void *arg;
};

struct fake_exec;

/* Serves as many connections as there are scripts. */
struct fake_exec *fake_exec_start(const struct fake_exec_script *scripts, unsigned count);
const char *fake_exec_socket(const struct fake_exec *fake);
const char *fake_exec_head(const struct fake_exec *fake, unsigned number); /* of a request that was answered */
void fake_exec_stop(struct fake_exec *fake); /* waits for all scripts to have been played */

/* A message to the client: a channel byte (none where negative) and text. */
void fake_exec_say(int fd, int channel, const void *data, size_t length);
void fake_exec_close(int fd); /* says so */
/* The client's next message without its mask, pings left out; its length, or -1 at the end. `channel` -1: it is empty. */
long fake_exec_hear(int fd, int *channel, unsigned char *data, size_t size);

#endif
