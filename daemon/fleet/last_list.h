/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last list of workers that the source of a configured fleet gave, for the time when it gives none: Prometheus does
 * the same with its files and URLs of targets. In memory only; what identification finds out is not kept.
 */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/source.h"

/* Of fleets; the list that was stored first is overwritten. */
#define LAST_LISTS_MAX 64

struct last_list;
struct last_lists {
    struct last_list *items[LAST_LISTS_MAX];
    size_t n_stored;
};

void last_lists_done(struct last_lists *l);
/* Copies what the source found for a fleet. */
void last_lists_store(struct last_lists *l, const char *fleet, const struct source_config *by,
                      const struct fleet *found);
/* A fleet as it was stored, with a note that has the problem and the age; NULL where there is none, or where the source
 * of the fleet is another one by now. */
struct fleet *last_lists_get(const struct last_lists *l, const char *fleet, const struct source_config *by,
                             const struct problem *p);
