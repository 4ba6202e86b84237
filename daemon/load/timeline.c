/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/timeline.h"

#include "base/alloc.h"

json_t *timeline_json(const struct moment *moments, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("[I, I, I, I]", (json_int_t)moments[i].at_ns, (json_int_t)moments[i].rss_bytes,
                            (json_int_t)moments[i].gpu_bytes, (json_int_t)moments[i].sm_clock_mhz));
    return list;
}

size_t timeline_read(const json_t *memory, struct moment **ret)
{
    const json_t *list = json_object_get(memory, "timeline");
    size_t n = json_array_size(list);

    *ret = xcalloc(n, sizeof(**ret));
    for (size_t i = 0; i < n; i++) {
        const json_t *line = json_array_get(list, i);
        (*ret)[i] = (struct moment){
            json_integer_value(json_array_get(line, 0)), json_integer_value(json_array_get(line, 1)),
            json_integer_value(json_array_get(line, 2)), json_integer_value(json_array_get(line, 3))};
    }
    return n;
}
