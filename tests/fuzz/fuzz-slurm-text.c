/* SPDX-License-Identifier: Apache-2.0 */
/* What squeue and sinfo print. */
#include "client/local/slurm_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *nodes = NULL, *state = NULL, *addresses = NULL;
    const char *text = (const char *)data;
    size_t n = 0;

    slurm_is_job_id(text, size);
    int r = slurm_parse_job(text, size, &nodes, &state);
    if ((r == 0) != (nodes != NULL))
        abort();
    if (slurm_parse_addresses(text, size, &addresses, &n) == 0 && addresses && n == 0)
        abort();
    return 0;
}
