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

struct seat {
    int64_t n_nodes;           /* of the worker */
    int64_t first_node;        /* in the job's order, from 0 */
    int64_t process;           /* of all processes, from 0 */
    int64_t http_port;         /* 0: not its first node */
    int64_t bootstrap_port;    /* 0: no prefill worker */
    int64_t first_gpu, n_gpus; /* on each node */
};

struct walk {
    int64_t node, gpu, process;
    int64_t on_node, prefills_on_node; /* workers that begin on the current one */
};

static void next_node(struct walk *w, int64_t n)
{
    w->node += n;
    w->gpu = w->on_node = w->prefills_on_node = 0;
}

/* Workers are seated in the order prefill, decode, aggregated; small ones share nodes, but not with others of
 * another role while there are more nodes. */
static struct seat find_seat(const struct recipe *r, const struct launch_place *place)
{
    const json_t *resources = json_object_get(r->root, "resources");
    bool spread = json_get_bool(resources, "spread_workers", false);
    struct walk w = {0};
    struct seat seat = {.n_nodes = 1};

    for (int m = 0; m <= (int)place->mode; m++) {
        const struct recipe_phase *phase = &r->phases[m];
        int64_t gpus = MAX(phase->gpus, (int64_t)1),
                nodes = MAX((gpus + r->gpus_per_node - 1) / r->gpus_per_node, (int64_t)1);
        bool whole = gpus >= r->gpus_per_node;
        if (m == RECIPE_DECODE && w.gpu > 0 && phase->nodes > 0)
            next_node(&w, 1);
        for (int64_t i = 0; i < phase->workers; i++) {
            if (!whole && w.gpu + gpus > r->gpus_per_node)
                next_node(&w, 1);
            seat = (struct seat){
                .n_nodes = whole ? nodes : 1,
                .first_node = w.node,
                .process = w.process + place->rank,
                .http_port = place->rank == 0 ? HTTP_PORT + w.on_node * HTTP_PORT_STRIDE : 0,
                .bootstrap_port = m == RECIPE_PREFILL ? BOOTSTRAP_PORT + w.prefills_on_node : 0,
                .first_gpu = whole ? 0 : w.gpu,
                .n_gpus = whole ? r->gpus_per_node : gpus,
            };
            if (m == (int)place->mode && i == place->worker)
                return seat;
            w.process += seat.n_nodes;
            w.on_node++;
            w.prefills_on_node += m == RECIPE_PREFILL;
            w.gpu += gpus;
            if (whole || spread || w.gpu >= r->gpus_per_node)
                next_node(&w, seat.n_nodes);
        }
    }
    return seat;
}

/* -- Words -------------------------------------------------------------------------------------------- */

static void put_text(struct launch *l, const char *option, const char *value)
{
    launch_put(l, xstrdup(option), false);
    launch_put(l, xstrdup(value), false);
}

static void put_number(struct launch *l, const char *option, int64_t n)
{
    launch_put(l, xstrdup(option), false);
    launch_put(l, xasprintf("%" PRId64, n), false);
}

static const json_t *backend_of(const struct recipe *r)
{
    return json_object_get(r->root, "backend");
}

static const char *flag_of(const json_t *config, const char *dashed, const char *underscored)
{
    const char *text = json_get_str(config, dashed);
    return text ? text : json_get_str(config, underscored);
}

static const char *served_name(const struct recipe *r)
{
    static const enum recipe_mode order[] = {RECIPE_PREFILL, RECIPE_AGGREGATED, RECIPE_DECODE};
    const char *path = r->model_path ? r->model_path : "model";

    for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
        const char *name = flag_of(r->phases[order[i]].config, "served-model-name", "served_model_name");
        if (name)
            return name;
    }
    if (starts_with(path, "hf:"))
        path += 3;
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Local models are mounted there. */
static const char *model_argument(const struct recipe *r)
{
    return r->model_path && starts_with(r->model_path, "hf:") ? r->model_path + 3 : "/model";
}

static const char *request_plane(const struct recipe *r)
{
    const char *plane = json_get_str(json_object_get(r->root, "dynamo"), "request_plane");
    return plane ? plane : "tcp";
}

static void put_ranks(const struct launch_place *place, const struct seat *seat, struct launch *l)
{
    put_number(l, "--nnodes", seat->n_nodes);
    put_number(l, "--node-rank", place->rank);
}

static void put_config_dump(const struct launch_place *place, struct launch *l)
{
    launch_put(l, xstrdup("--dump-config-to"), false);
    launch_put(l, xasprintf("/logs/%s_config.json", place->node ? place->node : "${SLURMD_NODENAME}"),
               place->node == NULL);
}

/* As Python's json.dumps() has it. */
static void put_kv_events(const struct recipe *r, const struct launch_place *place, const struct seat *seat,
                          bool vllm, struct launch *l)
{
    const json_t *all = json_object_get(backend_of(r), "kv_events_config"),
                 *own = json_object_get(all, recipe_mode_name(place->mode));
    bool on = json_is_true(all) ? place->mode != RECIPE_AGGREGATED : json_is_true(own) || json_is_object(own);
    const char *key;
    json_t *value;

    if (!on)
        return;
    _cleanup_json_ config = json_pack("{s: s, s: s}", "publisher", "zmq", "topic", "kv-events");
    _cleanup_(freep) char *endpoint = xasprintf("tcp://*:%" PRId64, KV_EVENTS_PORT + seat->process);
    if (vllm)
        json_put_bool(config, "enable_kv_cache_events", true);
    json_object_foreach((json_t *)own, key, value)
        json_object_set(config, key, value);
    json_put_str(config, "endpoint", endpoint);
    launch_put(l, xstrdup("--kv-events-config"), false);
    launch_put(l, json_dumps(config, 0), false);
}

/* -- SGLang ------------------------------------------------------------------------------------------- */

static int put_sglang(const struct recipe *r, const struct launch_place *place, const struct seat *seat,
                      struct launch *l, struct problem *p)
{
    static const char *const dropped[] = {"model-path", "served-model-name", "nccl-port", NULL};
    bool alone = streq(r->frontend, "sglang");

    put_text(l, "python3", "-m");
    launch_put(l, xstrdup(alone ? "sglang.launch_server" : "dynamo.sglang"), false);
    put_text(l, "--model-path", model_argument(r));
    put_text(l, "--served-model-name", served_name(r));
    put_text(l, "--host", "0.0.0.0");
    put_number(l, "--port", seat->http_port);
    put_number(l, "--nccl-port", NCCL_PORT + seat->process);
    if (place->mode != RECIPE_AGGREGATED)
        put_text(l, "--disaggregation-mode", recipe_mode_name(place->mode));
    if (place->mode == RECIPE_PREFILL)
        put_number(l, "--disaggregation-bootstrap-port", seat->bootstrap_port);
    if (seat->n_nodes > 1) {
        launch_put(l, xstrdup("--dist-init-addr"), false);
        launch_put(l, xasprintf("${LEADER_IP}:%d", DIST_INIT_PORT), true);
        put_ranks(place, seat, l);
    }
    if (!alone)
        put_config_dump(place, l);
    put_kv_events(r, place, seat, false, l);
    if (!alone)
        put_text(l, "--request-plane", request_plane(r));
    launch_put_flags(l, r->phases[place->mode].config, dropped);
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

static void put_connector(const struct recipe *r, const struct launch_place *place, struct launch *l)
{
    const json_t *config = r->phases[place->mode].config, *all = json_object_get(backend_of(r), "connector");
    const char *name = json_get_str(config, "connector");

    if (!name)
        name = all ? json_string_value(all) : "nixl";
    if (!name || !*name || streq(name, "null") || streq(name, "none"))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(connectors); i++)
        if (strcasecmp(name, connectors[i].name) == 0)
            name = connectors[i].config;
    put_text(l, "--kv-transfer-config", name);
}

static void put_devices(const struct recipe *r, const struct seat *seat, struct launch *l)
{
    char *list = NULL;
    size_t size;
    FILE *out = xmemstream(&list, &size);

    for (int64_t i = 0; i < seat->n_gpus; i++)
        fprintf(out, "%s%" PRId64, i > 0 ? "," : "", seat->first_gpu + i);
    fclose(out);
    if (json_get_bool(backend_of(r), "set_cuda_visible_devices", false)) {
        free(list);
        return;
    }
    launch_put(l, xstrdup("--device-ids"), false);
    launch_put(l, list, false);
}

static bool has_data_parallel(const json_t *config)
{
    const json_t *dashed = json_object_get(config, "data-parallel-size"),
                 *underscored = json_object_get(config, "data_parallel_size");
    return (dashed && !json_is_null(dashed)) || (underscored && !json_is_null(underscored));
}

static int put_vllm(const struct recipe *r, const struct launch_place *place, const struct seat *seat,
                    struct launch *l, struct problem *p)
{
    static const char *const managed[] = {"connector", "headless",  "host",        "port",
                                          "nnodes",    "node-rank", "master-addr", NULL},
                             *const headless[] = {"connector",   "headless",         "host",
                                                  "port",        "nnodes",           "node-rank",
                                                  "master-addr", "api-server-count", NULL},
                             *const dropped[] = {"connector", NULL};
    const struct recipe_phase *phase = &r->phases[place->mode];
    bool direct = streq(r->frontend, "vllm");

    if (has_data_parallel(phase->config) && !direct) {
        problem_set(
            p, -EINVAL, PROBLEM_BAD_REQUEST,
            "%s: data-parallel-size is set: srtctl derives the processes of such a worker from its nodes",
            r->path);
        problem_remedy(p, "Give the command after --, as srtctl logs it when it starts the worker.");
        return -EINVAL;
    }
    if (direct)
        put_text(l, "vllm", "serve");
    else
        put_text(l, "python3", "-m");
    if (direct) {
        launch_put(l, xstrdup(model_argument(r)), false);
        if (place->rank == 0) {
            put_text(l, "--host", "0.0.0.0");
            put_number(l, "--port", 8000);
        }
    } else {
        launch_put(l, xstrdup("dynamo.vllm"), false);
        put_text(l, "--model", model_argument(r));
        put_text(l, "--served-model-name", served_name(r));
        if (place->mode != RECIPE_AGGREGATED)
            put_text(l, "--disaggregation-mode", recipe_mode_name(place->mode));
        put_connector(r, place, l);
        put_devices(r, seat, l);
    }
    if (seat->n_nodes > 1) {
        launch_put(l, xstrdup("--master-addr"), false);
        launch_put(l, xstrdup("${LEADER_IP}"), true);
        put_ranks(place, seat, l);
        if (place->rank > 0)
            launch_put(l, xstrdup("--headless"), false);
    }
    if (direct)
        put_devices(r, seat, l);
    if (!direct) {
        put_text(l, "--request-plane", request_plane(r));
        put_config_dump(place, l);
        put_kv_events(r, place, seat, true, l);
    }
    _cleanup_json_ config = phase->config ? json_copy((json_t *)phase->config) : json_object();
    if (direct && !flag_of(config, "served-model-name", "served_model_name"))
        json_put_str(config, "served-model-name", served_name(r));
    if (r->type == RECIPE_NSYS) {
        _cleanup_(freep) char *window = xasprintf("{\"profiler\": \"cuda\", \"delay_iterations\": %" PRId64
                                                  ", \"max_iterations\": %" PRId64 "}",
                                                  phase->start_step, phase->stop_step - phase->start_step);
        json_put_str(config, "profiler-config", window);
    }
    launch_put_flags(l, config, !direct ? dropped : place->rank > 0 ? headless : managed);
    return 0;
}

/* -- Its environment ---------------------------------------------------------------------------------- */

static char *with_placeholders(const struct launch_place *place, const struct seat *seat, const char *value,
                               bool *ret_expands)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    *ret_expands = false;
    while (*value) {
        if (starts_with(value, "{node}")) {
            fputs(place->node ? place->node : "${SLURMD_NODENAME}", out);
            *ret_expands = *ret_expands || !place->node;
            value += strlen("{node}");
        } else if (starts_with(value, "{node_id}")) {
            fprintf(out, "%" PRId64, seat->first_node + place->rank);
            value += strlen("{node_id}");
        } else {
            putc(*value++, out);
        }
    }
    fclose(out);
    return text;
}

static void put_profiling_variables(const struct recipe *r, const struct launch_place *place,
                                    struct launch *l)
{
    const struct recipe_phase *phase = &r->phases[place->mode];
    const char *mode = place->mode == RECIPE_AGGREGATED ? "agg" : recipe_mode_name(place->mode);
    static const char *const keys[_RECIPE_MODE_MAX] = {"PREFILL", "DECODE", "AGG"};

    launch_put_variable(l, "PROFILING_MODE", xstrdup(mode), false);
    launch_put_variable(l, "PROFILE_TYPE", xstrdup(recipe_type_name(r->type)), false);
    if (r->type == RECIPE_NSYS_TIME) {
        launch_put_variable(l, "PROFILE_BENCHMARK_DURATION_SECS",
                            xasprintf("%" PRId64, r->benchmark_duration_secs), false);
        return;
    }
    _cleanup_(freep) char *start = xasprintf("PROFILE_%s_START_STEP", keys[place->mode]),
                          *stop = xasprintf("PROFILE_%s_STOP_STEP", keys[place->mode]);
    launch_put_variable(l, start, xasprintf("%" PRId64, phase->start_step), false);
    launch_put_variable(l, stop, xasprintf("%" PRId64, phase->stop_step), false);
    if (r->type == RECIPE_TORCH)
        launch_put_variable(l, "SGLANG_TORCH_PROFILER_DIR", xasprintf("/logs/profiles/%s", mode), false);
    else if (recipe_is_nsys(r)) {
        launch_put_variable(l, "TLLM_PROFILE_START_STOP",
                            xasprintf("%" PRId64 "-%" PRId64, phase->start_step, phase->stop_step), false);
        launch_put_variable(l, "TLLM_LLMAPI_ENABLE_NVTX", xstrdup("1"), false);
    }
}

static int put_variables(const struct recipe *r, const struct launch_place *place, const struct seat *seat,
                         const json_t *variables, const char *where, struct launch *l, struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)variables, name, value) {
        bool expands;
        if (launch_check_variable(r, where, name, p) < 0)
            return -EINVAL;
        char *text = with_placeholders(place, seat, json_string_value(value) ? json_string_value(value) : "",
                                       &expands);
        launch_put_variable(l, name, text, expands);
    }
    return 0;
}

static void put_system_variables(const struct recipe *r, const struct seat *seat, struct launch *l)
{
    const json_t *observability = json_object_get(r->root, "observability");

    if (streq(r->frontend, "dynamo")) {
        launch_put_variable(l, "ETCD_ENDPOINTS", xstrdup("http://${HEAD_NODE_IP}:2379"), true);
        launch_put_variable(l, "NATS_SERVER", xstrdup("nats://${HEAD_NODE_IP}:4222"), true);
        launch_put_variable(l, "DYN_SYSTEM_PORT", xasprintf("%" PRId64, SYSTEM_PORT + seat->process), false);
        launch_put_variable(l, "DYN_REQUEST_PLANE", xstrdup(request_plane(r)), false);
    }
    if (json_get_bool(observability, "enabled", false)) {
        launch_put_variable(l, "DYN_LOGGING_SPAN_EVENTS", xstrdup("true"), false);
        launch_put_variable(l, "DYN_LOGGING_JSONL", xstrdup("true"), false);
        launch_put_variable(l, "DYN_LOG", xstrdup("debug"), false);
    }
    if (streq(r->backend, "vllm") && streq(r->frontend, "dynamo")) {
        launch_put_variable(l, "DYN_VLLM_KV_EVENT_PORT",
                            xasprintf("%" PRId64, KV_EVENTS_PORT + seat->process), false);
        launch_put_variable(l, "VLLM_NIXL_SIDE_CHANNEL_PORT",
                            xasprintf("%" PRId64, NIXL_PORT + seat->process), false);
        launch_put_variable(l, "VLLM_PORT",
                            xasprintf("%" PRId64, VLLM_PORT + seat->process * VLLM_PORT_STRIDE), false);
    }
    if (streq(r->backend, "sglang") && seat->n_gpus < r->gpus_per_node) {
        char *list = xstrdup("");
        for (int64_t i = 0; i < seat->n_gpus; i++) {
            _cleanup_(freep) char *before = list;
            list = xasprintf("%s%s%" PRId64, before, i > 0 ? "," : "", seat->first_gpu + i);
        }
        launch_put_variable(l, "CUDA_VISIBLE_DEVICES", list, false);
    }
}

/* -- The worker --------------------------------------------------------------------------------------- */

static const struct {
    const char *backend;
    int (*put)(const struct recipe *r, const struct launch_place *place, const struct seat *seat,
               struct launch *l, struct problem *p);
} builders[] = {
    {"sglang", put_sglang},
    {"vllm", put_vllm},
};

int worker_check_place(const struct recipe *r, const struct launch_place *place, struct problem *p)
{
    const struct seat seat = find_seat(r, place);
    const struct recipe_phase *phase = &r->phases[place->mode];

    if (place->worker < MAX(phase->workers, (int64_t)1) && place->rank < seat.n_nodes)
        return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                "%s: there are %" PRId64 " %s workers, of %" PRId64 " nodes each", r->path, phase->workers,
                recipe_mode_name(place->mode), seat.n_nodes);
    problem_remedy(p, "--worker-index and --rank count from 0.");
    return -EINVAL;
}

void worker_gpus(const struct recipe *r, const struct launch_place *place, int64_t *ret_first, int64_t *ret_n)
{
    const struct seat seat = find_seat(r, place);

    *ret_first = seat.first_gpu;
    *ret_n = seat.n_gpus;
}

int worker_put_environment(const struct recipe *r, const struct launch_place *place, struct launch *l,
                           struct problem *p)
{
    const struct seat seat = find_seat(r, place);

    put_system_variables(r, &seat, l);
    if (put_variables(r, place, &seat, r->phases[place->mode].environment, "backend", l, p) < 0 ||
        put_variables(r, place, &seat, json_object_get(r->root, "environment"), "environment", l, p) < 0)
        return -EINVAL;
    put_profiling_variables(r, place, l);
    return 0;
}

int worker_put_command(const struct recipe *r, const struct launch_place *place, struct launch *l,
                       struct problem *p)
{
    const struct seat seat = find_seat(r, place);

    for (size_t i = 0; i < ARRAY_SIZE(builders); i++)
        if (streq(builders[i].backend, r->backend))
            return builders[i].put(r, place, &seat, l, p);
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                "%s: the configuration of a worker of %s is a file that srtctl writes when it starts it",
                r->path, r->backend);
    problem_remedy(
        p, "Give its command after --: profctl nsys-command --recipe %s --mode %s -- trtllm-serve ...",
        r->path, recipe_mode_name(place->mode));
    return -EINVAL;
}
