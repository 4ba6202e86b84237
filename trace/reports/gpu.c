/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/gpu.h"

#include "base/array.h"
#include "trace/columns/column_cursor.h"
#include "trace/columns/schema.h"
#include "trace/reports/hta.h"
#include <errno.h>
#include <pthread.h>

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

struct gpu_busy {
    pthread_mutex_t lock;
    unsigned known; /* which of the sets, a mask of 1 << kinds */
    struct intervals sets[GPU_ALL + 1];
    bool has_times;
    struct gpu_times times;
};

static struct gpu_busy *gpu_busy_new(void)
{
    struct gpu_busy *busy = calloc(1, sizeof(*busy));

    if (busy)
        pthread_mutex_init(&busy->lock, NULL);
    return busy;
}

static void gpu_busy_free(struct gpu_busy *busy)
{
    for (size_t i = 0; busy && i < ARRAY_SIZE(busy->sets); i++)
        intervals_done(&busy->sets[i]);
    free(busy);
}

int gpu_work_init(struct gpu_work *work)
{
    *work = (struct gpu_work){.busy = gpu_busy_new()};
    return work->busy ? 0 : -ENOMEM;
}

/* What a name means, found once for each text of the trace. */
struct meaning {
    bool known;
    enum gpu_kind kind;
    enum kernel_class class;
    enum collective_kind collective;
    bool is_copy, is_pageable, is_elementwise;
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

static bool gpu_name_has(struct text name, const char *part)
{
    return name.size > 0 && memmem(name.p, name.size, part, strlen(part));
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
    m.is_copy = m.kind == GPU_MEMORY && gpu_name_has(text, "emcpy");
    m.is_pageable = m.class == CLASS_MEMORY && gpu_name_has(text, "Pageable");
    m.is_elementwise = m.kind == GPU_COMPUTE && gpu_name_has(text, "elementwise_kernel");
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
    int64_t slices[BLOCK_ROWS], streams[BLOCK_ROWS], devices[BLOCK_ROWS];
    /* Rows of arguments are in the order of their slices. */
    struct column_cursor categories = {.c = c, .column = COL_slice_category},
                         starts = {.c = c, .column = COL_slice_ts}, durs = {.c = c, .column = COL_slice_dur},
                         names = {.c = c, .column = COL_slice_name};

    for (uint64_t first = 0, rows = MIN(columns_rows(c, TABLE_gpu), (uint64_t)COLUMN_NO_CODE); first < rows;
         first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_gpu_slice, first, BLOCK_ROWS, slices);
        columns_block(c, COL_gpu_stream, first, BLOCK_ROWS, streams);
        columns_block(c, COL_gpu_device, first, BLOCK_ROWS, devices);
        for (size_t i = 0; i < n; i++) {
            if (slices[i] == COLUMN_NULL || slices[i] >= COLUMN_NO_CODE)
                continue;
            uint64_t slice = (uint64_t)slices[i];
            classify_category(c, column_cursor_get(&categories, slice), &known);
            int64_t ts = column_cursor_get(&starts, slice), dur = column_cursor_get(&durs, slice);
            if (!(l->by_hta ? hta_is_gpu(known.category, streams[i]) : known.is_work) ||
                !is_possible(ts, dur))
                continue;
            struct gpu_event *e = gpu_work_add(ret);
            if (!e)
                return -ENOMEM;
            int64_t name = column_cursor_get(&names, slice);
            struct meaning m = find_meaning(l, name, known.is_transfer);
            *e = (struct gpu_event){.ts = ts,
                                    .end = ts + dur,
                                    .slice = (uint32_t)slice,
                                    .row = (uint32_t)(first + i),
                                    .launched_by = COLUMN_NO_CODE,
                                    .name =
                                        name < 0 || name >= COLUMN_NO_CODE ? COLUMN_NO_CODE : (uint32_t)name,
                                    .stream = streams[i],
                                    .device = devices[i],
                                    .kind = m.kind,
                                    .class = m.class,
                                    .collective = m.collective,
                                    .is_copy = m.is_copy,
                                    .is_pageable = m.is_pageable,
                                    .is_elementwise = m.is_elementwise};
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
                runtime[i] != COLUMN_NULL && runtime[i] < COLUMN_NO_CODE)
                work->events[at].launched_by = (uint32_t)runtime[i];
        }
    }
}

int gpu_work_read(const struct columns *c, const struct kernel_patterns *patterns, bool by_hta,
                  struct gpu_work *ret)
{
    struct loader l = {.c = c, .patterns = patterns, .by_hta = by_hta, .n_texts = columns_texts(c)};

    int r = gpu_work_init(ret);
    /* Most rows are of work. */
    ret->cap = columns_rows(c, TABLE_gpu);
    ret->events = array_alloc_pages((ret->cap + 1) * sizeof(*ret->events));
    l.meanings = calloc((size_t)l.n_texts + 1, sizeof(*l.meanings));
    if (r >= 0)
        r = l.meanings && ret->events ? gpu_read_events(&l, ret) : -ENOMEM;
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
    gpu_busy_free(work->busy);
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

/* -- Busy times --------------------------------------------------------------------------------------- */

/* Events are in order of their start: what begins before the latest end so far goes on. */
static int gpu_busy_read(const struct gpu_work *work, unsigned kinds, struct intervals *ret)
{
    struct interval last = {INT64_MIN, INT64_MIN};
    int r = 0;

    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        if (!(e->kind < _GPU_KIND_MAX ? kinds >> e->kind & 1 : kinds == GPU_ALL) || e->end <= e->ts)
            continue;
        if (e->ts > last.to) {
            r = intervals_add(ret, last.from, last.to);
            last = (struct interval){e->ts, e->end};
        }
        last.to = MAX(last.to, e->end);
    }
    return r < 0 ? r : intervals_add(ret, last.from, last.to);
}

static int gpu_busy_get(const struct gpu_work *work, unsigned kinds, const struct intervals **ret)
{
    struct gpu_busy *busy = work->busy;
    int r = 0;

    if (!(busy->known >> kinds & 1)) {
        r = gpu_busy_read(work, kinds, &busy->sets[kinds]);
        if (r >= 0)
            busy->known |= 1u << kinds;
        else
            intervals_done(&busy->sets[kinds]);
    }
    *ret = &busy->sets[kinds];
    return r;
}

int gpu_work_busy(const struct gpu_work *work, unsigned kinds, const struct intervals **ret)
{
    pthread_mutex_lock(&work->busy->lock);
    int r = gpu_busy_get(work, kinds, ret);
    pthread_mutex_unlock(&work->busy->lock);
    return r;
}

static int gpu_busy_measure(const struct gpu_work *work, struct gpu_times *ret)
{
    const struct intervals *busy, *compute, *communication, *memory;
    int r = gpu_busy_get(work, GPU_ALL, &busy);

    if (r >= 0)
        r = gpu_busy_get(work, 1 << GPU_COMPUTE, &compute);
    if (r >= 0)
        r = gpu_busy_get(work, 1 << GPU_COMMUNICATION, &communication);
    if (r >= 0)
        r = gpu_busy_get(work, 1 << GPU_MEMORY, &memory);
    if (r < 0)
        return r;
    *ret = (struct gpu_times){
        .span = busy->n ? busy->items[busy->n - 1].to - busy->items[0].from : 0,
        .busy = intervals_length(busy),
        .compute = intervals_length(compute),
        .communication = intervals_length(communication),
        .memory = intervals_length(memory),
    };
    ret->exposed = ret->communication - intervals_common(communication, compute);
    return 0;
}

int gpu_work_times(const struct gpu_work *work, struct gpu_times *ret)
{
    struct gpu_busy *busy = work->busy;
    int r = 0;

    pthread_mutex_lock(&busy->lock);
    if (!busy->has_times)
        r = gpu_busy_measure(work, &busy->times);
    busy->has_times = r >= 0;
    *ret = busy->times;
    pthread_mutex_unlock(&busy->lock);
    return r;
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

    s->events = malloc((work->n + 1) * sizeof(*s->events));
    if (!by_number || !position || !items || !s->events) {
        free(items);
        return -ENOMEM;
    }
    for (size_t i = 0; i < s->n; i++)
        by_number[i] = (uint32_t)i;
    qsort_r(by_number, s->n, sizeof(*by_number), gpu_parts_compare, s->items);
    for (size_t i = 0; i < s->n; i++) {
        items[i] = s->items[by_number[i]];
        position[by_number[i]] = (uint32_t)i;
        items[i].work.busy = gpu_busy_new();
        items[i].work.events = s->events + first;
        first += items[i].work.n;
        items[i].work.n = 0;
    }
    free(s->items);
    s->items = items;
    for (size_t i = 0; i < s->n; i++)
        if (!items[i].work.busy)
            return -ENOMEM;
    for (size_t i = 0; i < work->n; i++) {
        s->of[i] = position[s->of[i]];
        struct gpu_work *part = &items[s->of[i]].work;
        part->events[part->n++] = work->events[i];
    }
    return 0;
}

int gpu_parts_read(const struct gpu_work *work, enum gpu_parting by, struct gpu_parts *ret)
{
    *ret = (struct gpu_parts){.of = malloc((work->n + 1) * sizeof(*ret->of))};
    int r = ret->of ? find_parts(work, by, ret) : -ENOMEM;
    if (r >= 0 && ret->n == 1)
        ret->items[0].work = *work;
    else if (r >= 0)
        r = gpu_parts_order(work, ret);
    if (r < 0)
        gpu_parts_done(ret);
    return r;
}

void gpu_parts_done(struct gpu_parts *parts)
{
    for (size_t i = 0; i < parts->n && parts->events; i++)
        gpu_busy_free(parts->items[i].work.busy);
    free(parts->items);
    free(parts->events);
    free(parts->of);
    *parts = (struct gpu_parts){0};
}
