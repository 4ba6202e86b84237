/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The D-Bus transport, org.profd1: the operations of the HTTP API for clients of the system's or their own
 * bus, objects for sessions, and signals of changes. It translates; the handlers are the same.
 *
 * bus.c owns the connection and its name, bus_calls.c authorizes and answers calls, bus_objects.c shows
 * sessions and announces changes. Nothing here waits for the bus or for polkit. Without a bus profd continues,
 * and connects when the bus is back. bus_none.c is what a build without D-Bus has instead.
 */
#pragma once

#include "daemon/api/settings.h"

struct api;
struct bus;

/* Borrows the API, whose modules must exist. Begins to connect. -ENOMEM, or -EOPNOTSUPP in a build without
 * D-Bus, which is logged. */
int bus_new(struct api *api, enum bus_kind kind, struct bus **ret);
/* Releases the name; calls in flight are still answered. */
void bus_stop_accepting(struct bus *b);
/* Ends the connection and what waits for an answer. The modules are not used from here on. */
void bus_close(struct bus *b);
/* After catalog_close(), whose last commit may still announce events. */
struct bus *bus_free(struct bus *b);
