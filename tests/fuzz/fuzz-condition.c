/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --fail-if: what is taken has a name and a finite bound, and can be asked of any figures. */
#include "base/alloc.h"
#include "trace/reports/condition.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t figures[] = {0, 1, -1, INT64_MAX, INT64_MIN + 1, 1000000};
    _cleanup_(freep) char *text = xstrndup((const char *)data, size);
    struct condition c;

    if (condition_parse(text, &c) < 0)
        return 0;
    if (!*c.measure || strlen(c.measure) >= CONDITION_NAME_MAX || !isfinite(c.bound) ||
        (c.is_share && !c.is_change))
        abort();
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
        for (size_t k = 0; k < ARRAY_SIZE(figures); k++) {
            struct estimate before = {(double)figures[i], i % 2 ? NAN : (double)i, 4, i},
                            after = {(double)figures[k], k % 3 ? (double)k : NAN, 2, k};
            struct condition_decision d = condition_decide(&c, &before, &after, 1, i == k);
            free(condition_decision_text(&c, &d, 1));
        }
    return 0;
}
