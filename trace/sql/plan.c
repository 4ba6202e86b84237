/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/plan.h"

#include "base/array.h"
#include <errno.h>
#include <math.h>

/* -- Terms: ranges of numbers and lists of texts -------------------------------------------------------- */

#define INT64_LIMIT 0x1p63

static const struct range range_empty = {1, 0};

static void range_narrow_integer(struct range *r, int op, int64_t value)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_GT:
        if (value == INT64_MAX)
            *r = range_empty;
        else
            r->min = MAX(r->min, value + 1);
        break;
    case SQLITE_INDEX_CONSTRAINT_LT:
        if (value == INT64_MIN)
            *r = range_empty;
        else
            r->max = MIN(r->max, value - 1);
        break;
    case SQLITE_INDEX_CONSTRAINT_GE:
        r->min = MAX(r->min, value);
        break;
    case SQLITE_INDEX_CONSTRAINT_LE:
        r->max = MIN(r->max, value);
        break;
    default:
        r->min = MAX(r->min, value);
        r->max = MIN(r->max, value);
    }
}

static void range_narrow_real(struct range *r, int op, double value)
{
    bool lower = op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE;
    bool upper = op == SQLITE_INDEX_CONSTRAINT_LT || op == SQLITE_INDEX_CONSTRAINT_LE;

    if ((upper && value >= INT64_LIMIT) || (lower && value < -INT64_LIMIT))
        return; /* true of every integer */
    if (value >= INT64_LIMIT || value < -INT64_LIMIT || (floor(value) != value && !lower && !upper))
        *r = range_empty;
    else if (floor(value) == value)
        range_narrow_integer(r, op, (int64_t)value);
    else
        range_narrow_integer(r, lower ? SQLITE_INDEX_CONSTRAINT_GT : SQLITE_INDEX_CONSTRAINT_LT,
                             (int64_t)(lower ? floor(value) : ceil(value)));
}

void range_narrow(struct range *range, int op, sqlite3_value *value)
{
    /* As SQLite compares with a column of integers: a text that is a number counts as a number. */
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        range_narrow_integer(range, op, sqlite3_value_int64(value));
        break;
    case SQLITE_FLOAT:
        range_narrow_real(range, op, sqlite3_value_double(value));
        break;
    case SQLITE_NULL:
        *range = range_empty;
        break;
    default: /* every number is less than a text */
        if (op != SQLITE_INDEX_CONSTRAINT_LT && op != SQLITE_INDEX_CONSTRAINT_LE)
            *range = range_empty;
    }
}

static bool value_is_trace_ref(sqlite3_value *value, int64_t *ret)
{
    const char *text =
        sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
    char *end;

    if (!text || text[0] != 't' || text[1] < '0' || text[1] > '9')
        return false;
    errno = 0;
    *ret = strtoll(text + 1, &end, 10);
    return errno == 0 && *end == '\0';
}

void range_narrow_trace(struct range *range, int op, sqlite3_value *value)
{
    int64_t trace_id;

    if (value_is_trace_ref(value, &trace_id))
        range_narrow_integer(range, op, trace_id);
    else
        range_narrow(range, op, value);
}

int texts_add(struct texts *t, sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    const char *text;
    size_t size;

    /* These equal no text. */
    if (type == SQLITE_NULL || type == SQLITE_BLOB)
        return SQLITE_OK;
    text = (const char *)sqlite3_value_text(value);
    size = (size_t)sqlite3_value_bytes(value);
    if (!text)
        return SQLITE_NOMEM;
    if (!ARRAY_RESERVE(t->items, t->cap, t->n + 1) ||
        !ARRAY_RESERVE(t->text, t->bytes_cap, t->bytes + size + 1))
        return SQLITE_NOMEM;
    memcpy(t->text + t->bytes, text, size);
    t->items[t->n].at = t->bytes;
    t->items[t->n].size = size;
    t->n++;
    t->bytes += size;
    return SQLITE_OK;
}

void terms_reset(struct terms *terms)
{
    for (size_t i = 0; i < _SEEK_NUMBER_MAX; i++) {
        terms->numbers[i] = (struct range){INT64_MIN, INT64_MAX};
        terms->given[i] = false;
    }
    terms->names.any = terms->categories.any = true;
    terms->names.n = terms->names.bytes = terms->categories.n = terms->categories.bytes = 0;
}

void terms_done(struct terms *terms)
{
    free(terms->names.items);
    free(terms->names.text);
    free(terms->categories.items);
    free(terms->categories.text);
}

/* -- Numbers of texts in a trace ------------------------------------------------------------------------ */

/* Up to this many numbers, all are compared; more are searched. */
#define FEW_NUMBERS 8

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void sort_numbers(struct numbers *set)
{
    if (set->n > 1)
        qsort(set->items, set->n, sizeof(set->items[0]), compare_numbers);
}

bool numbers_have(const struct numbers *set, int64_t number)
{
    if (set->any)
        return true;
    if (set->n > FEW_NUMBERS)
        return bsearch(&number, set->items, set->n, sizeof(number), compare_numbers) != NULL;
    for (size_t i = 0; i < set->n; i++) {
        if (set->items[i] == number)
            return true;
    }
    return false;
}

int numbers_of_texts(struct numbers *set, const struct columns *c, const struct texts *texts)
{
    set->any = texts->any;
    set->n = 0;
    if (!ARRAY_RESERVE(set->items, set->cap, texts->n))
        return SQLITE_NOMEM;
    for (size_t i = 0; i < texts->n; i++) {
        int64_t number = columns_find_text(c, texts->text + texts->items[i].at, texts->items[i].size);

        if (number >= 0)
            set->items[set->n++] = number;
    }
    sort_numbers(set);
    return SQLITE_OK;
}

int numbers_narrow(struct numbers *set, const struct columns *c, const char *const *names)
{
    int64_t of_table[FEW_NUMBERS];
    size_t n = 0, kept = 0;

    if (!names)
        return SQLITE_OK;
    for (; *names && n < ARRAY_SIZE(of_table); names++) {
        int64_t number = columns_find_text(c, *names, strlen(*names));

        if (number >= 0)
            of_table[n++] = number;
    }
    if (set->any) {
        set->any = false;
        set->n = 0;
        if (!ARRAY_RESERVE(set->items, set->cap, n))
            return SQLITE_NOMEM;
        for (size_t i = 0; i < n; i++)
            set->items[set->n++] = of_table[i];
        sort_numbers(set);
        return SQLITE_OK;
    }
    for (size_t i = 0; i < set->n; i++) {
        if (numbers_have(&(struct numbers){.n = n, .items = of_table}, set->items[i]))
            set->items[kept++] = set->items[i];
    }
    set->n = kept;
    return SQLITE_OK;
}

/* -- Plans ---------------------------------------------------------------------------------------------- */

/*
 * A plan is two characters for each value, in their order: the column, and how it is compared. The number
 * is the order of the rows.
 */
#define PLAN_COLUMN_FIRST '0'
#define PLAN_ORDER_MASK   3
#define PLAN_DESCENDING   4
#define PLAN_ONE_OF_EACH  8

_Static_assert(PLAN_COLUMN_FIRST + SQL_COLUMNS_MAX < 127, "a column is a printable character");

static const struct {
    char sign;
    unsigned char op;
} comparisons[] = {
    {'=', SQLITE_INDEX_CONSTRAINT_EQ}, {'<', SQLITE_INDEX_CONSTRAINT_LT}, {'>', SQLITE_INDEX_CONSTRAINT_GT},
    {'l', SQLITE_INDEX_CONSTRAINT_LE}, {'g', SQLITE_INDEX_CONSTRAINT_GE},
};
#define SIGN_IN 'i' /* one of a list */

static char sign_of_op(unsigned char op)
{
    for (size_t i = 0; i < ARRAY_SIZE(comparisons); i++) {
        if (comparisons[i].op == op)
            return comparisons[i].sign;
    }
    return '\0';
}

static int op_of_sign(char sign)
{
    for (size_t i = 0; i < ARRAY_SIZE(comparisons); i++) {
        if (comparisons[i].sign == sign)
            return comparisons[i].op;
    }
    return 0;
}

/* A guess by what factor a constraint reduces the number of rows. */
static const struct {
    double equal, compared;
} selectivity[_SEEK_MAX] = {
    [SEEK_ROW] = {1e6, 4},     [SEEK_SLICE] = {1e6, 4},       [SEEK_TS] = {1e5, 4},
    [SEEK_TRACK] = {64, 0},    [SEEK_DESCENDANTS] = {1e4, 0}, [SEEK_ANCESTORS] = {1e5, 0},
    [SEEK_ARG_SET] = {1e5, 4}, [SEEK_TRACE] = {1000, 4},      [SEEK_NAME] = {1000, 0},
    [SEEK_CATEGORY] = {8, 0},
};
#define ROWS_GUESS 1e6

static bool seek_is_text(enum seek seek)
{
    return seek >= _SEEK_NUMBER_MAX;
}

/* column: -1 is the rowid of SQLite, which in a catalog consists of two numbers. */
static enum seek seek_of(const struct sql_table *table, bool many, int column)
{
    if (column < 0)
        return many ? SEEK_NONE : SEEK_ROW;
    if ((size_t)column == table->n_columns)
        return many ? SEEK_TRACE : SEEK_NONE;
    if ((size_t)column > table->n_columns)
        return SEEK_NONE;
    return table->columns[column].seek;
}

struct planning {
    const struct sql_table *table;
    sqlite3_index_info *info;
    bool many;
    bool equal[_SEEK_MAX];
    uint64_t fixed; /* columns that have one value in all returned rows */
    double rows;
    int n;
    char text[2 * SQL_COLUMNS_MAX * 2 + 1];
};

static bool seek_is_relation(enum seek seek)
{
    return seek == SEEK_DESCENDANTS || seek == SEEK_ANCESTORS;
}

static bool plan_can_use(const struct planning *p, int i, enum seek seek, char sign)
{
    if (!p->info->aConstraint[i].usable || seek == SEEK_NONE || !sign)
        return false;
    if (p->table->walks_all && seek != SEEK_TRACE && !seek_is_relation(seek))
        return false;
    if (sign == '=') {
        /* SQLite checks a second text for the same column. */
        return !seek_is_text(seek) ||
               (!p->equal[seek] && strcmp(sqlite3_vtab_collation(p->info, i), "BINARY") == 0);
    }
    return selectivity[seek].compared > 0;
}

/* Without a slice, a table of descendants or ancestors has no rows. */
static bool plan_lacks_argument(const struct planning *p)
{
    for (size_t i = 0; i < p->table->n_columns; i++) {
        enum seek seek = p->table->columns[i].seek;

        if (seek_is_relation(seek) && !p->equal[seek])
            return true;
    }
    return false;
}

static void plan_use(struct planning *p, int i, enum seek seek, char sign)
{
    int column = p->info->aConstraint[i].iColumn;
    bool list = seek_is_text(seek) && sqlite3_vtab_in(p->info, i, 1);

    /* The rowid of SQLite is not in the table of columns. */
    p->text[p->n * 2] = (char)(PLAN_COLUMN_FIRST + (column < 0 ? SQL_COLUMNS_MAX - 1 : column));
    p->text[p->n * 2 + 1] = list ? SIGN_IN : sign;
    p->info->aConstraintUsage[i].argvIndex = ++p->n;
    /* A slice may have no arguments: SQLite checks again. */
    p->info->aConstraintUsage[i].omit = seek != SEEK_ARG_SET;
    if (sign == '=') {
        p->equal[seek] = true;
        if (!list && column >= 0)
            p->fixed |= UINT64_C(1) << column;
    }
    p->rows /= sign == '=' ? selectivity[seek].equal : selectivity[seek].compared;
}

/* The requested order, if rows can be returned in it. */
static enum order plan_order(struct planning *p)
{
    static const enum order orders[_SEEK_MAX] = {
        [SEEK_ROW] = ORDER_ROWS,  [SEEK_SLICE] = ORDER_ROWS,        [SEEK_TS] = ORDER_ROWS,
        [SEEK_NAME] = ORDER_NAME, [SEEK_CATEGORY] = ORDER_CATEGORY,
    };
    const sqlite3_index_info *info = p->info;
    enum order order = ORDER_NONE;

    if (p->many && !p->equal[SEEK_TRACE])
        return ORDER_NONE;
    for (int i = 0; i < info->nOrderBy; i++) {
        enum order next = orders[seek_of(p->table, p->many, info->aOrderBy[i].iColumn)];

        if (next == ORDER_NONE || info->aOrderBy[i].desc != info->aOrderBy[0].desc ||
            (i > 0 && (next == ORDER_ROWS) != (order == ORDER_ROWS)))
            return ORDER_NONE;
        if (i == 0)
            order = next;
    }
    if (order == ORDER_ROWS) {
        /* A walk of a complete table has one direction. */
        bool fixed = p->table->walks_all && (info->aOrderBy[0].desc || p->equal[SEEK_ANCESTORS]);

        return (p->equal[SEEK_NAME] && !p->equal[SEEK_TRACK]) || fixed ? ORDER_NONE : order;
    }
    /* Only slices have groups; a constraint on row or track is a shorter way to the rows. */
    if (p->table->rows != TABLE_slice || p->table->walks_all || p->equal[SEEK_ROW] || p->equal[SEEK_TRACK])
        return ORDER_NONE;
    return order == ORDER_CATEGORY && p->equal[SEEK_NAME] ? ORDER_NONE : order;
}

/* Whether rows with equal keys of the order are equal for the query. */
static bool plan_needs_one_of_each(const struct planning *p)
{
    uint64_t seen = p->fixed;

    if (sqlite3_vtab_distinct(p->info) != 2)
        return false;
    for (int i = 0; i < p->info->nOrderBy; i++) {
        if (p->info->aOrderBy[i].iColumn >= 0)
            seen |= UINT64_C(1) << p->info->aOrderBy[i].iColumn;
    }
    return (p->info->colUsed & ~seen) == 0;
}

int plan_best_index(const struct sql_table *table, bool many, sqlite3_index_info *info)
{
    struct planning p = {.table = table, .info = info, .many = many, .rows = ROWS_GUESS};
    enum order order;

    for (int i = 0; i < info->nConstraint && p.n < 2 * SQL_COLUMNS_MAX; i++) {
        enum seek seek = seek_of(table, many, info->aConstraint[i].iColumn);
        char sign = sign_of_op(info->aConstraint[i].op);

        if (plan_can_use(&p, i, seek, sign))
            plan_use(&p, i, seek, sign);
    }
    if (plan_lacks_argument(&p))
        return SQLITE_CONSTRAINT;

    order = plan_order(&p);
    info->orderByConsumed = order != ORDER_NONE;
    info->idxNum = (int)order;
    if (order != ORDER_NONE && info->aOrderBy[0].desc)
        info->idxNum |= PLAN_DESCENDING;
    if ((order == ORDER_NAME || order == ORDER_CATEGORY) && plan_needs_one_of_each(&p))
        info->idxNum |= PLAN_ONE_OF_EACH;
    info->idxStr = sqlite3_mprintf("%s", p.text);
    info->needToFreeIdxStr = 1;
    if (!info->idxStr)
        return SQLITE_NOMEM;
    if (many && !p.equal[SEEK_TRACE])
        p.rows *= selectivity[SEEK_TRACE].equal;
    if (p.equal[SEEK_ROW] && (!many || p.equal[SEEK_TRACE]))
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    info->estimatedRows = (sqlite3_int64)fmax(p.rows, 1);
    info->estimatedCost = fmax(p.rows, 1);
    return SQLITE_OK;
}

static int texts_read(struct texts *t, char sign, sqlite3_value *value)
{
    sqlite3_value *item = NULL;
    int r;

    t->any = false;
    if (sign != SIGN_IN)
        return texts_add(t, value);
    for (r = sqlite3_vtab_in_first(value, &item); r == SQLITE_OK && item;
         r = sqlite3_vtab_in_next(value, &item)) {
        r = texts_add(t, item);
        if (r != SQLITE_OK)
            return r;
    }
    return r == SQLITE_DONE ? SQLITE_OK : r;
}

int plan_terms(const struct sql_table *table, int number, const char *text, sqlite3_value **values, int n,
               struct terms *ret)
{
    terms_reset(ret);
    ret->order = (enum order)(number & PLAN_ORDER_MASK);
    ret->descending = number & PLAN_DESCENDING;
    ret->one_of_each = number & PLAN_ONE_OF_EACH;
    for (int i = 0; i < n; i++) {
        int column = text[i * 2] - PLAN_COLUMN_FIRST;
        char sign = text[i * 2 + 1];
        enum seek seek = column == SQL_COLUMNS_MAX - 1 ? SEEK_ROW : seek_of(table, true, column);
        int r;

        if (seek_is_text(seek)) {
            r = texts_read(seek == SEEK_NAME ? &ret->names : &ret->categories, sign, values[i]);
            if (r != SQLITE_OK)
                return r;
            continue;
        }
        ret->given[seek] = true;
        (seek == SEEK_TRACE ? range_narrow_trace : range_narrow)(&ret->numbers[seek], op_of_sign(sign),
                                                                 values[i]);
    }
    return SQLITE_OK;
}
