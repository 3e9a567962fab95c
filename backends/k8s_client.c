#include "backends/k8s_client_internal.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox/cleanup.h"
#include "sandbox/log.h"

static void transport_put(struct k8s_client *client, struct k8s_transport *transport)
{
    bool last;

    if (transport == NULL) {
        return;
    }
    pthread_mutex_lock(&client->lock);
    last = --transport->users == 0;
    pthread_mutex_unlock(&client->lock);
    if (last) {
        http_free(transport->http);
        free(transport);
    }
}

/* With the ticket's certificate, where it brings one. */
static int transport_new(const struct k8s_client *client, const struct k8s_ticket *ticket,
                         struct k8s_transport **ret, struct error *err)
{
    struct http_server server;
    struct k8s_transport *transport;

    if (k8s_server_copy(&server, &client->config.server, err) < 0) {
        return -1;
    }
    if (ticket->cert.length > 0) {
        free(server.cert_file);
        free(server.key_file);
        server.cert_file = server.key_file = NULL;
        buffer_clear(&server.cert_pem);
        buffer_clear(&server.key_pem);
        if (buffer_append(&server.cert_pem, ticket->cert.data, ticket->cert.length) < 0 ||
            buffer_append(&server.key_pem, ticket->key.data, ticket->key.length) < 0) {
            http_server_release(&server);
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a certificate");
        }
    }
    transport = calloc(1, sizeof *transport);
    if (transport == NULL) {
        http_server_release(&server);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to connect");
    }
    if (http_new(&transport->http, &server, err) < 0) {
        http_server_release(&server);
        free(transport);
        return -1;
    }
    transport->users = 1;
    *ret = transport;
    return 0;
}

/* The client's transport from now on. */
static void transport_replace(struct k8s_client *client, struct k8s_transport *transport,
                              unsigned certificates)
{
    struct k8s_transport *old;

    pthread_mutex_lock(&client->lock);
    old = client->transport;
    client->transport = transport;
    client->certificates = certificates;
    pthread_mutex_unlock(&client->lock);
    transport_put(client, old);
}

int k8s_access_take(struct k8s_client *client, uint64_t deadline_ms, struct k8s_access *ret,
                    struct error *err)
{
    struct k8s_transport *fresh = NULL;
    unsigned seen;

    memset(ret, 0, sizeof *ret);
    pthread_mutex_lock(&client->lock);
    seen = client->certificates;
    pthread_mutex_unlock(&client->lock);
    if (k8s_credentials_ticket(&client->credentials, seen, deadline_ms, &ret->ticket, err) < 0) {
        return -1;
    }
    if (ret->ticket.certificates != seen) {
        if (transport_new(client, &ret->ticket, &fresh, err) < 0) {
            k8s_ticket_release(&ret->ticket);
            return -1;
        }
        transport_replace(client, fresh, ret->ticket.certificates);
    }
    pthread_mutex_lock(&client->lock);
    ret->transport = client->transport;
    ret->transport->users++;
    pthread_mutex_unlock(&client->lock);
    return 0;
}

void k8s_access_put(struct k8s_client *client, struct k8s_access *access)
{
    transport_put(client, access->transport);
    access->transport = NULL;
    k8s_ticket_release(&access->ticket);
}

/* ---- Opening ---------------------------------------------------------------------------------- */

int k8s_client_open_from(struct k8s_client **ret, const struct k8s_config_source *source,
                         const char *context, struct error *err)
{
    struct k8s_client *client = calloc(1, sizeof *client);
    struct k8s_ticket none = {0};
    int r;

    if (client == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for the Kubernetes client");
    }
    if (k8s_config_load(&client->config, source, context, err) < 0) {
        k8s_config_release(&client->config);
        free(client);
        return -1;
    }
    r = pthread_mutex_init(&client->lock, NULL);
    r = r != 0 ? error_set_errno(err, r, "no lock for the Kubernetes client")
               : k8s_credentials_init(&client->credentials, &client->config, err);
    if (r < 0 || transport_new(client, &none, &client->transport, err) < 0) {
        k8s_client_close(client);
        return -1;
    }
    log_trace("kubernetes: %s is %s", client->config.origin, client->config.server.url);
    *ret = client;
    return 0;
}

int k8s_client_open(struct k8s_client **ret, const char *context, struct error *err)
{
    struct k8s_config_source source = {
        .kubeconfig = getenv("KUBECONFIG"),
        .home = getenv("HOME"),
        .service_host = getenv("KUBERNETES_SERVICE_HOST"),
        .service_port = getenv("KUBERNETES_SERVICE_PORT"),
        .service_account = K8S_SERVICE_ACCOUNT,
    };

    return k8s_client_open_from(ret, &source, context, err);
}

void k8s_client_close(struct k8s_client *client)
{
    if (client == NULL) {
        return;
    }
    transport_put(client, client->transport);
    k8s_credentials_release(&client->credentials);
    pthread_mutex_destroy(&client->lock);
    k8s_config_release(&client->config);
    free(client);
}

void k8s_client_closep(struct k8s_client **client)
{
    k8s_client_close(*client);
}

const char *k8s_client_server(const struct k8s_client *client)
{
    return client->config.server.url;
}

const char *k8s_client_namespace(const struct k8s_client *client)
{
    return client->config.namespace_;
}
