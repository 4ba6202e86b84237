/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/traces/trace.h"
#include "client/views/frame_label.h"
#include "trace/columns/schema.h"

#define NAMES_SHOWN 10

/* Names come last: kernels have names of a thousand letters. */
enum { CELL_COUNT, CELL_SUM, CELL_SHARE, CELL_MEAN, CELL_MAX, CELL_NAME, _CELL_MAX };

static bool is_gpu_work(const json_t *group)
{
    const char *category = json_get_str(group, "category");

    return category && category_is_gpu_work(category, strlen(category));
}

static int compare_sums(const void *a, const void *b)
{
    int64_t x = json_get_int(*(json_t *const *)a, "sum_ns", 0),
            y = json_get_int(*(json_t *const *)b, "sum_ns", 0);
    return x > y ? -1 : x < y;
}

/* The groups of an array that count, by falling time. Returns how many. */
static size_t pick(const json_t *groups, bool gpu_only, const json_t **ret, int64_t *ret_sum_ns)
{
    size_t i, n = 0;
    json_t *group;

    *ret_sum_ns = 0;
    json_array_foreach(groups, i, group)
        if (!gpu_only || is_gpu_work(group)) {
            ret[n++] = group;
            *ret_sum_ns += json_get_int(group, "sum_ns", 0);
        }
    if (n > 0)
        qsort(ret, n, sizeof(*ret), compare_sums);
    return n;
}

/* all_ns: what the shares are of; 0 where slices lie within each other, so that shares would mean nothing. */
static void add_name(struct table *table, const json_t *name, int64_t all_ns)
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
    size_t room = MAX(json_array_size(names), json_array_size(categories)) + 1;
    _cleanup_(freep) const json_t **items = xcalloc(room, sizeof(*items));
    int64_t names_ns, all_ns;
    size_t n_gpu = pick(names, true, items, &names_ns);
    bool gpu_only = n_gpu > 0;

    pick(categories, true, items, &all_ns);
    size_t n = pick(names, gpu_only, items, &names_ns);
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
        add_name(table, items[i], gpu_only ? MAX(all_ns, names_ns) : 0);
    fputc('\n', c->out.file);
    table_print(table, &c->out);
    if (n > NAMES_SHOWN && gpu_only)
        fprintf(c->out.file, "%s... profctl query %s %s has them all%s\n", screen_colour(&c->out, COLOUR_DIM),
                json_get_str(trace, "trace"),
                gpu_only ? "--named kernels" : "'SELECT * FROM name_stat ORDER BY sum_dur DESC'",
                screen_plain(&c->out));
}
