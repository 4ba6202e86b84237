/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host did, as calls within calls: operators and annotations, or Python frames, of all threads; and
 * the GPU work that each of them launched.
 *
 * Nesting is by time on one thread, among the chosen kinds alone, so that what lies between them (a Python
 * frame between two operators) or across them does not matter.
 */
#pragma once

#include "trace/reports/gpu.h"

/* H(identifier, word for people) */
#define HOST_KINDS(H)                                                                                        \
    H(OTHER, "other")                                                                                        \
    H(OP, "operator")                                                                                        \
    H(ANNOTATION, "annotation")                                                                              \
    H(PYTHON, "python")                                                                                      \
    H(RUNTIME, "runtime")

enum host_kind {
#define H(identifier, word) HOST_##identifier,
    HOST_KINDS(H)
#undef H
        _HOST_KIND_MAX,
};

#define HOST_CALL_NONE UINT32_MAX

struct host_call {
    int64_t ts, end, name;
    int64_t within;     /* time of the calls directly within it */
    int64_t runtime;    /* time of the GPU's runtime in it, but not in a call within it */
    int64_t device;     /* time of the GPU work that it launched itself */
    int64_t device_all; /* and its calls within */
    uint32_t slice, parent;
    uint32_t work, work_all; /* how much GPU work that was */
    enum host_kind kind;
};

struct host_calls {
    struct host_call *calls; /* by when they begin; a parent before what is within */
    size_t n, cap;
    uint32_t *around; /* of each slice on the host: the innermost call that it is, or begins in */
    uint64_t n_slices;
    uint32_t *launcher; /* of each item of the GPU work: the innermost call that launched it */
    size_t n_work;
};

const char *host_kind_name(enum host_kind kind);
/* Of a category, by either of its names. */
enum host_kind host_kind_of(struct text category);

/* kinds: a mask of 1 << enum host_kind that become calls. work: what is attributed to them. -ENOMEM. */
int host_calls_read(const struct columns *c, unsigned kinds, const struct gpu_work *work,
                    struct host_calls *ret);
void host_calls_done(struct host_calls *h);

static inline int64_t host_call_self(const struct host_call *call)
{
    return MAX(call->end - call->ts - call->within, 0);
}
