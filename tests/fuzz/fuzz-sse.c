/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sse.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Counts events and reads every byte of them. */
static void on_event(const struct sse_event *event, void *arg)
{
    size_t *sum = arg;
    *sum = *sum * 31 + strlen(event->id) + strlen(event->kind) + strlen(event->data) + 1;
}

/* However a stream is cut, the same events come out of it. The first byte says where. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t whole = 0, cut = 0, n = size - 1, at = n ? data[0] % n : 0;
    struct sse a = {0}, b = {0};

    int r = sse_feed(&a, text, n, on_event, &whole);
    int s = sse_feed(&b, text, at, on_event, &cut);
    if (s == 0)
        s = sse_feed(&b, text + at, n - at, on_event, &cut);
    if (r != s || whole != cut)
        abort();
    sse_done(&a);
    sse_done(&b);
    return 0;
}
