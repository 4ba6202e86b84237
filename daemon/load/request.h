/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to one target, from its body to its record: what wire.h carries, answer.h reads.
 *
 * Moments in its record are of the monotonic clock until the caller counts them from the run's start.
 */
#pragma once

#include "daemon/load/answer.h"
#include "daemon/load/prompts.h"
#include "daemon/load/target.h"
#include "daemon/load/wire.h"

struct request {
    struct target *target;
    struct request_record record;
    struct answer answer;
    int64_t *tokens_seen;                       /* the order's */
    int64_t retry_after_ns;                     /* what the server asked for; 0 */
    void (*done)(struct request *r, void *arg); /* owns it then */
    void *arg;
};

struct request_order {
    struct target *target;
    int32_t target_index; /* for the record */
    const struct prompts *prompts;
    const char *model;
    int64_t index, intended_ns;
    int64_t *tokens_seen; /* grows as tokens come; NULL where nobody looks */
    void (*done)(struct request *r, void *arg);
    void *arg;
};

extern const struct wire_ops request_ops;

/* Ends in done(), never before it returns; a negative errno where it could not begin, and then nothing
 * follows. */
int request_send(struct wires *wires, const struct request_order *order);
void request_free(struct request *r);
