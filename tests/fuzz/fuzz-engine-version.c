/* SPDX-License-Identifier: Apache-2.0 */
/* Two versions, one on each line: they are compared alike from both sides. */
#include "base/alloc.h"
#include "daemon/fleet/engine_version.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct version_change change = {"0.30.0rc3", "0.31.0"};
    _cleanup_(freep) char *text = xstrndup((const char *)data, size);
    char *second = strchr(text, '\n');
    struct engine_version a, b;

    if (second)
        *second++ = '\0';
    version_has(text, &change);
    if (engine_version_parse(text, &a) < 0 || engine_version_parse(second, &b) < 0)
        return 0;
    int one = engine_version_compare(&a, &b), other = engine_version_compare(&b, &a);
    if ((one > 0) - (one < 0) != (other < 0) - (other > 0) || engine_version_compare(&a, &a) != 0)
        abort();
    return 0;
}
