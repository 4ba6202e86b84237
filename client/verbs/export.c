/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/export.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include "client/traces/exporting.h"
#include "client/verbs/verbs.h"
#include "trace/reports/critical_path.h"
#include <errno.h>

struct options {
    const char *format, *output;
    bool critical_path;
    struct exporting exporting;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def options[] = {
    {"format", 0, "FORMAT", OPTION_TEXT, AT(format),
     "chrome, perfetto, ...; default chrome; list: show them"},
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "default: NAME.SUFFIX here; - is standard output"},
    {"critical-path", 0, NULL, OPTION_FLAG, AT(critical_path),
     "mark the critical path of what is exported, as a process of its own (chrome)"},
    EXPORTING_OPTIONS(struct options, exporting),
};

static int list_formats(struct client *c)
{
    static const struct table_column columns[] = {
        {"FORMAT", 0, IMPORTANCE_KEY}, {"SUFFIX", 0}, {"FOR", COLUMN_SHORTEN, .least = 24}};
    _cleanup_(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns), !c->no_legend);

    for (size_t i = 0; i < export_formats_count; i++)
        table_add(table, (const char *const[]){export_formats[i].name, export_formats[i].suffix,
                                               export_formats[i].what});
    table_print(table, &c->out);
    return EXIT_DONE;
}

static int unknown_format(struct client *c, const char *name)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) const char **names = xcalloc(export_formats_count, sizeof(*names));

    for (size_t i = 0; i < export_formats_count; i++)
        names[i] = export_formats[i].name;
    const char *near = nearest_name(name, names, export_formats_count);
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "there is no format %s", name);
    problem_remedy(&p,
                   near ? "Is it %s? profctl export --format list shows them."
                        : "profctl export --format list shows them.",
                   near);
    return client_fail(c, &p);
}

/* "trace.json.gz" as "trace.speedscope.json" */
static char *default_output(const char *trace, const struct export_format *format)
{
    size_t n = strcspn(trace, ".");
    const char *end = strstr(trace, ".json");

    if (end)
        n = (size_t)(end - trace);
    return xasprintf("%.*s%s", (int)n, trace, format->suffix);
}

/* The path through what is exported, as slices beside it. The names are those of the columns. */
static int mark_path(struct client *c, const char *name, const struct columns *columns,
                     const struct export_options *selected, struct export_mark **ret, size_t *ret_n)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(critical_path_done) struct critical_path path = {0};
    struct rank rank = {.columns = columns, .label = name};
    struct analysis a = {.ranks = &rank, .n = 1, .view = VIEW_ALL};

    a.view.from = selected->from;
    a.view.to = selected->to;
    int r = critical_path_find(&a, 0, &path);
    analysis_done(&a);
    if (r < 0) {
        problem_set(&p, r, r == -ENODATA ? PROBLEM_NOT_FOUND : PROBLEM_INTERNAL, "%s: no critical path: %s",
                    name,
                    r == -ENODATA ? "there are no calls of the host in what was selected" : strerror(-r));
        return client_fail(c, &p);
    }
    *ret = xcalloc(path.n + 1, sizeof(**ret));
    *ret_n = path.n;
    for (size_t i = 0; i < path.n; i++)
        (*ret)[i] = (struct export_mark){
            .ts = path.parts[i].from,
            .dur = path.parts[i].dur,
            .name = columns_text(columns, columns_get(columns, COL_slice_name, path.parts[i].slice)),
            .track = path_bound_name(path.parts[i].bound)};
    return EXIT_DONE;
}

static int write_trace(struct client *c, const struct options *o, const struct export_format *format,
                       struct trace_file *file)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    _cleanup_(columns_closep) struct columns *columns = NULL;
    _cleanup_(freep) char *path = o->output                ? xstrdup(o->output)
                                  : !isatty(STDOUT_FILENO) ? xstrdup("-")
                                                           : default_output(file->name, format);
    struct export_options selected;
    int64_t slices;

    int status = exporting_columns(c, file, &columns);
    if (status != EXIT_DONE)
        return status;
    struct export_trace trace = {.columns = columns, .source_fd = trace_file_original(file)};
    client_release_profd(c);
    if (exporting_selection(&o->exporting, &selected, &p) < 0)
        return client_fail(c, &p);
    status = exporting_check(c, file->name, &trace, &selected, &slices);
    _cleanup_(freep) struct export_mark *marks = NULL;
    if (status == EXIT_DONE && o->critical_path)
        status = mark_path(c, file->name, columns, &selected, &marks, &trace.n_marks);
    trace.marks = marks;
    trace.marks_name = "critical path";
    if (status != EXIT_DONE)
        return status;
    if (!o->output && access(path, F_OK) == 0) {
        problem_set(&p, -EEXIST, PROBLEM_CONFLICT, "%s exists", path);
        problem_remedy(&p, "--output %s replaces it.", path);
    } else {
        output_open(path, &out, &p);
    }
    if (p.what)
        return client_fail(c, &p);
    int r = export_trace(format, &trace, &selected, out.file);
    if (r < 0)
        return exporting_failed(c, file->name, r);
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    if (out.path)
        exporting_say(c, out.path, slices, "");
    return EXIT_DONE;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    const char *name = o->format ? o->format : "chrome";
    const struct export_format *format = export_format_find(name);
    struct trace_file file;

    if (streq(name, "list"))
        return list_formats(c);
    if (!format)
        return unknown_format(c, name);
    if (o->critical_path && !streq(name, "chrome")) {
        _cleanup_(problem_done) struct problem p = {0};
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "--critical-path is marked in Chrome's format alone, not in %s", name);
        return client_fail(c, &p);
    }
    if (n_words == 0) {
        _cleanup_(problem_done) struct problem p = {0};
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "export needs a trace");
        problem_remedy(&p, "profctl export t12 --format %s, or a path instead of t12", name);
        return client_fail(c, &p);
    }
    client_hold_signals();
    int status = trace_file_open(c, words[0], o->exporting.memory_limit, &file);
    if (status == EXIT_DONE)
        status = write_trace(c, o, format, &file);
    trace_file_done(&file);
    return status;
}

const struct verb verb_export = {
    .name = "export",
    .words = "TRACE",
    .summary = "Write a trace, or a part of it, for another program",
    .details = "TRACE is an id (t12) or a path. Chrome's format keeps each event's own text.\n"
               "Times are counted from the trace's first slice: --from 1.5s --to 1.6s.",
    .default_kind = 't',
    .max_words = 1,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
