/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/mirror_query.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

/* Types of PostgreSQL whose texts are numbers of JSON (catalog/pg_type.dat). */
enum {
    TYPE_BOOL = 16,
    TYPE_INT8 = 20,
    TYPE_INT2 = 21,
    TYPE_INT4 = 23,
    TYPE_OID = 26,
    TYPE_FLOAT4 = 700,
    TYPE_FLOAT8 = 701,
    TYPE_NUMERIC = 1700,
};

#define VIEWS_OF_FLEET                                                                                       \
    "from information_schema.columns c join information_schema.views v using (table_schema, table_name) "    \
    "where table_schema = 'fleet' "

#define MIRROR_SCHEMA         "select table_name as view, column_name as column, data_type as type " VIEWS_OF_FLEET
#define MIRROR_SCHEMA_OF_VIEW MIRROR_SCHEMA "and table_name = $1 order by ordinal_position"

/* Commands of `profctl query` that the mirror has too. */
static const struct {
    const char *name, *sql;
} mirror_commands[] = {
    {".tables", "select distinct table_name as view " VIEWS_OF_FLEET "order by 1"},
    {".schema", MIRROR_SCHEMA "order by table_name, ordinal_position"},
};

/* TABLE of ".schema TABLE"; NULL: another statement. */
static char *mirror_schema_view(const char *sql)
{
    static const char blanks[] = " \t\r\n", command[] = ".schema";
    const char *name = sql + sizeof(command) - 1;

    if (!starts_with(sql, command) || !*name || !strchr(blanks, *name))
        return NULL;
    name += strspn(name, blanks);
    size_t length = strcspn(name, " \t\r\n;");
    return length > 0 && !name[length + strspn(name + length, " \t\r\n;")] ? xstrndup(name, length) : NULL;
}

struct mirror_rows {
    struct postgres *pg;
    struct problem p;
    char **names; /* of the columns: those of a row go with it */
    int n_names;
};

static void mirror_take_names(struct mirror_rows *rows)
{
    const PGresult *row = postgres_row(rows->pg);

    if (rows->names || !row)
        return;
    rows->n_names = PQnfields(row);
    rows->names = xcalloc((size_t)rows->n_names + 1, sizeof(*rows->names));
    for (int i = 0; i < rows->n_names; i++)
        rows->names[i] = xstrdup(PQfname(row, i));
}

static void mirror_rows_done(struct mirror_rows *rows)
{
    postgres_close(rows->pg);
    problem_done(&rows->p);
    for (int i = 0; i < rows->n_names; i++)
        free(rows->names[i]);
    free(rows->names);
}

static int mirror_step(void *arg)
{
    struct mirror_rows *rows = arg;
    int r = postgres_next(rows->pg, &rows->p);

    if (r >= 0)
        mirror_take_names(rows);
    return r > 0 ? SQLITE_ROW : r == 0 ? SQLITE_DONE : r == -EINTR ? SQLITE_INTERRUPT : SQLITE_ERROR;
}

static const PGresult *mirror_row(void *arg)
{
    return postgres_row(((struct mirror_rows *)arg)->pg);
}

static int mirror_count(void *arg)
{
    return ((struct mirror_rows *)arg)->n_names;
}

static const char *mirror_name(void *arg, int column)
{
    return ((struct mirror_rows *)arg)->names[column];
}

/* NaN and Infinity are no numbers of JSON. */
static enum result_type mirror_type(void *arg, int column)
{
    const char *text = PQgetvalue(mirror_row(arg), 0, column);

    switch (PQftype(mirror_row(arg), column)) {
    case TYPE_BOOL:
        return RESULT_NUMBER;
    case TYPE_INT8:
    case TYPE_INT2:
    case TYPE_INT4:
    case TYPE_OID:
    case TYPE_FLOAT4:
    case TYPE_FLOAT8:
    case TYPE_NUMERIC:
        return isdigit((unsigned char)text[*text == '-']) ? RESULT_NUMBER : RESULT_TEXT;
    default:
        return RESULT_TEXT;
    }
}

static char *mirror_text(void *arg, int column)
{
    const PGresult *row = mirror_row(arg);

    if (PQgetisnull(row, 0, column))
        return NULL;
    const char *text = PQgetvalue(row, 0, column);
    if (PQftype(row, column) == TYPE_BOOL)
        return xstrdup(*text == 't' ? "true" : "false");
    return xstrdup(text);
}

/* A statement that fails is no usage error: the exit status is that of a query of a trace. */
static int mirror_statement_fail(struct client *c, const struct problem *p)
{
    int status = client_fail(c, p);

    return status == EXIT_USAGE ? EXIT_FAILED : status;
}

static int mirror_fail(struct client *c, struct mirror_rows *rows, const struct mirror_query *q, int64_t n)
{
    _cleanup_(freep) char *printed = text_count(n, "row");
    char limit[UNIT_TEXT_MAX];

    fflush(c->out.file);
    if (rows->p.what && streq(rows->p.what, "interrupted"))
        return client_error(c, PROBLEM_UNSUPPORTED, NULL, "interrupted: %s printed", printed);
    if (rows->p.what && strstr(rows->p.what, "statement timeout"))
        return client_error(c, PROBLEM_UNSUPPORTED, "Pass a larger --time-limit.",
                            "the statement reached its time limit of %s: %s printed",
                            format_duration(limit, q->time_limit_ns), printed);
    if (rows->p.what && strstr(rows->p.what, "multiple commands"))
        problem_remedy(&rows->p, "Pass one statement at a time.");
    return mirror_statement_fail(c, &rows->p);
}

static int mirror_print(struct client *c, struct mirror_rows *rows, const struct mirror_query *q)
{
    const struct result_options options = {
        .format = c->format, .with_heading = !c->no_legend, .rows_max = q->rows_max};
    const struct result_source source = {.step = mirror_step,
                                         .count = mirror_count,
                                         .name = mirror_name,
                                         .type = mirror_type,
                                         .text = mirror_text,
                                         .arg = rows};
    int64_t begin_ns = mono_ns();
    char took[UNIT_TEXT_MAX];

    client_page(c);
    struct result_end end = result_print_source(&c->out, &options, &source);
    if (end.code != SQLITE_DONE && end.code != SQLITE_ROW)
        return mirror_fail(c, rows, q, end.rows);
    postgres_end(rows->pg);
    _cleanup_(freep) char *n = text_count(end.rows, "row");
    if (end.code == SQLITE_ROW)
        client_note(c, "the first %s; --limit leaves the others out", n);
    else if ((c->format == TABLE_FITTED || c->format == TABLE_WIDE) && !c->no_legend)
        client_note(c, "%s, %s", n, format_duration(took, mono_ns() - begin_ns));
    return EXIT_DONE;
}

int mirror_query_run(struct client *c, const struct mirror_query *q)
{
    _cleanup_(mirror_rows_done) struct mirror_rows rows = {0};
    _cleanup_(freep) char *view = mirror_schema_view(q->sql);
    const char *sql = view ? MIRROR_SCHEMA_OF_VIEW : q->sql, *values[] = {view};

    for (size_t i = 0; i < ARRAY_SIZE(mirror_commands); i++)
        if (streq(sql, mirror_commands[i].name))
            sql = mirror_commands[i].sql;
    _cleanup_(freep) char *begin = xasprintf(
        "begin read only; set local search_path = fleet, pg_catalog; set local statement_timeout = %" PRId64,
        MIN((q->time_limit_ns + NS_PER_MS - 1) / NS_PER_MS, (int64_t)INT32_MAX));
    int r = postgres_open(q->address, &rows.pg, &rows.p);
    if (r >= 0) {
        postgres_set_limit(rows.pg, q->time_limit_ns);
        r = postgres_run(rows.pg, begin, &rows.p);
    }
    if (r >= 0)
        r = postgres_begin(rows.pg, sql, view ? 1 : 0, values, &rows.p);
    return r < 0 ? mirror_statement_fail(c, &rows.p) : mirror_print(c, &rows, q);
}
