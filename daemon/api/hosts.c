/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/hosts.h"

#include "base/address.h"
#include <ctype.h>
#include <strings.h>

#define PORT_DIGITS_MAX 5

static bool is_port_or_nothing(const char *text)
{
    if (!*text)
        return true;
    size_t n = strspn(text + 1, "0123456789");
    return *text == ':' && n > 0 && n <= PORT_DIGITS_MAX && !text[1 + n];
}

static bool is_listened_on(const struct in6_addr *ip, const struct host_rules *rules)
{
    for (size_t i = 0; i < rules->n_addresses; i++) {
        const struct in6_addr *own = &rules->addresses[i].ip;
        bool same_family = address_is_v4(own) == address_is_v4(ip);
        if (IN6_ARE_ADDR_EQUAL(own, ip) || (same_family && address_is_wildcard(own)))
            return true;
    }
    return false;
}

static bool is_configured(const char *name, const struct host_rules *rules)
{
    for (size_t i = 0; i < rules->n_names; i++)
        if (strcasecmp(name, rules->names[i]) == 0)
            return true;
    return false;
}

bool host_is_ours(const char *header, const struct host_rules *rules)
{
    bool in_brackets = *header == '[';
    const char *start = header + in_brackets;
    size_t n = strcspn(start, in_brackets ? "]" : ":");
    const char *end = start + n;
    char name[HOST_NAME_MAX_BYTES + 1];
    struct in6_addr ip;

    if (n == 0 || n >= sizeof(name) || (in_brackets && *end != ']') || !is_port_or_nothing(end + in_brackets))
        return false;
    memcpy(name, start, n);
    name[n] = '\0';
    if (address_parse(name, &ip) == 0)
        return in_brackets == (strchr(name, ':') != NULL) &&
               (address_is_loopback(&ip) || is_listened_on(&ip, rules));
    return !in_brackets && host_is_name(name) &&
           (strcasecmp(name, "localhost") == 0 || is_configured(name, rules));
}
