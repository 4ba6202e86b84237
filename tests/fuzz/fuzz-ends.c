/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says how much of the text the head and the tail get. */
#include "trace/read/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_ends ends;

    if (size == 0)
        return 0;
    size_t part = (size_t)data[0] * (size - 1) / 255;
    const char *text = (const char *)data + 1;
    struct ends_input in = {
        .head = text,
        .head_size = part,
        .tail = text + (size - 1 - part),
        .tail_size = part,
        .total = size - 1,
    };
    ends_read(&in, &ends);
    if (!format_name(ends.format) || strlen(ends.trace_name) >= sizeof(ends.trace_name))
        abort();
    return 0;
}
