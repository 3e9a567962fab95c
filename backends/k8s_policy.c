/* `--set network_none=policy`: the cluster's network keeps what the interfaces' absence
 * otherwise would. A network policy selects every Pod of ours without a network and lets nothing
 * in or out. Whether anything enforces policies no API tells; who asks for this says so. */
#include <stdio.h>
#include <string.h>

#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"

#define POLICY "handsfs-no-network"

static json_t *describe(void)
{
    return json_pack("{s:s,s:s,s:{s:s,s:{s:s}},s:{s:{s:{s:s,s:s}},s:[s,s]}}", "apiVersion",
                     "networking.k8s.io/v1", "kind", "NetworkPolicy", "metadata", "name", POLICY,
                     "labels", K8S_MANAGED_BY, "handsfs", "spec", "podSelector", "matchLabels",
                     K8S_MANAGED_BY, "handsfs", K8S_NETWORK, "none", "policyTypes", "Ingress",
                     "Egress");
}

/* Whether this policy does it: selects by no more than our labels, and has no rule, which would
 * allow something. */
static bool cuts_off(json_t *policy)
{
    json_t *spec = k8s_at(policy, "spec", NULL);
    json_t *labels = k8s_at(spec, "podSelector", "matchLabels", NULL);
    json_t *types = k8s_at(spec, "policyTypes", NULL);
    bool in = false;
    bool out = false;
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach(labels, key, value)
    {
        if (strcmp(key, K8S_MANAGED_BY) != 0 && strcmp(key, K8S_NETWORK) != 0) {
            return false;
        }
    }
    json_array_foreach(types, i, value)
    {
        const char *type = json_string_value(value);

        in = in || (type != NULL && strcmp(type, "Ingress") == 0);
        out = out || (type != NULL && strcmp(type, "Egress") == 0);
    }
    return in && out && json_array_size(k8s_at(spec, "ingress", NULL)) == 0 &&
           json_array_size(k8s_at(spec, "egress", NULL)) == 0 &&
           json_array_size(k8s_at(spec, "podSelector", "matchExpressions", NULL)) == 0;
}

int k8s_policy_require(const struct k8s_target *target, uint64_t deadline_ms, struct error *err)
{
    cleanup_k8s_reply struct k8s_reply reply = {.status = 0};
    cleanup_k8s_reply struct k8s_reply created = {.status = 0};
    cleanup_free char *list = NULL;
    cleanup_free char *path = NULL;
    json_auto_t *policy = describe();

    k8s_reply_init(&reply);
    k8s_reply_init(&created);
    if (policy == NULL ||
        asprintf(&list, "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies",
                 target->namespace_) < 0 ||
        asprintf(&path, "%s/" POLICY, list) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (k8s_call(target->client, "GET", path, NULL, deadline_ms, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404) {
        if (k8s_call(target->client, "POST", list, policy, deadline_ms, &created, err) < 0) {
            return -1;
        }
        return created.status < 300 || created.status == 409
                   ? 0
                   : k8s_refused(&created, err, "create network policy " POLICY);
    }
    if (reply.status != 200) {
        return k8s_refused(&reply, err, "look at network policy " POLICY);
    }
    if (!cuts_off(reply.json)) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "network policy " POLICY
                         " in namespace %s does not cut off every Pod without a network: "
                         "delete it, and it is made anew",
                         target->namespace_);
    }
    return 0;
}
