/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that are systemd units: from the names of units to the URLs on which their processes listen.
 *
 * systemd provides the processes of a unit, /proc the ports on which they listen. If a unit has several ports,
 * profd identifies those that answer as an engine; the others are internal to the unit.
 */
#pragma once

#include "client/transport/connection.h"

struct unit_worker {
    char *url;
    size_t unit; /* index of its unit */
};

struct unit_workers {
    struct unit_worker *items;
    size_t n, cap;
    char **units; /* names of the running ones */
    size_t n_units, cap_units;
};

/* Patterns of system units and of units of the user. Prints the units that are left out. 0 or the problem. */
int units_find_workers(struct client *c, const struct option_list *system, const struct option_list *user,
                       struct unit_workers *ret, struct problem *p);
void unit_workers_done(struct unit_workers *w);
