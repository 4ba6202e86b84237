/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *text = strndup((const char *)data, size);
    int64_t value;
    int flag;
    char buf[UNIT_TEXT_MAX];

    if (parse_duration(text, &value) == 0)
        format_duration(buf, value);
    if (parse_size(text, &value) == 0)
        format_size(buf, value);
    if (parse_time(text, INT64_C(1763647331000000000), 1, &value) == 0)
        format_time(buf, value);
    parse_bool(text, &flag);
    return 0;
}
