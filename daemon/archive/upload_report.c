/* SPDX-License-Identifier: Apache-2.0 */
/* What the uploads report of themselves: to people whose store is full, and in GET /v1/archive. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/archive/internal.h"
#include <inttypes.h>

#define REFUSED_LISTED_MAX 20

char *uploads_describe_lag(struct archiver *a)
{
    char bytes[UNIT_TEXT_MAX], age[UNIT_TEXT_MAX];
    struct upload_lag lag;

    if (catalog_upload_lag(a->modules.catalog, &lag) < 0 || lag.files == 0)
        return NULL;
    format_size(bytes, lag.bytes);
    format_duration(age, MAX(wall_ns() - lag.oldest_at, INT64_C(0)));
    return xasprintf("%" PRId64 " trace%s (%s) wait%s for the archive %s, the oldest for %s%s%s", lag.files,
                     lag.files == 1 ? "" : "s", bytes, lag.files == 1 ? "s" : "", archiver_name(a), age,
                     a->problem.what ? ": " : "", a->problem.what ? a->problem.what : "");
}

static int uploads_list_refused(const struct upload_record *u, void *arg)
{
    _cleanup_(freep) char *trace = xasprintf("t%" PRId64, u->trace_id);
    json_t *j = json_object();

    json_put_str(j, "trace", trace);
    json_put_str(j, "error", u->error);
    json_put_int(j, "tries", u->tries);
    json_array_append_new(arg, j);
    return 0;
}

void uploads_put_json(struct archiver *a, json_t *object)
{
    json_t *active = json_array(), *refused = json_array();
    const struct upload *u;

    TAILQ_FOREACH(u, &a->uploads, link) {
        json_t *j = json_object();
        json_put_str(j, "kind", upload_kind_name(u->row.kind));
        if (u->row.trace_id != RECORD_NONE) {
            _cleanup_(freep) char *trace = xasprintf("t%" PRId64, u->row.trace_id);
            json_put_str(j, "trace", trace);
        }
        json_put_str(j, "key", u->row.key);
        json_put_int(j, "size", u->row.size);
        json_array_append_new(active, j);
    }
    catalog_each_refused_upload(a->modules.catalog, REFUSED_LISTED_MAX, uploads_list_refused, refused);
    json_object_set_new(object, "uploads", active);
    json_object_set_new(object, "failed", refused);
}
