/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/array.h"

#define FIRST 64

bool array_grow(void *items, size_t *cap, size_t n, size_t size, bool is_zeroed)
{
    size_t larger = MAX(n, *cap ? *cap * 2 : (size_t)FIRST);
    void *known;

    memcpy(&known, items, sizeof(known));
    char *array = reallocarray(known, larger, size);
    if (!array)
        return false;
    if (is_zeroed)
        memset(array + *cap * size, 0, (larger - *cap) * size);
    memcpy(items, &array, sizeof(array));
    *cap = larger;
    return true;
}
