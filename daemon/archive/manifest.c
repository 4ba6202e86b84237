/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest of a session: what the catalog knows of it and of its traces, with the keys of their objects, so that the
 * bucket alone can rebuild the catalog.
 *
 *     v1/session/date=2026-11-20/SESSION-CATALOG.json     UUIDs; the date (UTC) of its request
 *
 * It is written when the session is over and its traces are archived, and again when one of them changed; it replaces the
 * earlier one. Its members are those of the API (openapi.yaml, schemas Session and Trace).
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/archive/internal.h"
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#define MANIFEST_VERSION 1

static int manifest_add_trace(const struct trace_record *t, void *arg)
{
    json_array_append_new(arg, trace_record_to_json(t));
    return 0;
}

static int manifest_build(struct archiver *a, int64_t session_id, json_t **ret)
{
    const struct trace_filter filter = {.session_id = session_id,
                                        .since = RECORD_NONE,
                                        .until = RECORD_NONE,
                                        .before_id = RECORD_NONE,
                                        .limit = RECORD_NONE};
    struct catalog *catalog = a->modules.catalog;
    _cleanup_json_ all = json_object();
    json_t *session, *traces = json_array();

    json_put_int(all, "manifest", MANIFEST_VERSION);
    json_put_str(all, "catalog", catalog_uuid(catalog));
    json_put_str(all, "host", catalog_host(catalog));
    json_object_set_new(all, "traces", traces);
    int r = catalog_session_json(catalog, session_id, true, &session);
    if (r >= 0) {
        json_object_set_new(all, "session", session);
        r = catalog_each_trace(catalog, &filter, manifest_add_trace, traces);
    }
    if (r >= 0)
        *ret = json_incref(all);
    return r;
}

int manifest_open(struct archiver *a, int64_t session_id, uint64_t *ret_size)
{
    _cleanup_json_ all = NULL;
    int r = manifest_build(a, session_id, &all);

    if (r < 0)
        return r;
    _cleanup_(freep) char *text = json_dumps(all, JSON_COMPACT);
    _cleanup_(closep) int fd = memfd_create("manifest", MFD_CLOEXEC);
    if (!text || fd < 0)
        return text ? -errno : -ENOMEM;
    *ret_size = strlen(text);
    r = write_all(fd, text, *ret_size);
    return r < 0 ? r : TAKE_FD(fd);
}

char *manifest_key(struct archiver *a, int64_t session_id)
{
    _cleanup_(session_record_done) struct session_record s;
    char date[sizeof("2026-11-20")];
    struct tm utc;

    session_record_init(&s);
    if (catalog_get_session(a->modules.catalog, session_id, &s) < 0 || !s.uuid || !state_is_final(s.state))
        return NULL;
    time_t at = (time_t)(s.requested_at / NS_PER_S);
    if (!gmtime_r(&at, &utc) || strftime(date, sizeof(date), "%Y-%m-%d", &utc) == 0)
        return NULL;
    return xasprintf("v1/session/date=%s/%s-%s.json", date, s.uuid, catalog_uuid(a->modules.catalog));
}

void manifest_want(struct archiver *a, int64_t session_id)
{
    _cleanup_(freep) char *key = manifest_key(a, session_id);
    const struct upload_record wanted = {.upload_id = RECORD_NONE,
                                         .kind = UPLOAD_MANIFEST,
                                         .trace_id = RECORD_NONE,
                                         .session_id = session_id,
                                         .path = (char *)"",
                                         .key = key,
                                         .size = RECORD_NONE};

    if (key)
        catalog_want_upload(a->modules.catalog, &wanted);
}
