/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/query.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "client/door/follow.h"
#include "client/query/named_queries.h"
#include "client/query/repl.h"
#include "client/verbs.h"
#include <errno.h>
#include <fcntl.h>

/* What SQLite takes at most. */
#define SQL_BYTES_MAX      1000000
#define TIME_LIMIT_DEFAULT (60 * NS_PER_S)

struct options {
    const char *file, *named;
    int64_t time_limit, limit, memory_limit;
    bool csv, tsv;
};

#define AT(member) offsetof(struct options, member)

/* clang-format off */
static const struct option_def options[] = {
    {"file", 'f', "FILE", OPTION_TEXT, AT(file), "SQL from a file; - is standard input"},
    {"named", 0, "NAME", OPTION_TEXT, AT(named), "run a query that has a name; list: show them"},
    {"csv", 0, NULL, OPTION_FLAG, AT(csv), "comma separated values (RFC 4180)"},
    {"tsv", 0, NULL, OPTION_FLAG, AT(tsv), "tab separated values"},
    {"limit", 'n', "N", OPTION_COUNT, AT(limit), "print the first so many rows"},
    {"time-limit", 0, "TIME", OPTION_DURATION, AT(time_limit), "how long a statement may take; default 60s"},
    {"memory-limit", 0, "SIZE", OPTION_SIZE, AT(memory_limit), "what reading a file may use; default 1.5G"},
};
/* clang-format on */

/* What is to be run. */
struct sql_text {
    char *text;         /* NULL: what is typed */
    const char *origin; /* file, NULL for the command line */
};

static void sql_text_done(struct sql_text *s)
{
    free(s->text);
}

static int usage(struct client *c, const char *what, const char *remedy)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "%s", what);
    problem_remedy(&p, "%s", remedy);
    return client_fail(c, &p);
}

static int list_named(struct client *c)
{
    if (!c->json) {
        named_queries_print(&c->out, !c->no_legend);
        return EXIT_DONE;
    }
    _cleanup_json_ list = json_array();
    for (size_t i = 0; i < named_queries_count; i++) {
        json_t *one = json_object();
        json_put_str(one, "name", named_queries[i].name);
        json_put_str(one, "shows", named_queries[i].about);
        json_put_str(one, "sql", named_queries[i].sql);
        json_array_append_new(list, one);
    }
    return client_print_json(c, list);
}

static int take_named(struct client *c, const char *name, struct sql_text *ret)
{
    const struct named_query *n = named_query_find(name);

    if (n) {
        ret->text = xstrdup(n->sql);
        return EXIT_DONE;
    }
    const char *near = named_query_nearest(name);
    _cleanup_(freep) char *what = xasprintf("there is no query named %s", name);
    _cleanup_(freep) char *remedy = near ? xasprintf("Is it %s? profctl query --named list shows them.", near)
                                         : xstrdup("profctl query --named list shows them.");
    return usage(c, what, remedy);
}

static int take_file(struct client *c, const char *path, struct sql_text *ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    bool is_stdin = streq(path, "-");
    int r = read_file(AT_FDCWD, is_stdin ? "/dev/stdin" : path, SQL_BYTES_MAX, &ret->text, NULL);

    ret->origin = is_stdin ? NULL : path;
    if (r >= 0)
        return EXIT_DONE;
    if (r == -EFBIG)
        problem_set(&p, r, PROBLEM_BAD_REQUEST, "%s holds more than %d bytes of SQL", path, SQL_BYTES_MAX);
    else
        problem_set(&p, r, PROBLEM_STORAGE, "cannot read %s: %s", path, strerror(-r));
    return client_fail(c, &p);
}

/* Where the SQL is: one of several places. */
static int take_sql(struct client *c, const struct options *o, int n_words, char **words,
                    struct sql_text *ret)
{
    if ((n_words > 1) + !!o->file + !!o->named > 1)
        return usage(c, "SQL, --file and --named exclude each other", "profctl query --help");
    if (o->named)
        return take_named(c, o->named, ret);
    if (n_words > 1)
        ret->text = xstrdup(words[1]);
    else if (o->file || !isatty(STDIN_FILENO))
        return take_file(c, o->file ? o->file : "-", ret);
    return EXIT_DONE;
}

static bool has_statement(const char *sql)
{
    return sql[strspn(sql, " \t\r\n;")];
}

static int connect_sql(struct client *c, struct query *q)
{
    _cleanup_(problem_done) struct problem p = {0};

    sqlite3_hard_heap_limit64(STATEMENT_BYTES_MAX);
    int r = sql_open(trace_file_source(q->trace), q->time_limit_ns, &q->db);
    if (r < 0) {
        problem_set(&p, r, PROBLEM_INTERNAL, "cannot open %s for SQL: %s", q->trace->name, strerror(-r));
        return client_fail(c, &p);
    }
    q->schema = schema_read(q->db);
    return EXIT_DONE;
}

static void query_done(struct query *q)
{
    schema_free(q->schema);
    sqlite3_close(q->db);
}

static int64_t time_limit(const struct options *o)
{
    if (o->time_limit == OPTION_ABSENT)
        return TIME_LIMIT_DEFAULT;
    return o->time_limit == INT64_MAX ? 0 : o->time_limit;
}

static int answer(struct client *c, const struct options *o, struct trace_file *trace,
                  const struct sql_text *sql)
{
    _cleanup_(query_done) struct query q = {
        .c = c,
        .trace = trace,
        .time_limit_ns = time_limit(o),
        .result = {.format = c->json  ? RESULT_JSON
                             : o->csv ? RESULT_CSV
                             : o->tsv ? RESULT_TSV
                                      : RESULT_TABLE,
                   .with_heading = !c->no_legend,
                   .rows_max = o->limit == OPTION_ABSENT ? INT64_MAX : o->limit},
    };
    int number = 0, status = connect_sql(c, &q);

    if (status != EXIT_DONE)
        return status;
    return sql->text ? query_run(&q, sql->text, sql->origin, &number) : repl_run(&q);
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(sql_text_done) struct sql_text sql = {0};
    struct trace_file trace;

    if (c->json + o->csv + o->tsv > 1)
        return usage(c, "--json, --csv and --tsv exclude each other", "profctl query --help");
    if (o->time_limit == 0)
        return usage(c, "--time-limit: a statement needs some time", "--time-limit infinity sets no limit.");
    if (o->named && streq(o->named, "list"))
        return list_named(c);
    if (n_words == 0)
        return usage(c, "query needs a trace", "profctl query t12 \"SELECT ...\", or a path instead of t12");
    int status = take_sql(c, o, n_words, words, &sql);
    if (status != EXIT_DONE)
        return status;
    if (sql.text && !has_statement(sql.text))
        return usage(c, "there is no SQL to run", "Give it as a word, with --file, or on standard input.");
    status = trace_file_open(c, words[0], o->memory_limit, &trace);
    client_release_profd(c);
    follow_hold_signals();
    if (status == EXIT_DONE)
        status = answer(c, o, &trace, &sql);
    trace_file_done(&trace);
    return status;
}

int query_run_named(struct client *c, const char *name, const char *trace, bool csv, int64_t limit)
{
    const struct options o = {.named = name,
                              .csv = csv,
                              .limit = limit,
                              .time_limit = OPTION_ABSENT,
                              .memory_limit = OPTION_ABSENT};
    char *words[] = {(char *)trace, NULL};
    return run(c, &o, 1, words);
}

const struct verb verb_query = {
    .name = "query",
    .words = "TRACE [SQL]",
    .summary = "Ask a trace anything, in SQL",
    .details = "TRACE is an id (t12) or a path: a trace file of any format, or its columns. Without\n"
               "SQL, statements are typed on a terminal and come from standard input elsewhere. Among\n"
               "the tables are slice, thread, process, args, flow, counter, kernel, launch, op,\n"
               "annotation, collective, memory and gap.",
    .own_kind = 't',
    .max_words = 2,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
