/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/manager.h"

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/archive/archiver.h"
#include "daemon/config_keys.h"
#include "daemon/peers/peers.h"
#include <errno.h>

/* What may refuse changes nothing where it does, and api_reload() comes last: nothing after it refuses. */
static int reload_prepare(struct manager *m, const struct config *next, struct problem *p)
{
    const struct config_key *key = config_fixed_change(&m->config, next);

    if (!key && archiver_check_settings(&next->archive, p) < 0)
        return -EINVAL;
    int r = key ? 0 : mirror_check_settings(&next->mirror, p);
    if (!key)
        return r < 0 ? r : api_reload(m->api, &next->api, p);
    problem_remedy(p, "Restart profd to apply the change; or revert it and reload again.");
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s %s= cannot be changed by a reload",
                       config_sections[key->section].shown, key->name);
}

/* Modules that keep more of the configuration than a pointer to their settings. These are already exchanged. */
static void reload_renew_modules(struct manager *m)
{
    const struct config *c = &m->config;
    const struct ingest_limits limits = manager_ingest_limits(c);

    log_set_level(c->log_level);
    api_renew(m->api);
    peers_renew(m->modules.peers);
    caller_set_policy(m->modules.caller, &c->network);
    caller_set_answers_max(m->modules.caller, c->fleet.response_memory_max);
    ingest_set_children_max(m->modules.ingest, (unsigned)c->children_max);
    int r = m->ingest_group ? ingest_group_set_limits(m->ingest_group, &limits) : 0;
    if (r < 0)
        log_warning("cannot change the limits of profd-ingest: %s", strerror(-r));
    reports_renew(m->modules.reports);
    viewers_renew(m->modules.viewers);
    collector_renew_watches(m->modules.collector);
    archiver_renew(m->modules.archiver);
    if (!m->mode.transient)
        mirror_renew(m->modules.mirror);
}

static void reload_refuse(struct manager *m, const char *const *reasons, size_t n, const char *remedy)
{
    _cleanup_(freep) char *remark = xasprintf("profd.conf was not reloaded: %s", reasons[0]);

    for (size_t i = 0; i < n; i++)
        log_struct(LOG_ERR, LOG_FIELDS(.message_id = MESSAGE_CONFIG_REFUSED), "%s", reasons[i]);
    log_struct(LOG_ERR, LOG_FIELDS(.message_id = MESSAGE_CONFIG_REFUSED),
               "profd.conf was not reloaded; the previous configuration stays in use%s%s", remedy ? ". " : "",
               remedy ? remedy : "");
    notifier_reloaded(m->notifier, remark);
}

void manager_reload(struct manager *m)
{
    _cleanup_(config_errors_done) struct config_errors errors = {0};
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *file = NULL;
    struct config next;

    notifier_reloading(m->notifier);
    if (config_load(m->overrides, &next, &file, &errors) < 0) {
        reload_refuse(m, (const char *const *)errors.items, errors.n, NULL);
        return;
    }
    int r = reload_prepare(m, &next, &p);
    if (r < 0) {
        const char *reason = p.what ? p.what : strerror(-r);
        reload_refuse(m, &reason, 1, p.remedy);
    } else {
        config_exchange(&m->config, &next);
        reload_renew_modules(m);
        log_struct(LOG_NOTICE, LOG_FIELDS(.message_id = MESSAGE_RELOADED), "reloaded: %s",
                   file ? file : "no profd.conf");
        notifier_reloaded(m->notifier, NULL);
    }
    config_done(&next);
}
