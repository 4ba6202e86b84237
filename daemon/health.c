/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/health.h"

#include "base/alloc.h"
#include "base/units.h"
#include <inttypes.h>

const char *health_trouble(const struct pulse *p)
{
    if (p->lag_ns > LOOP_LAG_MAX)
        return "the event loop was held up";
    if (p->catalog_waited_ns > CATALOG_PATIENCE)
        return "the catalog does not answer";
    if (p->threads_waited_ns > THREADS_PATIENCE)
        return "the threads for blocking work do not answer";
    return NULL;
}

#define PLURAL(n) ((n) == 1 ? "" : "s")

char *status_line(const struct status *s)
{
    char used[UNIT_TEXT_MAX], budget[UNIT_TEXT_MAX];
    _cleanup_(freep) char *store =
        s->budget > 0 ? xasprintf(", %s of %s", format_size(used, s->used), format_size(budget, s->budget))
                      : xstrdup("");

    return xasprintf("%" PRId64 " fleet%s, %" PRId64 " worker%s, %" PRId64 " session%s running%s%s%s%s%s",
                     s->fleets, PLURAL(s->fleets), s->workers, PLURAL(s->workers), s->sessions,
                     PLURAL(s->sessions), store, s->broken ? "; the catalog cannot be written: " : "",
                     s->broken ? s->broken : "", s->remark ? "; " : "", s->remark ? s->remark : "");
}
