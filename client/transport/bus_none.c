/* SPDX-License-Identifier: Apache-2.0 */
/* The D-Bus transport of a profctl that was built without D-Bus: every connection is refused. */
#include "client/transport/bus.h"

#include <errno.h>

int bus_connection_new(const char *which, struct bus_connection **ret, struct problem *p)
{
    int r = problem_set(p, -EOPNOTSUPP, PROBLEM_BAD_REQUEST,
                        "cannot connect to the %s bus: this profctl was built without D-Bus", which);
    problem_remedy(p, "Use --socket or --host, or build with -Dbus=true.");
    return r;
}

struct bus_connection *bus_connection_free(struct bus_connection *b)
{
    return NULL;
}

int bus_connection_call(struct bus_connection *b, const struct bus_request *q, json_t **ret, long *ret_status,
                        struct problem *p)
{
    return -EOPNOTSUPP;
}

int bus_connection_open(struct bus_connection *b, const struct bus_request *q, int *ret_fd, int64_t *ret_size,
                        struct problem *p)
{
    return -EOPNOTSUPP;
}
