/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/report_view.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/listing.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>

/* Bytes of any formatted number. */
#define CELL_TEXT_MAX 48
/* Minimum width of a shortened text. */
#define TEXT_WIDTH_LEAST 24u

struct time_scale {
    const char *unit;
    double ns;
};

/* -- Cells for people --------------------------------------------------------------------------------- */

static const struct time_scale time_scales[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};

static double cell_number(const struct cell *cell)
{
    return cell->type == CELL_REAL ? cell->real : (double)cell->integer;
}

/* The largest unit in which the largest value of the column is at least 10. */
static const struct time_scale *column_scale(const struct report_rows *rows, size_t column, size_t n)
{
    double largest = 0;

    for (size_t row = 0; row < n; row++) {
        const struct cell *cell = report_rows_at(rows, row, column);
        if (cell->type == CELL_INT || cell->type == CELL_REAL)
            largest = MAX(largest, cell_number(cell) < 0 ? -cell_number(cell) : cell_number(cell));
    }
    for (size_t i = 0; i + 1 < ARRAY_SIZE(time_scales); i++)
        if (largest >= 10 * time_scales[i].ns)
            return &time_scales[i];
    return &time_scales[largest > 0 ? ARRAY_SIZE(time_scales) - 1 : 1];
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

/* The unit of each column of times, by the values of the first n rows; NULL for other columns. Two sides of a
 * comparison have one unit, and so have percentiles of the same times. */
static void column_scales(const struct report *report, const struct report_rows *rows, size_t n,
                          const struct time_scale **ret)
{
    for (size_t i = 0; i < report->n_columns; i++)
        ret[i] = report->columns[i].unit == UNIT_NS ? column_scale(rows, i, n) : NULL;
    for (size_t i = 0; i < report->n_columns; i++)
        for (size_t k = 0; k < report->n_columns; k++)
            if (ret[i] && ret[k] &&
                (are_two_sides(report->columns[i].name, report->columns[k].name) ||
                 are_percentiles_of_one(report->columns[i].name, report->columns[k].name)))
                ret[i] = ret[k] = ret[i]->ns < ret[k]->ns ? ret[i] : ret[k];
}

/* With separated thousands and the given number of digits after the point. */
static void format_number(char *buf, double value, int digits)
{
    char digits_text[32];

    if (value > 1e15 || value < -1e15) {
        snprintf(buf, CELL_TEXT_MAX, "%.3e", value);
        return;
    }
    double rounded = digits ? (double)(int64_t)(value * 10 + (value < 0 ? -0.5 : 0.5)) / 10 : value;
    text_number(digits_text, (int64_t)rounded);
    if (digits == 0)
        snprintf(buf, CELL_TEXT_MAX, "%s", digits_text);
    else
        snprintf(buf, CELL_TEXT_MAX, "%s%s.%d", rounded < 0 && rounded > -1 ? "-" : "", digits_text,
                 abs((int)((int64_t)(rounded * 10 + (rounded < 0 ? -0.5 : 0.5)) % 10)));
}

/* A number is formatted into buf; a text is returned; NULL: no value. */
static const char *cell_format(char *buf, enum report_unit unit, const struct time_scale *scale,
                               const struct cell *cell)
{
    if (cell->type == CELL_NULL || cell->type == CELL_TEXT)
        return cell->type == CELL_TEXT ? cell->text : NULL;
    double value = cell_number(cell);
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
static char *column_heading(const struct report_column *column, const struct time_scale *scale)
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

/* -- Tables ------------------------------------------------------------------------------------------- */

static size_t report_rows_shown(const struct report_rows *rows, size_t top)
{
    size_t n = report_rows_count(rows);

    return top > 0 ? MIN(n, top) : n;
}

static bool is_same_in_all(const struct report_rows *rows, size_t n_rows, size_t column)
{
    for (size_t row = 1; row < n_rows; row++) {
        const struct cell *first = report_rows_at(rows, 0, column), *cell = report_rows_at(rows, row, column);
        if (cell->type != first->type ||
            (cell->type == CELL_TEXT ? !streq(cell->text, first->text) : cell->integer != first->integer))
            return false;
    }
    return true;
}

/* The column that identifies a row within its rank: the first text or id after the attribution. */
static size_t naming_column(const struct report *report)
{
    size_t i = 0;

    while (i < report->n_columns && report->columns[i].is_identity)
        i++;
    return i < report->n_columns && report->columns[i].unit <= UNIT_ID ? i : report->n_columns;
}

static int importance_of(const struct report *report, const struct report_rows *rows, size_t n_rows,
                         size_t column)
{
    const struct report_column *c = &report->columns[column];

    if (!c->is_identity)
        return column == naming_column(report) ? IMPORTANCE_KEY : c->importance;
    return is_same_in_all(rows, n_rows, column) ? IMPORTANCE_EXTRA : IMPORTANCE_KEY;
}

static struct table_column column_of_report(const struct report *report, const struct report_rows *rows,
                                            size_t n_rows, size_t i, const struct time_scale *scale)
{
    const struct report_column *column = &report->columns[i];
    unsigned flags = column->unit == UNIT_TEXT ? COLUMN_SHORTEN | COLUMN_URL : COLUMN_RIGHT;

    return (struct table_column){
        .name = column_heading(column, scale),
        .flags =
            flags | (column->is_prose ? COLUMN_PROSE : 0) | (column->unit == UNIT_SHARE ? COLUMN_SHARE : 0),
        .importance = importance_of(report, rows, n_rows, i),
        .key = column->name,
        .least = TEXT_WIDTH_LEAST,
        .fit = kernel_name_fit,
        .meaning = column->meaning,
    };
}

struct table *report_table(const struct report *report, const struct report_rows *rows, size_t top,
                           bool with_heading, bool for_people)
{
    size_t n = report->n_columns, n_rows = report_rows_shown(rows, top);
    struct table_column *columns = xcalloc(n, sizeof(*columns));
    _cleanup_(freep) const struct time_scale **scales = xcalloc(n, sizeof(*scales));
    _cleanup_(freep) const char **cells = xcalloc(n, sizeof(*cells));
    _cleanup_(freep) char *formatted = xcalloc(n, CELL_TEXT_MAX);

    column_scales(report, rows, n_rows, scales);
    for (size_t i = 0; i < n; i++)
        columns[i] = column_of_report(report, rows, n_rows, i, scales[i]);
    struct table *table = table_new(columns, n, with_heading);
    table_take_columns(table, columns);
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i < n; i++) {
            const struct cell *cell = report_rows_at(rows, row, i);
            cells[i] =
                for_people || cell->type == CELL_TEXT
                    ? cell_format(formatted + i * CELL_TEXT_MAX, report->columns[i].unit, scales[i], cell)
                    : NULL;
        }
        table_add(table, cells);
        for (size_t i = 0; i < n; i++) {
            const struct cell *cell = report_rows_at(rows, row, i);
            if (cell->type == CELL_INT)
                table_set_int(table, i, cell->integer);
            else if (cell->type == CELL_REAL)
                table_set_real(table, i, cell->real);
        }
    }
    return table;
}

static int report_select_columns(struct client *c, const struct report *report, size_t **ret, size_t *ret_n)
{
    _cleanup_(freep) const char **keys = xcalloc(report->n_columns, sizeof(*keys));

    for (size_t i = 0; i < report->n_columns; i++)
        keys[i] = report->columns[i].name;
    return listing_select(c, keys, report->n_columns, ret, ret_n);
}

int report_check_columns(struct client *c, const struct report *report)
{
    _cleanup_(freep) size_t *columns = NULL;
    size_t n;

    return report_select_columns(c, report, &columns, &n);
}

/* Applies --columns. An exit status. */
static int select_in_table(struct client *c, const struct report *report, struct table *table)
{
    _cleanup_(freep) size_t *columns = NULL;
    size_t n;
    int status = c->columns ? report_select_columns(c, report, &columns, &n) : EXIT_DONE;

    if (status == EXIT_DONE && c->columns)
        table_select(table, columns, n);
    return status;
}

int report_print_separated(struct client *c, const struct report *report, const struct report_rows *rows,
                           size_t top)
{
    _cleanup_(table_freep) struct table *table = report_table(report, rows, top, !c->no_legend, false);
    int status = select_in_table(c, report, table);

    if (status == EXIT_DONE)
        table_print_as(table, &c->out, c->format);
    return status;
}

/* -- Documents ---------------------------------------------------------------------------------------- */

void report_add(struct document *d, struct client *c, const struct report *report,
                const struct report_rows *rows, size_t top, bool names_hidden)
{
    size_t all = report_rows_count(rows), n_rows = report_rows_shown(rows, top);
    struct table *table = report_table(report, rows, top, !c->no_legend, true);

    if (select_in_table(c, report, table) != EXIT_DONE) {
        table_free(table);
        return;
    }
    if (c->no_legend)
        document_heading(d, NULL);
    else
        document_section(d, report->name, report->title);
    table_name_hidden(table, names_hidden);
    document_take_table(d, table);
    if (all == 0 && !c->no_legend)
        document_note(d, "no rows");
    if (n_rows < all && !c->no_legend)
        document_note(d, "... %zu more (--top 0)", all - n_rows);
}

void report_add_made(struct document *d, struct client *c, const struct made_report *made, size_t top)
{
    struct report_rows rows;

    for (size_t at = 0; made_report_part(made, &at, &rows);)
        report_add(d, c, made->report, &rows, top, true);
}

bool report_print(struct client *c, const struct report *report, const struct report_rows *rows, size_t top)
{
    _cleanup_(document_done) struct document d = {0};

    report_add(&d, c, report, rows, top, true);
    client_page(c);
    return document_print(&d, &c->out, c->format);
}

/* -- Findings ----------------------------------------------------------------------------------------- */

const struct cell *made_report_cell(const struct made_report *made, size_t row, const char *column)
{
    static const struct cell none = {.type = CELL_NULL};

    for (size_t i = 0; i < made->report->n_columns; i++)
        if (streq(made->report->columns[i].name, column))
            return report_rows_at(&made->rows, row, i);
    return &none;
}

const char *made_report_text(const struct made_report *made, size_t row, const char *column)
{
    const struct cell *cell = made_report_cell(made, row, column);

    return cell->type == CELL_TEXT ? cell->text : "";
}

double made_report_number(const struct made_report *made, size_t row, const char *column)
{
    const struct cell *cell = made_report_cell(made, row, column);

    return cell->type == CELL_REAL ? cell->real : cell->type == CELL_INT ? (double)cell->integer : NAN;
}

bool report_has_findings(const struct report *report)
{
    return report->role == REPORT_FINDINGS;
}

static const char *severity_class(const char *severity)
{
    static const char *const classes[] = {"high", "medium", "low"};

    for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
        if (streq(severity, classes[i]))
            return classes[i];
    return "info";
}

/* is_short: only evidence and confidence of a statement without a cost. */
static void add_finding(struct document *d, const struct made_report *made, size_t row, bool is_short)
{
    struct finding_block *f = document_finding(d, made_report_text(made, row, "what"));
    double cost = made_report_number(made, row, "cost_ns");
    const char *confidence = made_report_text(made, row, "confidence"),
               *ground = made_report_text(made, row, "ground");
    _cleanup_(freep) char *certainty =
        *confidence && *ground ? xasprintf("%s: %s", confidence, ground) : NULL;
    char text[UNIT_TEXT_MAX];

    f->severity = severity_class(made_report_text(made, row, "severity"));
    f->share = made_report_number(made, row, "share");
    if (isfinite(cost)) {
        f->number = row + 1;
        f->cost = xstrdup(format_duration(text, (int64_t)cost));
    }
    is_short = is_short && f->number == 0;
    if (certainty)
        certainty[0] = (char)toupper((unsigned char)certainty[0]);
    finding_fact(f, FACT_TEXT, "Instance", "Instance: ", made_report_text(made, row, REPORT_INSTANCE));
    finding_fact(f, FACT_TEXT, "Evidence", "", made_report_text(made, row, "evidence"));
    if (!is_short)
        finding_fact(f, FACT_TEXT, "Where", "", made_report_text(made, row, "where"));
    if (!is_short || !streq(confidence, "certain"))
        finding_fact(f, FACT_TEXT, "Confidence", "", certainty);
    if (is_short)
        return;
    const char *advice = made_report_text(made, row, "advice"),
               *options = made_report_text(made, row, "options");
    _cleanup_(freep) char *remedy = xasprintf("%s%s%s", advice, *advice && *options ? "; " : "", options);
    finding_fact(f, FACT_ADVICE, "Try", "Try: ", remedy);
    finding_fact(f, FACT_LINK, "Details", "", made_report_text(made, row, "report"));
}

void findings_add(struct document *d, bool has_gpu, const struct made_report *made, size_t top, bool is_short)
{
    size_t n = made ? report_rows_count(&made->rows) : 0, shown = 0, left = 0;

    if (n == 0 && has_gpu)
        document_text(d, "no findings: nothing stands out by the rules of docs/analysis.md");
    else if (n == 0)
        document_text(d, "no findings: they explain GPU time, and no GPU activity is recorded\n"
                         "  --report ops,stacks,steps shows where the host's time went.");
    for (size_t row = 0; row < n; row++) {
        bool is_statement = made_report_cell(made, row, "cost_ns")->type == CELL_NULL;
        if (!is_statement && top > 0 && shown == top) {
            left++;
            continue;
        }
        add_finding(d, made, row, is_short);
        shown++;
    }
    if (left > 0)
        document_note(d, "... %zu more (--report findings --top 0)", left);
}

/* -- JSON --------------------------------------------------------------------------------------------- */

char *report_needs_text(const struct report *report)
{
    static const struct {
        enum report_needs need;
        const char *text;
    } needs[] = {
        {NEEDS_GPU, "GPU activity"},
        {NEEDS_RANKS, "several ranks"},
        {NEEDS_OPS, "host operators"},
        {NEEDS_MEMORY, "[memory] events (profile_memory=True)"},
    };
    char *text = xstrdup("");

    for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
        if (report->needs & needs[i].need)
            append_str(&text, "%s%s", *text ? ", " : "", needs[i].text);
    return text;
}
