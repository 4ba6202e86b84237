/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns=NAME:PORT: each address of a name is a worker, as those of a headless service of Kubernetes, or of the replicas of
 * a service of Docker Compose. srv=_http._tcp.NAME: each target of an SRV record (RFC 2782), with its port; priorities
 * and weights say who gets requests, and are ignored. A service _https has workers with https://.
 *
 * resolver= (profd.conf only) names another name server than those of resolv.conf, such as Consul's at port 8600. The
 * targets of SRV are then looked up there, too, since nobody else may know them.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/dns_records.h"
#include <ctype.h>
#include <errno.h>
#include <strings.h>

#define HTTPS_SERVICE "_https."
/* Targets of SRV that are looked up one after another. */
#define TARGETS_LOOKED_UP_MAX 64

static bool name_is_plain(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr(".-_", name[i]))
            return false;
    return size > 0 && size <= HOST_SIZE_MAX && name[0] != '.' && name[0] != '-' &&
           !memmem(name, size, "..", 2);
}

static int dns_check(const struct source_config *c, const char **reason)
{
    const char *colon = strrchr(c->value, ':');
    size_t size = colon ? (size_t)(colon - c->value) : 0;
    struct in6_addr address;

    *reason = "NAME:PORT, such as vllm.prod.svc.cluster.local:8000";
    if (!colon || port_parse(colon + 1) == 0 || !name_is_plain(c->value, size))
        return -EINVAL;
    _cleanup_(freep) char *name = xstrndup(c->value, size);
    if (address_of_host(name, &address)) {
        *reason = "a name, not an address: use worker=";
        return -EINVAL;
    }
    return 0;
}

static int dns_look(const struct source_config *c, size_t max, struct fleet *f,
                    char why[static SOURCE_WHY_MAX])
{
    _cleanup_(dns_records_done) struct dns_records records = {0};
    const char *colon = strrchr(c->value, ':');
    _cleanup_(freep) char *name = xstrndup(c->value, (size_t)(colon - c->value));
    struct worker *w;

    int r = dns_look_up_addresses(c->resolver, name, max, &records, why);
    for (size_t i = 0; i < records.n && r == 0; i++) {
        _cleanup_(freep) char *address = xasprintf("%s%s", records.items[i].host, colon);
        r = source_add_worker(f, max, NULL, address, &w);
    }
    return r;
}

static const char *dns_remedy(const struct source_config *c, int err, int status)
{
    switch (err) {
    case -ENOENT:
        return status == 0
                   ? "Check the name: getent ahosts NAME. A service of Kubernetes must be headless "
                     "(clusterIP: None), and is found from within the cluster as SERVICE.NAMESPACE.svc."
                   : "The name has no address now: try again when workers are running.";
    case -ETIMEDOUT:
    case -EIO:
        return "Check the name servers in /etc/resolv.conf, or the one of resolver= in profd.conf.";
    default:
        return NULL;
    }
}

const struct fleet_source source_dns = {
    .key = "dns",
    .check = dns_check,
    .look = dns_look,
    .remedy = dns_remedy,
};

/* -- srv= ---------------------------------------------------------------------------------------------------- */

static int srv_check(const struct source_config *c, const char **reason)
{
    size_t size = strlen(c->value);

    *reason = "the name of a service, such as _http._tcp.vllm.prod.svc.cluster.local";
    return name_is_plain(c->value, size) && strchr(c->value, '.') ? 0 : -EINVAL;
}

/* The addresses of one target, as workers; the target is what they are known by. */
static int srv_add_addresses(const struct source_config *c, const struct dns_record *target,
                             const char *scheme, size_t max, struct fleet *f, char why[static SOURCE_WHY_MAX])
{
    _cleanup_(dns_records_done) struct dns_records records = {0};
    struct worker *w;

    int r = dns_look_up_addresses(c->resolver, target->host, max, &records, why);
    if (r == -ETIMEDOUT || r == -E2BIG)
        return r;
    if (records.n == 0)
        fleet_add_note(f, "the target %s:%d of %s is ignored: it has no address", target->host, target->port,
                       c->value);
    /* Several addresses of one target are one server. */
    if (records.n == 0)
        return 0;
    _cleanup_(freep) char *address = xasprintf("%s:%d", records.items[0].host, target->port);
    r = source_add_worker(f, max, scheme, address, &w);
    if (w)
        w->identity = xasprintf("%s:%d", target->host, target->port);
    return r;
}

static int srv_look(const struct source_config *c, size_t max, struct fleet *f,
                    char why[static SOURCE_WHY_MAX])
{
    _cleanup_(dns_records_done) struct dns_records records = {0};
    bool is_https = strncasecmp(c->value, HTTPS_SERVICE, strlen(HTTPS_SERVICE)) == 0;
    const char *scheme = is_https ? "https" : "http";
    struct worker *w;

    int r = dns_look_up(c->resolver, c->value, DNS_SRV, max, &records, why);
    if (r == 0 && c->resolver && records.n > TARGETS_LOOKED_UP_MAX) {
        snprintf(why, SOURCE_WHY_MAX, "more than %d targets, whose addresses are looked up one after another",
                 TARGETS_LOOKED_UP_MAX);
        r = -EPROTO;
    }
    for (size_t i = 0; i < records.n && r == 0; i++) {
        const struct dns_record *target = &records.items[i];
        _cleanup_(freep) char *address = xasprintf("%s:%d", target->host, target->port);
        r = c->resolver ? srv_add_addresses(c, target, scheme, max, f, why)
                        : source_add_worker(f, max, scheme, address, &w);
    }
    return r;
}

static const char *srv_remedy(const struct source_config *c, int err, int status)
{
    if (err != -ENOENT)
        return dns_remedy(c, err, status);
    return status == 0
               ? "Check the name: it begins with the service and the protocol, as in "
                 "_http._tcp.SERVICE.NAMESPACE.svc; Kubernetes has it for named ports only."
               : "The name has no SRV record: try again when workers are running, or use dns=NAME:PORT.";
}

const struct fleet_source source_srv = {
    .key = "srv",
    .check = srv_check,
    .look = srv_look,
    .remedy = srv_remedy,
};
