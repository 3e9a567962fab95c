#include "backends/docker_reference.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/cleanup.h"

#define DEFAULT_TAG "latest"
#define HUB_FOLDER "library/" /* of the hub's names with one component */
#define MAX_TAG 128

void docker_reference_release(struct docker_reference *reference)
{
    free(reference->registry);
    free(reference->name);
    free(reference->version);
    *reference = (struct docker_reference)DOCKER_REFERENCE_INIT;
}

static int malformed(const char *text, const char *why, struct error *err)
{
    return error_set(err, ERROR_BAD_REQUEST, 0, "\"%.200s\" is not the name of an image: %s", text,
                     why);
}

static bool consists_of(const char *text, const char *signs)
{
    for (; *text != '\0'; text++) {
        if (!isalnum((unsigned char)*text) && strchr(signs, *text) == NULL) {
            return false;
        }
    }
    return true;
}

/* Whether the first component is a registry's name and no folder of the hub's. */
static bool is_registry(const char *component)
{
    return strpbrk(component, ".:") != NULL || strcmp(component, "localhost") == 0 ||
           strpbrk(component, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL;
}

/* Components in lower case with slashes between, each beginning and ending in a letter or digit. */
static const char *fault_of_path(const char *path)
{
    const char *p = path;

    if (!consists_of(path, "._-/")) {
        return "only letters, digits, \".\", \"_\", \"-\" and \"/\" may be in its path";
    }
    for (; *p != '\0'; p++) {
        bool separator = !isalnum((unsigned char)*p);

        if (isupper((unsigned char)*p)) {
            return "its path must be in lower case";
        }
        if (separator && (p == path || p[-1] == '/' || p[1] == '\0' ||
                          (*p == '/' && !isalnum((unsigned char)p[-1])))) {
            return "a component of its path is empty or does not begin and end in a letter or "
                   "digit";
        }
    }
    return p == path ? "it has no path" : NULL;
}

static const char *fault_of_tag(const char *tag)
{
    return tag[0] == '\0' || tag[0] == '.' || tag[0] == '-' || strlen(tag) > MAX_TAG ||
                   !consists_of(tag, "._-")
               ? "the tag is not 1 to 128 letters, digits, \".\", \"_\" and \"-\""
               : NULL;
}

static const char *fault_of_digest(const char *digest)
{
    const char *colon = strchr(digest, ':');

    return colon == NULL || colon == digest || strlen(colon + 1) < 32 ||
                   strspn(colon + 1, "0123456789abcdef") != strlen(colon + 1) ||
                   strspn(digest, "abcdefghijklmnopqrstuvwxyz0123456789+._-") !=
                       (size_t)(colon - digest)
               ? "the digest is not like sha256:0123..."
               : NULL;
}

static const char *fault_of_registry(const char *registry)
{
    size_t length = strlen(registry);

    return length == 0 || !consists_of(registry, ".-:") || !isalnum((unsigned char)registry[0]) ||
                   !isalnum((unsigned char)registry[length - 1])
               ? "the registry is not HOST or HOST:PORT"
               : NULL;
}

int docker_reference_parse(const char *text, struct docker_reference *ret, struct error *err)
{
    cleanup_reference struct docker_reference reference = DOCKER_REFERENCE_INIT;
    char copy[DOCKER_MAX_REFERENCE];
    char *path = copy;
    char *slash, *digest, *tag;
    const char *registry = DOCKER_HUB;
    const char *fault;

    if (strlen(text) >= sizeof copy) {
        return malformed(text, "it is too long", err);
    }
    memcpy(copy, text, strlen(text) + 1);
    digest = strchr(copy, '@');
    if (digest != NULL) {
        *digest++ = '\0';
    }
    slash = strrchr(copy, '/');
    tag = strchr(slash != NULL ? slash : copy, ':');
    if (tag != NULL) {
        *tag++ = '\0';
    }
    slash = strchr(copy, '/');
    if (slash != NULL) {
        *slash = '\0';
        if (is_registry(copy)) {
            registry = copy;
            path = slash + 1;
        } else {
            *slash = '/';
        }
    }
    fault = fault_of_registry(registry);
    fault = fault == NULL ? fault_of_path(path) : fault;
    fault = fault == NULL && tag != NULL ? fault_of_tag(tag) : fault;
    fault = fault == NULL && digest != NULL ? fault_of_digest(digest) : fault;
    if (fault != NULL) {
        return malformed(text, fault, err);
    }
    reference.registry = strdup(registry);
    reference.version = strdup(digest != NULL ? digest : tag != NULL ? tag : DEFAULT_TAG);
    if (reference.registry == NULL || reference.version == NULL ||
        asprintf(&reference.name, "%s/%s%s", registry,
                 strcmp(registry, DOCKER_HUB) == 0 && strchr(path, '/') == NULL ? HUB_FOLDER : "",
                 path) < 0) {
        reference.name = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    *ret = reference;
    reference = (struct docker_reference)DOCKER_REFERENCE_INIT;
    return 0;
}
