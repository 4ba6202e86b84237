/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that a test writes, event by event or as they stand, as the ranks of one analysis, for tests of
 * reports. */
#pragma once

#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-fixture.h"
#include "trace/reports/report.h"

#define FIXTURE_RANKS_MAX 4

/* Not to be moved once it has a rank. */
struct report_fixture {
    char *text;
    size_t size;
    FILE *out; /* of the text, until it is read */
    bool has_events;
    struct read_result read[FIXTURE_RANKS_MAX];
    struct rank ranks[FIXTURE_RANKS_MAX];
    struct analysis analysis;
    const struct report *report;
    struct report_rows rows;
};

/* head: members of the outer object, each with its comma. */
static inline void fixture_begin(struct report_fixture *r, const char *head)
{
    *r = (struct report_fixture){0};
    r->out = open_memstream(&r->text, &r->size);
    fprintf(r->out, "{%s\"traceEvents\":[", head);
}

/* An event as it stands. */
static inline void fixture_raw(struct report_fixture *r, const char *format, ...) _printf_(2, 3);
static inline void fixture_raw(struct report_fixture *r, const char *format, ...)
{
    va_list ap;

    fputs(r->has_events ? ",\n" : "\n", r->out);
    va_start(ap, format);
    vfprintf(r->out, format, ap);
    va_end(ap);
    r->has_events = true;
}

/* Times are in microseconds; args: JSON members, or NULL. */
static inline void fixture_event(struct report_fixture *r, const char *category, const char *name, int tid,
                                 double ts, double dur, const char *args)
{
    bool is_gpu = strstr(category, "gpu_") || streq(category, "kernel");

    fprintf(r->out,
            "%s\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{%s}}",
            r->has_events ? "," : "", category, name, is_gpu ? 0 : 10, tid, ts, dur, args ? args : "");
    r->has_events = true;
}

/* A call at `called`, 2 us long, and what it launched. */
static inline void fixture_launch(struct report_fixture *r, const char *category, const char *name,
                                  int stream, int correlation, double called, double ts, double dur)
{
    char args[96];

    if (called >= 0) {
        snprintf(args, sizeof(args), "\"correlation\":%d", correlation);
        fixture_event(r, "cuda_runtime", "cudaLaunchKernel", 1, called, 2, args);
    }
    snprintf(args, sizeof(args), "\"device\":0,\"stream\":%d,\"correlation\":%d", stream, correlation);
    fixture_event(r, category, name, stream, ts, dur, args);
}

static inline void fixture_add_text(struct report_fixture *r, const char *text, size_t size)
{
    size_t i = r->analysis.n++;

    assert_true(i < FIXTURE_RANKS_MAX);
    r->read[i] = read_in(text, size, (struct read_options){0});
    assert_int_equal(r->read[i].result, 0);
    r->ranks[i] = (struct rank){.columns = open_columns(&r->read[i]), .label = "rank", .number = (int64_t)i};
    r->analysis.ranks = r->ranks;
    r->analysis.view = VIEW_ALL;
}

/* One more rank. events: of a traceEvents array, with commas between them. */
static inline void fixture_add_rank(struct report_fixture *r, const char *events)
{
    _cleanup_(freep) char *text = xasprintf("{\"traceEvents\":[%s]}", events);

    fixture_add_text(r, text, strlen(text));
}

/* Reads what was written, which may be of any format. */
static inline void fixture_read_text(struct report_fixture *r)
{
    fclose(r->out);
    fixture_add_text(r, r->text, r->size);
}

static inline void fixture_read(struct report_fixture *r)
{
    fputs("\n]}", r->out);
    fixture_read_text(r);
}

/* What report_make() says. */
static inline int fixture_make(struct report_fixture *r, const char *name)
{
    if (r->report)
        report_rows_done(&r->rows);
    r->report = report_find(name);
    assert_non_null(r->report);
    return report_make(r->report, &r->analysis, &r->rows);
}

static inline void fixture_done(struct report_fixture *r)
{
    if (r->report)
        report_rows_done(&r->rows);
    analysis_done(&r->analysis);
    for (size_t i = 0; i < r->analysis.n; i++) {
        columns_close((struct columns *)r->ranks[i].columns);
        read_result_free(&r->read[i]);
    }
    free(r->text);
}

static inline const struct cell *fixture_cell(const struct report_fixture *r, size_t row, const char *column)
{
    assert_in_range(row, 0, report_rows_count(&r->rows) - 1);
    for (size_t i = 0; i < r->report->n_columns; i++)
        if (streq(r->report->columns[i].name, column))
            return report_rows_at(&r->rows, row, i);
    fail_msg("no column %s", column);
    return NULL;
}

static inline void assert_cell_int(const struct report_fixture *r, size_t row, const char *column,
                                   int64_t expected)
{
    const struct cell *cell = fixture_cell(r, row, column);

    assert_int_equal(cell->type, CELL_INT);
    assert_int_equal(cell->integer, expected);
}

static inline void assert_cell_text(const struct report_fixture *r, size_t row, const char *column,
                                    const char *expected)
{
    const struct cell *cell = fixture_cell(r, row, column);

    assert_int_equal(cell->type, CELL_TEXT);
    assert_string_equal(cell->text, expected);
}

static inline void assert_cell_real(const struct report_fixture *r, size_t row, const char *column,
                                    double expected)
{
    const struct cell *cell = fixture_cell(r, row, column);

    assert_int_equal(cell->type, CELL_REAL);
    assert_float_equal(cell->real, expected, 1e-6);
}

static inline void assert_cell_null(const struct report_fixture *r, size_t row, const char *column)
{
    assert_int_equal(fixture_cell(r, row, column)->type, CELL_NULL);
}

/* The report's rows as text: a line each, values with | between them, no value as nothing. The caller frees.
 */
static inline char *rows_text(const struct report_rows *rows)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    for (size_t row = 0; row < report_rows_count(rows); row++)
        for (size_t i = 0; i < rows->n_columns; i++) {
            const struct cell *cell = report_rows_at(rows, row, i);
            if (cell->type == CELL_INT)
                fprintf(f, "%lld", (long long)cell->integer);
            else if (cell->type == CELL_REAL)
                fprintf(f, "%.4g", cell->real);
            else if (cell->type == CELL_TEXT)
                fputs(cell->text, f);
            fputc(i + 1 < rows->n_columns ? '|' : '\n', f);
        }
    fclose(f);
    return text;
}

static inline void assert_report(struct report_fixture *fixture, const struct report *report,
                                 const char *expected)
{
    _cleanup_(report_rows_done) struct report_rows rows = {0};

    assert_int_equal(report_make(report, &fixture->analysis, &rows), 0);
    assert_int_equal(rows.n_cells % rows.n_columns, 0);
    _cleanup_(freep) char *text = rows_text(&rows);
    assert_string_equal(text, expected);
}
