/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the Kubernetes API: what becomes a worker, with which port, role and identity, and what is left out. */
#include "base/alloc.h"
#include "daemon/fleet/kubernetes.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define WORKERS_MAX 10

typedef int reader(const struct kubernetes_scope *s, const char *data, size_t size, size_t max,
                   struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX]);

static int read_into(struct fleet *f, reader *read, const struct kubernetes_scope *s, const char *text,
                     char **ret_next)
{
    char why[SOURCE_WHY_MAX] = "";
    int r = read(s, text, strlen(text), WORKERS_MAX, f, ret_next, why);

    assert_true((r == -EPROTO) == (why[0] != '\0'));
    return r;
}

/* One page that is the complete list. */
static struct fleet *listed(reader *read, const struct kubernetes_scope *s, const char *text)
{
    struct fleet *f = xcalloc(1, sizeof(*f));
    char *next = NULL;

    assert_int_equal(read_into(f, read, s, text, &next), 0);
    assert_null(next);
    kubernetes_settle(f);
    return f;
}

static bool has_note(const struct fleet *f, const char *text)
{
    for (size_t i = 0; i < f->n_notes; i++)
        if (strstr(f->notes[i].text, text))
            return true;
    return false;
}

static const struct kubernetes_scope any = {0};

#define SLICES(items)                                                                                        \
    "{\"kind\":\"EndpointSliceList\",\"apiVersion\":\"discovery.k8s.io/"                                     \
    "v1\",\"metadata\":{},\"items\":[" items "]}"
#define SLICE(family, labels, endpoints, ports)                                                              \
    "{\"metadata\":{\"labels\":{" labels "}},\"addressType\":\"" family "\",\"endpoints\":[" endpoints       \
    "],\"ports\":[" ports "]}"
#define POD_REF(uid)                                                                                         \
    "\"targetRef\":{\"kind\":\"Pod\",\"name\":\"pod-" uid "\",\"uid\":\"" uid "\"},\"nodeName\":\"gpu-1\""
#define ENDPOINT(ip, uid) "{\"addresses\":[\"" ip "\"],\"conditions\":{\"ready\":true}," POD_REF(uid) "}"
#define STATE(ip, uid, conditions)                                                                           \
    "{\"addresses\":[\"" ip "\"],\"conditions\":{" conditions "}," POD_REF(uid) "}"
#define PORT(name, number) "{\"name\":\"" name "\",\"protocol\":\"TCP\",\"port\":" #number "}"

static void test_slices_are_joined(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = listed(
        kubernetes_read_slices, &any,
        SLICES(SLICE("IPv4", "", ENDPOINT("10.42.0.7", "a") "," ENDPOINT("10.42.0.8", "b"),
                     PORT("http", 8000)) "," SLICE("IPv4", "",
                                                   ENDPOINT("10.42.0.8", "b") "," ENDPOINT("10.42.1.9", "c"),
                                                   PORT("http", 8001))));

    assert_int_equal(f->n_workers, 4);
    assert_string_equal(f->workers[0].url, "http://10.42.0.7:8000");
    assert_string_equal(f->workers[0].identity, "a");
    assert_string_equal(f->workers[0].name, "pod-a");
    assert_string_equal(f->workers[0].node, "gpu-1");
    assert_int_equal(f->workers[0].health, HEALTH_HEALTHY);
    /* Two ports of one pod are two servers. */
    assert_string_equal(f->workers[1].url, "http://10.42.0.8:8000");
    assert_string_equal(f->workers[2].url, "http://10.42.0.8:8001");
    _cleanup_(fleet_freep) struct fleet *twice =
        listed(kubernetes_read_slices, &any,
               SLICES(SLICE("IPv4", "", STATE("10.42.0.7", "a", "\"ready\":false"),
                            PORT("", 80)) "," SLICE("IPv4", "", ENDPOINT("10.42.0.7", "a"), PORT("", 80))));
    assert_int_equal(twice->n_workers, 1);
    assert_int_equal(twice->workers[0].health, HEALTH_HEALTHY);
}

static void test_two_families(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f =
        listed(kubernetes_read_slices, &any,
               SLICES(SLICE("IPv6", "", ENDPOINT("fd00:0::7", "a") "," ENDPOINT("fd00::9", "v6"),
                            PORT("http", 8000)) "," SLICE("IPv4", "", ENDPOINT("10.42.0.7", "a"),
                                                          PORT("http", 8000))));

    assert_int_equal(f->n_workers, 2);
    assert_string_equal(f->workers[0].url, "http://10.42.0.7:8000");
    assert_string_equal(f->workers[1].url, "http://[fd00::9]:8000");
    assert_true(has_note(f, "of which profd calls the IPv4 address: 1"));
}

static void test_conditions(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        enum health health;
    } cases[] = {
        {SLICES(SLICE("IPv4", "", "{\"addresses\":[\"10.0.0.1\"]}", PORT("", 80))), 1, HEALTH_HEALTHY},
        {SLICES(SLICE("IPv4", "", STATE("10.0.0.1", "a", ""), PORT("", 80))), 1, HEALTH_HEALTHY},
        {SLICES(SLICE("IPv4", "", STATE("10.0.0.1", "a", "\"ready\":null"), PORT("", 80))), 1,
         HEALTH_HEALTHY},
        {SLICES(SLICE("IPv4", "", STATE("10.0.0.1", "a", "\"ready\":false"), PORT("", 80))), 1,
         HEALTH_UNHEALTHY},
        /* publishNotReadyAddresses. */
        {SLICES(SLICE("IPv4", "", STATE("10.0.0.1", "a", "\"ready\":true,\"serving\":false"), PORT("", 80))),
         1, HEALTH_UNHEALTHY},
        {SLICES(SLICE("IPv4", "",
                      STATE("10.0.0.1", "a", "\"ready\":false,\"serving\":true,\"terminating\":true"),
                      PORT("", 80))),
         0, 0},
        /* What one slice knows already, another one will know. */
        {SLICES(SLICE("IPv4", "", ENDPOINT("10.0.0.1", "a"), PORT("", 80)) "," SLICE(
             "IPv4", "", STATE("10.0.0.1", "a", "\"terminating\":true"), PORT("", 80))),
         0, 0},
        /* Another pod has the address by now. */
        {SLICES(SLICE("IPv4", "",
                      STATE("10.0.0.1", "old", "\"terminating\":true") "," ENDPOINT("10.0.0.1", "new"),
                      PORT("", 80))),
         1, HEALTH_HEALTHY},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f = listed(kubernetes_read_slices, &any, cases[i].text);
        assert_int_equal(f->n_workers, cases[i].n);
        if (cases[i].n > 0)
            assert_int_equal(f->workers[0].health, cases[i].health);
        else
            assert_true(has_note(f, "pods left out because they are terminating: 1"));
    }
}

static void test_nothing_there(void **state)
{
    static const struct {
        const char *text, *note;
    } cases[] = {
        {SLICES(""), "there are no EndpointSlices of that Service"},
        {"{\"kind\":\"EndpointSliceList\",\"items\":null}", "there are no EndpointSlices of that Service"},
        {SLICES(SLICE("IPv4", "", "", "")), "has no endpoints"},
        {SLICES("{\"endpoints\":null,\"ports\":null}"), "has no endpoints"},
    };
    const struct kubernetes_scope elsewhere = {.node = "gpu-2"};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f = listed(kubernetes_read_slices, &any, cases[i].text);
        assert_int_equal(f->n_workers, 0);
        assert_true(has_note(f, cases[i].note));
    }
    _cleanup_(fleet_freep) struct fleet *f =
        listed(kubernetes_read_slices, &elsewhere,
               SLICES(SLICE("IPv4", "", ENDPOINT("10.0.0.1", "a"), PORT("", 80))));
    assert_int_equal(f->n_workers, 0);
    assert_true(has_note(f, "no pod of the Service is on the node gpu-2"));
}

static void test_pages(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    _cleanup_(freep) char *next = NULL, *after = NULL;

    assert_int_equal(
        read_into(
            f, kubernetes_read_slices, &any,
            "{\"kind\":\"EndpointSliceList\",\"metadata\":{\"continue\":\"abc==\",\"remainingItemCount\":1},"
            "\"items\":[" SLICE("IPv4", "", ENDPOINT("10.0.0.1", "a"), PORT("", 80)) "]}",
            &next),
        0);
    assert_string_equal(next, "abc==");
    assert_int_equal(
        read_into(f, kubernetes_read_slices, &any,
                  SLICES(SLICE("IPv4", "", STATE("10.0.0.1", "a", "\"terminating\":true"),
                               PORT("", 80)) "," SLICE("IPv4", "", ENDPOINT("10.0.0.2", "b"), PORT("", 80))),
                  &after),
        0);
    assert_null(after);
    kubernetes_settle(f);
    assert_int_equal(f->n_workers, 1);
    assert_string_equal(f->workers[0].identity, "b");
}

/* The token becomes part of a URL: a server must not make that as long as an answer. */
static void test_long_continue(void **state)
{
    static const struct {
        size_t size;
        int result;
    } cases[] = {{4096, 0}, {4097, -EPROTO}, {1 << 20, -EPROTO}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        _cleanup_(freep) char *token = xcalloc(cases[i].size + 1, 1), *text = NULL, *next = NULL;
        memset(token, 'A', cases[i].size);
        append_str(&text, "{\"kind\":\"PodList\",\"metadata\":{\"continue\":\"%s\"},\"items\":[]}", token);
        assert_int_equal(read_into(f, kubernetes_read_pods, &any, text, &next), cases[i].result);
        assert_int_equal(next != NULL, cases[i].result == 0);
    }
}

static void test_no_list(void **state)
{
    static const char *const texts[] = {
        "",
        "<html>",
        "[]",
        "{}",
        "null",
        "{\"kind\":\"Status\",\"items\":[]}",
        "{\"kind\":\"PodList\",\"items\":3}",
        "{\"kind\":\"EndpointSliceList\",\"items\":{}}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        char *next = NULL;
        assert_int_equal(read_into(f, kubernetes_read_slices, &any, texts[i], &next), -EPROTO);
        assert_int_equal(read_into(f, kubernetes_read_pods, &any, texts[i], &next), -EPROTO);
        assert_null(next);
        assert_int_equal(f->n_workers, 0);
    }
}

static void test_too_many(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    _cleanup_(freep) char *text =
        xstrdup("{\"kind\":\"EndpointSliceList\",\"items\":[{\"ports\":[" PORT("", 80) "],\"endpoints\":[");
    char *next = NULL;

    for (int i = 0; i <= WORKERS_MAX; i++)
        append_str(&text, "%s{\"addresses\":[\"10.0.0.%d\"]}", i > 0 ? "," : "", i);
    append_str(&text, "]}]}");
    assert_int_equal(read_into(f, kubernetes_read_slices, &any, text, &next), -E2BIG);
}

#define PODS(items)                                                                                          \
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[" items \
    "]}"
#define POD(meta, spec, status)                                                                              \
    "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"" meta "},\"spec\":{\"nodeName\":\"n\"" spec                 \
    "},\"status\":{" status "}}"
#define LABELS(labels) ",\"labels\":{" labels "}"
#define RUNS                                                                                                 \
    "\"phase\":\"Running\",\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"
#define CONTAINER(ports)    ",\"containers\":[{\"name\":\"main\",\"ports\":[" ports "]}]"
#define CPORT(name, number) "{\"name\":\"" name "\",\"containerPort\":" #number ",\"protocol\":\"TCP\"}"
#define SIDECAR(ports)      ",\"initContainers\":[{\"restartPolicy\":\"Always\",\"ports\":[" ports "]}]"
#define PROBED(port, scheme)                                                                                 \
    ",\"containers\":[{\"ports\":[{\"containerPort\":8001}],\"readinessProbe\":{\"httpGet\":{"               \
    "\"port\":" #port ",\"scheme\":\"" scheme "\"}}}]"

/* As the sources in kubernetes_labels.c label their pods and declare their ports. */
static void test_ports_and_roles_of_projects(void **state)
{
    static const struct {
        const char *pod, *port, *url;
        enum role role;
        const char *model;
    } cases[] = {
        /* The only port, whatever its name. */
        {POD("", CONTAINER(CPORT("api", 8000)), RUNS), NULL, "http://10.0.0.1:8000", 0, NULL},
        {POD("", CONTAINER("{\"containerPort\":30000}"), RUNS), NULL, "http://10.0.0.1:30000", 0, NULL},
        /* Of several the one that is called http; never the first. */
        {POD("", CONTAINER(CPORT("metrics", 9400) "," CPORT("http", 8000)), RUNS), NULL,
         "http://10.0.0.1:8000", 0, NULL},
        {POD("", CONTAINER(CPORT("metrics", 9400) "," CPORT("api", 8000)), RUNS), NULL, NULL, 0, NULL},
        {POD("", CONTAINER(CPORT("metrics", 9400) "," CPORT("api", 8000)), RUNS), "api",
         "http://10.0.0.1:8000", 0, NULL},
        {POD("", CONTAINER(CPORT("http", 8000)), RUNS), "api", NULL, 0, NULL},
        {POD("", CONTAINER(CPORT("http", 8000)), RUNS), "9000", "http://10.0.0.1:9000", 0, NULL},
        {POD("", CONTAINER(""), RUNS), "9000", "http://10.0.0.1:9000", 0, NULL},
        {POD("", CONTAINER(""), RUNS), NULL, NULL, 0, NULL},
        {POD("", CONTAINER("{\"name\":\"http\",\"containerPort\":53,\"protocol\":\"UDP\"}"), RUNS), NULL,
         NULL, 0, NULL},
        {POD("", CONTAINER(CPORT("http", 70000)), RUNS), NULL, NULL, 0, NULL},
        /* TLS by the probes, by the name of the port. */
        {POD("", PROBED(8001, "HTTPS"), RUNS), NULL, "https://10.0.0.1:8001", 0, NULL},
        {POD("", PROBED(8001, "HTTP"), RUNS), NULL, "http://10.0.0.1:8001", 0, NULL},
        {POD("", PROBED(8000, "HTTPS"), RUNS), NULL, "http://10.0.0.1:8001", 0, NULL},
        {POD("", CONTAINER(CPORT("https", 8443)), RUNS), NULL, "https://10.0.0.1:8443", 0, NULL},
        /* llm-d: the sidecar's port has the usual number, the server's the usual name. */
        {POD(LABELS("\"llm-d.ai/role\":\"decode\""),
             CONTAINER(CPORT("http", 8200) "," CPORT("rank1", 8201)) SIDECAR(CPORT("sidecar-http", 8000)),
             RUNS),
         NULL, "http://10.0.0.1:8200", ROLE_DECODE, NULL},
        {POD(LABELS("\"llm-d.ai/role\":\"prefill-decode\""),
             CONTAINER("{\"containerPort\":8001}") SIDECAR("{\"containerPort\":8000}"), RUNS),
         NULL, "http://10.0.0.1:8001", ROLE_REGULAR, NULL},
        {POD(LABELS("\"llm-d.ai/role\":\"encode\""), CONTAINER(CPORT("http", 8000)), RUNS), NULL,
         "http://10.0.0.1:8000", ROLE_ENCODE, NULL},
        /* Dynamo's operator: newer and older labels. */
        {POD(LABELS("\"nvidia.com/dynamo-component-type\":\"prefill\""),
             CONTAINER(CPORT("system", 9090) "," CPORT("nixl", 19090)), RUNS),
         NULL, "http://10.0.0.1:9090", ROLE_PREFILL, NULL},
        {POD(LABELS("\"nvidia.com/dynamo-component-type\":\"worker\",\"nvidia.com/"
                    "dynamo-sub-component-type\":\"decode\""),
             CONTAINER(CPORT("system", 9090)), RUNS),
         NULL, "http://10.0.0.1:9090", ROLE_DECODE, NULL},
        {POD(LABELS("\"nvidia.com/dynamo-component-type\":\"worker\""),
             CONTAINER(CPORT("nixl", 19090) "," CPORT("system", 9090)), RUNS),
         NULL, "http://10.0.0.1:9090", ROLE_REGULAR, NULL},
        {POD(LABELS("\"nvidia.com/dynamo-component-type\":\"frontend\""), CONTAINER(CPORT("http", 8000)),
             RUNS),
         NULL, NULL, 0, NULL},
        {POD(LABELS("\"nvidia.com/dynamo-component-type\":\"planner\""), CONTAINER(CPORT("metrics", 9085)),
             RUNS),
         NULL, NULL, 0, NULL},
        /* AIBrix */
        {POD(LABELS("\"model.aibrix.ai/name\":\"qwen\",\"model.aibrix.ai/port\":\"8010\",\"model.aibrix.ai/"
                    "engine\":\"vllm\",\"role-name\":\"prefill\""),
             CONTAINER(CPORT("metrics", 9400) "," CPORT("serve", 8010)), RUNS),
         NULL, "http://10.0.0.1:8010", ROLE_PREFILL, "qwen"},
        /* KServe with Knative's proxy beside it. */
        {POD(LABELS("\"serving.kserve.io/inferenceservice\":\"m\",\"component\":\"predictor\""),
             ",\"containers\":[{\"ports\":[" CPORT("user-port", 8080) "]},{\"ports\":[" CPORT(
                 "http-queueadm", 8022) "," CPORT("queue-port", 8012) "]}]",
             RUNS),
         NULL, "http://10.0.0.1:8080", 0, NULL},
        {POD(LABELS("\"serving.kserve.io/inferenceservice\":\"m\",\"component\":\"transformer\""),
             CONTAINER(CPORT("http1", 8080)), RUNS),
         NULL, NULL, 0, NULL},
        /* KubeAI: the port is an annotation. */
        {POD(LABELS("\"app.kubernetes.io/managed-by\":\"kubeai\",\"model\":\"llama\",\"app.kubernetes.io/"
                    "name\":\"vllm\"") ",\"annotations\":{\"model-pod-port\":\"8000\"}",
             CONTAINER(CPORT("metrics", 9400) "," CPORT("x", 8000)), RUNS),
         NULL, "http://10.0.0.1:8000", 0, "llama"},
        /* production-stack: the label `model` is not the model. */
        {POD(LABELS("\"app.kubernetes.io/"
                    "component\":\"serving-engine\",\"helm-release-name\":\"vllm\",\"model\":\"opt\""),
             CONTAINER(
                 CPORT("container-port", 8000) "," CPORT("zmq-port", 55555) "," CPORT("ucx-port", 9999)),
             RUNS),
         NULL, "http://10.0.0.1:8000", 0, NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct kubernetes_scope s = {.port = cases[i].port};
        _cleanup_(freep) char *text = xasprintf(PODS("%s"), cases[i].pod);
        _cleanup_(fleet_freep) struct fleet *f = listed(kubernetes_read_pods, &s, text);
        if (!cases[i].url) {
            assert_int_equal(f->n_workers, 0);
            assert_int_equal(f->n_notes, 1);
            continue;
        }
        assert_int_equal(f->n_workers, 1);
        assert_string_equal(f->workers[0].url, cases[i].url);
        assert_int_equal(f->workers[0].role, cases[i].role);
        if (cases[i].model)
            assert_string_equal(f->workers[0].model, cases[i].model);
        else
            assert_null(f->workers[0].model);
        assert_string_equal(f->workers[0].identity, "u");
        assert_int_equal(f->workers[0].health, HEALTH_HEALTHY);
        assert_int_equal(f->workers[0].engine, ENGINE_UNKNOWN);
        if (f->workers[0].model)
            assert_non_null(strstr(f->workers[0].hint, "=vllm"));
        else
            assert_null(f->workers[0].hint);
    }
}

static void test_slices_of_projects(void **state)
{
    const struct kubernetes_scope by_label = {.role_label = "tier"};
    /* The Service's labels are those of its slices. */
    _cleanup_(fleet_freep) struct fleet *own =
        listed(kubernetes_read_slices, &by_label,
               SLICES(SLICE("IPv4", "\"tier\":\"decode\",\"llm-d.ai/role\":\"prefill\"",
                            ENDPOINT("10.0.0.1", "a"), PORT("", 80))));
    _cleanup_(fleet_freep) struct fleet *stack = listed(
        kubernetes_read_slices, &any,
        SLICES(SLICE("IPv4", "\"app.kubernetes.io/component\":\"serving-engine\"", ENDPOINT("10.0.0.1", "a"),
                     PORT("ucx-port", 9999) "," PORT("service-port", 8000))));
    _cleanup_(fleet_freep) struct fleet *tls =
        listed(kubernetes_read_slices, &any,
               SLICES(SLICE("IPv4", "", ENDPOINT("10.0.0.1", "a"),
                            "{\"name\":\"api\",\"port\":8000,\"appProtocol\":\"https\"}")));
    _cleanup_(fleet_freep) struct fleet *several = listed(
        kubernetes_read_slices, &any,
        SLICES(SLICE("IPv4", "", ENDPOINT("10.0.0.1", "a"), PORT("metrics", 9400) "," PORT("api", 8000))));

    assert_int_equal(own->workers[0].role, ROLE_DECODE);
    assert_string_equal(stack->workers[0].url, "http://10.0.0.1:8000");
    assert_string_equal(tls->workers[0].url, "https://10.0.0.1:8000");
    assert_int_equal(several->n_workers, 0);
    assert_true(has_note(several, "it has several ports (metrics 9400, api 8000)"));
}

static void test_states_of_pods(void **state)
{
#define ONE CONTAINER(CPORT("http", 8000))
    _cleanup_(fleet_freep) struct fleet *f = listed(
        kubernetes_read_pods, &any,
        PODS(POD("", ONE, "\"phase\":\"Running\",\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]") "," POD(
            ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", ONE,
            "\"phase\":\"Running\",\"podIP\":\"10.0.0.2\"") "," POD("", ONE,
                                                                    "\"phase\":\"Pending\"") "," POD("", ONE,
                                                                                                     "\"phase"
                                                                                                     "\":"
                                                                                                     "\"Succe"
                                                                                                     "eded\","
                                                                                                     "\"podIP"
                                                                                                     "\":"
                                                                                                     "\"10.0."
                                                                                                     "0."
                                                                                                     "3\"") "," POD("",
                                                                                                                    ONE,
                                                                                                                    "\"phase\":\"Failed\",\"podIP\":"
                                                                                                                    "\"10.0.0.4\"") "," POD("",
                                                                                                                                            ONE,
                                                                                                                                            "\"phase"
                                                                                                                                            "\":"
                                                                                                                                            "\"Runni"
                                                                                                                                            "ng\","
                                                                                                                                            "\"podIP"
                                                                                                                                            "\":"
                                                                                                                                            "\"\"") ",7"));

    /* The uids are equal here, so the first and the terminating one are one pod. */
    assert_int_equal(f->n_workers, 0);
    assert_true(has_note(f, "pods left out because they are terminating: 1"));
    assert_true(has_note(f, "because they have no address: 2"));
    assert_true(has_note(f, "because they have ended: 2"));
    _cleanup_(fleet_freep) struct fleet *g = listed(
        kubernetes_read_pods, &any,
        PODS(POD("", ONE,
                 "\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]")));
    assert_int_equal(g->workers[0].health, HEALTH_UNHEALTHY);
    _cleanup_(fleet_freep) struct fleet *none = listed(kubernetes_read_pods, &any, PODS(""));
    assert_true(has_note(none, "no pod has these labels"));
    _cleanup_(fleet_freep) struct fleet *v6 =
        listed(kubernetes_read_pods, &any, PODS(POD("", ONE, "\"podIP\":\"FD00::a\"")));
    assert_string_equal(v6->workers[0].url, "http://[fd00::a]:8000");
    assert_int_equal(v6->workers[0].health, HEALTH_UNKNOWN);
}

/* What the API should never give. */
static void test_hostile_texts(void **state)
{
    static const char *const addresses[] = {"",    "10.0.0.1/x",  "evil@10.0.0.1", "10.0.0.1:22",
                                            "a b", "\\u001b[31m", "h\\u0000"};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        _cleanup_(freep) char *text =
            xasprintf(SLICES("{\"endpoints\":[{\"addresses\":[\"%s\"],\"targetRef\":{\"name\":\"\\u001b[2J\","
                             "\"uid\":\"a b\"}}],\"ports\":[" PORT("", 80) "]}"),
                      addresses[i]);
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        char why[SOURCE_WHY_MAX];
        char *next = NULL;
        int r = kubernetes_read_slices(&any, text, strlen(text), WORKERS_MAX, f, &next, why);
        assert_true(r == 0 || r == -EPROTO);
        assert_int_equal(f->n_workers, 0);
        for (size_t k = 0; k < f->n_notes; k++)
            assert_null(strchr(f->notes[k].text, 0x1b));
    }
    _cleanup_(fleet_freep) struct fleet *f =
        listed(kubernetes_read_slices, &any,
               SLICES("{\"endpoints\":[{\"addresses\":[\"10.0.0.1\"],\"nodeName\":\"\\u001b\",\"targetRef\":{"
                      "\"name\":\"\\u001b[2J\",\"uid\":\"a b\"}}],\"ports\":[" PORT("", 80) "]}"));
    assert_int_equal(f->n_workers, 1);
    assert_null(f->workers[0].identity);
    assert_null(f->workers[0].name);
    assert_null(f->workers[0].node);
}

static void test_names_in_paths(void **state)
{
    static const struct {
        const char *name, *path, *filled;
    } cases[] = {
        {"vllm-0", "/traces/{name}", "/traces/vllm-0"},
        {"a.b", "/{name}/x/{name}", "/a.b/x/a.b"},
        {"a", "/traces", "/traces"},
        {NULL, "/traces", "/traces"},
        {NULL, "/traces/{name}", NULL},
        {"..", "/traces/{name}", NULL},
        {".hidden", "/traces/{name}", NULL},
        {"a/../b", "/traces/{name}", NULL},
        {"", "/traces/{name}", NULL},
        {"{name}", "/traces/{name}", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct worker w = {.name = (char *)cases[i].name};
        _cleanup_(freep) char *filled = worker_fill_path(&w, cases[i].path);
        if (cases[i].filled)
            assert_string_equal(filled, cases[i].filled);
        else
            assert_null(filled);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_are_joined),
        cmocka_unit_test(test_two_families),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_long_continue),
        cmocka_unit_test(test_no_list),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_ports_and_roles_of_projects),
        cmocka_unit_test(test_slices_of_projects),
        cmocka_unit_test(test_states_of_pods),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_names_in_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
