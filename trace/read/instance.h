/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which traces are of one engine instance: the group of ranks that run one copy of a model. Replicas after a
 * router are instances of their own, although each of them has a rank 0.
 *
 * A pure function over what is known of each trace. A table of evidence (instance.c) is asked in order for
 * each pair of traces; the first entry that decides counts. Traces with no evidence in common are instances
 * of their own: nothing is ever matched on a guess.
 */
#pragma once

#include "base/util.h"

/* INT64_MIN (COLUMN_NULL, RECORD_NONE) and NULL: unknown. Strings are the caller's. */
#define INSTANCE_UNKNOWN INT64_MIN
/* Recordings of one job do not begin further apart, nor end before another begins by more. */
#define INSTANCE_APART_NS (INT64_C(60) * 1000000000)
#define INSTANCE_NAME_MAX 128

enum instance_belief { INSTANCE_UNDECIDED, INSTANCE_SAME, INSTANCE_DIFFERENT };

struct instance_clues {
    const char *recording;   /* the session: "s7" */
    const char *worker;      /* as the router lists it */
    const char *group;       /* of data-parallel or multi-node workers, as /server_info names it */
    const char *path;        /* of the file; its folder may be missing */
    const char *backend;     /* of torch.distributed */
    const char *distributed; /* the JSON text of distributedInfo */
    size_t distributed_size;
    int64_t rank, world_size, dp;
    const char *stage;      /* "prefill", "decode": recorded by stage; NULL or "": not */
    int64_t from_ns, to_ns; /* wall clock of the recording */
};

/* What the events of collectives say of two traces; NULL: nobody can look. Asked only where nothing stronger
 * decides. */
typedef enum instance_belief (*instance_events_fn)(void *arg, size_t one, size_t other);

/* The evidence that decides for a pair, for people ("worker"), and what it says. NULL where nothing does. */
const char *instance_evidence(const struct instance_clues *one, const struct instance_clues *other,
                              enum instance_belief *ret);

/* Sets ret[i] to the number of the instance of each trace, from 0 in order of first appearance. Returns how
 * many there are, or -ENOMEM. Takes n * n steps. */
int64_t instances_find(const struct instance_clues *clues, size_t n, instance_events_fn events, void *arg,
                       size_t *ret);

/* A name for each instance, that tells it from the others: its worker ("10.0.0.1:30000"), with the
 * data-parallel rank or the stage where a worker has several; what its files' names have in common; else a
 * letter. numbers: as instances_find() gave them. */
void instances_name(const struct instance_clues *clues, size_t n, const size_t *numbers, size_t n_instances,
                    char (*ret)[INSTANCE_NAME_MAX]);
