/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/request_table.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "trace/parquet/rows.h"
#include "version.h"
#include <inttypes.h>

#define REF_MAX 24

/* A column of the file: its id stays forever, and new ones are added at the end. At offset: of a member of the row. */
struct request_column {
    struct parquet_column column;
    enum { OF_ORIGIN, OF_NUMBER, OF_TEXT } of;
    size_t offset;
};

enum {
    COLUMN_CATALOG,
    COLUMN_RUN,
    COLUMN_RUN_ID,
    COLUMN_SESSION,
    COLUMN_HOST,
    COLUMN_MODEL,
    COLUMN_INTENDED_AT,
    COLUMN_COLD
};

/* clang-format off */
#define ORIGIN(id, name, type)  {{name, id, type}, OF_ORIGIN, 0}
#define NUMBER(id, name)        {{#name, id, PARQUET_INT64}, OF_NUMBER, offsetof(struct request_row, name)}
#define TEXT(id, name)          {{#name, id, PARQUET_TEXT}, OF_TEXT, offsetof(struct request_row, name)}
static const struct request_column request_columns[] = {
    [COLUMN_CATALOG] = ORIGIN(1, "catalog", PARQUET_TEXT),
    [COLUMN_RUN] = ORIGIN(2, "run", PARQUET_TEXT),
    [COLUMN_RUN_ID] = ORIGIN(3, "run_id", PARQUET_INT64),
    [COLUMN_SESSION] = ORIGIN(4, "session", PARQUET_TEXT),
    [COLUMN_HOST] = ORIGIN(5, "host", PARQUET_TEXT),
    [COLUMN_MODEL] = ORIGIN(6, "model", PARQUET_TEXT),
    [COLUMN_INTENDED_AT] = ORIGIN(7, "intended_at", PARQUET_MICROS),
    [COLUMN_COLD] = ORIGIN(8, "cold", PARQUET_INT64),
    NUMBER(9, number),
    NUMBER(10, prompt),
    TEXT(11, target),
    NUMBER(12, intended_ns),
    NUMBER(13, sent_ns),
    NUMBER(14, first_ns),
    NUMBER(15, last_ns),
    NUMBER(16, end_ns),
    NUMBER(17, ttft_ns),
    NUMBER(18, tpot_ns),
    NUMBER(19, e2e_ns),
    NUMBER(20, lateness_ns),
    NUMBER(21, input_tokens),
    NUMBER(22, output_tokens),
    TEXT(23, input_source),
    TEXT(24, output_source),
    TEXT(25, outcome),
    NUMBER(26, status),
    TEXT(27, error),
    TEXT(28, gaps_us),
};
/* clang-format on */

struct request_table {
    const struct request_origin *origin;
    char run[REF_MAX], session[REF_MAX]; /* "r3"; "": none */
    struct parquet_column columns[ARRAY_SIZE(request_columns)];
    struct parquet_schema schema;
    struct parquet_rows *rows;
};

int request_table_new(const struct request_origin *origin, FILE *out, struct request_table **ret)
{
    static const struct parquet_fact facts[] = {{"profd.table", "request"}, {"profd.schema", "1"}};
    struct request_table *t = xcalloc(1, sizeof(*t));

    for (size_t i = 0; i < ARRAY_SIZE(request_columns); i++)
        t->columns[i] = request_columns[i].column;
    t->schema = (struct parquet_schema){.columns = t->columns,
                                        .n_columns = ARRAY_SIZE(request_columns),
                                        .facts = facts,
                                        .n_facts = ARRAY_SIZE(facts),
                                        .created_by = "profd version " PROFD_VERSION};
    t->origin = origin;
    snprintf(t->run, sizeof(t->run), "r%" PRId64, origin->run_id);
    if (origin->session_id != RECORD_NONE)
        snprintf(t->session, sizeof(t->session), "s%" PRId64, origin->session_id);
    int r = parquet_rows_new(&t->schema, parquet_file_sink, out, &t->rows);
    if (r < 0)
        request_table_free(t);
    else
        *ret = t;
    return r;
}

struct request_table *request_table_free(struct request_table *t)
{
    if (!t)
        return NULL;
    parquet_rows_free(t->rows);
    free(t);
    return NULL;
}

static void request_put_origin(struct request_table *t, const struct request_row *r)
{
    const struct request_origin *o = t->origin;
    int64_t at;

    parquet_rows_set_string(t->rows, COLUMN_CATALOG, o->catalog);
    parquet_rows_set_string(t->rows, COLUMN_RUN, t->run);
    parquet_rows_set_number(t->rows, COLUMN_RUN_ID, o->run_id);
    parquet_rows_set_string(t->rows, COLUMN_SESSION, t->session[0] ? t->session : NULL);
    parquet_rows_set_string(t->rows, COLUMN_HOST, o->host);
    parquet_rows_set_string(t->rows, COLUMN_MODEL, o->model);
    parquet_rows_set_number(t->rows, COLUMN_COLD, r->cold);
    if (o->started_at != RECORD_NONE && r->intended_ns != RECORD_NONE &&
        !__builtin_add_overflow(o->started_at, r->intended_ns, &at))
        parquet_rows_set_number(t->rows, COLUMN_INTENDED_AT, at / NS_PER_US - (at % NS_PER_US < 0));
}

int request_table_add(struct request_table *t, const struct request_row *r)
{
    request_put_origin(t, r);
    for (size_t i = 0; i < ARRAY_SIZE(request_columns); i++) {
        const void *member = (const char *)r + request_columns[i].offset;
        int64_t number;
        const char *text;
        if (request_columns[i].of == OF_NUMBER) {
            memcpy(&number, member, sizeof(number));
            if (number != RECORD_NONE)
                parquet_rows_set_number(t->rows, i, number);
        } else if (request_columns[i].of == OF_TEXT) {
            memcpy(&text, member, sizeof(text));
            parquet_rows_set_string(t->rows, i, text);
        }
    }
    return parquet_rows_end_row(t->rows);
}

int request_table_finish(struct request_table *t)
{
    return parquet_rows_finish(t->rows);
}
