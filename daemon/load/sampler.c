/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/sampler.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/offload.h"
#include "base/process_info.h"
#include "daemon/load/gpu_memory.h"
#include "daemon/load/process_memory.h"
#include "daemon/load/series.h"
#include "daemon/load/timeline.h"

#include <errno.h>

#define INTERVAL_NS NS_PER_S
/* PSS is read again when this many times what it took has passed. */
#define PSS_PAUSE    20
#define TIMELINE_MAX 1024

struct worker_memory {
    char *url;
    pid_t pid;
    bool is_gone;
    struct series rss, pss;
    /* of the look that is under way */
    struct process_memory look;
    int look_result;
};

struct gpu_use {
    bool is_used;
    int64_t memory_total_bytes;
    struct series memory, utilisation, sm_clock, memory_clock;
    /* of the look that is under way */
    bool look_is_used;
    struct gpu_sample look;
};

/* The look belongs to the thread while it is under way, all else to the loop's always. */
struct sampler {
    struct event *timer;
    struct offload *offload;
    bool is_looking;
    uint64_t n_looks;
    struct worker_memory *workers;
    size_t n_workers;
    struct gpus *gpus;
    char gpus_reason[GPU_REASON_MAX];
    struct gpu_use gpu_uses[GPUS_MAX];
    struct moment timeline[TIMELINE_MAX];
    size_t n_timeline;
    uint64_t stride;     /* every so many looks one goes into the timeline */
    int64_t pss_next_ns; /* of the look */
};

static void look_at_worker(struct sampler *s, struct worker_memory *w, bool with_pss)
{
    pid_t pids[PROCESS_TREE_MAX];
    size_t n = process_tree(w->pid, pids, ARRAY_SIZE(pids));

    w->look_result = process_memory_read(pids, n, with_pss, &w->look);
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++)
        s->gpu_uses[i].look_is_used = s->gpu_uses[i].look_is_used || gpu_is_used_by(s->gpus, i, pids, n);
}

static void look(void *arg)
{
    struct sampler *s = arg;
    int64_t begun = mono_ns();
    bool with_pss = begun >= s->pss_next_ns;

    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].pid > 0)
            look_at_worker(s, &s->workers[i], with_pss);
    if (with_pss)
        s->pss_next_ns = begun + PSS_PAUSE * (mono_ns() - begun);
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++)
        gpu_read(s->gpus, i, &s->gpu_uses[i].look);
}

/* Every second one goes, and from then on only every second one comes. */
static void thin_out(struct sampler *s)
{
    for (size_t i = 0; i < TIMELINE_MAX / 2; i++)
        s->timeline[i] = s->timeline[2 * i];
    s->n_timeline = TIMELINE_MAX / 2;
    s->stride *= 2;
}

static void note_moment(struct sampler *s)
{
    struct moment m = {mono_ns(), -1, -1, -1};

    if (s->n_looks % s->stride != 0)
        return;
    if (s->n_timeline == TIMELINE_MAX)
        thin_out(s);
    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].rss.n > 0)
            m.rss_bytes = MAX(m.rss_bytes, 0) + s->workers[i].rss.end;
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++) {
        const struct gpu_use *g = &s->gpu_uses[i];
        if (g->memory.n > 0)
            m.gpu_bytes = MAX(m.gpu_bytes, 0) + g->memory.end;
        if (g->sm_clock.n > 0 && (m.sm_clock_mhz < 0 || g->sm_clock.end < m.sm_clock_mhz))
            m.sm_clock_mhz = g->sm_clock.end;
    }
    s->timeline[s->n_timeline++] = m;
}

static void add_look(struct sampler *s)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        struct worker_memory *w = &s->workers[i];
        if (w->pid == 0)
            continue;
        w->is_gone = w->look_result < 0;
        if (w->is_gone)
            continue;
        series_add(&w->rss, w->look.rss_bytes);
        series_add(&w->pss, w->look.pss_bytes);
    }
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++) {
        struct gpu_use *g = &s->gpu_uses[i];
        g->is_used = g->look_is_used;
        g->memory_total_bytes = g->look.memory_total_bytes;
        series_add(&g->memory, g->look.memory_bytes);
        series_add(&g->utilisation, g->look.utilisation_percent);
        series_add(&g->sm_clock, g->look.sm_clock_mhz);
        series_add(&g->memory_clock, g->look.memory_clock_mhz);
    }
    note_moment(s);
    s->n_looks++;
}

static void on_looked(void *arg)
{
    struct sampler *s = arg;

    s->is_looking = false;
    add_look(s);
}

static void on_second(evutil_socket_t fd, short events, void *arg)
{
    struct sampler *s = arg;

    if (s->is_looking)
        return;
    s->is_looking = true;
    offload_run(s->offload, look, on_looked, s);
}

int sampler_new(struct event_base *base, const struct sampler_target *targets, size_t n, struct sampler **ret)
{
    _cleanup_(sampler_freep) struct sampler *s = xcalloc(1, sizeof(*s));
    struct timeval interval = timeval_of(INTERVAL_NS);

    s->stride = 1;
    s->workers = xcalloc(n, sizeof(*s->workers));
    for (; s->n_workers < n; s->n_workers++)
        s->workers[s->n_workers] = (struct worker_memory){.url = xstrdup(targets[s->n_workers].url),
                                                          .pid = targets[s->n_workers].pid};
    gpus_open(GPU_LIBRARY, &s->gpus, s->gpus_reason);
    look(s);
    add_look(s);
    int r = offload_new(base, 1, &s->offload);
    if (r < 0)
        return r;
    s->timer = event_new(base, -1, EV_PERSIST, on_second, s);
    if (!s->timer || event_add(s->timer, &interval) < 0)
        return -ENOMEM;
    *ret = TAKE_PTR(s);
    return 0;
}

struct sampler *sampler_free(struct sampler *s)
{
    if (!s)
        return NULL;
    if (s->timer)
        event_free(s->timer);
    if (s->offload)
        offload_free(s->offload);
    for (size_t i = 0; i < s->n_workers; i++)
        free(s->workers[i].url);
    free(s->workers);
    gpus_close(s->gpus);
    free(s);
    return NULL;
}

static const char *reason_of(const struct worker_memory *w)
{
    if (w->pid == 0)
        return "the worker runs on another host";
    if (w->is_gone && w->rss.n == 0)
        return "the worker's process was gone";
    return w->pss.n == 0 ? "PSS may be read by the worker's own user or root only" : NULL;
}

static json_t *worker_json(const struct worker_memory *w)
{
    json_t *j = json_pack("{s: o, s: o, s: o}", "url", json_text(w->url), "rss_bytes", series_json(&w->rss),
                          "pss_bytes", series_json(&w->pss));

    if (w->pid > 0)
        json_put_int(j, "pid", w->pid);
    json_put_str(j, "reason", reason_of(w));
    return j;
}

static json_t *gpu_json(const struct sampler *s, size_t index)
{
    const struct gpu_use *g = &s->gpu_uses[index];

    return json_pack("{s: I, s: o, s: o, s: I, s: o, s: o, s: o}", "index", (json_int_t)index, "name",
                     json_text(gpu_name(s->gpus, index)), "memory_bytes", series_json(&g->memory),
                     "memory_total_bytes", (json_int_t)g->memory_total_bytes, "utilisation_percent",
                     series_json(&g->utilisation), "sm_clock_mhz", series_json(&g->sm_clock),
                     "memory_clock_mhz", series_json(&g->memory_clock));
}

static json_t *gpus_json(const struct sampler *s)
{
    bool any_used = false;

    if (!s->gpus)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < gpus_count(s->gpus); i++)
        any_used = any_used || s->gpu_uses[i].is_used;
    for (size_t i = 0; i < gpus_count(s->gpus); i++)
        if (s->gpu_uses[i].is_used || !any_used)
            json_array_append_new(list, gpu_json(s, i));
    return list;
}

/* The last look; without it where the one before hangs. */
static void look_once_more(struct sampler *s)
{
    event_del(s->timer);
    if (offload_drain(s->offload, mono_ns() + INTERVAL_NS) < 0)
        return;
    look(s);
    add_look(s);
}

json_t *sampler_result(struct sampler *s)
{
    look_once_more(s);
    json_t *workers = json_array();

    for (size_t i = 0; i < s->n_workers; i++)
        json_array_append_new(workers, worker_json(&s->workers[i]));
    json_t *j = json_pack("{s: I, s: o, s: o, s: o}", "samples", (json_int_t)s->n_looks, "workers", workers,
                          "gpus", gpus_json(s), "timeline", timeline_json(s->timeline, s->n_timeline));
    if (!s->gpus)
        json_put_str(j, "gpus_reason", s->gpus_reason);
    return j;
}
