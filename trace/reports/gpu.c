/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/gpu.h"

#include "base/array.h"
#include "trace/columns/schema.h"
#include "trace/reports/hta.h"
#include <errno.h>

/* -- Stream set ------------------------------------------------------------------------------------------ */

static bool stream_set_is_same(const void *owner, size_t number, const void *thing)
{
    const struct stream_set *set = owner;
    const struct gpu_stream *a = &set->items[number], *b = thing;

    return a->device == b->device && a->id == b->id;
}

int64_t stream_set_number(struct stream_set *set, int64_t device, int64_t id)
{
    struct gpu_stream stream = {device, id};

    /* Work comes in bursts of one stream. */
    if (set->last < set->n && stream_set_is_same(set, set->last, &stream))
        return (int64_t)set->last;
    if (!ARRAY_RESERVE(set->items, set->cap, set->n + 1))
        return -ENOMEM;
    int64_t number = hash_table_number(&set->numbers, hash_words((uint64_t)device, (uint64_t)id),
                                       stream_set_is_same, set, &stream);
    if (number == (int64_t)set->n)
        set->items[set->n++] = stream;
    if (number >= 0)
        set->last = (size_t)number;
    return number;
}

void stream_set_done(struct stream_set *set)
{
    free(set->items);
    hash_table_done(&set->numbers);
    *set = (struct stream_set){0};
}

/* -- Gpu ------------------------------------------------------------------------------------------------- */

/* What a name means, found once for each text of the trace. */
struct meaning {
    bool known;
    enum gpu_kind kind;
    enum kernel_class class;
    enum collective_kind collective;
};

struct loader {
    const struct columns *c;
    const struct kernel_patterns *patterns;
    bool by_hta;
    struct meaning *meanings; /* by number of text */
    uint32_t n_texts;
};

static enum gpu_kind gpu_kind_of(enum kernel_class class)
{
    return class == CLASS_MEMORY          ? GPU_MEMORY
           : class == CLASS_COMMUNICATION ? GPU_COMMUNICATION
                                          : GPU_COMPUTE;
}

static struct meaning gpu_meaning_of(const struct loader *l, int64_t name, bool is_transfer)
{
    struct text text = columns_text(l->c, name);
    struct meaning m = {
        .known = true,
        .class = is_transfer ? CLASS_MEMORY : kernel_class_of(l->patterns, text.p, text.size),
    };

    m.kind = l->by_hta ? hta_kind(text) : gpu_kind_of(m.class);
    m.collective = m.kind == GPU_COMMUNICATION ? collective_kind_of(text) : COLLECTIVE_OTHER;
    return m;
}

static struct meaning find_meaning(const struct loader *l, int64_t name, bool is_transfer)
{
    if (name < 0 || name >= l->n_texts)
        return gpu_meaning_of(l, name, is_transfer);
    struct meaning *m = &l->meanings[name];
    if (!m->known)
        *m = gpu_meaning_of(l, name, is_transfer);
    return *m;
}

/* Of a text that is a category: what was asked last is asked again. */
struct category_known {
    int64_t category;
    bool is_work, is_transfer;
};

static void classify_category(const struct columns *c, int64_t category, struct category_known *known)
{
    if (category == known->category)
        return;
    struct text text = columns_text(c, category);
    known->category = category;
    known->is_work = category != COLUMN_NULL && category_is_gpu_work(text.p, text.size);
    known->is_transfer =
        known->is_work && memmem(text.p, text.size, "em", 2); /* Memcpy, gpu_memset; no kernel */
}

/* So that no difference of two stamps overflows; COLUMN_NULL is none. */
static bool is_possible(int64_t ts, int64_t dur)
{
    return ts >= -GPU_TIME_MAX && ts <= GPU_TIME_MAX && dur >= 0 && dur <= GPU_TIME_MAX - ts;
}

struct gpu_event *gpu_work_add(struct gpu_work *work)
{
    if (!ARRAY_RESERVE(work->events, work->cap, work->n + 1))
        return NULL;
    return &work->events[work->n++];
}

static int gpu_read_events(const struct loader *l, struct gpu_work *ret)
{
    const struct columns *c = l->c;
    struct category_known known = {.category = COLUMN_NULL};
    int64_t slices[BLOCK_ROWS], streams[BLOCK_ROWS], devices[BLOCK_ROWS], correlations[BLOCK_ROWS];

    for (uint64_t first = 0, rows = columns_rows(c, TABLE_gpu); first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_gpu_slice, first, BLOCK_ROWS, slices);
        columns_block(c, COL_gpu_stream, first, BLOCK_ROWS, streams);
        columns_block(c, COL_gpu_device, first, BLOCK_ROWS, devices);
        columns_block(c, COL_gpu_correlation, first, BLOCK_ROWS, correlations);
        for (size_t i = 0; i < n; i++) {
            if (slices[i] == COLUMN_NULL)
                continue;
            uint64_t slice = (uint64_t)slices[i];
            classify_category(c, columns_get(c, COL_slice_category, slice), &known);
            int64_t ts = columns_get(c, COL_slice_ts, slice), dur = columns_get(c, COL_slice_dur, slice);
            if (!(l->by_hta ? hta_is_gpu(known.category, streams[i]) : known.is_work) ||
                !is_possible(ts, dur))
                continue;
            struct gpu_event *e = gpu_work_add(ret);
            if (!e)
                return -ENOMEM;
            int64_t name = columns_get(c, COL_slice_name, slice);
            struct meaning m = find_meaning(l, name, known.is_transfer);
            *e = (struct gpu_event){.ts = ts,
                                    .end = ts + dur,
                                    .slice = slice,
                                    .row = first + i,
                                    .launch = SLICE_NONE,
                                    .name = name,
                                    .stream = streams[i],
                                    .device = devices[i],
                                    .correlation = correlations[i],
                                    .kind = m.kind,
                                    .class = m.class,
                                    .collective = m.collective};
        }
    }
    return 0;
}

static int gpu_compare(const void *x, const void *y)
{
    const struct gpu_event *a = x, *b = y;

    return a->ts != b->ts ? (a->ts > b->ts) - (a->ts < b->ts) : (a->slice > b->slice) - (a->slice < b->slice);
}

static bool gpu_is_ordered(const struct gpu_work *work)
{
    for (size_t i = 1; i < work->n; i++)
        if (gpu_compare(&work->events[i - 1], &work->events[i]) > 0)
            return false;
    return true;
}

/* Both are ordered by slice. */
static void link_launches(const struct columns *c, struct gpu_work *work)
{
    int64_t gpu[BLOCK_ROWS], runtime[BLOCK_ROWS];
    size_t at = 0;

    for (uint64_t first = 0, rows = columns_rows(c, TABLE_launch); first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_launch_gpu, first, BLOCK_ROWS, gpu);
        columns_block(c, COL_launch_runtime, first, BLOCK_ROWS, runtime);
        for (size_t i = 0; i < n; i++) {
            while (at < work->n && gpu[i] != COLUMN_NULL && work->events[at].slice < (uint64_t)gpu[i])
                at++;
            if (at < work->n && gpu[i] != COLUMN_NULL && work->events[at].slice == (uint64_t)gpu[i] &&
                runtime[i] != COLUMN_NULL)
                work->events[at].launch = (uint64_t)runtime[i];
        }
    }
}

int gpu_work_read(const struct columns *c, const struct kernel_patterns *patterns, bool by_hta,
                  struct gpu_work *ret)
{
    struct loader l = {.c = c, .patterns = patterns, .by_hta = by_hta, .n_texts = columns_texts(c)};

    *ret = (struct gpu_work){0};
    l.meanings = calloc((size_t)l.n_texts + 1, sizeof(*l.meanings));
    int r = l.meanings ? gpu_read_events(&l, ret) : -ENOMEM;
    free(l.meanings);
    if (r >= 0 && !gpu_is_ordered(ret))
        qsort(ret->events, ret->n, sizeof(ret->events[0]), gpu_compare);
    if (r >= 0)
        link_launches(c, ret);
    else
        gpu_work_done(ret);
    return r;
}

void gpu_work_done(struct gpu_work *work)
{
    free(work->events);
    *work = (struct gpu_work){0};
}

struct interval gpu_work_span(const struct gpu_work *work)
{
    struct interval span = {0, 0};

    if (work->n > 0)
        span = (struct interval){work->events[0].ts, work->events[0].end};
    for (size_t i = 1; i < work->n; i++)
        span.to = MAX(span.to, work->events[i].end);
    return span;
}

int gpu_work_busy(const struct gpu_work *work, unsigned kinds, struct intervals *ret)
{
    int r = 0;

    for (size_t i = 0; i < work->n && r >= 0; i++)
        if (work->events[i].kind < _GPU_KIND_MAX ? kinds >> work->events[i].kind & 1 : kinds == GPU_ALL)
            r = intervals_add(ret, work->events[i].ts, work->events[i].end);
    intervals_unite(ret);
    return r;
}

int gpu_work_times(const struct gpu_work *work, struct gpu_times *ret)
{
    _cleanup_(intervals_done) struct intervals busy = {0}, compute = {0}, communication = {0}, memory = {0};
    int r = gpu_work_busy(work, GPU_ALL, &busy);

    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMPUTE, &compute);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMMUNICATION, &communication);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_MEMORY, &memory);
    if (r < 0)
        return r;
    *ret = (struct gpu_times){
        .span = busy.n ? busy.items[busy.n - 1].to - busy.items[0].from : 0,
        .busy = intervals_length(&busy),
        .compute = intervals_length(&compute),
        .communication = intervals_length(&communication),
        .memory = intervals_length(&memory),
    };
    ret->exposed = ret->communication - intervals_common(&communication, &compute);
    return 0;
}

/* -- Gpu parts ------------------------------------------------------------------------------------------- */

/* Parts in order of appearance, and how much work each has. */
static int find_parts(const struct gpu_work *work, enum gpu_parting by, struct gpu_parts *s)
{
    _cleanup_(stream_set_done) struct stream_set streams = {0};
    size_t cap = 0;

    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t number = stream_set_number(&streams, e->device, by == BY_DEVICE ? COLUMN_NULL : e->stream);
        if (number < 0)
            return (int)number;
        if (!ARRAY_RESERVE(s->items, cap, streams.n))
            return -ENOMEM;
        struct gpu_part *part = &s->items[number];
        if (streams.n > s->n) {
            const struct gpu_stream *stream = &streams.items[number];
            *part = (struct gpu_part){.device = stream->device, .stream = stream->id};
            s->n = streams.n;
        }
        s->of[i] = (uint32_t)number;
        part->work.n++;
    }
    return 0;
}

static int gpu_parts_compare(const void *x, const void *y, void *arg)
{
    const uint32_t *i = x, *k = y;
    const struct gpu_part *items = arg, *a = &items[*i], *b = &items[*k];

    if (a->device != b->device)
        return (a->device > b->device) - (a->device < b->device);
    return (a->stream > b->stream) - (a->stream < b->stream);
}

/* Puts them in order and gives each its part of the events. */
static int gpu_parts_order(const struct gpu_work *work, struct gpu_parts *s)
{
    _cleanup_(freep) uint32_t *by_number = calloc(s->n + 1, sizeof(*by_number)),
                              *position = calloc(s->n + 1, sizeof(*position));
    struct gpu_part *items = calloc(s->n + 1, sizeof(*items));
    size_t first = 0;

    if (!by_number || !position || !items) {
        free(items);
        return -ENOMEM;
    }
    for (size_t i = 0; i < s->n; i++)
        by_number[i] = (uint32_t)i;
    qsort_r(by_number, s->n, sizeof(*by_number), gpu_parts_compare, s->items);
    for (size_t i = 0; i < s->n; i++) {
        items[i] = s->items[by_number[i]];
        position[by_number[i]] = (uint32_t)i;
        items[i].work.events = s->events + first;
        first += items[i].work.n;
        items[i].work.n = 0;
    }
    free(s->items);
    s->items = items;
    for (size_t i = 0; i < work->n; i++) {
        s->of[i] = position[s->of[i]];
        struct gpu_work *part = &items[s->of[i]].work;
        part->events[part->n++] = work->events[i];
    }
    return 0;
}

int gpu_parts_read(const struct gpu_work *work, enum gpu_parting by, struct gpu_parts *ret)
{
    *ret = (struct gpu_parts){.events = malloc((work->n + 1) * sizeof(*ret->events)),
                              .of = malloc((work->n + 1) * sizeof(*ret->of))};
    int r = ret->events && ret->of ? find_parts(work, by, ret) : -ENOMEM;
    if (r >= 0)
        r = gpu_parts_order(work, ret);
    if (r < 0)
        gpu_parts_done(ret);
    return r;
}

void gpu_parts_done(struct gpu_parts *parts)
{
    free(parts->items);
    free(parts->events);
    free(parts->of);
    *parts = (struct gpu_parts){0};
}
