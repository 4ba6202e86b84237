/* SPDX-License-Identifier: Apache-2.0 */
/* What was seen of workers and GPUs at one moment after another: as the sampler writes it into `memory`, and
 * as the summary reads it there. Pure. */
#pragma once

#include "base/json.h"

/* -1: not seen. */
struct moment {
    int64_t at_ns;        /* of CLOCK_MONOTONIC */
    int64_t rss_bytes;    /* of all workers */
    int64_t gpu_bytes;    /* of all GPUs, whoever uses them */
    int64_t sm_clock_mhz; /* of the slowest GPU */
};

json_t *timeline_json(const struct moment *moments, size_t n);
/* Of sampler_result(), NULL for none. Returns how many; the caller frees them. */
size_t timeline_read(const json_t *memory, struct moment **ret);
