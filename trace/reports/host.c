/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/host.h"

#include "base/array.h"
#include "trace/columns/schema.h"
#include "trace/reports/search.h"
#include <errno.h>
#include <fnmatch.h>

/* -- Host ------------------------------------------------------------------------------------------------ */

/* How many calls that are under way on a thread are tried for one that holds a new one: calls that nest are
 * found at the first. */
#define AROUND_TRIES 256

static const char *const words[_HOST_KIND_MAX] = {
#define H(identifier, word) [HOST_##identifier] = word,
    HOST_KINDS(H)
#undef H
};

static const struct {
    const char *names[2];
    enum host_kind kind;
} categories[] = {
    {{CATEGORY_OP}, HOST_OP},           {{"user_annotation"}, HOST_ANNOTATION},
    {{"python_function"}, HOST_PYTHON}, {{CATEGORY_RUNTIME}, HOST_RUNTIME},
    {{"cuda_driver"}, HOST_RUNTIME},    {{"xpu_runtime", "xpu_driver"}, HOST_RUNTIME},
    {{"mtia_runtime"}, HOST_RUNTIME},   {{"privateuse1_runtime", "privateuse1_driver"}, HOST_RUNTIME},
};

const char *host_kind_name(enum host_kind kind)
{
    return words[kind];
}

enum host_kind host_kind_of(struct text category)
{
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        for (size_t k = 0; k < ARRAY_SIZE(categories[i].names) && categories[i].names[k]; k++)
            if (text_is(category, categories[i].names[k]))
                return categories[i].kind;
    return HOST_OTHER;
}

/* -- Reading ------------------------------------------------------------------------------------------ */

/* The calls under way on one thread, the outermost first. */
struct under_way {
    uint32_t *items;
    size_t n, cap;
    int64_t runtime_until; /* a runtime call that lies in another is counted with that */
};

struct host_reading {
    const struct columns *c;
    unsigned kinds;
    struct host_calls *host;
    uint8_t *kind_of; /* by number of text, as a category; + 1, 0: not asked yet */
    uint32_t n_texts;
    struct under_way *threads;
    uint64_t n_threads;
    int64_t *thread_of; /* by track */
    uint64_t n_tracks;
};

static void host_reading_done(struct host_reading *r)
{
    for (uint64_t i = 0; r->threads && i < r->n_threads; i++)
        free(r->threads[i].items);
    free(r->threads);
    free(r->thread_of);
    free(r->kind_of);
}

static int reading_begin(struct host_reading *r)
{
    r->n_texts = columns_texts(r->c);
    r->n_threads = columns_rows(r->c, TABLE_thread);
    r->n_tracks = columns_rows(r->c, TABLE_track);
    r->kind_of = calloc((size_t)r->n_texts + 1, sizeof(*r->kind_of));
    r->threads = calloc(r->n_threads + 1, sizeof(*r->threads));
    r->thread_of = calloc(r->n_tracks + 1, sizeof(*r->thread_of));
    if (!r->kind_of || !r->threads || !r->thread_of)
        return -ENOMEM;
    for (uint64_t i = 0; i < r->n_threads; i++)
        r->threads[i].runtime_until = INT64_MIN;
    for (uint64_t i = 0; i < r->n_tracks; i++)
        r->thread_of[i] = columns_get(r->c, COL_track_thread, i);
    return 0;
}

static enum host_kind host_text_kind(struct host_reading *r, int64_t category)
{
    if (category < 0 || category >= r->n_texts)
        return HOST_OTHER;
    uint8_t *known = &r->kind_of[category];
    if (*known == 0)
        *known = (uint8_t)(1 + host_kind_of(columns_text(r->c, category)));
    return (enum host_kind)(*known - 1);
}

/* The innermost call that is under way at ts and, with an end, holds [ts, end). */
static uint32_t find_around(const struct host_calls *h, struct under_way *t, int64_t ts, int64_t end)
{
    while (t->n > 0 && h->calls[t->items[t->n - 1]].end <= ts)
        t->n--;
    for (size_t k = t->n, tries = 0; k > 0 && tries < AROUND_TRIES; k--, tries++) {
        const struct host_call *call = &h->calls[t->items[k - 1]];
        if (ts < call->end && end <= call->end)
            return t->items[k - 1];
    }
    return HOST_CALL_NONE;
}

static int open_call(struct host_calls *h, struct under_way *t, struct host_call call)
{
    if (!ARRAY_RESERVE(h->calls, h->cap, h->n + 1))
        return -ENOMEM;
    if (!ARRAY_RESERVE(t->items, t->cap, t->n + 1))
        return -ENOMEM;
    t->items[t->n++] = (uint32_t)h->n;
    h->calls[h->n++] = call;
    return 0;
}

static int host_take(struct host_reading *r, enum host_kind kind, int64_t track, struct host_call call)
{
    struct host_calls *h = r->host;
    int64_t thread = track < 0 || (uint64_t)track >= r->n_tracks ? COLUMN_NULL : r->thread_of[track];

    if (thread < 0 || (uint64_t)thread >= r->n_threads)
        return 0;
    struct under_way *t = &r->threads[thread];
    bool is_call = r->kinds >> kind & 1;
    uint32_t around = find_around(h, t, call.ts, is_call ? call.end : call.ts);
    struct host_call *outer = around == HOST_CALL_NONE ? NULL : &h->calls[around];

    h->around[call.slice] = around;
    if (is_call) {
        if (outer)
            outer->within += call.end - call.ts;
        call.parent = around;
        h->around[call.slice] = (uint32_t)h->n;
        return open_call(h, t, call);
    }
    if (kind == HOST_RUNTIME && call.ts >= t->runtime_until) {
        t->runtime_until = call.end;
        if (outer)
            outer->runtime += MIN(call.end, outer->end) - call.ts;
    }
    return 0;
}

static int read_block(struct host_reading *r, uint64_t first)
{
    const struct columns *c = r->c;
    int64_t categories_[BLOCK_ROWS], ts[BLOCK_ROWS], dur[BLOCK_ROWS], track[BLOCK_ROWS], name[BLOCK_ROWS];
    enum host_kind kinds[BLOCK_ROWS];
    size_t n = columns_block(c, COL_slice_category, first, BLOCK_ROWS, categories_), n_host = 0;

    for (size_t i = 0; i < n; i++) {
        kinds[i] = host_text_kind(r, categories_[i]);
        n_host += kinds[i] != HOST_OTHER;
    }
    if (n_host == 0)
        return 0;
    columns_block(c, COL_slice_ts, first, BLOCK_ROWS, ts);
    columns_block(c, COL_slice_dur, first, BLOCK_ROWS, dur);
    columns_block(c, COL_slice_track, first, BLOCK_ROWS, track);
    columns_block(c, COL_slice_name, first, BLOCK_ROWS, name);
    for (size_t i = 0; i < n; i++) {
        int64_t end;
        if (kinds[i] == HOST_OTHER || ts[i] == COLUMN_NULL || dur[i] < 0 ||
            __builtin_add_overflow(ts[i], dur[i], &end))
            continue;
        int e = host_take(
            r, kinds[i], track[i],
            (struct host_call){
                .ts = ts[i], .end = end, .name = name[i], .slice = (uint32_t)(first + i), .kind = kinds[i]});
        if (e < 0)
            return e;
    }
    return 0;
}

/* -- What they launched ------------------------------------------------------------------------------- */

struct external {
    int64_t id;
    uint32_t call;
};

struct externals {
    struct external *items;
    size_t n;
};

static void externals_done(struct externals *e)
{
    free(e->items);
}

static int compare_externals(const void *x, const void *y)
{
    const struct external *a = x, *b = y;

    return a->id != b->id ? (a->id > b->id) - (a->id < b->id) : (a->call > b->call) - (a->call < b->call);
}

static uint32_t around_slice(const struct host_calls *h, int64_t slice)
{
    return slice < 0 || (uint64_t)slice >= h->n_slices ? HOST_CALL_NONE : h->around[slice];
}

/* Operators by their External id. */
static int read_externals(const struct columns *c, const struct host_calls *h, struct externals *ret)
{
    int64_t slices[BLOCK_ROWS], ids[BLOCK_ROWS];
    uint64_t rows = columns_rows(c, TABLE_op);

    ret->items = calloc(rows + 1, sizeof(*ret->items));
    if (!ret->items)
        return -ENOMEM;
    for (uint64_t first = 0; first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_op_slice, first, BLOCK_ROWS, slices);
        columns_block(c, COL_op_external_id, first, BLOCK_ROWS, ids);
        for (size_t i = 0; i < n; i++) {
            uint32_t call = around_slice(h, slices[i]);
            if (ids[i] > 0 && call != HOST_CALL_NONE)
                ret->items[ret->n++] = (struct external){ids[i], call};
        }
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), compare_externals);
    return 0;
}

static uint32_t find_external(const struct externals *externals, int64_t id)
{
    size_t at = FIRST_THAT(i, 0, externals->n, externals->items[i].id >= id);

    return at < externals->n && externals->items[at].id == id ? externals->items[at].call : HOST_CALL_NONE;
}

static int find_launchers(const struct columns *c, const struct gpu_work *work, struct host_calls *h)
{
    _cleanup_(externals_done) struct externals externals = {0};

    h->launcher = malloc((work->n + 1) * sizeof(*h->launcher));
    if (!h->launcher)
        return -ENOMEM;
    h->n_work = work->n;
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        h->launcher[i] = e->launch == SLICE_NONE ? HOST_CALL_NONE : around_slice(h, (int64_t)e->launch);
        if (h->launcher[i] != HOST_CALL_NONE || e->row == SLICE_NONE)
            continue;
        int64_t id = columns_get(c, COL_gpu_external_id, e->row);
        if (id <= 0)
            continue;
        if (!externals.items) {
            int r = read_externals(c, h, &externals);
            if (r < 0)
                return r;
        }
        h->launcher[i] = find_external(&externals, id);
    }
    return 0;
}

static void sum_work(const struct gpu_work *work, struct host_calls *h)
{
    for (size_t i = 0; i < work->n; i++) {
        if (h->launcher[i] == HOST_CALL_NONE)
            continue;
        struct host_call *call = &h->calls[h->launcher[i]];
        call->device += work->events[i].end - work->events[i].ts;
        call->work++;
    }
    for (size_t i = h->n; i > 0; i--) {
        struct host_call *call = &h->calls[i - 1];
        call->device_all += call->device;
        call->work_all += call->work;
        if (call->parent == HOST_CALL_NONE)
            continue;
        h->calls[call->parent].device_all += call->device_all;
        h->calls[call->parent].work_all += call->work_all;
    }
}

int host_calls_read(const struct columns *c, unsigned kinds, const struct gpu_work *work,
                    struct host_calls *ret)
{
    _cleanup_(host_reading_done) struct host_reading reading = {.c = c, .kinds = kinds, .host = ret};

    *ret = (struct host_calls){.n_slices = columns_rows(c, TABLE_slice)};
    ret->around = malloc((ret->n_slices + 1) * sizeof(*ret->around));
    int r = ret->around ? reading_begin(&reading) : -ENOMEM;
    if (r >= 0)
        memset(ret->around, 0xff, (ret->n_slices + 1) * sizeof(*ret->around)); /* HOST_CALL_NONE */
    for (uint64_t first = 0; first < ret->n_slices && r >= 0; first += BLOCK_ROWS)
        r = read_block(&reading, first);
    if (r >= 0)
        r = find_launchers(c, work, ret);
    if (r >= 0)
        sum_work(work, ret);
    else
        host_calls_done(ret);
    return r;
}

void host_calls_done(struct host_calls *h)
{
    free(h->calls);
    free(h->around);
    free(h->launcher);
    *h = (struct host_calls){0};
}

/* -- Ancestor -------------------------------------------------------------------------------------------- */

uint64_t ancestor_parent(const struct columns *c, uint64_t slice)
{
    int64_t parent = slice == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_parent, slice);
    return parent == COLUMN_NULL ? SLICE_NONE : (uint64_t)parent;
}

uint64_t ancestor_find(struct ancestor_finder *finder, uint64_t slice)
{
    uint64_t walked[ANCESTORS_MAX], found = SLICE_NONE;
    size_t n = 0;

    for (uint64_t at = slice; at != SLICE_NONE && n < ANCESTORS_MAX; at = ancestor_parent(finder->c, at)) {
        size_t position = at % ANCESTORS_REMEMBERED;
        if (finder->remembered[position].used && finder->remembered[position].slice == at) {
            found = finder->remembered[position].found;
            break;
        }
        walked[n++] = at;
        if (finder->matches(finder->arg, at)) {
            found = at;
            break;
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t position = walked[i] % ANCESTORS_REMEMBERED;
        finder->remembered[position].used = true;
        finder->remembered[position].slice = walked[i];
        finder->remembered[position].found = found;
    }
    return found;
}

/* -- Correlation ----------------------------------------------------------------------------------------- */

int correlations_read(const struct columns *c, int64_t before, struct correlations *ret)
{
    int64_t slices[BLOCK_ROWS], numbers[BLOCK_ROWS];
    uint64_t rows = columns_rows(c, TABLE_runtime);

    *ret = (struct correlations){.items = malloc((rows + 1) * sizeof(*ret->items))};
    if (!ret->items)
        return -ENOMEM;
    for (uint64_t first = 0; first < rows; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_runtime_slice, first, BLOCK_ROWS, slices);
        columns_block(c, COL_runtime_correlation, first, BLOCK_ROWS, numbers);
        for (size_t i = 0; i < n; i++)
            if (slices[i] != COLUMN_NULL && numbers[i] >= 0 &&
                (before == INT64_MAX || columns_get(c, COL_slice_ts, (uint64_t)slices[i]) < before))
                ret->items[ret->n++] = (struct sort_item){numbers[i], (size_t)slices[i]};
    }
    sort_items(ret->items, ret->n);
    return 0;
}

void correlations_done(struct correlations *correlations)
{
    free(correlations->items);
    *correlations = (struct correlations){0};
}

size_t correlations_find(const struct correlations *correlations, int64_t correlation)
{
    const struct sort_item *items = correlations->items;
    size_t n = correlations->n, at = FIRST_THAT(i, 0, n, items[i].number >= correlation);

    return at < n && items[at].number == correlation ? at : n;
}

/* -- Sync call ------------------------------------------------------------------------------------------- */

#define NAME_LOOK_MAX 128

static const struct {
    const char *glob;
    enum sync_call kind;
} calls[] = {
    {"*Synchronize*", SYNC_WAIT}, {"*Memcpy*Async*", SYNC_NONE}, {"cudaMemcpy*", SYNC_COPY},
    {"cuMemcpy*", SYNC_COPY},     {"hipMemcpy*", SYNC_COPY},     {"*FreeAsync*", SYNC_NONE},
    {"cudaFree*", SYNC_FREE},     {"cuMemFree*", SYNC_FREE},     {"hipFree*", SYNC_FREE},
    {"*Get*", SYNC_ASKS},         {"*IsCapturing*", SYNC_ASKS},  {"*Query*", SYNC_ASKS},
    {"*EventRecord*", SYNC_ASKS},
};

enum sync_call sync_call_of(struct text name)
{
    char plain[NAME_LOOK_MAX];

    snprintf(plain, sizeof(plain), "%.*s", (int)MIN(name.size, sizeof(plain) - 1), name.p);
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        if (fnmatch(calls[i].glob, plain, 0) == 0)
            return calls[i].kind;
    return SYNC_NONE;
}
