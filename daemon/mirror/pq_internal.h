/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection (pq.c, pq_connector.c) needs of an address (pq_address.c). */
#pragma once

#include "daemon/mirror/pq_hosts.h"
#include <libpq-fe.h>

#define PQ_PARAMETERS_MAX 64

/* Of PQconnectStartParams(). */
struct pq_keywords {
    const char *keywords[PQ_PARAMETERS_MAX + 1], *values[PQ_PARAMETERS_MAX + 1];
    size_t n;
};

/* The parts of an address; the caller frees them with PQconninfoFree(). NULL: not an address. */
PQconninfoOption *pq_parse(const char *conninfo);
/* The value of a keyword, borrowed; NULL where it is absent or empty. */
const char *pq_option(const PQconninfoOption *options, const char *keyword);
/* The hosts in their order; -EINVAL with the reason, which is static. */
int pq_read_hosts(const PQconninfoOption *options, struct pq_host hosts[static PQ_HOSTS_MAX], size_t *ret_n,
                  const char **ret_reason);
/* What libpq gets for one address of a host, NULL for a socket. passfile: NULL for that of the options. The values
 * are borrowed. */
void pq_read_keywords(const PQconninfoOption *options, const struct pq_host *host, const char *address,
                      const char *passfile, struct pq_keywords *ret);
