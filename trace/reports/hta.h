/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of Holistic Trace Analysis (facebookresearch/HolisticTraceAnalysis), for comparison only: which
 * events it counts as GPU events, as communication, memory or computation, and which it leaves out.
 * Reproduces its behaviour, including its errors; docs/analysis.md lists the remaining differences.
 */
#pragma once

#include "trace/reports/analysis.h"
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

/* The report gaps as Holistic Trace Analysis makes it, for comparison. */
/* Rows of rank, stream, cause, count, sum_ns. A gap is what lies between two of a stream in order of their
 * beginnings: where they overlap it is below zero, and is summed up as such. -ENOMEM. */
int hta_gaps(struct analysis *a, struct report_rows *ret);
