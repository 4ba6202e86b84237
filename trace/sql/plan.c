/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/plan.h"

#include <math.h>

/*
 * A plan is two characters for each value, in their order: the column, and how it is compared. The number
 * says the order of the rows.
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

static char sign_of(unsigned char op)
{
    for (size_t i = 0; i < ARRAY_SIZE(comparisons); i++) {
        if (comparisons[i].op == op)
            return comparisons[i].sign;
    }
    return '\0';
}

static int op_of(char sign)
{
    for (size_t i = 0; i < ARRAY_SIZE(comparisons); i++) {
        if (comparisons[i].sign == sign)
            return comparisons[i].op;
    }
    return 0;
}

/* How many times fewer rows a constraint leaves, as a guess. */
static const struct {
    double equal, compared;
} selectivity[_SEEK_MAX] = {
    [SEEK_ROW] = {1e6, 4},     [SEEK_SLICE] = {1e6, 4},       [SEEK_TS] = {1e5, 4},
    [SEEK_TRACK] = {64, 0},    [SEEK_DESCENDANTS] = {1e4, 0}, [SEEK_ANCESTORS] = {1e5, 0},
    [SEEK_ARG_SET] = {1e5, 4}, [SEEK_TRACE] = {1000, 4},      [SEEK_NAME] = {1000, 0},
    [SEEK_CATEGORY] = {8, 0},
};
#define ROWS_GUESS 1e6

static bool is_text(enum seek seek)
{
    return seek >= _SEEK_NUMBER_MAX;
}

/* column: -1 for SQLite's number of the row, which in a catalog is made of two. */
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
    uint64_t fixed; /* columns that have one value in all rows that are handed out */
    double rows;
    int n;
    char text[2 * SQL_COLUMNS_MAX * 2 + 1];
};

static bool is_relation(enum seek seek)
{
    return seek == SEEK_DESCENDANTS || seek == SEEK_ANCESTORS;
}

static bool can_use(const struct planning *p, int i, enum seek seek, char sign)
{
    if (!p->info->aConstraint[i].usable || seek == SEEK_NONE || !sign)
        return false;
    if (p->table->whole && seek != SEEK_TRACE && !is_relation(seek))
        return false;
    if (sign == '=') {
        /* A second text for the same column is left to SQLite. */
        return !is_text(seek) ||
               (!p->equal[seek] && strcmp(sqlite3_vtab_collation(p->info, i), "BINARY") == 0);
    }
    return selectivity[seek].compared > 0;
}

/* Without a slice to begin with, a table of relatives has no rows. */
static bool lacks_argument(const struct planning *p)
{
    for (size_t i = 0; i < p->table->n_columns; i++) {
        enum seek seek = p->table->columns[i].seek;

        if (is_relation(seek) && !p->equal[seek])
            return true;
    }
    return false;
}

static void use(struct planning *p, int i, enum seek seek, char sign)
{
    int column = p->info->aConstraint[i].iColumn;
    bool list = is_text(seek) && sqlite3_vtab_in(p->info, i, 1);

    /* SQLite's own name for the row's number has no place in the table of columns. */
    p->text[p->n * 2] = (char)(PLAN_COLUMN_FIRST + (column < 0 ? SQL_COLUMNS_MAX - 1 : column));
    p->text[p->n * 2 + 1] = list ? SIGN_IN : sign;
    p->info->aConstraintUsage[i].argvIndex = ++p->n;
    /* A slice may have no arguments: SQLite looks again. */
    p->info->aConstraintUsage[i].omit = seek != SEEK_ARG_SET;
    if (sign == '=') {
        p->equal[seek] = true;
        if (!list && column >= 0)
            p->fixed |= UINT64_C(1) << column;
    }
    p->rows /= sign == '=' ? selectivity[seek].equal : selectivity[seek].compared;
}

/* Whether the rows can be handed out in the order asked for, and which that is. */
static enum order order_for(struct planning *p)
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
        /* Each walk of a whole table has a direction of its own. */
        bool fixed = p->table->whole && (info->aOrderBy[0].desc || p->equal[SEEK_ANCESTORS]);

        return (p->equal[SEEK_NAME] && !p->equal[SEEK_TRACK]) || fixed ? ORDER_NONE : order;
    }
    /* Only slices have groups, and no other way to the rows may be the shorter one. */
    if (p->table->rows != TABLE_slice || p->table->whole || p->equal[SEEK_ROW] || p->equal[SEEK_TRACK])
        return ORDER_NONE;
    return order == ORDER_CATEGORY && p->equal[SEEK_NAME] ? ORDER_NONE : order;
}

/* Whether rows that agree in what is ordered by are the same to the query. */
static bool one_of_each_will_do(const struct planning *p)
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
        char sign = sign_of(info->aConstraint[i].op);

        if (can_use(&p, i, seek, sign))
            use(&p, i, seek, sign);
    }
    if (lacks_argument(&p))
        return SQLITE_CONSTRAINT;

    order = order_for(&p);
    info->orderByConsumed = order != ORDER_NONE;
    info->idxNum = (int)order;
    if (order != ORDER_NONE && info->aOrderBy[0].desc)
        info->idxNum |= PLAN_DESCENDING;
    if ((order == ORDER_NAME || order == ORDER_CATEGORY) && one_of_each_will_do(&p))
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

        if (is_text(seek)) {
            r = texts_read(seek == SEEK_NAME ? &ret->names : &ret->categories, sign, values[i]);
            if (r != SQLITE_OK)
                return r;
            continue;
        }
        ret->given[seek] = true;
        (seek == SEEK_TRACE ? range_narrow_trace : range_narrow)(&ret->numbers[seek], op_of(sign), values[i]);
    }
    return SQLITE_OK;
}
