/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/contexts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken has valid names, and says where each profd is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ contexts = NULL;
    const char *name;
    json_t *context;
    int r = contexts_parse((const char *)data, size, "contexts.json", &contexts, &p);

    if (!!contexts != (r == 0) || (r < 0) != !!p.what)
        abort();
    json_object_foreach(json_object_get(contexts, "contexts"), name, context) {
        if (!context_name_is_valid(name) || contexts_find(contexts, name) != context)
            abort();
        if (!json_get_str(context, "host") == !json_get_str(context, "socket"))
            abort();
    }
    return 0;
}
