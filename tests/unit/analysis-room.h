/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that were read from text, as the ranks of one analysis, for tests of reports. */
#pragma once

#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-room.h"
#include "trace/reports/report.h"

#define ROOM_RANKS_MAX 4

struct analysis_room {
    struct read_room read[ROOM_RANKS_MAX];
    struct columns *columns[ROOM_RANKS_MAX];
    struct rank ranks[ROOM_RANKS_MAX];
    struct analysis analysis;
};

/* events: of a traceEvents array, with commas between them. Not to be moved afterwards. */
static inline void room_add_rank(struct analysis_room *room, const char *events)
{
    size_t i = room->analysis.n++;
    _cleanup_(freep) char *text = xasprintf("{\"traceEvents\":[%s]}", events);

    assert_true(i < ROOM_RANKS_MAX);
    room->read[i] = read_in(text, strlen(text), (struct read_options){0});
    assert_int_equal(room->read[i].result, 0);
    room->columns[i] = open_columns(&room->read[i]);
    room->ranks[i] = (struct rank){.columns = room->columns[i], .label = "rank", .number = (int64_t)i};
    room->analysis.ranks = room->ranks;
    room->analysis.view = VIEW_ALL;
}

static inline void room_done(struct analysis_room *room)
{
    analysis_done(&room->analysis);
    for (size_t i = 0; i < room->analysis.n; i++) {
        columns_close(room->columns[i]);
        read_room_done(&room->read[i]);
    }
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

static inline void assert_report(struct analysis_room *room, const struct report *report,
                                 const char *expected)
{
    _cleanup_(report_rows_done) struct report_rows rows = {0};

    assert_int_equal(report_make(report, &room->analysis, &rows), 0);
    assert_int_equal(rows.n_cells % rows.n_columns, 0);
    _cleanup_(freep) char *text = rows_text(&rows);
    assert_string_equal(text, expected);
}
