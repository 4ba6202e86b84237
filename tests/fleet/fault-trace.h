/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of traces: small valid Kineto JSON under gzip, the same spoiled, and huge ones in slices. Knows
 * no workers and no paths.
 */
#pragma once

#include "base/util.h"

struct trace_facts {
    unsigned worker, rank, world_size; /* world_size 0: no process groups */
    int pid;
    int64_t begin_ns, end_ns; /* wall */
    const char *name;         /* traceName */
    const char *trace_id;     /* NULL: none */
    bool on_demand;           /* of a daemon's request: no ProfilerStep */
    bool empty;               /* without events */
};

/* NUL-terminated JSON; the caller frees *ret. */
void trace_text(const struct trace_facts *facts, char **ret, size_t *ret_size);
/* One gzip member; the caller frees *ret. */
int trace_gzip(const char *text, size_t size, char **ret, size_t *ret_size);
bool trace_is_gzip(const char *data, size_t size);

/* A valid trace of about that many bytes, which takes memory for one slice only. */
struct huge_trace;
int huge_trace_new(const struct trace_facts *facts, uint64_t size, struct huge_trace **ret);
/* Appends the next slice to fd: 1 where more is to come, 0 after the last. */
int huge_trace_write(struct huge_trace *h, int fd);
struct huge_trace *huge_trace_free(struct huge_trace *h);
