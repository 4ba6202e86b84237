/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/trace.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/traces/lost_hosts.h"
#include "trace/columns/schema.h"
#include "trace/ranks/rank_set.h"

/* Maximum traces in one response (proto/openapi.yaml). */
#define PAGE_MAX 1000

char *trace_rank(const json_t *trace, bool in_short)
{
    return rank_text(trace, in_short);
}

/* Whether a kind of defect counts lost events. After an early end, their number is unknown. */
static bool defect_loses_events(const char *name)
{
    for (int kind = 0; kind < _DEFECT_MAX; kind++)
        if (streq(defect_name((enum defect_kind)kind), name))
            return kind != DEFECT_truncated && kind != DEFECT_corrupt_stream &&
                   defect_loses_data((enum defect_kind)kind);
    return false;
}

char *trace_losses(const json_t *trace)
{
    int64_t n = 0;
    char number[32];
    size_t i;
    json_t *defect;

    json_array_foreach(json_object_get(trace, "defects"), i, defect) {
        const char *kind = json_get_str(defect, "kind");
        int64_t count = json_get_int(defect, "count", 0);
        if (kind && defect_loses_events(kind))
            n += MIN(MAX(count, INT64_C(0)), INT64_MAX - n);
    }
    return n > 0 ? xasprintf("%s event%s lost", text_number(number, n), n == 1 ? "" : "s") : NULL;
}

char *trace_state(const json_t *trace)
{
    const char *state = json_get_str(trace, "state"), *reason = json_get_str(trace, "reason");
    const char *kind = json_get_str(trace, "kind");
    bool is_attributed = json_get_str(trace, "session") || json_get_str(trace, "host_uuid"),
         is_plain = !kind || streq(kind, "trace");
    _cleanup_(freep) char *losses = trace_losses(trace);

    return xasprintf("%s%s%s%s%s%s%s%s", state ? state : "?", losses ? ", " : "", losses ? losses : "",
                     is_plain ? "" : ", ", is_plain ? "" : kind, is_attributed ? "" : ", unclaimed",
                     reason ? ": " : "", reason ? reason : "");
}

enum colour trace_colour(const json_t *trace)
{
    int state = trace_state_from_name(json_get_str(trace, "state"));
    _cleanup_(freep) char *losses = trace_losses(trace);

    return state == TRACE_COMPLETE                                ? losses ? COLOUR_WARN : COLOUR_NONE
           : state == TRACE_DUPLICATE || state == TRACE_TRUNCATED ? COLOUR_WARN
                                                                  : COLOUR_BAD;
}

void trace_note_part(struct client *c, const char *ref, const json_t *session, const json_t *answer)
{
    const char *name = json_get_str(session, "coordinator_name"), *uuid = json_get_str(session, "uuid");
    const char *host = name ? name : "its coordinator";

    if (json_get_str(session, "coordinator") && uuid && !json_object_get(answer, "missing_hosts"))
        client_note(c,
                    "%s is this host's part of a session over several hosts\n"
                    "  On %s, %.*s is the entire session.",
                    ref, host, UUID_PREFIX_LENGTH, uuid);
}

void trace_note_part_of(struct client *c, const char *ref, const json_t *answer)
{
    if (json_object_get(answer, "missing_hosts"))
        return;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", ref);
    _cleanup_json_ session = NULL;

    if (connection_call(c->connection, "GET", path, NULL, NULL, &session, &p) >= 0)
        trace_note_part(c, ref, session, answer);
}

int traces_fetch(struct client *c, const char *path, int64_t limit, json_t **ret)
{
    _cleanup_json_ all = NULL;
    _cleanup_(freep) char *next = NULL;

    for (;;) {
        _cleanup_json_ page = NULL;
        _cleanup_(freep) char *url = xstrdup(path);
        int64_t have = (int64_t)json_array_size(json_object_get(all, "traces"));
        url_add_int(&url, "limit", MIN(limit - have, (int64_t)PAGE_MAX));
        url_add(&url, "before", next);
        if (!next && have > 0)
            url_add_int(&url, "offset", have);
        int status = client_get(c, url, "listing traces", &page);
        if (status != EXIT_DONE)
            return status;
        missing_hosts_note(c, page);
        replace_str(&next, json_get_str(page, "next"));
        size_t n = json_array_size(json_object_get(page, "traces"));
        if (!all) {
            all = json_incref(page);
        } else {
            json_array_extend(json_object_get(all, "traces"), json_object_get(page, "traces"));
            json_object_del(all, "next");
            json_put_str(all, "next", next);
            json_object_del(all, "more");
            json_object_update_missing(all, page);
        }
        have = (int64_t)json_array_size(json_object_get(all, "traces"));
        /* A list that is sorted is continued by its position. */
        bool has_more = next || json_get_bool(page, "more", false);
        if (!has_more || n == 0 || have >= limit)
            break;
    }
    *ret = TAKE_PTR(all);
    return EXIT_DONE;
}

/* -- Names with the most time --------------------------------------------------------------------------- */

#define NAMES_SHOWN 10

/* Names come last: kernels have names of a thousand letters. */
enum { CELL_COUNT, CELL_SUM, CELL_SHARE, CELL_MEAN, CELL_MAX, CELL_NAME, _CELL_MAX };

static bool is_gpu_activity(const json_t *group)
{
    const char *category = json_get_str(group, "category");

    return category && category_is_gpu_work(category, strlen(category));
}

static int compare_name_sums(const void *a, const void *b)
{
    int64_t x = json_get_int(*(json_t *const *)a, "sum_ns", 0),
            y = json_get_int(*(json_t *const *)b, "sum_ns", 0);
    return x > y ? -1 : x < y;
}

/* The groups of an array that count, by falling time. Returns how many. */
static size_t pick_names(const json_t *groups, bool gpu_only, const json_t **ret, int64_t *ret_sum_ns)
{
    size_t i, n = 0;
    json_t *group;

    *ret_sum_ns = 0;
    json_array_foreach(groups, i, group)
        if (!gpu_only || is_gpu_activity(group)) {
            ret[n++] = group;
            *ret_sum_ns += json_get_int(group, "sum_ns", 0);
        }
    if (n > 0)
        qsort(ret, n, sizeof(*ret), compare_name_sums);
    return n;
}

/* all_ns: the sum for shares; 0: no shares, because slices are nested. */
static void add_name_row(struct table *table, const json_t *name, int64_t all_ns)
{
    int64_t count = json_get_int(name, "count", 0), sum_ns = json_get_int(name, "sum_ns", 0);
    double sum = (double)sum_ns;
    char counted[32], ms[32], share[32], mean[32], longest[32];

    snprintf(ms, sizeof(ms), "%.3f", sum / (double)NS_PER_MS);
    snprintf(share, sizeof(share), "%.1f %%", 100.0 * sum / (double)MAX(all_ns, INT64_C(1)));
    snprintf(mean, sizeof(mean), "%.1f", count > 0 ? sum / (double)count / (double)NS_PER_US : 0.0);
    snprintf(longest, sizeof(longest), "%.1f", (double)json_get_int(name, "max_ns", 0) / (double)NS_PER_US);
    table_add(table, (const char *const[_CELL_MAX]){
                         [CELL_COUNT] = text_number(counted, count),
                         [CELL_SUM] = ms,
                         [CELL_SHARE] = all_ns > 0 ? share : NULL,
                         [CELL_MEAN] = mean,
                         [CELL_MAX] = longest,
                         [CELL_NAME] = json_get_str(name, "name"),
                     });
}

void trace_print_names(struct client *c, const json_t *trace)
{
    const json_t *names = json_object_get(trace, "names"), *categories = json_object_get(trace, "categories");
    size_t cap = MAX(json_array_size(names), json_array_size(categories)) + 1;
    _cleanup_(freep) const json_t **items = xcalloc(cap, sizeof(*items));
    int64_t names_ns, all_ns;
    size_t n_gpu = pick_names(names, true, items, &names_ns);
    bool gpu_only = n_gpu > 0;

    pick_names(categories, true, items, &all_ns);
    size_t n = pick_names(names, gpu_only, items, &names_ns);
    if (n == 0)
        return;
    const struct table_column columns[_CELL_MAX] = {
        {"COUNT", COLUMN_RIGHT},
        {"SUM ms", COLUMN_RIGHT, IMPORTANCE_HIGH},
        {"SHARE", COLUMN_RIGHT},
        {"MEAN us", COLUMN_RIGHT, IMPORTANCE_LOW},
        {"MAX us", COLUMN_RIGHT, IMPORTANCE_EXTRA},
        {gpu_only ? "KERNEL" : "NAME", COLUMN_SHORTEN, IMPORTANCE_KEY, .least = 24, .fit = kernel_name_fit},
    };
    _cleanup_(table_freep) struct table *table = table_new(columns, _CELL_MAX, true);
    for (size_t i = 0; i < MIN(n, (size_t)NAMES_SHOWN); i++)
        add_name_row(table, items[i], gpu_only ? MAX(all_ns, names_ns) : 0);
    fputc('\n', c->out.file);
    table_print(table, &c->out);
    if (n > NAMES_SHOWN && gpu_only)
        fprintf(c->out.file, "%s... profctl query %s %s has them all%s\n", screen_colour(&c->out, COLOUR_DIM),
                json_get_str(trace, "trace"),
                gpu_only ? "--named kernels" : "'SELECT * FROM name_stat ORDER BY sum_dur DESC'",
                screen_plain(&c->out));
}
