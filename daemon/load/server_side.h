/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers themselves say of a run: their /metrics before it, after it, and for the cache's peak every
 * few seconds meanwhile. A worker without metrics has none; a run does not fail for it.
 */
#pragma once

#include "daemon/load/order.h"

#define SERVER_SIDE_WORKERS_MAX 64 /* of a larger fleet the first ones */

struct server_side;

int server_side_new(struct event_base *base, struct caller *caller, const struct order *order,
                    struct server_side **ret);
/* Its calls go with the caller, which is to be freed first. */
struct server_side *server_side_free(struct server_side *s);
/* The look before; done() when all have answered, never before it returns. */
void server_side_before(struct server_side *s, void (*done)(void *arg), void *arg);
/* From here on, until the look after. */
void server_side_watch(struct server_side *s);
void server_side_after(struct server_side *s, void (*done)(void *arg), void *arg);
/* {"workers": [{"url", and the members of server_metrics_difference()}]}; NULL where none said anything. */
json_t *server_side_result(const struct server_side *s);
