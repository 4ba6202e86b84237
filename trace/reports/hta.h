/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holistic Trace Analysis' own rules (facebookresearch/HolisticTraceAnalysis), for comparison only: what it
 * takes for communication, memory or computation by a kernel's name.
 */
#pragma once

#include "trace/reports/gpu.h"

/* _GPU_KIND_MAX for what HTA calls other. */
enum gpu_kind hta_kind(const char *name);
