/* read and write: the contract's ReadFile and WriteFile, through the session's mount where there is one. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "backends/registry.h"
#include "exec/base64.h"
#include "exec/client.h"
#include "exec/params.h"
#include "mount/attached.h"
#include "mount/verbs.h"
#include "sandbox/log.h"

/* A call over a link of our own. */
struct transfer {
    struct attached attached;
    bool done;
    bool failed;
    struct error error;
    struct buffer *content; /* read's */
};

/* ---- read ----------------------------------------------------------------------------------- */

static int read_through_mount(struct client *client, const char *path, struct buffer *content,
                              struct error *err)
{
    json_t *params = json_pack("{s:s}", "path", path);
    struct params_bytes bytes = {0};
    json_t *result = NULL;
    int r;

    if (params == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the path is not UTF-8");
    }
    r = client_call(client, "read_file", params, REPLY_TIMEOUT_MS, &result, err);
    json_decref(params);
    if (r == 0) {
        r = params_bytes(result, "content", &bytes, err);
        if (r == 0 && buffer_append(content, bytes.data, bytes.length) < 0) {
            r = error_set_errno(err, errno, "the answer");
        }
        buffer_release(&bytes.decoded);
    }
    json_decref(result);
    return r;
}

static void read_done(void *arg, const struct error *err, const uint8_t *data, size_t length)
{
    struct transfer *transfer = arg;

    transfer->done = true;
    if (err != NULL) {
        transfer->failed = true;
        transfer->error = *err;
    } else if (buffer_append(transfer->content, data, length) < 0) {
        transfer->failed = true;
        error_set_errno(&transfer->error, errno, "the answer");
    }
}

static int read_directly(const struct backend *backend, const char *session, const char *path,
                         struct buffer *content, struct error *err)
{
    struct transfer transfer = {.content = content};

    if (attached_open(&transfer.attached, backend, session, err) < 0) {
        return -1;
    }
    link_read_file(transfer.attached.link, path, MAX_FILE_BYTES, 0, read_done, &transfer);
    attached_run(&transfer.attached, &transfer.done);
    attached_close(&transfer.attached);
    if (transfer.failed) {
        *err = transfer.error;
    }
    return transfer.failed ? -1 : 0;
}

static int read_run(struct invocation *invocation, struct error *err)
{
    const char *session = invocation->arguments.words[0];
    const char *path = invocation->arguments.words[1];
    cleanup_buffer struct buffer content = BUFFER_INIT(MAX_FILE_BYTES);
    cleanup_mount_entry struct mount_entry entry = {0};
    const struct backend *backend = NULL;
    struct client *client = NULL;
    int r;

    if (verb_client(&invocation->options, session, &client, &entry, err) < 0 ||
        backend_find(invocation->options.backend, &backend, err) < 0) {
        client_close(client);
        return -1;
    }
    r = client != NULL ? read_through_mount(client, path, &content, err)
                       : read_directly(backend, session, path, &content, err);
    client_close(client);
    if (r < 0) {
        return -1;
    }
    return write_out(STDOUT_FILENO, content.data, content.length) < 0
               ? error_set_errno(err, errno, "cannot write to standard output")
               : EXIT_DONE;
}

/* ---- write ---------------------------------------------------------------------------------- */

static int write_through_mount(struct client *client, const char *path,
                               const struct buffer *content, struct error *err)
{
    json_t *name = json_string(path);
    json_t *params;
    json_t *result = NULL;
    int r;

    if (name == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the path is not UTF-8");
    }
    /* As text it could be six times as long, and over the bound of a line. */
    params = json_pack("{s:o, s:o}", "path", name, "content_base64",
                       base64_json(content->data, content->length));
    if (params == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    r = client_call(client, "write_file", params, REPLY_TIMEOUT_MS, &result, err);
    json_decref(params);
    json_decref(result);
    return r;
}

static void write_done(void *arg, const struct error *err)
{
    struct transfer *transfer = arg;

    transfer->done = true;
    if (err != NULL) {
        transfer->failed = true;
        transfer->error = *err;
    }
}

static int write_directly(const struct backend *backend, const char *session, const char *path,
                          const struct buffer *content, struct error *err)
{
    struct transfer transfer = {0};

    if (attached_open(&transfer.attached, backend, session, err) < 0) {
        return -1;
    }
    link_write_file(transfer.attached.link, path, content->data, content->length, 0, write_done,
                    &transfer);
    attached_run(&transfer.attached, &transfer.done);
    attached_close(&transfer.attached);
    if (transfer.failed) {
        *err = transfer.error;
    }
    return transfer.failed ? -1 : 0;
}

static int write_run(struct invocation *invocation, struct error *err)
{
    const char *session = invocation->arguments.words[0];
    const char *path = invocation->arguments.words[1];
    cleanup_buffer struct buffer content = BUFFER_INIT(MAX_FILE_BYTES);
    cleanup_mount_entry struct mount_entry entry = {0};
    const struct backend *backend = NULL;
    struct client *client = NULL;
    int r;

    if (read_standard_input(&content, err) < 0 ||
        verb_client(&invocation->options, session, &client, &entry, err) < 0 ||
        backend_find(invocation->options.backend, &backend, err) < 0) {
        client_close(client);
        return -1;
    }
    r = client != NULL ? write_through_mount(client, path, &content, err)
                       : write_directly(backend, session, path, &content, err);
    client_close(client);
    return r;
}

const struct verb verb_read = {
    .name = "read",
    .summary = "print a file of the sandbox",
    .synopsis = "SESSION PATH [options]",
    .text = "Prints the bytes of the file PATH inside, 4 MiB at most: a larger one is refused and "
            "not cut, and\n"
            "so is anything but a regular file. A relative path starts at the workspace. With or "
            "without a\n"
            "mount.\n",
    .examples = "  handsfs read s1 main.c\n"
                "  handsfs read s1 /etc/os-release\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND,
    .min_words = 2,
    .max_words = 2,
    .failure = EXIT_FAILED,
    .run = read_run,
};

const struct verb verb_write = {
    .name = "write",
    .summary = "write standard input to a file of the sandbox",
    .synopsis = "SESSION PATH [options]",
    .text = "Makes standard input, 4 MiB at most, the content of the file PATH inside. The file is "
            "replaced as\n"
            "a whole or not at all; missing directories on the way are made. A relative path "
            "starts at the\n"
            "workspace. With or without a mount.\n",
    .examples = "  handsfs write s1 main.c < main.c\n"
                "  date | handsfs write s1 notes/today\n",
    .groups = OPTIONS_COMMON | OPTIONS_BACKEND,
    .min_words = 2,
    .max_words = 2,
    .failure = EXIT_FAILED,
    .run = write_run,
};
