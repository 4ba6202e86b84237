/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/ancestor.h"

uint64_t ancestor_parent(const struct columns *c, uint64_t slice)
{
    int64_t parent = slice == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_slice_parent, slice);
    return parent == COLUMN_NULL ? SLICE_NONE : (uint64_t)parent;
}

uint64_t ancestor_find(struct ancestor_finder *finder, uint64_t slice)
{
    uint64_t walked[ANCESTORS_MAX], found = SLICE_NONE;
    size_t n = 0;

    for (uint64_t at = slice; at != SLICE_NONE && n < ANCESTORS_MAX; at = ancestor_parent(finder->c, at)) {
        size_t place = at % ANCESTORS_REMEMBERED;
        if (finder->remembered[place].used && finder->remembered[place].slice == at) {
            found = finder->remembered[place].found;
            break;
        }
        walked[n++] = at;
        if (finder->matches(finder->arg, at)) {
            found = at;
            break;
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t place = walked[i] % ANCESTORS_REMEMBERED;
        finder->remembered[place].used = true;
        finder->remembered[place].slice = walked[i];
        finder->remembered[place].found = found;
    }
    return found;
}
