/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/check.h"

#include "base/alloc.h"
#include "proto/ingest.h"
#include "trace/columns/schema.h"
#include <errno.h>

/* Of all names together, and of all categories: escaped they still fit into the answer. */
#define NAMES_BYTES_MAX      (96 << 10)
#define CATEGORIES_BYTES_MAX (32 << 10)
/* Of a text that is one fact. */
#define FACT_BYTES_MAX 512

/* -- The facts -- */

static const struct {
    enum meta_key meta;
    const char *key;
} known_facts[] = {
    {META_rank, "rank"},
    {META_world_size, "world_size"},
    {META_backend, "backend"},
    {META_pid, "pid"},
    {META_devices, "devices"},
    {META_device_name, "device_name"},
    {META_trace_name, "trace_name"},
    {META_engine_version, "engine_version"},
    {META_request_trace_id, "request_trace_id"},
    {META_base_time_ns, "base_time_ns"},
    {META_events, "events"},
    {META_text_bytes, "uncompressed"},
};

static void facts_add_text(json_t *object, const char *key, struct text text, size_t max)
{
    _cleanup_(freep) char *copy = xstrndup(text.p, MIN(text.size, max));
    json_object_set_new(object, key, json_text(copy));
}

static void facts_add_known(const struct columns *c, json_t *facts)
{
    for (size_t i = 0; i < ARRAY_SIZE(known_facts); i++) {
        int64_t value = columns_meta(c, known_facts[i].meta);
        if (value == COLUMN_NULL)
            continue;
        if (meta_is_text(known_facts[i].meta))
            facts_add_text(facts, known_facts[i].key, columns_meta_text(c, known_facts[i].meta),
                           FACT_BYTES_MAX);
        else if (value >= 0)
            json_put_int(facts, known_facts[i].key, value);
    }
}

static void facts_add_defects(const struct columns *c, json_t *facts)
{
    json_t *list = json_array();

    for (uint64_t row = 0; row < columns_rows(c, TABLE_defect) && row < _DEFECT_MAX; row++) {
        int64_t kind = columns_get(c, COL_defect_kind, row);
        if (kind < 0 || kind >= _DEFECT_MAX)
            continue;
        json_t *defect = json_object();
        json_put_str(defect, "kind", defect_name((enum defect_kind)kind));
        json_put_int(defect, "count", columns_get(c, COL_defect_count, row));
        json_put_int(defect, "offset", columns_get(c, COL_defect_offset, row));
        json_put_str(defect, "text", defect_text((enum defect_kind)kind));
        json_array_append_new(list, defect);
    }
    json_object_set_new(facts, "defects", list);
}

/* -- Names and categories -- */

/* A group of slices. */
struct slice_group {
    uint64_t row; /* of the table of names */
    int64_t category, count, sum;
};

/* The groups with most time, the longest first. */
struct slice_ranking {
    struct slice_group best[INGEST_NAMES_MAX];
    size_t n;
};
_Static_assert(INGEST_CATEGORIES_MAX <= INGEST_NAMES_MAX, "a ranking holds them");

static void ranking_consider(struct slice_ranking *r, size_t max, const struct slice_group *g)
{
    size_t at;

    if (g->count == 0 || (r->n == max && g->sum <= r->best[max - 1].sum))
        return;
    r->n += r->n < max;
    for (at = r->n - 1; at > 0 && r->best[at - 1].sum < g->sum; at--)
        r->best[at] = r->best[at - 1];
    r->best[at] = *g;
}

struct slice_overview {
    const struct columns *columns;
    struct slice_ranking gpu, rest, categories;
};

static bool facts_is_gpu_work(const struct columns *c, int64_t category)
{
    struct text text = columns_text(c, category);

    return category_is_gpu_work(text.p, text.size);
}

static void facts_add_saturated(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = INT64_MAX;
}

/* The table of names is ordered by category. */
static void overview_read(struct slice_overview *o)
{
    const struct columns *c = o->columns;
    int64_t category[BLOCK_ROWS], count[BLOCK_ROWS], sum[BLOCK_ROWS];
    struct slice_group all = {.category = COLUMN_NULL};
    bool is_gpu = false;
    size_t n;

    for (uint64_t first = 0; (n = columns_block(c, COL_name_category, first, BLOCK_ROWS, category)) > 0;
         first += n) {
        columns_block(c, COL_name_count, first, n, count);
        columns_block(c, COL_name_sum, first, n, sum);
        for (size_t i = 0; i < n; i++) {
            /* Values of a damaged page are null. */
            struct slice_group g = {
                .row = first + i, .category = category[i], .count = MAX(count[i], 0), .sum = MAX(sum[i], 0)};
            if (g.category != all.category) {
                ranking_consider(&o->categories, INGEST_CATEGORIES_MAX, &all);
                all = (struct slice_group){.category = g.category};
                is_gpu = facts_is_gpu_work(c, g.category);
            }
            ranking_consider(is_gpu ? &o->gpu : &o->rest, INGEST_NAMES_MAX, &g);
            facts_add_saturated(&all.count, g.count);
            facts_add_saturated(&all.sum, g.sum);
        }
    }
    ranking_consider(&o->categories, INGEST_CATEGORIES_MAX, &all);
}

/* A group with its category, where that still fits. */
static json_t *slice_group_new(const struct columns *c, const struct slice_group *g, size_t *left)
{
    struct text category = columns_text(c, g->category);

    if (category.size > *left)
        return NULL;
    *left -= category.size;
    json_t *object = json_object();
    if (g->category == COLUMN_NULL)
        json_object_set_new(object, "category", json_null());
    else
        facts_add_text(object, "category", category, category.size);
    json_put_int(object, "count", g->count);
    json_put_int(object, "sum_ns", g->sum);
    return object;
}

static void facts_add_categories(const struct slice_overview *o, json_t *facts)
{
    size_t left = CATEGORIES_BYTES_MAX;
    json_t *list = json_array(), *object;

    for (size_t i = 0; i < o->categories.n; i++)
        if ((object = slice_group_new(o->columns, &o->categories.best[i], &left)))
            json_array_append_new(list, object);
    json_object_set_new(facts, "categories", list);
}

static void facts_add_extreme(json_t *object, const char *key, int64_t value)
{
    if (value != COLUMN_NULL)
        json_put_int(object, key, value);
}

static void facts_add_names(const struct slice_overview *o, const struct slice_ranking *r, json_t *list)
{
    const struct columns *c = o->columns;
    size_t left = NAMES_BYTES_MAX / 2;
    json_t *object;

    for (size_t i = 0; i < r->n; i++) {
        const struct slice_group *g = &r->best[i];
        struct text name = columns_text(c, columns_get(c, COL_name_name, g->row));
        if (name.size > left || !(object = slice_group_new(c, g, &left)))
            continue;
        left -= MIN(name.size, left);
        facts_add_text(object, "name", name, name.size);
        facts_add_extreme(object, "min_ns", columns_get(c, COL_name_min, g->row));
        facts_add_extreme(object, "max_ns", columns_get(c, COL_name_max, g->row));
        json_array_append_new(list, object);
    }
}

int columns_facts_add(const struct columns *c, json_t *facts)
{
    struct slice_overview o = {.columns = c};
    json_t *names = json_array();

    facts_add_known(c, facts);
    facts_add_defects(c, facts);
    overview_read(&o);
    facts_add_categories(&o, facts);
    facts_add_names(&o, &o.gpu, names);
    facts_add_names(&o, &o.rest, names);
    json_object_set_new(facts, "names", names);
    return columns_damage(c) >= 0 ? -EBADMSG : 0;
}
