/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ray=URL of a Ray dashboard: the replicas of Ray Serve that use accelerators, Ray Serve LLM's among them.
 *
 * GET /api/serve/applications/ (ray-project/ray, python/ray/dashboard/modules/serve/serve_head.py @024282b0 and
 * python/ray/serve/schema.py, ServeInstanceDetails, 2.52 to 2.57): {"applications": {NAME: {"deployments": {NAME:
 * {"replicas": [...], "required_resources", "deployment_config"}}}}, "target_groups": [...]}. With token authentication
 * (2.52 and later; the default of later releases) it wants a bearer token: 401 without one, 403 with a wrong one
 * (python/ray/_private/authentication/http_token_authentication.py @39f042f7).
 *
 * A replica has a port of its own only with direct ingress (RAY_SERVE_ENABLE_DIRECT_INGRESS=1): a target of
 * target_groups then has the replica's actor_name (controller.py, _get_targets_for_protocol()); otherwise these are
 * Serve's proxies, which choose a replica for each request and are no workers. LLMServer has start_profile() on Ray's
 * handle only, no HTTP route (ray-project/ray#55920). So a replica without a port is listed, with the reason why it
 * cannot be recorded over HTTP, as ray://NODE/ACTOR; with port= each is taken to serve HTTP there.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "base/array.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/source.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <inttypes.h>

#define APPLICATIONS_PATH "/api/serve/applications/"
#define RUNNING           "RUNNING"
#define ID_MAX            128 /* of an actor: 32 hexadecimal digits */
/* Of deployments in a note. */
#define NAMES_TEXT_MAX 200

static const char no_route[] = "Ray Serve LLM has no HTTP route for its profiler";
static const char kineto_remedy[] =
    "Record its processes by Kineto's protocol, on their host: start Ray's nodes with KINETO_USE_DAEMON=1, "
    "then profctl "
    "start --kineto.\n"
    "If each replica serves vLLM's own HTTP API on a known port, name that: --port PORT, or port= in "
    "profd.conf.";

/* A server that Serve's load balancer may use. All borrowed from the answer. */
struct ray_target {
    const char *name, *ip;
    int port;
};

/* One answer while it is read. */
struct ray_answer {
    const struct source_config *config;
    struct ray_target *targets; /* of all groups, by name */
    size_t n_targets, cap_targets;
    struct fleet *fleet;
    size_t max;
    size_t n_starting, n_other;
    char other[NAMES_TEXT_MAX]; /* deployments without an accelerator */
};

static int ray_check_port(const char *port, const char **reason)
{
    *reason = "the number of a port";
    return port_parse(port) > 0 ? 0 : -EINVAL;
}

static int ray_check(const struct source_config *c, const char **reason)
{
    if (!source_is_url(c->value) || strchr(c->value, '?') || source_url_check(c->value, reason) < 0)
        *reason = "the URL of a Ray dashboard, http://HOST:8265";
    else
        return 0;
    return -EINVAL;
}

static int ray_request(const struct source_config *c, const char *next, struct source_request *ret,
                       char why[static SOURCE_WHY_MAX])
{
    size_t size = strlen(c->value);

    while (size > 0 && c->value[size - 1] == '/')
        size--;
    _cleanup_(freep) char *base = xstrndup(c->value, size);
    *ret = (struct source_request){
        /* A user may give the entire URL. */
        .url = ends_with(base, "/api/serve/applications") ? xasprintf("%s/", base)
                                                          : xasprintf("%s" APPLICATIONS_PATH, base),
        .token_file = c->ray_token_file,
        .ca_file = c->ray_ca_file,
        .keys = "ray_",
    };
    return 0;
}

static bool resources_have_accelerator(const json_t *resources)
{
    static const char *const names[] = {"GPU", "TPU", "NPU", "HPU", "neuron_cores"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (json_number_value(json_object_get(resources, names[i])) > 0)
            return true;
    return false;
}

/* Ray Serve LLM reserves them by placement groups, others by the replica's own resources. */
static bool deployment_has_accelerator(const json_t *deployment)
{
    const json_t *config = json_object_get(deployment, "deployment_config");
    const json_t *options = json_object_get(config, "ray_actor_options"), *bundle;
    size_t i;

    if (resources_have_accelerator(json_object_get(deployment, "required_resources")) ||
        resources_have_accelerator(json_object_get(options, "resources")) ||
        json_number_value(json_object_get(options, "num_gpus")) > 0)
        return true;
    json_array_foreach(json_object_get(config, "placement_group_bundles"), i, bundle)
        if (resources_have_accelerator(bundle))
            return true;
    return false;
}

/* "LLMServer:qwen", "DPServer:...", "PDDecodeServer:...", "Prefill:...": names by serve.llm's builders (python/ray/llm/
 * _internal/serve/core/server/builder.py), which serve on CPUs, too. */
static bool deployment_is_llm(const char *name)
{
    static const char *const kinds[] = {
        "LLMServer:",      "LLMDeployment:",     "VLLMDeployment:",   "DPServer:", "PDPrefillServer:",
        "PDDecodeServer:", "DPPDPrefillServer:", "DPPDDecodeServer:", "Prefill:",  "Decode:"};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (starts_with(name, kinds[i]))
            return true;
    return false;
}

static enum role deployment_role(const char *name)
{
    size_t size = strcspn(name, ":");
    _cleanup_(freep) char *kind = xstrndup(name, size);

    return strstr(kind, "Prefill") ? ROLE_PREFILL : strstr(kind, "Decode") ? ROLE_DECODE : ROLE_UNKNOWN;
}

static int compare_targets(const void *a, const void *b)
{
    const struct ray_target *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* There may be as many as replicas: they are sorted once and found by bisection. */
static void ray_read_targets(struct ray_answer *a, const json_t *groups)
{
    const json_t *group, *target;
    size_t i, k;

    json_array_foreach((json_t *)groups, i, group) {
        if (!streq(json_get_str(group, "protocol"), "HTTP"))
            continue;
        json_array_foreach(json_object_get(group, "targets"), k, target) {
            const char *name = json_get_str(target, "name"), *ip = json_get_str(target, "ip");
            int64_t port = json_get_int(target, "port", 0);
            if (!name || !ip || !*ip || port < 1 || port > UINT16_MAX)
                continue;
            VEC_GROW(a->targets, a->n_targets, a->cap_targets);
            a->targets[a->n_targets++] = (struct ray_target){name, ip, (int)port};
        }
    }
    if (a->n_targets > 0)
        qsort(a->targets, a->n_targets, sizeof(*a->targets), compare_targets);
}

/* HOST:PORT of a replica with direct ingress, to be freed; NULL. */
static char *ray_direct_address(const struct ray_answer *a, const char *actor_name)
{
    const struct ray_target key = {.name = actor_name};
    const struct ray_target *t =
        actor_name && a->n_targets > 0
            ? bsearch(&key, a->targets, a->n_targets, sizeof(*a->targets), compare_targets)
            : NULL;

    return t ? url_host_port(t->ip, t->port) : NULL;
}

static bool id_is_plain(const char *id)
{
    size_t size = strlen(id);
    return size > 0 && size <= ID_MAX &&
           strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == size;
}

/* A replica that HTTP does not reach. */
static int ray_add_process(struct ray_answer *a, const char *ip, const char *actor, struct worker **ret)
{
    /* Whether it is an address that a URL may have. */
    _cleanup_(freep) char *host = url_host_port(ip, 1);
    const char *reason;
    struct url u;

    *ret = NULL;
    if (a->fleet->n_workers >= a->max)
        return -E2BIG;
    if (url_parse(host, &u, &reason) < 0)
        return 0;
    *ret = fleet_add_worker(a->fleet);
    (*ret)->url = xasprintf("ray://%s/%s", u.host, actor);
    (*ret)->profilable = false;
    (*ret)->reason = xstrdup(no_route);
    (*ret)->remedy = xstrdup(kineto_remedy);
    return 0;
}

static int ray_add_replica(struct ray_answer *a, const json_t *replica, const char *application,
                           const char *name)
{
    const char *ip = json_get_str(replica, "node_ip"), *actor = json_get_str(replica, "actor_id");
    struct worker *w;

    if (!streq(json_get_str(replica, "state"), RUNNING) || !ip || !*ip || !actor || !id_is_plain(actor)) {
        a->n_starting++;
        return 0;
    }
    char *address = ray_direct_address(a, json_get_str(replica, "actor_name"));
    if (!address && a->config->port)
        address = url_host_port(ip, port_parse(a->config->port));
    int r =
        address ? source_add_worker(a->fleet, a->max, NULL, address, &w) : ray_add_process(a, ip, actor, &w);
    free(address);
    if (r < 0 || !w)
        return r;
    w->identity = xstrdup(actor);
    w->role = deployment_role(name);
    worker_add_note(w,
                    "a replica of %.100s in Ray Serve's application %.100s, process %" PRId64 " of its host",
                    name, application, json_get_int(replica, "pid", 0));
    return 0;
}

static int ray_add_deployment(struct ray_answer *a, const json_t *deployment, const char *application,
                              const char *name)
{
    const json_t *replicas = json_object_get(deployment, "replicas"), *replica;
    size_t i, used = strlen(a->other);

    if (!deployment_is_llm(name) && !deployment_has_accelerator(deployment)) {
        a->n_other += json_array_size(replicas);
        snprintf(a->other + used, sizeof(a->other) - used, "%s%s", used > 0 ? ", " : "", name);
        return 0;
    }
    json_array_foreach((json_t *)replicas, i, replica) {
        int r = ray_add_replica(a, replica, application, name);
        if (r < 0)
            return r;
    }
    return 0;
}

static int ray_add_applications(struct ray_answer *a, const json_t *applications)
{
    const char *application, *name;
    json_t *entry, *deployment;

    json_object_foreach((json_t *)applications, application, entry) {
        json_t *deployments = json_object_get(entry, "deployments");
        json_object_foreach(deployments, name, deployment) {
            int r = ray_add_deployment(a, deployment, application, name);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int ray_parse(const struct source_config *c, const char *data, size_t size, size_t max,
                     struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX])
{
    char error[200];
    _cleanup_json_ root = json_parse(data, size, error);
    const json_t *applications = json_object_get(root, "applications");
    struct ray_answer a = {.config = c, .fleet = f, .max = max};

    if (!json_is_object(applications)) {
        snprintf(why, SOURCE_WHY_MAX, "the answer to GET " APPLICATIONS_PATH " is %s",
                 root ? "JSON that is not Ray Serve's" : answer_kind(data, size));
        return -EPROTO;
    }
    ray_read_targets(&a, json_object_get(root, "target_groups"));
    int r = ray_add_applications(&a, applications);
    free(a.targets);
    if (r < 0)
        return r;
    if (a.n_starting > 0)
        fleet_add_note(f, "%zu replica%s", a.n_starting,
                       a.n_starting == 1 ? " is not running, or its address is unknown"
                                         : "s are not running, or their addresses are unknown");
    if (a.n_other > 0)
        fleet_add_note(f, "%zu replica%s without an accelerator %s left out: %s", a.n_other,
                       a.n_other == 1 ? "" : "s", a.n_other == 1 ? "is" : "are", a.other);
    return 0;
}

static const char *ray_remedy(const struct source_config *c, int err, int status)
{
    if (status == 401)
        return "The cluster wants a token: name a file with it by ray_token_file= in profd.conf (ray "
               "get-auth-token prints "
               "it).";
    if (status == 403)
        return "The token is not this cluster's: ray get-auth-token prints the right one.";
    if (status == 501)
        return "Ray's head node has no Ray Serve: pip install \"ray[serve]\".";
    if (err == -ENOENT)
        return "Workers that Ray runs outside of Ray Serve are found by their ports (--worker URL), or by "
               "Kineto's protocol "
               "(--kineto).";
    if (err == -ECONNREFUSED)
        return "Check the URL: Ray's dashboard listens on port 8265 of the head node, by default on its "
               "loopback only "
               "(ray start --dashboard-host=0.0.0.0).";
    return NULL;
}

const struct fleet_source source_ray = {
    .key = "ray",
    .check = ray_check,
    .check_port = ray_check_port,
    .request = ray_request,
    .parse = ray_parse,
    .remedy = ray_remedy,
};
