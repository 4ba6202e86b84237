/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of a report as people read them: times in a unit that fits their column, sizes, percentages. Pure
 * functions.
 */
#pragma once

#include "trace/reports/report.h"

/* Room for any number. */
#define CELL_TEXT_MAX 48

struct time_scale {
    const char *unit;
    double ns;
};

/* In what each column of times is shown, by the values of the first n rows; NULL where it is no time. Two
 * sides of a comparison have one unit, and so have percentiles of the same times. */
void column_scales(const struct report *report, const struct report_rows *rows, size_t n,
                   const struct time_scale **ret);
/* "SUM ms" for sum_ns, "BUSY" for busy_share. The caller frees. scale: NULL where it is no time. */
char *column_heading(const struct report_column *column, const struct time_scale *scale);
/* A number into buf; a text itself, as the trace has it; NULL where there is no value. */
const char *cell_format(char *buf, enum report_unit unit, const struct time_scale *scale,
                        const struct cell *cell);
/* A kernel's name within so many columns: without "void" and its arguments before anything else is lost; a
 * Python frame without the beginning of its path. The caller frees. */
char *kernel_name_fit(const char *name, unsigned width);
/* A kernel's name without "void" and without its arguments; any other name as it is. The caller frees. */
char *kernel_name_bare(const char *name);
/* What a trace must have for it: "work of a GPU, several ranks"; empty where nothing is named. The caller
 * frees. */
char *report_needs_text(const struct report *report);
