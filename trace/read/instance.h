/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups traces into engine instances: the ranks that run one copy of a model. Replicas after a router are
 * separate instances, although each of them has a rank 0.
 *
 * A pure function over the known facts of each trace. A table of evidence (instance.c) is evaluated in
 * order for each pair of traces; the first entry that decides counts. Traces without common evidence are
 * separate instances: nothing is ever matched on a guess.
 */
#pragma once

#include "base/util.h"

/* INT64_MIN (COLUMN_NULL, RECORD_NONE) and NULL: unknown. The caller owns the strings. */
#define INSTANCE_UNKNOWN INT64_MIN
/* Maximum distance between the starts of recordings of one job, and between the end of one and the start
 * of another. */
#define INSTANCE_DISTANCE_MAX_NS (INT64_C(60) * 1000000000)
#define INSTANCE_NAME_MAX        128

enum instance_belief { INSTANCE_UNDECIDED, INSTANCE_SAME, INSTANCE_DIFFERENT };

struct instance_clues {
    const char *recording;   /* the session: "s7" */
    const char *worker;      /* as listed by the router */
    const char *group;       /* of data-parallel or multi-node workers, as named by /server_info */
    const char *path;        /* of the file; its folder may be absent */
    const char *backend;     /* of torch.distributed */
    const char *distributed; /* the JSON text of distributedInfo */
    size_t distributed_size;
    int64_t rank, world_size, dp;
    const char *stage;      /* "prefill", "decode": recorded by stage; NULL or "": not */
    int64_t from_ns, to_ns; /* wall clock of the recording */
};

/* Evidence from the collectives of two traces; NULL: not available. Called only if no stronger evidence
 * decides. */
typedef enum instance_belief (*instance_events_fn)(void *arg, size_t one, size_t other);

/* Returns the name of the evidence that decides for a pair ("worker"), for people, and its result. NULL if
 * none decides. */
const char *instance_evidence(const struct instance_clues *one, const struct instance_clues *other,
                              enum instance_belief *ret);

/* Sets ret[i] to the number of the instance of each trace, from 0 in order of first appearance. Returns
 * the number of instances, or -ENOMEM. Takes n * n steps. */
int64_t instances_find(const struct instance_clues *clues, size_t n, instance_events_fn events, void *arg,
                       size_t *ret);

/* Gives each instance a distinct name: its worker ("10.0.0.1:30000"), with the data-parallel rank or the
 * stage if a worker has several instances; the common part of its file names; else a number. numbers: the
 * result of instances_find(). */
void instances_name(const struct instance_clues *clues, size_t n, const size_t *numbers, size_t n_instances,
                    char (*ret)[INSTANCE_NAME_MAX]);
