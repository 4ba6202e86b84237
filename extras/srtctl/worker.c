/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that srtctl builds today for a worker of a recipe: its module, ports and flags.
 *
 * After srt-slurm at c88ef73: backends/sglang.py and vllm.py (build_worker_command),
 * cli/mixins/worker_stage.py (start_worker), core/topology.py (allocate_endpoints, NodePortAllocator) and
 * ports.py.
 */
#include "extras/srtctl/launch.h"

#include "base/alloc.h"
#include <errno.h>
#include <inttypes.h>

#define SYSTEM_PORT      7500
#define HTTP_PORT        6100
#define HTTP_PORT_STRIDE 32
#define BOOTSTRAP_PORT   7200
#define KV_EVENTS_PORT   5200
#define NIXL_PORT        5400
#define DIST_INIT_PORT   8300
#define NCCL_PORT        17500
#define VLLM_PORT        20000
#define VLLM_PORT_STRIDE 50

/* -- Where it runs ------------------------------------------------------------------------------------ */

struct worker_slot {
    int64_t n_nodes;           /* of the worker */
    int64_t first_node;        /* in the job's order, from 0 */
    int64_t process;           /* of all processes, from 0 */
    int64_t http_port;         /* 0: not its first node */
    int64_t bootstrap_port;    /* 0: no prefill worker */
    int64_t first_gpu, n_gpus; /* on each node */
};

struct slot_cursor {
    int64_t node, gpu, process;
    int64_t on_node, prefills_on_node; /* workers that begin on the current one */
};

static void slot_cursor_next_node(struct slot_cursor *w, int64_t n)
{
    w->node += n;
    w->gpu = w->on_node = w->prefills_on_node = 0;
}

/* Workers are seated in the order prefill, decode, aggregated; small ones share nodes, but not with others of
 * another role while there are more nodes. */
static struct worker_slot slot_find(const struct recipe *r, const struct launch_target *target)
{
    const json_t *resources = json_object_get(r->root, "resources");
    bool spread = json_get_bool(resources, "spread_workers", false);
    struct slot_cursor w = {0};
    struct worker_slot slot = {.n_nodes = 1};

    for (int m = 0; m <= (int)target->mode; m++) {
        const struct recipe_phase *phase = &r->phases[m];
        int64_t gpus = MAX(phase->gpus, (int64_t)1),
                nodes = MAX((gpus + r->gpus_per_node - 1) / r->gpus_per_node, (int64_t)1);
        bool fills_nodes = gpus >= r->gpus_per_node;
        if (m == RECIPE_DECODE && w.gpu > 0 && phase->nodes > 0)
            slot_cursor_next_node(&w, 1);
        for (int64_t i = 0; i < phase->workers; i++) {
            if (!fills_nodes && w.gpu + gpus > r->gpus_per_node)
                slot_cursor_next_node(&w, 1);
            slot = (struct worker_slot){
                .n_nodes = fills_nodes ? nodes : 1,
                .first_node = w.node,
                .process = w.process + target->rank,
                .http_port = target->rank == 0 ? HTTP_PORT + w.on_node * HTTP_PORT_STRIDE : 0,
                .bootstrap_port = m == RECIPE_PREFILL ? BOOTSTRAP_PORT + w.prefills_on_node : 0,
                .first_gpu = fills_nodes ? 0 : w.gpu,
                .n_gpus = fills_nodes ? r->gpus_per_node : gpus,
            };
            if (m == (int)target->mode && i == target->worker)
                return slot;
            w.process += slot.n_nodes;
            w.on_node++;
            w.prefills_on_node += m == RECIPE_PREFILL;
            w.gpu += gpus;
            if (fills_nodes || spread || w.gpu >= r->gpus_per_node)
                slot_cursor_next_node(&w, slot.n_nodes);
        }
    }
    return slot;
}

static const json_t *worker_backend(const struct recipe *r)
{
    return json_object_get(r->root, "backend");
}

static const char *worker_flag(const json_t *config, const char *dashed, const char *underscored)
{
    const char *text = json_get_str(config, dashed);
    return text ? text : json_get_str(config, underscored);
}

static const char *worker_served_name(const struct recipe *r)
{
    static const enum recipe_mode order[] = {RECIPE_PREFILL, RECIPE_AGGREGATED, RECIPE_DECODE};
    const char *path = r->model_path ? r->model_path : "model";

    for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
        const char *name = worker_flag(r->phases[order[i]].config, "served-model-name", "served_model_name");
        if (name)
            return name;
    }
    if (starts_with(path, "hf:"))
        path += 3;
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Local models are mounted there. */
static const char *worker_model(const struct recipe *r)
{
    return r->model_path && starts_with(r->model_path, "hf:") ? r->model_path + 3 : "/model";
}

static const char *worker_request_plane(const struct recipe *r)
{
    const char *plane = json_get_str(json_object_get(r->root, "dynamo"), "request_plane");
    return plane ? plane : "tcp";
}

static void worker_add_ranks(const struct launch_target *target, const struct worker_slot *slot,
                             struct recipe_launch *l)
{
    launch_add_option(l, "--nnodes", "%" PRId64, slot->n_nodes);
    launch_add_option(l, "--node-rank", "%" PRId64, target->rank);
}

static void worker_add_config_dump(const struct launch_target *target, struct recipe_launch *l)
{
    launch_add(l, "--dump-config-to");
    if (target->node)
        launch_add(l, "/logs/%s_config.json", target->node);
    else
        launch_add_expanding(l, "/logs/${SLURMD_NODENAME}_config.json");
}

/* As Python's json.dumps() has it. */
static void worker_add_kv_events(const struct recipe *r, const struct launch_target *target,
                                 const struct worker_slot *slot, bool vllm, struct recipe_launch *l)
{
    const json_t *all = json_object_get(worker_backend(r), "kv_events_config"),
                 *own = json_object_get(all, recipe_mode_name(target->mode));
    bool on =
        json_is_true(all) ? target->mode != RECIPE_AGGREGATED : json_is_true(own) || json_is_object(own);
    const char *key;
    json_t *value;

    if (!on)
        return;
    _cleanup_json_ config = json_pack("{s: s, s: s}", "publisher", "zmq", "topic", "kv-events");
    _cleanup_(freep) char *endpoint = xasprintf("tcp://*:%" PRId64, KV_EVENTS_PORT + slot->process);
    if (vllm)
        json_put_bool(config, "enable_kv_cache_events", true);
    json_object_foreach((json_t *)own, key, value)
        json_object_set(config, key, value);
    json_put_str(config, "endpoint", endpoint);
    _cleanup_(freep) char *text = json_dumps(config, 0);
    launch_add_option(l, "--kv-events-config", "%s", text);
}

/* -- SGLang ------------------------------------------------------------------------------------------- */

static int worker_add_sglang(const struct recipe *r, const struct launch_target *target,
                             const struct worker_slot *slot, struct recipe_launch *l)
{
    static const char *const dropped[] = {"model-path", "served-model-name", "nccl-port", NULL};
    bool alone = streq(r->frontend, "sglang");

    launch_add_option(l, "python3", "-m");
    launch_add(l, alone ? "sglang.launch_server" : "dynamo.sglang");
    launch_add_option(l, "--model-path", "%s", worker_model(r));
    launch_add_option(l, "--served-model-name", "%s", worker_served_name(r));
    launch_add_option(l, "--host", "0.0.0.0");
    launch_add_option(l, "--port", "%" PRId64, slot->http_port);
    launch_add_option(l, "--nccl-port", "%" PRId64, NCCL_PORT + slot->process);
    if (target->mode != RECIPE_AGGREGATED)
        launch_add_option(l, "--disaggregation-mode", "%s", recipe_mode_name(target->mode));
    if (target->mode == RECIPE_PREFILL)
        launch_add_option(l, "--disaggregation-bootstrap-port", "%" PRId64, slot->bootstrap_port);
    if (slot->n_nodes > 1) {
        launch_add(l, "--dist-init-addr");
        launch_add_expanding(l, "${LEADER_IP}:%d", DIST_INIT_PORT);
        worker_add_ranks(target, slot, l);
    }
    if (!alone)
        worker_add_config_dump(target, l);
    worker_add_kv_events(r, target, slot, false, l);
    if (!alone)
        launch_add_option(l, "--request-plane", "%s", worker_request_plane(r));
    launch_add_flags(l, r->phases[target->mode].config, dropped);
    return 0;
}

/* -- vLLM --------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *config;
} connectors[] = {
    {"nixl", "{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}"},
    {"lmcache", "{\"kv_connector\": \"LMCacheConnectorV1\", \"kv_role\": \"kv_both\"}"},
    {"kvbm", "{\"kv_connector\": \"DynamoConnector\", \"kv_connector_module_path\": "
             "\"kvbm.vllm_integration.connector\", \"kv_role\": \"kv_both\"}"},
};

static void worker_add_connector(const struct recipe *r, const struct launch_target *target,
                                 struct recipe_launch *l)
{
    const json_t *config = r->phases[target->mode].config,
                 *all = json_object_get(worker_backend(r), "connector");
    const char *name = json_get_str(config, "connector");

    if (!name)
        name = all ? json_string_value(all) : "nixl";
    if (!name || !*name || streq(name, "null") || streq(name, "none"))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(connectors); i++)
        if (strcasecmp(name, connectors[i].name) == 0)
            name = connectors[i].config;
    launch_add_option(l, "--kv-transfer-config", "%s", name);
}

/* "0,1,2,3": of each node. The caller frees it. */
static char *slot_gpus(const struct worker_slot *slot, char separator)
{
    char *list = NULL;

    for (int64_t i = 0; i < slot->n_gpus; i++) {
        if (i > 0)
            append_str(&list, "%c", separator);
        append_str(&list, "%" PRId64, slot->first_gpu + i);
    }
    return list ? list : xstrdup("");
}

static void worker_add_devices(const struct recipe *r, const struct worker_slot *slot,
                               struct recipe_launch *l)
{
    _cleanup_(freep) char *list = slot_gpus(slot, ',');

    if (!json_get_bool(worker_backend(r), "set_cuda_visible_devices", false))
        launch_add_option(l, "--device-ids", "%s", list);
}

static bool worker_has_data_parallel(const json_t *config)
{
    const json_t *dashed = json_object_get(config, "data-parallel-size"),
                 *underscored = json_object_get(config, "data_parallel_size");
    return (dashed && !json_is_null(dashed)) || (underscored && !json_is_null(underscored));
}

static int worker_add_vllm(const struct recipe *r, const struct launch_target *target,
                           const struct worker_slot *slot, struct recipe_launch *l, struct problem *p)
{
    static const char *const managed[] = {"connector", "headless",  "host",        "port",
                                          "nnodes",    "node-rank", "master-addr", NULL},
                             *const headless[] = {"connector",   "headless",         "host",
                                                  "port",        "nnodes",           "node-rank",
                                                  "master-addr", "api-server-count", NULL},
                             *const dropped[] = {"connector", NULL};
    const struct recipe_phase *phase = &r->phases[target->mode];
    bool direct = streq(r->frontend, "vllm");

    if (worker_has_data_parallel(phase->config) && !direct)
        return launch_refuse_command(
            r, target, "with data-parallel-size is one of several that srtctl derives from its nodes", p);
    if (direct) {
        launch_add_option(l, "vllm", "serve");
        launch_add(l, "%s", worker_model(r));
        if (target->rank == 0) {
            launch_add_option(l, "--host", "0.0.0.0");
            launch_add_option(l, "--port", "8000");
        }
    } else {
        launch_add_option(l, "python3", "-m");
        launch_add(l, "dynamo.vllm");
        launch_add_option(l, "--model", "%s", worker_model(r));
        launch_add_option(l, "--served-model-name", "%s", worker_served_name(r));
        if (target->mode != RECIPE_AGGREGATED)
            launch_add_option(l, "--disaggregation-mode", "%s", recipe_mode_name(target->mode));
        worker_add_connector(r, target, l);
        worker_add_devices(r, slot, l);
    }
    if (slot->n_nodes > 1) {
        launch_add(l, "--master-addr");
        launch_add_expanding(l, "${LEADER_IP}");
        worker_add_ranks(target, slot, l);
        if (target->rank > 0)
            launch_add(l, "--headless");
    }
    if (direct) {
        worker_add_devices(r, slot, l);
    } else {
        launch_add_option(l, "--request-plane", "%s", worker_request_plane(r));
        worker_add_config_dump(target, l);
        worker_add_kv_events(r, target, slot, true, l);
    }
    _cleanup_json_ config = phase->config ? json_copy((json_t *)phase->config) : json_object();
    if (direct && !worker_flag(config, "served-model-name", "served_model_name"))
        json_put_str(config, "served-model-name", worker_served_name(r));
    if (r->type == RECIPE_NSYS) {
        _cleanup_(freep) char *window =
            xasprintf(RECIPE_VLLM_WINDOW, phase->start_step, phase->stop_step - phase->start_step);
        json_put_str(config, "profiler-config", window);
    }
    launch_add_flags(l, config, !direct ? dropped : target->rank > 0 ? headless : managed);
    return 0;
}

/* -- Its environment ---------------------------------------------------------------------------------- */

static char *worker_fill_value(const struct launch_target *target, const struct worker_slot *slot,
                               const char *value, bool *ret_expands)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    *ret_expands = false;
    while (*value) {
        if (starts_with(value, "{node}")) {
            fputs(target->node ? target->node : "${SLURMD_NODENAME}", out);
            *ret_expands = *ret_expands || !target->node;
            value += strlen("{node}");
        } else if (starts_with(value, "{node_id}")) {
            fprintf(out, "%" PRId64, slot->first_node + target->rank);
            value += strlen("{node_id}");
        } else {
            putc(*value++, out);
        }
    }
    fclose(out);
    return text;
}

static void worker_set_profiling(const struct recipe *r, const struct launch_target *target,
                                 struct recipe_launch *l)
{
    const struct recipe_phase *phase = &r->phases[target->mode];
    const char *mode = recipe_mode_short_name(target->mode);
    static const char *const keys[_RECIPE_MODE_MAX] = {"PREFILL", "DECODE", "AGG"};

    launch_set(l, "PROFILING_MODE", "%s", mode);
    launch_set(l, "PROFILE_TYPE", "%s", recipe_type_name(r->type));
    if (r->type == RECIPE_NSYS_TIME) {
        launch_set(l, "PROFILE_BENCHMARK_DURATION_SECS", "%" PRId64, r->benchmark_duration_secs);
        return;
    }
    _cleanup_(freep) char *start = xasprintf("PROFILE_%s_START_STEP", keys[target->mode]),
                          *stop = xasprintf("PROFILE_%s_STOP_STEP", keys[target->mode]);
    launch_set(l, start, "%" PRId64, phase->start_step);
    launch_set(l, stop, "%" PRId64, phase->stop_step);
    if (r->type == RECIPE_TORCH)
        launch_set(l, "SGLANG_TORCH_PROFILER_DIR", "/logs/profiles/%s", mode);
    else if (recipe_is_nsys(r))
        launch_set_steps(phase, l);
}

static int worker_set_variables(const struct recipe *r, const struct launch_target *target,
                                const struct worker_slot *slot, const json_t *variables, const char *where,
                                struct recipe_launch *l, struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)variables, name, value) {
        bool expands;
        if (launch_check_variable(r, where, name, p) < 0)
            return -EINVAL;
        const char *given = json_string_value(value);
        _cleanup_(freep) char *text = worker_fill_value(target, slot, given ? given : "", &expands);
        launch_set_value(l, name, text, expands);
    }
    return 0;
}

static void worker_set_system(const struct recipe *r, const struct worker_slot *slot, struct recipe_launch *l)
{
    const json_t *observability = json_object_get(r->root, "observability");

    if (streq(r->frontend, "dynamo")) {
        launch_set_value(l, "ETCD_ENDPOINTS", "http://${HEAD_NODE_IP}:2379", true);
        launch_set_value(l, "NATS_SERVER", "nats://${HEAD_NODE_IP}:4222", true);
        launch_set(l, "DYN_SYSTEM_PORT", "%" PRId64, SYSTEM_PORT + slot->process);
        launch_set(l, "DYN_REQUEST_PLANE", "%s", worker_request_plane(r));
    }
    if (json_get_bool(observability, "enabled", false)) {
        launch_set(l, "DYN_LOGGING_SPAN_EVENTS", "true");
        launch_set(l, "DYN_LOGGING_JSONL", "true");
        launch_set(l, "DYN_LOG", "debug");
    }
    if (streq(r->backend, "vllm") && streq(r->frontend, "dynamo")) {
        launch_set(l, "DYN_VLLM_KV_EVENT_PORT", "%" PRId64, KV_EVENTS_PORT + slot->process);
        launch_set(l, "VLLM_NIXL_SIDE_CHANNEL_PORT", "%" PRId64, NIXL_PORT + slot->process);
        launch_set(l, "VLLM_PORT", "%" PRId64, VLLM_PORT + slot->process * VLLM_PORT_STRIDE);
    }
    if (streq(r->backend, "sglang") && slot->n_gpus < r->gpus_per_node) {
        _cleanup_(freep) char *list = slot_gpus(slot, ',');
        launch_set(l, "CUDA_VISIBLE_DEVICES", "%s", list);
    }
}

/* -- The worker --------------------------------------------------------------------------------------- */

int worker_check_target(const struct recipe *r, const struct launch_target *target, struct problem *p)
{
    const struct worker_slot slot = slot_find(r, target);
    const struct recipe_phase *phase = &r->phases[target->mode];

    if (target->worker < MAX(phase->workers, (int64_t)1) && target->rank < slot.n_nodes)
        return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                "%s: there are %" PRId64 " %s workers, of %" PRId64 " nodes each", r->path, phase->workers,
                recipe_mode_name(target->mode), slot.n_nodes);
    problem_remedy(p, "--worker-index and --rank count from 0.");
    return -EINVAL;
}

char *worker_gpu_list(const struct recipe *r, const struct launch_target *target, char separator)
{
    const struct worker_slot slot = slot_find(r, target);
    return slot_gpus(&slot, separator);
}

int worker_set_environment(const struct recipe *r, const struct launch_target *target,
                           struct recipe_launch *l, struct problem *p)
{
    const struct worker_slot slot = slot_find(r, target);

    worker_set_system(r, &slot, l);
    if (worker_set_variables(r, target, &slot, r->phases[target->mode].environment, "backend", l, p) < 0 ||
        worker_set_variables(r, target, &slot, json_object_get(r->root, "environment"), "environment", l, p) <
            0)
        return -EINVAL;
    worker_set_profiling(r, target, l);
    return 0;
}

int worker_add_command(const struct recipe *r, const struct launch_target *target, struct recipe_launch *l,
                       struct problem *p)
{
    const struct worker_slot slot = slot_find(r, target);

    if (streq(r->backend, "sglang"))
        return worker_add_sglang(r, target, &slot, l);
    if (streq(r->backend, "vllm"))
        return worker_add_vllm(r, target, &slot, l, p);
    return launch_refuse_command(r, target, "is configured by a file that srtctl writes when it starts it",
                                 p);
}
