/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/link.h"

#include "trace/columns/writer.h"

enum {
    GPU_ROW,
    GPU_CORRELATION,
    _GPU_MAX,
};

int links_init(struct links *l, struct spool *spool, struct budget *budget)
{
    *l = (struct links){.calls.budget = budget};
    return tape_init(&l->gpu, spool, budget, _GPU_MAX);
}

void links_done(struct links *l)
{
    if (!l->calls.budget)
        return;
    map_done(&l->calls);
    tape_done(&l->gpu);
}

int links_call(struct links *l, uint32_t row, int64_t correlation)
{
    uint32_t *last = map_put(&l->calls, (uint64_t)correlation, 0, row);

    if (!last)
        return -ENOMEM;
    *last = row;
    return 0;
}

int links_gpu(struct links *l, uint32_t row, int64_t correlation)
{
    *tape_slot(&l->gpu, GPU_ROW) = row;
    *tape_slot(&l->gpu, GPU_CORRELATION) = correlation;
    return tape_next(&l->gpu);
}

int links_write(struct links *l, struct columns_writer *w)
{
    int64_t columns[_GPU_MAX * BLOCK_ROWS];
    int r = tape_flush(&l->gpu);
    size_t n = BLOCK_ROWS;

    for (uint64_t first = 0; r == 0 && n == BLOCK_ROWS; first += n) {
        r = tape_read(&l->gpu, first, columns, &n);
        for (size_t i = 0; r == 0 && i < n; i++) {
            const uint32_t *call = map_get(&l->calls, (uint64_t)columns[GPU_CORRELATION * BLOCK_ROWS + i], 0);

            if (!call)
                continue;
            columns_put(w, COL_launch_gpu, columns[GPU_ROW * BLOCK_ROWS + i]);
            columns_put(w, COL_launch_runtime, *call);
        }
    }
    return r;
}
