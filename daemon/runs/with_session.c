/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions ask of whoever sends their load (struct loader_ops). */
#include "daemon/runs/internal.h"

static struct run *run_of(struct runs *all, const struct session *s)
{
    return runs_find(all, s->run_id);
}

static int check(const struct start_request *request, const struct fleet *fleet, const size_t *chosen,
                 size_t n_chosen, void *loader, struct problem *p)
{
    return run_check(loader, request, fleet, chosen, n_chosen, p);
}

static int create(struct session *s, const struct fleet *fleet, const size_t *chosen, size_t n_chosen,
                  const char *actor, void *loader)
{
    int r;
    const struct run *run =
        run_create(loader, &s->request, fleet, chosen, n_chosen, actor, s->record.session_id, &r);

    if (run)
        s->run_id = run->record.run_id;
    return r;
}

static void forget(struct session *s, void *loader)
{
    struct run *run = run_of(loader, s);

    if (run)
        run_free(run);
}

static void warm_up(struct session *s, void *loader)
{
    struct run *run = run_of(loader, s);

    if (run)
        run_begin(run);
}

static void go(struct session *s, void *loader)
{
    struct run *run = run_of(loader, s);

    if (run && !run->is_over)
        run_go(run);
}

static void stop(struct session *s, void *loader)
{
    struct run *run = run_of(loader, s);

    if (!run)
        return;
    run->lasted = s->load_lasted;
    run_stop(run, "the end of its session");
}

const struct loader_ops runs_loader = {
    .check = check,
    .create = create,
    .forget = forget,
    .warm_up = warm_up,
    .go = go,
    .stop = stop,
};
