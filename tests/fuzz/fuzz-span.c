/* SPDX-License-Identifier: Apache-2.0 */
/* Scans the same text whole and in pieces. */
#include "trace/read/span.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct span scan(const uint8_t *data, size_t size, size_t step)
{
    struct span s = {0};

    for (size_t at = 0; at < size; at += step)
        span_feed(&s, (const char *)data + at, MIN(step, size - at));
    span_finish(&s);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span pieces = scan(data, size, 1 + size % 331), bytes = scan(data, size, 1);

    if (pieces.events != bytes.events || pieces.first_ns != bytes.first_ns || pieces.last_ns != bytes.last_ns)
        abort();
    if (pieces.events > 0 && pieces.first_ns > pieces.last_ns)
        abort();
    return 0;
}
