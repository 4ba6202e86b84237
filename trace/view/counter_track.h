/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a trace: which there are, for timeline.c. */
#pragma once

#include "trace/view/view.h"

/* [{track, title, process, min, max, samples}]. The caller drops it. */
json_t *view_list_counters(const struct trace_view *v);
