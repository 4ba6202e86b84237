/* SPDX-License-Identifier: Apache-2.0 */
/* The reports of memory, on a trace whose answers are known. */
#include "tests/unit/report-fixture.h"

#define US 1000

/* What a device has in all is told by the events themselves; there were 1000 bytes before the trace. */
static int64_t allocated;

static void memory(struct report_fixture *r, double ts, int64_t address, int64_t bytes)
{
    allocated += bytes;
    fixture_raw(
        r,
        "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":10,"
        "\"tid\":1,\"ts\":%.3f,\"args\":{\"Device Type\":1,\"Device Id\":0,\"Addr\":%lld,\"Bytes\":%lld,"
        "\"Total Allocated\":%lld,\"Total Reserved\":5000}}",
        ts, (long long)address, (long long)bytes, (long long)allocated);
}

static void begin(struct report_fixture *r)
{
    allocated = 1000;
    fixture_begin(r, "");
}

static void peak_and_holders(void **state)
{
    struct report_fixture r;

    begin(&r);
    fixture_event(&r, "cpu_op", "aten::linear", 1, 0, 10, NULL);
    fixture_event(&r, "cpu_op", "aten::empty", 1, 1, 5, NULL);
    memory(&r, 2, 0x100, 300);
    fixture_event(&r, "cpu_op", "aten::mul", 1, 20, 10, NULL);
    memory(&r, 21, 0x200, 500);
    memory(&r, 40, 0x100, -300);
    fixture_event(&r, "cpu_op", "aten::add", 1, 50, 10, NULL);
    memory(&r, 51, 0x100, 200); /* the same place again */
    memory(&r, 70, 0x200, -500);
    memory(&r, 80, 0x900, -400); /* from before the trace */
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "memory"), 0);
    assert_int_equal(report_rows_count(&r.rows), 1);
    assert_cell_text(&r, 0, "device", "cuda:0");
    assert_cell_int(&r, 0, "peak_bytes", 1800);
    assert_cell_int(&r, 0, "peak_at_ns", 21 * US);
    assert_cell_int(&r, 0, "peak_reserved_bytes", 5000);
    assert_cell_int(&r, 0, "peak_cached_bytes", 4200);
    assert_cell_int(&r, 0, "first_bytes", 1000);
    assert_cell_int(&r, 0, "last_bytes", 800);
    assert_cell_int(&r, 0, "allocations", 3);
    assert_cell_int(&r, 0, "frees", 3);
    assert_cell_int(&r, 0, "allocated_bytes", 1000);
    assert_cell_int(&r, 0, "unfreed_bytes", 200);
    assert_cell_int(&r, 0, "leaking_bytes", 0);
    assert_cell_text(&r, 0, "holder", "aten::mul");
    assert_cell_int(&r, 0, "holder_bytes", 500);

    assert_int_equal(fixture_make(&r, "memory_holders"), 0);
    assert_int_equal(report_rows_count(&r.rows), 4);
    assert_cell_null(&r, 0, "operator"); /* before the trace */
    assert_cell_int(&r, 0, "peak_bytes", 1000);
    assert_cell_text(&r, 1, "operator", "aten::mul");
    assert_cell_int(&r, 1, "peak_bytes", 500);
    assert_cell_text(&r, 2, "operator", "aten::linear"); /* not aten::empty in it */
    assert_cell_int(&r, 2, "peak_bytes", 300);
    assert_cell_real(&r, 2, "share", 300.0 / 1800);
    assert_cell_text(&r, 3, "operator", "aten::add");
    assert_cell_int(&r, 3, "peak_bytes", 0);
    assert_cell_int(&r, 3, "unfreed_bytes", 200);

    assert_int_equal(fixture_make(&r, "memory_timeline"), 0);
    assert_int_equal(report_rows_count(&r.rows), 6);
    assert_cell_int(&r, 5, "bytes", -400);
    assert_cell_int(&r, 5, "allocated_bytes", 800);

    analysis_done(&r.analysis);
    r.analysis.view.from = 30 * US;
    assert_int_equal(fixture_make(&r, "memory"), 0);
    assert_cell_int(&r, 0, "peak_bytes", 1700);
    assert_cell_int(&r, 0, "peak_at_ns", 51 * US);
    assert_int_equal(fixture_make(&r, "memory_timeline"), 0);
    assert_int_equal(report_rows_count(&r.rows), 4);
    fixture_done(&r);
}

/* A frame is where, the operator right below it is what. */
static void holders_have_frames(void **state)
{
    struct report_fixture r;

    begin(&r);
    fixture_event(&r, "python_function", "model.py(7): forward", 1, 0, 100, NULL);
    fixture_event(&r, "python_function", "nn.Module: Linear_3", 1, 5, 50, NULL);
    fixture_event(&r, "python_function", "linear.py(9): forward", 1, 6, 40, NULL);
    fixture_event(&r, "cpu_op", "aten::linear", 1, 10, 30, NULL);
    fixture_event(&r, "cpu_op", "aten::empty", 1, 12, 5, NULL);
    memory(&r, 13, 0x100, 300);
    memory(&r, 70, 0x200, 100);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "memory_holders"), 0);
    assert_cell_text(&r, 1, "operator", "aten::linear");
    assert_cell_text(&r, 1, "frame", "nn.Module: Linear_3");
    assert_cell_null(&r, 2, "operator");
    assert_cell_text(&r, 2, "frame", "model.py(7): forward");
    fixture_done(&r);
}

/* Who keeps something each time is a candidate; who keeps something once is none. */
static void leaks(void **state)
{
    struct report_fixture r;

    begin(&r);
    for (int i = 0; i < 8; i++) {
        fixture_event(&r, "cpu_op", "cache::append", 1, 100 * i, 10, NULL);
        memory(&r, 100 * i + 1, 0x1000 + i, 64);
        fixture_event(&r, "cpu_op", "aten::mm", 1, 100 * i + 20, 10, NULL);
        memory(&r, 100 * i + 21, 0x100, 32);
        memory(&r, 100 * i + 40, 0x100, -32);
    }
    fixture_event(&r, "cpu_op", "aten::zeros", 1, 900, 10, NULL);
    memory(&r, 901, 0x2000, 16);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "memory"), 0);
    assert_cell_int(&r, 0, "unfreed_bytes", 8 * 64 + 16);
    assert_cell_int(&r, 0, "leaking_bytes", 8 * 64);
    assert_int_equal(fixture_make(&r, "memory_holders"), 0);
    assert_cell_text(&r, 1, "operator", "cache::append");
    assert_cell_text(&r, 1, "leak", "candidate");
    assert_cell_int(&r, 1, "unfreed_count", 8);
    assert_cell_text(&r, 3, "operator", "aten::zeros");
    assert_cell_null(&r, 3, "leak");
    fixture_done(&r);
}

static void without_events(void **state)
{
    struct report_fixture r;

    fixture_begin(&r, "");
    fixture_event(&r, "cpu_op", "aten::mm", 1, 0, 10, NULL);
    fixture_read(&r);
    assert_int_equal(fixture_make(&r, "memory"), -ENODATA);
    fixture_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_and_holders),
        cmocka_unit_test(holders_have_frames),
        cmocka_unit_test(leaks),
        cmocka_unit_test(without_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
