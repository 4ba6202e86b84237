/* SPDX-License-Identifier: Apache-2.0 */
/* Flattens the arguments of an event: every key begins as it must, none is there twice. */
#include "base/util.h"
#include "trace/sql/arg_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_key(const struct arg *a, const struct arg *b)
{
    return a->key.size == b->key.size && memcmp(a->key.p, b->key.p, a->key.size) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct arg_set set;

    if (arg_set_of_text(&set, (struct text){(const char *)data, size}) < 0)
        return 0;
    for (size_t i = 0; i < set.n; i++) {
        if (set.items[i].key.size < 4 || memcmp(set.items[i].key.p, "args", 4) != 0)
            abort();
        for (size_t k = i + 1; k < MIN(set.n, i + 50); k++) {
            if (same_key(&set.items[i], &set.items[k]))
                abort();
        }
    }
    return 0;
}
