/* SPDX-License-Identifier: Apache-2.0 */
/* A byte that says which format, then a file of prompts. */
#include "base/alloc.h"
#include "client/runs/prompts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ prompts = NULL;

    if (size < 2)
        return 0;
    _cleanup_(fclosep) FILE *in = fmemopen((void *)(data + 1), size - 1, "r");
    if (!in)
        return 0;
    int r = prompts_parse(in, (enum prompts_format)(data[0] % 3), "x", data[0] / 3, &prompts, &p);
    if ((r == 0) != (json_array_size(prompts) > 0) || (r == 0) != (p.what == NULL))
        abort();
    if (data[0] / 3 > 0 && json_array_size(prompts) > data[0] / 3)
        abort();
    return 0;
}
