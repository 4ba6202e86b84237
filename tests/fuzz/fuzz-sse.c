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

static int take_and_feed(struct sse *s, const char *bytes, size_t size, size_t *sum)
{
    const char *data;
    size_t n;

    while ((data = sse_take(s, &bytes, &size, &n)))
        *sum = *sum * 31 + strlen(s->id ? s->id : "") + strlen("message") + strnlen(data, n) + 1;
    return sse_feed(s, bytes, size, on_event, sum);
}

/* However a stream is cut, and whether events are taken in place or not, the same events come out of it. The first byte says where. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t whole = 0, cut = 0, taken = 0, n = size - 1, at = n ? data[0] % n : 0;
    struct sse a = {0}, b = {0}, c = {0};

    int r = sse_feed(&a, text, n, on_event, &whole);
    int s = sse_feed(&b, text, at, on_event, &cut);
    if (s == 0)
        s = sse_feed(&b, text + at, n - at, on_event, &cut);
    int t = take_and_feed(&c, text, at, &taken);
    if (t == 0)
        t = take_and_feed(&c, text + at, n - at, &taken);
    if (r != s || whole != cut || r != t || whole != taken)
        abort();
    sse_done(&a);
    sse_done(&b);
    sse_done(&c);
    return 0;
}
