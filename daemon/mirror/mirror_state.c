/* SPDX-License-Identifier: Apache-2.0 */
/* What the mirror reports about itself: to profctl, doctor and metrics. Changes nothing, and never shows a password. */
#include "daemon/mirror/mirror_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/catalog/records.h"
#include "daemon/mirror/pq.h"
#include "proto/mirror.h"

const char *mirror_phase_name(enum mirror_phase phase)
{
    static const char *const names[_MIRROR_PHASE_MAX] = {
        [MIRROR_OFF] = "off",         [MIRROR_CURRENT] = "current", [MIRROR_CONNECTING] = "connecting",
        [MIRROR_SENDING] = "sending", [MIRROR_WAITING] = "waiting",
    };
    return names[phase];
}

void mirror_read_state(const struct mirror *m, struct mirror_state *ret)
{
    int64_t oldest_at = 0;

    *ret = (struct mirror_state){.phase = m->phase,
                                 .connected =
                                     m->phase == MIRROR_SENDING || (m->phase == MIRROR_CURRENT && m->pq),
                                 .schema = m->schema,
                                 .applied = m->applied,
                                 .lag = -1,
                                 .next_at = m->next_at,
                                 .error = m->error,
                                 .remedy = m->remedy,
                                 .rows = m->n_rows,
                                 .failures = m->n_failures,
                                 .refused_rows = m->n_refused};
    if (m->phase == MIRROR_OFF)
        return;
    catalog_changes_last(m->catalog, &ret->last);
    /* Until it is known, the lag is at least as old as this profd. */
    ret->lag_ns = mono_ns() - m->begun_ns;
    if (m->applied < 0 || catalog_changes_behind(m->catalog, m->applied, &ret->lag, &oldest_at) < 0)
        return;
    /* Changes that have no number yet are new. */
    ret->lag_ns = ret->lag > 0 && oldest_at != RECORD_NONE ? MAX(wall_ns() - oldest_at, INT64_C(0)) : 0;
}

bool mirror_is_busy(const struct mirror *m)
{
    return m->phase == MIRROR_CONNECTING || m->phase == MIRROR_SENDING;
}

json_t *mirror_to_json(const struct mirror *m)
{
    const struct mirror_settings *s = m->settings;
    _cleanup_(freep) char *url = s->url && pq_is_installed() ? pq_format(s->url) : NULL;
    struct mirror_state state;
    json_t *j = json_object();

    mirror_read_state(m, &state);
    json_put_str(j, "state", mirror_phase_name(state.phase));
    json_put_str(j, "url", url);
    json_put_str(j, "reader", s->reader);
    json_put_str(j, "catalog", catalog_uuid(m->catalog));
    json_put_str(j, "host", catalog_host(m->catalog));
    if (state.phase == MIRROR_OFF)
        return j;
    if (state.schema > 0) {
        json_put_int(j, "schema_version", state.schema);
        json_put_int(j, "schema_known", MIRROR_SCHEMA_VERSION);
    }
    if (state.applied >= 0)
        json_put_int(j, "applied", state.applied);
    json_put_int(j, "last", state.last);
    if (state.lag >= 0)
        json_put_int(j, "lag", state.lag);
    json_put_int(j, "lag_ns", state.lag_ns);
    json_put_int(j, "rows", (int64_t)state.rows);
    json_put_int(j, "refused_rows", (int64_t)state.refused_rows);
    json_put_str(j, "error", state.error);
    json_put_str(j, "remedy", state.remedy);
    if (state.next_at > 0)
        json_put_int(j, "next_at", state.next_at);
    return j;
}
