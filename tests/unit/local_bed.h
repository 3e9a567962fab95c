/* Local sandboxes for tests, with a stand-in for the hand whose connections are shells. */
#ifndef HANDSFS_TESTS_UNIT_LOCAL_BED_H
#define HANDSFS_TESTS_UNIT_LOCAL_BED_H

#include "backends/local_process.h"
#include "sandbox/sandbox.h"

#define BED_DEADLINE_MS 20000
#define BED_OUTPUT_BYTES 65536

/* Whether this machine can make sandboxes, or is to be told off for it (HANDSFS_REQUIRE). */
bool bed_possible(void);

/* How many kinds of caller there are to test as: this one, and an ordinary user where this one is root. */
int bed_callers(void);

/* Once before and once after the tests, in the process that forks them. */
void bed_open(void);
void bed_close(void);

/* In a test: from here on as the caller of this number, and as the parent of all hands of whom nobody else is,
 * dead or alive: wait(2) only for who is meant. */
void bed_become(int caller);

uint64_t bed_deadline(void);

/* A checked spec of this session; ends with sandbox_spec_release(). */
void bed_spec(struct sandbox_spec *spec, const char *session);

/* Provisions; fails the test where that fails. */
void bed_provision(const struct sandbox_spec *spec, struct sandbox *ret);
void bed_destroy(const char *session);

/* Runs a bash script inside and gives what it says, to be freed. */
char *bed_run(struct sandbox *sandbox, const char *script);

/* Fails the test where the script does not say exactly this. */
void bed_expect(struct sandbox *sandbox, const char *script, const char *output);

/* The process of its hand; ends with local_process_release(). */
void bed_hand(struct sandbox *sandbox, struct local_process *ret);

/* Kills it and waits until it and all of its are gone. */
void bed_kill(struct sandbox *sandbox);

/* Stops it (SIGSTOP), and gives it as bed_hand(). */
void bed_freeze(struct sandbox *sandbox, struct local_process *ret);

/* How many names in the state directory have this one in them. */
size_t bed_names(const char *session);

#define BED_TIMEOUT_S 60 /* of a test: sandboxes take their time */

#endif
