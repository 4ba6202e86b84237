/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection (pq.c) needs of an address (pq_address.c). */
#pragma once

#include "daemon/mirror/pq_hosts.h"
#include <libpq-fe.h>

/* The parts of an address; the caller frees them with PQconninfoFree(). NULL: not an address. */
PQconninfoOption *pq_parse(const char *conninfo);
/* The value of a keyword, borrowed; NULL where it is absent or empty. */
const char *pq_option(const PQconninfoOption *options, const char *keyword);
/* The hosts in their order; -EINVAL with the reason, which is static. */
int pq_read_hosts(const PQconninfoOption *options, struct pq_host hosts[static PQ_HOSTS_MAX], size_t *ret_n,
                  const char **ret_reason);
