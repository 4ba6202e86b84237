/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reload.h"

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/manager.h"
#include <errno.h>

/* -- Steps -------------------------------------------------------------------------------------------- */

static int check_fixed(struct manager *m, const struct config *next, struct problem *p)
{
    const char *key = config_fixed_change(&m->config, next);

    if (!key)
        return 0;
    problem_remedy(p, "To have it changed, restart profd; or take the change back and reload again.");
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                       "[profd] %s= cannot change while profd runs: restart profd", key);
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
    check_fixed,
    reload_api,
};

static void renew_log(struct manager *m)
{
    log_set_level(m->config.log_level);
}

static void renew_api(struct manager *m)
{
    api_renew_limits(m->api);
}

static void renew_policy(struct manager *m)
{
    caller_set_policy(m->caller, &m->config.network);
}

static void renew_answers(struct manager *m)
{
    caller_set_answers_max(m->caller, m->config.fleet.response_memory_max);
}

static void renew_ingest(struct manager *m)
{
    const struct ingest_limits limits = manager_ingest_limits(&m->config);
    int r = 0;

    ingest_set_children_max(m->ingest, (unsigned)m->config.children_max);
    if (m->ingest_group)
        r = ingest_group_set_limits(m->ingest_group, &limits);
    if (r < 0)
        log_warning("cannot change the limits of profd-ingest: %s", strerror(-r));
}

static void renew_watches(struct manager *m)
{
    collector_renew_watches(m->collector);
}

/* Rooms that keep more of the configuration than a pointer to their part. They hold the exchanged one. */
static void (*const renew[])(struct manager *m) = {
    renew_log, renew_api, renew_policy, renew_answers, renew_ingest, renew_watches,
};

/* -- Reloading ---------------------------------------------------------------------------------------- */

static void refuse(struct manager *m, const char *const *reasons, size_t n, const char *remedy)
{
    _cleanup_(freep) char *remark = xasprintf("profd.conf was not reloaded: %s", reasons[0]);

    for (size_t i = 0; i < n; i++)
        log_struct(LOG_ERR, LOG_FIELDS(.message_id = MESSAGE_CONFIG_REFUSED), "%s", reasons[i]);
    log_struct(LOG_ERR, LOG_FIELDS(.message_id = MESSAGE_CONFIG_REFUSED),
               "profd.conf was not reloaded; everything is as it was%s%s", remedy ? ". " : "",
               remedy ? remedy : "");
    notifier_reloaded(m->notifier, remark);
}

static int prepare(struct manager *m, const struct config *next)
{
    _cleanup_(problem_done) struct problem p = {0};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(may_refuse) && r >= 0; i++)
        r = may_refuse[i](m, next, &p);
    const char *reason = p.what ? p.what : strerror(-r);
    if (r < 0)
        refuse(m, &reason, 1, p.remedy);
    return r;
}

void reload(struct manager *m)
{
    _cleanup_(config_errors_done) struct config_errors errors = {0};
    _cleanup_(freep) char *file = NULL;
    struct config next;

    notifier_reloading(m->notifier);
    if (config_load(m->overrides, &next, &file, &errors) < 0) {
        refuse(m, (const char *const *)errors.items, errors.n, NULL);
        return;
    }
    if (prepare(m, &next) >= 0) {
        config_exchange(&m->config, &next);
        for (size_t i = 0; i < ARRAY_SIZE(renew); i++)
            renew[i](m);
        log_struct(LOG_NOTICE, LOG_FIELDS(.message_id = MESSAGE_RELOADED), "reloaded: %s",
                   file ? file : "there is no profd.conf");
        notifier_reloaded(m->notifier, NULL);
    }
    config_done(&next);
}
