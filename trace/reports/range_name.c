/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/range_name.h"

struct text range_name(struct text name)
{
    static const char *const numbers[] = {", op_id = ", ", seq = "};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        const char *at = name.p ? memmem(name.p, name.size, numbers[i], strlen(numbers[i])) : NULL;
        if (at)
            name.size = (size_t)(at - name.p);
    }
    return name;
}
