/* `handsfs doctor`: which cluster that is, whether it answers, and whether we may do what we
 * have to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hand_program.h"
#include "backends/k8s_internal.h"
#include "backends/printable.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define DOCTOR_CALL_MS 5000
#define LINE_BYTES 640
#define MINOR_LEAST 19 /* of version 1: seccompProfile in a Pod's description */

/* What is asked of the API server about ourselves: SelfSubjectAccessReview. */
struct permission {
    const char *verb, *group, *resource, *subresource;
    enum doctor_finding without;
    const char *what; /* it is for */
};
static const struct permission permissions[] = {
    {"get", "", "pods", "", DOCTOR_MISSING, "to find sandboxes"},
    {"list", "", "pods", "", DOCTOR_MISSING, "to list sandboxes"},
    {"watch", "", "pods", "", DOCTOR_MISSING, "to see a Pod start"},
    {"create", "", "pods", "", DOCTOR_MISSING, "to make sandboxes"},
    {"delete", "", "pods", "", DOCTOR_MISSING, "to remove sandboxes"},
    {"create", "", "pods", "exec", DOCTOR_MISSING, "to reach the hand"},
    {"get", "", "pods", "exec", DOCTOR_MISSING, "to reach the hand over WebSocket"},
    {"create", "networking.k8s.io", "networkpolicies", "", DOCTOR_OPTIONAL,
     "for --set network_none=policy"},
};

/* 1 for yes, 0 for no, -1 where the API server does not say. */
static int may(const struct k8s_target *target, const struct permission *p, struct error *err)
{
    cleanup_k8s_reply struct k8s_reply reply = {.status = 0};
    json_auto_t *body = json_pack(
        "{s:s,s:s,s:{s:{s:s,s:s,s:s,s:s,s:s}}}", "apiVersion", "authorization.k8s.io/v1", "kind",
        "SelfSubjectAccessReview", "spec", "resourceAttributes", "namespace", target->namespace_,
        "verb", p->verb, "group", p->group, "resource", p->resource, "subresource", p->subresource);

    k8s_reply_init(&reply);
    if (k8s_call(target->client, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                 body, clock_now_ms() + DOCTOR_CALL_MS, &reply, err) < 0) {
        return -1;
    }
    if (reply.status >= 300) {
        return k8s_refused(&reply, err, "ask what is permitted");
    }
    return json_is_true(k8s_at(reply.json, "status", "allowed", NULL)) ? 1 : 0;
}

static void report_permissions(const struct k8s_target *target, doctor_report report, void *arg)
{
    char line[LINE_BYTES];
    unsigned allowed = 0;
    const unsigned count = sizeof permissions / sizeof permissions[0];

    for (unsigned i = 0; i < count; i++) {
        const struct permission *p = &permissions[i];
        struct error err = {0};
        int r = may(target, p, &err);

        if (r < 0) {
            report(arg, DOCTOR_OPTIONAL, "the API server does not say what is permitted",
                   err.message);
            return;
        }
        if (r > 0) {
            allowed++;
            continue;
        }
        snprintf(line, sizeof line, "%s of %s%s%s in namespace %s, %s, is not permitted", p->verb,
                 p->resource, p->subresource[0] != '\0' ? "/" : "", p->subresource,
                 target->namespace_, p->what);
        report(arg, p->without, line,
               "grant it with a Role: handsfs-k8s(7) shows the least that is needed");
    }
    snprintf(line, sizeof line, "%u of %u permissions in namespace %s", allowed, count,
             target->namespace_);
    report(arg, DOCTOR_OK, line, NULL);
}

/* Whether it is of an age that knows what our Pods are made of. */
static bool report_version(const struct k8s_target *target, doctor_report report, void *arg)
{
    cleanup_k8s_reply struct k8s_reply reply = {.status = 0};
    struct error err = {0};
    char version[64];
    char line[LINE_BYTES];
    long major, minor;

    k8s_reply_init(&reply);
    if (k8s_call(target->client, "GET", "/version", NULL, clock_now_ms() + DOCTOR_CALL_MS, &reply,
                 &err) < 0 ||
        (reply.status != 200 &&
         k8s_refused(&reply, &err, "the API server %s", k8s_client_server(target->client)) < 0)) {
        snprintf(line, sizeof line, "the cluster does not answer: %s", err.message);
        report(arg, DOCTOR_OPTIONAL, line, "only the k8s backend needs one; KUBECONFIG says which");
        return false;
    }
    copy_printable(version, sizeof version, k8s_text(reply.json, "gitVersion", NULL),
                   strlen(k8s_text(reply.json, "gitVersion", NULL)));
    major = strtol(k8s_text(reply.json, "major", NULL), NULL, 10);
    minor = strtol(k8s_text(reply.json, "minor", NULL), NULL, 10);
    snprintf(line, sizeof line, "Kubernetes %s at %s, namespace %s", version,
             k8s_client_server(target->client), target->namespace_);
    if (major == 1 && minor < MINOR_LEAST) {
        report(arg, DOCTOR_MISSING, line, "Kubernetes 1.19 or later is needed");
        return false;
    }
    report(arg, DOCTOR_OK, line, NULL);
    return true;
}

void k8s_doctor(doctor_report report, void *arg)
{
    cleanup_place struct k8s_place place = K8S_PLACE_INIT;
    cleanup_target struct k8s_target target = K8S_TARGET_INIT;
    cleanup_free char *hand = NULL;
    struct error err = {0};
    char line[LINE_BYTES];

    if (hand_program_find(&hand, &err) < 0) {
        report(arg, DOCTOR_MISSING, err.message, "install handsfs, or set HANDSFS_HAND");
    }
    if (k8s_place_default(&place, &err) < 0 || k8s_target_open(&place, &target, &err) < 0) {
        snprintf(line, sizeof line, "no cluster: %s", err.message);
        report(arg, DOCTOR_OPTIONAL, line, "only the k8s backend needs one; KUBECONFIG says which");
        return;
    }
    if (report_version(&target, report, arg)) {
        report_permissions(&target, report, arg);
        report(arg, DOCTOR_OK,
               "--network none takes a Pod's interfaces down before the sandbox starts (capability "
               "NET_ADMIN of a "
               "first container)",
               NULL);
    }
}
