/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/traces/trace.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include <errno.h>

#define LIMIT_DEFAULT 50

struct options {
    const char *session, *worker;
    int64_t since, until, limit;
    bool unclaimed, all;
};

#define AT(member) offsetof(struct options, member)

/* clang-format off */
static const struct option_def options[] = {
    {"session", 's', "ID", OPTION_TEXT, AT(session), "only those of a session"},
    {"worker", 0, "URL", OPTION_TEXT, AT(worker), "only those of a worker"},
    {"since", 0, "TIME", OPTION_AGO, AT(since), "recorded after: 1h (ago), 14:02, \"2026-11-20 14:02:11\""},
    {"until", 0, "TIME", OPTION_AGO, AT(until), "recorded before"},
    {"unclaimed", 0, NULL, OPTION_FLAG, AT(unclaimed), "only those that no session asked for"},
    {"limit", 'n', "N", OPTION_COUNT, AT(limit), "Maximum number of traces, newest first (default: 50)"},
    {"all", 'a', NULL, OPTION_FLAG, AT(all), "all of them"},
};
/* clang-format on */

enum {
    CELL_TRACE,
    CELL_SESSION,
    CELL_RECORDED,
    CELL_WORKER,
    CELL_RANK,
    CELL_SIZE,
    CELL_SPAN,
    CELL_STATE,
    _CELL_MAX
};

static const struct table_column columns[_CELL_MAX] = {
    [CELL_TRACE] = {"TRACE", 0, IMPORTANCE_KEY},
    [CELL_SESSION] = {"SESSION", 0, IMPORTANCE_HIGH},
    [CELL_RECORDED] = {"RECORDED", 0, IMPORTANCE_NORMAL, "recorded_at"},
    [CELL_WORKER] = {"WORKER", COLUMN_URL | COLUMN_SHORTEN, IMPORTANCE_HIGH, .least = 16,
                     .fit = text_shorten_middle},
    [CELL_RANK] = {"RANK", 0, IMPORTANCE_HIGH},
    [CELL_SIZE] = {"SIZE", COLUMN_RIGHT},
    [CELL_SPAN] = {"SPAN", COLUMN_RIGHT, IMPORTANCE_LOW, "span_ns"},
    [CELL_STATE] = {"STATE", COLUMN_SHORTEN, IMPORTANCE_HIGH, .least = 12},
};

/* Who recorded it; of what no worker recorded, the file. */
static const char *worker_or_name(const json_t *trace)
{
    const char *worker = json_get_str(trace, "worker");

    if (worker)
        return worker;
    return json_array_size(json_object_get(trace, "candidates")) > 0 ? "ambiguous"
                                                                     : json_get_str(trace, "name");
}

static void add_trace(struct table *table, const json_t *trace)
{
    char recorded[UNIT_TEXT_MAX], size[UNIT_TEXT_MAX], span[UNIT_TEXT_MAX];
    int64_t at = json_get_int(trace, "recorded_at", 0), span_ns = json_get_int(trace, "span_ns", -1);
    _cleanup_(freep) char *rank = trace_rank(trace, true), *state = trace_state(trace);

    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_TRACE] = json_get_str(trace, "trace"),
                         [CELL_SESSION] = json_get_str(trace, "session"),
                         [CELL_RECORDED] = at ? format_time(recorded, at) : NULL,
                         [CELL_WORKER] = worker_or_name(trace),
                         [CELL_RANK] = rank,
                         [CELL_SIZE] = format_size(size, json_get_int(trace, "size", 0)),
                         [CELL_SPAN] = span_ns < 0 ? NULL : format_duration(span, span_ns),
                         [CELL_STATE] = state,
                     });
    if (at)
        table_set_int(table, CELL_RECORDED, at);
    table_set_int(table, CELL_SIZE, json_get_int(trace, "size", 0));
    if (span_ns >= 0)
        table_set_int(table, CELL_SPAN, span_ns);
    table_colour(table, CELL_STATE, trace_colour(trace));
}

/* Texts of two traces; one that lacks it comes last. */
static int compare_member(const json_t *x, const json_t *y, const char *key)
{
    const char *a = json_get_str(x, key), *b = json_get_str(y, key);
    return a && b ? strverscmp(a, b) : !a - !b;
}

/* Newest first; what was recorded in the same second stands together by worker and rank, which names have. */
static int compare_rows(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int64_t x_at = json_get_int(x, "recorded_at", 0) / NS_PER_S;
    int64_t y_at = json_get_int(y, "recorded_at", 0) / NS_PER_S;

    if (x_at != y_at)
        return x_at < y_at ? 1 : -1;
    int r = compare_member(x, y, "worker");
    if (r == 0)
        r = compare_member(x, y, "name");
    return r != 0 ? r : compare_member(y, x, "trace");
}

static void add_traces(struct table *table, const json_t *traces)
{
    size_t n = json_array_size(traces);
    _cleanup_(freep) json_t **rows = xcalloc(MAX(n, (size_t)1), sizeof(json_t *));

    for (size_t i = 0; i < n; i++)
        rows[i] = json_array_get(traces, i);
    qsort(rows, n, sizeof(json_t *), compare_rows);
    for (size_t i = 0; i < n; i++)
        add_trace(table, rows[i]);
}

/* "48 traces, 3.1 GiB of 200 GiB" are what the store holds; where more were found than shown, that comes
 * first. */
static void print_footer(struct client *c, const json_t *answer)
{
    const json_t *usage = json_object_get(answer, "usage");
    char bytes[UNIT_TEXT_MAX], budget[UNIT_TEXT_MAX];
    int64_t max_use = json_get_int(usage, "max_use", 0);
    _cleanup_(freep) char *traces = text_count(json_get_int(usage, "traces", 0), "trace");
    size_t n = json_array_size(json_object_get(answer, "traces"));

    fputs(screen_colour(&c->out, COLOUR_DIM), c->out.file);
    if (json_get_str(answer, "next"))
        fprintf(c->out.file, "the newest %zu are shown, --all shows more; in all ", n);
    fprintf(c->out.file, "%s, %s", traces, format_size(bytes, json_get_int(usage, "bytes", 0)));
    if (max_use > 0 && max_use < INT64_MAX)
        fprintf(c->out.file, " of %s", format_size(budget, max_use));
    fprintf(c->out.file, "%s\n", screen_plain(&c->out));
}

static int make_path(struct client *c, const struct options *o, char **path)
{
    char session[REF_TEXT_MAX];

    if (o->session && client_parse_ref(c, o->session, 's', "s", session) < 0)
        return -EINVAL;
    url_add(path, "session", o->session ? session : NULL);
    url_add(path, "worker", o->worker);
    if (o->since != OPTION_ABSENT)
        url_add_int(path, "since", o->since);
    if (o->until != OPTION_ABSENT)
        url_add_int(path, "until", o->until);
    url_add(path, "unclaimed", o->unclaimed ? "true" : NULL);
    return 0;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(freep) char *path = xstrdup("/v1/traces");
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ answer = NULL;
    int64_t limit = o->all ? INT64_MAX : o->limit != OPTION_ABSENT ? o->limit : LIMIT_DEFAULT;

    if (make_path(c, o, &path) < 0)
        return EXIT_USAGE;
    int status = listing_table(c, columns, _CELL_MAX, &table);
    if (status == EXIT_DONE)
        status = traces_fetch(c, path, limit, &answer);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, answer);
    add_traces(table, json_object_get(answer, "traces"));
    listing_print(c, table);
    if (listing_has_legend(c))
        print_footer(c, answer);
    return EXIT_DONE;
}

const struct verb verb_list_traces = {
    .name = "list-traces",
    .words = "",
    .summary = "List traces, newest first",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = run,
};
