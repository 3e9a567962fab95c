#include "backends/docker_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker_pull.h"
#include "backends/docker_reference.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define ID_PREFIX "sha256:"
#define MIN_ID 12      /* hexadecimal digits of an id that is given instead of a name */
#define MAX_FIELD 4096 /* bytes of a text in an image's configuration */

void docker_image_release(struct docker_image *image)
{
    free(image->id);
    free(image->user);
    free(image->workdir);
    free(image->architecture);
    free(image->os);
    *image = (struct docker_image)DOCKER_IMAGE_INIT;
}

/* ---- Inspected ---- */

/* A copy of the text there, "" where there is none. */
static int copy_text(char **ret, json_t *text, struct error *err)
{
    const char *from = json_is_string(text) ? json_string_value(text) : "";

    if (strlen(from) > MAX_FIELD) {
        return error_set(err, ERROR_NO_ANSWER, 0,
                         "what the engine says of the image makes no sense");
    }
    *ret = strdup(from);
    return *ret == NULL ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;
}

static int decode(json_t *json, struct docker_image *ret, struct error *err)
{
    cleanup_image struct docker_image image = DOCKER_IMAGE_INIT;

    if (copy_text(&image.id, docker_json_at(json, "Id", NULL), err) < 0 ||
        copy_text(&image.user, docker_json_at(json, "Config", "User", NULL), err) < 0 ||
        copy_text(&image.workdir, docker_json_at(json, "Config", "WorkingDir", NULL), err) < 0 ||
        copy_text(&image.architecture, docker_json_at(json, "Architecture", NULL), err) < 0 ||
        copy_text(&image.os, docker_json_at(json, "Os", NULL), err) < 0) {
        return -1;
    }
    if (image.id[0] == '\0') {
        return error_set(err, ERROR_NO_ANSWER, 0,
                         "what the engine says of the image makes no sense");
    }
    *ret = image;
    image = (struct docker_image)DOCKER_IMAGE_INIT;
    return 0;
}

/* 0 with an id where it is there, without one where it is not. */
static int inspect(struct docker_engine *engine, const char *image, uint64_t deadline_ms,
                   struct docker_image *ret, struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    char path[DOCKER_MAX_REFERENCE + 32];
    const struct docker_request request = {
        .method = "GET", .path = path, .deadline_ms = deadline_ms};

    snprintf(path, sizeof path, "/images/%s/json", image);
    docker_image_release(ret);
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404) {
        return 0;
    }
    if (reply.status != 200) {
        return docker_refused(&reply, err, "image %.200s", image);
    }
    return decode(reply.json, ret, err);
}

/* ---- Had ---- */

/* An image's id, whole or begun, which no registry knows. */
static bool is_id(const char *image)
{
    const char *digits =
        strncmp(image, ID_PREFIX, strlen(ID_PREFIX)) == 0 ? image + strlen(ID_PREFIX) : image;
    size_t length = strlen(digits);

    return length >= MIN_ID && length <= 64 && strspn(digits, "0123456789abcdef") == length;
}

/* Whether it is of the platform OS[/ARCHITECTURE[/VARIANT]] that is wanted; a variant is the
 * engine's business. */
static bool is_of_platform(const struct docker_image *image, const char *platform)
{
    size_t os = strcspn(platform, "/");
    const char *architecture = platform[os] == '/' ? platform + os + 1 : "";
    size_t length = strcspn(architecture, "/");

    return strlen(image->os) == os && strncmp(image->os, platform, os) == 0 &&
           (length == 0 || (strlen(image->architecture) == length &&
                            strncmp(image->architecture, architecture, length) == 0));
}

static bool is_wanted(const struct docker_image *image, const struct docker_settings *settings)
{
    return image->id != NULL &&
           (settings->platform == NULL || is_of_platform(image, settings->platform));
}

static int is_missing(const char *image, const struct docker_image *found,
                      const struct docker_settings *settings, struct error *err)
{
    if (found->id != NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "image %.200s is there for %.40s/%.40s, not for %.80s", image, found->os,
                         found->architecture, settings->platform);
    }
    return error_set(err, ERROR_BAD_REQUEST, 0,
                     settings->pull == DOCKER_PULL_NEVER
                         ? "image %.200s is not there, and pull=never was said"
                         : "image %.200s is not there",
                     image);
}

/* Pulls, and puts the deadline off by what that took. */
static int pull(struct docker_engine *engine, const char *image,
                const struct docker_settings *settings, uint64_t *deadline_ms,
                struct sandbox_progress *progress, struct error *err)
{
    cleanup_reference struct docker_reference reference = DOCKER_REFERENCE_INIT;
    uint64_t begin = clock_now_ms();
    int r;

    if (docker_reference_parse(image, &reference, err) < 0) {
        return -1;
    }
    r = docker_pull(engine, image, &reference, settings->platform, progress, err);
    *deadline_ms += clock_now_ms() - begin;
    return r;
}

int docker_image_ensure(struct docker_engine *engine, const char *image,
                        const struct docker_settings *settings, uint64_t *deadline_ms,
                        struct sandbox_progress *progress, struct docker_image *ret,
                        struct error *err)
{
    cleanup_reference struct docker_reference reference = DOCKER_REFERENCE_INIT;
    cleanup_image struct docker_image found = DOCKER_IMAGE_INIT;

    if (!is_id(image) && docker_reference_parse(image, &reference, err) < 0) {
        return -1;
    }
    if (settings->pull != DOCKER_PULL_ALWAYS || is_id(image)) {
        if (inspect(engine, image, *deadline_ms, &found, err) < 0) {
            return -1;
        }
    }
    if (!is_wanted(&found, settings)) {
        if (settings->pull == DOCKER_PULL_NEVER || is_id(image)) {
            return is_missing(image, &found, settings, err);
        }
        if (pull(engine, image, settings, deadline_ms, progress, err) < 0 ||
            inspect(engine, image, *deadline_ms, &found, err) < 0) {
            return -1;
        }
    }
    if (!is_wanted(&found, settings)) {
        return is_missing(image, &found, settings, err);
    }
    docker_image_release(ret);
    *ret = found;
    found = (struct docker_image)DOCKER_IMAGE_INIT;
    return 0;
}
