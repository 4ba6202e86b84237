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

struct host_open {
    int64_t end;
    uint32_t call;
};

/* The calls under way on one thread, the outermost first. */
struct under_way {
    struct host_open *items;
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

/* The innermost call that lasts beyond ts and at least until end (ts where nothing has to fit in); NULL: none. */
static const struct host_open *find_around(struct under_way *t, int64_t ts, int64_t end)
{
    while (t->n > 0 && t->items[t->n - 1].end <= ts)
        t->n--;
    for (size_t k = t->n, tries = 0; k > 0 && tries < AROUND_TRIES; k--, tries++)
        if (ts < t->items[k - 1].end && end <= t->items[k - 1].end)
            return &t->items[k - 1];
    return NULL;
}

static int host_take(struct host_reading *r, struct under_way *t, uint32_t slice, int64_t ts, int64_t end)
{
    struct host_calls *h = r->host;
    enum host_kind kind = (enum host_kind)r->slices->kind[slice];
    bool is_call = r->kinds >> kind & 1;
    const struct host_open *outer = find_around(t, ts, is_call ? end : ts);

    h->around[slice] = outer ? outer->call : HOST_CALL_NONE;
    if (is_call) {
        if (outer)
            h->within[outer->call] += end - ts;
        h->slice[h->n] = slice;
        h->parent[h->n] = h->around[slice];
        h->around[slice] = (uint32_t)h->n;
        if (!ARRAY_RESERVE(t->items, t->cap, t->n + 1))
            return -ENOMEM;
        t->items[t->n++] = (struct host_open){end, (uint32_t)h->n++};
    } else if (kind == HOST_RUNTIME && ts >= t->runtime_until) {
        t->runtime_until = end;
        if (outer)
            h->runtime[outer->call] += MIN(end, outer->end) - ts;
    }
    return 0;
}

/* There are many Python frames that are no calls, and the calls around them are looked up for few: for those marked so. */
#define HOST_CALL_ASKED (HOST_CALL_NONE - 1)

static void host_ask(struct host_calls *h, uint64_t slice)
{
    if (slice_kind(h->slices, slice) == HOST_PYTHON)
        h->around[slice] = HOST_CALL_ASKED;
}

static void host_ask_launches(struct host_calls *h, const struct columns *c, const struct gpu_work *work)
{
    uint32_t slices[BLOCK_ROWS];
    uint64_t rows = columns_rows(c, TABLE_op);

    for (size_t i = 0; i < work->n; i++)
        host_ask(h, gpu_event_launch(&work->events[i]));
    for (uint64_t first = 0; first < rows; first += BLOCK_ROWS) {
        size_t n = columns_codes(c, COL_op_slice, first, BLOCK_ROWS, slices);
        for (size_t i = 0; i < n; i++)
            host_ask(h, slices[i]);
    }
}

static int host_read_calls(struct host_reading *r)
{
    const struct slice_table *t = r->slices;
    const uint32_t *around = r->host->around;
    unsigned always = r->kinds | ~(1u << HOST_OTHER | 1u << HOST_PYTHON);
    int e = 0;

    r->threads = calloc(t->n_threads + 1, sizeof(*r->threads));
    if (!r->threads)
        return -ENOMEM;
    for (uint64_t i = 0; i < t->n_threads; i++)
        r->threads[i].runtime_until = INT64_MIN;
    for (uint64_t i = 0; i < t->n && e >= 0; i++) {
        int64_t end, thread;
        if ((!(always >> t->kind[i] & 1) && around[i] != HOST_CALL_ASKED) || t->ts[i] == COLUMN_NULL ||
            t->dur[i] < 0 || (thread = slice_thread(t, i)) == COLUMN_NULL ||
            __builtin_add_overflow(t->ts[i], t->dur[i], &end))
            continue;
        e = host_take(r, &r->threads[thread], (uint32_t)i, t->ts[i], end);
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
            uint32_t call = host_call_around(h, slices[i]);
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
        uint64_t launch = gpu_event_launch(e);
        h->launcher[i] = launch == SLICE_NONE ? HOST_CALL_NONE : host_call_around(h, (int64_t)launch);
        if (h->launcher[i] != HOST_CALL_NONE)
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

/* NULL without memory. */
static struct host_launched *host_launched_of(struct host_calls *h, uint32_t call)
{
    if (h->has_launched[call] == 0) {
        if (!ARRAY_RESERVE(h->launched, h->launched_cap, h->n_launched + 1))
            return NULL;
        h->launched[h->n_launched++] = (struct host_launched){0};
        h->has_launched[call] = (uint32_t)h->n_launched;
    }
    return &h->launched[h->has_launched[call] - 1];
}

static int host_sum_work(const struct gpu_work *work, struct host_calls *h)
{
    for (size_t i = 0; i < work->n; i++) {
        if (h->launcher[i] == HOST_CALL_NONE)
            continue;
        struct host_launched *own = host_launched_of(h, h->launcher[i]);
        if (!own)
            return -ENOMEM;
        own->device += work->events[i].end - work->events[i].ts;
        own->work++;
    }
    for (size_t i = h->n; i > 0; i--) {
        if (h->has_launched[i - 1] == 0)
            continue;
        struct host_launched *own = host_launched_of(h, (uint32_t)i - 1), *outer;
        own->device_all += own->device;
        own->work_all += own->work;
        if (h->parent[i - 1] == HOST_CALL_NONE)
            continue;
        struct host_launched all = *own;
        outer = host_launched_of(h, h->parent[i - 1]);
        if (!outer)
            return -ENOMEM;
        outer->device_all += all.device_all;
        outer->work_all += all.work_all;
    }
    return 0;
}

/* Slices of those kinds: calls are at most as many. */
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
    size_t n = host_count(slices, kinds);
    int r = 0;

    *ret = (struct host_calls){.slices = slices,
                               .slice = array_alloc_pages((n + 1) * sizeof(*ret->slice)),
                               .parent = array_alloc_pages((n + 1) * sizeof(*ret->parent)),
                               .within = array_calloc_pages((n + 1) * sizeof(*ret->within)),
                               .runtime = array_calloc_pages((n + 1) * sizeof(*ret->runtime)),
                               .has_launched = array_calloc_pages((n + 1) * sizeof(*ret->has_launched)),
                               .around = array_alloc_pages((slices->n + 1) * sizeof(*ret->around))};
    if (!ret->slice || !ret->parent || !ret->within || !ret->runtime || !ret->has_launched || !ret->around)
        r = -ENOMEM;
    if (r >= 0 && n > 0) {
        memset(ret->around, 0xff, (slices->n + 1) * sizeof(*ret->around)); /* HOST_CALL_NONE */
        host_ask_launches(ret, c, work);
        r = host_read_calls(&reading);
    }
    if (r >= 0)
        r = find_launchers(c, work, ret);
    if (r >= 0)
        r = host_sum_work(work, ret);
    if (r < 0)
        host_calls_done(ret);
    return r;
}

void host_calls_done(struct host_calls *h)
{
    free(h->slice);
    free(h->parent);
    free(h->within);
    free(h->runtime);
    free(h->has_launched);
    free(h->launched);
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
