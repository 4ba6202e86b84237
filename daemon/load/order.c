/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/order.h"

#include "base/alloc.h"
#include "daemon/fleet/url.h"
#include <errno.h>

/* A prompt is a value or two. */
#define VALUES_MAX (8 * WORKLOAD_PROMPTS_MAX)

static int take_worker(const json_t *v, struct order_worker *ret, struct problem *p)
{
    const char *text = json_get_str(v, "url"), *reason = "it is missing";
    struct url url;

    if (!text || url_parse(text, &url, &reason) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "url of a target: %s", reason);
    if (!url_is_http(&url))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "cannot load %.200s: it does not speak HTTP",
                           text);
    *ret = (struct order_worker){.url = url_format(&url),
                                 .engine = xstrdup(json_get_str(v, "engine")),
                                 .pid = (pid_t)json_get_int(v, "pid", 0)};
    return 0;
}

static int take_workers(const json_t *list, struct order_worker **ret, size_t *ret_n, struct problem *p)
{
    size_t n = json_array_size(list);
    int r = 0;

    if (n == 0 || n > ORDER_TARGETS_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "targets must be a list of 1 to 10000 workers");
    *ret = xcalloc(n, sizeof(**ret));
    for (; *ret_n < n && r == 0; ++*ret_n)
        r = take_worker(json_array_get(list, *ret_n), &(*ret)[*ret_n], p);
    return r;
}

static int take_policy(const json_t *network, struct network_policy *ret, struct problem *p)
{
    const char *allow = json_get_str(network, "allow");
    _cleanup_(freep) char *reason = NULL;

    if (network_add(ret, allow ? allow : NETWORK_DEFAULT, &reason) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "network: %s", reason);
    return 0;
}

static void take_credentials(const json_t *v, struct credentials *ret)
{
    *ret = (struct credentials){.token_file = xstrdup(json_get_str(v, "token_file")),
                                .ca_file = xstrdup(json_get_str(v, "ca_file")),
                                .cert_file = xstrdup(json_get_str(v, "cert_file")),
                                .key_file = xstrdup(json_get_str(v, "key_file"))};
}

static int take(const json_t *j, struct order *o, struct problem *p)
{
    const json_t *targets = json_object_get(j, "targets"), *warm = json_object_get(j, "warm"),
                 *watched = json_object_get(j, "workers");

    int r = workload_parse(json_object_get(j, "workload"), &o->workload, p);
    if (r == 0)
        r = take_workers(targets, &o->targets, &o->n_targets, p);
    if (r == 0)
        r = take_workers(warm ? warm : targets, &o->warm, &o->n_warm, p);
    if (r == 0)
        r = take_workers(watched ? watched : warm ? warm : targets, &o->watched, &o->n_watched, p);
    if (r == 0)
        r = take_policy(json_object_get(j, "network"), &o->policy, p);
    if (r == 0)
        take_credentials(json_object_get(j, "credentials"), &o->credentials);
    return r;
}

int order_parse(const char *text, size_t size, struct order *ret, struct problem *p)
{
    struct order o = {0};
    char error[200];

    _cleanup_json_ j = json_parse_bounded(text, size, VALUES_MAX, error);
    if (!json_is_object(j))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the order is no JSON object: %s",
                           j ? "it is another value" : error);
    int r = take(j, &o, p);
    if (r < 0)
        order_done(&o);
    else
        *ret = o;
    return r;
}

static void free_workers(struct order_worker *workers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(workers[i].url);
        free(workers[i].engine);
    }
    free(workers);
}

void order_done(struct order *o)
{
    workload_done(&o->workload);
    free_workers(o->targets, o->n_targets);
    free_workers(o->warm, o->n_warm);
    free_workers(o->watched, o->n_watched);
    network_done(&o->policy);
    credentials_done(&o->credentials);
    *o = (struct order){0};
}
