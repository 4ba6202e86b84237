/* SPDX-License-Identifier: Apache-2.0 */
/* The reports that there are, for their table. */
#pragma once

#include "trace/reports/report.h"

extern const struct report report_kernels, report_temporal;
extern const struct report report_layers, report_steps;
extern const struct report report_roofline;
extern const struct report report_summary;
extern const struct report report_memory, report_memory_holders, report_memory_timeline;
