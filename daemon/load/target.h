/* SPDX-License-Identifier: Apache-2.0 */
/* Who is sent requests, by which API, and what is known of him meanwhile. */
#pragma once

#include "daemon/load/api.h"
#include "daemon/load/order.h"
#include "daemon/load/wire_place.h"

struct target {
    char *url;
    const struct api *api;
    struct wire_place *place;
    pid_t pid;
    bool is_known;         /* has been sent a request of the run */
    bool counts;           /* an answer of it had a usage: texts need not be kept */
    int64_t rest_until_ns; /* it asked for a pause (429) */
};

/* Of these workers of the order, which they borrow. -EACCES with words in *ret_error where its credentials
 * cannot be used. */
int targets_new(const struct order *order, const struct hosts *hosts, const struct order_worker *workers,
                size_t n, struct target **ret, char **ret_error);
/* NULL is fine. */
void targets_free(struct target *targets, size_t n);
