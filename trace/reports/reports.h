/* SPDX-License-Identifier: Apache-2.0 */
/* The reports that there are, for their table. */
#pragma once

#include "trace/reports/report.h"

extern const struct report report_kernels, report_temporal;
extern const struct report report_layers, report_steps;
extern const struct report report_cuda_api_sum, report_cuda_gpu_kern_sum, report_cuda_gpu_mem_size_sum,
    report_cuda_gpu_mem_time_sum, report_nvtx, report_nvtx_sum, report_osrt_sum;
extern const struct report report_functions, report_ort;
extern const struct report report_roofline;
extern const struct report report_summary;
extern const struct report report_memory, report_memory_holders, report_memory_timeline;
