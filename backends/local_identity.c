#include "backends/local_identity.h"

#include <strings.h>
#include <unistd.h>

#include "sandbox/capability.h"

/* What a root inside may do, within its namespaces: what container engines give, without what would let it
 * at the hand (SYS_PTRACE), the mounts (SYS_ADMIN) or the network's set-up. */
static const char *const granted[] = {
    "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",           "CAP_FSETID",     "CAP_KILL",    "CAP_SETGID",
    "CAP_SETUID", "CAP_SETPCAP",      "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_SETFCAP", "CAP_AUDIT_WRITE",
};

static int capabilities_of(char *const *drop, uint64_t *ret, struct error *err)
{
    uint64_t set = 0;

    for (size_t i = 0; i < sizeof granted / sizeof granted[0]; i++) {
        set |= capability_bit(granted[i]);
    }
    for (; drop != NULL && *drop != NULL; drop++) {
        uint64_t bit = strcasecmp(*drop, "ALL") == 0 ? UINT64_MAX : capability_bit(*drop);

        if (bit == 0) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "there is no capability \"%.60s\"", *drop);
        }
        set &= ~bit;
    }
    *ret = set;
    return 0;
}

int local_identity_of(const struct sandbox_spec *spec, struct local_identity *ret, struct error *err)
{
    struct local_identity identity = {.uid = geteuid(), .gid = getegid()};
    bool root = geteuid() == 0;

    if (root) {
        identity.gid = 0;
    }
    if (spec->user != NULL && spec->user[0] != '\0' &&
        user_parse(spec->user, &identity.uid, &identity.gid, err) < 0) {
        return -1;
    }
    if (capabilities_of(spec->cap_drop, &identity.capabilities, err) < 0) {
        return -1;
    }
    identity.range = root && identity.uid == 0 && identity.gid == 0;
    if (!identity.range) {
        identity.capabilities = 0;
    }
    *ret = identity;
    return 0;
}
