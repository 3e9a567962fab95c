/* A client: what one host has here, whichever connection it speaks through. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hand/server.h"
#include "sandbox/clock.h"

/* ---- Coming and going -------------------------------------------------------------------------- */

static void client_free(struct client *client)
{
    loop_disarm(&client->linger);
    list_remove(&client->node);
    client->server->client_count--;
    files_free(client->files);
    free(client);
}

/* What it started dies, what it had open is closed. */
static void client_end(struct client *client)
{
    client->gone = true;
    loop_disarm(&client->linger);
    list_each(at, next, &client->owner.executions) {
        execution_forget(container_of(at, struct execution, by_owner));
    }
    if (client->calls == 0) {
        client_free(client);
    }
}

static uint64_t settle_ms(const struct server *server)
{
    return server->linger_ms < HAND_SETTLE_MS ? server->linger_ms : HAND_SETTLE_MS;
}

/* The host has not come back yet. */
static void linger_over(struct timer *timer)
{
    struct client *client = container_of(timer, struct client, linger);
    struct server *server = client->server;
    uint64_t away_ms = clock_now_ms() - client->left_ms;
    uint64_t next_ms = settle_ms(server);

    if (client->may_come || away_ms >= server->apart_ms) {
        client_end(client);
        return;
    }
    if (server->heard_ms > client->left_ms + settle_ms(server)) {
        client->may_come = true;
        next_ms = server->linger_ms;
    }
    if (next_ms > server->apart_ms - away_ms) {
        next_ms = server->apart_ms - away_ms;
    }
    loop_arm(&server->loop, &client->linger, next_ms);
}

/* Ends the client that has been away for longest, at best one that has no command. */
static void make_room(struct server *server)
{
    struct client *oldest = NULL;

    list_each(at, next, &server->clients) {
        struct client *client = container_of(at, struct client, node);
        bool idle = list_empty(&client->owner.executions);

        if (client->connection != NULL || client->gone) {
            continue;
        }
        if (oldest == NULL || (idle && !list_empty(&oldest->owner.executions)) ||
            (idle == list_empty(&oldest->owner.executions) &&
             client->left_ms < oldest->left_ms)) {
            oldest = client;
        }
    }
    if (oldest != NULL) {
        client_end(oldest);
    }
}

void client_leave(struct client *client)
{
    struct server *server = client->server;

    client->connection = NULL;
    client->left_ms = clock_now_ms();
    client->may_come = server->apart_ms <= server->linger_ms;
    loop_arm(&server->loop, &client->linger,
             client->may_come ? server->linger_ms : settle_ms(server));
}

static void executions_changed(struct execution_owner *owner)
{
    struct client *client = container_of(owner, struct client, owner);

    if (client->connection != NULL) {
        client->connection->changed = true;
    }
}

static struct client *client_find(const struct server *server, const uint8_t id[WIRE_ID_BYTES])
{
    list_each(at, next, &server->clients) {
        struct client *client = container_of(at, struct client, node);

        if (!client->gone && memcmp(client->id, id, WIRE_ID_BYTES) == 0) {
            return client;
        }
    }
    return NULL;
}

static struct client *client_new(struct server *server, const uint8_t id[WIRE_ID_BYTES],
                                 struct error *err)
{
    struct client *client;

    if (server->client_count >= HAND_MAX_CLIENTS) {
        make_room(server);
    }
    if (server->client_count >= HAND_MAX_CLIENTS) {
        error_set(err, ERROR_NO_MEMORY, 0, "too many hosts at once (%d)", HAND_MAX_CLIENTS);
        return NULL;
    }
    client = calloc(1, sizeof *client);
    if (client == NULL) {
        error_set_errno(err, ENOMEM, "client");
        return NULL;
    }
    if (files_new(&client->files, server->root_fd, server->workdir, err) < 0) {
        free(client);
        return NULL;
    }
    client->server = server;
    memcpy(client->id, id, WIRE_ID_BYTES);
    list_init(&client->owner.executions);
    list_init(&client->waiting);
    client->owner.changed = executions_changed;
    timer_init(&client->linger, linger_over);
    list_append(&server->clients, &client->node);
    server->client_count++;
    return client;
}

int client_join(struct connection *connection, const uint8_t id[WIRE_ID_BYTES], struct error *err)
{
    struct client *client = client_find(connection->server, id);

    if (client == NULL) {
        client = client_new(connection->server, id, err);
    }
    if (client == NULL) {
        return -1;
    }
    if (client->connection != NULL) { /* it came back before the end of the old one was seen */
        client->connection->client = NULL;
        client->connection->broken = client->connection->changed = true;
    }
    loop_disarm(&client->linger);
    list_each(at, next, &client->owner.executions) {
        container_of(at, struct execution, by_owner)->quiet = true;
    }
    client->connection = connection;
    connection->client = client;
    return 0;
}

/* ---- File calls -------------------------------------------------------------------------------- */

bool client_busy(const struct client *client)
{
    return client->calls >= HAND_MAX_CALLS || client->call_bytes > HAND_MAX_CALL_BYTES;
}

void client_feed(struct client *client)
{
    while (!list_empty(&client->waiting) && client->at_work < HAND_MAX_AT_WORK &&
           (client->connection == NULL || client->connection->unsent <= HAND_MAX_UNSENT)) {
        struct job *job = container_of(client->waiting.next, struct job, node);

        list_remove(&job->node);
        client->at_work++;
        pool_submit(client->server->pool, job);
    }
}

static void submit(struct client *client, struct job *job)
{
    job->client = client;
    client->calls++;
    client->call_bytes += job->call.length;
    list_append(&client->waiting, &job->node);
    client_feed(client);
}

int client_call(struct client *client, uint64_t id, const uint8_t *call, size_t length)
{
    struct job *job = job_new(client->files, id, call, length);

    if (job == NULL) {
        return -1;
    }
    job->connection = client->connection->serial;
    submit(client, job);
    return 0;
}

/* Nobody will hear of the handle that this call has opened: closes it again. */
static void release_handle(struct client *client, const struct job *job)
{
    struct wire_call release = {.op = WIRE_RELEASE};
    struct buffer call = BUFFER_INIT(WIRE_MAX_PATH);
    struct wire_call asked;
    struct wire_reply reply;
    struct job *closing = NULL;

    if (client->gone || job->reply.length < WIRE_HEADER_BYTES ||
        wire_get_call(job->call.data, job->call.length, &asked) < 0 ||
        wire_get_reply(job->reply.data + WIRE_HEADER_BYTES, job->reply.length - WIRE_HEADER_BYTES,
                       asked.op, &reply) < 0 ||
        reply.handle == 0) {
        return;
    }
    release.ref.handle = reply.handle;
    release.ref.path.data = "";
    if (wire_put_call(&call, &release) == 0) {
        closing = job_new(client->files, 0, call.data, call.length);
    }
    buffer_release(&call);
    if (closing != NULL) {
        submit(client, closing);
    }
}

/* The job is over; its reply goes to the connection that asked, if that is still there. */
static void take_result(struct job *job)
{
    struct client *client = job->client;
    struct connection *connection = client->connection;

    client->calls--;
    client->call_bytes -= job->call.length;
    if (connection == NULL || connection->serial != job->connection) {
        release_handle(client, job);
    } else if (job->reply.length == 0) {
        connection->broken = connection->changed = true;
    } else {
        connection_send(connection, &job->reply);
    }
    job_free(job);
    if (client->gone && client->calls == 0) {
        client_free(client);
    }
}

void clients_take_results(struct server *server)
{
    struct list finished;

    list_init(&finished);
    pool_finished(server->pool, &finished);
    list_each(at, next, &finished) {
        struct job *job = container_of(at, struct job, node);
        struct client *client = job->client;

        list_remove(at);
        client->at_work--;
        client_feed(client);
        take_result(job);
    }
}

/* Takes the call back if nobody has begun it. */
static struct job *withdraw(struct client *client, uint64_t id)
{
    struct job *job;

    list_each(at, next, &client->waiting) {
        job = container_of(at, struct job, node);
        if (job->id == id && job->connection != 0) {
            list_remove(at);
            return job;
        }
    }
    job = pool_withdraw(client->server->pool, client, id);
    if (job != NULL) {
        client->at_work--;
    }
    return job;
}

void client_cancel(struct client *client, uint64_t id)
{
    struct job *job = withdraw(client, id);
    struct wire_reply reply = {
        .code = ERROR_CANCELLED,
        .message = {"cancelled before it began", 25},
    };
    size_t frame;

    if (job == NULL) {
        return;
    }
    frame = wire_begin_frame(&job->reply, WIRE_RESULT, id);
    if (frame == SIZE_MAX || wire_put_reply(&job->reply, WIRE_RELEASE, &reply) < 0) {
        buffer_release(&job->reply);
    } else {
        wire_end_frame(&job->reply, frame);
    }
    take_result(job);
}

/* ---- Commands ---------------------------------------------------------------------------------- */

int client_tell(struct client *client, struct buffer *out)
{
    list_each(at, next, &client->owner.executions) {
        struct execution *e = container_of(at, struct execution, by_owner);
        int r = execution_tell(e, out);

        if (r < 0) {
            return -1;
        }
        if (r > 0 && e->state == EXECUTION_FAILED) {
            execution_forget(e);
            return 1;
        }
        if (r > 0) { /* the others are next */
            list_remove(at);
            list_append(&client->owner.executions, at);
            return 1;
        }
    }
    return 0;
}
