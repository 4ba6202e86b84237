/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of traces of several hosts on one clock; reports as JSON and back. */
#include "tests/unit/cmocka-all.h"
#include "trace/columns/writer.h"
#include "trace/ranks/rank_set.h"
#include "trace/ranks/report_parts.h"
#include <errno.h>
#include <sys/mman.h>

#define NOTES_MAX 1000

static struct columns *trace_new(int64_t base_ns, int64_t first_ns)
{
    int fd = memfd_create("columns", MFD_CLOEXEC);
    const int64_t facts[][2] = {
        {META_base_time_ns, base_ns}, {META_first_ns, first_ns}, {META_last_ns, first_ns + 1000}};
    struct columns_writer *w = NULL;
    struct columns *c = NULL;

    assert_int_equal(columns_writer_new(fd, &w), 0);
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
        columns_put(w, COL_meta_key, facts[i][0]);
        columns_put(w, COL_meta_value, facts[i][1]);
    }
    columns_put_text(w, "kernel", 6);
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    columns_writer_free(w);
    assert_int_equal(columns_open(fd, &c, NULL), 0);
    close(fd);
    return c;
}

static void count_note(void *arg, const char *text)
{
    ++*(int *)arg;
}

static void test_clocks_of_hosts(void **state)
{
    /* The same moment, which a host whose clock is 5 s ahead stamps later. */
    struct columns *here = trace_new(INT64_C(1767189312000000000), 100),
                   *there = trace_new(INT64_C(1767189317000000000), 100);
    int notes = 0;
    struct rank_set set = {
        .items = calloc(2, sizeof(*set.items)), .n = 2, .note = count_note, .note_arg = &notes};

    set.items[0] = (struct set_rank){.columns = here, .label = "a"};
    set.items[1] = (struct set_rank){.columns = there, .label = "b", .clock_offset_ns = INT64_C(5000000000)};
    assert_int_equal(rank_set_align(&set, "wall"), 0);
    assert_true(set.items[0].shift_ns == set.items[1].shift_ns);
    set.items[1].clock_offset_ns = 0;
    assert_int_equal(rank_set_align(&set, "wall"), 0);
    assert_true(set.items[1].shift_ns - set.items[0].shift_ns == INT64_C(5000000000));
    assert_int_equal(rank_set_align(&set, "stars"), -EINVAL);
    assert_int_equal(notes, 0);
    rank_set_done(&set);
    columns_close(here);
    columns_close(there);
}

static void keep_note(void *arg, const char *text)
{
    char *notes = arg;
    snprintf(notes + strlen(notes), NOTES_MAX - strlen(notes), "%s\n", text);
}

/* One note for each host of each instance, with the instance where there are several. */
static void test_notes_about_the_clocks_of_hosts(void **state)
{
    struct columns *trace = trace_new(INT64_C(1767189312000000000), 100);
    char names[2][INSTANCE_NAME_MAX] = {"10.0.0.1:8000", "10.0.0.1:8001"}, notes[NOTES_MAX] = "";
    struct rank_set set = {.items = calloc(4, sizeof(*set.items)),
                           .n = 4,
                           .names = names,
                           .n_instances = 2,
                           .note = keep_note,
                           .note_arg = notes};

    for (size_t i = 0; i < set.n; i++)
        set.items[i] = (struct set_rank){.columns = trace,
                                         .label = "a",
                                         .host = i % 2 ? "gpu2" : "gpu1",
                                         .clock_offset_ns = i % 2 ? 3000000 : 0,
                                         .clock_error_ns = i % 2 ? 12000 : 0,
                                         .instance = i / 2};
    assert_int_equal(rank_set_align(&set, "wall"), 0);
    assert_string_equal(
        notes,
        "gpu2 (10.0.0.1:8000): clock corrected by its measured difference of 3.0 ms, certain to ±12 us\n"
        "gpu2 (10.0.0.1:8001): clock corrected by its measured difference of 3.0 ms, certain to ±12 us\n");
    *notes = '\0';
    set.n = 2;
    set.n_instances = 1;
    assert_int_equal(rank_set_align(&set, "wall"), 0);
    assert_string_equal(notes,
                        "gpu2: clock corrected by its measured difference of 3.0 ms, certain to ±12 us\n");
    set.names = NULL;
    rank_set_done(&set);
    columns_close(trace);
}

/* -- Parts -------------------------------------------------------------------------------------------- */

static void test_parts_are_read_as_they_were_written(void **state)
{
    const struct report *report = report_find("kernels");
    struct report_rows rows, read;
    char *text = NULL, error[200];
    size_t size;
    FILE *out = open_memstream(&text, &size);

    report_rows_init(&rows, report->n_columns);
    for (int row = 0; row < 3; row++)
        for (size_t i = 0; i < report->n_columns; i++) {
            if (i % 4 == 0)
                emit_str(&rows, row ? "void f<int>(float\"\\)\n\xc3\xa9" : "");
            else if (i % 4 == 1)
                emit_int(&rows, row ? INT64_MAX : INT64_MIN + 1);
            else if (i % 4 == 2)
                emit_real(&rows, row == 2 ? 3.0 : 0.1 + row);
            else
                emit_null(&rows);
        }
    fputc('{', out);
    report_part_write(out, report, &rows, 0);
    fputc('}', out);
    fclose(out);
    json_t *part = json_parse(text, size, error);
    assert_non_null(part);
    report_rows_init(&read, report->n_columns);
    assert_int_equal(report_part_read(part, report, NULL, &read), 0);
    assert_int_equal(report_rows_count(&read), 3);
    for (size_t i = 0; i < rows.n_cells; i++) {
        const struct cell *a = &rows.cells[i], *b = &read.cells[i];
        assert_int_equal(a->type, b->type);
        if (a->type == CELL_TEXT)
            assert_string_equal(a->text, b->text);
        else if (a->type == CELL_REAL)
            assert_true(a->real == b->real);
        else if (a->type == CELL_INT)
            assert_true(a->integer == b->integer);
    }
    report_rows_done(&read);
    report_rows_done(&rows);
    json_decref(part);
    free(text);
}

/* What another host answers is not trusted. */
static void test_what_is_no_part_is_refused(void **state)
{
    static const char *const texts[] = {"{}",
                                        "[]",
                                        "{\"report\":\"gaps\",\"columns\":[],\"rows\":[]}",
                                        "{\"report\":\"kernels\",\"columns\":3,\"rows\":[]}",
                                        "{\"report\":\"kernels\",\"columns\":[],\"rows\":{}}",
                                        "{\"report\":\"kernels\",\"columns\":[],\"rows\":[[],7]}"};
    const struct report *report = report_find("kernels");
    char error[200];

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct report_rows rows;
        json_t *part = json_parse(texts[i], strlen(texts[i]), error);
        report_rows_init(&rows, report->n_columns);
        assert_int_equal(report_part_read(part, report, NULL, &rows), -EBADMSG);
        report_rows_done(&rows);
        json_decref(part);
    }
    /* Of another version: unknown columns, other types, rows that are too short. */
    const char *text = "{\"report\":\"kernels\",\"columns\":[\"new\",7,\"name\"],\"rows\":[[1,2,{\"a\":1}],[]"
                       ",[1,2,\"x\",4]]}";
    struct report_rows rows;
    json_t *part = json_parse(text, strlen(text), error);
    report_rows_init(&rows, report->n_columns);
    assert_int_equal(report_part_read(part, report, NULL, &rows), 0);
    assert_int_equal(report_rows_count(&rows), 3);
    size_t name = report_column_find(report, "name");
    assert_int_equal(report_rows_at(&rows, 0, name)->type, CELL_NULL);
    assert_string_equal(report_rows_at(&rows, 2, name)->text, "x");
    report_rows_done(&rows);
    json_decref(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks_of_hosts),
        cmocka_unit_test(test_notes_about_the_clocks_of_hosts),
        cmocka_unit_test(test_parts_are_read_as_they_were_written),
        cmocka_unit_test(test_what_is_no_part_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
