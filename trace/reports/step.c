/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/step.h"

#include "base/array.h"
#include "trace/columns/column_cursor.h"
#include "trace/reports/host.h"
#include "trace/reports/search.h"
#include <errno.h>
#include <fnmatch.h>

/* -- Step ------------------------------------------------------------------------------------------------ */

/* The phase is within the first NAME_LOOK_MAX bytes of a kernel's name. */
#define NAME_LOOK_MAX 1024

struct step *steps_add(struct steps *steps)
{
    if (!ARRAY_RESERVE(steps->items, steps->cap, steps->n + 1))
        return NULL;
    steps->items[steps->n] = (struct step){.index = COLUMN_NULL,
                                           .name = COLUMN_NULL,
                                           .tokens = COLUMN_NULL,
                                           .requests = COLUMN_NULL,
                                           .host_ts = COLUMN_NULL,
                                           .host_end = COLUMN_NULL};
    return &steps->items[steps->n++];
}

/* -- Whose work is whose ------------------------------------------------------------------------------ */

/* The step whose annotation was open then. */
static uint32_t step_find_host(const struct steps *steps, int64_t at)
{
    size_t position = FIRST_THAT(i, 0, steps->n, steps->items[i].host_end > at);

    return position < steps->n && steps->items[position].host_ts <= at ? (uint32_t)position : STEP_NONE;
}

/* Work belongs to the step in which the host launched it. */
static void own_by_launch(const struct columns *c, const struct gpu_work *work, struct steps *steps)
{
    struct column_cursor starts = {.c = c, .column = COL_slice_ts};

    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t at =
            gpu_event_launch(e) == SLICE_NONE ? COLUMN_NULL : column_cursor_get(&starts, gpu_event_launch(e));
        if (at != COLUMN_NULL)
            steps->owners[i] = step_find_host(steps, at);
    }
}

/* Where annotations are of the GPU, work belongs to that in which it begins. */
static void own_by_time(const struct gpu_work *work, struct steps *steps)
{
    for (size_t i = 0; i < work->n; i++)
        steps->owners[i] = step_find_host(steps, work->events[i].ts);
}

/* -- Times -------------------------------------------------------------------------------------------- */

struct stream_sum {
    int64_t device, stream, sum;
};

static int compare_streams(const void *x, const void *y)
{
    const struct stream_sum *a = x, *b = y;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

/* The stream that is busiest with the steps' work. */
static int find_busiest(const struct gpu_work *work, const struct steps *steps, struct stream_sum *ret)
{
    _cleanup_(freep) struct stream_sum *sums = calloc(work->n + 1, sizeof(*sums));
    size_t n = 0;

    *ret = (struct stream_sum){.sum = -1};
    if (!sums)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        if (steps->owners[i] == STEP_NONE)
            continue;
        if (n > 0 && sums[n - 1].device == e->device && sums[n - 1].stream == e->stream)
            sums[n - 1].sum += e->end - e->ts;
        else
            sums[n++] = (struct stream_sum){e->device, e->stream, e->end - e->ts};
    }
    qsort(sums, n, sizeof(*sums), compare_streams);
    for (size_t i = 0, first = 0; i < n; i++) {
        if (compare_streams(&sums[first], &sums[i]) != 0)
            first = i;
        else if (i > first)
            sums[first].sum += sums[i].sum;
        if (sums[first].sum > ret->sum)
            *ret = sums[first];
    }
    return 0;
}

/* Of a step on the busiest stream; INT64_MIN where it has nothing there. */
struct core {
    int64_t ts, end;
};

static int step_measure(const struct gpu_work *work, struct steps *steps, struct core *cores)
{
    struct stream_sum busiest;
    int r = find_busiest(work, steps, &busiest);

    for (size_t i = 0; i < steps->n; i++)
        cores[i] = (struct core){INT64_MIN, INT64_MIN};
    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        if (steps->owners[i] == STEP_NONE)
            continue;
        struct step *s = &steps->items[steps->owners[i]];
        struct core *core = &cores[steps->owners[i]];
        s->ts = s->n_events == 0 ? e->ts : s->ts;
        s->end = s->n_events == 0 ? e->end : MAX(s->end, e->end);
        s->n_events++;
        if (e->device == busiest.device && e->stream == busiest.stream) {
            core->ts = core->ts == INT64_MIN ? e->ts : core->ts;
            core->end = MAX(core->end, e->end);
        }
    }
    return r;
}

/* Other streams may work ahead of a step (the next batch's copies) and after it: a step begins when the one
 * before has left the busiest stream at the earliest, and ends when the next one begins at the latest. One
 * without work, among others that have some, has no time. */
static void step_part(struct steps *steps, const struct core *cores)
{
    size_t with_work = 0;

    for (size_t i = 0; i < steps->n; i++)
        with_work += steps->items[i].n_events > 0;
    for (size_t i = 0; i < steps->n; i++) {
        struct step *s = &steps->items[i], *last = i > 0 ? &steps->items[i - 1] : NULL;
        if (with_work == 0) {
            s->ts = s->host_ts;
            s->end = s->host_end;
        } else if (s->n_events == 0) {
            s->ts = s->end = last ? last->end : s->host_ts;
        }
        if (!last)
            continue;
        if (s->n_events > 0 && cores[i].ts != INT64_MIN)
            s->ts = MAX(s->ts, MIN(cores[i - 1].end, cores[i].ts));
        s->ts = MAX(s->ts, last->ts);
        s->end = MAX(s->end, s->ts);
        last->end = MIN(last->end, s->ts);
    }
}

/* -- Numbers and phases ------------------------------------------------------------------------------- */

/* Names that a profiler numbers keep their numbers, where each has another. */
static void step_number(struct steps *steps)
{
    bool numbered = true;

    for (size_t i = 0; i < steps->n; i++)
        numbered &= steps->items[i].index != COLUMN_NULL &&
                    (i == 0 || steps->items[i].index > steps->items[i - 1].index);
    for (size_t i = 0; i < steps->n && !numbered; i++)
        steps->items[i].index = (int64_t)i;
}

static bool is_training(const struct columns *c)
{
    static const char *const patterns[] = {"Optimizer.step#*", "autograd::engine::evaluate_function*"};
    char name[64];

    for (uint64_t group = 0; group < columns_rows(c, TABLE_name); group++) {
        struct text text = columns_text(c, columns_get(c, COL_name_name, group));
        snprintf(name, sizeof(name), "%.*s", (int)MIN(text.size, sizeof(name) - 1), text.p ? text.p : "");
        for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
            if (fnmatch(patterns[i], name, 0) == 0)
                return true;
    }
    return false;
}

/* Phase by the names of attention kernels; kernels that serve both are not listed. */
static const struct {
    const char *glob;
    enum step_phase phase;
} kernel_phases[] = {
    {"*prefill*", PHASE_PREFILL},          {"*_context_attention*", PHASE_PREFILL},
    {"*extend_attention*", PHASE_PREFILL}, {"*decode*", PHASE_DECODE},
    {"*paged_attention*", PHASE_DECODE},   {"*pa_fwd*", PHASE_DECODE},
};

static enum step_phase phase_of_kernel(const struct columns *c, int64_t name)
{
    struct text text = columns_text(c, name);
    char clean[NAME_LOOK_MAX];

    snprintf(clean, sizeof(clean), "%.*s", (int)MIN(text.size, sizeof(clean) - 1), text.p ? text.p : "");
    for (size_t i = 0; i < ARRAY_SIZE(kernel_phases); i++)
        if (fnmatch(kernel_phases[i].glob, clean, FNM_CASEFOLD) == 0)
            return kernel_phases[i].phase;
    return PHASE_UNKNOWN;
}

static int infer_phases(const struct columns *c, const struct gpu_work *work, struct steps *steps)
{
    uint32_t n_texts = columns_texts(c);
    /* Of each text: 0 where it was not looked at, else its phase + 1. */
    _cleanup_(freep) uint8_t *known = calloc((size_t)n_texts + 1, sizeof(*known));
    _cleanup_(freep) unsigned *seen = calloc(steps->n + 1, sizeof(*seen));

    if (!known || !seen)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        bool is_attention = e->class == CLASS_ATTENTION || e->class == CLASS_KV_CACHE;
        if (steps->owners[i] == STEP_NONE || !is_attention || e->name >= n_texts)
            continue;
        if (!known[e->name])
            known[e->name] = (uint8_t)(phase_of_kernel(c, e->name) + 1);
        seen[steps->owners[i]] |= 1u << (known[e->name] - 1);
    }
    for (size_t i = 0; i < steps->n; i++) {
        bool prefill = seen[i] >> PHASE_PREFILL & 1, decode = seen[i] >> PHASE_DECODE & 1;
        if (steps->items[i].phase == PHASE_UNKNOWN)
            steps->items[i].phase = prefill && decode ? PHASE_MIXED
                                    : prefill         ? PHASE_PREFILL
                                    : decode          ? PHASE_DECODE
                                                      : PHASE_UNKNOWN;
    }
    return 0;
}

/* What the names leave open. */
static int complete_phases(const struct columns *c, const struct gpu_work *work, struct steps *steps)
{
    bool open = false;

    for (size_t i = 0; i < steps->n; i++)
        open |= steps->items[i].phase == PHASE_UNKNOWN;
    if (!open)
        return 0;
    if (!is_training(c))
        return infer_phases(c, work, steps);
    for (size_t i = 0; i < steps->n; i++)
        if (steps->items[i].phase == PHASE_UNKNOWN)
            steps->items[i].phase = PHASE_TRAINING;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- */

static int step_find(const struct columns *c, const struct gpu_work *work, struct steps *ret)
{
    int r = steps_find_named(c, false, ret);

    if (r >= 0 && ret->n > 0) {
        own_by_launch(c, work, ret);
        return r;
    }
    if (r >= 0)
        r = steps_find_named(c, true, ret);
    if (r >= 0 && ret->n > 0)
        own_by_time(work, ret);
    else if (r >= 0)
        r = steps_find_recurring(c, work, ret);
    return r;
}

int steps_read(const struct columns *c, const struct gpu_work *work, struct steps *ret)
{
    *ret = (struct steps){.source = _STEP_SOURCE_MAX, .owners = malloc((work->n + 1) * sizeof(*ret->owners))};
    if (!ret->owners)
        return -ENOMEM;
    memset(ret->owners, 0xff, (work->n + 1) * sizeof(*ret->owners)); /* STEP_NONE */
    int r = step_find(c, work, ret);
    _cleanup_(freep) struct core *cores = r < 0 ? NULL : calloc(ret->n + 1, sizeof(*cores));
    if (r >= 0)
        r = cores ? step_measure(work, ret, cores) : -ENOMEM;
    if (r >= 0) {
        step_part(ret, cores);
        step_number(ret);
        r = complete_phases(c, work, ret);
    }
    if (r < 0)
        steps_done(ret);
    return r;
}

void steps_done(struct steps *steps)
{
    free(steps->items);
    free(steps->owners);
    *steps = (struct steps){0};
}

/* -- Step named ------------------------------------------------------------------------------------------ */

/* Steps that an engine, a framework or a profiler named. */

static bool is_of_gpu(const struct columns *c, int64_t category)
{
    static const char prefix[] = "gpu_";
    struct text text = columns_text(c, category);

    return text.size >= sizeof(prefix) - 1 && memcmp(text.p, prefix, sizeof(prefix) - 1) == 0;
}

static int add_instances(const struct columns *c, uint64_t group, const struct step_name *name,
                         struct steps *ret)
{
    struct name_rows positions = name_rows_of(c, group);

    for (uint64_t i = positions.first; i < positions.end; i++) {
        int64_t slice = columns_get(c, COL_by_name_slice, i), end;
        if (slice == COLUMN_NULL)
            continue;
        int64_t ts = columns_get(c, COL_slice_ts, (uint64_t)slice),
                dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        if (ts == COLUMN_NULL || dur < 0 || __builtin_add_overflow(ts, dur, &end))
            continue;
        struct step *step = steps_add(ret);
        if (!step)
            return -ENOMEM;
        step->index = name->index;
        step->name = columns_get(c, COL_name_name, group);
        step->phase = name->phase;
        step->tokens = name->tokens;
        step->requests = name->requests;
        step->host_ts = ts;
        step->host_end = end;
    }
    return 0;
}

static int step_named_compare(const void *x, const void *y)
{
    const struct step *a = x, *b = y;

    if (a->host_ts != b->host_ts)
        return a->host_ts < b->host_ts ? -1 : 1;
    return (a->host_end < b->host_end) - (a->host_end > b->host_end);
}

/* What begins while another one is open is a part of it. */
static void drop_nested(struct steps *steps)
{
    size_t kept = 0;

    if (steps->n > 0)
        qsort(steps->items, steps->n, sizeof(*steps->items), step_named_compare);
    for (size_t i = 0; i < steps->n; i++)
        if (kept == 0 || steps->items[i].host_ts >= steps->items[kept - 1].host_end)
            steps->items[kept++] = steps->items[i];
    steps->n = kept;
}

int steps_find_named(const struct columns *c, bool on_gpu, struct steps *ret)
{
    struct step_name name;
    uint64_t n = columns_rows(c, TABLE_name);
    int r = 0;

    ret->source = _STEP_SOURCE_MAX;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t group = 0; group < n && r >= 0; group++) {
            if (!step_name_parse(columns_text(c, columns_get(c, COL_name_name, group)), &name) ||
                is_of_gpu(c, columns_get(c, COL_name_category, group)) != on_gpu)
                continue;
            if (pass == 0)
                ret->source = MIN(ret->source, name.source);
            else if (name.source == ret->source)
                r = add_instances(c, group, &name, ret);
        }
    drop_nested(ret);
    return r;
}
