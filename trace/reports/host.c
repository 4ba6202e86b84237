/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/host.h"

#include "base/array.h"
#include "trace/columns/column_cursor.h"
#include "trace/columns/schema.h"
#include "trace/reports/search.h"
#include <errno.h>
#include <fnmatch.h>

/* -- Host ------------------------------------------------------------------------------------------------ */

/* How many calls that are under way on a thread are tried for one that holds a new one: calls that nest are
 * found at the first. */
#define AROUND_TRIES 256

/* -- Reading ------------------------------------------------------------------------------------------ */

/* The calls under way on one thread, the outermost first. */
struct under_way {
    uint32_t *items;
    size_t n, cap;
    int64_t runtime_until; /* a runtime call that lies in another is counted with that */
};

struct host_reading {
    const struct slice_table *slices;
    unsigned kinds;
    struct host_calls *host;
    struct under_way *threads;
};

static void host_reading_done(struct host_reading *r)
{
    for (uint64_t i = 0; r->threads && i < r->slices->n_threads; i++)
        free(r->threads[i].items);
    free(r->threads);
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

static int host_take(struct host_reading *r, uint64_t thread, struct host_call call)
{
    struct host_calls *h = r->host;
    struct under_way *t = &r->threads[thread];
    bool is_call = r->kinds >> call.kind & 1;
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
    if (call.kind == HOST_RUNTIME && call.ts >= t->runtime_until) {
        t->runtime_until = call.end;
        if (outer)
            outer->runtime += MIN(call.end, outer->end) - call.ts;
    }
    return 0;
}

static int host_read_calls(struct host_reading *r)
{
    const struct slice_table *t = r->slices;
    int e = 0;

    r->threads = calloc(t->n_threads + 1, sizeof(*r->threads));
    if (!r->threads)
        return -ENOMEM;
    for (uint64_t i = 0; i < t->n_threads; i++)
        r->threads[i].runtime_until = INT64_MIN;
    for (uint64_t i = 0; i < t->n && e >= 0; i++) {
        int64_t end, thread;
        if (t->kind[i] == HOST_OTHER || t->ts[i] == COLUMN_NULL || t->dur[i] < 0 ||
            (thread = slice_thread(t, i)) == COLUMN_NULL || __builtin_add_overflow(t->ts[i], t->dur[i], &end))
            continue;
        e = host_take(r, (uint64_t)thread,
                      (struct host_call){.ts = t->ts[i],
                                         .end = end,
                                         .name = slice_name(t, i),
                                         .slice = (uint32_t)i,
                                         .kind = (enum host_kind)t->kind[i]});
    }
    return e;
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

    struct column_cursor ids = {.c = c, .column = COL_gpu_external_id};

    h->launcher = malloc((work->n + 1) * sizeof(*h->launcher));
    if (!h->launcher)
        return -ENOMEM;
    h->n_work = work->n;
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        h->launcher[i] = e->launch == SLICE_NONE ? HOST_CALL_NONE : around_slice(h, (int64_t)e->launch);
        if (h->launcher[i] != HOST_CALL_NONE || e->row == SLICE_NONE)
            continue;
        int64_t id = column_cursor_get(&ids, e->row);
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

/* Calls of those kinds, so that their array does not have to be moved. */
static size_t host_count(const struct slice_table *t, unsigned kinds)
{
    size_t n = 0;

    for (uint64_t i = 0; i < t->n; i++)
        n += kinds >> t->kind[i] & 1;
    return n;
}

int host_calls_read(const struct columns *c, const struct slice_table *slices, unsigned kinds,
                    const struct gpu_work *work, struct host_calls *ret)
{
    _cleanup_(host_reading_done) struct host_reading reading = {
        .slices = slices, .kinds = kinds, .host = ret};

    *ret = (struct host_calls){.cap = host_count(slices, kinds)};
    ret->n_slices = ret->cap > 0 ? slices->n : 0;
    ret->around = array_alloc_pages((ret->n_slices + 1) * sizeof(*ret->around));
    ret->calls = array_alloc_pages((ret->cap + 1) * sizeof(*ret->calls));
    int r = ret->around && ret->calls ? 0 : -ENOMEM;
    if (r >= 0)
        memset(ret->around, 0xff, (ret->n_slices + 1) * sizeof(*ret->around)); /* HOST_CALL_NONE */
    if (r >= 0 && ret->cap > 0)
        r = host_read_calls(&reading);
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

uint64_t ancestor_find(struct ancestor_finder *finder, uint64_t slice)
{
    uint64_t walked[ANCESTORS_MAX], found = SLICE_NONE;
    size_t n = 0;

    for (uint64_t at = slice; at != SLICE_NONE && n < ANCESTORS_MAX; at = slice_parent(finder->slices, at)) {
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
