/* SPDX-License-Identifier: Apache-2.0 */
/* A workload as people write it, in YAML. */
#include "client/runs/workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ workload = NULL;
    int r = workload_parse_text((const char *)data, size, "w.yaml", &workload, &p);

    if ((r == 0) != json_is_object(workload) || (r == 0) != (p.what == NULL))
        abort();
    return 0;
}
