/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is read in parts, by any number of threads or a piece at a time: what is made of it is the
 * same. */
#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-fixture.h"
#include "tests/unit/real-trace-texts.h"
#include "trace/read/scan.h"

/* The file is the same, whatever number of threads reads it. */
static void check_parts(const char *text, size_t size)
{
    static const unsigned threads[] = {2, 3, 4, 7, 16, 100};
    struct read_result one = read_in(text, size, (struct read_options){.threads = 1});

    assert_int_equal(one.result, 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        struct read_result r = read_in(text, size, (struct read_options){.threads = threads[i]});
        assert_int_equal(r.result, 0);
        assert_int_equal(r.sum.state, one.sum.state);
        assert_string_equal(r.sum.reason, one.sum.reason);
        assert_true(same_columns(&one, &r));
        read_result_free(&r);
    }
    read_result_free(&one);
}

static void test_parts_of_real_traces(void **state)
{
    static const char *const names[] = {
        "hta/nccl_data_rank0.json.gz", "tracelens/b200_eager_rank0.json.gz",
        "param/linear_kineto.json.gz", "kineto/resnet50_2021_workers0.json.gz",
        "malformed/truncated.json.gz", "malformed/nan.json.gz",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t size;
        _cleanup_(freep) char *text = load_text(names[i], &size);
        print_message("%s\n", names[i]);
        check_parts(text, size);
        check_parts(text, size / 3 * 2);
    }
}

struct growing {
    char *text;
    size_t size, cap;
};

static void add(struct growing *g, const char *text)
{
    size_t size = strlen(text);

    if (g->size + size > g->cap) {
        g->cap = 2 * (g->cap + size);
        g->text = xrealloc(g->text, g->cap, 1);
    }
    memcpy(g->text + g->size, text, size);
    g->size += size;
}

static void add_events(struct growing *g, size_t until, const char *name)
{
    char event[256];

    for (int i = 0; g->size < until; i++) {
        snprintf(event, sizeof(event),
                 "%s{\"ph\": \"X\", \"name\": \"%s\", \"pid\": 1, \"tid\": %d, \"ts\": %d, \"dur\": 3}",
                 i ? ",\n" : "", name, i % 5, i);
        add(g, event);
    }
}

#define MIB ((size_t)1 << 20)

/* What looks like events and is none, where parts would begin. */
static void test_parts_begin_at_events_only(void **state)
{
    struct growing g = {0};

    /* Within an argument. */
    add(&g, HEAD);
    add_events(&g, MIB, "real");
    add(&g, ",\n{\"ph\": \"X\", \"name\": \"n\", \"ts\": 1, \"dur\": 2, \"pid\": 1, \"tid\": 1, \"args\": "
            "{\"list\": [");
    add_events(&g, 6 * MIB, "not real");
    add(&g, "]}},\n");
    add_events(&g, 8 * MIB, "real");
    add(&g, TAIL);
    check_parts(g.text, g.size);

    /* In one that is larger than an event may be. */
    g.size = 0;
    add(&g, HEAD);
    add_events(&g, MIB, "real");
    add(&g, ",\n{\"ph\": \"X\", \"name\": \"n\", \"ts\": 1, \"dur\": 2, \"pid\": 1, \"tid\": 1, \"args\": "
            "{\"list\": [");
    add_events(&g, SCAN_ITEM_MAX + 4 * MIB, "not real");
    add(&g, "]}},\n");
    add_events(&g, SCAN_ITEM_MAX + 6 * MIB, "real");
    add(&g, TAIL);
    check_parts(g.text, g.size);

    /* In members before and behind the events. */
    g.size = 0;
    add(&g, "{\"traceName\": \"first\", \"before\": [");
    add_events(&g, 3 * MIB, "not real");
    add(&g, "], \"traceEvents\": [\n");
    add_events(&g, 5 * MIB, "real");
    add(&g, "], \"behind\": [");
    add_events(&g, 8 * MIB, "not real");
    add(&g, "], \"traceName\": \"last\"}");
    check_parts(g.text, g.size);

    /* Behind the end of all, and without one. */
    g.size -= 1;
    check_parts(g.text, g.size);
    g.size = 0;
    add(&g, "[");
    add_events(&g, 2 * MIB, "real");
    add(&g, "]");
    add_events(&g, 6 * MIB, "not real");
    check_parts(g.text, g.size);

    /* A long string, and a broken event, and none at all. */
    g.size = 0;
    add(&g, "[");
    add_events(&g, MIB, "real");
    add(&g, ",\n{\"ph\": \"X\", \"name\": \"n\", \"ts\": 1, \"dur\": 2, \"pid\": 1, \"tid\": 1, \"args\": "
            "{\"text\": \"");
    while (g.size < 3 * MIB)
        add(&g, "},\\n{'ph': 'X', 'ts': 1, 'dur': 2}");
    add(&g, "\"}},\n{\"ph\": \"X\" \"name\": },\n");
    add_events(&g, 5 * MIB, "real");
    add(&g, "\n]");
    check_parts(g.text, g.size);
    free(g.text);
}

/* Items that do not fit into a piece of the text, nor into what is kept between two. */
static void test_large_items(void **state)
{
    struct growing g = {0};

    add(&g, "{\"deviceProperties\": [{\"name\": \"GPU\"}, \"");
    while (g.size < 3 * MIB)
        add(&g, "0123456789012345678901234567890");
    add(&g, "\"], \"traceEvents\": [" EVENT
            ",{\"ph\": \"X\", \"name\": \"large\", \"ts\": 1, \"dur\": 2, \"pid\": 1, \"tid\": 1, "
            "\"args\": {\"text\": \"");
    while (g.size < 10 * MIB)
        add(&g, "0123456789012345678901234567890");
    add(&g, "\"}},\n" EVENT ",\n{\"ph\": \"X\", \"name\": \"too large\", \"args\": {\"text\": \"");
    while (g.size < 10 * MIB + SCAN_ITEM_MAX + MIB / 2)
        add(&g, "0123456789012345678901234567890");
    add(&g, "\"}},\n" EVENT ",\n" EVENT TAIL);

    struct read_result r = read_in(g.text, g.size, (struct read_options){.threads = 1});
    assert_int_equal(r.sum.state, READ_COMPLETE);
    assert_int_equal(r.sum.columns.slices, 5);
    assert_int_equal(r.sum.columns.defects[DEFECT_too_large_event], 1);
    _cleanup_(columns_closep) struct columns *c = open_columns(&r);
    assert_meta_text(c, META_device_name, "GPU");
    read_result_free(&r);
    free(g.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_real_traces),
        cmocka_unit_test(test_parts_begin_at_events_only),
        cmocka_unit_test(test_large_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
