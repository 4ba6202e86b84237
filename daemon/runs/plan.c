/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/runs/plan.h"

#include "base/alloc.h"
#include "daemon/session/plan.h"
#include <errno.h>

/* -- Who it is about ---------------------------------------------------------------------------------- */

int run_choose(const struct fleet *fleet, const struct start_request *request, size_t **ret, size_t *ret_n,
               struct problem *p)
{
    size_t *chosen = xcalloc(MAX(fleet->n_workers, (size_t)1), sizeof(*chosen)), n = 0;

    for (size_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = &fleet->workers[i];
        if (!plan_is_asked_for(request, w) ||
            (w->health == HEALTH_UNHEALTHY && !request->include_unhealthy) ||
            (request->count > 0 && n == (size_t)request->count))
            continue;
        chosen[n++] = i;
    }
    *ret = chosen;
    *ret_n = n;
    if (n > 0)
        return 0;
    problem_set(p, -EINVAL, PROBLEM_NO_WORKERS,
                "none of the %zu workers of %s is one that was asked for and healthy", fleet->n_workers,
                fleet->router ? fleet->router : "the list");
    problem_remedy(p, "profctl list-workers shows their URLs, roles and health.");
    return -EINVAL;
}

/* -- Who is sent what --------------------------------------------------------------------------------- */

/* Of one that works by itself. */
static bool answers_alone(const struct worker *w)
{
    return w->role == ROLE_REGULAR || w->role == ROLE_UNKNOWN;
}

static void add_url(json_t *list, const char *url, enum engine engine)
{
    json_t *item = json_object();

    json_put_str(item, "url", url);
    if (engine != ENGINE_UNKNOWN)
        json_put_str(item, "engine", engine_name(engine));
    json_array_append_new(list, item);
}

static void add_worker(json_t *list, const struct worker *w)
{
    add_url(list, w->url, w->engine);
    if (w->local && w->pid > 0)
        json_put_int(json_array_get(list, json_array_size(list) - 1), "pid", w->pid);
}

/* What all of them run, ENGINE_UNKNOWN where they differ. */
static enum engine common_engine(const struct fleet *fleet)
{
    enum engine engine = fleet->n_workers > 0 ? fleet->workers[0].engine : ENGINE_UNKNOWN;

    for (size_t i = 1; i < fleet->n_workers; i++)
        if (fleet->workers[i].engine != engine)
            return ENGINE_UNKNOWN;
    return engine;
}

/*
 * Whoever answers alone is warmed up by himself. The others do their part of what is sent through the router:
 * it gets as much as if each of the larger group were asked.
 */
static void plan_warm_up(const struct fleet *fleet, struct run_plan *plan)
{
    size_t n_prefill = 0, n_decode = 0;

    for (size_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = &fleet->workers[i];
        n_prefill += w->role == ROLE_PREFILL;
        n_decode += w->role == ROLE_DECODE;
        if (answers_alone(w) && w->health != HEALTH_UNHEALTHY)
            add_worker(plan->warm, w);
    }
    for (size_t i = 0; i < MAX(n_prefill, n_decode) || json_array_size(plan->warm) == 0; i++)
        add_url(plan->warm, fleet->router, common_engine(fleet));
}

static int plan_workers(const struct fleet *fleet, const size_t *chosen, size_t n_chosen,
                        struct run_plan *plan, struct problem *p)
{
    for (size_t i = 0; i < n_chosen; i++) {
        const struct worker *w = &fleet->workers[chosen[i]];
        if (!answers_alone(w)) {
            problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED,
                        "%s is a %s worker, which answers no request by itself", w->url, role_name(w->role));
            problem_remedy(p, "Send through the fleet's router: --router URL, without --through workers.");
            return -EINVAL;
        }
        add_worker(plan->targets, w);
    }
    return 0;
}

int run_plan_make(const struct fleet *fleet, const struct start_request *request, const size_t *chosen,
                  size_t n_chosen, struct run_plan *ret, struct problem *p)
{
    bool by_router = request->through == LOAD_THROUGH_ANY ? fleet->router != NULL
                                                          : request->through == LOAD_THROUGH_ROUTER;
    struct run_plan plan = {.targets = json_array(), .warm = json_array(), .workers = json_array()};
    int r = 0;

    for (size_t i = 0; i < n_chosen; i++)
        add_worker(plan.workers, &fleet->workers[chosen[i]]);
    if (by_router && !fleet->router) {
        r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "there is no router to send requests through");
        problem_remedy(p, "Name one by --router URL, or leave --through out.");
    } else if (by_router) {
        add_url(plan.targets, fleet->router, common_engine(fleet));
        plan_warm_up(fleet, &plan);
    } else {
        r = plan_workers(fleet, chosen, n_chosen, &plan, p);
        json_array_extend(plan.warm, plan.targets);
    }
    plan.first = xstrdup(json_get_str(json_array_get(plan.targets, 0), "url"));
    if (r < 0)
        run_plan_done(&plan);
    else
        *ret = plan;
    return r;
}

void run_plan_done(struct run_plan *plan)
{
    json_decref(plan->targets);
    json_decref(plan->warm);
    json_decref(plan->workers);
    free(plan->first);
    *plan = (struct run_plan){0};
}
