/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the projects that run engines on Kubernetes label their pods: one table.
 *
 * Labels are what somebody wrote: role, port and model are taken from them, since nothing else has those before the
 * worker answers. The engine is not: identification asks the worker itself.
 */
#include "daemon/fleet/kubernetes.h"

/* The most telling first: a pod of KServe that serves by llm-d has the labels of both. */
static const struct kubernetes_project projects[] = {
    /* ai-dynamo/dynamo deploy/operator/internal/consts/consts.go and internal/dynamo/component_worker.go: the profiler
     * is reached by the system status server. Older operators mark prefill and decode by the second label only. */
    {.name = "Dynamo",
     .label = "nvidia.com/dynamo-component-type",
     .roles = {"nvidia.com/dynamo-sub-component-type", "nvidia.com/dynamo-component-type"},
     .regular = "worker",
     .port_names = {"system"},
     .not_workers = {"frontend", "planner", "epp"}},
    /* llm-d/llm-d-router @ebab6879, pkg/epp/framework/plugins/scheduling/filter/bylabel; KServe's LLMInferenceService
     * has the same label. */
    {.name = "llm-d", .label = "llm-d.ai/role", .roles = {"llm-d.ai/role"}},
    /* vllm-project/aibrix @e3e10f9e, pkg/constants/model.go; roles: pkg/controller/constants/stormservice.go. */
    {.name = "AIBrix",
     .label = "model.aibrix.ai/name",
     .roles = {"role-name"},
     .port = "model.aibrix.ai/port",
     .model = "model.aibrix.ai/name",
     .engine = "model.aibrix.ai/engine"},
    /* kserve/kserve @aaac4e29, pkg/constants/constants.go. In serverless mode Knative gives the server's port the name
     * user-port, next to those of its proxy. */
    {.name = "KServe",
     .label = "serving.kserve.io/inferenceservice",
     .roles = {"component"},
     .port_names = {"user-port", "http1"},
     .not_workers = {"transformer", "explainer"}},
    /* kubeai-project/kubeai @f442a2cd, internal/modelcontroller/model_controller.go and api/k8s/v1/metadata.go. */
    {.name = "KubeAI",
     .label = "app.kubernetes.io/managed-by",
     .value = "kubeai",
     .port = "model-pod-port",
     .model = "model",
     .engine = "app.kubernetes.io/name"},
    /* vllm-project/production-stack @a6c01db0, helm/templates/deployment-vllm-multi.yaml and _helpers.tpl. Its label
     * `model` is the name of a section of values.yaml, not of the model. */
    {.name = "production-stack",
     .label = "app.kubernetes.io/component",
     .value = "serving-engine",
     .port_names = {"container-port", "service-port"}},
};

const struct kubernetes_project *kubernetes_project_of(const json_t *labels)
{
    for (size_t i = 0; i < ARRAY_SIZE(projects); i++) {
        const char *value = json_get_str(labels, projects[i].label);
        if (value && (!projects[i].value || streq(value, projects[i].value)))
            return &projects[i];
    }
    return NULL;
}

bool kubernetes_is_no_worker(const struct kubernetes_project *p, const json_t *labels)
{
    for (size_t i = 0; p && i < ARRAY_SIZE(p->roles); i++) {
        const char *value = p->roles[i] ? json_get_str(labels, p->roles[i]) : NULL;
        for (size_t k = 0; value && k < ARRAY_SIZE(p->not_workers) && p->not_workers[k]; k++)
            if (streq(value, p->not_workers[k]))
                return true;
    }
    return false;
}
