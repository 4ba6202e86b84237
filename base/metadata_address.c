/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metadata_address.h"

#include <arpa/inet.h>

#define V4(prefix, ...)                                                                                      \
    {                                                                                                        \
        {.s6_addr = {[10] = 0xff, 0xff, __VA_ARGS__}}, 96 + (prefix)                                         \
    }
#define V6(prefix, ...)                                                                                      \
    {                                                                                                        \
        {.s6_addr = {__VA_ARGS__}}, prefix                                                                   \
    }

static const struct address_range metadata_ranges[] = {
    V4(32, 169, 254, 169, 254),                         /* nearly all of them */
    V4(32, 169, 254, 170, 2),                           /* AWS: of an ECS task */
    V4(32, 169, 254, 170, 23),                          /* AWS: of an EKS pod */
    V6(128, 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54), /* AWS: fd00:ec2::254 */
    V6(128, 0xfd, 0x00, 0x0e, 0xc2, [15] = 0x23),       /* AWS: fd00:ec2::23 */
    V6(128, 0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54), /* Google: fd20:ce::254 */
    V4(32, 168, 63, 129, 16),                           /* Azure: the host's agent */
    V4(32, 100, 100, 100, 200),                         /* Alibaba */
    V4(32, 169, 254, 0, 23),                            /* Tencent */
    V4(32, 169, 254, 42, 42),                           /* Scaleway */
    V6(128, 0xfd, 0x00, 0x00, 0x42, [15] = 0x42),       /* Scaleway: fd00:42::42 */
    V4(32, 192, 0, 0, 192),                             /* Oracle, the old one */
};

/*
 * Where an IPv4 address lies within IPv6 ones of a prefix. A site may have a prefix of its own for NAT64,
 * which profd does not know: all addresses are checked for the layouts of RFC 6052. It is next to impossible
 * that the address of a server contains a metadata address at one of these offsets by accident.
 */
static const struct carrier {
    struct address_range prefix;
    uint8_t at[4];
    bool is_inverted;
    bool has_zero; /* byte 8 must be 0 */
} carriers[] = {
    /* ::a.b.c.d, ::ffff:0:a.b.c.d (translated), ISATAP, NAT64 with a prefix of 96 bits */
    {V6(0, 0), {12, 13, 14, 15}},
    /* NAT64 with a prefix of 32, 40, 48, 56 and 64 bits */
    {V6(0, 0), {4, 5, 6, 7}, .has_zero = true},
    {V6(0, 0), {5, 6, 7, 9}, .has_zero = true},
    {V6(0, 0), {6, 7, 9, 10}, .has_zero = true},
    {V6(0, 0), {7, 9, 10, 11}, .has_zero = true},
    {V6(0, 0), {9, 10, 11, 12}, .has_zero = true},
    {V6(16, 0x20, 0x02), {2, 3, 4, 5}},                                /* 6to4 */
    {V6(32, 0x20, 0x01, 0, 0), {4, 5, 6, 7}},                          /* Teredo: the server */
    {V6(32, 0x20, 0x01, 0, 0), {12, 13, 14, 15}, .is_inverted = true}, /* and the client */
};

/* False where a carries none in this way. */
static bool carrier_extract(const struct carrier *c, const struct in6_addr *a, struct in6_addr *ret)
{
    uint8_t v4[sizeof(in_addr_t)];
    in_addr_t address;

    if (!address_range_has(&c->prefix, a) || (c->has_zero && a->s6_addr[8] != 0))
        return false;
    for (size_t i = 0; i < sizeof(v4); i++)
        v4[i] = a->s6_addr[c->at[i]] ^ (c->is_inverted ? 0xff : 0);
    memcpy(&address, v4, sizeof(v4));
    *ret = address_v4(address);
    return true;
}

static bool metadata_has(const struct in6_addr *a)
{
    for (size_t i = 0; i < ARRAY_SIZE(metadata_ranges); i++)
        if (address_range_has(&metadata_ranges[i], a))
            return true;
    return false;
}

bool address_is_metadata(const struct in6_addr *a)
{
    struct in6_addr inner;

    if (metadata_has(a))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(carriers); i++)
        if (carrier_extract(&carriers[i], a, &inner) && metadata_has(&inner))
            return true;
    return false;
}
