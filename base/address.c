/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>

#define MAPPED_BITS       96 /* in front of an IPv4 address */
#define ALL_BITS          128
#define PREFIX_DIGITS_MAX 3
#define PORT_DIGITS_MAX   5
#define NETWORK_BYTES     8 /* of an IPv6 address: one customer's /64 */

/* -- Addresses ---------------------------------------------------------------------------------------- */

struct in6_addr address_v4(in_addr_t address)
{
    struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(mapped.s6_addr + 12, &address, sizeof(address));
    return mapped;
}

int address_parse(const char *text, struct in6_addr *ret)
{
    struct in_addr v4;

    if (inet_pton(AF_INET, text, &v4) == 1) {
        *ret = address_v4(v4.s_addr);
        return 0;
    }
    return inet_pton(AF_INET6, text, ret) == 1 ? 0 : -EINVAL;
}

bool address_of_host(const char *host, struct in6_addr *ret)
{
    char bare[INET6_ADDRSTRLEN];
    size_t n = strlen(host);

    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    }
    if (n >= sizeof(bare))
        return false;
    memcpy(bare, host, n);
    bare[n] = '\0';
    return address_parse(bare, ret) == 0;
}

int port_parse(const char *text)
{
    size_t digits = text ? strspn(text, "0123456789") : 0;

    if (digits == 0 || digits > PORT_DIGITS_MAX || text[digits])
        return 0;
    long port = strtol(text, NULL, 10);
    return port <= UINT16_MAX ? (int)port : 0;
}

bool address_of_socket(const struct sockaddr *address, struct in6_addr *ret)
{
    if (address->sa_family == AF_INET)
        *ret = address_v4(((const struct sockaddr_in *)address)->sin_addr.s_addr);
    else if (address->sa_family == AF_INET6)
        *ret = ((const struct sockaddr_in6 *)address)->sin6_addr;
    else
        return false;
    return true;
}

socklen_t address_to_socket(const struct in6_addr *address, int port, struct sockaddr_in6 *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    *ret = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = v4.sin_port, .sin6_addr = *address};
    if (!address_is_v4(address))
        return sizeof(*ret);
    memcpy(&v4.sin_addr, address->s6_addr + 12, sizeof(v4.sin_addr));
    memcpy(ret, &v4, sizeof(v4));
    return sizeof(v4);
}

void address_format(const struct in6_addr *address, char ret[static ADDRESS_TEXT_SIZE])
{
    char text[INET6_ADDRSTRLEN];
    bool is_v4 = address_is_v4(address);

    inet_ntop(is_v4 ? AF_INET : AF_INET6, address->s6_addr + (is_v4 ? 12 : 0), text, sizeof(text));
    snprintf(ret, ADDRESS_TEXT_SIZE, is_v4 ? "%s" : "[%s]", text);
}

struct in6_addr address_network(const struct in6_addr *address)
{
    struct in6_addr network = *address;

    if (!address_is_v4(address))
        memset(network.s6_addr + NETWORK_BYTES, 0, sizeof(network.s6_addr) - NETWORK_BYTES);
    return network;
}

bool address_is_v4(const struct in6_addr *address)
{
    return IN6_IS_ADDR_V4MAPPED(address);
}

bool address_is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (address_is_v4(address) && address->s6_addr[12] == IN_LOOPBACKNET);
}

bool address_is_wildcard(const struct in6_addr *address)
{
    static const struct in6_addr any4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return IN6_IS_ADDR_UNSPECIFIED(address) || IN6_ARE_ADDR_EQUAL(address, &any4);
}

/* -- Ranges ------------------------------------------------------------------------------------------- */

static bool address_has_host_part(const struct address_range *r)
{
    for (unsigned i = r->bits; i < ALL_BITS; i++)
        if (r->address.s6_addr[i / 8] >> (7 - i % 8) & 1)
            return true;
    return false;
}

int address_range_parse(const char *text, struct address_range *ret, const char **reason)
{
    bool is_v6 = strchr(text, ':');
    size_t n = strcspn(text, "/");
    const char *bits = text[n] ? text + n + 1 : NULL;
    char address[INET6_ADDRSTRLEN];
    struct address_range r = {.bits = ALL_BITS};

    if (n >= sizeof(address))
        return -EINVAL;
    memcpy(address, text, n);
    address[n] = '\0';
    if (address_parse(address, &r.address) < 0)
        return -EINVAL;
    if (bits) {
        size_t digits = strspn(bits, "0123456789");
        bool is_number = digits > 0 && digits <= PREFIX_DIGITS_MAX && !bits[digits];
        r.bits = (is_v6 ? 0 : MAPPED_BITS) + (is_number ? (unsigned)atoi(bits) : 0);
        if (!is_number || r.bits > ALL_BITS) {
            *reason =
                is_v6 ? "the prefix must be from 0 to 128 bits" : "the prefix must be from 0 to 32 bits";
            return -ERANGE;
        }
    }
    if (address_has_host_part(&r)) {
        *reason = "bits are set after the prefix; write a single address without a prefix";
        return -ERANGE;
    }
    *ret = r;
    return 0;
}

bool address_range_has(const struct address_range *r, const struct in6_addr *address)
{
    unsigned bytes = r->bits / 8, rest = r->bits % 8;

    return address_is_v4(address) == address_is_v4(&r->address) &&
           memcmp(r->address.s6_addr, address->s6_addr, bytes) == 0 &&
           (rest == 0 || (r->address.s6_addr[bytes] ^ address->s6_addr[bytes]) >> (8 - rest) == 0);
}
