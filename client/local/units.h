/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that are units of systemd: from the names of units to the URLs on which their processes listen.
 *
 * systemd says which processes belong to a unit, /proc on which ports those listen. Of a unit with several
 * ports, profd is asked which of them answer as an engine: others are those of its parts among each other.
 */
#pragma once

#include "client/transport/connection.h"

struct unit_worker {
    char *url;
    size_t unit; /* index of the unit that it belongs to */
};

struct unit_workers {
    struct unit_worker *items;
    size_t n, cap;
    char **units; /* names of those that run */
    size_t n_units, cap_units;
};

/* patterns of the system's units and of the user's own. Says which units are left out. 0 or the problem. */
int units_find_workers(struct client *c, const struct option_list *system, const struct option_list *user,
                       struct unit_workers *ret, struct problem *p);
void unit_workers_done(struct unit_workers *w);
