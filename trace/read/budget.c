/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/budget.h"

#define FIRST_ITEMS 16

void *budget_new(struct budget *b, size_t n, size_t size)
{
    void *p;

    if (n > SIZE_MAX / size || budget_take(b, n * size) < 0)
        return NULL;
    p = calloc(MAX(n, (size_t)1), size);
    if (!p)
        budget_give(b, n * size);
    return p;
}

void budget_free(struct budget *b, void *p, size_t n, size_t size)
{
    if (p)
        budget_give(b, n * size);
    free(p);
}

int budget_extend(struct budget *b, void *array, size_t *cap, size_t n, size_t size)
{
    size_t want = MAX(MAX(n, *cap + *cap / 2), (size_t)FIRST_ITEMS);
    void *p;
    int r;

    if (want > SIZE_MAX / size)
        return -ENOMEM;
    r = budget_take(b, (want - *cap) * size);
    if (r < 0)
        return r;
    p = realloc(*(void **)array, want * size);
    if (!p) {
        budget_give(b, (want - *cap) * size);
        return -ENOMEM;
    }
    memset((uint8_t *)p + *cap * size, 0, (want - *cap) * size);
    *(void **)array = p;
    *cap = want;
    return 0;
}
