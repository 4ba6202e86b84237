/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of workers before and after a benchmark run, and for the peak of the cache every few seconds during it, next
 * to the client's figures. A worker without metrics has none; a run does not fail for it. Calls belong to the caller, which
 * is to be freed first.
 */
#pragma once

#include "daemon/load/workload.h"
#include <event2/event.h>

#define SERVER_METRICS_WORKERS_MAX 64 /* of a larger fleet the first ones */

struct server_metrics_watch;

int server_metrics_new(struct event_base *base, struct caller *caller, const struct load_spec *spec,
                       struct server_metrics_watch **ret);
struct server_metrics_watch *server_metrics_free(struct server_metrics_watch *s);
/* done() once all have responded, never before it returns. */
void server_metrics_before(struct server_metrics_watch *s, void (*done)(void *arg), void *arg);
/* From now on until server_metrics_after(). */
void server_metrics_during(struct server_metrics_watch *s);
void server_metrics_after(struct server_metrics_watch *s, void (*done)(void *arg), void *arg);
/* {"workers": [{"url", and the members of server_metrics_difference()}]}; NULL where no worker has metrics. */
json_t *server_metrics_result(const struct server_metrics_watch *s);
