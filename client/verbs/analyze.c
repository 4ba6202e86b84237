/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include "client/traces/analyzing.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/overview.h"
#include "client/views/report_page.h"
#include "client/views/report_view.h"
#include <errno.h>

#define TOP_DEFAULT 10
#define REPORTS_MAX 64

struct options {
    const char *reports, *named;
    int64_t top;
    const char *html;
    struct analyzing analyzing;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def options[] = {
    {"report", 'r', "LIST", OPTION_TEXT, AT(reports),
     "which reports: kernels,gaps; profctl reports lists them"},
    {"named", 0, "NAME", OPTION_TEXT, AT(named),
     "run a query that has a name instead: kernels, gaps, gaps-total; profctl query --named list shows them"},
    {"top", 'n', "N", OPTION_NUMBER, AT(top),
     "rows of each report; 0 for all, default 10, of JSON, CSV and TSV all"},
    {"html", 0, "FILE", OPTION_TEXT, AT(html),
     "all of it as one file for a browser or for paper; - is standard output"},
    ANALYZING_OPTIONS(struct options, analyzing),
};

struct chosen {
    struct made_report made[REPORTS_MAX];
    size_t n;
    bool by_name;
};

static void chosen_done(struct chosen *chosen)
{
    reports_done(chosen->made, chosen->n);
}

static int unknown_report(struct client *c, const char *name)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *names[REPORTS_MAX];
    size_t n = 0;

    for (const struct report *const *r = reports; *r && n < REPORTS_MAX; r++)
        names[n++] = (*r)->name;
    const char *near = nearest_name(name, names, n);
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "there is no report %s", name);
    if (near)
        problem_remedy(&p, "Is it %s? profctl reports lists them.", near);
    else
        problem_remedy(&p, "profctl reports lists them.");
    return client_fail(c, &p);
}

static int choose(struct client *c, const struct options *o, struct chosen *ret)
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

static int lacking(struct client *c, const struct report *report)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *needs = report_needs_text(report);

    problem_set(&p, -ENODATA, PROBLEM_NOT_FOUND, "%s: the trace has nothing of it", report->name);
    if (*needs)
        problem_remedy(&p, "It is made of %s; without --report all is shown that there is.", needs);
    else
        problem_remedy(&p, "Without --report all is shown that there is.");
    return client_fail(c, &p);
}

static int failed(struct client *c, const char *name, int r)
{
    _cleanup_(problem_done) struct problem p = {0};

    switch (r) {
    case -EBADMSG:
        problem_set(&p, r, PROBLEM_STORAGE, "%s: a part of the trace's columns is damaged", name);
        problem_remedy(&p, "Have the trace read again: profctl ingest --again.");
        break;
    case -ELOOP:
        problem_set(&p, r, PROBLEM_UNSUPPORTED, "%s: what happened waits for itself in a circle", name);
        problem_remedy(&p, "Its stamps or correlations are damaged; the other reports do without.");
        break;
    case -E2BIG:
        problem_set(&p, r, PROBLEM_TOO_LARGE, "%s: the trace has too much of it", name);
        problem_remedy(&p, "Look at a part: --step 3, or --from 1.2s --to 1.4s.");
        break;
    default:
        problem_set(&p, r, PROBLEM_INTERNAL, "%s: %s", name, strerror(-r));
    }
    return client_fail(c, &p);
}

/* What "trace" is in the JSON of a report: the words of the command line. */
static char *name_of(int n_words, char **words)
{
    char *name = xstrdup(words[0]);

    for (int i = 1; i < n_words; i++) {
        char *longer = xasprintf("%s %s", name, words[i]);
        free(name);
        name = longer;
    }
    return name;
}

static int print(struct client *c, const struct options *o, struct chosen *chosen, const char *name,
                 struct analysis *a)
{
    size_t top = o->top != OPTION_ABSENT ? (size_t)o->top
                 : !listing_is_text(c)   ? 0
                                         : TOP_DEFAULT,
           n_lacking = 0;
    _cleanup_(document_done) struct document d = {0};
    _cleanup_json_ list = json_array();
    int status = EXIT_DONE;

    reports_make(chosen->made, chosen->n, a);
    for (size_t i = 0; i < chosen->n; i++) {
        const struct made_report *made = &chosen->made[i];
        const struct report *report = made->report;
        if (made->result == -ENODATA) {
            if (chosen->by_name)
                status = lacking(c, report);
            n_lacking++;
            continue;
        }
        if (made->result < 0)
            return failed(c, report->name, made->result);
        if (c->json) {
            json_array_append_new(list, report_to_json(report, name, &made->rows, top));
        } else if (listing_is_separated(c)) {
            report_print_separated(c, report, &made->rows, top);
        } else if (report_has_findings(report) && !c->columns) {
            findings_add_section(&d, a, made, top, false);
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

static int print_overview(struct client *c, const struct options *o, const char *name, struct analysis *a)
{
    int r = overview_print(c, a, name, o->top == OPTION_ABSENT ? TOP_DEFAULT : (size_t)o->top);

    return r < 0 ? failed(c, "overview", r) : EXIT_DONE;
}

/* Rows of each table on a page. */
#define TOP_HTML 30

/* What a person calls it: an id, or a file or directory without the way to it. */
static char *short_names(int n_words, char **words)
{
    _cleanup_(freep) char *absolute = NULL;
    char *names = NULL;

    for (int i = 0; i < n_words; i++) {
        /* "." and ".." have a name only where they lie. */
        bool is_relative = words[i][strspn(words[i], "./")] == '\0';
        free(absolute);
        absolute = is_relative ? realpath(words[i], NULL) : NULL;
        _cleanup_(freep) char *word = xstrdup(absolute ? absolute : words[i]);
        size_t n = strlen(word);
        while (n > 1 && word[n - 1] == '/')
            word[--n] = '\0';
        const char *slash = strrchr(word, '/'), *base = slash && slash[1] ? slash + 1 : word;
        char *longer = xasprintf("%s%s%s", names ? names : "", names ? " " : "", base);
        free(names);
        names = longer;
    }
    return names;
}

/* "8 ranks", "rank 3"; NULL of a trace that names none. */
static char *ranks_text(const struct named_ranks *ranks)
{
    int64_t rank = columns_meta(ranks->items[0].columns, META_rank);

    return ranks->n > 1          ? text_count((int64_t)ranks->n, "rank")
           : rank != COLUMN_NULL ? xasprintf("rank %lld", (long long)rank)
                                 : NULL;
}

/* "Qwen3-8B · NVIDIA H200 · 8 ranks · s7": what is known of it. */
static char *page_title(struct client *c, const struct analyzed *analyzed, int n_words, char **words)
{
    const struct named_ranks *ranks = &analyzed->ranks;
    struct text device = columns_meta_text(ranks->items[0].columns, META_device_name);
    _cleanup_(freep) char *names = short_names(n_words, words), *model = ranks_model(c, ranks),
                          *which = ranks_text(ranks);
    char *title = NULL;
    size_t size;
    FILE *out = xmemstream(&title, &size);

    if (model)
        fprintf(out, "%s · ", model);
    if (device.size > 0)
        fprintf(out, "%.*s · ", (int)device.size, device.p);
    fprintf(out, "%s%s%s", which ? which : "", which ? " · " : "", names);
    fclose(out);
    return title;
}

static int write_html(struct client *c, const struct options *o, struct chosen *chosen, const char *name,
                      struct analyzed *analyzed, int n_words, char **words)
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
        return failed(c, name, r);
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    client_note(c, "%s is written", o->html);
    return EXIT_DONE;
}

/* One kind of output; separated values have one heading, and --columns names those of one report. */
static int check_output(struct client *c, const struct options *o, const struct chosen *chosen)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (o->html && c->format != TABLE_FITTED) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--html and the other formats exclude each other");
        return client_fail(c, &p);
    }
    if (o->html || chosen->n != 1)
        return listing_refuse(c, "is of one report", "Name it: --report kernels. --json takes several.");
    return report_check_columns(c, chosen->made[0].report);
}

static int run_named(struct client *c, const struct options *o, int n_words, char **words)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (n_words == 1 && !o->reports && !o->html)
        return query_run_named(c, o->named, words[0], o->top > 0 ? o->top : OPTION_ABSENT);
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST,
                "--named is of one trace, and excludes --report and --html");
    problem_remedy(&p, "Reports take several: profctl reports lists them.");
    return client_fail(c, &p);
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    char newest[REF_TEXT_MAX], *newest_words[] = {newest, NULL};
    _cleanup_(analyzed_done) struct analyzed analyzed = {0};
    _cleanup_(chosen_done) struct chosen chosen = {0};

    int status = o->named ? EXIT_DONE : choose(c, o, &chosen);
    if (status == EXIT_DONE && !o->named)
        status = check_output(c, o, &chosen);
    if (status == EXIT_DONE && n_words == 0) {
        status = client_newest_session(c, true, newest);
        words = newest_words;
        n_words = 1;
    }
    if (status != EXIT_DONE)
        return status;
    if (o->named)
        return run_named(c, o, n_words, words);
    client_hold_signals();
    status = analyzed_open(c, &o->analyzing, n_words, words, &analyzed);
    if (status != EXIT_DONE)
        return status;
    _cleanup_(freep) char *name = name_of(n_words, words);
    if (o->html)
        status = write_html(c, o, &chosen, name, &analyzed, n_words, words);
    else if (chosen.by_name || !listing_is_text(c))
        status = print(c, o, &chosen, name, &analyzed.analysis);
    else
        status = print_overview(c, o, name, &analyzed.analysis);
    return ranks_status(&analyzed.ranks, status);
}

const struct verb verb_analyze = {
    .name = "analyze",
    .words = "[TRACE|SESSION|FILE...]",
    .summary = "Explain where the time of a trace or a session went",
    .details = "Takes traces (t12), sessions (s7), trace files of any format, their columns, and\n"
               "directories of ranks. Default: the newest session that has traces.",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    .has_listing = true,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
