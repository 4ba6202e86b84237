/* SPDX-License-Identifier: Apache-2.0 */
/* What a host answers about a lease is checked before it is believed. */
#include "base/alloc.h"
#include "daemon/catalog/records.h"
#include "daemon/hosts/delivery.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define UUID "0b6f4f6e-8f5c-4f1e-9b43-6d2f3a1c7e55"
#define TRACE                                                                                                \
    "{'trace':'t5','uuid':'" UUID "','worker':'http://h2:8000','kind':'trace','state':'complete',"           \
    "'name':'rank0.json','recorded_at':1700000000000000000%s}"

/* With ' for ". */
static json_t *parse(const char *format, ...)
{
    char error[200], *text;
    va_list ap;

    va_start(ap, format);
    text = xvasprintf(format, ap);
    va_end(ap);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    json_t *j = json_parse(text, strlen(text), error);
    assert_non_null(j);
    free(text);
    return j;
}

static void test_answer(void **state)
{
    _cleanup_json_ j =
        parse("{'state':'recording','armed':true,'next':12,'session':{'session':'s9'},"
              "'targets':[{'worker':'http://h2:8000','state':'recording','start_sent_mono_ns':5,"
              "'start_status':200,'stop_status':7}],'traces':[" TRACE "]}",
              ",'path':'/x','size':7,'unknown':{'a':1}");
    const char *reason;
    struct delivery d;

    assert_int_equal(delivery_parse(j, &d, &reason), 0);
    assert_true(d.armed);
    assert_false(d.over);
    assert_int_equal(d.next, 12);
    assert_string_equal(d.session, "s9");
    assert_int_equal(d.n_targets, 1);
    assert_int_equal(d.targets[0].state, STATE_RECORDING);
    assert_int_equal(d.targets[0].start_sent_mono_ns, 5);
    assert_int_equal(d.targets[0].start_status, 200);
    assert_int_equal(d.targets[0].stop_status, RECORD_NONE); /* no status of HTTP */
    assert_int_equal(d.n_traces, 1);
    assert_string_equal(d.traces[0].uuid, UUID);
    assert_int_equal(d.traces[0].remote_id, 5);
    assert_null(strstr(d.traces[0].facts, "unknown"));
    assert_non_null(strstr(d.traces[0].facts, "\"size\":7"));
    delivery_done(&d);
}

static void test_refused(void **state)
{
    static const char *const wrong[] = {
        "{}",
        "{'state':'over','targets':{}}",
        "{'state':'over','targets':[{'worker':'http://h2:8000','state':'done'}]}",
        "{'state':'over','targets':[{'state':'complete'}]}",
        "{'state':'over','traces':[{'trace':'t5'}]}",
        "{'state':'over','traces':[{'trace':'s5','uuid':'" UUID
        "','kind':'trace','state':'complete','name':'x','recorded_at':1}]}",
        "{'state':'over','traces':[{'trace':'t5','uuid':'0B6F4F6E-8F5C-4F1E-9B43-6D2F3A1C7E55',"
        "'kind':'trace','state':'complete','name':'x','recorded_at':1}]}",
        "{'state':'over','traces':[{'trace':'t5','uuid':'" UUID
        "','kind':'trace','state':'complete','name':'x','recorded_at':'now'}]}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        _cleanup_json_ j = parse("%s", wrong[i]);
        const char *reason = NULL;
        struct delivery d;
        assert_int_equal(delivery_parse(j, &d, &reason), -EINVAL);
        assert_non_null(reason);
        delivery_done(&d);
    }
}

static void test_facts(void **state)
{
    _cleanup_json_ trace =
        parse(TRACE, ",'size':-1,'sha256':'../../etc/passwd','reason':'a\\u001b[31mb','kind2':1,"
                     "'labels':{'a':'b','c':5},'ranks':{'rank':3,'tp':'x'},'candidates':['u',7],"
                     "'defects':[{'kind':'truncated','count':1,'offset':-3}],'columns':'/etc/shadow'");
    _cleanup_json_ facts = trace_facts_check(trace);

    assert_null(json_object_get(facts, "size"));
    assert_null(json_object_get(facts, "sha256"));
    assert_null(json_object_get(facts, "trace")); /* its number here is another one */
    assert_null(json_object_get(facts, "uuid"));
    assert_string_equal(json_get_str(facts, "reason"), "a?[31mb");
    assert_int_equal(json_object_size(json_object_get(facts, "labels")), 1);
    assert_int_equal(json_object_size(json_object_get(facts, "ranks")), 1);
    assert_int_equal(json_array_size(json_object_get(facts, "candidates")), 1);
    assert_null(json_object_get(json_array_get(json_object_get(facts, "defects"), 0), "offset"));

    /* No disk of a host has such files, and sums of their sizes would overflow. */
    static const char *const sizes[] = {"size", "columns_size", "uncompressed", "disk_size"};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        json_object_set_new(trace, sizes[i], json_integer(i % 2 ? INT64_MAX : DELIVERY_FILE_BYTES_MAX + 1));
        _cleanup_json_ lie = trace_facts_check(trace);
        assert_null(json_object_get(lie, sizes[i]));
        json_object_set_new(trace, sizes[i], json_integer(DELIVERY_FILE_BYTES_MAX));
        _cleanup_json_ most = trace_facts_check(trace);
        assert_int_equal(json_get_int(most, sizes[i], 0), DELIVERY_FILE_BYTES_MAX);
    }

    /* What is too long for a row loses its lists, not its facts. */
    json_t *labels = json_object(), *candidates = json_array();
    _cleanup_(freep) char *longest = xcalloc(DELIVERY_TEXT_MAX + 1, 1);
    memset(longest, 'x', DELIVERY_TEXT_MAX);
    for (int i = 0; i < 1000; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%d", i);
        json_object_set_new(labels, name, json_string(longest));
        json_array_append_new(candidates, json_string(longest));
    }
    json_object_set_new(trace, "labels", labels);
    json_object_set_new(trace, "candidates", candidates);
    json_object_set_new(trace, "name", json_string("x.json"));
    _cleanup_json_ answer = json_pack("{s:s, s:[O]}", "state", "over", "traces", trace);
    const char *reason;
    struct delivery d;
    assert_int_equal(delivery_parse(answer, &d, &reason), 0);
    assert_true(strlen(d.traces[0].facts) <= DELIVERY_FACTS_MAX);
    assert_non_null(strstr(d.traces[0].facts, "x.json"));
    delivery_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
