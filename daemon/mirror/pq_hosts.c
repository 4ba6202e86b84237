/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/mirror/pq_hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_MAX 65535

static size_t list_count(const char *list)
{
    size_t n = list && *list ? 1 : 0;

    for (const char *p = list; p && *p; p++)
        n += *p == ',';
    return n;
}

/* Item i into ret; false where it is too long. An item past the end is empty. */
static bool list_take(const char *list, size_t i, char *ret, size_t size)
{
    const char *p = list ? list : "";

    for (; i > 0 && *p; i--) {
        p += strcspn(p, ",");
        p += *p == ',';
    }
    size_t n = strcspn(p, ",");
    if (i > 0)
        n = 0;
    if (n >= size)
        return false;
    memcpy(ret, p, n);
    ret[n] = '\0';
    return true;
}

static bool port_is_valid(const char *port)
{
    size_t n = strspn(port, "0123456789");
    return n > 0 && n <= 5 && !port[n] && atoi(port) >= 1 && atoi(port) <= PORT_MAX;
}

int pq_hosts_parse(const char *hosts, const char *addresses, const char *ports,
                   struct pq_host ret[static PQ_HOSTS_MAX], size_t *ret_n, const char **ret_reason)
{
    size_t n_hosts = list_count(hosts), n_addresses = list_count(addresses), n_ports = list_count(ports);
    size_t n = MAX(MAX(n_hosts, n_addresses), (size_t)1);

    *ret_n = 0;
    *ret_reason = "host= and hostaddr= name different numbers of hosts";
    if (n_hosts > 0 && n_addresses > 0 && n_hosts != n_addresses)
        return -EINVAL;
    *ret_reason = "port= names another number of ports than there are hosts";
    if (n_ports > 1 && n_ports != n)
        return -EINVAL;
    *ret_reason = "there are more than 16 hosts";
    if (n > PQ_HOSTS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        struct pq_host *h = &ret[i];
        *ret_reason = "the name of a host is too long";
        if (!list_take(hosts, i, h->name, sizeof(h->name)) ||
            !list_take(addresses, i, h->address, sizeof(h->address)))
            return -EINVAL;
        *ret_reason = "a port is a number from 1 to 65535";
        if (!list_take(ports, n_ports == 1 ? 0 : i, h->port, sizeof(h->port)))
            return -EINVAL;
        if (!*h->port)
            strcpy(h->port, PQ_PORT_DEFAULT);
        if (!port_is_valid(h->port))
            return -EINVAL;
    }
    *ret_n = n;
    *ret_reason = NULL;
    return 0;
}

bool pq_host_is_socket(const struct pq_host *h)
{
    return !*h->address && (!*h->name || *h->name == '/' || *h->name == '@');
}

const char *pq_host_label(const struct pq_host *h)
{
    return *h->name ? h->name : *h->address ? h->address : "the local socket";
}
