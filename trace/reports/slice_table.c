/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/slice_table.h"

#include "base/array.h"
#include "trace/columns/schema.h"
#include "trace/reports/parallel.h"
#include <errno.h>
#include <stdatomic.h>

/* -- Kinds -------------------------------------------------------------------------------------------- */

static const char *const host_kind_words[_HOST_KIND_MAX] = {
#define H(identifier, word) [HOST_##identifier] = word,
    HOST_KINDS(H)
#undef H
};

static const struct {
    const char *names[2];
    enum host_kind kind;
} host_kind_categories[] = {
    {{CATEGORY_OP}, HOST_OP},           {{"user_annotation"}, HOST_ANNOTATION},
    {{"python_function"}, HOST_PYTHON}, {{CATEGORY_RUNTIME}, HOST_RUNTIME},
    {{"cuda_driver"}, HOST_RUNTIME},    {{"xpu_runtime", "xpu_driver"}, HOST_RUNTIME},
    {{"mtia_runtime"}, HOST_RUNTIME},   {{"privateuse1_runtime", "privateuse1_driver"}, HOST_RUNTIME},
};

const char *host_kind_name(enum host_kind kind)
{
    return host_kind_words[kind];
}

enum host_kind host_kind_of(struct text category)
{
    for (size_t i = 0; i < ARRAY_SIZE(host_kind_categories); i++)
        for (size_t k = 0; k < ARRAY_SIZE(host_kind_categories[i].names) && host_kind_categories[i].names[k];
             k++)
            if (text_is(category, host_kind_categories[i].names[k]))
                return host_kind_categories[i].kind;
    return HOST_OTHER;
}

/* -- Reading ------------------------------------------------------------------------------------------ */

/* Rows that a thread unpacks in one go: of all columns what fits into the cache of a processor. */
#define PART_ROWS (64 * BLOCK_ROWS)

struct slice_table_reading {
    const struct columns *c;
    struct slice_table *table;
    _Atomic uint8_t *kinds; /* of each text as a category, + 1; 0: not asked yet. Threads find the same. */
};

static uint8_t slice_table_kind(const struct slice_table_reading *r, uint32_t category)
{
    if (category >= columns_texts(r->c))
        return HOST_OTHER;
    uint8_t known = atomic_load_explicit(&r->kinds[category], memory_order_relaxed);
    if (known == 0) {
        known = (uint8_t)(host_kind_of(columns_text(r->c, category)) + 1);
        atomic_store_explicit(&r->kinds[category], known, memory_order_relaxed);
    }
    return known - 1;
}

static void slice_table_find_kinds(const struct slice_table_reading *r, uint64_t first, uint64_t end)
{
    uint32_t codes[BLOCK_ROWS], last = COLUMN_NO_CODE;
    uint8_t kind = HOST_OTHER;

    for (; first < end; first += BLOCK_ROWS) {
        size_t n = columns_codes(r->c, COL_slice_category, first, BLOCK_ROWS, codes);
        for (size_t i = 0; i < n; i++) {
            if (codes[i] != last) {
                last = codes[i];
                kind = slice_table_kind(r, last);
            }
            r->table->kind[first + i] = kind;
        }
    }
}

static int slice_table_read_part(void *arg, size_t part)
{
    const struct slice_table_reading *r = arg;
    struct slice_table *t = r->table;
    uint64_t first = (uint64_t)part * PART_ROWS, end = MIN(first + PART_ROWS, t->n);

    columns_values(r->c, COL_slice_ts, first, PART_ROWS, &t->ts[first]);
    columns_values(r->c, COL_slice_dur, first, PART_ROWS, &t->dur[first]);
    columns_codes(r->c, COL_slice_name, first, PART_ROWS, &t->name[first]);
    columns_codes(r->c, COL_slice_track, first, PART_ROWS, &t->track[first]);
    columns_codes(r->c, COL_slice_parent, first, PART_ROWS, &t->parent[first]);
    slice_table_find_kinds(r, first, end);
    return 0;
}

int slice_table_read(const struct columns *c, struct slice_table *ret)
{
    uint64_t n = columns_rows(c, TABLE_slice), n_tracks = columns_rows(c, TABLE_track);

    *ret = (struct slice_table){
        .n = n,
        .ts = array_alloc_pages((n + 1) * sizeof(*ret->ts)),
        .dur = array_alloc_pages((n + 1) * sizeof(*ret->dur)),
        .name = array_alloc_pages((n + 1) * sizeof(*ret->name)),
        .track = array_alloc_pages((n + 1) * sizeof(*ret->track)),
        .parent = array_alloc_pages((n + 1) * sizeof(*ret->parent)),
        .kind = array_alloc_pages(n + 1),
        .n_tracks = n_tracks,
        .n_threads = columns_rows(c, TABLE_thread),
        .thread_of = malloc((n_tracks + 1) * sizeof(*ret->thread_of)),
    };
    _cleanup_(freep) uint8_t *kinds = calloc((size_t)columns_texts(c) + 1, 1);
    if (!ret->ts || !ret->dur || !ret->name || !ret->track || !ret->parent || !ret->kind || !ret->thread_of ||
        !kinds) {
        slice_table_done(ret);
        return -ENOMEM;
    }
    columns_codes(c, COL_track_thread, 0, n_tracks, ret->thread_of);
    return parallel_each((n + PART_ROWS - 1) / PART_ROWS, slice_table_read_part,
                         &(struct slice_table_reading){c, ret, (_Atomic uint8_t *)kinds});
}

void slice_table_done(struct slice_table *t)
{
    free(t->ts);
    free(t->dur);
    free(t->name);
    free(t->track);
    free(t->parent);
    free(t->kind);
    free(t->thread_of);
    *t = (struct slice_table){0};
}
