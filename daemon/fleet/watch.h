/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fleets that somebody looks at: their workers, each worker's figures every two seconds, and what is unusual.
 *
 * A fleet is polled once for all who look at it, from the first to the last of them: without lookers nothing is asked. It is
 * discovered at the beginning and every 30 s, as for a list of workers. Calls are those of call.h, with its network policy
 * and its memory for answers; nothing here blocks the loop.
 *
 * Both the number of fleets and of the workers of each are bounded, and an event reports how many are left out.
 */
#pragma once

#include "daemon/fleet/fleet.h"

#define FLEET_WATCHES_MAX          8
#define FLEET_WATCH_WORKERS_MAX    500
#define FLEET_WATCH_INTERVAL_NS    (2 * NS_PER_S)
#define FLEET_WATCH_DISCOVERY_NS   (30 * NS_PER_S)
#define FLEET_WATCH_REDISCOVERY_NS (5 * NS_PER_S) /* after a worker came back; at the earliest */
/* Of one event, whose client may read slowly (stream_lag_max of daemon/api/http.h). Others are left out. */
#define FLEET_EVENT_WORKERS_BYTES (160 << 10)
#define FLEET_EVENT_ODD_BYTES     (64 << 10)
/* After that, an event does not wait for slow workers. */
#define FLEET_WATCH_PATIENCE_NS (NS_PER_S)
/* A worker that no list has any more and that does not answer is shown for this long. */
#define FLEET_WATCH_LEFT_NS (600 * NS_PER_S)

struct fleet_watches;
struct fleet_looker;

/* The session that records a worker, for its URL; NULL: none. Borrowed until the next call. */
typedef const char *(*fleet_busy)(const char *url, void *arg);

/* Borrows all arguments for its lifetime. prepare() is called before the workers of an event are asked for their sessions;
 * may be NULL. */
int fleet_watches_new(struct event_base *base, struct fleet_finder *finder, struct caller *caller,
                      const struct fleet_settings *settings, struct fleet_watches **ret);
void fleet_watches_set_busy(struct fleet_watches *all, void (*prepare)(void *arg), fleet_busy busy,
                            void *arg);
/* Ends what all lookers look at; none may be left that expects an event. */
struct fleet_watches *fleet_watches_free(struct fleet_watches *all);

/*
 * Looks at n fleets together; copies the queries. on_event() comes with the data of each event, as JSON text in one line, from
 * the loop and never before this returns, until fleet_look_end(), which may be called within it.
 */
struct fleet_looker *fleet_look(struct fleet_watches *all, const struct fleet_query *queries, size_t n,
                                void (*on_event)(const char *data, void *arg), void *arg);
void fleet_look_end(struct fleet_looker *l);
