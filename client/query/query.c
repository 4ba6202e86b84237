/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/query.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/query/named_queries.h"
#include "client/traces/columns_cache.h"
#include "trace/sql/query.h"
#include "trace/sql/summarize.h"
#include <ctype.h>
#include <errno.h>

/* -- Statements ----------------------------------------------------------------------------------------- */

/* Excerpt of a line with an error: maximum bytes before the position, and in total. */
#define EXCERPT_BEFORE 48
#define EXCERPT_BYTES  76

/* A position in a text. */
struct sql_position {
    const char *text;
    size_t offset;
};

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The line with the position and a caret below it; hint follows the caret. */
static char *statement_excerpt(struct sql_position at, const char *hint)
{
    const char *position = at.text + at.offset, *begin = position, *end = position + strcspn(position, "\n");

    while (begin > at.text && begin[-1] != '\n')
        begin--;
    const char *line_begin = begin, *line_end = end;
    while (begin < position && (begin < position - EXCERPT_BEFORE || is_continuation(*begin)))
        begin++;
    while (end > begin + EXCERPT_BYTES || (end > position && is_continuation(*end)))
        end--;
    _cleanup_(freep) char *line = xasprintf("%s%.*s%s", begin > line_begin ? "..." : "", (int)(end - begin),
                                            begin, end < line_end ? "..." : "");
    _cleanup_(freep) char *before =
        xasprintf("%s%.*s", begin > line_begin ? "..." : "", (int)(position - begin), begin);
    for (char *p = line; *p; p++)
        if (isspace((unsigned char)*p))
            *p = ' ';
    return xasprintf("  %s\n  %*s^%s%s", line, (int)text_columns(before), "", hint ? " " : "",
                     hint ? hint : "");
}

static unsigned sql_line_number(struct sql_position at)
{
    unsigned n = 1;

    for (size_t i = 0; i < at.offset; i++)
        n += at.text[i] == '\n';
    return n;
}

/* The unknown word in a message of SQLite; NULL: another error. */
static char *unknown_word(const char *message)
{
    static const char *const begins[] = {
        "no such column: ", "no such table: ", "no such function: ", "near \""};

    for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
        if (!starts_with(message, begins[i]))
            continue;
        const char *word = message + strlen(begins[i]), *dot = strrchr(word, '.');
        size_t n = strcspn(word, "\"");
        return xstrndup(dot && !word[n] ? dot + 1 : word, dot && !word[n] ? strlen(dot + 1) : n);
    }
    return NULL;
}

static char *statement_suggest(const struct query *q, const char *message)
{
    _cleanup_(freep) char *word = unknown_word(message);
    const char *name = word ? nearest_name(word, q->schema->words, q->schema->n_words) : NULL;
    /* A known word is only in the wrong position. */
    return name && strcasecmp(name, word) != 0 ? xasprintf("did you mean %s?", name) : NULL;
}

/* The position of the last error; if it is unknown, the beginning of its statement. */
static struct sql_position statement_error_position(const struct query *q, struct sql_position statement)
{
    int offset = sqlite3_error_offset(q->db);
    const char *begin = statement.text + statement.offset;

    statement.offset += offset >= 0 ? (size_t)offset : strspn(begin, " \t\r\n");
    return statement;
}

/* INCLUDE PERFETTO MODULE, CREATE PERFETTO TABLE: only trace_processor supports these. */
static bool is_perfetto_sql(const char *sql)
{
    const char *begin = sql + sql_blank(sql), *second = begin + strcspn(begin, " \t\r\n");

    second += strspn(second, " \t\r\n");
    return strncasecmp(second, "PERFETTO", strlen("PERFETTO")) == 0 &&
           (strncasecmp(begin, "INCLUDE", strlen("INCLUDE")) == 0 ||
            strncasecmp(begin, "CREATE", strlen("CREATE")) == 0);
}

static void statement_explain(const struct query *q, struct sql_position at, struct problem *p)
{
    _cleanup_(freep) char *hint = statement_suggest(q, sqlite3_errmsg(q->db));

    if (strstr(sqlite3_errmsg(q->db), "may not be modified")) {
        problem_remedy(p, "A trace can only be read: use SELECT.");
    } else if (streq(sqlite3_errmsg(q->db), "incomplete input")) {
        problem_remedy(
            p, "Complete the statement: the SQL ends before it does, such as at an open parenthesis.");
    } else if (sqlite3_error_offset(q->db) >= 0) {
        _cleanup_(freep) char *lines = statement_excerpt(at, hint);
        problem_remedy(
            p, "%s%s", lines,
            hint ? ""
                 : "\nThe SQL is that of SQLite; .schema lists tables and columns, docs/sql.md describes "
                   "them.");
    } else if (hint) {
        problem_remedy(p, "%c%s", toupper((unsigned char)*hint), hint + 1);
    } else if (strstr(sqlite3_errmsg(q->db), "no such table")) {
        problem_remedy(p, ".tables lists the tables: profctl query %s .tables", q->name);
    }
}

/* "q.sql:3: " if the text is from a file. */
static char *sql_line_prefix(const char *origin, unsigned line)
{
    return origin ? xasprintf("%s:%u: ", origin, line) : xstrdup("");
}

static int statement_fail(struct query *q, int code, struct sql_position statement, const char *origin)
{
    _cleanup_(problem_done) struct problem p = {0};
    char limit[UNIT_TEXT_MAX];
    struct sql_position at = statement_error_position(q, statement);
    _cleanup_(freep) char *where = sql_line_prefix(origin, sql_line_number(at));

    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        /* The parent reports it, as for a killed child. */
        q->bounded->was_ended = true;
        return EXIT_FAILED;
    case SQLITE_TOOBIG:
        problem_remedy(&p, "A value holds at most %s.",
                       format_size(limit, sqlite3_limit(q->db, SQLITE_LIMIT_LENGTH, -1)));
        break;
    case SQLITE_AUTH:
        problem_remedy(&p, "A trace can only be read: no ATTACH, no extensions, nothing that writes.");
        break;
    case SQLITE_NOMEM:
        problem_set(&p, -ENOMEM, PROBLEM_UNSUPPORTED, "%sa statement needs more than %s of memory", where,
                    format_size(limit, STATEMENT_BYTES_MAX));
        problem_remedy(&p, "Ask for fewer rows, or sort and group fewer of them.");
        break;
    case SQLITE_CORRUPT:
        if (!q->trace || !q->trace->cache_key)
            break;
        columns_cache_drop(q->trace->cache_key);
        problem_remedy(&p, "The damaged columns in the cache were deleted: run the query again.");
        break;
    default:
        if (strstr(sqlite3_errmsg(q->db), "pattern too complex"))
            problem_remedy(&p, "A pattern has at most %d bytes.",
                           sqlite3_limit(q->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, -1));
        else if (is_perfetto_sql(statement.text + statement.offset))
            problem_remedy(&p, "Modules of Perfetto are not available; see docs/sql.md.");
        else
            statement_explain(q, at, &p);
        break;
    }
    problem_set(&p, -EINVAL, PROBLEM_UNSUPPORTED, "%s%s", where, sqlite3_errmsg(q->db));
    bounded_flush(q->bounded, q->c->out.file);
    return client_fail(q->c, &p);
}

static void statement_note_rows(struct query *q, struct result_end end, int64_t begin_ns)
{
    char took[UNIT_TEXT_MAX];
    _cleanup_(freep) char *rows = text_count(end.rows, "row");

    if (bounded_flush(q->bounded, q->c->out.file) < 0)
        return;
    if (end.code == SQLITE_ROW)
        client_note(q->c, "the first %s; --limit leaves the others out", rows);
    else if ((q->result.format == TABLE_FITTED || q->result.format == TABLE_WIDE) && q->result.with_heading)
        client_note(q->c, "%s, %s", rows, format_duration(took, mono_ns() - begin_ns));
}

/* From sums where these give the same rows. If that fails before its first row, the statement itself is run. */
static struct result_end statement_print(struct query *q, sqlite3_stmt *statement)
{
    sqlite3_stmt *faster = sql_prepare_faster(q->db, statement);
    struct result_end end = {.code = SQLITE_ERROR};

    if (faster)
        end = result_print(&q->c->out, &q->result, faster);
    sqlite3_finalize(faster);
    if (end.rows > 0 || end.code == SQLITE_DONE || end.code == SQLITE_ROW || end.code == SQLITE_INTERRUPT)
        return end;
    return result_print(&q->c->out, &q->result, statement);
}

/* One statement; *ret_tail: the text after it. */
static int statement_run(struct query *q, struct sql_position at, const char *origin, const char **ret_tail)
{
    int64_t begin_ns = mono_ns();
    sqlite3_stmt *statement = NULL;

    bounded_begin(q->bounded, sql_line_number(statement_error_position(q, at)));
    int code = sqlite3_prepare_v2(q->db, at.text + at.offset, -1, &statement, ret_tail);
    if (code != SQLITE_OK)
        return statement_fail(q, code, at, origin);
    if (!statement)
        return EXIT_DONE;
    struct result_end end = statement_print(q, statement);
    int status = EXIT_DONE;
    if (end.code != SQLITE_DONE && end.code != SQLITE_ROW)
        status = statement_fail(q, end.code, at, origin);
    else if (sqlite3_column_count(statement) > 0)
        statement_note_rows(q, end, begin_ns);
    sqlite3_finalize(statement);
    return status;
}

size_t sql_blank(const char *sql)
{
    const char *p = sql;

    for (;;) {
        const char *end = starts_with(p, "/*") ? strstr(p + 2, "*/") : NULL;
        size_t space = strspn(p, " \t\r\n\f;");
        if (space > 0)
            p += space;
        else if (end)
            p = end + 2;
        else if (starts_with(p, "--"))
            p += strcspn(p, "\n");
        else
            return (size_t)(p - sql);
    }
}

int query_statements(struct query *q, const char *sql, const char *origin)
{
    struct sql_position at = {.text = sql};
    int status = EXIT_DONE;

    while (status == EXIT_DONE && !q->is_over && !ferror(q->c->out.file)) {
        const char *begin = sql + at.offset + sql_blank(sql + at.offset), *tail = NULL;
        if (!*begin)
            break;
        if (*begin == '.') {
            tail = begin + strcspn(begin, "\n");
            _cleanup_(freep) char *line = xstrndup(begin, (size_t)(tail - begin));
            status = command_run(q, line);
        } else {
            status = statement_run(q, at, origin, &tail);
        }
        at.offset = tail ? (size_t)(tail - sql) : at.offset;
    }
    return status;
}

/* -- The child and its parent ------------------------------------------------------------------------- */

struct query_text {
    struct query *q;
    const char *sql, *origin;
};

/* Reports rows that could not be written, as only this process knows the error. */
static int finish_output(struct query *q, int status)
{
    int r = bounded_flush(q->bounded, q->c->out.file);

    if (r == 0 || r == -EPIPE)
        return status;
    return client_error(q->c, PROBLEM_STORAGE, NULL, "cannot write to stdout: %s", strerror(-r));
}

/* In the child. */
static int run_text(void *arg)
{
    const struct query_text *t = arg;
    struct screen *out = &t->q->c->out;
    bool is_terminal = isatty(STDOUT_FILENO);

    out->paged_height = screen_height(out);
    out->paged_width = screen_width(out);
    out->file = bounded_output(t->q->bounded, is_terminal);
    if (!out->file)
        return EXIT_FAILED;
    int status = query_statements(t->q, t->sql, t->origin);
    t->q->bounded->wants_quit = t->q->is_over;
    return finish_output(t->q, status);
}

static int explain_end(const struct query *q, const char *origin, const struct bounded_end *end)
{
    _cleanup_(freep) char *where = sql_line_prefix(origin, q->bounded->line),
                          *rows = text_count(end->rows, "row");
    char limit[UNIT_TEXT_MAX];

    if (end->how == BOUNDED_LATE)
        return client_error(q->c, PROBLEM_UNSUPPORTED, "Pass a larger --time-limit.",
                            "%sthe statement reached its time limit of %s: %s printed", where,
                            format_duration(limit, q->bounded->time_limit_ns), rows);
    if (end->how == BOUNDED_DIED)
        return client_error(q->c, PROBLEM_INTERNAL,
                            "It may have needed more memory than this machine or its own limit allows.",
                            "%sthe process of the statement was killed by SIG%s: %s printed", where,
                            sigabbrev_np(end->status), rows);
    /* A terminal prints Ctrl-C before the message. */
    if (q->c->err.is_terminal)
        fputc('\n', q->c->err.file);
    return client_error(q->c, PROBLEM_UNSUPPORTED, NULL, "interrupted: %s printed", rows);
}

int query_run(struct query *q, const char *sql, const char *origin, int *ret_signal)
{
    struct bounded_end end;
    int r = bounded_run(q->bounded, run_text, &(struct query_text){q, sql, origin}, &end);

    *ret_signal = 0;
    if (r < 0)
        return client_error(q->c, PROBLEM_INTERNAL, NULL, "cannot start a process for the statement: %s",
                            strerror(-r));
    q->is_over = q->bounded->wants_quit;
    *ret_signal = end.signal;
    return end.how == BOUNDED_DONE ? end.status : explain_end(q, origin, &end);
}

/* -- Commands ------------------------------------------------------------------------------------------- */

static void print_table_columns(struct query *q, const struct schema_table *t)
{
    static const struct table_column columns[] = {{"COLUMN", 0}, {"TYPE", 0}};
    _cleanup_(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns), true);

    for (size_t i = 0; i < t->n_columns; i++)
        table_add(table, (const char *const[]){t->columns[i], t->types[i]});
    table_print(table, &q->c->out);
}

static void print_table_line(struct query *q, const struct schema_table *t)
{
    const struct screen *out = &q->c->out;
    _cleanup_(freep) char *text = xasprintf("%s(", t->name);

    for (size_t i = 0; i < t->n_columns; i++)
        append_str(&text, "%s%s", i > 0 ? ", " : "", t->columns[i]);
    append_str(&text, ")");
    _cleanup_(freep) char *wrapped = text_wrap(text, 4, screen_text_width(out));
    fprintf(out->file, "%s\n", wrapped);
}

static int command_schema(struct query *q, const char *word)
{
    const struct schema_table *t = *word ? schema_find(q->schema, word) : NULL;

    if (*word && !t)
        return client_refuse(q->c, ".tables lists the tables.", "there is no table %s", word);
    if (t)
        print_table_columns(q, t);
    for (size_t i = 0; !t && i < q->schema->n_tables; i++)
        print_table_line(q, &q->schema->tables[i]);
    return EXIT_DONE;
}

static int command_tables(struct query *q, const char *word)
{
    for (size_t i = 0; i < q->schema->n_tables; i++)
        fprintf(q->c->out.file, "%s\n", q->schema->tables[i].name);
    return EXIT_DONE;
}

static int command_named(struct query *q, const char *word)
{
    const struct named_query *n = *word ? named_query_find(word) : NULL;

    if (n)
        return query_statements(q, n->sql, NULL);
    if (!*word) {
        _cleanup_(table_freep) struct table *table =
            table_new(named_query_columns, N_NAMED_QUERY_COLUMNS, true);
        named_queries_add(table);
        table_print(table, &q->c->out);
        return EXIT_DONE;
    }
    _cleanup_(freep) char *remedy = named_query_remedy(word, ".named lists the named queries.");
    return client_refuse(q->c, remedy, "there is no query named %s", word);
}

static int command_quit(struct query *q, const char *word)
{
    q->is_over = true;
    return EXIT_DONE;
}

static int command_help(struct query *q, const char *word);

static const struct query_command {
    const char *name, *word, *about;
    int (*run)(struct query *q, const char *word);
} command_table[] = {
    {".schema", "[TABLE]", "columns of a table, or of all", command_schema},
    {".tables", "", "tables", command_tables},
    {".named", "[NAME]", "run a query that has a name, or list them", command_named},
    {".help", "", "this text", command_help},
    {".quit", "", "leave, as Ctrl-D does", command_quit},
};

_Static_assert(ARRAY_SIZE(command_table) <= COMMANDS_MAX, "completion has room for them");

static int command_help(struct query *q, const char *word)
{
    FILE *out = q->c->out.file;

    fputs("SQL runs at ';'. Ctrl-C ends a statement, Tab completes a name.\n", out);
    for (size_t i = 0; i < ARRAY_SIZE(command_table); i++) {
        _cleanup_(freep) char *usage = xasprintf("%s %s", command_table[i].name, command_table[i].word);
        fprintf(out, "  %-18s%s\n", usage, command_table[i].about);
    }
    return EXIT_DONE;
}

size_t command_names(const char **ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(command_table); i++)
        ret[i] = command_table[i].name;
    return ARRAY_SIZE(command_table);
}

int command_run(struct query *q, const char *line)
{
    static const char gap[] = " \t\r;";
    size_t n = strcspn(line, gap);
    const char *begin = line + n + strspn(line + n, gap), *names[COMMANDS_MAX];
    _cleanup_(freep) char *name = xstrndup(line, n), *word = xstrndup(begin, strcspn(begin, gap));

    for (size_t i = 0; i < ARRAY_SIZE(command_table); i++)
        if (streq(command_table[i].name, name))
            return command_table[i].run(q, word);
    _cleanup_(freep) char *remedy =
        did_you_mean(name, names, command_names(names), ".help lists the commands.");
    return client_refuse(q->c, remedy, "there is no command %s", name);
}
