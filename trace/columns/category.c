/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/category.h"

#include "base/util.h"

static const struct {
    const char *name, *old_name;
    bool is_gpu_work;
} categories[] = {
    {CATEGORY_KERNEL, true}, {CATEGORY_MEMCPY, true},   {CATEGORY_MEMSET, true},
    {CATEGORY_OP, false},    {CATEGORY_RUNTIME, false},
};

static bool is(const char *word, const char *name, size_t size)
{
    return size == strlen(word) && memcmp(word, name, size) == 0;
}

const char *category_old_name(const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        if (is(categories[i].name, name, size))
            return categories[i].old_name;
    return NULL;
}

bool category_is_gpu_work(const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        if (is(categories[i].name, name, size) || is(categories[i].old_name, name, size))
            return categories[i].is_gpu_work;
    return false;
}
