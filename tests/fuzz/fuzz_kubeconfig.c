/* Kubeconfigs, and what a credential plugin answers: the first byte says which, the rest is the text. */
#include "backends/k8s_config.h"

#include <stdlib.h>
#include <string.h>

#include "backends/k8s_plugin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_config(const char *text, size_t length)
{
    struct k8s_config_files files = {.count = 1};
    struct k8s_config config;
    struct error err = {0};
    int r;

    memset(&config, 0, sizeof config);
    http_server_init(&config.server);
    r = k8s_yaml_parse(&files.files[0], "config", text, length, &err);
    if (r == 0) {
        r = k8s_config_merge(&config, &files, NULL, &err);
    }
    if ((r < 0) != (err.code != ERROR_NONE)) {
        abort(); /* the error is set where there is one, and untouched on success */
    }
    if (r == 0 && (config.server.url == NULL || config.namespace_ == NULL)) {
        abort();
    }
    files.count = 1;
    k8s_config_files_release(&files);
    k8s_config_release(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;

    if (size == 0) {
        return 0;
    }
    if (data[0] == 'p') {
        struct k8s_credential credential;
        struct error err = {0};

        if (k8s_credential_parse(text, size - 1, "v1", "plugin", &credential, &err) == 0 &&
            credential.token == NULL && credential.cert.length == 0) {
            abort(); /* there is always something to show */
        }
        k8s_credential_release(&credential);
    } else {
        fuzz_config(text, size - 1);
    }
    return 0;
}
