/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/work_internal.h"

#include "base/alloc.h"
#include "base/units.h"
#include "daemon/report/statement.h"
#include "proto/report.h"
#include "trace/ranks/rank_set.h"
#include "trace/ranks/report_parts.h"
#include "trace/reports/report.h"
#include "trace/reports/step_name.h"
#include <errno.h>
#include <math.h>

/* Reports of one specification. */
#define REPORTS_MAX 64

void work_analysis_done(struct work_analysis *w)
{
    analysis_done(&w->analysis);
    free(w->analysis.ranks);
    rank_set_done(&w->set);
    for (size_t i = 0; i < w->n; i++) {
        columns_close(w->traces[i].columns);
        free(w->traces[i].label);
    }
    free(w->traces);
    json_decref(w->notes);
}

static void work_add_note(void *arg, const char *text)
{
    struct work_analysis *w = arg;
    json_array_append_new(w->notes, json_text(text));
}

static int work_trace_compare(const void *x, const void *y)
{
    const struct work_trace *a = x, *b = y;
    return strverscmp(a->label, b->label);
}

static int work_open_trace(const json_t *spec, int fd, struct work_trace *ret, struct problem *p)
{
    _cleanup_(freep) char *reason = NULL;

    *ret = (struct work_trace){.name = json_get_str(spec, "name"),
                               .facts = json_object_get(spec, "facts"),
                               .role = json_get_str(spec, "role"),
                               .kv_use = json_get_number(spec, "kv_use", NAN)};
    if (!ret->name)
        return problem_set(p, -EINVAL, PROBLEM_INTERNAL, "a trace has no name");
    int r = columns_open(fd, &ret->columns, &reason);
    if (r < 0) {
        problem_remedy(p, "Make the columns again: profctl ingest --again FILE.");
        return problem_set(p, r, PROBLEM_STORAGE, "the columns of %s cannot be used: %s", ret->name,
                           reason ? reason : strerror(-r));
    }
    ret->label = rank_label(ret->facts, ret->columns, ret->name);
    return 0;
}

static int work_open_traces(const struct work *work, struct work_analysis *w, struct problem *p)
{
    const json_t *list = json_object_get(work->spec, "traces");
    int r = 0;

    if (json_array_size(list) != work->n_traces || work->n_traces == 0)
        return problem_set(p, -EINVAL, PROBLEM_INTERNAL, "the specification has another number of traces");
    w->traces = xcalloc(work->n_traces, sizeof(*w->traces));
    for (; w->n < work->n_traces && r >= 0; w->n++)
        r = work_open_trace(json_array_get(list, w->n), work->columns_fd + (int)w->n, &w->traces[w->n], p);
    if (r < 0)
        return r;
    qsort(w->traces, w->n, sizeof(*w->traces), work_trace_compare);
    w->set.items = xcalloc(w->n, sizeof(*w->set.items));
    w->set.n = w->n;
    for (size_t i = 0; i < w->n; i++) {
        const struct work_trace *t = &w->traces[i];
        w->set.items[i] = (struct set_rank){.columns = t->columns,
                                            .trace = t->facts,
                                            .path = t->facts ? NULL : t->name,
                                            .label = t->label,
                                            .role = t->role,
                                            .kv_use = t->kv_use,
                                            .item = i};
    }
    return 0;
}

int work_read_view(const json_t *view, struct analysis_view *ret, struct problem *p)
{
    *ret = VIEW_ALL;
    ret->from = json_get_int(view, "from", ret->from);
    ret->to = json_get_int(view, "to", ret->to);
    ret->step = json_get_int(view, "step", ret->step);
    ret->phase = json_get_str(view, "phase");
    if (MAX(ret->from, INT64_C(0)) >= ret->to)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "from must be before to");
    if (ret->phase && step_phase_find(ret->phase) == _STEP_PHASE_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "phase is prefill, decode, mixed or training, not %s", ret->phase);
    return 0;
}

/* An empty result would look like a healthy trace. */
static int work_check_view(struct analysis *a, struct problem *p)
{
    char from[UNIT_TEXT_MAX], length[UNIT_TEXT_MAX];
    int64_t longest = -1;

    for (size_t i = 0; i < a->n; i++)
        longest = MAX(longest, analysis_since_first(a, i, columns_meta(a->ranks[i].columns, META_last_ns)));
    if (longest >= 0 && a->view.from > longest) {
        problem_remedy(p, "from and to count from the first slice of the trace.");
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                           "from=%s is after the end of the trace, which is %s long",
                           format_duration(from, a->view.from), format_duration(length, longest));
    }
    if (a->view.step == COLUMN_NULL && !a->view.phase)
        return 0;
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct steps *steps;
        /* An error that prevents reading steps also prevents reports, which have it in their result. */
        if (analysis_steps(a, rank, &steps) < 0)
            return 0;
        for (size_t i = 0; i < steps->n; i++)
            if (analysis_has_step(a, rank, &steps->items[i]))
                return 0;
    }
    problem_remedy(p, "The report steps lists steps with phase and begin.");
    return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the selected part has no such step");
}

int work_analyse(const struct work *work, struct work_analysis *w, struct problem *p)
{
    int r = work_open_traces(work, w, p);

    w->notes = json_array();
    w->host = json_get_str(work->spec, "host");
    w->set.note = work_add_note;
    w->set.note_arg = w;
    w->analysis.patterns = &w->patterns;
    if (r >= 0)
        r = work_read_view(json_object_get(work->spec, "view"), &w->analysis.view, p);
    if (r < 0)
        return r;
    r = rank_set_find_instances(&w->set, &w->patterns, false, &w->analysis.ranks);
    w->analysis.n = w->n;
    if (r >= 0 && w->n > 1)
        r = rank_set_align(&w->set, "auto");
    if (r < 0)
        return problem_set(p, r, PROBLEM_INTERNAL, "cannot group the traces: %s", strerror(-r));
    for (size_t i = 0; i < w->n; i++) {
        struct rank *rank = &w->analysis.ranks[i];
        rank->label = w->set.items[i].label;
        rank->number = w->set.items[i].number;
        rank->shift_ns = w->set.items[i].shift_ns;
    }
    w->analysis.instances = w->set.instances;
    w->analysis.n_instances = w->set.n_instances;
    return work_check_view(&w->analysis, p);
}

/* -- Reports ------------------------------------------------------------------------------------------ */

/* Texts that profctl shows for the same errors. */
static const char *work_error_text(int r)
{
    return r == -EBADMSG ? "the columns of the trace are damaged"
           : r == -ELOOP ? "the events form a dependency cycle"
           : r == -E2BIG ? "the trace has too many events for this report"
                         : strerror(-r);
}

int work_failed(int r, const char *what, struct problem *p)
{
    return problem_set(p, r, r == -E2BIG ? PROBLEM_TOO_LARGE : PROBLEM_UNSUPPORTED, "%s: %s", what,
                       work_error_text(r));
}

static int work_read_reports(const json_t *names, const struct report **ret, size_t *ret_n, struct problem *p)
{
    size_t i;
    json_t *name;

    if (json_array_size(names) == 0 || json_array_size(names) > REPORTS_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "1 to %d reports must be named", REPORTS_MAX);
    json_array_foreach(names, i, name) {
        const char *text = json_string_value(name);
        ret[i] = text ? report_find(text) : NULL;
        if (!ret[i]) {
            problem_remedy(p, "profctl reports lists all reports.");
            return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "unknown report '%s'", text ? text : "");
        }
    }
    *ret_n = json_array_size(names);
    return 0;
}

static int work_one_report(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(work_analysis_done) struct work_analysis w = {0};
    const struct report *chosen[REPORTS_MAX];
    struct made_report made = {0};
    size_t n;

    int r = work_read_reports(json_object_get(work->spec, "reports"), chosen, &n, p);
    if (r >= 0)
        r = work_analyse(work, &w, p);
    if (r < 0)
        return r;
    made.report = chosen[0];
    reports_make(&made, 1, &w.analysis);
    r = made.result;
    if (r == -ENODATA) {
        problem_set(p, r, PROBLEM_NOT_FOUND, "%s: the trace contains no events for this report",
                    chosen[0]->name);
    } else if (r < 0) {
        problem_set(p, r, r == -E2BIG ? PROBLEM_TOO_LARGE : PROBLEM_UNSUPPORTED, "%s: %s", chosen[0]->name,
                    work_error_text(r));
    } else {
        fputc('{', answer);
        report_part_write(answer, made.report, &made.rows,
                          (size_t)MAX(json_get_int(work->spec, "top", 0), INT64_C(0)));
        fputs("}\n", answer);
    }
    reports_done(&made, 1);
    return r;
}

/* Members that each part begins with. */
static void work_begin_part(FILE *answer, bool *any, const struct work_analysis *w,
                            const struct engine_instance *instance)
{
    size_t first = instance ? instance->first : 0, n = instance ? instance->n : w->n;
    _cleanup_json_ head = json_object(), *names = json_array();

    for (size_t i = first; i < first + n; i++)
        json_array_append_new(names, json_text(w->traces[w->set.items[i].item].name));
    json_object_set(head, "traces", names);
    json_object_set_new(head, "instance", instance ? json_text(instance->name) : json_null());
    json_put_str(head, "host", w->host);
    _cleanup_(freep) char *text = json_dumps(head, JSON_COMPACT);
    text[strlen(text) - 1] = '\0';
    fprintf(answer, "%s%s,", *any ? ",\n" : "\n", text);
    *any = true;
}

static void work_write_part(FILE *answer, const struct report *report, const struct report_rows *rows,
                            size_t top, int r)
{
    if (r >= 0)
        report_part_write(answer, report, rows, top);
    else if (r == -ENODATA)
        fprintf(answer, "\"report\":\"%s\",\"lacking\":true", report->name);
    else
        fprintf(answer, "\"report\":\"%s\",\"error\":\"%s\"", report->name, work_error_text(r));
    fputc('}', answer);
}

void work_copy_lists(const json_t *spec, json_t *answer)
{
    /* Traces that are to be asked for elsewhere, or gone; and hosts that may have more. */
    static const char *const lists[] = {"left", "missing", "missing_hosts"};

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        json_t *list = json_object_get(spec, lists[i]);
        if (list)
            json_object_set(answer, lists[i], list);
    }
}

static int work_reports(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(work_analysis_done) struct work_analysis w = {0};
    const struct report *chosen[REPORTS_MAX];
    size_t n, top = (size_t)MAX(json_get_int(work->spec, "top", 0), INT64_C(0));
    bool any = false;

    int r = work_read_reports(json_object_get(work->spec, "reports"), chosen, &n, p);
    if (r >= 0)
        r = work_analyse(work, &w, p);
    if (r < 0)
        return r;
    fputs("{\"parts\":[", answer);
    for (size_t i = 0; i < w.analysis.n_instances; i++) {
        struct analysis one = analysis_of_instance(&w.analysis, i);
        _cleanup_(freep) struct made_report *made = xcalloc(n, sizeof(*made));
        size_t n_made = 0;
        for (size_t k = 0; k < n; k++)
            if (!chosen[k]->of_instances || w.analysis.n_instances == 1)
                made[n_made++].report = chosen[k];
        reports_make(made, n_made, &one);
        for (size_t k = 0; k < n_made; k++) {
            work_begin_part(answer, &any, &w, &w.analysis.instances[i]);
            work_write_part(answer, made[k].report, &made[k].rows, top, made[k].result);
        }
        reports_done(made, n_made);
    }
    for (size_t k = 0; k < n && w.analysis.n_instances > 1; k++) {
        struct report_rows rows;
        if (!chosen[k]->of_instances)
            continue;
        r = report_make(chosen[k], &w.analysis, &rows);
        work_begin_part(answer, &any, &w, NULL);
        work_write_part(answer, chosen[k], &rows, top, r);
        report_rows_done(&rows);
    }
    _cleanup_json_ tail = json_object();
    work_copy_lists(work->spec, tail);
    json_object_set(tail, "notes", w.notes);
    _cleanup_(freep) char *text = json_dumps(tail, JSON_COMPACT);
    fprintf(answer, "],\n%s\n", text + 1);
    return 0;
}

static int work_sums(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(work_analysis_done) struct work_analysis w = {0};

    int r = work_analyse(work, &w, p);
    if (r < 0)
        return r;
    _cleanup_json_ sums = work_make_sums(&w.analysis);
    return json_dumpf(sums, answer, JSON_COMPACT) < 0
               ? problem_set(p, -EIO, PROBLEM_INTERNAL, "cannot write the sums")
               : 0;
}

static int work_slices(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(work_analysis_done) struct work_analysis w = {0};

    int r = work_open_traces(work, &w, p);
    if (r < 0)
        return r;
    _cleanup_(freep) const struct columns **columns = xcalloc(w.n, sizeof(*columns));
    _cleanup_(freep) const json_t **facts = xcalloc(w.n, sizeof(*facts));
    for (size_t i = 0; i < w.n; i++) {
        columns[i] = w.traces[i].columns;
        facts[i] = w.traces[i].facts;
    }
    r = work_write_slices(json_get_str(work->spec, "table"), columns, facts, w.n, answer);
    if (r == -EBADMSG)
        return problem_set(p, r, PROBLEM_UNSUPPORTED, "the columns of a trace are damaged");
    return r < 0 ? problem_set(p, r, PROBLEM_STORAGE, "cannot write the slices: %s", strerror(-r)) : 0;
}

/* ----------------------------------------------------------------------------------------------------- */

static int work_statement(const struct work *work, FILE *answer, struct problem *p)
{
    struct report_statement s = {.sql = json_get_str(work->spec, "sql"),
                                 .limit = json_get_int(work->spec, "limit", REPORT_ROWS_MAX),
                                 .columns_fd = work->columns_fd,
                                 .source_fd = work->source_fd,
                                 .memory_max = work->memory_max};

    if (!s.sql || work->n_traces != 1)
        return problem_set(p, -EINVAL, PROBLEM_INTERNAL,
                           "the specification has no statement, or several traces");
    return statement_answer(&s, answer, p);
}

static const struct {
    const char *kind;
    int (*run)(const struct work *work, FILE *answer, struct problem *p);
} works[] = {
    {"report", work_one_report}, {"reports", work_reports}, {"query", work_statement},
    {"sums", work_sums},         {"slices", work_slices},   {"view", work_view},
    {"flame", work_flame},       {"export", work_export},   {"compare", work_compare},
};

json_t *work_problem_to_json(const struct problem *p)
{
    json_t *result = json_object();

    if (p->kind == PROBLEM_NONE)
        return result;
    json_put_str(result, "problem", problem_code(p->kind));
    json_put_str(result, "detail", p->what ? p->what : "");
    json_put_str(result, "remedy", p->remedy);
    return result;
}

int work_run(const struct work *work, FILE *answer, struct problem *p)
{
    const char *kind = json_get_str(work->spec, "kind");

    for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
        if (!kind || !streq(kind, works[i].kind))
            continue;
        int r = works[i].run(work, answer, p);
        if (r >= 0 && (fflush(answer) != 0 || ferror(answer)))
            return problem_set(p, -EFBIG, PROBLEM_TOO_LARGE, "the answer is too large: ask for fewer rows");
        return r;
    }
    return problem_set(p, -EINVAL, PROBLEM_INTERNAL, "unknown kind of work");
}
