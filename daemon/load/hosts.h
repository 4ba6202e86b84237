/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of an order: their names are looked up once, before the process gives up what name services need,
 * and their ports are those that it may connect to later.
 */
#pragma once

#include "daemon/fleet/names.h"
#include "daemon/load/order.h"

struct hosts;

/* Waits for the name servers, for a minute in all: names that have no turn by then have no addresses. */
struct hosts *hosts_look_up(const struct order *o);
struct hosts *hosts_free(struct hosts *h);
/* NULL: no host of the order, or an address. */
const struct name_answer *hosts_find(const struct hosts *h, const char *host);
void hosts_fix_names(const struct hosts *h, struct caller *c);
const uint16_t *hosts_ports(const struct hosts *h, size_t *ret_n);
bool hosts_have_tls(const struct hosts *h);
