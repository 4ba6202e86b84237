/* SPDX-License-Identifier: Apache-2.0 */
/* The peers object, for the files that implement it only. */
#pragma once

#include "daemon/peers/peers.h"
#include <event2/event.h>

/* Peers that are known at a time; what sources list beyond is left out, with a line in the log. */
#define PEERS_MAX 4096

LIST_HEAD(peer_query_list, peer_query);
LIST_HEAD(peers_refreshing_list, peers_refreshing);
LIST_HEAD(clock_measuring_list, clock_measuring);

struct peers {
    struct event_base *base;
    struct caller *caller;
    struct offload *offload;
    struct catalog *catalog;
    bool is_system;
    const struct hosts_settings *settings;
    struct peer_source *sources;
    size_t n_sources;
    struct peer_list peers;
    size_t n_peers;
    struct peer_query_list queries;
    struct clock_measuring_list measurings;
    /* A round of hellos: refreshes that come meanwhile join it. */
    struct peers_refreshing_list refreshing;
    struct event *round_over;
    bool in_round;
    int64_t round_begun_ns, max_age_ns;
    unsigned n_looking;           /* sources that are being looked up before the hellos */
    unsigned n_hellos;            /* in flight */
    uint64_t n_calls, n_failures; /* of calls to peers */
};

/* peer_call.c */
struct peer_query *peer_call(struct peers *p, const struct peer *peer, const char *method, const char *path,
                             const char *body, int64_t timeout_ns, uint64_t origin, peer_done done,
                             void *arg);

/* hello.c: writes the peer's row in the catalog, where that is due. */
void peer_save(struct peer *peer);
/* Asks a peer; peers_on_hello() follows when its state is set. */
void peer_say_hello(struct peer *peer);

/* peer_sources.c: by the settings. */
void peer_sources_renew(struct peers *p);
void peer_sources_free(struct peers *p);
/* Adds what the sources have. peers_on_source() follows for each of those that are returned, never before it returns. */
unsigned peer_sources_look(struct peers *p);
/* Adds the hosts of workers, where a source says so. */
struct fleet;
void peer_sources_take_fleet(struct peers *p, const struct fleet *fleet);

/* peers.c */
void peers_on_source(struct peers *p);
void peers_on_hello(struct peers *p);
/* The peer at a URL, added where it is missing (config NULL: of a source). NULL: there are PEERS_MAX. */
struct peer *peers_put(struct peers *p, const char *name, const char *url, const struct peer_config *config);
