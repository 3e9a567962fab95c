/* The Kubernetes backend: one Pod per session, on the cluster that the kubeconfig (or the Pod that this
 * runs in) names. See handsfs-k8s(7). */
#ifndef HANDSFS_BACKENDS_K8S_H
#define HANDSFS_BACKENDS_K8S_H

#include "sandbox/sandbox.h"

extern const struct backend backend_k8s;

#endif
