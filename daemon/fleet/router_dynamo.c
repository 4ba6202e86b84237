/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frontend of NVIDIA Dynamo, which lists its workers in two ways. Neither the frontend nor a router of Dynamo
 * passes a start of a profiler on: a worker has an HTTP server for that, its system status server (DYN_SYSTEM_PORT).
 *
 * GET /v1/rl/workers (of a frontend with DYN_ENABLE_RL) asks each worker that has an endpoint "rl" for the URL of its
 * system status server: {"protocol_version": 1, "namespace", "workers": [{"component", "instance_id", "system_url"?,
 * "model"?, "routes", "error"?}]}. "routes" has the routes for training only and never those of the profiler, so
 * that nothing follows from it (ai-dynamo/dynamo lib/rl/src/lib.rs and components/src/dynamo/common/rl/admin.py, read
 * at wxsms/dynamo 5bc908ad4fe1 and 494898425a82).
 *
 * GET /health lists the instances of all endpoints of all components: {"status", "endpoints", "instances":
 * [{"component", "endpoint", "namespace", "instance_id", "transport"}]}, where transport is {"tcp": "HOST:PORT/..."},
 * {"http": "http://HOST:PORT/..."} or {"nats_tcp": SUBJECT}. That is the address of the requests, which is not HTTP:
 * only its host is of use, and a NATS subject has none (lib/llm/src/http/service/health.rs, lib/runtime/src/component.rs
 * and lib/runtime/src/component/endpoint.rs, read at wxsms/dynamo 09b26bf6b39d, 06b0ebef88c7 and 02a22cbcf356).
 */
#include "base/alloc.h"
#include "base/array.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <inttypes.h>

#define NAME_TEXT_MAX     100
#define ERROR_TEXT_MAX    160
#define NOTES_OF_KIND_MAX 3
/* Endpoints of one worker: generate, clear_kv_blocks, rl, load_lora, ... */
#define ENDPOINTS_PER_WORKER_MAX 64

/* Default names of the components of workers: components/src/dynamo/{vllm,sglang,trtllm}/args.py. "backend" and
 * "tensorrt_llm" are workers for decode and workers for both. */
static const struct {
    const char *component;
    enum role role;
} component_roles[] = {
    {"prefill", ROLE_PREFILL}, {"decode", ROLE_DECODE},  {"decoder", ROLE_DECODE},
    {"encode", ROLE_ENCODE},   {"encoder", ROLE_ENCODE}, {"tensorrt_llm_encode", ROLE_ENCODE},
};

/* Components without an engine: components/src/dynamo/{router,planner}. */
static const char *const no_workers[] = {"router", "planner", "Planner"};

static enum role dynamo_role(const char *component)
{
    for (size_t i = 0; i < ARRAY_SIZE(component_roles); i++)
        if (streq(component, component_roles[i].component))
            return component_roles[i].role;
    return ROLE_UNKNOWN;
}

static bool dynamo_is_worker(const char *component)
{
    for (size_t i = 0; i < ARRAY_SIZE(no_workers); i++)
        if (streq(component, no_workers[i]))
            return false;
    return true;
}

/* "dynamo.prefill instance 7587893013432" */
static char *entry_name(const json_t *entry, char name[static NAME_TEXT_MAX])
{
    const char *space = json_get_str(entry, "namespace"), *component = json_get_str(entry, "component");
    _cleanup_(freep) char *text =
        xasprintf("%s.%s instance %" PRId64, space ? space : "?", component ? component : "?",
                  json_get_int(entry, "instance_id", 0));

    return excerpt(text, strlen(text), name, NAME_TEXT_MAX);
}

/* -- /v1/rl/workers -- */

static bool dynamo_rl_recognise(const json_t *root)
{
    return json_is_integer(json_object_get(root, "protocol_version")) && router_list_of(root, "workers");
}

/* Why an entry of the list is not a worker that can be called; NULL: it is one. The caller frees it. */
static char *dynamo_rl_take(struct fleet *f, const json_t *entry)
{
    const char *url = json_get_str(entry, "system_url"), *error = json_get_str(entry, "error"),
               *model = json_get_str(entry, "model"), *reason;
    char text[ERROR_TEXT_MAX];
    struct worker *w;

    if (error)
        return xasprintf("it did not answer the frontend: %s",
                         excerpt(error, strlen(error), text, sizeof(text)));
    if (!url)
        return xstrdup("it has no system status server; start it with DYN_SYSTEM_PORT set");
    if (fleet_add_url(f, url, &w, &reason) < 0)
        return xasprintf("\"%s\" cannot be called: %s", excerpt(url, strlen(url), text, sizeof(text)),
                         reason);
    w->role = dynamo_role(json_get_str(entry, "component"));
    if (model && model[0])
        replace_str(&w->model, model);
    return NULL;
}

static int dynamo_rl_read(const json_t *root, const struct router_bounds *b, struct fleet *f,
                          char why[static ROUTER_WHY_MAX])
{
    const json_t *workers = router_list_of(root, "workers");
    size_t i, n_left_out = 0;
    char name[NAME_TEXT_MAX];
    json_t *entry;

    if (json_array_size(workers) > b->workers_max)
        return -E2BIG;
    json_array_foreach(workers, i, entry) {
        _cleanup_(freep) char *reason = dynamo_rl_take(f, entry);
        if (reason && n_left_out++ < NOTES_OF_KIND_MAX)
            fleet_add_note_of(f, NOTE_WARNING, "the Dynamo worker %s is ignored: %s", entry_name(entry, name),
                              reason);
    }
    if (n_left_out > NOTES_OF_KIND_MAX)
        fleet_add_note(f, "%zu more Dynamo workers are ignored", n_left_out - NOTES_OF_KIND_MAX);
    if (f->n_workers == 0) {
        snprintf(why, ROUTER_WHY_MAX, "a list without workers that can be called%s%s",
                 f->n_notes > 0 ? ": " : "", f->n_notes > 0 ? f->notes[0].text : "");
        return -EPROTO;
    }
    fleet_add_note(f,
                   "the frontend lists only workers that run with --enable-rl; --dialect dynamo lists all");
    return 0;
}

const struct router_dialect router_dynamo_rl = {
    .name = "dynamo-rl",
    .path = "/v1/rl/workers",
    .recognise = dynamo_rl_recognise,
    .read = dynamo_rl_read,
    .asks_workers = true,
};

/* -- /health -- */

/* An instance of an endpoint. Text is borrowed from the answer. */
struct dynamo_instance {
    const char *space, *component;
    int64_t id;
    char *host; /* as in a URL */
};

struct dynamo_instances {
    struct dynamo_instance *items;
    size_t n, cap;
    size_t n_hostless; /* without a host, of these n_nats with a NATS subject */
    size_t n_nats;
};

static void dynamo_instances_done(struct dynamo_instances *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i].host);
    free(list->items);
}

/* By host, then by worker. */
static int compare_dynamo_instances(const void *a, const void *b)
{
    const struct dynamo_instance *x = a, *y = b;
    int r = strcmp(x->host, y->host);

    if (r == 0)
        r = (x->id > y->id) - (x->id < y->id);
    if (r == 0)
        r = strcmp(x->space, y->space);
    return r != 0 ? r : strcmp(x->component, y->component);
}

/* The host of HOST:PORT/... and of http://HOST:PORT/...; NULL where there is none. The caller frees it. */
static char *transport_host(const json_t *transport)
{
    static const char *const keys[] = {"tcp", "http"};
    const char *text = NULL, *reason;
    struct url u;

    for (size_t i = 0; i < ARRAY_SIZE(keys) && !text; i++)
        text = json_get_str(transport, keys[i]);
    return text && url_parse(text, &u, &reason) == 0 ? xstrdup(u.host) : NULL;
}

static void dynamo_instances_add(struct dynamo_instances *list, const json_t *entry)
{
    const char *space = json_get_str(entry, "namespace"), *component = json_get_str(entry, "component");

    if (!space || !component || !dynamo_is_worker(component))
        return;
    const json_t *transport = json_object_get(entry, "transport");
    char *host = transport_host(transport);
    if (!host) {
        list->n_hostless++;
        list->n_nats += json_get_str(transport, "nats_tcp") != NULL;
        return;
    }
    VEC_GROW(list->items, list->n, list->cap);
    list->items[list->n++] =
        (struct dynamo_instance){space, component, json_get_int(entry, "instance_id", 0), host};
}

/* How many workers run on the host of items[0] to items[n - 1]. */
static size_t count_workers(const struct dynamo_instance *items, size_t n)
{
    size_t workers = 1;

    for (size_t i = 1; i < n; i++)
        workers += items[i].id != items[i - 1].id || !streq(items[i].space, items[i - 1].space);
    return workers;
}

/* The role that all of these instances have; unknown where they differ. */
static enum role common_role(const struct dynamo_instance *items, size_t n)
{
    enum role role = dynamo_role(items[0].component);

    for (size_t i = 1; i < n; i++)
        if (dynamo_role(items[i].component) != role)
            return ROLE_UNKNOWN;
    return role;
}

static void dynamo_add_host(struct fleet *f, const struct dynamo_instance *items, size_t n, int port)
{
    _cleanup_(freep) char *url = xasprintf("http://%s:%d", items[0].host, port);
    const char *reason;
    struct worker *w;

    if (fleet_add_url(f, url, &w, &reason) < 0)
        fleet_add_note_of(f, NOTE_WARNING, "the Dynamo worker on %s is ignored: %s", items[0].host, reason);
    else
        w->role = common_role(items, n);
}

/* Several workers of a host have several system status servers, and the list does not say which is at which port. */
static void dynamo_note_shared_hosts(struct fleet *f, size_t n_hosts, size_t n_workers, const char *example,
                                     int port)
{
    if (n_hosts > 0)
        fleet_add_note(
            f,
            "%zu Dynamo workers run on %zu host%s (%s), one of each at port %d: name the others by --worker "
            "http://HOST:PORT, with the DYN_SYSTEM_PORT of each",
            n_workers, n_hosts, n_hosts == 1 ? "" : "s", example, port);
}

static bool dynamo_recognise(const json_t *root)
{
    return router_list_of(root, "instances") && router_list_of(root, "endpoints");
}

/* The result where no instance has a host, or the port is missing. */
static int dynamo_explain_missing(const struct dynamo_instances *list, char why[static ROUTER_WHY_MAX])
{
    if (list->n == 0 && list->n_hostless > 0) {
        snprintf(why, ROUTER_WHY_MAX, "Dynamo's frontend names no host of its workers%s",
                 list->n_nats > 0 ? ", because they take requests over NATS" : "");
        return -EADDRNOTAVAIL;
    }
    snprintf(
        why, ROUTER_WHY_MAX,
        "Dynamo's frontend lists the hosts of its workers, and not the port of their system status servers");
    return -EDESTADDRREQ;
}

static int dynamo_read(const json_t *root, const struct router_bounds *b, struct fleet *f,
                       char why[static ROUTER_WHY_MAX])
{
    _cleanup_(dynamo_instances_done) struct dynamo_instances list = {0};
    const json_t *instances = router_list_of(root, "instances");
    size_t i, end, n_shared = 0, n_on_shared = 0;
    const char *example = NULL;
    json_t *entry;

    if (json_array_size(instances) / ENDPOINTS_PER_WORKER_MAX > b->workers_max)
        return -E2BIG;
    json_array_foreach(instances, i, entry)
        dynamo_instances_add(&list, entry);
    if ((list.n == 0 && list.n_hostless > 0) || (list.n > 0 && b->system_port == 0))
        return dynamo_explain_missing(&list, why);
    if (list.n > 0)
        qsort(list.items, list.n, sizeof(*list.items), compare_dynamo_instances);
    for (i = 0; i < list.n; i = end) {
        for (end = i + 1; end < list.n && streq(list.items[end].host, list.items[i].host); end++)
            ;
        if (f->n_workers == b->workers_max)
            return -E2BIG;
        dynamo_add_host(f, &list.items[i], end - i, b->system_port);
        size_t here = count_workers(&list.items[i], end - i);
        if (here == 1)
            continue;
        n_shared++;
        n_on_shared += here;
        example = list.items[i].host;
    }
    dynamo_note_shared_hosts(f, n_shared, n_on_shared, example, b->system_port);
    if (list.n_hostless > 0)
        fleet_add_note(f, "%zu entr%s no host", list.n_hostless,
                       list.n_hostless == 1 ? "y of the list is ignored: it names"
                                            : "ies of the list are ignored: they name");
    return 0;
}

const struct router_dialect router_dynamo = {
    .name = "dynamo",
    .path = "/health",
    .recognise = dynamo_recognise,
    .read = dynamo_read,
};
