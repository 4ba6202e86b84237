/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/verbs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "client/cli/text.h"
#include "client/query/mirror_query.h"
#include "client/query/named_queries.h"
#include "client/query/query.h"
#include "client/query/remote_query.h"
#include "client/traces/instances.h"
#include "client/views/listing.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

/* What SQLite takes at most. */
#define SQL_BYTES_MAX      1000000
#define TIME_LIMIT_DEFAULT (60 * NS_PER_S)

struct query_options {
    const char *file, *named, *mirror;
    int64_t time_limit, limit, memory_limit;
};

#define AT(member) offsetof(struct query_options, member)

/* clang-format off */
static const struct option_def query_options[] = {
    {"file", 'f', "FILE", OPTION_TEXT, AT(file), "File with SQL, - for standard input"},
    {"named", 0, "NAME", OPTION_TEXT, AT(named), "Named query to run; list prints them"},
    {"mirror", 0, "[=URL]", OPTION_TEXT, AT(mirror), "Query the PostgreSQL mirror of all hosts (default: the URL that profd names)"},
    {"limit", 'n', "N", OPTION_COUNT, AT(limit), "Maximum number of rows to print"},
    {"time-limit", 0, "DURATION", OPTION_DURATION, AT(time_limit), "Time limit of each statement (default: 60s)"},
    {"memory-limit", 0, "SIZE", OPTION_SIZE, AT(memory_limit), "Memory limit for reading files (default: 1.5G)"},
};
/* clang-format on */

/* The SQL to run. */
struct sql_text {
    char *text;         /* NULL: what is typed */
    const char *origin; /* file, NULL for the command line */
};

static void sql_text_done(struct sql_text *s)
{
    free(s->text);
}

static int query_list_named(struct client *c)
{
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ list = json_array();
    int status = listing_table(c, named_query_columns, N_NAMED_QUERY_COLUMNS, &table);

    if (status != EXIT_DONE)
        return status;
    for (size_t i = 0; i < named_queries_count; i++) {
        json_t *one = json_object();
        json_put_str(one, "name", named_queries[i].name);
        json_put_str(one, "shows", named_queries[i].about);
        json_put_str(one, "sql", named_queries[i].sql);
        json_array_append_new(list, one);
    }
    if (c->json)
        return client_print_json(c, list);
    named_queries_add(table);
    listing_print(c, table);
    return EXIT_DONE;
}

static int query_take_named(struct client *c, const char *name, struct sql_text *ret)
{
    const struct named_query *n = named_query_find(name);

    if (n) {
        ret->text = xstrdup(n->sql);
        return EXIT_DONE;
    }
    _cleanup_(freep) char *remedy = named_query_remedy(name, "profctl query --named list shows all names.");
    return client_refuse(c, remedy, "unknown named query '%s'", name);
}

static int query_take_file(struct client *c, const char *path, struct sql_text *ret)
{
    bool is_stdin = streq(path, "-");
    int r = read_file(AT_FDCWD, is_stdin ? "/dev/stdin" : path, SQL_BYTES_MAX, &ret->text, NULL);

    ret->origin = is_stdin ? NULL : path;
    if (r >= 0)
        return EXIT_DONE;
    if (r == -EFBIG)
        return client_refuse(c, NULL, "%s contains more than %d bytes of SQL", path, SQL_BYTES_MAX);
    return client_error(
        c, PROBLEM_STORAGE,
        "-f takes a file that contains SQL; SQL itself is a word: profctl query t12 \"SELECT ...\"",
        "cannot read %s: %s", path, strerror(-r));
}

/* Where the SQL is: one of several places. */
static int query_take_sql(struct client *c, const struct query_options *o, int n_words, char **words,
                          struct sql_text *ret)
{
    if ((n_words > 1) + !!o->file + !!o->named > 1)
        return client_refuse(c, "profctl query --help", "SQL, --file and --named exclude each other");
    if (o->named)
        return query_take_named(c, o->named, ret);
    if (n_words > 1)
        ret->text = xstrdup(words[1]);
    else if (o->file || !isatty(STDIN_FILENO))
        return query_take_file(c, o->file ? o->file : "-", ret);
    return EXIT_DONE;
}

/* Whether the only word is SQL on the newest session: no id, no file, and more than one word of SQL. */
static bool query_is_sql(const char *word)
{
    int64_t id;

    return access(word, F_OK) < 0 && !parse_ref(word, 't', &id) && strpbrk(word, " \t\n");
}

static int statement_is_over(void *arg)
{
    return bounded_is_over(arg);
}

static void query_done(struct query *q)
{
    schema_free(q->schema);
    sqlite3_close(q->db);
    bounded_free(q->bounded);
}

static int64_t query_time_limit(const struct query_options *o)
{
    return o->time_limit == OPTION_ABSENT ? TIME_LIMIT_DEFAULT
           : o->time_limit == INT64_MAX   ? 0
                                          : o->time_limit;
}

static int64_t query_rows_max(const struct query_options *o)
{
    return o->limit == OPTION_ABSENT ? INT64_MAX : o->limit;
}

/* Of one trace, or of all ranks of a session or of a directory: then trace is NULL. */
static int query_answer(struct client *c, const struct query_options *o, const char *name,
                        struct trace_file *trace, struct sql_source source, const struct sql_text *sql)
{
    struct bounded *bounded = bounded_new(query_time_limit(o), PROCESS_BYTES_MAX);
    _cleanup_(query_done) struct query q = {
        .c = c,
        .name = name,
        .trace = trace,
        .bounded = bounded,
        .result = {.format = c->format,
                   .with_heading = !c->no_legend,
                   .rows_max = query_rows_max(o),
                   .bounded = bounded},
    };
    int number = 0;

    sqlite3_hard_heap_limit64(STATEMENT_BYTES_MAX);
    int r = bounded ? sql_open(source, statement_is_over, bounded, &q.db) : -ENOMEM;
    if (r < 0)
        return client_error(c, PROBLEM_INTERNAL, NULL, "cannot open %s for SQL: %s", name, strerror(-r));
    q.schema = schema_read(q.db);
    if (sql->text)
        client_page(c);
    return sql->text ? query_run(&q, sql->text, sql->origin, &number) : repl_run(&q);
}

/* A statement that the host of the trace can run; false: it is run here. */
static bool query_there(struct client *c, const struct query_options *o, const char *word,
                        const struct sql_text *sql, int *ret_status)
{
    char name[REF_TEXT_MAX];
    int64_t id;

    /* Commands, files and limits of time are those of this machine. */
    if (!sql->text || sql->text[sql_blank(sql->text)] == '.' || sql->origin ||
        o->time_limit != OPTION_ABSENT || parse_ref(word, 't', &id) != 't' ||
        client_need_profd(c) != EXIT_DONE)
        return false;
    snprintf(name, sizeof(name), "t%" PRId64, id);
    client_hold_signals();
    return remote_query_run(
        c, &(struct remote_query){.name = name, .sql = sql->text, .rows_max = query_rows_max(o)}, ret_status);
}

static int query_trace(struct client *c, const struct query_options *o, const char *word,
                       const struct sql_text *sql)
{
    struct trace_file trace;
    int there;

    if (query_there(c, o, word, sql, &there))
        return there;
    int status = trace_file_open(c, word, o->memory_limit, &trace);

    client_release_profd(c);
    client_hold_signals();
    if (status == EXIT_DONE)
        status = query_answer(c, o, trace.name, &trace, trace_file_source(&trace), sql);
    trace_file_done(&trace);
    return status;
}

static int query_ranks(struct client *c, const struct query_options *o, char *word, bool is_session,
                       const struct sql_text *sql)
{
    _cleanup_(ranks_done) struct named_ranks ranks = {0};

    client_hold_signals();
    int status = is_session ? ranks_add_session(c, word, &ranks) : ranks_add_word(c, word, &ranks);
    if (status == EXIT_DONE && ranks.n + ranks.n_left_out == 0)
        return client_error(c, PROBLEM_NOT_FOUND, "profctl list-traces shows the traces.",
                            "%s has no traces that can be queried", word);
    if (status == EXIT_DONE)
        status = ranks_settle(c, o->memory_limit, &ranks);
    client_release_profd(c);
    if (status == EXIT_DONE)
        status = ranks_set_instances(c, &ranks);
    if (status == EXIT_DONE)
        status = query_answer(c, o, word, NULL, ranks_source(&ranks), sql);
    return ranks_status(&ranks, status);
}

static int query_word(struct client *c, const struct query_options *o, char *word, const struct sql_text *sql)
{
    struct stat st;
    bool is_path = stat(word, &st) == 0;
    int64_t id;
    bool is_session = !is_path && parse_ref(word, 't', &id) == 's';

    return is_session || (is_path && S_ISDIR(st.st_mode)) ? query_ranks(c, o, word, is_session, sql)
                                                          : query_trace(c, o, word, sql);
}

static bool query_is_blank(const struct sql_text *sql)
{
    return !sql->text[strspn(sql->text, " \t\r\n;")];
}

static int query_refuse_blank(struct client *c)
{
    return client_refuse(c, "Pass it as a word, with --file, or on standard input.", "no SQL was given");
}

static int query_mirror(struct client *c, const struct query_options *o, int n_words, char **words)
{
    _cleanup_(sql_text_done) struct sql_text sql = {0};
    _cleanup_(freep) char *address = NULL;
    char none[] = "", *with_none[] = {none, n_words > 0 ? words[0] : NULL, NULL};

    if (n_words > 1 || o->named)
        return client_refuse(c, "profctl query --mirror \"SELECT * FROM traces LIMIT 10\"",
                             "--mirror takes SQL, and neither a trace nor --named");
    int status = query_take_sql(c, o, n_words + 1, with_none, &sql);
    if (status == EXIT_DONE && (!sql.text || query_is_blank(&sql)))
        status = query_refuse_blank(c);
    if (status == EXIT_DONE)
        status = mirror_find_reader(c, o->mirror, &address);
    if (status != EXIT_DONE)
        return status;
    const struct mirror_query q = {.address = address,
                                   .sql = sql.text,
                                   .time_limit_ns = query_time_limit(o),
                                   .rows_max = query_rows_max(o)};
    return mirror_query_run(c, &q);
}

static int query_verb_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct query_options *o = values;
    _cleanup_(sql_text_done) struct sql_text sql = {0};
    char newest[REF_TEXT_MAX], *with_newest[] = {newest, n_words == 1 ? words[0] : NULL, NULL};
    bool use_newest = n_words == 0 || (n_words == 1 && query_is_sql(words[0]));

    if (c->columns && !(o->named && streq(o->named, "list")))
        return client_refuse(c, "Name the columns in the SELECT.", "--columns does not apply to SQL");
    if (o->time_limit == 0)
        return client_refuse(c, "--time-limit infinity sets no limit.",
                             "--time-limit: 0 is not a time limit");
    if (o->named && streq(o->named, "list"))
        return query_list_named(c);
    if (o->mirror)
        return query_mirror(c, o, n_words, words);
    if (use_newest) {
        words = with_newest;
        n_words++;
    }
    int status = query_take_sql(c, o, n_words, words, &sql);
    if (status != EXIT_DONE)
        return status;
    if (sql.text && query_is_blank(&sql))
        return query_refuse_blank(c);
    if (use_newest)
        status = client_newest_session(c, true, newest);
    return status == EXIT_DONE ? query_word(c, o, words[0], &sql) : status;
}

int query_run_named(struct client *c, const char *name, const char *trace, int64_t limit)
{
    const struct query_options o = {
        .named = name, .limit = limit, .time_limit = OPTION_ABSENT, .memory_limit = OPTION_ABSENT};
    char *words[] = {(char *)trace, NULL};
    return query_verb_run(c, &o, 1, words);
}

const struct verb verb_query = {
    .name = "query",
    .summary = "Query traces in SQL",
    .details = "Takes a trace (t12), all ranks of a session (s7) or of a directory, a trace file of any "
               "format or its columns; default: the newest session that has traces. With several traces each "
               "row has trace_id, rank, instance and worker. Without SQL, statements are read from the "
               "terminal or from standard input. Main tables: slice, thread, process, args, flow, counter, "
               "kernel, launch, op, annotation, collective, memory, gap.",
    .words = "[TRACE|SESSION|FILE] [SQL]",
    .default_kind = 't',
    .has_listing = true,
    .max_words = 2,
    VERB_OPTIONS(query_options, struct query_options),
    .run = query_verb_run,
};
