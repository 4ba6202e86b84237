/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which names profd may be called in a Host header: those of loopback, the addresses that it listens on,
 * and the configured ones. A web page that had its own name resolved to one of our addresses comes by that
 * name (DNS rebinding); numbers cannot be rebound. Pure.
 */
#pragma once

#include "daemon/api/settings.h"

struct host_rules {
    const struct listen_address *addresses;
    size_t n_addresses;
    char *const *names;
    size_t n_names;
};

/* "localhost:9460", "10.0.0.7", "[::1]:80". False for what is no Host header at all. */
bool host_is_ours(const char *header, const struct host_rules *rules);
