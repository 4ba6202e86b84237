/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out what each worker of a fleet is, by questions that have no side effects on any engine: a bounded
 * number of workers at once, the questions to one worker one after another on one connection, or all together where it
 * answers late.
 */
#pragma once

#include "daemon/fleet/call.h"
#include "daemon/fleet/fleet.h"

struct identification;

/*
 * kept: bytes of answers that all identifications keep at this moment, which is bounded. Borrows everything
 * until done(), which comes once and later. NULL, and no done(), where nobody needs to be asked: workers that
 * have a reason already are left alone.
 */
struct identification *identify_start(struct event_base *base, struct caller *caller,
                                      const struct fleet_settings *settings, struct fleet *fleet,
                                      size_t *kept, void (*done)(void *arg), void *arg);
void identify_cancel(struct identification *id);
