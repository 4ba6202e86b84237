/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/measuring.h"

#include "base/alloc.h"
#include "client/views/follow.h"
#include "client/views/run.h"
#include <errno.h>

/* Runs that are looked through for one of the same place. */
#define LOOK_BACK "/v1/runs?limit=50"

int run_plan_show(struct client *c, const json_t *request, bool dry_run, struct run_plan *plan)
{
    _cleanup_(problem_done) struct problem ignored = {0};
    _cleanup_json_ answer = NULL;

    if (plan->n < 2 && !dry_run)
        return EXIT_DONE;
    if (connection_call(c->connection, "GET", LOOK_BACK, NULL, NULL, &answer, &ignored) >= 0)
        run_plan_look_back(plan, json_object_get(answer, "runs"), request);
    if (dry_run && c->json) {
        _cleanup_json_ j = run_plan_json(plan);
        return client_print_json(c, j);
    }
    if (dry_run) {
        run_plan_print(plan, &c->out);
    } else {
        _cleanup_(freep) char *line = run_plan_line(plan);
        client_note(c, "%s", line);
    }
    return EXIT_DONE;
}

int run_begin(struct client *c, const struct source *source, const json_t *request, json_t **ret_answer)
{
    char ref[RUN_REF_MAX];
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ answer = NULL;
    _cleanup_(freep) char *name = source_name(source), *doing = xasprintf("finding the workers of %s", name);
    int r = connection_call(c->connection, "POST", "/v1/runs", request, doing, &answer, &p);

    if (r == -EINTR)
        problem_remedy(&p, "profctl list-runs shows whether it had begun.");
    if (r < 0)
        return client_fail(c, &p);
    if (!*run_ref(ref, answer)) {
        problem_set(&p, -EPROTO, PROBLEM_UPSTREAM, "profd at %s names no run in its answer",
                    connection_name(c->connection));
        return client_fail(c, &p);
    }
    _cleanup_(freep) char *load = run_load_text(json_object_get(request, "workload"));
    client_note(c, "Run %s on %s%s%s", ref, name, *load ? ": " : "", load);
    *ret_answer = TAKE_PTR(answer);
    return EXIT_DONE;
}

int run_measure(struct client *c, const struct source *source, const json_t *request, struct measured *ret)
{
    _cleanup_json_ answer = NULL;
    char ref[RUN_REF_MAX];
    int status = run_begin(c, source, request, &answer);

    *ret = (struct measured){0};
    if (status == EXIT_DONE)
        status = follow_run(c, run_ref(ref, answer), &c->err, INTERRUPT_STOPS, &ret->was_stopped, &ret->run);
    if (status != EXIT_DONE)
        return status;
    ret->was_left = !run_is_over(ret->run);
    if (ret->was_left)
        client_note(c, "%s goes on in profd\n  profctl show %s shows it, profctl stop %s stops it", ref, ref,
                    ref);
    return EXIT_DONE;
}
