/* SPDX-License-Identifier: Apache-2.0 */
/* The mirror of the catalog in PostgreSQL: how far it is, and where readers find it. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/api/handler.h"
#include "daemon/fleet/doctor.h"
#include "proto/mirror.h"
#include <inttypes.h>

/* A lag that is no longer that of a reconnect. */
#define LAG_WARN_NS (5 * 60 * NS_PER_S)

void get_mirror(struct api *api, struct http_request *r, const struct route_match *match)
{
    http_reply_json(r, 200, mirror_to_json(api->modules.mirror));
}

static void doctor_check_lag(const struct mirror_state *s, struct checks *c)
{
    char age[UNIT_TEXT_MAX];

    if (s->lag_ns > LAG_WARN_NS)
        checks_add(c, CHECK_WARN, NULL, "Compare [mirror] batch= with the load of the server.",
                   "the mirror is %s behind, with %" PRId64 " changes to send",
                   format_duration(age, s->lag_ns), s->lag);
    else if (s->lag > 0)
        checks_add(c, CHECK_OK, NULL, NULL, "the mirror is catching up: %" PRId64 " changes to send", s->lag);
    else
        checks_add(c, CHECK_OK, NULL, NULL, "the mirror is current, at change %" PRId64, s->applied);
}

static void doctor_check_schema(const struct mirror_state *s, struct checks *c)
{
    if (s->schema == 0 || s->schema == MIRROR_SCHEMA_VERSION)
        return;
    bool is_old = s->schema < MIRROR_SCHEMA_VERSION;
    checks_add(c, CHECK_WARN, NULL, is_old ? MIRROR_OLD_REMEDY : MIRROR_NEW_REMEDY,
               "the schema of the mirror has version %" PRId64 ", %s than that of this profd, %d", s->schema,
               is_old ? "older" : "newer", MIRROR_SCHEMA_VERSION);
}

void doctor_check_mirror(struct api *api, struct checks *c)
{
    struct mirror_state s;

    mirror_read_state(api->modules.mirror, &s);
    if (s.phase == MIRROR_OFF)
        return;
    doctor_check_schema(&s, c);
    if (s.refused_rows > 0)
        checks_add(c, CHECK_WARN, NULL,
                   "The log of profd names them. Upgrade the schema: profctl mirror migrate URL",
                   "the mirror refused %" PRIu64 " rows", s.refused_rows);
    if (s.error)
        checks_add(c, s.lag_ns > LAG_WARN_NS ? CHECK_FAIL : CHECK_WARN, NULL,
                   s.remedy ? s.remedy : "Rows are kept, and sent when the server is back.", "the mirror: %s",
                   s.error);
    else
        doctor_check_lag(&s, c);
}
