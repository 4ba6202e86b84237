/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses at which clouds hand out credentials: no worker, no router and no archive has one of them. Pure.
 */
#pragma once

#include "base/address.h"

/* Also true for an IPv6 address that carries such an IPv4 address (mapped, 6to4, Teredo, NAT64 of any prefix). */
bool address_is_metadata(const struct in6_addr *address);
