/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/step.h"

#include <errno.h>

static const char *const phases[_STEP_PHASE_MAX] = {
    [PHASE_UNKNOWN] = "",    [PHASE_PREFILL] = "prefill",   [PHASE_DECODE] = "decode",
    [PHASE_MIXED] = "mixed", [PHASE_TRAINING] = "training",
};

const char *step_phase_name(enum step_phase phase)
{
    return phases[phase];
}

enum step_phase step_phase_find(const char *name)
{
    for (enum step_phase p = PHASE_PREFILL; p < _STEP_PHASE_MAX; p++)
        if (strcmp(phases[p], name) == 0)
            return p;
    return _STEP_PHASE_MAX;
}

static struct step *add(struct steps *steps)
{
    if (steps->n == steps->cap) {
        size_t cap = steps->cap ? steps->cap * 2 : 64;
        struct step *items = reallocarray(steps->items, cap, sizeof(*items));
        if (!items)
            return NULL;
        steps->items = items;
        steps->cap = cap;
    }
    return &steps->items[steps->n++];
}

/* ProfilerStep#N of torch.profiler. */
static bool is_profiler_step(struct text name, int64_t *ret_index)
{
    static const char prefix[] = "ProfilerStep#";
    size_t n = sizeof(prefix) - 1;

    if (name.size <= n || memcmp(name.p, prefix, n) != 0)
        return false;
    int64_t index = 0;
    for (size_t i = n; i < name.size; i++) {
        if (name.p[i] < '0' || name.p[i] > '9' || i - n > 15)
            return false;
        index = index * 10 + (name.p[i] - '0');
    }
    *ret_index = index;
    return true;
}

static int compare(const void *x, const void *y)
{
    const struct step *a = x, *b = y;

    return (a->ts > b->ts) - (a->ts < b->ts);
}

int steps_read(const struct columns *c, struct steps *ret)
{
    *ret = (struct steps){0};
    for (uint64_t group = 0; group < columns_rows(c, TABLE_name); group++) {
        int64_t name = columns_get(c, COL_name_name, group), index;
        struct text category = columns_text(c, columns_get(c, COL_name_category, group));
        if (!is_profiler_step(columns_text(c, name), &index) ||
            (category.size == 19 && memcmp(category.p, "gpu_user_annotation", 19) == 0))
            continue;
        int64_t first = columns_get(c, COL_name_first, group), count = columns_get(c, COL_name_count, group);
        for (int64_t i = 0; i < count; i++) {
            int64_t slice = columns_get(c, COL_by_name_slice, (uint64_t)(first + i));
            if (slice == COLUMN_NULL)
                continue;
            int64_t ts = columns_get(c, COL_slice_ts, (uint64_t)slice),
                    dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
            struct step *step = ts == COLUMN_NULL || dur < 0 ? NULL : add(ret);
            if (step)
                *step = (struct step){index, name, PHASE_UNKNOWN, ts, ts + dur, COLUMN_NULL, COLUMN_NULL};
        }
    }
    qsort(ret->items, ret->n, sizeof(struct step), compare);
    return 0;
}

void steps_done(struct steps *steps)
{
    free(steps->items);
    *steps = (struct steps){0};
}
