/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of an address of PostgreSQL, as libpq reads them: lists of hosts, of numeric addresses and of ports, separated
 * by commas, that belong together by position. Pure.
 *
 * profd connects to one host after another itself: libpq resolves names on the calling thread, and has no time limit of a host
 * when it is not waited for (PostgreSQL 15, libpq, "Multiple Hosts", PQconnectPoll()).
 */
#pragma once

#include "base/util.h"

#define PQ_HOSTS_MAX    16
#define PQ_HOST_BYTES   256
#define PQ_PORT_DEFAULT "5432"

struct pq_host {
    char name[PQ_HOST_BYTES];    /* empty where there is only an address */
    char address[PQ_HOST_BYTES]; /* numeric; empty: the name is resolved, or a socket's directory */
    char port[8];
};

/* NULL or "" are not given. One port is that of all hosts. -EINVAL with the reason, which is static. */
int pq_hosts_parse(const char *hosts, const char *addresses, const char *ports,
                   struct pq_host ret[static PQ_HOSTS_MAX], size_t *ret_n, const char **ret_reason);
/* A directory of sockets, or an abstract one. */
bool pq_host_is_socket(const struct pq_host *h);
/* For texts; borrowed. */
const char *pq_host_label(const struct pq_host *h);
