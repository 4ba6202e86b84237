/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/engine.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    double sum = NAN;
    if (metrics_sum((const char *)data, size, "m", &sum) && isnan(sum))
        abort();
    return 0;
}
