/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/sums.h"

#include "base/array.h"
#include "base/hash_table.h"
#include "trace/sql/plan.h"
#include "trace/sql/values.h"
#include "trace/sql/virtual_tables.h"
#include <errno.h>
#include <math.h>

/* Limits memory: a group takes about 100 bytes. */
#define GROUPS_MAX ((size_t)1 << 20)
/* A single key with values below this is looked up in an array. */
#define DIRECT_MAX ((uint64_t)1 << 20)
/* Less than a millisecond. */
#define BLOCKS_PER_LOOK 512
/* The total of all durations, without their signs, is an exact double below this. */
#define SUM_EXACT 0x1p53
/* A sum whose number of durations times the largest is below this has not wrapped. */
#define SUM_FITS 0x1p62

/* -- Columns -------------------------------------------------------------------------------------------- */

enum measure { MEASURE_DUR, MEASURE_TS, _MEASURE_MAX };

static const enum column measure_columns[_MEASURE_MAX] = {COL_slice_dur, COL_slice_ts};

enum sums_role { ROLE_KEY, ROLE_CONDITION, ROLE_SLICES, ROLE_COUNT, ROLE_SUM, ROLE_MIN, ROLE_MAX };

static const struct sums_column {
    const char *name;
    enum sums_role role;
    unsigned of; /* a column; for conditions and what follows, a measure */
} sums_columns[] = {
    {"name", ROLE_KEY, COL_slice_name},     {"category", ROLE_KEY, COL_slice_category},
    {"cat", ROLE_KEY, COL_slice_category},  {"track_id", ROLE_KEY, COL_slice_track},
    {"depth", ROLE_KEY, COL_slice_depth},   {"ts", ROLE_CONDITION, MEASURE_TS},
    {"dur", ROLE_CONDITION, MEASURE_DUR},   {"slice count", ROLE_SLICES, 0},
    {"dur count", ROLE_COUNT, MEASURE_DUR}, {"dur sum", ROLE_SUM, MEASURE_DUR},
    {"dur min", ROLE_MIN, MEASURE_DUR},     {"dur max", ROLE_MAX, MEASURE_DUR},
    {"ts min", ROLE_MIN, MEASURE_TS},       {"ts max", ROLE_MAX, MEASURE_TS},
};
#define SUMS_COLUMNS (int)ARRAY_SIZE(sums_columns)
#define KEYS_MAX     5

bool sums_has_table(const struct sql_table *table)
{
    return table->rows == TABLE_slice && !table->walks_all;
}

static int sums_declare(sqlite3 *db, const void *spec, const struct traces *traces)
{
    sqlite3_str *s = sqlite3_str_new(db);

    sqlite3_str_appendall(s, "create table x(");
    for (int i = 0; i < SUMS_COLUMNS; i++) {
        bool is_text = sums_columns[i].role == ROLE_KEY && column_specs[sums_columns[i].of].kind == KIND_TEXT;

        sqlite3_str_appendf(s, "%s\"%s\" %s", i > 0 ? ", " : "", sums_columns[i].name,
                            is_text ? "text" : "integer");
    }
    sqlite3_str_appendf(s, "%s)", traces_columns(traces));
    return vtab_declare(db, s);
}

/* -- Groups --------------------------------------------------------------------------------------------- */

struct sum {
    int64_t count, min, max;
    uint64_t sum; /* may wrap: sums_are_exact() finds out */
};

/* The groups of one trace. */
struct sums_groups {
    size_t n, cap_values, cap_slices, cap_sums[_MEASURE_MAX];
    int64_t *values; /* n_keys of each group */
    int64_t *slices;
    struct sum *sums[_MEASURE_MAX];
    struct hash_table numbers;
    uint32_t *direct; /* DIRECT_MAX numbers of groups + 1, by the only key; NULL: hashed */
};

struct sums_cursor {
    sqlite3_vtab_cursor base;
    /* Of the statement. */
    enum column keys[KEYS_MAX];
    size_t n_keys;
    bool needs[_MEASURE_MAX], needs_sum;
    struct range ranges[_MEASURE_MAX];
    bool given[_MEASURE_MAX];
    int64_t *ids; /* of its traces */
    size_t n_ids, next_id;
    double total; /* of the durations so far, without their signs */
    /* Of the current trace. */
    struct row row; /* number: of the group */
    struct numbers categories;
    struct sums_groups groups;
};

/* The values of up to BLOCK_ROWS slices. */
struct sums_slices {
    size_t n;
    int64_t keys[KEYS_MAX][BLOCK_ROWS], measures[_MEASURE_MAX][BLOCK_ROWS], categories[BLOCK_ROWS];
};

static void sums_groups_clear(struct sums_groups *g)
{
    g->n = 0;
    hash_table_done(&g->numbers);
    g->numbers = (struct hash_table){0};
    free(TAKE_PTR(g->direct));
}

static void sums_groups_done(struct sums_groups *g)
{
    sums_groups_clear(g);
    free(g->values);
    free(g->slices);
    for (size_t m = 0; m < _MEASURE_MAX; m++)
        free(g->sums[m]);
}

static int sums_groups_add(struct sums_cursor *c, const int64_t *values)
{
    struct sums_groups *g = &c->groups;

    if (g->n == GROUPS_MAX)
        return -E2BIG;
    if (!ARRAY_RESERVE(g->values, g->cap_values, (g->n + 1) * c->n_keys) ||
        !ARRAY_RESERVE(g->slices, g->cap_slices, g->n + 1))
        return -ENOMEM;
    for (size_t m = 0; m < _MEASURE_MAX; m++) {
        if (!ARRAY_RESERVE(g->sums[m], g->cap_sums[m], g->n + 1))
            return -ENOMEM;
        g->sums[m][g->n] = (struct sum){.min = INT64_MAX, .max = INT64_MIN};
    }
    for (size_t k = 0; k < c->n_keys; k++)
        g->values[g->n * c->n_keys + k] = values[k];
    g->slices[g->n++] = 0;
    return 0;
}

static bool sums_group_is(const void *cursor, size_t number, const void *key)
{
    const struct sums_cursor *c = cursor;
    const int64_t *a = c->groups.values + number * c->n_keys, *b = key;

    for (size_t k = 0; k < c->n_keys; k++) {
        if (a[k] != b[k])
            return false;
    }
    return true;
}

static int64_t sums_groups_find_hashed(struct sums_cursor *c, const int64_t *values)
{
    struct sums_groups *g = &c->groups;
    uint64_t hash = 0;
    int64_t number;

    for (size_t k = 0; k < c->n_keys; k++)
        hash = hash_words((uint64_t)values[k] ^ hash, k);
    number = hash_table_number(&g->numbers, hash, sums_group_is, c, values);
    if (number >= 0 && (size_t)number == g->n) {
        int r = sums_groups_add(c, values);
        return r < 0 ? r : number;
    }
    return number;
}

static int sums_groups_find_direct(struct sums_cursor *c, const struct sums_slices *s, uint32_t *ret)
{
    struct sums_groups *g = &c->groups;

    for (size_t i = 0; i < s->n; i++) {
        uint64_t value = s->keys[0][i] == COLUMN_NULL ? DIRECT_MAX : (uint64_t)s->keys[0][i];

        if (g->direct[value] == 0) {
            int r = sums_groups_add(c, &s->keys[0][i]);
            if (r < 0)
                return r;
            g->direct[value] = (uint32_t)g->n;
        }
        ret[i] = g->direct[value] - 1;
    }
    return 0;
}

/* The number of the group of each slice. */
static int sums_groups_find(struct sums_cursor *c, const struct sums_slices *s, uint32_t *ret)
{
    if (c->groups.direct)
        return sums_groups_find_direct(c, s, ret);
    for (size_t i = 0; i < s->n; i++) {
        int64_t values[KEYS_MAX], number;

        for (size_t k = 0; k < c->n_keys; k++)
            values[k] = s->keys[k][i];
        number = sums_groups_find_hashed(c, values);
        if (number < 0)
            return (int)number;
        ret[i] = (uint32_t)number;
    }
    return 0;
}

static inline void sum_add(struct sum *sum, int64_t value)
{
    if (value == COLUMN_NULL)
        return;
    sum->count++;
    sum->sum += (uint64_t)value;
    sum->min = MIN(sum->min, value);
    sum->max = MAX(sum->max, value);
}

static void sum_add_all(struct sum *ret, const int64_t *values, size_t n)
{
    struct sum sum = *ret;

    for (size_t i = 0; i < n; i++)
        sum_add(&sum, values[i]);
    *ret = sum;
}

static int sums_groups_take(struct sums_cursor *c, const struct sums_slices *s)
{
    struct sums_groups *g = &c->groups;
    uint32_t numbers[BLOCK_ROWS];
    int r;

    if (s->n == 0)
        return 0;
    if (c->n_keys == 0) {
        r = g->n == 0 ? sums_groups_add(c, NULL) : 0;
        for (size_t m = 0; m < _MEASURE_MAX && r == 0; m++)
            if (c->needs[m])
                sum_add_all(&g->sums[m][0], s->measures[m], s->n);
        if (r == 0)
            g->slices[0] += (int64_t)s->n;
        return r;
    }
    r = sums_groups_find(c, s, numbers);
    if (r < 0)
        return r;
    for (size_t i = 0; i < s->n; i++)
        g->slices[numbers[i]]++;
    for (size_t m = 0; m < _MEASURE_MAX; m++) {
        for (size_t i = 0; i < s->n && c->needs[m]; i++)
            sum_add(&g->sums[m][numbers[i]], s->measures[m][i]);
    }
    return 0;
}

/* -- The scan ------------------------------------------------------------------------------------------- */

static void sums_keep_slices(int64_t *values, const bool *keeps, size_t n)
{
    for (size_t i = 0, kept = 0; i < n; i++) {
        values[kept] = values[i];
        kept += keeps[i];
    }
}

/* Leaves out slices of other categories and durations. */
static void sums_filter_slices(const struct sums_cursor *c, struct sums_slices *s)
{
    struct range dur = c->ranges[MEASURE_DUR];
    bool keeps[BLOCK_ROWS];
    size_t n = 0;

    if (c->categories.any && !c->given[MEASURE_DUR])
        return;
    for (size_t i = 0; i < s->n; i++) {
        int64_t value = c->given[MEASURE_DUR] ? s->measures[MEASURE_DUR][i] : 0;

        keeps[i] =
            (!c->given[MEASURE_DUR] || (value != COLUMN_NULL && value >= dur.min && value <= dur.max)) &&
            (c->categories.any || numbers_have(&c->categories, s->categories[i]));
        n += keeps[i];
    }
    for (size_t k = 0; k < c->n_keys; k++)
        sums_keep_slices(s->keys[k], keeps, s->n);
    for (size_t m = 0; m < _MEASURE_MAX; m++)
        if (c->needs[m])
            sums_keep_slices(s->measures[m], keeps, s->n);
    s->n = n;
}

/* At most BLOCK_ROWS slices. */
static int sums_take_rows(struct sums_cursor *c, uint64_t first, size_t n)
{
    const struct columns *columns = c->row.trace->columns;
    struct sums_slices s;

    s.n = n;
    for (size_t k = 0; k < c->n_keys; k++)
        columns_values(columns, c->keys[k], first, n, s.keys[k]);
    for (size_t m = 0; m < _MEASURE_MAX; m++)
        if (c->needs[m])
            columns_values(columns, measure_columns[m], first, n, s.measures[m]);
    if (!c->categories.any)
        columns_values(columns, COL_slice_category, first, n, s.categories);
    sums_filter_slices(c, &s);
    return sums_groups_take(c, &s);
}

/* The first of [row, end) that may have one of these categories and durations. */
static uint64_t sums_skip(const struct sums_cursor *c, uint64_t row, uint64_t end)
{
    const struct columns *columns = c->row.trace->columns;
    const struct numbers *categories = &c->categories;
    struct range dur = c->ranges[MEASURE_DUR];

    if (!categories->any && categories->n == 0)
        return end;
    if (!categories->any)
        row = columns_next_in_range(columns, COL_slice_category, row, end, categories->items[0],
                                    categories->items[categories->n - 1]);
    if (c->given[MEASURE_DUR])
        row = columns_next_in_range(columns, COL_slice_dur, row, end, dur.min, dur.max);
    return row;
}

/* Whether SQLite gets the same sums in any order of the slices, as integers and as doubles. */
static bool sums_are_exact(struct sums_cursor *c)
{
    for (size_t i = 0; i < c->groups.n && c->needs_sum; i++) {
        const struct sum *s = &c->groups.sums[MEASURE_DUR][i];
        double largest = s->count > 0 ? fmax(fabs((double)s->min), fabs((double)s->max)) : 0;

        if (largest * (double)s->count >= SUM_FITS)
            return false;
        c->total += (double)(int64_t)s->sum;
        if (s->count > 0 && s->min < 0)
            c->total -= 2.0 * (double)s->min * (double)s->count;
    }
    return c->total < SUM_EXACT;
}

static bool sums_keys_are_direct(const struct sums_cursor *c)
{
    const struct columns *columns = c->row.trace->columns;

    if (c->n_keys != 1)
        return false;
    switch (c->keys[0]) {
    case COL_slice_name:
    case COL_slice_category:
        return columns_texts(columns) <= DIRECT_MAX;
    case COL_slice_track:
        return columns_rows(columns, TABLE_track) <= DIRECT_MAX;
    default:
        return false;
    }
}

static int sums_fail(struct sums_cursor *c, int error)
{
    return vtab_fail(c->base.pVtab, error,
                     error == -E2BIG ? strdup("the sums are too many, or inexact") : NULL);
}

static int sums_check_damage(struct sums_cursor *c)
{
    char *damage = trace_damage(c->row.trace);

    return damage ? vtab_fail(c->base.pVtab, -EBADMSG, damage) : SQLITE_OK;
}

static int sums_scan(struct sums_cursor *c)
{
    const struct columns *columns = c->row.trace->columns;
    struct range ts = c->ranges[MEASURE_TS];
    uint64_t first = 0, end = columns_rows(columns, TABLE_slice), blocks = 0;
    int r;

    if (c->given[MEASURE_TS] && ts.min > INT64_MIN)
        first = columns_lower_bound(columns, COL_slice_ts, ts.min);
    if (c->given[MEASURE_TS] && ts.max < INT64_MAX)
        end = ts.min > ts.max ? 0 : columns_lower_bound(columns, COL_slice_ts, ts.max + 1);
    sums_groups_clear(&c->groups);
    if (sums_keys_are_direct(c)) {
        c->groups.direct = calloc(DIRECT_MAX + 1, sizeof(c->groups.direct[0]));
        if (!c->groups.direct)
            return SQLITE_NOMEM;
    }
    for (uint64_t row = first; (row = sums_skip(c, row, end)) < end;) {
        size_t n = (size_t)MIN(end - row, BLOCK_ROWS - row % BLOCK_ROWS);

        if (blocks++ % BLOCKS_PER_LOOK == 0 && trace_look(c->row.trace))
            return SQLITE_INTERRUPT;
        r = sums_take_rows(c, row, n);
        if (r < 0)
            return sums_fail(c, r);
        row += n;
    }
    if (!sums_are_exact(c))
        return sums_fail(c, -E2BIG);
    return sums_check_damage(c);
}

/* -- The virtual table ---------------------------------------------------------------------------------- */

/* A plan is two characters for each value: the column, and SQLite's number of the comparison. */
#define PLAN_FIRST '0'
/* SQLite checks again what is beyond, which is impossible here. */
#define PLAN_VALUES_MAX 16

static bool sums_is_comparison(unsigned char op)
{
    return op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_GT ||
           op == SQLITE_INDEX_CONSTRAINT_LE || op == SQLITE_INDEX_CONSTRAINT_LT ||
           op == SQLITE_INDEX_CONSTRAINT_GE;
}

static int sums_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    bool many = traces_many(((struct vtab *)vtab)->traces);
    char plan[2 * PLAN_VALUES_MAX + 1] = "";
    int n = 0;

    for (int i = 0; i < info->nConstraint; i++) {
        int column = info->aConstraint[i].iColumn;
        bool is_range =
            (column >= 0 && column < SUMS_COLUMNS && sums_columns[column].role == ROLE_CONDITION) ||
            (many && column == SUMS_COLUMNS);

        if (!sums_is_comparison(info->aConstraint[i].op))
            continue;
        /* The slices with one name are found without a scan. */
        if (column == 0 && info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ)
            return SQLITE_CONSTRAINT;
        if (!is_range)
            continue;
        if (!info->aConstraint[i].usable || n == PLAN_VALUES_MAX)
            return SQLITE_CONSTRAINT;
        plan[2 * n] = (char)(PLAN_FIRST + column);
        plan[2 * n + 1] = (char)(PLAN_FIRST + info->aConstraint[i].op);
        info->aConstraintUsage[i].argvIndex = ++n;
        info->aConstraintUsage[i].omit = 1;
    }
    info->idxNum = (int)(info->colUsed & ((UINT64_C(1) << SUMS_COLUMNS) - 1));
    info->idxStr = sqlite3_mprintf("%s", plan);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int sums_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    struct vtab *v = (struct vtab *)vtab;
    struct sums_cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    c->row.table = v->spec;
    c->row.text_lifetime = traces_many(v->traces) ? SQLITE_TRANSIENT : SQLITE_STATIC;
    *ret = &c->base;
    return SQLITE_OK;
}

static struct traces *sums_traces(const struct sums_cursor *c)
{
    return ((const struct vtab *)c->base.pVtab)->traces;
}

static int sums_close(sqlite3_vtab_cursor *cursor)
{
    struct sums_cursor *c = (struct sums_cursor *)cursor;

    traces_put(sums_traces(c), c->row.trace);
    sums_groups_done(&c->groups);
    free(c->categories.items);
    free(c->ids);
    free(c);
    return SQLITE_OK;
}

/* Advances to the first group of the next trace that has one. */
static int sums_next_trace(struct sums_cursor *c)
{
    int r = SQLITE_OK;

    while (r == SQLITE_OK && c->row.number == c->groups.n && c->next_id < c->n_ids) {
        char *error = NULL;

        traces_put(sums_traces(c), TAKE_PTR(c->row.trace));
        c->row.number = 0;
        sums_groups_clear(&c->groups);
        r = traces_get(sums_traces(c), c->ids[c->next_id++], &c->row.trace, &error);
        if (r < 0)
            return vtab_fail(c->base.pVtab, r, error);
        c->categories.any = true;
        r = numbers_narrow(&c->categories, c->row.trace->columns, c->row.table->categories);
        if (r == SQLITE_OK)
            r = sums_scan(c);
    }
    return r;
}

/* What the statement needs of the columns that it uses. */
static void sums_set_needs(struct sums_cursor *c, unsigned used)
{
    c->n_keys = 0;
    c->needs_sum = false;
    for (size_t m = 0; m < _MEASURE_MAX; m++) {
        c->needs[m] = c->given[m] = false;
        c->ranges[m] = (struct range){INT64_MIN, INT64_MAX};
    }
    for (int i = 0; i < SUMS_COLUMNS; i++) {
        if (!(used >> i & 1) || sums_columns[i].role == ROLE_SLICES)
            continue;
        if (sums_columns[i].role == ROLE_KEY)
            c->keys[c->n_keys++] = (enum column)sums_columns[i].of;
        else if (sums_columns[i].role != ROLE_CONDITION || sums_columns[i].of != MEASURE_TS)
            c->needs[sums_columns[i].of] = true;
        c->needs_sum = c->needs_sum || sums_columns[i].role == ROLE_SUM;
    }
}

static int sums_filter(sqlite3_vtab_cursor *cursor, int used, const char *plan, int n, sqlite3_value **values)
{
    struct sums_cursor *c = (struct sums_cursor *)cursor;
    struct range ids = {INT64_MIN, INT64_MAX};
    char *error = NULL;
    int r;

    sums_set_needs(c, (unsigned)used);
    for (int i = 0; i < n; i++) {
        int column = plan[2 * i] - PLAN_FIRST, op = plan[2 * i + 1] - PLAN_FIRST;

        if (column == SUMS_COLUMNS) {
            range_narrow_trace(&ids, op, values[i]);
            continue;
        }
        c->given[sums_columns[column].of] = true;
        range_narrow(&c->ranges[sums_columns[column].of], op, values[i]);
    }
    sums_groups_clear(&c->groups);
    c->row.number = 0;
    c->next_id = c->n_ids = 0;
    c->total = 0;
    free(TAKE_PTR(c->ids));
    r = traces_within(sums_traces(c), ids.min, ids.max, &c->ids, &c->n_ids, &error);
    return r < 0 ? vtab_fail(cursor->pVtab, r, error) : sums_next_trace(c);
}

static int sums_next(sqlite3_vtab_cursor *cursor)
{
    struct sums_cursor *c = (struct sums_cursor *)cursor;

    c->row.number++;
    return sums_next_trace(c);
}

static int sums_eof(sqlite3_vtab_cursor *cursor)
{
    const struct sums_cursor *c = (struct sums_cursor *)cursor;

    return c->row.number == c->groups.n;
}

static int sums_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
    const struct row *row = &((struct sums_cursor *)cursor)->row;

    *ret = numbered_in(row->trace->id, row->number);
    return SQLITE_OK;
}

static int sums_result_key(struct sums_cursor *c, sqlite3_context *ctx, enum column column)
{
    int64_t value = COLUMN_NULL;

    for (size_t k = 0; k < c->n_keys; k++) {
        if (c->keys[k] == column)
            value = c->groups.values[c->row.number * c->n_keys + k];
    }
    if (value == COLUMN_NULL || result_value(&c->row, ctx, column, value))
        return SQLITE_OK;
    return sums_check_damage(c);
}

static int sums_column(sqlite3_vtab_cursor *cursor, sqlite3_context *ctx, int i)
{
    struct sums_cursor *c = (struct sums_cursor *)cursor;

    if (i >= SUMS_COLUMNS) {
        traces_result(sums_traces(c), c->row.trace->id, i - SUMS_COLUMNS, ctx);
        return SQLITE_OK;
    }
    enum sums_role role = sums_columns[i].role;
    if (role == ROLE_KEY)
        return sums_result_key(c, ctx, (enum column)sums_columns[i].of);
    if (role == ROLE_CONDITION)
        return vtab_fail(cursor->pVtab, -EINVAL, strdup("a sum has no value for each slice"));
    if (role == ROLE_SLICES) {
        sqlite3_result_int64(ctx, c->groups.slices[c->row.number]);
        return SQLITE_OK;
    }
    const struct sum *sum = &c->groups.sums[sums_columns[i].of][c->row.number];
    if (role == ROLE_COUNT || sum->count > 0)
        sqlite3_result_int64(ctx, role == ROLE_COUNT ? sum->count
                                  : role == ROLE_SUM ? (int64_t)sum->sum
                                  : role == ROLE_MIN ? sum->min
                                                     : sum->max);
    return SQLITE_OK;
}

static const sqlite3_module sums_methods = {
    .iVersion = 1,
    .xConnect = vtab_connect,
    .xBestIndex = sums_best_index,
    .xDisconnect = vtab_disconnect,
    .xOpen = sums_open,
    .xClose = sums_close,
    .xFilter = sums_filter,
    .xNext = sums_next,
    .xEof = sums_eof,
    .xColumn = sums_column,
    .xRowid = sums_rowid,
};

int sums_register(sqlite3 *db, struct traces *traces)
{
    int r = SQLITE_OK;

    for (size_t i = 0; i < sql_tables_count && r == SQLITE_OK; i++) {
        char name[64];

        if (!sums_has_table(&sql_tables[i]))
            continue;
        snprintf(name, sizeof(name), SUMS_PREFIX "%s", sql_tables[i].name);
        r = vtab_register(db, name, &sums_methods, &sql_tables[i], sums_declare, traces);
    }
    return r;
}
