/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for the archive, in which order, and that nothing leaves the store before the archive has it. */
#include "tests/unit/cmocka-all.h"

#include "base/clock.h"
#include "daemon/catalog/uploads.h"
#include "tests/unit/catalog-fixture.h"
#include "tests/unit/catalog-records.h"
#include <errno.h>
#include <inttypes.h>

#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define KEY_A "traces/sha256/aa/" SHA_A ".json"

/* A trace of the store without a session. */
static int64_t add_stored(struct catalog_fixture *fixture, const char *path, const char *sha256,
                          int64_t collected_at)
{
    struct trace_record t;

    trace_record_init(&t);
    t.kind = TRACE_KIND_TRACE;
    t.state = TRACE_COMPLETE;
    t.name = t.path = t.origin = (char *)path;
    t.sha256 = (char *)sha256;
    t.stored = true;
    t.size = t.disk_size = 10;
    t.recorded_at = t.collected_at = collected_at;
    assert_int_equal(catalog_add_trace(fixture->catalog, &t), 0);
    return t.trace_id;
}

static int take_upload(const struct upload_record *u, void *arg)
{
    char *text = arg;
    snprintf(text + strlen(text), 30, "%s%" PRId64 " ", upload_kind_name(u->kind),
             u->trace_id == RECORD_NONE ? u->session_id : u->trace_id);
    return 0;
}

static const char *due(struct catalog_fixture *fixture, int64_t now, int64_t limit)
{
    static char text[1000];

    text[0] = '\0';
    assert_int_equal(catalog_each_upload(fixture->catalog, now, limit, take_upload, text), 0);
    return text;
}

static int take_trace(const struct trace_record *t, void *arg)
{
    char *text = arg;
    snprintf(text + strlen(text), 30, "t%" PRId64 " ", t->trace_id);
    return 0;
}

static const char *evictable(struct catalog_fixture *fixture)
{
    const struct trace_position start = {RECORD_NONE, 0};
    static char text[1000];

    text[0] = '\0';
    assert_int_equal(catalog_evictable_after(fixture->catalog, &start, 100, take_trace, text), 0);
    return text;
}

/* Numbers only: the texts are those of the list. */
static int copy_upload(const struct upload_record *u, void *arg)
{
    struct upload_record *copy = arg;

    *copy = *u;
    copy->path = copy->key = (char *)"";
    copy->sha256 = copy->s3_upload_id = copy->parts = copy->error = copy->name = NULL;
    return 1;
}

static void test_order(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t first = add_stored(fixture, "/s/1", SHA_A, 1), second = add_stored(fixture, "/s/2", SHA_B, 2);
    struct upload_record u = {.upload_id = RECORD_NONE,
                              .trace_id = first,
                              .session_id = RECORD_NONE,
                              .path = (char *)"/s/1",
                              .key = (char *)KEY_A,
                              .size = 10,
                              .next_at = 50,
                              .error = (char *)"refused",
                              .wanted_at = 1};

    add_stored(fixture, "/s/3", NULL, 3);
    assert_string_equal(due(fixture, 10, 10), "trace1 trace2 trace3 ");
    assert_string_equal(due(fixture, 10, 2), "trace1 trace2 ");
    /* One that failed is last, when it is due. */
    assert_int_equal(catalog_save_upload(fixture->catalog, &u), 0);
    assert_string_equal(due(fixture, 10, 10), "trace2 trace3 ");
    assert_string_equal(due(fixture, 60, 10), "trace2 trace3 trace1 ");
    assert_int_equal(catalog_next_upload_at(fixture->catalog), 50);
    /* One that began, and was interrupted, is first. */
    u.upload_id = RECORD_NONE;
    u.trace_id = second + 1;
    u.error = NULL;
    u.next_at = RECORD_NONE;
    assert_int_equal(catalog_save_upload(fixture->catalog, &u), 0);
    assert_string_equal(due(fixture, 60, 10), "trace3 trace2 trace1 ");
}

/* What waits for another one of its kind, or for a file that is gone, is not waited for. */
static void test_next_at(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct catalog *c = fixture->catalog;
    int64_t id = add_stored(fixture, "/s/1", SHA_A, 1);
    struct upload_record u = {.upload_id = RECORD_NONE,
                              .trace_id = id,
                              .session_id = RECORD_NONE,
                              .path = (char *)"/s/1",
                              .key = (char *)KEY_A,
                              .size = 10,
                              .next_at = 50,
                              .error = (char *)"refused",
                              .wanted_at = 1};
    int64_t session = add_session(fixture, STATE_RECORDING);
    struct upload_record manifest = {.upload_id = RECORD_NONE,
                                     .kind = UPLOAD_MANIFEST,
                                     .trace_id = RECORD_NONE,
                                     .session_id = session,
                                     .path = (char *)"",
                                     .key = (char *)"v1/m.json",
                                     .size = RECORD_NONE,
                                     .next_at = 20,
                                     .wanted_at = 1};

    assert_int_equal(catalog_save_upload(c, &u), 0);
    assert_int_equal(catalog_save_upload(c, &manifest), 0);
    assert_int_equal(catalog_next_upload_at(c), 50);
    assert_int_equal(catalog_set_archived(c, id, KEY_A, SHA_A, 10, 5), 0);
    assert_int_equal(catalog_next_upload_at(c), RECORD_NONE);
}

/* A version that is wanted while an earlier one is sent is not lost with its end, nor with its progress. */
static void test_wanted_again(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct catalog *c = fixture->catalog;
    int64_t session = add_session(fixture, STATE_COMPLETE);
    struct upload_record wanted = {.upload_id = RECORD_NONE,
                                   .kind = UPLOAD_MANIFEST,
                                   .trace_id = RECORD_NONE,
                                   .session_id = session,
                                   .path = (char *)"",
                                   .key = (char *)"v1/m.json",
                                   .size = RECORD_NONE};
    struct upload_record first, second;
    char text[100];

    assert_int_equal(catalog_want_upload(c, &wanted), 0);
    assert_int_equal(catalog_each_upload(c, 10, 10, copy_upload, &first), 0);
    assert_int_equal(catalog_want_upload(c, &wanted), 0);
    first.error = (char *)"refused";
    first.next_at = 1000;
    assert_int_equal(catalog_save_upload(c, &first), 0);
    assert_int_equal(catalog_remove_upload(c, &first), 0);
    snprintf(text, sizeof(text), "session%" PRId64 " ", session);
    assert_string_equal(due(fixture, 10, 10), text);
    assert_int_equal(catalog_each_upload(c, 10, 10, copy_upload, &second), 0);
    assert_true(second.wanted_at > first.wanted_at);
    assert_int_equal(catalog_remove_upload(c, &second), 1);
    assert_string_equal(due(fixture, 10, 10), "");
}

static void test_archived(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct catalog *c = fixture->catalog;
    int64_t first = add_stored(fixture, "/s/1", SHA_A, 1), second = add_stored(fixture, "/s/2", NULL, 2);
    struct upload_lag lag;
    struct trace_record t;

    assert_int_equal(catalog_upload_lag(c, &lag), 0);
    assert_true(lag.files == 2 && lag.bytes == 20 && lag.oldest_at == 1);
    /* Other bytes than the row's. */
    assert_int_equal(catalog_set_archived(c, first, KEY_A, SHA_B, 10, 5), -ENOENT);
    assert_int_equal(catalog_set_archived(c, first, KEY_A, SHA_A, 11, 5), -ENOENT);
    assert_int_equal(catalog_set_archived(c, first, KEY_A, SHA_A, 10, 5), 0);
    assert_true(catalog_has_content(c, SHA_A) && !catalog_has_content(c, SHA_B));
    /* A hash that was not known is, afterwards. */
    assert_int_equal(catalog_set_archived(c, second, "traces/b", SHA_B, 10, 5), 0);
    assert_true(catalog_has_content(c, SHA_B));
    assert_int_equal(catalog_upload_lag(c, &lag), 0);
    assert_true(lag.files == 0 && lag.oldest_at == RECORD_NONE);

    assert_int_equal(catalog_get_trace(c, first, &t), 0);
    assert_false(trace_is_archived_only(&t));
    trace_leave_to_archive(&t);
    assert_true(trace_is_archived_only(&t));
    assert_string_equal(t.path, "archive:" KEY_A "#t1");
    assert_int_equal(catalog_save_trace(c, &t), 0);
    trace_record_done(&t);
    assert_string_equal(due(fixture, 10, 10), "");
    assert_int_equal(catalog_set_fetched(c, second, "/s/x", 10), -ENOENT);
    assert_int_equal(catalog_set_fetched(c, first, "/s/x", 10), 0);
    assert_int_equal(catalog_get_trace(c, first, &t), 0);
    assert_true(t.stored && t.archived_at == 5 && t.disk_size == 10);
    assert_string_equal(t.path, "/s/x");
    trace_record_done(&t);
}

static void test_nothing_unarchived_leaves(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t first = add_stored(fixture, "/s/1", SHA_A, 1);

    add_stored(fixture, "/s/2", SHA_B, 2);
    assert_string_equal(evictable(fixture), "t1 t2 ");
    catalog_keep_unarchived(fixture->catalog, true);
    assert_string_equal(evictable(fixture), "");
    assert_int_equal(catalog_set_archived(fixture->catalog, first, KEY_A, SHA_A, 10, 5), 0);
    assert_string_equal(evictable(fixture), "t1 ");
    run_turn(fixture);
    /* By its index, however many others wait. */
    assert_int_equal(ask(fixture->path, "select count(*) from traces where archived_at is null"), 1);
    catalog_keep_unarchived(fixture->catalog, false);
    assert_string_equal(evictable(fixture), "t1 t2 ");
}

static void test_files_of_sessions(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct catalog *c = fixture->catalog;
    int64_t session = add_session(fixture, STATE_COMPLETE), running = add_session(fixture, STATE_RECORDING);
    struct upload_record u = {.upload_id = RECORD_NONE,
                              .kind = UPLOAD_MANIFEST,
                              .trace_id = RECORD_NONE,
                              .session_id = session,
                              .path = (char *)"",
                              .key = (char *)"v1/session/a",
                              .size = RECORD_NONE};

    assert_int_equal(catalog_want_upload(c, &u), 0);
    assert_int_equal(catalog_want_upload(c, &u), 0);
    u.session_id = running;
    assert_int_equal(catalog_want_upload(c, &u), 0);
    /* Once for each; not of a session that is not over, nor before its traces. */
    assert_string_equal(due(fixture, wall_ns(), 10), "session1 ");
    add_trace(fixture, session, NULL, 1, 1);
    assert_null(strstr(due(fixture, wall_ns(), 10), "session1"));
    u.kind = UPLOAD_SLICES;
    u.path = (char *)"/state/slices/s1.parquet";
    assert_int_equal(catalog_want_upload(c, &u), 0);
    assert_non_null(strstr(due(fixture, wall_ns(), 10), "slices2"));
}

#define OPEN_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_begin_open, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN_TEST(test_order),   OPEN_TEST(test_archived),     OPEN_TEST(test_nothing_unarchived_leaves),
        OPEN_TEST(test_next_at), OPEN_TEST(test_wanted_again), OPEN_TEST(test_files_of_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
