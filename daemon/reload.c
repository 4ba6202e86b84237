/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/manager.h"

#include "base/alloc.h"
#include "base/log.h"
#include <errno.h>

/* -- Steps -------------------------------------------------------------------------------------------- */

static int reload_check_fixed(struct manager *m, const struct config *next, struct problem *p)
{
    const char *key = config_fixed_change(&m->config, next);

    if (!key)
        return 0;
    problem_remedy(p, "Restart profd to apply the change; or revert it and reload again.");
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "[profd] %s= cannot be changed by a reload", key);
}

static int reload_api(struct manager *m, const struct config *next, struct problem *p)
{
    return api_reload(m->api, &next->api, p);
}

/*
 * What may refuse, in this order. A step that refuses has changed nothing, and those that change something
 * before the exchange come last: nothing after them refuses.
 */
static int (*const may_refuse[])(struct manager *m, const struct config *next, struct problem *p) = {
    reload_check_fixed,
    reload_api,
};

static void reload_renew_log(struct manager *m)
{
    log_set_level(m->config.log_level);
}

static void reload_renew_api(struct manager *m)
{
    api_renew_limits(m->api);
}

static void reload_renew_policy(struct manager *m)
{
    caller_set_policy(m->modules.caller, &m->config.network);
}

static void reload_renew_answers(struct manager *m)
{
    caller_set_answers_max(m->modules.caller, m->config.fleet.response_memory_max);
}

static void reload_renew_ingest(struct manager *m)
{
    const struct ingest_limits limits = manager_ingest_limits(&m->config);
    int r = 0;

    ingest_set_children_max(m->modules.ingest, (unsigned)m->config.children_max);
    if (m->ingest_group)
        r = ingest_group_set_limits(m->ingest_group, &limits);
    if (r < 0)
        log_warning("cannot change the limits of profd-ingest: %s", strerror(-r));
}

static void reload_renew_watches(struct manager *m)
{
    collector_renew_watches(m->modules.collector);
}

/* Modules that keep more of the configuration than a pointer to their settings. These are already exchanged. */
static void (*const reload_renewals[])(struct manager *m) = {
    reload_renew_log,     reload_renew_api,    reload_renew_policy,
    reload_renew_answers, reload_renew_ingest, reload_renew_watches,
};

/* -- Reloading ---------------------------------------------------------------------------------------- */

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

static int reload_prepare(struct manager *m, const struct config *next)
{
    _cleanup_(problem_done) struct problem p = {0};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(may_refuse) && r >= 0; i++)
        r = may_refuse[i](m, next, &p);
    const char *reason = p.what ? p.what : strerror(-r);
    if (r < 0)
        reload_refuse(m, &reason, 1, p.remedy);
    return r;
}

void manager_reload(struct manager *m)
{
    _cleanup_(config_errors_done) struct config_errors errors = {0};
    _cleanup_(freep) char *file = NULL;
    struct config next;

    notifier_reloading(m->notifier);
    if (config_load(m->overrides, &next, &file, &errors) < 0) {
        reload_refuse(m, (const char *const *)errors.items, errors.n, NULL);
        return;
    }
    if (reload_prepare(m, &next) >= 0) {
        config_exchange(&m->config, &next);
        for (size_t i = 0; i < ARRAY_SIZE(reload_renewals); i++)
            reload_renewals[i](m);
        log_struct(LOG_NOTICE, LOG_FIELDS(.message_id = MESSAGE_RELOADED), "reloaded: %s",
                   file ? file : "no profd.conf");
        notifier_reloaded(m->notifier, NULL);
    }
    config_done(&next);
}
