/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host answers to a poll of its lease (GET /v1/leases/N), checked and as values. The host is not trusted: known
 * members only, numbers within bounds, texts cleaned and bounded, and no path of another host becomes one of this host.
 * Pure.
 */
#pragma once

#include "base/json.h"
#include "proto/names.h"

#define DELIVERY_TARGETS_MAX 10000
#define DELIVERY_TRACES_MAX  256
#define DELIVERY_TEXT_MAX    4096 /* bytes of one text */
#define DELIVERY_FACTS_MAX                                                                                   \
    65536 /* bytes of the facts of one trace, as JSON: all of its labels may take 16 KiB */
/* Of a file: more than any disk of a host has, and small enough that sums and durations of a transfer do not overflow. */
#define DELIVERY_FILE_BYTES_MAX (INT64_C(64) << 40)

struct delivered_target {
    char *worker; /* URL */
    enum state state;
    int64_t ranks_expected;                             /* 0: not reported */
    int64_t start_sent_mono_ns, start_answered_mono_ns; /* by the host's clock; RECORD_NONE where absent */
    int64_t stop_sent_mono_ns, stop_answered_mono_ns;
    int64_t start_status, stop_status;
    int64_t bytes_seen;
    char *output_dir, *trace_dir, *profile_id; /* of the host; shown, never opened here */
    char *failure, *remedy;
};

struct delivered_trace {
    char uuid[37];
    int64_t remote_id;   /* its number at the host */
    int64_t recorded_at; /* wall clock of the host */
    char *worker;        /* URL; NULL: none */
    char *facts;         /* JSON text, as trace_facts_check() leaves it */
};

struct delivery {
    char *state; /* of the lease, a word */
    bool armed;  /* the host's session waits for its start time */
    bool over;   /* nothing follows once the rows up to `next` were taken */
    int64_t next;
    char *session;         /* "s9", of the host */
    char *reason, *remedy; /* of the host's session; NULL: none */
    json_t *remarks;       /* array of {worker?, text, remedy?}; NULL: none */
    struct delivered_target *targets;
    size_t n_targets;
    struct delivered_trace *traces;
    size_t n_traces;
};

/* 0 or -EINVAL with one line in ret_reason (static). delivery_done() in either case. */
int delivery_parse(const json_t *answer, struct delivery *ret, const char **ret_reason);
void delivery_done(struct delivery *d);

/* One trace of such an answer, or of a list of traces. -EINVAL: not the facts of a trace. delivered_trace_done() in either case. */
int delivered_trace_parse(const json_t *trace, struct delivered_trace *ret);
void delivered_trace_done(struct delivered_trace *t);

/*
 * The members of a trace (openapi.yaml, Trace) that another host may set: names, numbers and texts. Its paths are those of
 * its host: they are shown with the host's name, and never opened. A new object; NULL: not the facts of a trace.
 */
json_t *trace_facts_check(const json_t *trace);
