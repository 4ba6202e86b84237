/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/terms.h"

#include <errno.h>
#include <math.h>

#define INT64_LIMIT 0x1p63

static const struct range nothing = {1, 0};

static void narrow_real(struct range *r, int op, double value)
{
    bool lower = op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE;
    bool upper = op == SQLITE_INDEX_CONSTRAINT_LT || op == SQLITE_INDEX_CONSTRAINT_LE;
    double whole = op == SQLITE_INDEX_CONSTRAINT_GT   ? floor(value) + 1
                   : op == SQLITE_INDEX_CONSTRAINT_LT ? ceil(value) - 1
                   : lower                            ? ceil(value)
                                                      : floor(value);

    if (op == SQLITE_INDEX_CONSTRAINT_EQ && (whole != value || fabs(value) >= INT64_LIMIT))
        *r = nothing;
    else if ((lower && whole >= INT64_LIMIT) || (upper && whole < -INT64_LIMIT))
        *r = nothing;
    else if (!(lower && whole < -INT64_LIMIT) && !(upper && whole >= INT64_LIMIT)) {
        if (!upper)
            r->min = MAX(r->min, (int64_t)whole);
        if (!lower)
            r->max = MIN(r->max, (int64_t)whole);
    }
}

static void narrow_integer(struct range *r, int op, int64_t value)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_GT:
        if (value == INT64_MAX)
            *r = nothing;
        else
            r->min = MAX(r->min, value + 1);
        break;
    case SQLITE_INDEX_CONSTRAINT_LT:
        if (value == INT64_MIN)
            *r = nothing;
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

void range_narrow(struct range *range, int op, sqlite3_value *value)
{
    /* As SQLite compares with a column of integers: a text that is a number counts as one. */
    switch (sqlite3_value_numeric_type(value)) {
    case SQLITE_INTEGER:
        narrow_integer(range, op, sqlite3_value_int64(value));
        break;
    case SQLITE_FLOAT:
        narrow_real(range, op, sqlite3_value_double(value));
        break;
    case SQLITE_NULL:
        *range = nothing;
        break;
    default: /* every number is less than a text */
        if (op != SQLITE_INDEX_CONSTRAINT_LT && op != SQLITE_INDEX_CONSTRAINT_LE)
            *range = nothing;
    }
}

static bool read_trace_ref(sqlite3_value *value, int64_t *ret)
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

    if (read_trace_ref(value, &trace_id))
        narrow_integer(range, op, trace_id);
    else
        range_narrow(range, op, value);
}

int texts_add(struct texts *t, sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    const char *text;
    size_t size;

    /* No text equals these. */
    if (type == SQLITE_NULL || type == SQLITE_BLOB)
        return SQLITE_OK;
    text = (const char *)sqlite3_value_text(value);
    size = (size_t)sqlite3_value_bytes(value);
    if (!text)
        return SQLITE_NOMEM;
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 4;
        void *items = realloc(t->items, cap * sizeof(t->items[0]));

        if (!items)
            return SQLITE_NOMEM;
        t->items = items;
        t->cap = cap;
    }
    if (!t->text || size > t->bytes_cap - t->bytes) {
        size_t cap = MAX(t->bytes_cap * 2, t->bytes + size + 1);
        char *grown = realloc(t->text, cap);

        if (!grown)
            return SQLITE_NOMEM;
        t->text = grown;
        t->bytes_cap = cap;
    }
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
