/* A session's name as a Pod's. Names of Pods are in lower case and have no underscores, so two
 * sessions may differ only in what is lost; they are told apart by a hash of the whole name. A
 * session that looks like a name with such a hash gets one, too. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backends/k8s_internal.h"

#define HASH_DIGITS 8
#define LABEL_MAX (K8S_NAME_BYTES - sizeof K8S_NAME_PREFIX) /* of the session's part */
#define OBJECT_NAME_MAX 253

/* FNV-1a, folded. */
static uint32_t hash(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++) {
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)(h ^ h >> 32);
}

static bool is_label_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool ends_like_a_hash(const char *session, size_t length)
{
    const char *end = session + length - HASH_DIGITS;

    return length > HASH_DIGITS && end[-1] == '-' && strspn(end, "0123456789abcdef") == HASH_DIGITS;
}

void k8s_session_label(const char *session, char ret[K8S_NAME_BYTES])
{
    size_t length = strlen(session);
    bool same = length <= LABEL_MAX && is_label_char(session[0]) &&
                is_label_char(session[length - 1]) && !ends_like_a_hash(session, length);
    size_t n = 0;

    for (; n < length && n < LABEL_MAX; n++) {
        char c = (char)tolower((unsigned char)session[n]);

        ret[n] = is_label_char(c) ? c : '-';
        same = same && ret[n] == session[n];
    }
    if (!same) {
        if (n > LABEL_MAX - HASH_DIGITS - 1) {
            n = LABEL_MAX - HASH_DIGITS - 1;
        }
        n += (size_t)snprintf(ret + n, K8S_NAME_BYTES - n, "-%08x", (unsigned)hash(session));
    }
    ret[n] = '\0';
}

void k8s_pod_name(const char *session, char ret[K8S_NAME_BYTES])
{
    char label[K8S_NAME_BYTES];

    k8s_session_label(session, label);
    snprintf(ret, K8S_NAME_BYTES, K8S_NAME_PREFIX "%.*s", (int)LABEL_MAX, label);
}

bool k8s_is_name(const char *text)
{
    char before = '.';

    if (strlen(text) > OBJECT_NAME_MAX) {
        return false;
    }
    for (; *text != '\0'; before = *text++) {
        if (*text == '.' || *text == '-') {
            if (before == '.' || (*text == '.' && before == '-')) {
                return false;
            }
        } else if (!is_label_char(*text)) {
            return false;
        }
    }
    return before != '.' && before != '-';
}
