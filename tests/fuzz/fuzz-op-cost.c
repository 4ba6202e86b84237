/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/op_cost.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lines: an operator's name, dims, types, concrete inputs. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text lines[4] = {{0}};
    const char *p = (const char *)data, *end = p + size;
    struct op_cost cost;

    for (size_t i = 0; i < ARRAY_SIZE(lines) && p < end; i++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *to = newline && i + 1 < ARRAY_SIZE(lines) ? newline : end;
        lines[i] = (struct text){p, (size_t)(to - p)};
        p = to < end ? to + 1 : end;
    }
    if (op_cost_of(lines[0], lines[1], lines[2], lines[3], &cost) &&
        (cost.flops < 0 || (cost.bytes < 0 && cost.bytes != COLUMN_NULL) || cost.precision > _PRECISION_MAX))
        abort();
    return 0;
}
