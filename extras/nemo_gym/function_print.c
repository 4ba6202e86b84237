/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/functions.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/document.h"
#include "client/views/listing.h"
#include "client/views/reasons.h"
#include <inttypes.h>

enum {
    CELL_FUNCTION,
    CELL_FILE,
    CELL_LINE,
    CELL_CALLS,
    CELL_TSUB,
    CELL_TTOT,
    CELL_TAVG,
    CELL_SHARE,
    CELL_WORKER,
    _CELL_MAX
};

static const struct table_column columns[_CELL_MAX] = {
    [CELL_FUNCTION] = {"FUNCTION", COLUMN_SHORTEN, IMPORTANCE_KEY, "name", 20},
    [CELL_FILE] = {"FILE", COLUMN_SHORTEN | COLUMN_PATH, .least = 16},
    /* FILE has it for people. */
    [CELL_LINE] = {"LINE", COLUMN_RIGHT | COLUMN_OPTIONAL, IMPORTANCE_EXTRA},
    [CELL_CALLS] = {"NCALL", COLUMN_RIGHT, .key = "calls"},
    [CELL_TSUB] = {"TSUB", COLUMN_RIGHT, IMPORTANCE_HIGH, "tsub_ns"},
    [CELL_TTOT] = {"TTOT", COLUMN_RIGHT, IMPORTANCE_HIGH, "ttot_ns"},
    [CELL_TAVG] = {"TAVG", COLUMN_RIGHT, IMPORTANCE_LOW, "tavg_ns"},
    [CELL_SHARE] = {"OWN", COLUMN_RIGHT, IMPORTANCE_NORMAL, "own_share"},
    [CELL_WORKER] = {"WORKER", COLUMN_URL, IMPORTANCE_HIGH},
};

static size_t function_n_shown(size_t n, size_t top)
{
    return top == 0 ? n : MIN(n, top);
}

/* "/srv/gym/verify.py:12"; NULL for a built-in function. The caller frees it. */
static char *function_location(const struct function_row *f)
{
    return !*f->file ? NULL : f->line > 0 ? xasprintf("%s:%" PRId64, f->file, f->line) : xstrdup(f->file);
}

static void function_table_add(struct table *table, const struct function_rows *rows,
                               const struct function_row *f)
{
    char calls[32], tsub[UNIT_TEXT_MAX], ttot[UNIT_TEXT_MAX], tavg[UNIT_TEXT_MAX], share[UNIT_TEXT_MAX];
    _cleanup_(freep) char *location = function_location(f);
    int64_t total = function_rows_total_ns(rows, f->worker);

    snprintf(share, sizeof(share), "%.1f %%", total > 0 ? 100.0 * (double)f->tsub_ns / (double)total : 0.0);
    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_FUNCTION] = f->name,
                         [CELL_FILE] = location,
                         [CELL_CALLS] = f->calls > 0 ? text_number(calls, f->calls) : NULL,
                         [CELL_TSUB] = format_duration(tsub, f->tsub_ns),
                         [CELL_TTOT] = format_duration(ttot, f->ttot_ns),
                         [CELL_TAVG] = f->calls > 0 ? format_duration(tavg, f->tavg_ns) : NULL,
                         [CELL_SHARE] = share,
                         [CELL_WORKER] = f->worker,
                     });
    table_set_value(table, CELL_FILE, f->file);
    table_set_int(table, CELL_LINE, f->line);
    table_set_int(table, CELL_CALLS, f->calls);
    table_set_int(table, CELL_TSUB, f->tsub_ns);
    table_set_int(table, CELL_TTOT, f->ttot_ns);
    table_set_int(table, CELL_TAVG, f->tavg_ns);
    table_set_real(table, CELL_SHARE, total > 0 ? (double)f->tsub_ns / (double)total : 0.0);
}

/* Without the worker if there is only one. */
static size_t function_n_columns(const struct client *c, const struct function_rows *rows)
{
    return rows->n_workers > 1 || c->columns || !listing_is_text(c) ? _CELL_MAX : CELL_WORKER;
}

int function_rows_print(struct client *c, const struct function_rows *rows, size_t top)
{
    size_t n = function_n_shown(rows->n, top);
    struct table *table;
    int status = listing_table(c, columns, function_n_columns(c, rows), &table);

    if (status != EXIT_DONE)
        return status;
    for (size_t i = 0; i < n; i++)
        function_table_add(table, rows, &rows->items[i]);
    listing_print(c, table);
    table_free(table);
    if (n < rows->n && listing_has_legend(c))
        fprintf(c->out.file, "... %zu more (--top 0)\n", rows->n - n);
    return EXIT_DONE;
}

char *function_table_text(struct client *c, const struct function_rows *rows, size_t top)
{
    size_t n = function_n_shown(rows->n, top);
    _cleanup_(table_freep) struct table *table =
        table_new(columns, function_n_columns(c, rows), !c->no_legend);

    for (size_t i = 0; i < n; i++)
        function_table_add(table, rows, &rows->items[i]);
    _cleanup_(freep) char *text = table_text(table, &c->out, 0);
    return n < rows->n && !c->no_legend ? xasprintf("%s... %zu more (--top 0)\n", text, rows->n - n)
                                        : TAKE_PTR(text);
}

static bool clock_is_wall(const json_t *answer)
{
    const json_t *first = json_array_get(json_object_get(answer, "servers"), 0);
    return streq(json_get_str(first, "clock"), "wall");
}

void function_findings_print(struct client *c, const struct function_rows *rows, const json_t *answer)
{
    _cleanup_(function_findings_done) struct function_findings findings = {0};
    _cleanup_(document_done) struct document d = {0};
    struct finding_block *f = NULL;

    function_findings_make(rows, &findings);
    document_heading(&d, findings.n > 0 ? "FINDINGS" : NULL);
    for (size_t i = 0; i < findings.n; i++) {
        const struct function_finding *item = &findings.items[i];
        const struct function_row *row = item->function;
        _cleanup_(freep) char *text = function_finding_text(item), *location = function_location(row);
        const char *slash = location ? strrchr(location, '/') : NULL;
        bool names_worker = rows->n_workers > 1;
        _cleanup_(freep) char *line = xasprintf("%s  (%s%s%s)", text,
                                                slash      ? slash + 1
                                                : location ? location
                                                           : "built in",
                                                names_worker ? " of " : "", names_worker ? row->worker : "");
        if (!f)
            f = document_finding(&d, item->rule->title);
        finding_fact(f, FACT_TEXT, "Function", "", line);
        if (i + 1 < findings.n && item[1].rule == item->rule)
            continue;
        finding_fact(f, FACT_ADVICE, "Try", "Try: ", item->rule->advice);
        f = NULL;
    }
    if (findings.n > 0)
        document_heading(&d, NULL);
    document_text(&d, "%s",
                  clock_is_wall(answer)
                      ? "Times are wall-clock times: they include waiting."
                      : "Times are CPU times: time that a function waits (for the network, a lock, a "
                        "subprocess) is not included.");
    fputc('\n', c->out.file);
    document_print(&d, &c->out, c->format);
}

void function_reasons_print(struct client *c, const json_t *answer)
{
    _cleanup_(reasons_freep) struct reasons *reasons = reasons_new();
    size_t i;
    json_t *s;

    json_array_foreach(json_object_get(answer, "servers"), i, s)
        reasons_add(reasons, json_get_str(s, "worker"), json_get_str(s, "reason"), json_get_str(s, "remedy"));
    if (!c->quiet)
        reasons_print(reasons, &c->err, 0);
}

json_t *function_findings_to_json(const struct function_rows *rows)
{
    _cleanup_(function_findings_done) struct function_findings findings = {0};
    json_t *list = json_array();

    function_findings_make(rows, &findings);
    for (size_t i = 0; i < findings.n; i++) {
        const struct function_finding *f = &findings.items[i];
        _cleanup_(freep) char *text = function_finding_text(f);
        json_array_append_new(list, json_pack("{s: s, s: s, s: s, s: s, s: I, s: f, s: s, s: s}", "reading",
                                              f->rule->name, "worker", f->function->worker, "name",
                                              f->function->name, "file", f->function->file, "line",
                                              (json_int_t)f->function->line, "share", f->share, "text", text,
                                              "advice", f->rule->advice));
    }
    return list;
}

/* -- Differences -- */

enum {
    DIFF_FUNCTION,
    DIFF_FILE,
    DIFF_CHANGE,
    DIFF_TTOT_A,
    DIFF_TTOT_B,
    DIFF_CALLS_A,
    DIFF_CALLS_B,
    DIFF_TAVG_A,
    DIFF_TAVG_B,
    _DIFF_MAX
};

static const struct table_column diff_columns[_DIFF_MAX] = {
    [DIFF_FUNCTION] = {"FUNCTION", COLUMN_SHORTEN, IMPORTANCE_KEY, "name", 20},
    [DIFF_FILE] = {"FILE", COLUMN_SHORTEN | COLUMN_PATH, .least = 16},
    [DIFF_CHANGE] = {"CHANGE", COLUMN_RIGHT, IMPORTANCE_HIGH, "change_ns"},
    [DIFF_TTOT_A] = {"TTOT", COLUMN_RIGHT, IMPORTANCE_HIGH, "ttot_before_ns"},
    [DIFF_TTOT_B] = {"-> TTOT", COLUMN_RIGHT, IMPORTANCE_HIGH, "ttot_after_ns"},
    [DIFF_CALLS_A] = {"NCALL", COLUMN_RIGHT, IMPORTANCE_NORMAL, "calls_before"},
    [DIFF_CALLS_B] = {"-> NCALL", COLUMN_RIGHT, IMPORTANCE_NORMAL, "calls_after"},
    [DIFF_TAVG_A] = {"TAVG", COLUMN_RIGHT, IMPORTANCE_LOW, "tavg_before_ns"},
    [DIFF_TAVG_B] = {"-> TAVG", COLUMN_RIGHT, IMPORTANCE_LOW, "tavg_after_ns"},
};

static char *format_change(char *buf, int64_t ns)
{
    char text[UNIT_TEXT_MAX];
    snprintf(buf, UNIT_TEXT_MAX, "%s%s", ns < 0 ? "-" : "+", format_duration(text, llabs(ns)));
    return buf;
}

static void function_table_add_change(struct table *table, const struct function_change *c)
{
    char change[UNIT_TEXT_MAX], ttot[2][UNIT_TEXT_MAX], tavg[2][UNIT_TEXT_MAX], calls[2][32];
    const struct function_row *a = &c->before, *b = &c->after;
    _cleanup_(freep) char *location = function_location(b);

    table_add(table, (const char *[_DIFF_MAX]){
                         [DIFF_FUNCTION] = b->name,
                         [DIFF_FILE] = location,
                         [DIFF_CHANGE] = format_change(change, function_change_ns(c)),
                         [DIFF_TTOT_A] = format_duration(ttot[0], a->ttot_ns),
                         [DIFF_TTOT_B] = format_duration(ttot[1], b->ttot_ns),
                         [DIFF_CALLS_A] = text_number(calls[0], a->calls),
                         [DIFF_CALLS_B] = text_number(calls[1], b->calls),
                         [DIFF_TAVG_A] = a->calls > 0 ? format_duration(tavg[0], a->tavg_ns) : NULL,
                         [DIFF_TAVG_B] = b->calls > 0 ? format_duration(tavg[1], b->tavg_ns) : NULL,
                     });
    table_set_value(table, DIFF_FILE, b->file);
    table_set_int(table, DIFF_CHANGE, function_change_ns(c));
    table_set_int(table, DIFF_TTOT_A, a->ttot_ns);
    table_set_int(table, DIFF_TTOT_B, b->ttot_ns);
    table_set_int(table, DIFF_CALLS_A, a->calls);
    table_set_int(table, DIFF_CALLS_B, b->calls);
    if (a->calls > 0)
        table_set_int(table, DIFF_TAVG_A, a->tavg_ns);
    if (b->calls > 0)
        table_set_int(table, DIFF_TAVG_B, b->tavg_ns);
    table_colour(table, DIFF_CHANGE, function_change_ns(c) < 0 ? COLOUR_GOOD : COLOUR_BAD);
}

/* What all functions cost themselves, on both sides. */
static void function_print_totals(struct client *c, const struct function_changes *changes,
                                  const char *before, const char *after)
{
    int64_t a = 0, b = 0;
    char text_a[UNIT_TEXT_MAX], text_b[UNIT_TEXT_MAX], share[UNIT_TEXT_MAX] = "";

    for (size_t i = 0; i < changes->n; i++) {
        a += changes->items[i].before.tsub_ns;
        b += changes->items[i].after.tsub_ns;
    }
    if (a > 0)
        snprintf(share, sizeof(share), "  (%+.1f %%)", 100.0 * (double)(b - a) / (double)a);
    fprintf(c->out.file, "%s -> %s: all functions %s -> %s%s\n", before, after, format_duration(text_a, a),
            format_duration(text_b, b), share);
}

int function_changes_print(struct client *c, const struct function_changes *changes, const char *before,
                           const char *after, size_t top)
{
    size_t n = function_n_shown(changes->n, top);
    _cleanup_(table_freep) struct table *table = NULL;
    int status = listing_table(c, diff_columns, _DIFF_MAX, &table);

    if (status != EXIT_DONE)
        return status;
    client_page(c);
    if (listing_has_legend(c))
        function_print_totals(c, changes, before, after);
    for (size_t i = 0; i < n; i++)
        function_table_add_change(table, &changes->items[i]);
    listing_print(c, table);
    if (n < changes->n && listing_has_legend(c))
        fprintf(c->out.file, "... %zu more (--top 0)\n", changes->n - n);
    return EXIT_DONE;
}

static json_t *function_costs_to_json(const struct function_row *f)
{
    return json_pack("{s: I, s: I, s: I, s: I}", "calls", (json_int_t)f->calls, "tsub_ns",
                     (json_int_t)f->tsub_ns, "ttot_ns", (json_int_t)f->ttot_ns, "tavg_ns",
                     (json_int_t)f->tavg_ns);
}

json_t *function_rows_to_json(const struct function_rows *rows, size_t top)
{
    json_t *list = json_array();

    for (size_t i = 0; i < function_n_shown(rows->n, top); i++) {
        const struct function_row *f = &rows->items[i];
        json_t *j = json_pack("{s: s, s: s, s: s, s: I}", "worker", f->worker, "name", f->name, "file",
                              f->file, "line", (json_int_t)f->line);
        json_object_update_new(j, function_costs_to_json(f));
        json_array_append_new(list, j);
    }
    return list;
}

json_t *function_changes_to_json(const struct function_changes *changes, const char *before,
                                 const char *after, size_t top)
{
    json_t *list = json_array();

    for (size_t i = 0; i < function_n_shown(changes->n, top); i++) {
        const struct function_change *c = &changes->items[i];
        json_array_append_new(list, json_pack("{s: s, s: s, s: I, s: o, s: o}", "name", c->after.name, "file",
                                              c->after.file, "change_ns", (json_int_t)function_change_ns(c),
                                              "before", function_costs_to_json(&c->before), "after",
                                              function_costs_to_json(&c->after)));
    }
    return json_pack("{s: s, s: s, s: o}", "before", before, "after", after, "functions", list);
}
