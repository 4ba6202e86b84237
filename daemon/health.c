/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/health.h"

#include <stddef.h>

const char *health_trouble(const struct pulse *p)
{
    if (p->lag_ns > LOOP_LAG_MAX)
        return "the event loop was held up";
    if (p->catalog_waited_ns > CATALOG_PATIENCE)
        return "the catalog does not answer";
    if (p->threads_waited_ns > THREADS_PATIENCE)
        return "the threads for what may block do not answer";
    return NULL;
}
