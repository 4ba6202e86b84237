/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as the doors show them: JSON, and pages of it. */
#include "tests/unit/cmocka-all.h"

#include "tests/unit/catalog-fixture.h"
#include "tests/unit/catalog-records.h"

static void assert_json(const json_t *value, const char *expected)
{
    _cleanup_(freep) char *text = json_dumps(value, JSON_COMPACT);
    assert_string_equal(text, expected);
}

static void test_session_json(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s = full_session();
    s.uuid = (char *)UUID_1;
    assert_int_equal(catalog_add_session(fixture->catalog, &s), 0);
    struct target_record t = full_target(s.session_id);
    assert_int_equal(catalog_add_target(fixture->catalog, &t), 0);
    t.target_id = 0;
    t.worker_url = W2;
    t.state = STATE_COMPLETE;
    assert_int_equal(catalog_add_target(fixture->catalog, &t), 0);
    struct trace_record tr = full_trace(s.session_id, 1);
    assert_int_equal(catalog_add_trace(fixture->catalog, &tr), 0);
    add_trace(fixture, s.session_id, NULL, 5, 77);

    _cleanup_json_ j = NULL;
    assert_int_equal(catalog_session_json(fixture->catalog, s.session_id, true, &j), 0);
    _cleanup_json_ targets = json_incref(json_object_get(j, "targets"));
    json_object_del(j, "targets");
    assert_json(
        j, "{\"session\":\"s1\",\"state\":\"collecting\",\"router\":\"http://"
           "r:3000\",\"dialect\":\"vllm-router\","
           "\"fleet\":\"prod\",\"options\":{\"steps\":5},\"labels\":{\"team\":\"rl\"},\"requested_at\":1,"
           "\"requested_by\":\"uid 1000 (anna)\",\"start_at\":2,\"starts_sent_at\":3,\"recording_at\":4,"
           "\"stop_at\":5,\"hard_stop_at\":6,\"stopped_at\":7,\"finished_at\":8,\"skew_ns\":9,"
           "\"reason\":\"reason\",\"remedy\":\"remedy\\nin two lines\",\"remarks\":[{\"text\":\"remark\"}],"
           "\"name\":\"night\",\"skipped\":[{\"worker\":\"" W2 "\"}],\"uuid\":\"" UUID_1 "\","
           "\"coordinator\":\"6b1f0000-0000-4000-8000-000000000001\",\"coordinator_name\":\"n17\","
           "\"skew_error_ns\":96,\"pinned\":true,"
           "\"counts\":{\"targets\":2,\"active\":1,\"complete\":1,\"partial\":0,\"failed\":0,\"cancelled\":0,"
           "\"traces\":2,\"bytes\":9096,\"disk_bytes\":4196,\"remote_bytes\":0,\"skipped\":1}}");
    assert_int_equal(json_array_size(targets), 2);
    assert_json(
        json_array_get(targets, 0),
        "{\"target\":1,\"worker\":\"" W1 "\",\"engine\":\"vllm\",\"version\":\"0.19.1\",\"role\":\"decode\","
        "\"state\":\"stopping\",\"profile_id\":\"s1-w1\",\"output_dir\":\"/tmp/out\","
        "\"trace_dir\":\"/tmp/traces\",\"ranks_expected\":8,\"stop_pending\":true,\"start_sent_at\":11,"
        "\"start_answered_at\":12,\"start_status\":200,\"stop_sent_at\":13,\"stop_answered_at\":14,"
        "\"stop_status\":500,\"failure\":\"failure\",\"host\":\"n18\","
        "\"host_uuid\":\"6b1f0000-0000-4000-8000-000000000002\",\"clock_offset_ns\":-15,\"clock_error_ns\":"
        "16,"
        "\"clock_rtt_ns\":17,\"clock_maxerror_ns\":18,\"clock_unsync\":1,\"remedy\":\"remedy\",\"traces\":["
        "\"t1\"],"
        "\"bytes\":4096}");
    assert_int_equal(json_array_size(json_object_get(json_array_get(targets, 1), "traces")), 0);
}

/* The JSON of a worker, as profd writes it or otherwise, and what is shown of it. */
static const struct {
    const char *worker, *shown;
} workers[] = {
    {"{\"url\":\"u\",\"model\":\"a\\\"}b\\\\\",\"traces\":{\"name\":\"no\",\"of\":[1,{\"role\":\"no\"}]},"
     "\"engine\":\"vllm\"}",
     "{\"engine\":\"vllm\",\"model\":\"a\\\"}b\\\\\"}"},
    {"{ \"role\" : \"decode\", \"engine\" : \"sglang\" }", "{\"engine\":\"sglang\",\"role\":\"decode\"}"},
    {"{\"name\":7,\"names\":\"no\",\"nam\":\"no\",\"node\":null,\"engine\":\"\"}", "{\"engine\":\"\"}"},
    {"{\"engine\":\"vllm\",\"mod", "{}"},
    {"{\"engine\":\"vl", "{}"},
    {"{\"engine\"", "{}"},
    {"{}", "{}"},
    {"", "{}"},
};

static void test_worker_software(void **state _unused_)
{
    static const char *const keys[] = {"identity", "name", "node", "engine", "version", "role", "model"};

    for (size_t i = 0; i < ARRAY_SIZE(workers); i++) {
        struct target_record t;
        target_record_init(&t);
        t.worker = (char *)workers[i].worker;
        _cleanup_json_ target = json_object();
        _cleanup_json_ shown = json_object();
        target_json_renew(target, &t);
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            if (json_object_get(target, keys[k]))
                json_object_set(shown, keys[k], json_object_get(target, keys[k]));
        assert_json(shown, workers[i].shown);
    }
}

static void test_trace_json(void **state)
{
    struct trace_record r = full_trace(7, 3);
    r.trace_id = 12;
    _cleanup_json_ j = trace_record_to_json(&r);
    assert_json(
        j, "{\"trace\":\"t12\",\"session\":\"s7\",\"worker\":\"" W1 "\",\"kind\":\"frontend\","
           "\"state\":\"truncated\",\"reason\":\"gzip ends after 17 events\",\"name\":\"rank0.json.gz\","
           "\"path\":\"/store/s1/rank0.json.gz\",\"origin\":\"/tmp/traces/rank0.json.gz\",\"stored\":true,"
           "\"size\":4096,\"sha256\":\"ab12\",\"format\":\"kineto\",\"uncompressed\":99999,"
           "\"stage\":\"decode\",\"world_size\":8,\"pid\":4711,\"devices\":1,\"device_name\":\"NVIDIA H200\","
           "\"events\":17,\"first_event_at\":21,\"span_ns\":22,\"candidates\":[\"" W1 "\",\"" W2 "\"],"
           "\"owner_uid\":1000,\"recorded_at\":23,\"collected_at\":24,\"labels\":{\"run\":\"a\"},"
           "\"last_event_at\":43,\"columns\":\"/columns/t1.columns\",\"columns_size\":512,"
           "\"columns_version\":1,\"columns_reason\":\"none\",\"slices\":16,\"gpu_slices\":5,\"threads\":4,"
           "\"flows\":3,\"defects\":[{\"kind\":\"truncated\",\"count\":1}],\"disk_size\":4096,\"archived_"
           "at\":25,"
           "\"archive_key\":\"traces/sha256/ab/ab12.gz\",\"pinned\":true,"
           "\"ranks\":{\"rank\":5,\"dp\":1,\"pp\":0,\"tp\":3,\"ep\":2}}");
    trace_record_init(&r);
    r.trace_id = 13;
    r.name = "bad \xff name";
    _cleanup_json_ bare = trace_record_to_json(&r);
    assert_json(
        bare,
        "{\"trace\":\"t13\",\"kind\":\"trace\",\"state\":\"complete\",\"name\":\"bad \xef\xbf\xbd name\","
        "\"stored\":false,\"size\":0,\"disk_size\":0,\"pinned\":false}");
}

static void assert_sessions(struct catalog_fixture *fixture, int64_t limit, int64_t before, const char *state,
                            const char *expected)
{
    char text[200] = "";
    _cleanup_json_ list = NULL;
    size_t i;
    json_t *s;
    assert_int_equal(catalog_sessions_json(fixture->catalog, limit, before, state, &list), 0);
    json_array_foreach(list, i, s)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", json_get_str(s, "session"));
    assert_string_equal(text, expected);
}

static void test_session_lists(void **state)
{
    struct catalog_fixture *fixture = *state;
    json_t *none = NULL;
    for (int i = 0; i < 6; i++)
        add_session(fixture, i % 2 ? STATE_COMPLETE : STATE_RECORDING);
    assert_sessions(fixture, 50, RECORD_NONE, NULL, "s6 s5 s4 s3 s2 s1 ");
    assert_sessions(fixture, 2, 5, NULL, "s4 s3 ");
    assert_sessions(fixture, 50, RECORD_NONE, "complete", "s6 s4 s2 ");
    assert_sessions(fixture, 2, 6, "complete", "s4 s2 ");
    assert_sessions(fixture, 50, RECORD_NONE, "active", "s5 s3 s1 ");
    assert_sessions(fixture, 50, 5, "active", "s3 s1 ");
    assert_sessions(fixture, 50, RECORD_NONE, "failed", "");
    assert_int_equal(catalog_sessions_json(fixture->catalog, 50, RECORD_NONE, "tired", &none), -EINVAL);
    assert_null(none);
}

static void test_event_lists(void **state)
{
    struct catalog_fixture *fixture = *state;
    for (int i = 1; i <= 5; i++)
        assert_int_equal(catalog_add_event(fixture->catalog, "k", "profd", i % 2 ? 1 : RECORD_NONE,
                                           i == 3 ? 9 : RECORD_NONE, i == 3 ? 12 : RECORD_NONE, "event %d",
                                           i),
                         0);
    static const struct {
        int64_t session_id, after_id, limit;
        int64_t first, n;
    } lists_of[] = {
        {RECORD_NONE, RECORD_NONE, 2, 4, 2}, {RECORD_NONE, 0, 2, 1, 2}, {RECORD_NONE, 3, 50, 4, 2},
        {1, RECORD_NONE, 2, 3, 2},           {1, 1, 50, 3, 2},          {2, 0, 50, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(lists_of); i++) {
        _cleanup_json_ list = NULL;
        assert_int_equal(catalog_events_json(fixture->catalog, lists_of[i].session_id, RECORD_NONE,
                                             lists_of[i].after_id, lists_of[i].limit, &list),
                         0);
        assert_int_equal(json_array_size(list), lists_of[i].n);
        assert_int_equal(json_get_int(json_array_get(list, 0), "event_id", 0), lists_of[i].first);
    }
    _cleanup_json_ one = NULL;
    assert_int_equal(catalog_events_json(fixture->catalog, 1, RECORD_NONE, 2, 1, &one), 0);
    json_t *e = json_array_get(one, 0);
    assert_true(json_get_int(e, "at", 0) > 0);
    json_object_del(e, "at");
    assert_json(e, "{\"event_id\":3,\"kind\":\"k\",\"actor\":\"profd\",\"session\":\"s1\",\"target\":9,"
                   "\"trace\":\"t12\",\"text\":\"event 3\"}");
}

#define FIXTURE_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_begin_open, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_session_json), cmocka_unit_test(test_worker_software),
        FIXTURE_TEST(test_trace_json),   FIXTURE_TEST(test_session_lists),
        FIXTURE_TEST(test_event_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
