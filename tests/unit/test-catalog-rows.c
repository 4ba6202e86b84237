/* SPDX-License-Identifier: Apache-2.0 */
/* The rows: what is written comes back, filters and pages, what follows from removing, query plans. */
#include "tests/unit/cmocka-all.h"

#include "base/clock.h"
#include "daemon/catalog/internal.h"
#include "tests/unit/catalog-fixture.h"
#include "tests/unit/catalog-records.h"
#include <inttypes.h>

/* -- Round trips and copies -- */

static bool is_number(enum record_field_type t)
{
    return t == FIELD_NUMBER || t == FIELD_COUNT || t == FIELD_RANK || t == FIELD_SESSION || t == FIELD_REF ||
           t == FIELD_INNER || t == FIELD_ID;
}

/* Every field of a record, as text. */
static char *dump(const struct record_fields *l, const void *record)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (size_t i = 0; i < l->n; i++) {
        const char *at = (const char *)record + l->fields[i].offset;
        fprintf(f, "%zu %s=", i, l->fields[i].name);
        if (is_number(l->fields[i].type))
            fprintf(f, "%" PRId64 "\n", *(const int64_t *)at);
        else if (l->fields[i].type == FIELD_BOOL)
            fprintf(f, "%d\n", *(const bool *)at);
        else if (l->fields[i].type == FIELD_STATE || l->fields[i].type == FIELD_TRACE_STATE ||
                 l->fields[i].type == FIELD_TRACE_KIND)
            fprintf(f, "%d\n", *(const int *)at);
        else
            fprintf(f, "%s\n", *(char *const *)at ? *(char *const *)at : "(none)");
    }
    fclose(f);
    return text;
}

static void assert_same(const struct record_fields *l, const void *a, const void *b)
{
    _cleanup_(freep) char *x = dump(l, a);
    _cleanup_(freep) char *y = dump(l, b);
    assert_string_equal(x, y);
}

static int take_target(const struct target_record *r, void *arg)
{
    const struct target_record *expected = arg;
    assert_same(target_fields(), r, expected);
    return 7;
}

static void check_trace(struct catalog_fixture *fixture, int64_t id, const struct trace_record *expected)
{
    struct trace_record r;
    assert_int_equal(catalog_get_trace(fixture->catalog, id, &r), 0);
    assert_same(trace_fields(), &r, expected);
    trace_record_done(&r);
}

/* The records are made of literals: a copy that kept one of them could not be freed. */
static void test_copies(void **state)
{
    struct session_record s = full_session(), s2;
    session_record_copy(&s2, &s);
    assert_same(session_fields(), &s2, &s);
    session_record_done(&s2);

    struct target_record t = full_target(3), t2;
    target_record_copy(&t2, &t);
    assert_same(target_fields(), &t2, &t);
    target_record_done(&t2);
}

static void test_round_trips(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s = full_session(), s2;
    s.uuid = (char *)UUID_1;
    assert_int_equal(catalog_add_session(fixture->catalog, &s), 0);
    struct target_record t = full_target(s.session_id);
    assert_int_equal(catalog_add_target(fixture->catalog, &t), 0);
    struct trace_record tr = full_trace(s.session_id, t.target_id);
    tr.uuid = (char *)UUID_2;
    assert_int_equal(catalog_add_trace(fixture->catalog, &tr), 0);
    fixture_reopen(fixture);

    assert_int_equal(catalog_get_session(fixture->catalog, s.session_id, &s2), 0);
    assert_same(session_fields(), &s2, &s);
    session_record_done(&s2);
    /* What the function returns ends the walk and comes back. */
    assert_int_equal(catalog_each_target(fixture->catalog, s.session_id, take_target, &t), 7);
    check_trace(fixture, tr.trace_id, &tr);
}

static void test_saving_writes_every_column(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s, s2;
    session_record_init(&s);
    s.requested_at = 1;
    s.requested_by = "test";
    s.uuid = (char *)UUID_1;
    assert_int_equal(catalog_add_session(fixture->catalog, &s), 0);
    int64_t id = s.session_id;
    s = full_session();
    s.session_id = id;
    s.uuid = (char *)UUID_1;
    /* The router becomes known by a discovery, as a session keeps the one it began with. */
    struct fleet f = {.router = s.router, .dialect = s.dialect};
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &f), 0);
    assert_int_equal(catalog_save_session(fixture->catalog, &s), 0);
    assert_int_equal(catalog_get_session(fixture->catalog, id, &s2), 0);
    assert_same(session_fields(), &s2, &s);
    session_record_done(&s2);

    struct target_record t;
    target_record_init(&t);
    t.session_id = id;
    t.worker_url = W1;
    t.worker = "{}";
    t.profile_id = "p";
    assert_int_equal(catalog_add_target(fixture->catalog, &t), 0);
    int64_t target_id = t.target_id;
    t = full_target(id);
    t.target_id = target_id;
    assert_int_equal(catalog_save_target(fixture->catalog, &t), 0);
    assert_int_equal(catalog_each_target(fixture->catalog, id, take_target, &t), 7);

    struct trace_record tr = full_trace(id, target_id);
    struct trace_record added;
    tr.trace_id = add_trace(fixture, RECORD_NONE, NULL, 1, 1);
    assert_int_equal(catalog_get_trace(fixture->catalog, tr.trace_id, &added), 0);
    /* The moment of the collection and the UUID are the only ones that stay. */
    tr.collected_at = added.collected_at;
    tr.uuid = (char *)UUID_2;
    assert_int_equal(catalog_save_trace(fixture->catalog, &tr), 0);
    tr.uuid = added.uuid;
    check_trace(fixture, tr.trace_id, &tr);
    tr.collected_at++;
    assert_int_equal(catalog_save_trace(fixture->catalog, &tr), -EINVAL);
    trace_record_done(&added);
}

static void test_absent_rows(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s = full_session();
    struct target_record t = full_target(1);
    struct trace_record tr = full_trace(RECORD_NONE, RECORD_NONE);
    json_t *j = NULL;
    s.session_id = t.target_id = tr.trace_id = 404;
    assert_int_equal(catalog_save_session(fixture->catalog, &s), -ENOENT);
    assert_int_equal(catalog_save_target(fixture->catalog, &t), -ENOENT);
    assert_int_equal(catalog_save_trace(fixture->catalog, &tr), -ENOENT);
    assert_int_equal(catalog_get_session(fixture->catalog, 404, &s), -ENOENT);
    assert_int_equal(catalog_get_trace(fixture->catalog, 404, &tr), -ENOENT);
    assert_int_equal(catalog_pin_session(fixture->catalog, 404, true), -ENOENT);
    assert_int_equal(catalog_pin_trace(fixture->catalog, 404, true), -ENOENT);
    assert_int_equal(catalog_remove_session(fixture->catalog, 404), -ENOENT);
    assert_int_equal(catalog_remove_trace(fixture->catalog, 404), -ENOENT);
    assert_int_equal(catalog_find_trace_by_path(fixture->catalog, "/no", &tr), -ENOENT);
    assert_int_equal(catalog_session_json(fixture->catalog, 404, true, &j), -ENOENT);
    assert_null(j);
    assert_null(catalog_last_router(fixture->catalog));
}

static void test_found_by_path_and_origin(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct trace_record a = full_trace(RECORD_NONE, RECORD_NONE), b = a, found;
    assert_int_equal(catalog_add_trace(fixture->catalog, &a), 0);
    b.path = "/store/s1/rank0-2.json.gz";
    assert_int_equal(catalog_add_trace(fixture->catalog, &b), 0);
    assert_int_equal(catalog_find_trace_by_path(fixture->catalog, a.path, &found), 0);
    assert_int_equal(found.trace_id, a.trace_id);
    trace_record_done(&found);
    assert_int_equal(catalog_find_trace_by_origin(fixture->catalog, a.origin, &found), 0);
    assert_int_equal(found.trace_id, b.trace_id);
    trace_record_done(&found);
}

static void assert_same_bytes(struct catalog_fixture *fixture, const char *sha256, int64_t id)
{
    struct trace_record found;
    int r = catalog_find_trace_by_sha256(fixture->catalog, sha256, &found);
    assert_int_equal(r, id ? 0 : -ENOENT);
    if (id)
        assert_int_equal(found.trace_id, id);
    if (r == 0)
        trace_record_done(&found);
}

static void test_found_by_content(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct trace_record a = full_trace(RECORD_NONE, RECORD_NONE), b = a;
    b.path = "/store/s1/rank0-2.json.gz";
    assert_int_equal(catalog_add_trace(fixture->catalog, &a), 0);
    assert_int_equal(catalog_add_trace(fixture->catalog, &b), 0);
    assert_same_bytes(fixture, a.sha256, a.trace_id);
    /* A file that is gone is nobody's twin. */
    a.state = TRACE_MISSING;
    assert_int_equal(catalog_save_trace(fixture->catalog, &a), 0);
    assert_same_bytes(fixture, a.sha256, b.trace_id);
    assert_same_bytes(fixture, "ab", 0);
}

static void test_found_without_columns(void **state)
{
    static const int64_t versions[] = {2, RECORD_NONE, 1, 2, 1};
    static const enum trace_state states[] = {TRACE_COMPLETE, TRACE_COMPLETE, TRACE_TRUNCATED, TRACE_COMPLETE,
                                              TRACE_MISSING};
    struct catalog_fixture *fixture = *state;
    struct trace_record t;
    int64_t at = RECORD_NONE;

    for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
        int64_t id = add_trace(fixture, RECORD_NONE, NULL, 1, (int)i);
        assert_int_equal(catalog_get_trace(fixture->catalog, id, &t), 0);
        t.columns_version = versions[i];
        t.state = states[i];
        assert_int_equal(catalog_save_trace(fixture->catalog, &t), 0);
        trace_record_done(&t);
    }
    for (int64_t expected = 3; expected >= 2; expected--) {
        assert_int_equal(catalog_find_trace_without_columns(fixture->catalog, at, 2, &t), 0);
        assert_int_equal(t.trace_id, expected);
        at = t.trace_id;
        trace_record_done(&t);
    }
    assert_int_equal(catalog_find_trace_without_columns(fixture->catalog, at, 2, &t), -ENOENT);
}

/* -- Listings -- */

struct ids {
    char text[4000];
    int n;
    int64_t last;
};

static int collect_id(const struct trace_record *r, void *arg)
{
    struct ids *ids = arg;
    size_t n = strlen(ids->text);
    snprintf(ids->text + n, sizeof(ids->text) - n, "%" PRId64 " ", r->trace_id);
    ids->n++;
    ids->last = r->trace_id;
    return 0;
}

static const struct trace_filter any = {.session_id = RECORD_NONE,
                                        .since = RECORD_NONE,
                                        .until = RECORD_NONE,
                                        .before_id = RECORD_NONE,
                                        .limit = RECORD_NONE};

static void lists(struct catalog_fixture *fixture, struct trace_filter f, const char *expected)
{
    struct ids ids = {0};
    assert_int_equal(catalog_each_trace(fixture->catalog, &f, collect_id, &ids), 0);
    assert_string_equal(ids.text, expected);
}

#define FILTER(...)                                                                                          \
    ({                                                                                                       \
        struct trace_filter _f = any;                                                                        \
        struct trace_filter *f = &_f;                                                                        \
        __VA_ARGS__;                                                                                         \
        _f;                                                                                                  \
    })

static void test_filters(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t s1 = add_session(fixture, STATE_COMPLETE), s2 = add_session(fixture, STATE_COMPLETE);
    /* Ids and times do not go together; 3 and 4 were recorded at the same moment. */
    add_trace(fixture, s1, W1, 500, 1);
    add_trace(fixture, s1, W2, 100, 2);
    add_trace(fixture, s2, W1, 300, 3);
    add_trace(fixture, s2, W2, 300, 4);
    add_trace(fixture, RECORD_NONE, NULL, 400, 5);
    add_trace(fixture, RECORD_NONE, W1, 200, 6);

    lists(fixture, any, "1 5 4 3 6 2 ");
    lists(fixture, FILTER(f->limit = 3), "1 5 4 ");
    lists(fixture, FILTER(f->limit = 0), "");
    lists(fixture, FILTER(f->limit = 2, f->before_id = 4), "3 6 ");
    lists(fixture, FILTER(f->session_id = s1), "1 2 ");
    lists(fixture, FILTER(f->session_id = s2, f->before_id = 4), "3 ");
    lists(fixture, FILTER(f->session_id = s2, f->worker_url = W2), "4 ");
    lists(fixture, FILTER(f->session_id = 404), "");
    lists(fixture, FILTER(f->worker_url = W1), "1 3 6 ");
    lists(fixture, FILTER(f->worker_url = "http://nobody:1"), "");
    lists(fixture, FILTER(f->unclaimed = true), "5 6 ");
    lists(fixture, FILTER(f->unclaimed = true, f->worker_url = W1), "6 ");
    lists(fixture, FILTER(f->since = 300), "1 5 4 3 ");
    lists(fixture, FILTER(f->until = 300), "4 3 6 2 ");
    lists(fixture, FILTER(f->since = 200, f->until = 400, f->before_id = 5), "4 3 6 ");
    /* A page that begins above the upper bound. */
    lists(fixture, FILTER(f->until = 300, f->before_id = 1), "4 3 6 2 ");

    struct trace_filter gone = FILTER(f->before_id = 404);
    struct ids ids = {0};
    assert_int_equal(catalog_each_trace(fixture->catalog, &gone, collect_id, &ids), -ENOENT);
}

static void test_long_listings(void **state)
{
    struct catalog_fixture *fixture = *state;
    for (int i = 0; i < 600; i++)
        add_trace(fixture, RECORD_NONE, NULL, i / 10, i);
    struct ids all = {0};
    assert_int_equal(catalog_each_trace(fixture->catalog, &any, collect_id, &all), 0);
    assert_int_equal(all.n, 600);
    /* Pages join without a gap or an overlap. */
    struct ids paged = {0};
    struct trace_filter page = FILTER(f->limit = 37);
    do {
        paged.n = 0;
        assert_int_equal(catalog_each_trace(fixture->catalog, &page, collect_id, &paged), 0);
        page.before_id = paged.last;
    } while (paged.n == 37);
    assert_string_equal(paged.text, all.text);
    assert_true(starts_with(all.text, "600 599 598 "));
}

static int count_active(const struct session_record *r, void *arg)
{
    struct ids *ids = arg;
    size_t n = strlen(ids->text);
    snprintf(ids->text + n, sizeof(ids->text) - n, "%" PRId64 "=%s ", r->session_id, state_name(r->state));
    return 0;
}

static void test_unfinished(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct ids ids = {0};
    for (enum state s = 0; s < _STATE_MAX; s++)
        add_session(fixture, s);
    assert_int_equal(catalog_each_unfinished(fixture->catalog, count_active, &ids), 0);
    assert_string_equal(ids.text, "1=requested 2=starting 3=recording 4=stopping 5=collecting ");
}

/* -- What follows from removing and pinning -- */

static void assert_usage(struct catalog_fixture *fixture, int64_t traces, int64_t bytes)
{
    int64_t n, b;
    assert_int_equal(catalog_usage(fixture->catalog, &n, &b), 0);
    assert_int_equal(n, traces);
    assert_int_equal(b, bytes);
}

static void test_usage(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct trace_record r;
    assert_usage(fixture, 0, 0);
    int64_t id = add_trace(fixture, RECORD_NONE, NULL, 1, 1);
    add_trace(fixture, RECORD_NONE, NULL, 1, 2);
    assert_usage(fixture, 2, 200);
    assert_int_equal(catalog_get_trace(fixture->catalog, id, &r), 0);
    r.disk_size = 1000;
    assert_int_equal(catalog_save_trace(fixture->catalog, &r), 0);
    assert_usage(fixture, 2, 1100);
    r.stored = false;
    assert_int_equal(catalog_save_trace(fixture->catalog, &r), 0);
    assert_usage(fixture, 2, 100);
    /* Columns are profd's own, wherever the trace is. */
    r.columns = xstrdup("/columns/1");
    r.columns_size = 40;
    assert_int_equal(catalog_save_trace(fixture->catalog, &r), 0);
    assert_usage(fixture, 2, 140);
    r.columns_size = 50;
    assert_int_equal(catalog_save_trace(fixture->catalog, &r), 0);
    assert_usage(fixture, 2, 150);
    r.stored = true;
    assert_int_equal(catalog_save_trace(fixture->catalog, &r), 0);
    assert_int_equal(catalog_set_disk_size(fixture->catalog, id, 300), 0);
    assert_usage(fixture, 2, 450);
    trace_record_done(&r);
    assert_int_equal(catalog_remove_trace(fixture->catalog, id), 0);
    assert_usage(fixture, 1, 100);
}

/* -- Holders -- */

/* "HOLDER=TRACES:BYTES " of each. */
static void assert_holders(struct catalog_fixture *fixture, int64_t seen_since, const char *expected)
{
    struct holder_usage *list;
    char text[500] = "";
    size_t n;

    assert_int_equal(catalog_list_holders(fixture->catalog, seen_since, &list, &n), 0);
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s=%" PRId64 ":%" PRId64 " ",
                 list[i].holder > 0   ? "user"
                 : list[i].worker_url ? list[i].worker_url
                                      : "others",
                 list[i].traces, list[i].bytes);
    holder_usage_free(list, n);
    assert_string_equal(text, expected);
}

static int64_t add_owned(struct catalog_fixture *fixture, const char *url, int64_t uid, int64_t collected_at,
                         int64_t bytes)
{
    struct trace_record t = full_trace(RECORD_NONE, RECORD_NONE);
    char path[64];

    snprintf(path, sizeof(path), "/store/%" PRId64 "-%" PRId64, collected_at, uid);
    t.path = t.origin = path;
    t.worker_url = (char *)url;
    t.owner_uid = uid;
    t.collected_at = collected_at;
    t.disk_size = bytes - t.columns_size;
    t.pinned = false;
    assert_int_equal(catalog_add_trace(fixture->catalog, &t), 0);
    return t.trace_id;
}

static void assert_next_of(struct catalog_fixture *fixture, int64_t holder, int64_t seen_since,
                           struct trace_position *at, int64_t expected)
{
    struct trace_record t;

    int r = catalog_next_evictable_of(fixture->catalog, holder, seen_since, at, &t);
    assert_int_equal(r, expected ? 0 : -ENOENT);
    if (r < 0)
        return;
    assert_int_equal(t.trace_id, expected);
    *at = (struct trace_position){t.collected_at, t.trace_id};
    trace_record_done(&t);
}

static void test_holders(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct trace_position at = {RECORD_NONE, 0};
    int64_t mine[3], of_worker, of_root, holder, now = wall_ns();

    assert_holders(fixture, 0, "");
    of_worker = add_owned(fixture, W1, 0, 1, 1000);
    mine[0] = add_owned(fixture, W1, 1000, 2, 600);
    of_root = add_owned(fixture, NULL, 0, 3, 700);
    mine[1] = add_owned(fixture, NULL, 1000, 4, 700);
    add_owned(fixture, NULL, RECORD_NONE, 5, 800);
    add_owned(fixture, W2, 65534, 6, 550);
    mine[2] = add_owned(fixture, NULL, 1000, 7, 520);
    assert_holders(fixture, 0, "user=3:1820 others=2:1500 " W1 "=1:1000 " W2 "=1:550 ");
    /* A worker that is gone is told from nobody. */
    assert_holders(fixture, now + 3600 * NS_PER_S, "others=4:3050 user=3:1820 ");
    assert_int_equal(catalog_find_holder(fixture->catalog, 1000, W1, 0, &holder), 0);
    assert_int_equal(holder, 1000);
    assert_int_equal(catalog_find_holder(fixture->catalog, 0, NULL, 0, &holder), 0);
    assert_int_equal(holder, HOLDER_OTHERS);
    assert_int_equal(catalog_find_holder(fixture->catalog, 0, "http://unknown", 0, &holder), 0);
    assert_int_equal(holder, HOLDER_OTHERS);
    for (int i = 0; i < 3; i++)
        assert_next_of(fixture, 1000, 0, &at, mine[i]);
    assert_next_of(fixture, 1000, 0, &at, 0);
    assert_int_equal(catalog_find_holder(fixture->catalog, 65534, W1, 0, &holder), 0);
    assert_true(holder < 0);
    at = (struct trace_position){RECORD_NONE, 0};
    assert_next_of(fixture, holder, 0, &at, of_worker);
    assert_next_of(fixture, holder, 0, &at, 0);
    at = (struct trace_position){RECORD_NONE, 0};
    assert_next_of(fixture, HOLDER_OTHERS, now + 3600 * NS_PER_S, &at, of_worker);
    assert_next_of(fixture, HOLDER_OTHERS, now + 3600 * NS_PER_S, &at, of_root);
    /* One that changes hands, and those that go. */
    struct trace_record t;
    assert_int_equal(catalog_get_trace(fixture->catalog, of_root, &t), 0);
    t.owner_uid = 1001;
    assert_int_equal(catalog_save_trace(fixture->catalog, &t), 0);
    trace_record_done(&t);
    for (int i = 0; i < 3; i++)
        assert_int_equal(catalog_remove_trace(fixture->catalog, mine[i]), 0);
    assert_holders(fixture, 0, W1 "=1:1000 others=1:800 user=1:700 " W2 "=1:550 ");
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from holder_row"), 4);
}

/* Traces of one moment, as of an import of a directory: what the next one costs does not grow with their number. */
static int64_t steps_of_last(struct catalog_fixture *fixture, enum statement which, int64_t holder,
                             int64_t seen_since)
{
    struct trace_position at = {RECORD_NONE, 0};
    sqlite3_stmt *s = statement(fixture->catalog, which);
    int64_t last = ask(fixture->path, "select max(trace_id) from trace_row");

    while (at.trace_id < last) {
        struct trace_record t;
        sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, true);
        assert_int_equal(catalog_next_evictable_of(fixture->catalog, holder, seen_since, &at, &t), 0);
        assert_true(t.trace_id > at.trace_id);
        at = (struct trace_position){t.collected_at, t.trace_id};
        trace_record_done(&t);
    }
    return sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, true);
}

static void test_evictable_of_one_moment(void **state)
{
    static const struct {
        enum statement statement;
        int64_t holder, owner;
        bool archived;
    } cases[] = {
        {STATEMENT_EVICTABLE_OF_HOLDER, 1000, 1000, false},
        {STATEMENT_EVICTABLE_OF_OTHERS, HOLDER_OTHERS, 0, false},
        {STATEMENT_ARCHIVED_OF_HOLDER, 1000, 1000, true},
        {STATEMENT_ARCHIVED_OF_OTHERS, HOLDER_OTHERS, 0, true},
    };
    struct catalog_fixture *fixture = *state;
    char sql[600];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t steps[2];
        execute(fixture->path, "delete from trace_row");
        for (int large = 0; large < 2; large++) {
            snprintf(sql, sizeof(sql),
                     "insert into trace_row (kind, state, name, path, origin, stored, size, owner_uid, "
                     "recorded_at, collected_at, archived_at) with recursive n (i) as (select %d union all "
                     "select i + 1 from n where i < %d) select 'trace', 'complete', 'n', '/x/' || i, "
                     "'/x/' || i, 1, 10, %" PRId64 ", 5, 5, 5 from n",
                     large ? 21 : 1, large ? 2000 : 20, cases[i].owner);
            execute(fixture->path, sql);
            catalog_keep_unarchived(fixture->catalog, cases[i].archived);
            steps[large] = steps_of_last(fixture, cases[i].statement, cases[i].holder, 0);
        }
        assert_in_range(steps[1], 1, 2 * steps[0] + 100);
    }
}

/* -- What was read out of a trace -- */

static const char summary[] =
    "{\"names\":[{\"category\":\"kernel\",\"name\":\"gemm\",\"count\":3,\"sum_ns\":30,\"min_ns\":5,"
    "\"max_ns\":15},{\"category\":\"cpu_op\",\"name\":\"gemm\",\"count\":1,\"sum_ns\":7,\"min_ns\":7,"
    "\"max_ns\":7},{\"name\":\"bare\",\"count\":1,\"sum_ns\":1,\"min_ns\":1,\"max_ns\":1}],"
    "\"categories\":[{\"category\":\"kernel\",\"count\":3,\"sum_ns\":30},{\"category\":\"cpu_op\",\"count\":"
    "1,"
    "\"sum_ns\":7},{\"count\":1,\"sum_ns\":1}]}";
static const char other_summary[] =
    "{\"names\":[{\"category\":\"kernel\",\"name\":\"copy\",\"count\":2,\"sum_ns\":8}],\"categories\":[]}";

static void set_summary(struct catalog_fixture *fixture, int64_t id, const char *text)
{
    char error[200];
    _cleanup_json_ facts = json_parse(text, strlen(text), error);
    assert_non_null(facts);
    assert_int_equal(catalog_set_summary(fixture->catalog, id, facts), 0);
}

static void assert_summary(struct catalog_fixture *fixture, int64_t id, const char *expected)
{
    _cleanup_json_ found = json_object();
    assert_int_equal(catalog_put_summary(fixture->catalog, id, found), 0);
    _cleanup_(freep) char *text = json_dumps(found, JSON_COMPACT);
    assert_string_equal(text, expected);
}

static void test_summaries(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t a = add_trace(fixture, RECORD_NONE, NULL, 1, 1), b = add_trace(fixture, RECORD_NONE, NULL, 1, 2);

    set_summary(fixture, a, summary);
    set_summary(fixture, b, summary);
    assert_summary(fixture, a, summary);
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    assert_int_equal(ask(fixture->path, "select sum(count) from trace_names where name = 'gemm'"), 8);
    assert_int_equal(ask(fixture->path, "select count(*) from trace_categories where category is null"), 2);
    assert_int_equal(ask(fixture->path, "select count(*) from name_row"), 2);

    /* It is replaced as a whole, and a name that nobody has any more goes with its last trace. */
    set_summary(fixture, a, other_summary);
    assert_summary(fixture, a, other_summary);
    assert_summary(fixture, b, summary);
    assert_int_equal(catalog_remove_trace(fixture->catalog, b), 0);
    assert_summary(fixture, b, "{\"names\":[],\"categories\":[]}");
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from name_row where name = 'copy'"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from name_row"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from trace_category_row"), 0);
}

static void test_defects(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct trace_record t = full_trace(RECORD_NONE, RECORD_NONE);
    t.defects = "[{\"kind\":\"no_dur\",\"count\":2,\"offset\":77,\"text\":\"words\"},{\"kind\":\"overlap\","
                "\"count\":1}]";
    assert_int_equal(catalog_add_trace(fixture->catalog, &t), 0);
    add_trace(fixture, RECORD_NONE, NULL, 1, 1);
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from trace_defects"), 2);
    assert_int_equal(ask(fixture->path,
                         "select offset from trace_defects where kind = 'no_dur' and count = 2 "
                         "and text = 'words' and trace_id = 1"),
                     77);
}

static void test_removing_a_session(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s = full_session();
    assert_int_equal(catalog_add_session(fixture->catalog, &s), 0);
    struct target_record t = full_target(s.session_id);
    assert_int_equal(catalog_add_target(fixture->catalog, &t), 0);
    struct trace_record tr = full_trace(s.session_id, t.target_id);
    assert_int_equal(catalog_add_trace(fixture->catalog, &tr), 0);
    add_trace(fixture, RECORD_NONE, W1, 1, 1);
    catalog_add_event(fixture->catalog, "session-removed", "uid 0 (root)", s.session_id, RECORD_NONE,
                      RECORD_NONE, "x");
    assert_int_equal(catalog_remove_session(fixture->catalog, s.session_id), 0);
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from targets"), 0);
    assert_int_equal(ask(fixture->path, "select count(*) from traces"), 1);
    /* The worker and the audit log stay, and a number is never given again. */
    assert_int_equal(ask(fixture->path, "select count(*) from workers"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from events"), 1);
    assert_usage(fixture, 1, 100);
    assert_int_equal(add_session(fixture, STATE_REQUESTED), s.session_id + 1);
}

static int remove_it(const struct trace_record *r, void *arg)
{
    struct catalog_fixture *fixture = arg;
    return catalog_remove_trace(fixture->catalog, r->trace_id);
}

static const struct trace_position before_all = {.at = RECORD_NONE};

static void test_evictable(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct ids ids = {0};
    int64_t running = add_session(fixture, STATE_COLLECTING), over = add_session(fixture, STATE_PARTIAL),
            pinned = add_session(fixture, STATE_COMPLETE);
    assert_int_equal(catalog_pin_session(fixture->catalog, pinned, true), 0);
    add_trace(fixture, running, W1, 10, 1);
    add_trace(fixture, over, W1, 30, 2);
    add_trace(fixture, pinned, W1, 10, 3);
    add_trace(fixture, RECORD_NONE, NULL, 20, 4);
    int64_t kept = add_trace(fixture, over, W1, 5, 5);
    assert_int_equal(catalog_pin_trace(fixture->catalog, kept, true), 0);
    struct trace_record in_place = full_trace(over, RECORD_NONE);
    in_place.stored = in_place.pinned = false;
    in_place.columns = NULL;
    assert_int_equal(catalog_add_trace(fixture->catalog, &in_place), 0);
    assert_int_equal(catalog_evictable_after(fixture->catalog, &before_all, 100, collect_id, &ids), 0);
    assert_string_equal(ids.text, "4 2 ");
    /* What is left in place takes no space, but its columns do. */
    in_place.columns = "/columns/6";
    assert_int_equal(catalog_save_trace(fixture->catalog, &in_place), 0);
    ids = (struct ids){0};
    assert_int_equal(catalog_evictable_after(fixture->catalog, &before_all, 100, collect_id, &ids), 0);
    assert_string_equal(ids.text, "4 6 2 ");
    in_place.columns = NULL;
    assert_int_equal(catalog_save_trace(fixture->catalog, &in_place), 0);
    assert_int_equal(catalog_pin_trace(fixture->catalog, kept, false), 0);
    assert_int_equal(catalog_pin_session(fixture->catalog, pinned, false), 0);
    ids = (struct ids){0};
    assert_int_equal(catalog_evictable_after(fixture->catalog, &before_all, 100, collect_id, &ids), 0);
    assert_string_equal(ids.text, "5 3 4 2 ");
}

/* The time of a file is its writer's: what was collected first goes first, whenever it says it was recorded.
 */
static void test_evictable_by_collection(void **state)
{
    static const int64_t recorded[] = {90, 10, 50, INT64_MAX - 1}, collected[] = {3, 4, 1, 2};
    struct catalog_fixture *fixture = *state;
    struct ids ids = {0};

    for (int i = 0; i < 4; i++) {
        struct trace_record t = full_trace(RECORD_NONE, RECORD_NONE);
        char path[32];
        snprintf(path, sizeof(path), "/store/%d", i);
        t.path = t.origin = path;
        t.recorded_at = recorded[i];
        t.collected_at = collected[i];
        t.stored = true;
        t.pinned = false;
        assert_int_equal(catalog_add_trace(fixture->catalog, &t), 0);
    }
    assert_int_equal(catalog_evictable_after(fixture->catalog, &before_all, 100, collect_id, &ids), 0);
    assert_string_equal(ids.text, "3 4 1 2 ");
    ids = (struct ids){0};
    assert_int_equal(
        catalog_evictable_after(fixture->catalog, &(struct trace_position){2, 4}, 1, collect_id, &ids), 0);
    assert_string_equal(ids.text, "1 ");
}

static void test_protected(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct ids ids = {0};
    int64_t running = add_session(fixture, STATE_COLLECTING), over = add_session(fixture, STATE_PARTIAL),
            pinned = add_session(fixture, STATE_COMPLETE);
    assert_int_equal(catalog_pin_session(fixture->catalog, pinned, true), 0);
    add_trace(fixture, running, W1, 10, 1);
    add_trace(fixture, over, W1, 30, 2);
    add_trace(fixture, pinned, W1, 8, 3);
    add_trace(fixture, RECORD_NONE, NULL, 20, 4);
    assert_int_equal(catalog_pin_trace(fixture->catalog, add_trace(fixture, over, W1, 5, 5), true), 0);
    assert_int_equal(catalog_pin_trace(fixture->catalog, add_trace(fixture, pinned, W1, 40, 6), true), 0);
    assert_int_equal(catalog_each_protected(fixture->catalog, INT64_MAX, 100, collect_id, &ids), 0);
    assert_string_equal(ids.text, "5 3 1 6 ");
    ids = (struct ids){0};
    assert_int_equal(catalog_each_protected(fixture->catalog, 9, 100, collect_id, &ids), 0);
    assert_string_equal(ids.text, "5 3 ");
}

static void test_removing_while_walking(void **state)
{
    struct catalog_fixture *fixture = *state;
    for (int i = 0; i < 700; i++)
        add_trace(fixture, RECORD_NONE, NULL, i, i);
    /* Outside of a transaction: each removal is a write between two reads. */
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(catalog_evictable_after(fixture->catalog, &before_all, 256, remove_it, fixture), 0);
    assert_usage(fixture, 0, 0);
}

/* -- Fleet -- */

static void test_fleet_is_remembered(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct worker w = {.url = W1,
                       .engine = ENGINE_VLLM,
                       .role = ROLE_DECODE,
                       .health = HEALTH_HEALTHY,
                       .version = "0.19.1",
                       .profilable = true,
                       .location = {.dir = "/tmp/traces"}};
    struct fleet f = {
        .name = "prod", .router = "http://r:1", .dialect = "vllm-router", .workers = &w, .n_workers = 1};
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &f), 0);
    /* Seen again while it does not answer: what is known stays. */
    w = (struct worker){.url = W1, .reason = "no answer", .remedy = "wait"};
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &f), 0);
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    assert_int_equal(ask(fixture->path,
                         "select count(*) from workers where url = '" W1 "' and router = 'http://r:1' "
                         "and version = '0.19.1' and trace_dir = '/tmp/traces' and engine = 'unknown' "
                         "and profilable = 0 and reason = 'no answer' and health = 'unknown'"),
                     1);

    /* Discovery does not make a router the default; a session does. */
    assert_null(catalog_last_router(fixture->catalog));
    struct session_record s = full_session();
    s.router = "http://r:2";
    assert_int_equal(catalog_add_session(fixture->catalog, &s), 0);
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &f), 0);
    _cleanup_(freep) char *last = catalog_last_router(fixture->catalog);
    assert_string_equal(last, "http://r:2");

    _cleanup_json_ routers = NULL;
    assert_int_equal(catalog_routers_json(fixture->catalog, &routers), 0);
    assert_int_equal(json_array_size(routers), 2);
    assert_string_equal(json_get_str(json_array_get(routers, 0), "url"), "http://r:2");
    assert_int_equal(json_get_int(json_array_get(routers, 0), "last_used_at", 0), s.requested_at);
    assert_string_equal(json_get_str(json_array_get(routers, 1), "fleet"), "prod");
    assert_int_equal(json_get_int(json_array_get(routers, 1), "workers", 0), 1);
    assert_null(json_object_get(json_array_get(routers, 1), "last_used_at"));
}

/* -- Query plans -- */

/* The plan's lines, one behind the other. */
static void plan_of(sqlite3 *db, const char *sql, char *plan, size_t size)
{
    _cleanup_(freep) char *explain = xasprintf("explain query plan %s", sql);
    sqlite3_stmt *s;
    plan[0] = '\0';
    if (sqlite3_prepare_v2(db, explain, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    while (sqlite3_step(s) == SQLITE_ROW)
        snprintf(plan + strlen(plan), size - strlen(plan), "%s; ", sqlite3_column_text(s, 3));
    sqlite3_finalize(s);
}

static void check_plans(struct catalog_fixture *fixture)
{
    static const struct {
        enum statement statement;
        const char *uses;
    } plans[] = {
        {STATEMENT_TRACES, "USING INDEX trace_recorded (recorded_at>? AND recorded_at<?)"},
        {STATEMENT_TRACES_OF_WORKER,
         "USING INDEX trace_worker (worker_id=? AND recorded_at>? AND recorded_at<?)"},
        {STATEMENT_TRACES_OF_SESSION,
         "USING INDEX trace_session (session_id=? AND recorded_at>? AND recorded_at<?)"},
        {STATEMENT_TRACES_OF_SESSION_WORKER,
         "USING INDEX trace_session (session_id=? AND recorded_at>? AND recorded_at<?)"},
        {STATEMENT_TRACES_UNCLAIMED,
         "USING INDEX trace_session (session_id=? AND recorded_at>? AND recorded_at<?)"},
        {STATEMENT_TRACES_UNCLAIMED_OF_WORKER, "USING INDEX trace_"},
        {STATEMENT_TRACE_OF_PATH, "(path=?)"},
        {STATEMENT_TRACE_OF_ORIGIN, "USING INDEX trace_origin (origin=?)"},
        {STATEMENT_TRACE_OF_SHA256, "USING INDEX trace_sha256 (sha256=?)"},
        {STATEMENT_EVICTABLE, "USING INDEX trace_evictable"},
        {STATEMENT_EVICTABLE_OF_HOLDER, "USING INDEX trace_holder"},
        {STATEMENT_EVICTABLE_OF_OTHERS, "USING INDEX trace_evictable"},
        {STATEMENT_TWIN, "USING INDEX trace_session (session_id=?)"},
        {STATEMENT_COUNT_TRACES, "USING COVERING INDEX trace_session"},
        {STATEMENT_TARGET_TRACES, "USING INDEX trace_target"},
        {STATEMENT_COUNT_TARGETS, "USING COVERING INDEX target_session"},
        {STATEMENT_SESSION_EVENTS_AFTER, "USING INDEX event_session"},
    };
    sqlite3 *db;
    char plan[2000];
    assert_int_equal(sqlite3_open(fixture->path, &db), SQLITE_OK);
    for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
        plan_of(db, statement_text(plans[i].statement), plan, sizeof(plan));
        if (!strstr(plan, plans[i].uses) || strstr(plan, "SCAN t;") || strstr(plan, "SCAN trace_row") ||
            strstr(plan, "TEMP B-TREE"))
            fail_msg("%s\n%s", statement_text(plans[i].statement), plan);
    }
    plan_of(db, "select * from traces order by recorded_at desc limit 5", plan, sizeof(plan));
    if (!strstr(plan, "USING INDEX trace_recorded") || strstr(plan, "TEMP B-TREE"))
        fail_msg("%s", plan);
    sqlite3_close(db);
}

static void test_plans(void **state)
{
    struct catalog_fixture *fixture = *state;
    check_plans(fixture);
    /* And with statistics, which change what SQLite believes: few workers, many sessions, most traces
     * claimed. */
    for (int i = 0; i < 40; i++) {
        int64_t s = add_session(fixture, STATE_COMPLETE);
        for (int k = 0; k < 25; k++)
            add_trace(fixture, k == 3 ? RECORD_NONE : s, k % 2 ? W1 : W2, 1000 * i + k, 100 * i + k);
    }
    assert_int_equal(catalog_commit(fixture->catalog, false), 0);
    execute(fixture->path, "analyze");
    check_plans(fixture);
}

#define FIXTURE_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_begin_open, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_copies),
        FIXTURE_TEST(test_round_trips),
        FIXTURE_TEST(test_saving_writes_every_column),
        FIXTURE_TEST(test_absent_rows),
        FIXTURE_TEST(test_found_by_path_and_origin),
        FIXTURE_TEST(test_found_by_content),
        FIXTURE_TEST(test_found_without_columns),
        FIXTURE_TEST(test_filters),
        FIXTURE_TEST(test_long_listings),
        FIXTURE_TEST(test_unfinished),
        FIXTURE_TEST(test_usage),
        FIXTURE_TEST(test_holders),
        FIXTURE_TEST(test_evictable_of_one_moment),
        FIXTURE_TEST(test_summaries),
        FIXTURE_TEST(test_defects),
        FIXTURE_TEST(test_removing_a_session),
        FIXTURE_TEST(test_evictable),
        FIXTURE_TEST(test_evictable_by_collection),
        FIXTURE_TEST(test_protected),
        FIXTURE_TEST(test_removing_while_walking),
        FIXTURE_TEST(test_fleet_is_remembered),
        FIXTURE_TEST(test_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
