/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes, looked at in two pieces and then read: what passes keeps the promises of http.h. */
#include "daemon/api/http_head.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct http_head *h)
{
    assert(h->path[0] == '/' && !strstr(h->path, "//") && !strstr(h->path, "/../"));
    assert(h->content_length >= 0 && h->content_length <= (int64_t)http_limits_default.body_max);
    assert(h->n_fields <= http_limits_default.headers_max);
    assert(!http_head_field(h, "Transfer-Encoding"));
    assert(h->minor == 0 || http_head_field(h, "Host"));
    for (size_t i = 0; i < h->n_fields; i++)
        assert(h->fields[i].name[0] && !strpbrk(h->fields[i].name, " \t:\r\n") &&
               !strpbrk(h->fields[i].value, "\r\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const size_t head_max = http_limits_default.head_max;
    struct http_refusal why = {0};
    struct http_head h = {0};
    size_t scanned = 0, unscanned = 0;

    ssize_t first = http_head_find(text, size / 2, head_max, &scanned, &why);
    ssize_t n = first ? first : http_head_find(text, size, head_max, &scanned, &why);
    if (first >= 0)
        assert(n == http_head_find(text, size, head_max, &unscanned, &why));
    assert(n >= 0 || why.status >= 400);
    if (http_head_parse(text, n > 0 ? (size_t)n : size, &http_limits_default, &h, &why) < 0)
        assert(why.status >= 400 && why.detail);
    else
        check(&h);
    http_head_done(&h);
    return 0;
}
