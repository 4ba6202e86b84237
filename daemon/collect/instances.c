/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of which engine instance each trace of a worker is: by the same evidence as profctl's analysis, as far as
 * the catalog has it. What only the events of collectives tell is left to the analysis.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/collect/internal.h"
#include "trace/read/instance.h"
#include <errno.h>

/* Each is held against each. */
#define TRACES_MAX 256

struct instance_traces {
    int64_t *members; /* targets of the group */
    size_t n_members, cap_members;
    const char *group;
    int64_t *traces;
    struct instance_clues *clues; /* with texts of its own */
    size_t n, cap, cap_traces;
};

static void gathering_done(struct instance_traces *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free((char *)g->clues[i].worker);
        free((char *)g->clues[i].path);
        free((char *)g->clues[i].stage);
    }
    free(g->members);
    free(g->traces);
    free(g->clues);
}

static int add_member(const struct target_record *r, void *arg)
{
    struct instance_traces *g = arg;
    char error[200];
    _cleanup_json_ worker = r->worker ? json_parse(r->worker, strlen(r->worker), error) : NULL;
    const char *group = json_get_str(worker, "group");

    if (!group || !streq(group, g->group))
        return 0;
    VEC_GROW(g->members, g->n_members, g->cap_members);
    g->members[g->n_members++] = r->target_id;
    return 0;
}

static bool is_member(const struct instance_traces *g, int64_t target_id)
{
    for (size_t i = 0; i < g->n_members; i++)
        if (g->members[i] == target_id)
            return true;
    return false;
}

static int add_trace(const struct trace_record *r, void *arg)
{
    struct instance_traces *g = arg;

    if (r->kind != TRACE_KIND_TRACE || !is_member(g, r->target_id))
        return 0;
    if (g->n == TRACES_MAX)
        return -E2BIG;
    size_t n = g->n;
    VEC_GROW(g->traces, n, g->cap_traces);
    VEC_GROW(g->clues, g->n, g->cap);
    g->traces[g->n] = r->trace_id;
    g->clues[g->n++] = (struct instance_clues){.worker = r->worker_url ? xstrdup(r->worker_url) : NULL,
                                               .path = r->name ? xstrdup(r->name) : NULL,
                                               .stage = r->stage ? xstrdup(r->stage) : NULL,
                                               .group = g->group,
                                               .rank = r->rank,
                                               .world_size = r->world_size,
                                               .dp = r->dp,
                                               .from_ns = r->first_event_at,
                                               .to_ns = r->last_event_at};
    return 0;
}

static int note_instances(struct catalog *c, const struct instance_traces *g)
{
    _cleanup_(freep) size_t *numbers = xcalloc(g->n + 1, sizeof(*numbers));
    _cleanup_(freep) char(*names)[INSTANCE_NAME_MAX] = xcalloc(g->n + 1, sizeof(*names));
    int64_t n = instances_find(g->clues, g->n, NULL, NULL, numbers);
    int r = MIN((int)n, 0);

    if (n > 0)
        instances_name(g->clues, g->n, numbers, (size_t)n, names);
    for (size_t i = 0; i < g->n && r >= 0; i++)
        r = catalog_set_instance(c, g->traces[i], names[numbers[i]]);
    return r;
}

void target_find_instances(struct catalog *c, const struct target *t)
{
    _cleanup_(gathering_done) struct instance_traces g = {.group = t->worker.group};
    struct trace_filter filter = {.session_id = t->record.session_id,
                                  .worker_url = g.group ? NULL : t->worker.url,
                                  .since = RECORD_NONE,
                                  .until = RECORD_NONE,
                                  .before_id = RECORD_NONE,
                                  .limit = RECORD_NONE};
    int r = 0;

    VEC_GROW(g.members, g.n_members, g.cap_members);
    g.members[g.n_members++] = t->record.target_id;
    if (g.group)
        r = catalog_each_target(c, t->record.session_id, add_member, &g);
    if (r >= 0)
        r = catalog_each_trace(c, &filter, add_trace, &g);
    if (r >= 0)
        r = note_instances(c, &g);
    if (r < 0)
        log_warning("cannot note the engine instances of %s: %s", t->worker.url, strerror(-r));
}
