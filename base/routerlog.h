/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router's address in a training log: vime and slime start their router on a random port and log "Router
 * launched at HOST:PORT". The newest such line counts, since a log may hold several jobs.
 */
#pragma once

#include "base/problem.h"

/* Bytes at the end of a log that are searched. */
#define ROUTERLOG_SCAN_MAX (INT64_C(16) << 30)

/*
 * The newest address in the text as "http://HOST:PORT", or NULL. A router that listens on every address is
 * named by loopback. Pure.
 */
char *routerlog_find(const char *text, size_t size);

/* Searches a file from its end, block by block. -ENOENT with the problem if the file has no such line. */
int routerlog_read(const char *path, char **ret_url, struct problem *p);
