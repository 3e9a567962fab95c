/* What the API says of a Pod, as it was seen on clusters, and what it means. */
#include <string.h>

#include "backends/k8s_internal.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/unit.h"

static json_t *pod_with(const char *status)
{
    json_t *pod = quoted(
        "{'metadata':{'name':'handsfs-s1','uid':'u1','resourceVersion':'7',"
        "'labels':{'app.kubernetes.io/managed-by':'handsfs'},"
        "'annotations':{'io.handsfs.session':'s1','io.handsfs.workdir':'/workspace'}},'spec':{}}");

    json_object_set_new(pod, "status", quoted(status));
    return pod;
}

static const struct {
    const char *status;
    enum k8s_stage stage;
    const char *why; /* a part of it, or NULL */
} rows[] = {
    {"{}", K8S_PENDING, NULL},
    {STATUS_NEW, K8S_PENDING, NULL},
    {STATUS_STARTING, K8S_PENDING, NULL},
    {STATUS_WAITS, K8S_WAITS, NULL},
    {STATUS_RUNNING, K8S_RUNNING, NULL},
    {STATUS_NO_NODE, K8S_UNSCHEDULABLE,
     "Unschedulable: 0/1 nodes are available: 1 Insufficient memory."},
    {STATUS_NO_IMAGE, K8S_STUCK, "hand: ErrImagePull: manifest for img not found"},
    {STATUS_EVICTED, K8S_ENDED, "Evicted: The node was low on resource: memory."},
    {"{'phase':'Pending','initContainerStatuses':[{'name':'hand','state':{'waiting':{'reason':'"
     "ImagePullBackOff',"
     "'message':'Back-off pulling image \\'img\\''}}}]}",
     K8S_STUCK, "ImagePullBackOff"},
    {"{'phase':'Pending','initContainerStatuses':[{'name':'hand','state':{'waiting':{'reason':'"
     "InvalidImageName'}}}]}",
     K8S_STUCK, "hand: InvalidImageName"},
    {"{'phase':'Pending','initContainerStatuses':[{'name':'hand','state':{'waiting':{'reason':'"
     "ErrImageNeverPull'}}}]}",
     K8S_STUCK, "ErrImageNeverPull"},
    {"{'phase':'Pending','initContainerStatuses':[{'name':'hand','state':{'terminated':{'exitCode':"
     "0}}}],"
     "'containerStatuses':[{'name':'sandbox','state':{'waiting':{'reason':'"
     "CreateContainerConfigError',"
     "'message':'container has runAsNonRoot and image will run as root'}}}]}",
     K8S_STUCK, "runAsNonRoot"},
    {"{'phase':'Pending','initContainerStatuses':[{'name':'hand','state':{'waiting':{'reason':'"
     "CrashLoopBackOff'}}}]}",
     K8S_STUCK, "CrashLoopBackOff"},
    {"{'phase':'Failed','initContainerStatuses':[{'name':'hand','state':{'terminated':{'exitCode':"
     "1,'reason':'Error',"
     "'message':'hand: network interface eth0: Operation not permitted\\n'}}}]}",
     K8S_ENDED,
     "container hand ended with status 1: hand: network interface eth0: Operation not permitted"},
    {"{'phase':'Failed','containerStatuses':[{'name':'sandbox','state':{'terminated':{'exitCode':"
     "137,"
     "'reason':'OOMKilled'}}}]}",
     K8S_ENDED, "out of memory"},
    {"{'phase':'Running','containerStatuses':[{'name':'sandbox','state':{'terminated':{'exitCode':"
     "0,"
     "'reason':'Completed'}}}]}",
     K8S_ENDED, "container sandbox ended with status 0"},
    {"{'phase':'Succeeded'}", K8S_ENDED, "Succeeded"},
    {"{'phase':'Failed','reason':'NodeLost','message':'Node n1 which was running pod x is "
     "unresponsive'}",
     K8S_ENDED, "NodeLost"},
    {"{'phase':'Pending','initContainerStatuses':'nonsense','containerStatuses':[1,null,{'name':5}]"
     "}",
     K8S_PENDING, NULL},
};
#define ROWS (sizeof rows / sizeof rows[0])

START_TEST(a_pod_s_stage_is_told_from_its_status_and_why)
{
    json_t *pod = pod_with(rows[_i].status);
    struct k8s_view view;
    struct error err = {0};

    ck_assert_int_eq(k8s_view(pod, NULL, &view, &err), 0);
    ck_assert_msg(view.stage == rows[_i].stage, "%s: stage %d (%s)", rows[_i].status, view.stage,
                  view.why);
    if (rows[_i].why != NULL) {
        ck_assert_msg(strstr(view.why, rows[_i].why) != NULL, "\"%s\" is not in: %s", rows[_i].why,
                      view.why);
    }
    json_decref(pod);
}
END_TEST

START_TEST(a_pod_that_is_being_deleted_is_ending_whatever_else_it_says)
{
    json_t *pod = pod_with(STATUS_RUNNING);
    struct k8s_view view;
    struct error err = {0};

    json_object_set_new(json_object_get(pod, "metadata"), "deletionTimestamp",
                        json_string("2020-01-01T00:00:00Z"));
    ck_assert_int_eq(k8s_view(pod, NULL, &view, &err), 0);
    ck_assert_int_eq(view.stage, K8S_ENDING);
    json_decref(pod);
}
END_TEST

START_TEST(a_pod_is_ours_by_its_label_and_annotations_not_by_its_name)
{
    json_t *pod = pod_with(STATUS_RUNNING);
    struct k8s_view view;
    struct error err = {0};

    ck_assert_int_eq(k8s_view(pod, NULL, &view, &err), 0);
    ck_assert(view.ours);
    ck_assert_str_eq(view.session, "s1");
    json_object_del(k8s_at(pod, "metadata", "labels", NULL), "app.kubernetes.io/managed-by");
    ck_assert_int_eq(k8s_view(pod, NULL, &view, &err), 0);
    ck_assert(!view.ours);
    json_decref(pod);
}
END_TEST

START_TEST(an_object_without_a_name_or_a_uid_is_no_pod)
{
    static const char *const objects[] = {"{}", "[]", "{'metadata':{'name':'x'}}",
                                          "{'metadata':{'uid':'x'}}",
                                          "{'metadata':{'name':7,'uid':[]}}"};
    json_t *pod = quoted(objects[_i]);
    struct k8s_view view;
    struct error err = {0};

    ck_assert_int_eq(k8s_view(pod, NULL, &view, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    json_decref(pod);
}
END_TEST

START_TEST(what_the_cluster_says_is_made_printable)
{
    json_t *pod = pod_with("{'phase':'Failed','reason':'Evicted','message':'a\\u001b[31mb\\nc'}");
    struct k8s_view view;
    struct error err = {0};

    ck_assert_int_eq(k8s_view(pod, NULL, &view, &err), 0);
    for (const char *p = view.why; *p != '\0'; p++) {
        ck_assert_int_ge(*p, ' ');
    }
    json_decref(pod);
}
END_TEST

START_TEST(of_somebody_else_s_pod_one_container_counts)
{
    json_t *pod = pod_with("{'phase':'Running','containerStatuses':["
                           "{'name':'app','containerID':'docker://1','state':{'running':{}}},"
                           "{'name':'side','state':{'terminated':{'exitCode':3}}}]}");
    struct k8s_view view;
    struct error err = {0};

    ck_assert_int_eq(k8s_view(pod, "app", &view, &err), 0);
    ck_assert_int_eq(view.stage, K8S_RUNNING);
    ck_assert_str_eq(view.container_id, "docker://1");
    ck_assert_int_eq(k8s_view(pod, "side", &view, &err), 0);
    ck_assert_int_eq(view.stage, K8S_ENDED);
    ck_assert_int_eq(k8s_view(pod, "none", &view, &err), 0);
    ck_assert_int_eq(view.stage, K8S_PENDING);
    json_decref(pod);
}
END_TEST

UNIT_SUITE(k8s_view)
{
    tcase_add_loop_test(tcase, a_pod_s_stage_is_told_from_its_status_and_why, 0, ROWS);
    tcase_add_test(tcase, a_pod_that_is_being_deleted_is_ending_whatever_else_it_says);
    tcase_add_test(tcase, a_pod_is_ours_by_its_label_and_annotations_not_by_its_name);
    tcase_add_loop_test(tcase, an_object_without_a_name_or_a_uid_is_no_pod, 0, 5);
    tcase_add_test(tcase, what_the_cluster_says_is_made_printable);
    tcase_add_test(tcase, of_somebody_else_s_pod_one_container_counts);
}
