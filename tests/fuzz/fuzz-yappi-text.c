/* SPDX-License-Identifier: Apache-2.0 */
/* Both of yappi's formats, and the differences of what they hold. */
#include "extras/nemo_gym/function_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct function_list *l)
{
    static const struct function_list nothing = {0};
    bool restarted;
    struct function_list *same = function_list_difference(l, l, &restarted);

    if (same->n != 0 || restarted || l->n > FUNCTIONS_MAX)
        abort();
    function_list_free(same);
    struct function_list *all = function_list_difference(&nothing, l, &restarted);
    if (restarted || all->n > l->n)
        abort();
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].calls < 0 || all->items[i].tsub_ns < 0 || all->items[i].ttot_ns < 0)
            abort();
    function_list_free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(function_list_freep) struct function_list *table = NULL;
    _cleanup_(function_list_freep) struct function_list *profile = NULL;

    if (yappi_table_parse((const char *)data, size, &table) == 0)
        check(table);
    if (yappi_callgrind_parse((const char *)data, size, &profile) == 0)
        check(profile);
    return 0;
}
