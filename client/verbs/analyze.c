/* SPDX-License-Identifier: Apache-2.0 */
/* analyze explains traces; reports lists the reports that it can make. */
#include "base/alloc.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include "client/traces/analyzing.h"
#include "client/traces/remote_reports.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/overview.h"
#include "client/views/report_page.h"
#include "client/views/report_view.h"
#include "trace/ranks/diff_tables.h"
#include "trace/reports/report.h"
#include <errno.h>
#include <malloc.h>

/* -- analyze ------------------------------------------------------------------------------------------ */

#define TOP_DEFAULT 10
#define REPORTS_MAX 64

struct analyze_options {
    const char *reports, *named;
    int64_t top;
    const char *html;
    struct analyzing analyzing;
};

#define AT(member) offsetof(struct analyze_options, member)

/* clang-format off */
static const struct option_def analyze_options[] = {
    OPTION_GROUP("Output"),
    {"report", 'r', "LIST", OPTION_TEXT, AT(reports), "Reports to print, separated by commas: kernels,gaps; profctl reports lists them"},
    {"top", 'n', "N", OPTION_NUMBER, AT(top), "Rows of each report, 0 for all (default: 10, with --html 30, in JSON, CSV and TSV all)"},
    {"html", 0, "FILE", OPTION_TEXT, AT(html), "Write one HTML file with all reports, - for standard output"},
    {"named", 0, "NAME", OPTION_TEXT, AT(named), "Run a named query instead; profctl query --named list prints them"},
    OPTION_GROUP("Selection"),
    ANALYZING_OPTIONS(struct analyze_options, analyzing),
};
/* clang-format on */

struct chosen_reports {
    struct made_report made[REPORTS_MAX];
    size_t n;
    bool by_name;
};

static void chosen_reports_done(struct chosen_reports *chosen)
{
    reports_done(chosen->made, chosen->n);
}

static int unknown_report(struct client *c, const char *name)
{
    const char *names[REPORTS_MAX];
    size_t n = 0;

    for (const struct report *const *r = reports; *r && n < REPORTS_MAX; r++)
        names[n++] = (*r)->name;
    _cleanup_(freep) char *remedy = did_you_mean(name, names, n, "profctl reports lists all reports.");
    return client_refuse(c, remedy, "unknown report '%s'", name);
}

static int analyze_choose(struct client *c, const struct analyze_options *o, struct chosen_reports *ret)
{
    ret->by_name = o->reports;
    if (!o->reports) {
        for (const struct report *const *r = reports; *r && ret->n < REPORTS_MAX; r++)
            if (!(*r)->is_detail)
                ret->made[ret->n++].report = *r;
        return EXIT_DONE;
    }
    _cleanup_(freep) char *list = xstrdup(o->reports);
    char *rest = NULL;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        const struct report *report = report_find(name);
        if (!report)
            return unknown_report(c, name);
        if (ret->n < REPORTS_MAX)
            ret->made[ret->n++].report = report;
    }
    return EXIT_DONE;
}

static int report_lacking(struct client *c, const struct report *report)
{
    _cleanup_(freep) char *needs = report_needs_text(report);
    _cleanup_(freep) char *remedy = xasprintf("%s%s%sOmit --report to print all reports that are available.",
                                              *needs ? "It needs " : "", needs, *needs ? ". " : "");

    return client_error(c, PROBLEM_NOT_FOUND, remedy, "%s: the trace contains no events for this report",
                        report->name);
}

static int report_failed(struct client *c, const char *name, int r)
{
    static const struct {
        int r;
        enum problem_kind kind;
        const char *what, *remedy;
    } failures[] = {
        {-EBADMSG, PROBLEM_STORAGE, "the columns of the trace are damaged",
         "Rebuild them: profctl ingest --again FILE"},
        {-ELOOP, PROBLEM_UNSUPPORTED, "the events form a dependency cycle",
         "Timestamps or correlation ids are damaged; use other reports."},
        {-E2BIG, PROBLEM_TOO_LARGE, "the trace has too many events for this report",
         "Select a part: --step 3, or --from 1.2s --to 1.4s."},
    };

    for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
        if (failures[i].r == r)
            return client_error(c, failures[i].kind, failures[i].remedy, "%s: %s", name, failures[i].what);
    return client_error(c, PROBLEM_INTERNAL, NULL, "%s: %s", name, strerror(-r));
}

/* The words of the command line, as "trace" in the JSON of a report. */
static char *join_words(int n_words, char **words)
{
    char *name = NULL;

    for (int i = 0; i < n_words; i++)
        append_str(&name, "%s%s", i > 0 ? " " : "", words[i]);
    return name;
}

static int analyze_print(struct client *c, const struct analyze_options *o, struct chosen_reports *chosen,
                         const char *name, struct overview_source *source)
{
    size_t top = o->top != OPTION_ABSENT ? (size_t)o->top
                 : !listing_is_text(c)   ? 0
                                         : TOP_DEFAULT,
           n_lacking = 0;
    _cleanup_(document_done) struct document d = {0};
    _cleanup_json_ list = json_array();
    int status = EXIT_DONE;

    status = source->make(source->arg, chosen->made, chosen->n);
    if (status != EXIT_DONE)
        return status;
    for (size_t i = 0; i < chosen->n; i++) {
        const struct made_report *made = &chosen->made[i];
        const struct report *report = made->report;
        if (made->result == -ENODATA) {
            if (chosen->by_name)
                status = report_lacking(c, report);
            n_lacking++;
            continue;
        }
        if (made->result < 0)
            return report_failed(c, report->name, made->result);
        if (c->json) {
            json_array_append_new(list, report_rows_to_json(report, name, &made->rows, top));
        } else if (listing_is_separated(c)) {
            report_print_separated(c, report, &made->rows, top);
        } else if (report_has_findings(report) && !c->columns) {
            findings_add_section(&d, source->has_gpu, made, top, false);
        } else {
            report_add_made(&d, c, made, top);
        }
    }
    if (d.n > 0) {
        client_page(c);
        document_print(&d, &c->out, c->format);
    }
    if (status != EXIT_DONE)
        status = n_lacking < chosen->n ? EXIT_PARTIAL : status;
    if (status != EXIT_DONE && status != EXIT_PARTIAL)
        return status;
    int printed =
        !c->json ? EXIT_DONE
                 : client_print_json(c, chosen->n == 1 && chosen->by_name ? json_array_get(list, 0) : list);
    return printed != EXIT_DONE ? printed : status;
}

/* Rows of each table on a page. */
#define TOP_HTML 30

/* The id, or the base name of a file or directory; "." and ".." get the name of the directory. */
static char *short_name(const char *word)
{
    bool is_relative = word[strspn(word, "./")] == '\0';
    _cleanup_(freep) char *absolute = is_relative ? realpath(word, NULL) : NULL;
    _cleanup_(freep) char *path = xstrdup(absolute ? absolute : word);
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    const char *slash = strrchr(path, '/');
    return xstrdup(slash && slash[1] ? slash + 1 : path);
}

/* "Qwen3-8B · NVIDIA H200 · 8 ranks · s7", as far as known. */
static char *page_title(struct client *c, const struct analyzed *analyzed, int n_words, char **words)
{
    const struct named_ranks *ranks = &analyzed->ranks;
    const struct columns *first = ranks->items[0].columns;
    struct text device = columns_meta_text(first, META_device_name);
    int64_t rank = columns_meta(first, META_rank);
    _cleanup_(freep) char *model = ranks_model(c, ranks);
    char *title = NULL;

    if (model)
        append_str(&title, "%s · ", model);
    if (device.size > 0)
        append_str(&title, "%.*s · ", (int)device.size, device.p);
    if (ranks->n > 1)
        append_str(&title, "%zu ranks · ", ranks->n);
    else if (rank != COLUMN_NULL)
        append_str(&title, "rank %lld · ", (long long)rank);
    for (int i = 0; i < n_words; i++) {
        _cleanup_(freep) char *name = short_name(words[i]);
        append_str(&title, "%s%s", i > 0 ? " " : "", name);
    }
    return title;
}

static int analyze_write_html(struct client *c, const struct analyze_options *o,
                              struct chosen_reports *chosen, const char *name, struct analyzed *analyzed,
                              int n_words, char **words)
{
    struct analysis *a = &analyzed->analysis;
    _cleanup_(freep) char *title = page_title(c, analyzed, n_words, words);
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    struct report_page page = {.title = title,
                               .reports = chosen->made,
                               .n_reports = chosen->n,
                               .top = o->top == OPTION_ABSENT ? TOP_HTML : (size_t)o->top};

    if (output_open(o->html, &out, &p) < 0)
        return client_fail(c, &p);
    reports_make(chosen->made, chosen->n, a);
    int r = report_page_write(&page, a, out.file);
    if (r < 0)
        return report_failed(c, name, r);
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    client_note(c, "wrote %s", o->html);
    return EXIT_DONE;
}

/* CSV and TSV have one heading, and --columns selects from one report. */
static int analyze_check_output(struct client *c, const struct analyze_options *o,
                                const struct chosen_reports *chosen)
{
    if (o->html && c->format != TABLE_FITTED)
        return client_refuse(c, "Omit one of them.", "--html and the other formats exclude each other");
    if (o->html || chosen->n != 1)
        return listing_refuse(c, "needs one report", "Name it: --report kernels. --json prints several.");
    return report_check_columns(c, chosen->made[0].report);
}

/* Reports allocate and free tables of some megabytes all the time. Memory that the allocator keeps is not cleared again by
 * the kernel, and other threads are not interrupted because it was unmapped. */
#define HEAP_MMAP_THRESHOLD (32 << 20) /* the largest that malloc() accepts */
#define HEAP_TRIM_THRESHOLD (1 << 30)
#define HEAP_TOP_PAD        (1 << 20)

static void analyze_keep_heap(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_MMAP_THRESHOLD);
    mallopt(M_TRIM_THRESHOLD, HEAP_TRIM_THRESHOLD);
    mallopt(M_TOP_PAD, HEAP_TOP_PAD);
}

static int analyze_print_or_show(struct client *c, const struct analyze_options *o,
                                 struct chosen_reports *chosen, const char *name,
                                 struct overview_source *source)
{
    if (chosen->by_name || !listing_is_text(c))
        return analyze_print(c, o, chosen, name, source);
    int r = overview_print(c, source, name, o->top == OPTION_ABSENT ? TOP_DEFAULT : (size_t)o->top);
    return r < 0 ? report_failed(c, "overview", r) : r;
}

/* -- Traces on other hosts ---------------------------------------------------------------------------- */

struct analyze_source {
    struct overview_source source;
    struct remote_reports *reports;
};

static int analyze_make_there(void *arg, struct made_report *made, size_t n)
{
    struct analyze_source *there = arg;
    int status = remote_reports_make(there->reports, made, n);

    there->source.n_instances = there->reports->n_instances;
    there->source.instance = there->reports->instance;
    there->source.n_ranks =
        there->reports->n_ranks - MIN(there->reports->n_left_out, there->reports->n_ranks);
    return status;
}

/* What the head of the overview says, as the catalog knows it. */
static void analyze_take_facts(struct analyze_source *there)
{
    struct overview_source *source = &there->source;
    json_t *trace;
    size_t i;

    source->events[0] = INT64_MAX;
    json_array_foreach(there->reports->traces, i, trace) {
        int64_t events = json_get_int(trace, "gpu_slices", 0);
        const char *device = json_get_str(trace, "device_name");
        source->events[0] = MIN(source->events[0], events);
        source->events[1] = MAX(source->events[1], events);
        source->world = MAX(source->world, (size_t)MAX(json_get_int(trace, "world_size", 0), INT64_C(0)));
        if (!source->device && device)
            source->device = xstrdup(device);
    }
    source->n_ranks = there->reports->n_ranks;
    source->has_gpu = source->events[1] > 0;
}

/* Reports are computed on the hosts that have the traces. *ret_is_there: any is on another host. */
static int analyze_there(struct client *c, const struct analyze_options *o, struct chosen_reports *chosen,
                         const char *name, int n_words, char **words, bool *ret_is_there)
{
    const struct analyzing *part = &o->analyzing;
    _cleanup_(remote_reports_done) struct remote_reports remote = {0};
    struct analyze_source there = {.source = {.make = analyze_make_there,
                                              .is_complete = part->from == OPTION_ABSENT &&
                                                             part->to == OPTION_ABSENT &&
                                                             part->step == OPTION_ABSENT && !part->phase},
                                   .reports = &remote};

    int status = remote_reports_find(c, part, n_words, words, &remote);
    *ret_is_there = remote.n_hosts > 0;
    if (status != EXIT_DONE || remote.n_hosts == 0)
        return status;
    there.source.arg = &there;
    analyze_take_facts(&there);
    status = analyze_print_or_show(c, o, chosen, name, &there.source);
    free(there.source.device);
    return status == EXIT_DONE && remote.n_left_out > 0 ? EXIT_PARTIAL : status;
}

static int analyze_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct analyze_options *o = values;
    _cleanup_(freep) char *newest = NULL;
    _cleanup_(analyzed_done) struct analyzed analyzed = {0};
    _cleanup_(chosen_reports_done) struct chosen_reports chosen = {0};

    analyze_keep_heap();
    int status = o->named ? EXIT_DONE : analyze_choose(c, o, &chosen);
    if (status == EXIT_DONE && !o->named)
        status = analyze_check_output(c, o, &chosen);
    if (status == EXIT_DONE)
        status = client_words_or_newest(c, &n_words, &words, &newest);
    if (status != EXIT_DONE)
        return status;
    if (o->named && (n_words != 1 || o->reports || o->html))
        return client_refuse(c, "To analyze several traces use reports; profctl reports lists all reports.",
                             "--named needs one trace, and excludes --report and --html");
    if (o->named)
        return query_run_named(c, o->named, words[0], o->top > 0 ? o->top : OPTION_ABSENT);
    client_hold_signals();
    _cleanup_(freep) char *name = join_words(n_words, words);
    if (!o->html) {
        bool is_there = false;
        status = analyze_there(c, o, &chosen, name, n_words, words, &is_there);
        if (is_there || status != EXIT_DONE)
            return status;
    }
    status = analyzed_open(c, &o->analyzing, n_words, words, &analyzed);
    if (status != EXIT_DONE)
        return status;
    if (o->html) {
        status = analyze_write_html(c, o, &chosen, name, &analyzed, n_words, words);
    } else {
        struct overview_source source = overview_of_analysis(&analyzed.analysis);
        status = analyze_print_or_show(c, o, &chosen, name, &source);
        free(source.device);
    }
    return ranks_status(&analyzed.ranks, status);
}

const struct verb verb_analyze = {
    .name = "analyze",
    .summary = "Explain where the time of a trace or a session went",
    .details = "Takes traces (t12), sessions (s7), trace files of any format, their columns, and directories "
               "of ranks. Default: the newest session that has traces.",
    .words = "[TRACE|SESSION|FILE...]",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    .has_listing = true,
    VERB_OPTIONS(analyze_options, struct analyze_options),
    .run = analyze_run,
};

/* -- reports ------------------------------------------------------------------------------------------ */

static json_t *report_description(const struct report *report)
{
    json_t *one = json_object(), *columns = json_array();
    _cleanup_(freep) char *needs = report_needs_text(report);

    json_put_str(one, "report", report->name);
    json_put_str(one, "shows", report->title);
    json_put_str(one, "how", report->method);
    json_put_str(one, "needs", needs);
    for (size_t i = 0; i < report->n_columns; i++) {
        json_t *column = json_object();
        json_put_str(column, "name", report->columns[i].name);
        json_put_str(column, "meaning", report->columns[i].meaning);
        json_array_append_new(columns, column);
    }
    json_object_set_new(one, "columns", columns);
    return one;
}

static int reports_run(struct client *c, const void *values, int n_words, char **words)
{
    static const struct table_column columns[] = {
        {"REPORT", 0, IMPORTANCE_KEY},
        {"SHOWS", COLUMN_SHORTEN, .least = 40},
        {"NEEDS", COLUMN_SHORTEN, IMPORTANCE_EXTRA},
    };
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ list = json_array();

    int status = listing_table(c, columns, ARRAY_SIZE(columns), &table);

    if (status != EXIT_DONE)
        return status;
    for (const struct report *const *r = reports; *r; r++) {
        _cleanup_(freep) char *needs = report_needs_text(*r);
        json_array_append_new(list, report_description(*r));
        table_add(table, (const char *const[]){(*r)->name, (*r)->title, needs});
    }
    if (c->json)
        return client_print_json(c, list);
    listing_print(c, table);
    return EXIT_DONE;
}

const struct verb verb_reports = {
    .name = "reports",
    .summary = "List the reports of analyze",
    .details = "With --json also the columns of each report and how it is computed.",
    .words = "",
    .has_listing = true,
    .run = reports_run,
};
