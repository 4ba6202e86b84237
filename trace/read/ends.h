/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of a trace say about it: rank, devices, clock base, writer, and whether its JSON closes.
 *
 * A pure function over a bounded head and a bounded tail of the decompressed text, which overlap where the
 * text is small. Rank and clock base stand before the events or behind them, depending on the writer.
 * Tolerant: what cannot be read is left unknown, and nothing is validated.
 */
#pragma once

#include "trace/read/format.h"

struct ends_input {
    const char *head, *tail;
    size_t head_size, tail_size;
    uint64_t total; /* bytes of the whole text */
};

struct trace_ends {
    enum trace_format format;
    bool closes;  /* the last bracket closes the first; true for what is not JSON */
    int64_t rank; /* -1 unknown, like the numbers below */
    int64_t world_size;
    int64_t pid; /* of the first host event, or of the process that is labelled as the host */
    int64_t devices;
    int64_t base_time_ns; /* what ts is relative to; absent where ts is absolute */
    /* Empty where unknown. */
    char backend[64];
    char device_name[128]; /* of the first device */
    char trace_name[512];
    char engine_version[64];
};

void ends_read(const struct ends_input *in, struct trace_ends *ret);
