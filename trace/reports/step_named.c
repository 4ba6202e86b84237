/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that an engine, a framework or a profiler named. */
#include "trace/reports/name_rows.h"
#include "trace/reports/step_find.h"

#include <errno.h>

static bool is_of_gpu(const struct columns *c, int64_t category)
{
    static const char prefix[] = "gpu_";
    struct text text = columns_text(c, category);

    return text.size >= sizeof(prefix) - 1 && memcmp(text.p, prefix, sizeof(prefix) - 1) == 0;
}

static int add_instances(const struct columns *c, uint64_t group, const struct step_name *name,
                         struct steps *ret)
{
    struct name_rows places = name_rows_of(c, group);

    for (uint64_t i = places.first; i < places.end; i++) {
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

static int compare(const void *x, const void *y)
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
        qsort(steps->items, steps->n, sizeof(*steps->items), compare);
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
