/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/traces.h"

#include "base/array.h"
#include "trace/read/decompress.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

/* -- Texts of events ------------------------------------------------------------------------------------ */

/* The head that is closest before an offset, else the least recently used one. */
static size_t heads_choose(const struct heads *h, uint64_t offset)
{
    size_t oldest = 0, closest = HEADS_MAX;

    for (size_t i = 0; i < HEADS_MAX; i++) {
        uint64_t ahead = offset - h->items[i].offset;

        if (h->items[i].last_used < h->items[oldest].last_used)
            oldest = i;
        if (h->items[i].source && offset >= h->items[i].offset && ahead <= CHECKPOINT_SPACING &&
            (closest == HEADS_MAX || ahead < offset - h->items[closest].offset))
            closest = i;
    }
    return closest < HEADS_MAX ? closest : oldest;
}

int heads_text(struct heads *h, uint64_t offset, struct text *ret)
{
    size_t i = heads_choose(h, offset);
    int r = 0;

    if (h->fd < 0)
        return -ENOENT;
    if (!h->items[i].source)
        r = event_source_new(h->fd, h->columns, &h->items[i].source);
    if (r == 0)
        r = event_source_text(h->items[i].source, offset, ret);
    if (r == -ESTALE)
        return -ENOENT;
    h->items[i].offset = offset;
    h->items[i].last_used = ++h->clock;
    return r;
}

void heads_done(struct heads *h)
{
    for (size_t i = 0; i < HEADS_MAX; i++)
        event_source_free(h->items[i].source);
}

/* -- Open traces ---------------------------------------------------------------------------------------- */

#define MAKE_AGAIN "recreate them with profctl ingest --again PATH"

struct traces {
    sqlite3 *db;
    struct sql_source source;
    unsigned refs;
    struct trace **open;
    size_t n, cap;
    uint64_t clock;
};

int traces_new(sqlite3 *db, struct sql_source source, struct traces **ret)
{
    struct traces *t = calloc(1, sizeof(*t));

    if (!t) {
        if (source.free)
            source.free(source.arg);
        return -ENOMEM;
    }
    t->db = db;
    t->source = source;
    t->refs = 1;
    *ret = t;
    return 0;
}

struct traces *traces_ref(struct traces *t)
{
    t->refs++;
    return t;
}

static struct trace *trace_free(struct trace *trace)
{
    heads_done(&trace->heads);
    columns_close(trace->columns);
    closep(&trace->heads.fd);
    for (size_t i = 0; i < _GROUP_ORDER_MAX; i++)
        free(trace->groups[i]);
    free(trace);
    return NULL;
}

DEFINE_CLEANUP(struct trace *, trace_free)

struct traces *traces_unref(struct traces *t)
{
    if (!t || --t->refs > 0)
        return NULL;
    for (size_t i = 0; i < t->n; i++)
        trace_free(t->open[i]);
    if (t->source.free)
        t->source.free(t->source.arg);
    free(t->open);
    free(t);
    return NULL;
}

bool traces_many(const struct traces *t)
{
    return t->source.list != NULL;
}

bool traces_are_one(const struct traces *t)
{
    return t->source.origin != NULL;
}

enum { OF_TRACE_ID, OF_TRACE_RANK, OF_TRACE_INSTANCE, OF_TRACE_WORKER };

const char *traces_columns(const struct traces *t)
{
    return traces_are_one(t) ? ", trace_id integer, rank integer, instance text, worker text"
           : traces_many(t)  ? ", trace_id integer hidden"
                             : "";
}

void traces_result(const struct traces *t, int64_t id, int i, sqlite3_context *ctx)
{
    const struct sql_origin *origin = traces_are_one(t) ? t->source.origin(t->source.arg, id) : NULL;

    if (i == OF_TRACE_ID)
        sqlite3_result_int64(ctx, id);
    else if (i == OF_TRACE_RANK && origin && origin->rank != COLUMN_NULL)
        sqlite3_result_int64(ctx, origin->rank);
    else if (i >= OF_TRACE_INSTANCE && origin) /* NULL is null */
        sqlite3_result_text(ctx, i == OF_TRACE_INSTANCE ? origin->instance : origin->worker, -1,
                            SQLITE_TRANSIENT);
}

int traces_within(struct traces *t, int64_t min, int64_t max, int64_t **ret_ids, size_t *ret_n,
                  char **ret_error)
{
    size_t n = 0;
    int r;

    *ret_error = NULL;
    *ret_ids = NULL;
    *ret_n = 0;
    if (min > max)
        return 0;
    if (!traces_many(t) || min == max) {
        *ret_ids = malloc(sizeof(**ret_ids));
        if (!*ret_ids)
            return -ENOMEM;
        **ret_ids = traces_many(t) ? min : 0;
        *ret_n = 1;
        return 0;
    }
    r = t->source.list(t->source.arg, ret_ids, ret_n, ret_error);
    if (r < 0)
        return r;
    for (size_t i = 0; i < *ret_n; i++) {
        if ((*ret_ids)[i] >= min && (*ret_ids)[i] <= max)
            (*ret_ids)[n++] = (*ret_ids)[i];
    }
    *ret_n = n;
    return 0;
}

static _printf_(1, 2) char *trace_message(const char *format, ...)
{
    char *text;
    va_list ap;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    va_end(ap);
    return text;
}

static int trace_open(struct traces *t, int64_t id, struct trace **ret, char **ret_error)
{
    _cleanup_(trace_freep) struct trace *trace = calloc(1, sizeof(*trace));
    _cleanup_(freep) char *reason = NULL;
    _cleanup_(closep) int fd = -1;
    int r;

    if (!trace)
        return -ENOMEM;
    trace->id = id;
    trace->traces = t;
    trace->heads.fd = -1;
    r = t->source.open(t->source.arg, id, &fd, &trace->heads.fd, ret_error);
    if (r < 0)
        return r;
    r = fd < 0 && t->source.columns ? t->source.columns(t->source.arg, id, &trace->columns, &reason)
                                    : columns_open(fd, &trace->columns, &reason);
    if (r < 0) {
        *ret_error = trace_message("the columns of the trace cannot be used: %s; " MAKE_AGAIN,
                                   reason ? reason : strerror(-r));
        return r;
    }
    trace->heads.columns = trace->columns;
    *ret = TAKE_PTR(trace);
    return 0;
}

/* Closes the least recently used traces until at most `keep` unused ones are open. */
static void traces_close_idle(struct traces *t, size_t keep)
{
    for (;;) {
        size_t idle = 0, oldest = 0;

        for (size_t i = 0; i < t->n; i++) {
            if (t->open[i]->users == 0 && (idle++ == 0 || t->open[i]->last_used < t->open[oldest]->last_used))
                oldest = i;
        }
        if (idle <= keep)
            return;
        trace_free(t->open[oldest]);
        t->open[oldest] = t->open[--t->n];
    }
}

int traces_get(struct traces *t, int64_t id, struct trace **ret, char **ret_error)
{
    _cleanup_(trace_freep) struct trace *opened = NULL;
    struct trace *trace = NULL;
    int r;

    *ret_error = NULL;
    for (size_t i = 0; i < t->n && !trace; i++)
        trace = t->open[i]->id == id ? t->open[i] : NULL;
    if (!trace) {
        r = trace_open(t, id, &opened, ret_error);
        if (r == 0 && !ARRAY_RESERVE(t->open, t->cap, t->n + 1))
            r = -ENOMEM;
        if (r < 0)
            return r;
        trace = t->open[t->n++] = TAKE_PTR(opened);
    }
    trace->users++;
    trace->last_used = ++t->clock;
    *ret = trace;
    return 0;
}

void traces_put(struct traces *t, struct trace *trace)
{
    if (!trace)
        return;
    trace->users--;
    if (traces_many(t))
        traces_close_idle(t, TRACES_IDLE_MAX);
}

/* SQLite (before 3.41) has no function for this, but an interrupted connection runs no other statement. */
static bool is_interrupted(sqlite3 *db)
{
    sqlite3_stmt *probe = NULL;
    bool yes;

    if (sqlite3_prepare_v2(db, "select 1", -1, &probe, NULL) != SQLITE_OK)
        return false;
    yes = sqlite3_step(probe) == SQLITE_INTERRUPT;
    sqlite3_finalize(probe);
    return yes;
}

bool trace_look(const struct trace *trace)
{
    const struct traces *t = trace->traces;

    return (t->source.is_over && t->source.is_over(t->source.is_over_arg)) || is_interrupted(t->db);
}

struct trace_group_key {
    struct text first, second;
    uint32_t row;
};

/* A text without a pointer is no text, and comes first. */
static int compare_texts(struct text a, struct text b)
{
    int r;

    if (!a.p || !b.p)
        return !b.p - !a.p;
    r = memcmp(a.p, b.p, MIN(a.size, b.size));
    return r != 0 ? r : (a.size > b.size) - (a.size < b.size);
}

struct group_sort {
    const struct trace *trace;
    uint64_t steps;
    bool over;
};

/* If the statement must end, the order no longer matters, only that sorting ends soon. */
static int compare_group_keys(const void *a, const void *b, void *arg)
{
    const struct trace_group_key *x = a, *y = b;
    struct group_sort *s = arg;
    int r;

    s->over = s->over || trace_is_over(s->trace, s->steps++);
    if (s->over)
        return 0;
    r = compare_texts(x->first, y->first);
    if (r == 0)
        r = compare_texts(x->second, y->second);
    return r != 0 ? r : (x->row > y->row) - (x->row < y->row);
}

static struct text group_text(const struct columns *c, enum column column, uint64_t row)
{
    int64_t number = columns_get(c, column, row);

    return number == COLUMN_NULL ? (struct text){NULL, 0} : columns_text(c, number);
}

int trace_groups(struct trace *trace, enum group_order order, const uint32_t **ret)
{
    static const enum column columns[_GROUP_ORDER_MAX][2] = {
        [GROUPS_BY_NAME] = {COL_name_name, COL_name_category},
        [GROUPS_BY_CATEGORY] = {COL_name_category, COL_name_name},
    };
    _cleanup_(freep) struct trace_group_key *keys = NULL;
    _cleanup_(freep) uint32_t *rows = NULL;
    struct group_sort sorting = {.trace = trace};
    uint64_t n = columns_rows(trace->columns, TABLE_name);

    *ret = trace->groups[order];
    if (*ret)
        return SQLITE_OK;
    if (n >= UINT32_MAX)
        return SQLITE_TOOBIG;
    keys = malloc((n + 1) * sizeof(keys[0]));
    rows = malloc((n + 1) * sizeof(rows[0]));
    if (!keys || !rows)
        return SQLITE_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (trace_is_over(trace, i))
            return SQLITE_INTERRUPT;
        keys[i] = (struct trace_group_key){group_text(trace->columns, columns[order][0], i),
                                           group_text(trace->columns, columns[order][1], i), i};
    }
    qsort_r(keys, n, sizeof(keys[0]), compare_group_keys, &sorting);
    if (sorting.over)
        return SQLITE_INTERRUPT;
    for (uint32_t i = 0; i < n; i++)
        rows[i] = keys[i].row;
    *ret = trace->groups[order] = TAKE_PTR(rows);
    return SQLITE_OK;
}

char *trace_damage(const struct trace *trace)
{
    int64_t offset = columns_damage(trace->columns);

    if (offset < 0)
        return NULL;
    return trace_message("the columns of the trace are damaged at byte %" PRId64 "; " MAKE_AGAIN, offset);
}
