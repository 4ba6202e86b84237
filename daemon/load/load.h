/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load itself: keeps so many requests under way (closed loop), or sends each at its moment (open loop),
 * until all were sent, the time is over or somebody asks for the end, and then waits for what is under way.
 *
 * A closed loop's request should leave when the one before it in its place ended, an open loop's by the
 * schedule: what keeps it from that is lateness of the sender. A target that answers 429 is left alone as
 * long as it asks for; what should have gone there goes elsewhere, or waits.
 */
#pragma once

#include "daemon/load/records.h"
#include "daemon/load/schedule.h"

struct load;

struct load_setup {
    struct event_base *base;
    struct wires *wires;
    struct emit *emit;
    const struct prompts *prompts; /* and so the workload */
    const char *model;
    struct target *targets;
    size_t n_targets;
    int64_t in_flight_max;    /* of this process */
    void (*ended)(void *arg); /* in a later turn of the loop; nothing is under way */
    void *arg;
};

/* Borrows what setup names. The schedule is made here: -ENOMEM. */
int load_new(const struct load_setup *setup, struct load **ret);
struct load *load_free(struct load *l);
void load_start(struct load *l);
/* Sends nothing more. */
void load_stop(struct load *l);
struct records *load_records(struct load *l);
int64_t load_started_ns(const struct load *l);
int64_t load_ended_ns(const struct load *l);
json_t *load_live(struct load *l);
