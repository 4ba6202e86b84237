/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/network.h"

#include "base/alloc.h"
#include "base/metadata_address.h"
#include "base/text.h"
#include <arpa/inet.h>
#include <errno.h>

#define V4(prefix, ...)                                                                                      \
    {                                                                                                        \
        {.s6_addr = {[10] = 0xff, 0xff, __VA_ARGS__}}, 96 + (prefix)                                         \
    }
#define V6(prefix, ...)                                                                                      \
    {                                                                                                        \
        {.s6_addr = {__VA_ARGS__}}, prefix                                                                   \
    }

/* -- Tables ------------------------------------------------------------------------------------------- */

/* Words that stand for networks. Link-local is in neither: nobody serves there but what clouds put there. */
static const struct {
    const char *word;
    struct address_range range;
} words[] = {
    {"loopback", V4(8, 127)},     {"loopback", V6(128, [15] = 1)}, {"private", V4(8, 10)},
    {"private", V4(12, 172, 16)}, {"private", V4(16, 192, 168)},   {"private", V6(7, 0xfc)},
    {"private", V4(10, 100, 64)}, /* carriers' and clouds' own; pods of EKS have such addresses */
};

static const struct network_refusal outside = {
    "is outside of [network] allow= in profd.conf: not called",
    "Where profd is to call it, add its address or network to allow= in [network] of profd.conf.",
};
static const struct network_refusal metadata = {
    "is where a cloud hands out credentials: never called, even if [network] allow= contains it",
    "Find out where this address comes from: it belongs to no worker and no router.",
};
static const struct network_refusal nobody = {
    "is not the address of a single host: never called, even if [network] allow= contains it",
    "Use the address of the server.",
};
static const struct network_refusal unknown = {
    "is neither an IPv4 nor an IPv6 address: never called",
    "Use the address of the server.",
};

/* Each of them is the address of no single host. */
static const struct address_range nowhere[] = {
    V4(8, 0),
    V4(4, 224), /* multicast */
    V4(4, 240), /* reserved, and broadcast */
    V6(8, 0xff),
};

/* -- Lists -------------------------------------------------------------------------------------------- */

static void network_add_range(struct network_policy *p, const struct address_range *r)
{
    VEC_GROW(p->ranges, p->n, p->cap);
    p->ranges[p->n++] = *r;
}

static bool network_add_word(struct network_policy *p, const char *word)
{
    bool known = false;

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (streq(words[i].word, word)) {
            network_add_range(p, &words[i].range);
            known = true;
        }
    return known;
}

/* NULL, or the reason. */
static char *network_add_item(struct network_policy *p, const char *item)
{
    struct address_range range;
    const char *reason;

    if (network_add_word(p, item))
        return NULL;
    int r = address_range_parse(item, &range, &reason);
    if (r == -ERANGE)
        return xasprintf("%s: %s", item, reason);
    if (r < 0)
        return xasprintf("%s is no address, network, \"loopback\" or \"private\"", item);
    network_add_range(p, &range);
    return NULL;
}

char *network_format(const struct network_policy *p)
{
    char *text = NULL, address[INET6_ADDRSTRLEN];
    size_t size;
    FILE *out = xmemstream(&text, &size);

    for (size_t i = 0; i < p->n; i++) {
        const struct address_range *range = &p->ranges[i];
        bool is_v4 = address_is_v4(&range->address);
        inet_ntop(is_v4 ? AF_INET : AF_INET6, range->address.s6_addr + (is_v4 ? 12 : 0), address,
                  sizeof(address));
        fprintf(out, "%s%s/%u", i ? " " : "", address, range->bits - (is_v4 ? 96 : 0));
    }
    fclose(out);
    return text;
}

int network_add(struct network_policy *p, const char *list, char **ret_reason)
{
    struct network_policy added = {0};
    const char *word;
    char *reason = NULL;
    size_t size;

    while (!reason && (size = words_next(&list, &word)) > 0) {
        _cleanup_(freep) char *item = xstrndup(word, size);
        reason = network_add_item(&added, item);
    }
    size_t kept = p->replaceable ? 0 : p->n;
    if (!reason && (added.n == 0 || added.n + kept > NETWORK_RANGES_MAX))
        reason =
            added.n ? xasprintf("more than %d networks", NETWORK_RANGES_MAX) : xstrdup("no network is named");
    if (!reason) {
        p->n = kept;
        p->replaceable = false;
        for (size_t i = 0; i < added.n; i++)
            network_add_range(p, &added.ranges[i]);
    }
    network_done(&added);
    *ret_reason = reason;
    return reason ? -EINVAL : 0;
}

void network_copy(const struct network_policy *from, struct network_policy *ret)
{
    *ret = (struct network_policy){.replaceable = from->replaceable};
    for (size_t i = 0; i < from->n; i++)
        network_add_range(ret, &from->ranges[i]);
}

void network_done(struct network_policy *p)
{
    free(p->ranges);
    *p = (struct network_policy){0};
}

/* -- The decision ------------------------------------------------------------------------------------- */

/* By 0.0.0.0 and :: Linux connects to loopback. */
static struct in6_addr reached_by(const struct in6_addr *address)
{
    if (!address_is_wildcard(address))
        return *address;
    return address_is_v4(address) ? address_v4(htonl(INADDR_LOOPBACK)) : in6addr_loopback;
}

static const struct network_refusal *refused_for_ever(const struct in6_addr *a)
{
    if (address_is_metadata(a))
        return &metadata;
    for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++)
        if (address_range_has(&nowhere[i], a))
            return &nobody;
    return NULL;
}

const struct network_refusal *network_refuses_ever(const struct in6_addr *address)
{
    const struct in6_addr a = reached_by(address);
    return refused_for_ever(&a);
}

const struct network_refusal *network_refuses(const struct network_policy *p, const struct in6_addr *address)
{
    if (!address)
        return &unknown;
    const struct in6_addr a = reached_by(address);
    const struct network_refusal *refusal = refused_for_ever(&a);
    for (size_t i = 0; i < p->n && !refusal; i++)
        if (address_range_has(&p->ranges[i], &a))
            return NULL;
    return refusal ? refusal : &outside;
}

bool network_allows(const struct network_policy *p, const struct in6_addr *address)
{
    return network_refuses(p, address) == NULL;
}
