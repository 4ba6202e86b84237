/* SPDX-License-Identifier: Apache-2.0 */
/* The API of a profd that was built without D-Bus: bus= in its configuration is an error. */
#include "daemon/api/bus.h"

#include "base/log.h"
#include <errno.h>

int bus_new(struct api *api, enum bus_kind kind, struct bus **ret)
{
    log_error("bus=: this profd was built without D-Bus. Set bus=none, or build with -Dbus=true.");
    return -EOPNOTSUPP;
}

void bus_stop_accepting(struct bus *b)
{
}

void bus_close(struct bus *b)
{
}

struct bus *bus_free(struct bus *b)
{
    return NULL;
}
