/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of Holistic Trace Analysis (facebookresearch/HolisticTraceAnalysis), for comparison only: which
 * events it counts as GPU events, as communication, memory or computation, and which it leaves out.
 * Reproduces its behaviour, including its errors; docs/analysis.md lists the remaining differences.
 */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/gap.h"
#include "trace/reports/report_rows.h"

/* _GPU_KIND_MAX for HTA's kind OTHER. */
enum gpu_kind hta_kind(struct text name);
/* "COMPUTATION", ...: HTA's words. */
const char *hta_kind_name(enum gpu_kind kind);
/* HTA selects by a stream, for any category: waiting for an event counts. */
bool hta_is_gpu(int64_t category, int64_t stream);

/* Whether its launch statistics look at a call of this name, and whether its queue does. */
bool hta_is_launch(struct text name);
bool hta_is_queued(struct text name);

/* Where any rank has two steps of torch.profiler, only what was launched before the last one stays, once for
 * each call that has its correlation. -ENOMEM. */
int hta_filter_steps(struct analysis *a, size_t rank, struct gpu_work *work);

/* The gaps of a rank as Holistic Trace Analysis sums them up, by stream and cause. A gap is the time between two events of
 * a stream in order of their starts: where they overlap it is below zero, and is summed up as such. Emits a row for
 * each. -ENOMEM. */
typedef void (*hta_emit)(const struct rank *rank, int64_t stream, enum hta_gap_class cause, int64_t count,
                         int64_t sum, struct report_rows *ret);
int hta_gaps(struct analysis *a, size_t rank, hta_emit emit, struct report_rows *ret);
