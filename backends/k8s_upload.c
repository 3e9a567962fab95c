/* The hand put into a container. An exec stream is all there is to do it with, and such streams
 * are known to lose bytes: of stdin where the program ends soon after its last read, of stdout
 * where it ends soon after its last write. So the program inside counts what it takes and sends
 * it back, and every byte is compared here before the hand gets the name that somebody waits
 * for; a stream that lost some is tried again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backends/hand_program.h"
#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define TRIES 3
#define SIZE_BYTES 24
#define OUTPUT_MAX 4096
#define NOT_RUN 126 /* of our scripts: the hand is not what it should be, or cannot be run */

#define TAKE K8S_PATH_FIRST "umask 022; head -c \"$2\" >\"$1\" && chmod 755 \"$1\" && cat \"$1\""
#define PUBLISH                                                                                    \
    K8S_PATH_FIRST                                                                                 \
    "[ \"$(\"$1\" version)\" = \"$2\" ] || exit 126; "                                             \
    "exec \"$1\" prepare \"make=0755:-:-:$3/bin\" \"publish=$1:$3" K8S_HAND_IN "\""

int k8s_run(const struct k8s_target *target, const struct k8s_run *run, struct buffer *output,
            int *ret_exit, struct error *err)
{
    struct k8s_exec exec = {.namespace_ = target->namespace_,
                            .pod = run->pod,
                            .container = run->container,
                            .argv = run->argv,
                            .deadline_ms = run->deadline_ms};
    struct error why = {0};
    int status = -1;

    if (ret_exit != NULL) {
        *ret_exit = -1;
    }
    if (k8s_exec_run(target->client, &exec, run->input, run->length, output, &status, &why) < 0) {
        *err = why;
        return -1;
    }
    if (status == 0) {
        return 0;
    }
    if (ret_exit != NULL) {
        *ret_exit = status;
    }
    return error_set(err, ERROR_IO, 0, "%s in Pod %s ended with status %d%s%s", run->argv[0],
                     run->pod, status, why.message[0] != '\0' ? ": " : "", why.message);
}

int k8s_await_hand(const struct k8s_target *target, const struct k8s_handle *handle, bool patience,
                   uint64_t deadline_ms, struct error *err)
{
    const char *directory = handle->directory != NULL ? handle->directory : K8S_HAND_DIR;
    const char *socket = handle->socket != NULL ? handle->socket : K8S_SOCKET_PATH;
    cleanup_buffer struct buffer output = BUFFER_INIT(OUTPUT_MAX);
    cleanup_free char *hand = NULL;
    cleanup_free char *step = NULL;
    struct k8s_run run = {
        .pod = handle->pod, .container = handle->container, .deadline_ms = deadline_ms};

    if (asprintf(&hand, "%s" K8S_HAND_IN, directory) < 0 ||
        asprintf(&step, "%s=%s", patience ? "await" : "listens", socket) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    run.argv = (const char *const[]){hand, "prepare", step, NULL};
    return k8s_run(target, &run, &output, NULL, err);
}

/* Sends it and takes it back. 1 where they differ. */
static int send_bytes(const struct k8s_target *target, struct k8s_run run,
                      const struct buffer *hand, const char *temporary, struct error *err)
{
    cleanup_buffer struct buffer back = BUFFER_INIT(HAND_PROGRAM_MAX + 1);
    char size[SIZE_BYTES];

    snprintf(size, sizeof size, "%zu", hand->length);
    run.argv = (const char *const[]){"/bin/sh", "-c", TAKE, "sh", temporary, size, NULL};
    run.input = hand->data;
    run.length = hand->length;
    if (k8s_run(target, &run, &back, NULL, err) < 0) {
        return -1;
    }
    if (back.length != hand->length || memcmp(back.data, hand->data, hand->length) != 0) {
        error_set(err, ERROR_NO_ANSWER, 0,
                  "of the hand's %zu bytes %zu came back from Pod %s, or others", hand->length,
                  back.length, run.pod);
        return 1;
    }
    return 0;
}

/* Gives it the name under which it is waited for. */
static int publish(const struct k8s_target *target, struct k8s_run run, const char *temporary,
                   const char *directory, struct error *err)
{
    cleanup_buffer struct buffer output = BUFFER_INIT(OUTPUT_MAX);
    const char *machine = hand_program_architecture();
    int status;

    run.argv = (const char *const[]){"/bin/sh",       "-c",      PUBLISH, "sh", temporary,
                                     HANDSFS_VERSION, directory, NULL};
    if (k8s_run(target, &run, &output, &status, err) == 0) {
        return 0;
    }
    return status == NOT_RUN
               ? error_set(err, ERROR_BAD_REQUEST, 0,
                           "the hand cannot be run in Pod %s: it is built for %s, "
                           "version " HANDSFS_VERSION " (is the node another machine?)",
                           run.pod, machine != NULL ? machine : "this host's machine")
               : -1;
}

int k8s_upload(const struct k8s_target *target, const char *pod, const char *container,
               const char *directory, uint64_t deadline_ms, struct error *err)
{
    cleanup_buffer struct buffer hand = BUFFER_INIT(HAND_PROGRAM_MAX);
    cleanup_free char *temporary = NULL;
    struct k8s_run run = {.pod = pod, .container = container, .deadline_ms = deadline_ms};
    uint64_t number;
    int r = 1;

    if (hand_program_read(&hand, err) < 0) {
        return -1;
    }
    if (getrandom(&number, sizeof number, 0) != sizeof number ||
        asprintf(&temporary, "%s/.hand-%016llx", directory, (unsigned long long)number) < 0) {
        temporary = NULL;
        return error_set(err, ERROR_NO_MEMORY, errno, "out of memory for the hand's name");
    }
    for (unsigned i = 0; i < TRIES && r != 0 && clock_now_ms() < deadline_ms; i++) {
        r = send_bytes(target, run, &hand, temporary, err);
        if (r != 0) {
            log_trace("the hand for Pod %s: %s", pod, err->message);
        }
        if (r < 0 && err->code != ERROR_NO_ANSWER) {
            break;
        }
    }
    if (r != 0) {
        return error_prefix(err, "the hand could not be put in");
    }
    return publish(target, run, temporary, directory, err);
}
