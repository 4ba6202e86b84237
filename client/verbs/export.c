/* SPDX-License-Identifier: Apache-2.0 */
/* export writes a trace for another program; merge writes several traces as one. */
#include "trace/export/export.h"
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include "client/traces/date_layout.h"
#include "client/traces/exporting.h"
#include "client/traces/instances.h"
#include "client/traces/ranks.h"
#include "client/verbs/verbs.h"
#include "trace/ranks/sum_tables.h"
#include "trace/reports/critical_path.h"
#include <errno.h>
#include <sys/stat.h>

/* -- export ------------------------------------------------------------------------------------------- */

struct export_verb_options {
    const char *format, *output, *table;
    bool critical_path;
    struct exporting exporting;
};

/* Table of Parquet that is written without --table. */
#define EXPORT_TABLE_DEFAULT "slice"

#define AT(member)           offsetof(struct export_verb_options, member)

/* clang-format off */
static const struct option_def export_verb_options[] = {
    OPTION_GROUP("Output"),
    {"format", 0, "FORMAT", OPTION_TEXT, AT(format), "Format: chrome, perfetto, speedscope, collapsed, pprof, csv, parquet; list prints them (default: chrome)"},
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "File to write, - for standard output; .gz compresses; with parquet also a directory (default on a terminal: named after the trace)"},
    {"table", 0, "TABLE", OPTION_TEXT, AT(table), "Table to write (parquet): slice, or figures of each trace: kernel, name (default: slice)"},
    {"critical-path", 0, NULL, OPTION_FLAG, AT(critical_path), "Mark the critical path as a separate process (chrome)"},
    OPTION_GROUP("Selection"),
    EXPORTING_OPTIONS(struct export_verb_options, exporting),
};
/* clang-format on */

static int export_list_formats(struct client *c)
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

static int export_unknown_format(struct client *c, const char *name)
{
    _cleanup_(freep) const char **names = xcalloc(export_formats_count, sizeof(*names));

    for (size_t i = 0; i < export_formats_count; i++)
        names[i] = export_formats[i].name;
    _cleanup_(freep) char *remedy =
        did_you_mean(name, names, export_formats_count, "profctl export --format list shows all formats.");
    return client_refuse(c, remedy, "unknown format '%s'", name);
}

/* "trace.json.gz" as "trace.speedscope.json" */
static char *export_default_output(const char *trace, const struct export_format *format)
{
    size_t n = strcspn(trace, ".");
    const char *end = strstr(trace, ".json");

    if (end)
        n = (size_t)(end - trace);
    return xasprintf("%.*s%s", (int)n, trace, format->suffix);
}

/* The critical path of the exported part, as additional slices. Names are borrowed from the columns. */
static int export_mark_path(struct client *c, const char *name, const struct columns *columns,
                            const struct export_options *selected, struct export_mark **ret, size_t *ret_n)
{
    _cleanup_(critical_path_done) struct critical_path path = {0};
    struct rank rank = {.columns = columns, .label = name};
    struct analysis a = {.ranks = &rank, .n = 1, .view = VIEW_ALL};

    a.view.from = selected->from;
    a.view.to = selected->to;
    int r = critical_path_find(&a, 0, &path);
    analysis_done(&a);
    if (r < 0)
        return client_error(c, r == -ENODATA ? PROBLEM_NOT_FOUND : PROBLEM_INTERNAL, NULL,
                            "%s: no critical path: %s", name,
                            r == -ENODATA ? "the selection contains no host calls" : strerror(-r));
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

static int export_trace_file(struct client *c, const struct export_verb_options *o,
                             const struct export_format *format, struct trace_file *file)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    _cleanup_(columns_closep) struct columns *columns = NULL;
    _cleanup_(freep) char *named = export_default_output(file->name, format),
                          *path = output_path(o->output, named);
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
        status = export_mark_path(c, file->name, columns, &selected, &marks, &trace.n_marks);
    trace.marks = marks;
    trace.marks_name = "critical path";
    if (status != EXIT_DONE)
        return status;
    if (!o->output && access(path, F_OK) == 0)
        return client_error(c, PROBLEM_CONFLICT, "Name it with --output to replace it.", "%s exists", path);
    if (output_open(path, &out, &p) < 0)
        return client_fail(c, &p);
    int r = export_trace(format, &trace, &selected, out.file);
    if (r < 0)
        return exporting_failed(c, file->name, r);
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    if (out.path)
        exporting_note(c, out.path, "slices", slices, "");
    return EXIT_DONE;
}

/* -- Several traces in one file --------------------------------------------------------------------------- */

/* A trace (t12, a file), those of a directory, or with a word for it, those of a session. */
static bool word_is_session(const char *word)
{
    int64_t id;

    return access(word, F_OK) < 0 && parse_ref(word, 't', &id) == 's';
}

static int export_add_word(struct client *c, char *word, struct named_ranks *ranks)
{
    char ref[REF_TEXT_MAX];
    int64_t id;
    bool is_path = access(word, F_OK) == 0;
    char kind = is_path ? 0 : parse_ref(word, 't', &id);
    size_t n = ranks->n;

    if (kind == 's')
        return ranks_add_session(c, word, ranks);
    int status = ranks_add_word(c, word, ranks);
    if (status != EXIT_DONE || kind != 't' || ranks->n == n)
        return status;
    if (client_parse_ref(c, word, 't', "t", ref) < 0)
        return EXIT_USAGE;
    _cleanup_(freep) char *path = ref_path(ref);
    return client_get(c, path, "reading the trace", &ranks->items[n].trace);
}

/* From what profd knows about the trace; a fact without a value there is not known. */
static struct export_identity export_identify(const struct named_rank *rank)
{
    const struct sql_origin *origin = &rank->sql_origin;
    int64_t number = json_get_int(json_object_get(rank->trace, "ranks"), "rank", COLUMN_NULL);

    return (struct export_identity){
        .catalog = json_get_str(rank->trace, "catalog"),
        .session = json_get_str(rank->trace, "session"),
        .trace = rank->file.name,
        .host = json_get_str(rank->trace, "host"),
        .worker = origin->worker,
        .instance = origin->instance ? origin->instance : json_get_str(rank->trace, "instance"),
        .rank = origin->rank != COLUMN_NULL ? origin->rank : number,
        .trace_id = rank->sql_id,
    };
}

/* Refuses to write a file without any of their slices. */
static int export_check_ranks(struct client *c, const struct named_ranks *ranks,
                              const struct export_trace *traces, const struct export_options *selected,
                              int64_t *ret_slices)
{
    *ret_slices = 0;
    for (size_t i = 0; i < ranks->n; i++) {
        int64_t n = export_count(&traces[i], selected);
        if (n < 0)
            return exporting_failed(c, ranks->items[i].file.name, (int)n);
        *ret_slices += n;
    }
    int64_t none;
    return *ret_slices > 0 ? EXIT_DONE
                           : exporting_check(c, ranks->items[0].file.name, &traces[0], selected, &none);
}

/* "s7.parquet", "s7.kernel.parquet" */
static char *export_table_output(const char *name, const struct export_format *format, const char *table)
{
    _cleanup_(freep) char *slices = export_default_output(name, format);

    if (streq(table, EXPORT_TABLE_DEFAULT))
        return TAKE_PTR(slices);
    return xasprintf("%.*s.%s%s", (int)(strlen(slices) - strlen(format->suffix)), slices, table,
                     format->suffix);
}

/* A file as it is named, or of a directory, by date. */
static char *export_ranks_path(const char *option, const struct export_format *format, const char *table,
                               const struct named_ranks *ranks, const char *name)
{
    _cleanup_(freep) char *named = export_table_output(name, format, table);
    struct stat st;

    if (option && (ends_with(option, "/") || (stat(option, &st) == 0 && S_ISDIR(st.st_mode))))
        return date_layout_path(option, table, ranks, name);
    return output_path(option, named);
}

/* Of a file with figures there is no part. */
static int export_check_table(struct client *c, const struct export_verb_options *o)
{
    const struct exporting *e = &o->exporting;

    if (!o->table || streq(o->table, EXPORT_TABLE_DEFAULT))
        return EXIT_DONE;
    if (!sum_table_find(o->table))
        return client_refuse(c, "Tables are slice, kernel and name.", "unknown table '%s'", o->table);
    if (e->from != OPTION_ABSENT || e->to != OPTION_ABSENT || e->only)
        return client_refuse(c, "Leave out --from, --to and --only, or export the table slice.",
                             "the table %s has figures of complete traces", o->table);
    return EXIT_DONE;
}

static int export_write_ranks(struct client *c, const struct export_verb_options *o,
                              const struct export_format *format, struct named_ranks *ranks, const char *name)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    _cleanup_(freep) struct export_trace *traces = xcalloc(ranks->n, sizeof(*traces));
    _cleanup_(freep) struct export_identity *identities = xcalloc(ranks->n, sizeof(*identities));
    const char *table = o->table ? o->table : EXPORT_TABLE_DEFAULT;
    const struct sum_table *sums = sum_table_find(table);
    _cleanup_(freep) char *path = export_ranks_path(o->output, format, table, ranks, name);
    struct export_options selected;
    int64_t rows;

    if (exporting_selection(&o->exporting, &selected, &p) < 0)
        return client_fail(c, &p);
    ranks_source(ranks);
    for (size_t i = 0; i < ranks->n; i++) {
        identities[i] = export_identify(&ranks->items[i]);
        traces[i] = (struct export_trace){
            .columns = ranks->items[i].columns, .source_fd = -1, .identity = &identities[i]};
    }
    int status = export_check_ranks(c, ranks, traces, &selected, &rows);
    if (status != EXIT_DONE)
        return status;
    if (!o->output && access(path, F_OK) == 0)
        return client_error(c, PROBLEM_CONFLICT, "Name it with --output to replace it.", "%s exists", path);
    int r = o->output && !streq(path, o->output) ? date_layout_make_parents(path) : 0;
    if (r < 0)
        return exporting_failed(c, path, r);
    if (output_open(path, &out, &p) < 0)
        return client_fail(c, &p);
    r = sums ? sum_table_write(sums, traces, ranks->n, out.file, &rows)
             : export_traces(format, traces, ranks->n, &selected, out.file);
    if (r < 0)
        return exporting_failed(c, out.path ? out.path : name, r);
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    _cleanup_(freep) char *count = text_count((int64_t)ranks->n, "trace");
    _cleanup_(freep) char *more = xasprintf("; %s", count);
    if (out.path)
        exporting_note(c, out.path, sums ? "rows" : "slices", rows, ranks->n > 1 ? more : "");
    return EXIT_DONE;
}

/* The name of the file that is written for one word: without the path, "s7" or "rank0.json". */
static const char *export_name_of(const char *word)
{
    const char *slash = strrchr(word, '/');

    return !slash ? word : slash[1] ? slash + 1 : "traces";
}

static int export_ranks(struct client *c, const struct export_verb_options *o,
                        const struct export_format *format, int n_words, char **words)
{
    _cleanup_(ranks_done) struct named_ranks ranks = {0};
    int status = EXIT_DONE;

    if (n_words > RANKS_MAX)
        return ranks_too_many(c);
    for (int i = 0; i < n_words && status == EXIT_DONE; i++)
        status = export_add_word(c, words[i], &ranks);
    if (status == EXIT_DONE && ranks.n + ranks.n_left_out == 0)
        return client_error(c, PROBLEM_NOT_FOUND, "profctl list-traces shows the traces.",
                            "%s has no traces that can be exported", words[0]);
    if (status == EXIT_DONE)
        status = ranks_settle(c, o->exporting.memory_limit, &ranks);
    client_release_profd(c);
    if (status == EXIT_DONE && ranks.n > 1)
        status = ranks_set_instances(c, &ranks);
    if (status == EXIT_DONE)
        status = export_write_ranks(c, o, format, &ranks, n_words == 1 ? export_name_of(words[0]) : "traces");
    return ranks_status(&ranks, status);
}

/* -- The verb --------------------------------------------------------------------------------------------- */

static int export_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct export_verb_options *o = values;
    const char *name = o->format ? o->format : "chrome";
    const struct export_format *format = export_format_find(name);
    struct trace_file file;

    if (streq(name, "list"))
        return export_list_formats(c);
    if (!format)
        return export_unknown_format(c, name);
    if (o->table && !format->write_all)
        return client_refuse(c, "Add --format parquet.", "--table selects a table of Parquet, not of %s",
                             name);
    if (export_check_table(c, o) != EXIT_DONE)
        return EXIT_USAGE;
    if (o->critical_path && !streq(name, "chrome"))
        return client_refuse(c, NULL, "--critical-path is marked in Chrome's format alone, not in %s", name);
    if (n_words == 0)
        return client_refuse(c, "Name its id or its file: profctl export t12", "export needs a trace");
    if (n_words > 1 && !format->write_all)
        return client_refuse(c, "profctl merge writes several traces as one; --format parquet holds several.",
                             "the format %s holds one trace", name);
    if (!format->write_all && word_is_session(words[0]))
        return client_refuse(
            c, "profctl merge --session writes its traces as one; --format parquet holds several.",
            "the format %s holds one trace, and %s is a session", name, words[0]);
    client_hold_signals();
    if (format->write_all)
        return export_ranks(c, o, format, n_words, words);
    int status = trace_file_open(c, words[0], o->exporting.memory_limit, &file);
    if (status == EXIT_DONE)
        status = export_trace_file(c, o, format, &file);
    trace_file_done(&file);
    return status;
}

const struct verb verb_export = {
    .name = "export",
    .summary = "Write a trace, or a part of it, for another program",
    .details =
        "Chrome's format keeps the original text of events if the original file can be read. Parquet also "
        "takes several traces, all ranks of a session (s7) or those of a directory, and has more tables: "
        "kernel has the figures of each GPU event's name in each trace, name those of every event's.",
    .words = "TRACE...",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(export_verb_options, struct export_verb_options),
    .run = export_run,
};

/* -- merge -------------------------------------------------------------------------------------------- */

struct merge_options {
    const char *session, *output, *align;
    struct exporting exporting;
};

#undef AT
#define AT(member) offsetof(struct merge_options, member)

/* clang-format off */
static const struct option_def merge_options[] = {
    OPTION_GROUP("Output"),
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "File to write, - for standard output; .gz compresses (default on a terminal: merged.json.gz)"},
    {"align", 0, "METHOD", OPTION_TEXT, AT(align), "Clock alignment: auto, wall, collectives or start (default: auto)"},
    OPTION_GROUP("Selection"),
    {"session", 's', "SESSION", OPTION_TEXT, AT(session), "Merge all ranks of this session"},
    EXPORTING_OPTIONS(struct merge_options, exporting),
};
/* clang-format on */

static int merge_write(struct client *c, const struct merge_options *o, struct named_ranks *ranks)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    _cleanup_(freep) char *named = xasprintf("%s.json.gz", o->session ? o->session : "merged"),
                          *path = output_path(o->output, named);
    struct export_options selected;
    int64_t slices;

    if (exporting_selection(&o->exporting, &selected, &p) < 0 || output_open(path, &out, &p) < 0)
        return client_fail(c, &p);
    int r = ranks_export(ranks, &selected, out.file, &slices);
    if (r < 0)
        return exporting_failed(c, out.path ? out.path : "the traces", r);
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    _cleanup_(freep) char *count = text_count((int64_t)ranks->n, "trace");
    _cleanup_(freep) char *more = xasprintf("; %s on one clock", count);
    if (out.path)
        exporting_note(c, out.path, "slices", slices, more);
    return EXIT_DONE;
}

static int merge_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct merge_options *o = values;
    _cleanup_(ranks_done) struct named_ranks ranks = {0};
    int status = EXIT_DONE;

    if (n_words == 0 && !o->session)
        return client_refuse(c, "profctl merge --session s7 -o all-ranks.json.gz, or name traces: t12 t13",
                             "merge needs traces");
    if (n_words > RANKS_MAX)
        return ranks_too_many(c);
    client_hold_signals();
    if (o->session)
        status = ranks_add_session(c, o->session, &ranks);
    for (int i = 0; i < n_words && status == EXIT_DONE; i++)
        status = word_is_session(words[i]) ? ranks_add_session(c, words[i], &ranks)
                                           : ranks_add_word(c, words[i], &ranks);
    if (status == EXIT_DONE && ranks.n + ranks.n_left_out == 0)
        return client_error(c, PROBLEM_NOT_FOUND, "profctl list-traces shows the traces.",
                            "%s has no traces that can be merged", o->session ? o->session : words[0]);
    if (status == EXIT_DONE)
        status = ranks_settle(c, o->exporting.memory_limit, &ranks);
    if (status != EXIT_DONE)
        return status;
    client_release_profd(c);
    status = ranks_align(c, o->align ? o->align : "auto", &ranks);
    return status == EXIT_DONE ? ranks_status(&ranks, merge_write(c, o, &ranks)) : status;
}

const struct verb verb_merge = {
    .name = "merge",
    .summary = "Write several traces as one, ranks as processes",
    .details = "For ui.perfetto.dev and chrome://tracing. Clocks are aligned by wall-clock time; a host "
               "whose collectives are off by more than a millisecond is shifted, with a note.",
    .words = "[TRACE|SESSION...]",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(merge_options, struct merge_options),
    .run = merge_run,
};
