/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/listing.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "daemon/catalog/internal.h"
#include <errno.h>
#include <inttypes.h>

#define PROGRESS_OPERATIONS 10000 /* of SQLite's machine, between two checks of the deadline */
#define SEPARATOR           "char(10)"

/* Text of labels as people write them: key=value. */
#define LABELS_TEXT                                                                                          \
    ("iif(labels = '{}', '', (select group_concat(key || '=' || value, " SEPARATOR ") from "                 \
     "json_each(labels)))")

/* A column by which a list can be sorted, and its expression over the rows of the kind. */
struct listing_column {
    const char *name, *sql;
};

struct listing_table {
    const char *noun;
    /* Give id, at, state, labels, session_id and what else expressions name. Both have the same columns of the same affinities:
     * else SQLite makes all rows of both before it takes the first ones in order. */
    const char *rows;
    const char *remote_rows;              /* NULL: there are none */
    const char *newest;                   /* order of the list without sort= */
    const char *const *search;            /* expressions; ends with NULL */
    const struct listing_column *columns; /* ends with an empty one */
    const char *active;                   /* states that are not final; NULL: "active" is no state */
    int (*state_of)(const char *word);
    const char *before; /* condition over :before */
};

/* clang-format off */
static const char *const trace_search[] = {
    "'t' || id", "'s' || session_id", "name", "worker", "host", "state", "format", "device_name", "instance", "stage",
    LABELS_TEXT, NULL,
};
static const struct listing_column trace_columns[] = {
    {"trace", "id"}, {"session", "session_id"}, {"name", "name"}, {"worker", "worker"}, {"host", "host"}, {"rank", "rank"},
    {"state", "state"}, {"format", "format"}, {"size", "size"}, {"span_ns", "span_ns"}, {"slices", "slices"},
    {"events", "events"}, {"recorded_at", "at"}, {"collected_at", "collected_at"}, {0},
};

static const char *const session_search[] = {
    "'s' || id", "state", "router", "fleet", "name", "requested_by", "coordinator_name", LABELS_TEXT, NULL,
};
/* Counts are read only where a list is sorted by them. */
static const struct listing_column session_columns[] = {
    {"session", "id"}, {"state", "state"}, {"router", "router"}, {"fleet", "fleet"}, {"name", "name"},
    {"requested_by", "requested_by"}, {"requested_at", "at"}, {"finished_at", "finished_at"}, {"skew_ns", "skew_ns"},
    {"workers", "(select count(*) from target_row g where g.session_id = id)"},
    {"traces", "(select count(*) from trace_row x where x.session_id = id) + "
               "(select count(*) from remote_trace_row x where x.session_id = id)"},
    {"bytes", "coalesce((select sum(size) from trace_row x where x.session_id = id), 0) + "
              "coalesce((select sum(facts ->> '$.size') from remote_trace_row x where x.session_id = id), 0)"},
    {0},
};

static const char *const run_search[] = {
    "'r' || id", "'s' || session_id", "state", "model", "router", "fleet", "requested_by", LABELS_TEXT, NULL,
};
#define RUN_FIGURE(name, path) {name, "summary ->> '$." path "'"}
static const struct listing_column run_columns[] = {
    {"run", "id"}, {"session", "session_id"}, {"state", "state"}, {"model", "model"}, {"router", "router"},
    {"requested_by", "requested_by"}, {"requested_at", "at"}, {"started_at", "started_at"}, {"ended_at", "ended_at"},
    {"success", "success"},
    RUN_FIGURE("requests_per_s", "throughput.requests_per_s"),
    RUN_FIGURE("output_tokens_per_s", "throughput.output_tokens_per_s"),
    RUN_FIGURE("ttft_p50_ms", "metrics.ttft_ms.p50"), RUN_FIGURE("ttft_p99_ms", "metrics.ttft_ms.p99"),
    RUN_FIGURE("itl_p50_ms", "metrics.itl_ms.p50"), RUN_FIGURE("itl_p99_ms", "metrics.itl_ms.p99"),
    RUN_FIGURE("tpot_p50_ms", "metrics.tpot_ms.p50"), RUN_FIGURE("tpot_p99_ms", "metrics.tpot_ms.p99"),
    RUN_FIGURE("e2e_p50_ms", "metrics.e2e_ms.p50"), RUN_FIGURE("e2e_p99_ms", "metrics.e2e_ms.p99"),
    {0},
};

static const struct listing_table tables[_LISTING_KIND_MAX] = {
    [LISTING_TRACES] = {
        .noun = "traces",
        .rows =
            "select t.trace_id as id, t.recorded_at as at, t.session_id, w.url as worker, t.name, "
            "(select host from catalog_row) as host, t.rank, t.state, t.format, t.device_name, t.instance, t.stage, t.size, "
            "t.span_ns, t.slices, t.events, t.collected_at, t.labels "
            "from trace_row t left join worker_row w using (worker_id)",
        .remote_rows =
            "select m.trace_id as id, m.recorded_at as at, m.session_id, w.url as worker, cast(m.facts ->> 'name' as text) as name, "
            "cast(coalesce(h.name, g.host) as text) as host, cast(m.facts ->> '$.ranks.rank' as integer) as rank, "
            "cast(m.facts ->> 'state' as text) as state, cast(m.facts ->> 'format' as text) as format, "
            "cast(m.facts ->> 'device_name' as text) as device_name, cast(m.facts ->> 'instance' as text) as instance, "
            "cast(m.facts ->> 'stage' as text) as stage, cast(m.facts ->> 'size' as integer) as size, "
            "cast(m.facts ->> 'span_ns' as integer) as span_ns, cast(m.facts ->> 'slices' as integer) as slices, "
            "cast(m.facts ->> 'events' as integer) as events, "
            "cast((m.facts ->> 'collected_at') - ((m.facts ->> 'recorded_at') - m.recorded_at) as integer) as collected_at, "
            "cast(coalesce(m.facts -> 'labels', '{}') as text) as labels "
            "from remote_trace_row m left join target_row g using (target_id) left join worker_row w using (worker_id) "
            "left join host_row h on h.host_uuid = m.host_uuid",
        .newest = "at desc, id desc",
        .search = trace_search,
        .columns = trace_columns,
        .state_of = trace_state_from_name,
        .before = "(at, id) < (select recorded_at, trace_id from (select recorded_at, trace_id from trace_row "
                  "where trace_id = :before union all select recorded_at, trace_id from remote_trace_row "
                  "where trace_id = :before))",
    },
    [LISTING_SESSIONS] = {
        .noun = "sessions",
        .rows = "select s.session_id as id, s.requested_at as at, s.session_id, s.state, r.url as router, s.fleet, s.name, "
                "s.requested_by, s.finished_at, s.skew_ns, s.coordinator_name, s.labels "
                "from session_row s left join router_row r using (router_id)",
        .newest = "id desc",
        .search = session_search,
        .columns = session_columns,
        .active = "('requested', 'starting', 'recording', 'stopping', 'collecting')",
        .state_of = state_from_name,
        .before = "id < :before",
    },
    [LISTING_RUNS] = {
        .noun = "runs",
        .rows = "select n.run_id as id, n.requested_at as at, n.session_id, n.state, n.model, r.url as router, n.fleet, "
                "n.requested_by, n.started_at, n.ended_at, n.success, n.summary, n.labels "
                "from run_row n left join router_row r using (router_id) where n.removed = 0",
        .newest = "id desc",
        .search = run_search,
        .columns = run_columns,
        .active = "('requested', 'warming', 'loading', 'draining')",
        .state_of = run_state_from_name,
        .before = "id < :before",
    },
};
/* clang-format on */

/* -- Requests ------------------------------------------------------------------------------------------ */

void listing_request_init(struct listing_request *q, enum listing_kind kind)
{
    *q = (struct listing_request){.kind = kind,
                                  .session_id = RECORD_NONE,
                                  .since = RECORD_NONE,
                                  .until = RECORD_NONE,
                                  .before_id = RECORD_NONE};
}

void listing_request_done(struct listing_request *q)
{
    for (size_t i = 0; i < q->n_labels; i++)
        free(q->labels[i]);
    free(q->path);
    free(q->search);
    free(q->sort);
    free(q->state);
    free(q->worker_url);
}

static bool listing_sort_descends(const struct listing_request *q)
{
    return q->sort && q->sort[0] == '-';
}

/* NULL: no column has that name. */
static const char *listing_sort_sql(const struct listing_request *q)
{
    const char *name = q->sort + listing_sort_descends(q);

    for (const struct listing_column *c = tables[q->kind].columns; c->name; c++)
        if (streq(c->name, name))
            return c->sql;
    return NULL;
}

static int listing_sort_unknown(const struct listing_request *q, struct problem *p)
{
    _cleanup_(freep) char *names = NULL;

    for (const struct listing_column *c = tables[q->kind].columns; c->name; c++)
        append_str(&names, "%s%s", names ? ", " : "", c->name);
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s cannot be sorted by \"%s\"", tables[q->kind].noun,
                q->sort + listing_sort_descends(q));
    problem_remedy(p, "Sort by one of %s; a \"-\" before it sorts in descending order.", names);
    return -EINVAL;
}

static size_t listing_count_words(const char *search)
{
    const char *word;
    size_t n = 0;

    while (search && words_next(&search, &word) > 0)
        n++;
    return n;
}

int listing_request_check(const struct listing_request *q, struct problem *p)
{
    const struct listing_table *t = &tables[q->kind];

    if (q->sort && !listing_sort_sql(q))
        return listing_sort_unknown(q, p);
    if (q->sort && q->before_id != RECORD_NONE)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "before and sort exclude each other: page a sorted list by offset");
    if (q->state && !(t->active && streq(q->state, "active")) && t->state_of(q->state) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "unknown state '%s' of %s", q->state, t->noun);
    if (q->search &&
        (strlen(q->search) > LISTING_SEARCH_MAX || listing_count_words(q->search) > LISTING_WORDS_MAX))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a search has at most %d words and %d bytes",
                           LISTING_WORDS_MAX, LISTING_SEARCH_MAX);
    for (size_t i = 0; i < q->n_labels; i++)
        if (!strchr(q->labels[i], '='))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "label=%s must be KEY=VALUE", q->labels[i]);
    return 0;
}

/* -- SQL ----------------------------------------------------------------------------------------------- */

static void listing_print_search(const struct listing_table *t, size_t n_words, FILE *out)
{
    for (size_t i = 0; i < n_words; i++) {
        fputs(" and (", out);
        for (size_t k = 0; t->search[k]; k++)
            fprintf(out, "%scoalesce(%s, '')", k > 0 ? " || " SEPARATOR " || " : "", t->search[k]);
        fprintf(out, ") like :word%zu escape '\\'", i);
    }
}

static void listing_print_conditions(const struct listing_request *q, FILE *out)
{
    const struct listing_table *t = &tables[q->kind];
    const struct {
        bool is_set;
        const char *sql;
    } conditions[] = {
        {q->session_id != RECORD_NONE, "session_id = :session"},
        {q->unclaimed, "session_id is null"},
        {q->worker_url, "worker = :worker"},
        {q->since != RECORD_NONE, "at >= :since"},
        {q->until != RECORD_NONE, "at <= :until"},
        {q->before_id != RECORD_NONE, t->before},
        {q->state && !streq(q->state, "active"), "state = :state"},
    };

    fputs(" where 1", out);
    for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
        if (conditions[i].is_set)
            fprintf(out, " and %s", conditions[i].sql);
    if (streq(q->state, "active"))
        fprintf(out, " and state in %s", t->active);
    for (size_t i = 0; i < q->n_labels; i++)
        fprintf(out,
                " and exists (select 1 from json_each(labels) where key = :key%zu and value = :value%zu)", i,
                i);
    listing_print_search(t, listing_count_words(q->search), out);
}

static char *listing_page_sql(const struct listing_request *q)
{
    const struct listing_table *t = &tables[q->kind];
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    fprintf(out, "with listed as (%s%s%s) select id, at from listed", t->rows,
            t->remote_rows ? " union all " : "", t->remote_rows ? t->remote_rows : "");
    listing_print_conditions(q, out);
    if (q->sort)
        fprintf(out, " order by %s%s nulls last, id desc", listing_sort_sql(q),
                listing_sort_descends(q) ? " desc" : "");
    else
        fprintf(out, " order by %s", t->newest);
    fputs(" limit :limit offset :offset", out);
    fclose(out);
    return text;
}

/* Each table by itself: of a union, SQLite would make all columns only to count rows. */
static char *listing_total_sql(const struct listing_request *q)
{
    const char *const parts[] = {tables[q->kind].rows, tables[q->kind].remote_rows};
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    fputs("select 0", out);
    for (size_t i = 0; i < ARRAY_SIZE(parts) && parts[i]; i++) {
        fprintf(out, " + (select count(*) from (%s)", parts[i]);
        listing_print_conditions(q, out);
        fputc(')', out);
    }
    fclose(out);
    return text;
}

/* A parameter that the statement does not have is no error. */
static void listing_bind_text(sqlite3_stmt *s, const char *name, const char *text, size_t size)
{
    int i = sqlite3_bind_parameter_index(s, name);

    if (i > 0)
        sqlite3_bind_text(s, i, text, (int)size, SQLITE_TRANSIENT);
}

static void listing_bind_number(sqlite3_stmt *s, const char *name, int64_t number)
{
    int i = sqlite3_bind_parameter_index(s, name);

    if (i > 0)
        sqlite3_bind_int64(s, i, number);
}

/* "%word%", with what LIKE would take for a pattern escaped. */
static char *listing_pattern(const char *word, size_t size)
{
    char *pattern = xcalloc(1, 2 * size + 3), *at = pattern;

    *at++ = '%';
    for (size_t i = 0; i < size; i++) {
        if (strchr("%_\\", word[i]))
            *at++ = '\\';
        *at++ = word[i];
    }
    *at++ = '%';
    *at = '\0';
    return pattern;
}

static void listing_bind(sqlite3_stmt *s, const struct listing_request *q)
{
    const char *rest = q->search, *word;
    char name[32];
    size_t size;

    for (size_t i = 0; rest && (size = words_next(&rest, &word)) > 0; i++) {
        _cleanup_(freep) char *pattern = listing_pattern(word, size);
        snprintf(name, sizeof(name), ":word%zu", i);
        listing_bind_text(s, name, pattern, strlen(pattern));
    }
    for (size_t i = 0; i < q->n_labels; i++) {
        const char *mark = strchr(q->labels[i], '=');
        snprintf(name, sizeof(name), ":key%zu", i);
        listing_bind_text(s, name, q->labels[i], (size_t)(mark - q->labels[i]));
        snprintf(name, sizeof(name), ":value%zu", i);
        listing_bind_text(s, name, mark + 1, strlen(mark + 1));
    }
    if (q->worker_url)
        listing_bind_text(s, ":worker", q->worker_url, strlen(q->worker_url));
    if (q->state)
        listing_bind_text(s, ":state", q->state, strlen(q->state));
    listing_bind_number(s, ":session", q->session_id);
    listing_bind_number(s, ":since", q->since);
    listing_bind_number(s, ":until", q->until);
    listing_bind_number(s, ":before", q->before_id);
    /* One more shows whether there are further rows. */
    listing_bind_number(s, ":limit", q->limit + 1);
    listing_bind_number(s, ":offset", q->offset);
}

/* -- Reading ------------------------------------------------------------------------------------------- */

struct listing_reader {
    const struct listing_request *request;
    sqlite3 *db;
    int64_t deadline_ns;
};

static int listing_on_progress(void *arg)
{
    const struct listing_reader *r = arg;
    return atomic_load(&r->request->is_cancelled) || mono_ns() > r->deadline_ns;
}

static int listing_read_ids(struct listing_reader *r, sqlite3_stmt *s, struct listing *ret)
{
    size_t cap = 0;
    int rc;

    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (ret->n == (size_t)r->request->limit) {
            ret->has_more = true;
            continue;
        }
        VEC_GROW(ret->ids, ret->n, cap);
        ret->ids[ret->n++] = sqlite3_column_int64(s, 0);
    }
    return rc;
}

/* An SQLite code: SQLITE_DONE. */
static int listing_run(struct listing_reader *r, bool counts, struct listing *ret)
{
    _cleanup_(freep) char *sql = counts ? listing_total_sql(r->request) : listing_page_sql(r->request);
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(r->db, sql, -1, &s, NULL);

    if (rc == SQLITE_OK) {
        listing_bind(s, r->request);
        if (!counts) {
            rc = listing_read_ids(r, s, ret);
        } else if ((rc = sqlite3_step(s)) == SQLITE_ROW) {
            ret->total = sqlite3_column_int64(s, 0);
            rc = SQLITE_DONE;
        }
    }
    sqlite3_finalize(s);
    return rc;
}

static int listing_explain(const struct listing_reader *r, int rc, struct problem *p)
{
    const struct listing_request *q = r->request;

    if ((rc & 0xff) != SQLITE_INTERRUPT)
        return sqlite_problem(r->db, sqlite_errno(r->db, rc), q->path, p);
    if (atomic_load(&q->is_cancelled))
        return problem_set(p, -ECANCELED, PROBLEM_INTERNAL, "nobody waits for the list any more");
    problem_set(p, -ETIMEDOUT, PROBLEM_TOO_LARGE, "the search in %s takes longer than %d s",
                tables[q->kind].noun, (int)(LISTING_DEADLINE_NS / NS_PER_S));
    problem_remedy(p, "Narrow it down: by session, worker, state or time.");
    return -ETIMEDOUT;
}

int listing_read(const struct listing_request *q, struct listing *ret, struct problem *p)
{
    struct listing_reader r = {.request = q, .deadline_ns = mono_ns() + LISTING_DEADLINE_NS};
    int rc = sqlite3_open_v2(q->path, &r.db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL), err = 0;

    *ret = (struct listing){.total = RECORD_NONE};
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(r.db, 1);
        sqlite3_busy_timeout(r.db, READ_BUSY_MS);
        sqlite3_progress_handler(r.db, PROGRESS_OPERATIONS, listing_on_progress, &r);
        /* Rows and their number are of one state. */
        rc = sqlite3_exec(r.db, "begin", NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK)
        rc = listing_run(&r, false, ret);
    if (rc == SQLITE_DONE && q->wants_total)
        rc = listing_run(&r, true, ret);
    if (rc != SQLITE_DONE) {
        err = listing_explain(&r, rc, p);
        listing_done(ret);
    }
    sqlite3_close(r.db);
    return err;
}

void listing_done(struct listing *l)
{
    free(l->ids);
    *l = (struct listing){.total = RECORD_NONE};
}
