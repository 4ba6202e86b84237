/* SPDX-License-Identifier: Apache-2.0 */
/* The archive: its state, and what the doctor finds wrong with it. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/api/handler.h"
#include "daemon/archive/archiver.h"
#include "daemon/fleet/doctor.h"
#include <inttypes.h>

/* A trace that waits longer for the archive is reported. */
#define LAG_WARN_NS (3600 * NS_PER_S)

void get_archive(struct api *api, struct http_request *r, const struct route_match *match)
{
    http_reply_json(r, 200, archiver_to_json(api->modules.archiver));
}

/* -- The doctor --------------------------------------------------------------------------------------- */

struct archive_check {
    struct api *api;
    struct checks *checks;
    void (*done)(void *arg);
    void *arg;
};

static void archive_check_lag(struct archive_check *k, const char *address)
{
    struct archiver *a = k->api->modules.archiver;
    char bytes[UNIT_TEXT_MAX], age[UNIT_TEXT_MAX];
    const struct problem *p = archiver_problem(a);
    struct archiver_metrics m;

    archiver_metrics(a, &m);
    bool is_late = m.waiting_files > 0 && m.lag_ns > LAG_WARN_NS;
    if (p)
        checks_add(k->checks, CHECK_FAIL, NULL, p->remedy, "%s", p->what);
    checks_add(k->checks, is_late ? CHECK_WARN : CHECK_OK, NULL,
               is_late ? "Raise [archive] rate= or transfers=; GET /v1/archive lists the uploads." : NULL,
               m.waiting_files > 0 ? "the archive %s%s%s answers; %" PRId64
                                     " traces (%s) wait for it, the oldest for %s"
                                   : "the archive %s%s%s answers and has all traces of the store",
               archiver_name(a), *address ? " at " : "", address, m.waiting_files,
               format_size(bytes, m.waiting_bytes), format_duration(age, m.lag_ns));
}

static void archive_check_on_probe(const struct archiver_probe *probe, void *arg)
{
    struct archive_check *k = arg;

    if (probe->problem)
        checks_add(k->checks, CHECK_FAIL, NULL, probe->problem->remedy, "%s%s%s", probe->problem->what,
                   *probe->address ? "; its address is " : "", probe->address);
    else
        archive_check_lag(k, probe->address);
    k->done(k->arg);
    free(k);
}

void archive_check_add(struct api *api, struct checks *c, void (*done)(void *arg), void *arg)
{
    struct archive_check *k;

    if (!archiver_is_configured(api->modules.archiver)) {
        done(arg);
        return;
    }
    k = xcalloc(1, sizeof(*k));
    *k = (struct archive_check){.api = api, .checks = c, .done = done, .arg = arg};
    archiver_probe(api->modules.archiver, archive_check_on_probe, k);
}
