/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/watched_worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/server_names.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <math.h>

#define FAILURE_TEXT_MAX    200
#define STATUS_SERVER_ERROR 500
#define STATUS_OK           200

static const struct watched_figures no_figures = {NAN, NAN, NAN, NAN, NAN};

struct watched_worker *watched_worker_new(struct caller *caller, void (*settled)(void *arg), void *arg)
{
    struct watched_worker *w = xcalloc(1, sizeof(*w));

    *w = (struct watched_worker){.caller = caller, .figures = no_figures, .settled = settled, .arg = arg};
    return w;
}

struct watched_worker *watched_worker_free(struct watched_worker *w)
{
    if (!w)
        return NULL;
    call_cancel(w->metrics_call);
    call_cancel(w->health_call);
    call_credentials_done(&w->credentials);
    char *const texts[] = {w->url,    w->host,        w->version,    w->model,   w->reason,
                           w->remedy, w->metrics_url, w->health_url, w->failure, w->note};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    free(w);
    return NULL;
}

void watched_worker_take(struct watched_worker *w, const struct worker *found,
                         const struct fleet_settings *settings, const char *fleet_name)
{
    bool is_known = found->engine != ENGINE_UNKNOWN;
    struct url u;
    const char *reason;

    replace_str(&w->url, found->url);
    replace_str(&w->host, found->host ? found->host : found->node);
    w->listed = true;
    w->left_ns = 0;
    w->has_server = url_parse(found->url, &u, &reason) == 0 && url_is_http(&u);
    if (found->role != ROLE_UNKNOWN || is_known)
        w->role = w->odd.role = found->role;
    /* What does not answer shows no engine. */
    if (is_known || w->engine == ENGINE_UNKNOWN) {
        const char *engine = engine_name(found->engine == ENGINE_DYNAMO ? found->backend : found->engine);
        const char *health = server_health_path(engine);
        w->engine = found->engine;
        w->profilable = found->profilable;
        replace_str(&w->version, found->version);
        replace_str(&w->model, found->model);
        replace_str(&w->reason, found->reason);
        replace_str(&w->remedy, found->remedy);
        free(w->metrics_url);
        free(w->health_url);
        w->metrics_url = w->has_server ? url_join(found->url, server_metrics_path(engine)) : NULL;
        w->health_url = w->has_server && health ? url_join(found->url, health) : NULL;
    }
    const struct call_credentials *credentials = settings_credentials(settings, fleet_name, found->url);
    call_credentials_done(&w->credentials);
    w->credentials = (struct call_credentials){0};
    if (credentials)
        call_credentials_copy(credentials, &w->credentials);
}

/* -- Answers ------------------------------------------------------------------------------------------ */

/* Not asked at all: by the policy, for want of memory, for a file of credentials. That says nothing of the worker. */
static bool result_is_of_worker(const struct call_result *r)
{
    return r->sent_at_ns > 0 || (r->err != -EPERM && r->err != -ENOBUFS && !r->remedy);
}

static double watched_rate(double before, double after, int64_t interval_ns)
{
    return after >= before ? (after - before) * (double)NS_PER_S / (double)interval_ns : NAN;
}

/* False where it is no page with figures of an engine. */
static bool watched_worker_read(struct watched_worker *w, const struct call_result *r)
{
    const struct server_metrics m = server_metrics_parse(r->body, r->body_size);
    const struct watched_scrape now = {.at_ns = r->answered_mono_ns,
                                       .tokens = m.counters[SERVER_GENERATION_TOKENS],
                                       .ttft = m.histograms[SERVER_TTFT]};
    int64_t interval_ns = w->base.at_ns > 0 ? now.at_ns - w->base.at_ns : 0;

    w->figures.running = m.gauges[SERVER_RUNNING];
    w->figures.waiting = m.gauges[SERVER_WAITING];
    w->figures.kv_use = m.kv_cache_use;
    if (w->base.at_ns > 0 && interval_ns < WATCHED_INTERVAL_MIN_NS)
        return m.source;
    w->figures.tokens_per_s = w->figures.ttft_p50_s = NAN;
    if (w->base.at_ns > 0) {
        w->figures.tokens_per_s = watched_rate(w->base.tokens, now.tokens, interval_ns);
        w->figures.ttft_p50_s = server_histogram_quantile_of(&w->base.ttft, &now.ttft, 0.5);
        w->has_new_ttft = true;
    }
    w->base = now;
    return m.source;
}

static void watched_worker_forget_figures(struct watched_worker *w)
{
    w->figures = no_figures;
    w->base.at_ns = 0;
}

/* By the call that decides it: to health, where there is such a path. */
static void watched_worker_decide(struct watched_worker *w, const struct call_result *r, bool is_alive)
{
    char text[FAILURE_TEXT_MAX];

    if (!result_is_of_worker(r))
        return;
    if (is_alive) {
        w->returned = w->returned || w->failure;
        replace_str(&w->failure, NULL);
    } else {
        replace_str(&w->failure, call_result_text(r, text, sizeof(text)));
        watched_worker_forget_figures(w);
    }
}

static void watched_worker_on_end(struct watched_worker *w)
{
    if (!w->metrics_call && !w->health_call)
        w->settled(w->arg);
}

/* A server without metrics may be well. */
static void watched_worker_on_metrics(const struct call_result *r, void *arg)
{
    struct watched_worker *w = arg;
    char text[FAILURE_TEXT_MAX];

    w->metrics_call = NULL;
    replace_str(&w->note, NULL);
    if (!w->health_url)
        watched_worker_decide(w, r, r->err == 0);
    if (r->err < 0 || r->status != STATUS_OK || r->cut) {
        watched_worker_forget_figures(w);
        replace_str(&w->note, r->err == 0 && r->cut ? "its metrics are longer than 1 MiB"
                                                    : call_result_text(r, text, sizeof(text)));
    } else if (!watched_worker_read(w, r)) {
        replace_str(&w->note, "its metrics have no figures of an engine that profd knows");
    }
    watched_worker_on_end(w);
}

static void watched_worker_on_health(const struct call_result *r, void *arg)
{
    struct watched_worker *w = arg;

    w->health_call = NULL;
    watched_worker_decide(w, r, r->err == 0 && r->status < STATUS_SERVER_ERROR);
    watched_worker_on_end(w);
}

bool watched_worker_ask(struct watched_worker *w, int64_t connect_timeout_ns)
{
    struct call_request request = {.method = "GET",
                                   .url = w->metrics_url,
                                   .credentials = &w->credentials,
                                   .connect_timeout_ns = connect_timeout_ns,
                                   .deadline_ns = mono_ns() + WATCHED_TIMEOUT_NS,
                                   .answer_max = WATCHED_PAGE_MAX,
                                   .origin = w->account,
                                   .account = w->account};

    if (!w->has_server || w->metrics_call || w->health_call)
        return false;
    w->metrics_call = call_start(w->caller, &request, watched_worker_on_metrics, w);
    if (w->health_url) {
        request.url = w->health_url;
        w->health_call = call_start(w->caller, &request, watched_worker_on_health, w);
    }
    return true;
}

/* -- What is known ------------------------------------------------------------------------------------ */

bool watched_worker_is_down(const struct watched_worker *w)
{
    return w->failure;
}

void watched_worker_see(struct watched_worker *w, int64_t now_ns, int64_t now_at)
{
    const struct odd_sample sample = {
        .at_ns = now_ns,
        .at = now_at,
        .down = watched_worker_is_down(w),
        .unprofilable = !w->profilable,
        .waiting = w->figures.waiting,
        .kv_use = w->figures.kv_use,
        .ttft_s = w->has_new_ttft ? w->figures.ttft_p50_s : NAN,
    };
    w->has_new_ttft = false;
    odd_see(&w->odd, &sample);
}

/* A figure of a worker may be anything. */
static void put_figure(json_t *j, const char *key, double value)
{
    if (isfinite(value) && value >= 0)
        json_object_set_new(j, key, json_real(value));
}

static void put_count(json_t *j, const char *key, double value)
{
    if (isfinite(value) && value >= 0 && value < (double)INT64_MAX)
        json_put_int(j, key, (int64_t)value);
}

json_t *watched_worker_to_json(const struct watched_worker *w)
{
    const struct watched_figures *f = &w->figures;
    bool down = watched_worker_is_down(w);
    json_t *j = json_object();

    json_put_str(j, "worker", w->url);
    json_put_str(j, "host", w->host);
    json_put_str(j, "engine", engine_name(w->engine));
    json_put_str(j, "version", w->version);
    json_put_str(j, "role", role_name(w->role));
    json_put_str(j, "model", w->model);
    json_put_str(j, "state", down ? "down" : w->profilable ? "ok" : "unprofilable");
    json_put_str(j, "detail", down ? w->failure : !w->profilable ? w->reason : w->note);
    if (!down && !w->profilable)
        json_put_str(j, "remedy", w->remedy);
    put_count(j, "running", f->running);
    put_count(j, "waiting", f->waiting);
    put_figure(j, "kv_use", f->kv_use > 1 ? 1 : f->kv_use);
    put_count(j, "ttft_p50_ns", f->ttft_p50_s * (double)NS_PER_S);
    put_figure(j, "tokens_per_s", f->tokens_per_s);
    return j;
}
