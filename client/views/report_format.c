/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/report_format.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include <ctype.h>
#include <inttypes.h>

static const struct time_scale scales[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};

static double number_of(const struct cell *cell)
{
    return cell->type == CELL_REAL ? cell->real : (double)cell->integer;
}

/* The largest unit of which the column's largest value has ten. */
static const struct time_scale *scale_of(const struct report_rows *rows, size_t column, size_t n)
{
    double largest = 0;

    for (size_t row = 0; row < n; row++) {
        const struct cell *cell = report_rows_at(rows, row, column);
        if (cell->type == CELL_INT || cell->type == CELL_REAL)
            largest = MAX(largest, number_of(cell) < 0 ? -number_of(cell) : number_of(cell));
    }
    for (size_t i = 0; i + 1 < ARRAY_SIZE(scales); i++)
        if (largest >= 10 * scales[i].ns)
            return &scales[i];
    return &scales[largest > 0 ? ARRAY_SIZE(scales) - 1 : 1];
}

/* "before_mean_ns" and "after_mean_ns", "low_mean_ns" and "high_mean_ns" */
static bool are_two_sides(const char *one, const char *other)
{
    static const char *const sides[][2] = {{"before_", "after_"}, {"low_", "high_"}};

    for (size_t i = 0; i < ARRAY_SIZE(sides); i++)
        if (starts_with(one, sides[i][0]) && starts_with(other, sides[i][1]) &&
            streq(one + strlen(sides[i][0]), other + strlen(sides[i][1])))
            return true;
    return false;
}

/* "step_p50_ns" and "step_p99_ns": percentiles of the same times */
static bool are_percentiles_of_one(const char *one, const char *other)
{
    static const char median[] = "p50_ns", late[] = "p99_ns";
    size_t size = strlen(one), suffix = sizeof(median) - 1;

    return size >= suffix && strlen(other) == size && streq(one + size - suffix, median) &&
           streq(other + size - suffix, late) && memcmp(one, other, size - suffix) == 0;
}

void column_scales(const struct report *report, const struct report_rows *rows, size_t n,
                   const struct time_scale **ret)
{
    for (size_t i = 0; i < report->n_columns; i++)
        ret[i] = report->columns[i].unit == UNIT_NS ? scale_of(rows, i, n) : NULL;
    for (size_t i = 0; i < report->n_columns; i++)
        for (size_t k = 0; k < report->n_columns; k++)
            if (ret[i] && ret[k] &&
                (are_two_sides(report->columns[i].name, report->columns[k].name) ||
                 are_percentiles_of_one(report->columns[i].name, report->columns[k].name)))
                ret[i] = ret[k] = ret[i]->ns < ret[k]->ns ? ret[i] : ret[k];
}

/* With separated thousands and so many digits behind the point. */
static void format_number(char *buf, double value, int digits)
{
    char whole[32];

    if (value > 1e15 || value < -1e15) {
        snprintf(buf, CELL_TEXT_MAX, "%.3e", value);
        return;
    }
    double rounded = digits ? (double)(int64_t)(value * 10 + (value < 0 ? -0.5 : 0.5)) / 10 : value;
    text_number(whole, (int64_t)rounded);
    if (digits == 0)
        snprintf(buf, CELL_TEXT_MAX, "%s", whole);
    else
        snprintf(buf, CELL_TEXT_MAX, "%s%s.%d", rounded < 0 && rounded > -1 ? "-" : "", whole,
                 abs((int)((int64_t)(rounded * 10 + (rounded < 0 ? -0.5 : 0.5)) % 10)));
}

const char *cell_format(char *buf, enum report_unit unit, const struct time_scale *scale,
                        const struct cell *cell)
{
    if (cell->type == CELL_NULL || cell->type == CELL_TEXT)
        return cell->type == CELL_TEXT ? cell->text : NULL;
    double value = number_of(cell);
    switch (unit) {
    case UNIT_NS:
        format_number(buf, value / scale->ns, scale->ns > 1);
        break;
    case UNIT_SHARE:
        snprintf(buf, CELL_TEXT_MAX, "%.1f %%", 100 * value);
        break;
    case UNIT_BYTES:
        format_size(buf, (int64_t)value);
        break;
    case UNIT_BYTES_PER_S:
        snprintf(buf, CELL_TEXT_MAX, "%.1f GB/s", value / 1e9);
        break;
    case UNIT_FACTOR:
        snprintf(buf, CELL_TEXT_MAX, "%.3g", value);
        break;
    case UNIT_COUNT:
        format_number(buf, value, 0);
        break;
    default:
        snprintf(buf, CELL_TEXT_MAX, "%" PRId64, (int64_t)value);
    }
    return buf;
}

/* "sum_ns" is SUM ms, "busy_share" BUSY. */
char *column_heading(const struct report_column *column, const struct time_scale *scale)
{
    static const char *const suffixes[] = {
        [UNIT_NS] = "_ns", [UNIT_SHARE] = "_share", [UNIT_BYTES] = "_bytes"};
    const char *suffix = column->unit < ARRAY_SIZE(suffixes) ? suffixes[column->unit] : NULL;
    size_t n = strlen(column->name);

    if (suffix && n > strlen(suffix) && streq(column->name + n - strlen(suffix), suffix))
        n -= strlen(suffix);
    char *heading = xasprintf("%.*s%s%s", (int)n, column->name, scale ? " " : "", scale ? scale->unit : "");
    for (size_t i = 0; i < n; i++)
        heading[i] = heading[i] == '_' ? ' ' : (char)toupper((unsigned char)heading[i]);
    return heading;
}

/* "file.py(503): forward": what is in brackets is a line, and what says most comes behind it. */
static bool is_python_frame(const char *name)
{
    const char *bracket = strstr(name, ".py(");

    return bracket && isdigit((unsigned char)bracket[strlen(".py(")]);
}

/* Bytes of a name up to the arguments of its function, which are types and say less than the template's. */
static size_t name_bytes(const char *name)
{
    size_t n;
    int depth = 0;

    for (n = 0; name[n] && !(name[n] == '(' && depth == 0 && n > 0 && !starts_with(name + n, "(anonymous"));
         n++)
        depth += (name[n] == '<') - (name[n] == '>');
    return n;
}

char *kernel_name_bare(const char *name)
{
    bool is_function = starts_with(name, "void ");

    if (is_function)
        name += strlen("void ");
    /* What else has brackets means them: a Python frame has its line there. */
    return is_function || strstr(name, "::") ? xstrndup(name, name_bytes(name)) : xstrdup(name);
}

char *kernel_name_fit(const char *name, unsigned width)
{
    if (starts_with(name, "void "))
        name += strlen("void ");
    if (text_columns(name) <= width)
        return xstrdup(name);
    if (is_python_frame(name))
        return xasprintf(TEXT_ELLIPSIS "%s", name + text_fit(name, text_columns(name) - width + 1));
    _cleanup_(freep) char *shorter = xstrndup(name, name_bytes(name));
    return text_shorten(shorter, width);
}

char *report_needs_text(const struct report *report)
{
    static const struct {
        enum report_needs need;
        const char *text;
    } needs[] = {
        {NEEDS_GPU, "work of a GPU"},
        {NEEDS_RANKS, "several ranks"},
        {NEEDS_OPS, "operators of the host"},
        {NEEDS_MEMORY, "[memory] events (profile_memory=True)"},
    };
    char *text = xstrdup("");

    for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
        if (report->needs & needs[i].need) {
            char *longer = xasprintf("%s%s%s", text, *text ? ", " : "", needs[i].text);
            free(text);
            text = longer;
        }
    return text;
}
