/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/period.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each byte is a name. What is found is in order and within the sequence. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) uint32_t *names = calloc(size + 1, sizeof(*names));
    _cleanup_(freep) int64_t *pauses = calloc(size + 1, sizeof(*pauses));
    struct period p;

    for (size_t i = 0; i < size; i++) {
        names[i] = data[i];
        pauses[i] = data[i] * INT64_C(7919) % 13;
    }
    for (enum period_goal goal = PERIOD_LONGEST; goal <= PERIOD_FULLEST; goal++) {
        if (period_find(names, pauses, size, 256, goal, &p) < 0)
            abort();
        for (size_t i = 0; i < p.n; i++)
            if (p.starts[i] >= (i + 1 < p.n ? p.starts[i + 1] : p.until) || p.until > size)
                abort();
        period_done(&p);
    }
    return 0;
}
