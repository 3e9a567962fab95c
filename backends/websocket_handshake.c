#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "backends/websocket.h"
#include "sandbox/base64.h"
#include "sandbox/cleanup.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, 1.3 */
#define KEY_BYTES 16
#define MAX_HEADERS 64 /* of the caller's */

int websocket_accept_of(const char *key, char ret[32])
{
    cleanup_buffer struct buffer text = BUFFER_INIT(128);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char joined[128];
    int n = snprintf(joined, sizeof joined, "%s" GUID, key);

    if (n < 0 || (size_t)n >= sizeof joined ||
        EVP_Digest(joined, (size_t)n, digest, &length, EVP_sha1(), NULL) != 1 ||
        base64_encode(&text, digest, length) < 0 || buffer_text(&text) == NULL || text.length >= 32) {
        return -1;
    }
    memcpy(ret, text.data, text.length + 1);
    return 0;
}

static int new_key(char ret[32])
{
    cleanup_buffer struct buffer text = BUFFER_INIT(32);
    uint8_t random[KEY_BYTES];

    if (getrandom(random, sizeof random, 0) != sizeof random ||
        base64_encode(&text, random, sizeof random) < 0 || buffer_text(&text) == NULL) {
        return -1;
    }
    memcpy(ret, text.data, text.length + 1);
    return 0;
}

static int fault(struct error *err, const char *what)
{
    return error_set(err, ERROR_NO_ANSWER, 0, "the server does not speak WebSocket: %s", what);
}

/* Whether a list of tokens has this one. */
static bool has_token(const char *list, const char *token)
{
    size_t length = strlen(token);

    while (list != NULL && *list != '\0') {
        size_t n;

        list += strspn(list, ", \t");
        n = strcspn(list, ", \t");
        if (n == length && strncasecmp(list, token, n) == 0) {
            return true;
        }
        list += n;
    }
    return false;
}

/* Is it the answer to our key, with one of our subprotocols? */
static int check(const struct http_stream *stream, const char *key, const char *const *protocols,
                 size_t *ret_protocol, struct error *err)
{
    const char *accepted = http_stream_header(stream, "Sec-WebSocket-Accept");
    const char *protocol = http_stream_header(stream, "Sec-WebSocket-Protocol");
    char wanted[32];

    if (websocket_accept_of(key, wanted) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "SHA-1 cannot be computed");
    }
    if (!has_token(http_stream_header(stream, "Upgrade"), "websocket") ||
        !has_token(http_stream_header(stream, "Connection"), "upgrade")) {
        return fault(err, "it changed to another protocol");
    }
    if (accepted == NULL || strcmp(accepted, wanted) != 0) {
        return fault(err, "its answer is not to our key");
    }
    if (http_stream_header(stream, "Sec-WebSocket-Extensions") != NULL) {
        return fault(err, "an extension that nobody asked for");
    }
    for (size_t i = 0; protocol != NULL && protocols[i] != NULL; i++) {
        if (strcmp(protocol, protocols[i]) == 0) {
            *ret_protocol = i;
            return 0;
        }
    }
    return fault(err, "it chose no subprotocol that was offered");
}

/* "Sec-WebSocket-Protocol: A, B". */
static char *offer(const char *const *protocols)
{
    cleanup_buffer struct buffer line = BUFFER_INIT(1024);

    for (size_t i = 0; protocols[i] != NULL; i++) {
        if (buffer_printf(&line, "%s%s", i == 0 ? "Sec-WebSocket-Protocol: " : ", ", protocols[i]) < 0) {
            return NULL;
        }
    }
    return buffer_text(&line) != NULL ? strdup((const char *)line.data) : NULL;
}

int websocket_connect(struct http *http, const struct http_request *request,
                      const char *const *protocols, struct http_stream **ret, size_t *ret_protocol,
                      struct http_answer *refused, struct error *err)
{
    const char *headers[MAX_HEADERS + 6] = {"Connection: Upgrade", "Upgrade: websocket",
                                            "Sec-WebSocket-Version: 13"};
    struct http_request asking = *request;
    cleanup_free char *protocol_line = offer(protocols);
    char key_line[64];
    char key[32];
    size_t count = 3;

    if (protocol_line == NULL || new_key(key) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a handshake");
    }
    snprintf(key_line, sizeof key_line, "Sec-WebSocket-Key: %s", key);
    headers[count++] = key_line;
    headers[count++] = protocol_line;
    for (size_t i = 0; request->headers != NULL && request->headers[i] != NULL; i++) {
        if (i == MAX_HEADERS) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "there are more than %d headers", MAX_HEADERS);
        }
        headers[count++] = request->headers[i];
    }
    asking.headers = headers;
    if (http_upgrade(http, &asking, ret, refused, err) < 0) {
        return -1;
    }
    if (*ret != NULL && check(*ret, key, protocols, ret_protocol, err) < 0) {
        http_stream_close(*ret);
        *ret = NULL;
        return -1;
    }
    return 0;
}
