/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of work over several hosts: [hosts] and [peer NAME] of profd.conf. The configuration owns and fills the
 * structs, the modules borrow them.
 */
#pragma once

#include "daemon/fleet/call.h"

/* Where a profd of another host listens unless its URL or source has a port. */
#define PEER_PORT_DEFAULT 9460
/* [peer NAME] host_uuid=: its catalog may be another one after each restart. */
#define PEER_UUID_ANY "any"

/* A [peer NAME] section. */
struct peer_config {
    char *name;
    char *url;                           /* normalised */
    struct call_credentials credentials; /* where one of them is set, none of [hosts] is used */
    char *host_uuid;                     /* of its catalog, PEER_UUID_ANY; NULL: that of its first answer */
    struct in6_addr *addresses;          /* further addresses of its host, at which workers are listed */
    size_t n_addresses, cap_addresses;
};

struct hosts_settings {
    char *name;     /* of this host, as people know it; NULL: gethostname() */
    char **sources; /* "dns:NAME:PORT", "slurm:PORT", "workers:PORT" */
    size_t n_sources, cap_sources;
    struct call_credentials credentials;
    int64_t call_ns;        /* of one call to a peer */
    int64_t lease_ns;       /* how long a host keeps workers for a coordinator that is silent */
    int64_t unreachable_ns; /* how long a session waits for a host that does not answer */
    int64_t delivery_ns;    /* how long traces of such a host are still asked for */
    bool plain_http;        /* of [http]: the network is protected otherwise */
    struct peer_config *peers;
    size_t n_peers, cap_peers;
};
void hosts_settings_done(struct hosts_settings *s);

/* The credentials that a peer is called with: its own, else those of [hosts]. config may be NULL. Borrowed. */
const struct call_credentials *hosts_credentials(const struct hosts_settings *s,
                                                 const struct peer_config *config);
/* A value of peers=: -EINVAL with the reason (static), which follows "must be ". Pure. */
int peer_source_check(const char *text, const char **reason);
