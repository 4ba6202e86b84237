/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_peers.h"

#include "base/address.h"
#include "base/alloc.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

void http_peer_read(int fd, struct http_peer *ret)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } address = {0};
    socklen_t size = sizeof(address);
    char host[ADDRESS_TEXT_SIZE];

    *ret = (struct http_peer){.uid = (uid_t)-1, .gid = (gid_t)-1, .pid = -1};
    getpeername(fd, &address.any, &size);
    if (address_of_socket(&address.any, &ret->ip)) {
        in_port_t port = address.any.sa_family == AF_INET ? address.in.sin_port : address.in6.sin6_port;
        address_format(&ret->ip, host);
        snprintf(ret->address, sizeof(ret->address), "%s:%u", host, ntohs(port));
    } else if (address.any.sa_family == AF_UNIX) {
        struct ucred cred;
        size = sizeof(cred);
        snprintf(ret->address, sizeof(ret->address), HTTP_PEER_UNIX);
        ret->local = true;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0) {
            ret->uid = cred.uid;
            ret->gid = cred.gid;
            ret->pid = cred.pid;
        }
    }
}

bool http_socket_is_tcp(int fd)
{
    int domain = AF_UNSPEC;
    socklen_t size = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain != AF_UNIX;
}

struct anonymous_group {
    LIST_ENTRY(anonymous_group) link;
    struct in6_addr network;
    TAILQ_HEAD(, anonymous) members; /* the one that was added first is at the head */
    unsigned n;
};

static struct anonymous_group *anonymous_group_find(const struct anonymous_list *list,
                                                    const struct in6_addr *address)
{
    const struct in6_addr network = address_network(address);
    struct anonymous_group *g;

    LIST_FOREACH(g, &list->groups, link)
        if (IN6_ARE_ADDR_EQUAL(&g->network, &network))
            return g;
    return NULL;
}

void anonymous_add(struct anonymous_list *list, struct anonymous *a, const struct in6_addr *address)
{
    if (a->group)
        return;
    struct anonymous_group *g = anonymous_group_find(list, address);
    if (!g) {
        g = xcalloc(1, sizeof(*g));
        g->network = address_network(address);
        TAILQ_INIT(&g->members);
        LIST_INSERT_HEAD(&list->groups, g, link);
    }
    TAILQ_INSERT_TAIL(&g->members, a, next);
    g->n++;
    a->group = g;
    a->number = list->n_added++;
}

void anonymous_remove(struct anonymous_list *list, struct anonymous *a)
{
    struct anonymous_group *g = TAKE_PTR(a->group);

    if (!g)
        return;
    TAILQ_REMOVE(&g->members, a, next);
    if (--g->n > 0)
        return;
    LIST_REMOVE(g, link);
    free(g);
}

/* Whether a gives up a member before b does. */
static bool anonymous_group_precedes(const struct anonymous_group *a, const struct anonymous_group *b)
{
    if (a->n != b->n)
        return a->n > b->n;
    return TAILQ_FIRST(&a->members)->number < TAILQ_FIRST(&b->members)->number;
}

struct anonymous *anonymous_first(const struct anonymous_list *list)
{
    const struct anonymous_group *g, *largest = NULL;

    LIST_FOREACH(g, &list->groups, link)
        if (!largest || anonymous_group_precedes(g, largest))
            largest = g;
    return largest ? TAILQ_FIRST(&largest->members) : NULL;
}

struct anonymous *anonymous_over_share(const struct anonymous_list *list, const struct in6_addr *address,
                                       unsigned share)
{
    const struct anonymous_group *g =
        address_is_loopback(address) ? NULL : anonymous_group_find(list, address);

    return g && g->n >= share ? TAILQ_FIRST(&g->members) : NULL;
}
