/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where time went, as a tree of what lay in what: the GPU's time by the operators or Python frames that
 * launched the work, or by kinds of kernels; the host's time where there is no GPU. Several ranks become one
 * tree; a second analysis may be laid over it as what to compare with.
 *
 * Frames are identified by their names from the root down. A frame's parent comes before it.
 */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/grouping.h"

#define FLAME_ROOT 0u

enum flame_by { FLAME_BY_OP, FLAME_BY_STACK, FLAME_BY_KERNEL, _FLAME_BY_MAX };

struct flame_frame {
    uint32_t parent, depth;
    uint32_t name;         /* number in names; the root has none */
    uint64_t count;        /* of the GPU events, or calls of the host, that it has itself */
    int64_t total, before; /* with all that lies in it: of the analysis, and of what it is compared with */
    int64_t self, self_before; /* private: without that */
};

struct flame {
    struct flame_frame *frames; /* the first is the root */
    size_t n, cap;
    struct name_table names;
    struct hash_table numbers; /* private */
};

/* Adds the time of all ranks. is_before: as what is compared with. An empty struct is ready; the analysis
 * must outlive it. -ENOMEM. */
int flame_add(struct flame *f, struct analysis *a, enum flame_by by, bool is_before);

enum flame_of {
    FLAME_OF_ANY, /* the GPU's time, of a trace without GPU events the host's */
    FLAME_OF_GPU,
    FLAME_OF_HOST,
};
struct flame_choice {
    enum flame_by by;
    enum flame_of of;
    const char
        *thread; /* only calls of threads with that name or number, and what they launched; NULL: all */
};
int flame_add_choice(struct flame *f, struct analysis *a, const struct flame_choice *choice, bool is_before);
void flame_done(struct flame *f);
/* "op", "stack", "kernel"; _FLAME_BY_MAX for another. */
enum flame_by flame_by_find(const char *name);
