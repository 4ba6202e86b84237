/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/hta.h"

#include <fnmatch.h>

/* HTA's regular expressions, as patterns: the first that matches counts. */
static const struct {
    const char *glob;
    enum gpu_kind kind;
} rules[] = {
    {"nccl*", GPU_COMMUNICATION},
    {"hip*", GPU_COMMUNICATION},
    {"hccl*", GPU_COMMUNICATION},
    {"*ncclKernel*", GPU_COMMUNICATION},
    {"Memcpy*", GPU_MEMORY},
    {"Memset*", GPU_MEMORY},
    {"dma*", GPU_MEMORY},
    {"*Memcpy*", _GPU_KIND_MAX},
    {"*Memset*", _GPU_KIND_MAX},
    {"*dma*", _GPU_KIND_MAX},
    {"*Sync*", _GPU_KIND_MAX},
    {"Stream Wait Event*", _GPU_KIND_MAX},
    {"cuda*LaunchKernel*", _GPU_KIND_MAX},
    {"runFunction*", _GPU_KIND_MAX},
    {"job_exe*", _GPU_KIND_MAX},
    {"packet*", _GPU_KIND_MAX},
    {"pe_exe*", _GPU_KIND_MAX},
    {"cpum_exe_subgraph*", _GPU_KIND_MAX},
    {"collective_subgraph_execution*", _GPU_KIND_MAX},
};

enum gpu_kind hta_kind(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (fnmatch(rules[i].glob, name, 0) == 0)
            return rules[i].kind;
    return GPU_COMPUTE;
}
