/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/schema.h"

#include "base/util.h"

const struct column_spec column_specs[_COLUMN_MAX] = {
#define C(table, column, kind) [COL_##table##_##column] = {#column, TABLE_##table, KIND_##kind},
    COLUMN_CORE(C)
#undef C
#define A(group, column, kind, array, ...) [COL_##group##_##column] = {#column, TABLE_##group, KIND_##kind},
        COLUMN_ARGS(A)
#undef A
#define S(group) [COL_##group##_slice] = {"slice", TABLE_##group, KIND_ROW}
            S(gpu),
    S(runtime),
    S(op),
    S(python),
    S(memory),
    S(collective),
#undef S
};

const char *const column_table_names[_TABLE_MAX] = {
#define T(table) [TABLE_##table] = #table,
    COLUMN_TABLES(T)
#undef T
};

const struct arg_spec column_args[] = {
#define A(group, column, kind, array, ...) {COL_##group##_##column, array, {__VA_ARGS__}},
    COLUMN_ARGS(A)
#undef A
};
const size_t column_args_count = sizeof(column_args) / sizeof(column_args[0]);

enum column arg_group_slice(enum column_table group)
{
    return COL_gpu_slice + (enum column)(group - TABLE_ARGS_FIRST);
}

static const struct {
    const char *name, *text;
    int loses_data;
} defects[_DEFECT_MAX] = {
#define D(kind, loses, text) [DEFECT_##kind] = {#kind, text, loses},
    TRACE_DEFECTS(D)
#undef D
};

const char *defect_name(enum defect_kind kind)
{
    return defects[kind].name;
}

const char *defect_text(enum defect_kind kind)
{
    return defects[kind].text;
}

int defect_loses_data(enum defect_kind kind)
{
    return defects[kind].loses_data;
}

static const struct {
    const char *name;
    int is_text;
} metas[_META_MAX] = {
#define M(key, is_text) [META_##key] = {#key, is_text},
    TRACE_META(M)
#undef M
};

const char *meta_name(enum meta_key key)
{
    return metas[key].name;
}

int meta_is_text(enum meta_key key)
{
    return metas[key].is_text;
}

/* -- Categories ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *old_name;
    bool is_gpu_work;
} categories[] = {
    {CATEGORY_KERNEL, true}, {CATEGORY_MEMCPY, true},   {CATEGORY_MEMSET, true},
    {CATEGORY_OP, false},    {CATEGORY_RUNTIME, false},
};

static bool category_is(const char *word, const char *name, size_t size)
{
    return size == strlen(word) && memcmp(word, name, size) == 0;
}

const char *category_old_name(const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        if (category_is(categories[i].name, name, size))
            return categories[i].old_name;
    return NULL;
}

bool category_is_gpu_work(const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        if (category_is(categories[i].name, name, size) || category_is(categories[i].old_name, name, size))
            return categories[i].is_gpu_work;
    return false;
}
