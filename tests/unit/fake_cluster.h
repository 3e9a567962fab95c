/* A Kubernetes cluster of one namespace that does what the test says: it stands in for the whole of
 * backends/k8s_client.h, so nothing is spoken over a network and nothing takes time. */
#ifndef HANDSFS_TESTS_UNIT_FAKE_CLUSTER_H
#define HANDSFS_TESTS_UNIT_FAKE_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>

#include "sandbox/buffer.h"

#define CLUSTER_NAMESPACE "tests"
#define CLUSTER_MAX_STEPS 16

/* What stands in a Pod's "status" at the stages of its life. */
#define STATUS_NEW "{'phase':'Pending'}"
#define STATUS_STARTING                                                                            \
    "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'True'}],"                   \
    "'initContainerStatuses':[{'name':'hand','state':{'waiting':{'reason':'PodInitializing'}}}],"  \
    "'containerStatuses':[{'name':'sandbox','state':{'waiting':{'reason':'PodInitializing'}}}]}"
#define STATUS_WAITS                                                                               \
    "{'phase':'Pending','initContainerStatuses':[{'name':'hand','state':{'running':{}}}],"         \
    "'containerStatuses':[{'name':'sandbox','state':{'waiting':{'reason':'PodInitializing'}}}]}"
#define STATUS_RUNNING                                                                             \
    "{'phase':'Running','podIP':'10.1.2.3','qosClass':'BestEffort','initContainerStatuses':["      \
    "{'name':'hand','state':{'terminated':{'exitCode':0,'reason':'Completed'}}}],"                 \
    "'containerStatuses':[{'name':'sandbox','containerID':'docker://0123456789abcdef',"            \
    "'restartCount':0,'imageID':'sha256:77','state':{'running':{}}}]}"
#define STATUS_EVICTED                                                                             \
    "{'phase':'Failed','reason':'Evicted','message':'The node was low on resource: memory.'}"
#define STATUS_NO_IMAGE                                                                            \
    "{'phase':'Pending','initContainerStatuses':[{'name':'hand','state':{'waiting':{"              \
    "'reason':'ErrImagePull','message':'manifest for img not found'}}}]}"
#define STATUS_NO_NODE                                                                             \
    "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False',"                    \
    "'reason':'Unschedulable','message':'0/1 nodes are available: 1 Insufficient memory.'}]}"

struct cluster {
    json_t *pods;      /* by name */
    unsigned serial;   /* of uids and resource versions */
    struct buffer log; /* a line for each call: "POST pods", "exec hand head"... */
    /* The steps that every new Pod takes, one for each turn of a watch; NULL: it is deleted. */
    const char *steps[CLUSTER_MAX_STEPS];
    unsigned step;
    unsigned lossy;       /* so many uploads lose their last byte */
    unsigned broken;      /* so many uploads end with the container under them, of which nothing is said yet */
    unsigned unanswered;  /* so many requests to make a Pod do it, and the answer is lost */
    bool runs_after_hand; /* a Pod that has got the hand runs */
    int refuse_status;    /* what creating is answered, where it is not 0 */
    const char *refuse_reason, *refuse_message;
    bool hand_serves;
    bool ends_slowly;     /* a deleted Pod stays until it is deleted at once */
    const char *container;   /* of somebody else's Pod, where the scripts are to be run; or NULL */
    const char *directories; /* what the script says that looks for one in it; "": finds none */
    void (*before)(const char *method, const char *path); /* each call; may be NULL */
};
extern struct cluster cluster;

void cluster_begin(void);
void cluster_end(void);

/* JSON with single quotes. */
json_t *quoted(const char *text);

/* Puts a Pod in, as somebody else would: `pod` (taken over) with a new uid and this status. */
json_t *cluster_put(const char *name, json_t *pod, const char *status);
/* A Pod that has been put in, or NULL. Borrowed. */
json_t *cluster_pod(const char *name);
void cluster_set_status(json_t *pod, const char *status);
/* How many lines of the log begin with this. */
unsigned cluster_count(const char *prefix);

#endif
