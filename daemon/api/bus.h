/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The D-Bus transport, org.profd1: the operations of the HTTP API for clients of the system's or their own
 * bus, objects for sessions, and signals of what happens. It translates; the handlers are the same.
 *
 * Nothing here waits for the bus or for polkit. Where there is no bus, or it goes away, profd goes on and
 * connects when it is back.
 */
#pragma once

#include "daemon/api/settings.h"

struct bus;
struct api;

/* Borrows the API, whose modules must exist. Begins to connect; -ENOMEM is the only error. */
int bus_new(struct api *api, enum bus_kind kind, struct bus **ret);
/* The name is given up; calls under way are still answered. */
void bus_stop_accepting(struct bus *b);
/* Ends the connection and what waits for an answer. The modules are not used from here on. */
void bus_close(struct bus *b);
/* After catalog_close(), whose last commit may still announce events. */
struct bus *bus_free(struct bus *b);
