/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the version and the checksums of a columnar file fit its bytes, so that what lies behind them is
 * reached. False for what is too short to have any. */
#pragma once

#include "trace/columns/layout.h"

static inline bool columns_mend(uint8_t *file, size_t size)
{
    struct layout_head head = {.magic = COLUMNS_MAGIC, .version = COLUMNS_VERSION};
    struct layout_trailer t;
    size_t at_end = size - sizeof(t);

    if (size < sizeof(head) + sizeof(t))
        return false;
    memcpy(file, &head, sizeof(head));
    memcpy(&t, file + at_end, sizeof(t));
    if (t.sums > at_end || at_end - t.sums < t.n_sums * UINT64_C(4))
        return false;
    for (uint64_t i = 0; i < t.n_sums && i * LAYOUT_PAGE < t.sums; i++) {
        uint32_t sum = layout_sum(0, file + i * LAYOUT_PAGE, MIN(t.sums - i * LAYOUT_PAGE, LAYOUT_PAGE));

        memcpy(file + t.sums + i * sizeof(sum), &sum, sizeof(sum));
    }
    t.version = COLUMNS_VERSION;
    t.sum = 0;
    t.sum =
        layout_sum(layout_sum(0, file + t.sums, at_end - t.sums), &t, offsetof(struct layout_trailer, magic));
    memcpy(t.magic, LAYOUT_END_MAGIC, sizeof(t.magic));
    memcpy(file + at_end, &t, sizeof(t));
    return true;
}
