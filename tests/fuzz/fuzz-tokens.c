/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "daemon/api/access_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *text = xstrndup((const char *)data, size);
    _cleanup_(tokens_done) struct tokens t = {0};
    _cleanup_(problem_done) struct problem p = {0};
    const char *token = tokens_of_header(text);

    int r = tokens_parse("tokens", (const char *)data, size, &t, &p);
    if ((r < 0) != (p.kind != PROBLEM_NONE) || (r < 0 && t.n > 0) || t.n > TOKENS_MAX)
        abort();
    for (size_t i = 0; i < t.n; i++)
        if (t.items[i].right <= RIGHT_NONE || t.items[i].right >= _RIGHT_MAX || !*t.items[i].name)
            abort();
    /* Nobody can write what hashes to one of these. */
    if (tokens_find(&t, token ? token : text))
        abort();
    return 0;
}
