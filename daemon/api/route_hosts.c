/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts: what this profd tells its peers about itself (role peer), and the list of all of them.
 *
 * A request of a peer names no directory, no router and no source: members that a route does not know are an error, so
 * that a stolen token reaches nothing else.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/api/handler.h"
#include "daemon/archive/archiver.h"
#include "daemon/fleet/doctor.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"
#include "daemon/hosts/leases.h"
#include "daemon/peers/survey.h"
#include "version.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>

/* Addresses of this host that its peers are told. */
#define ADDRESSES_MAX 64

/* -- This host ----------------------------------------------------------------------------------------- */

/* Those by which other hosts can reach it. */
static json_t *host_addresses(void)
{
    json_t *list = json_array();
    struct ifaddrs *all = NULL;
    struct in6_addr address;
    char text[INET6_ADDRSTRLEN];

    if (getifaddrs(&all) < 0)
        return list;
    for (const struct ifaddrs *i = all; i && json_array_size(list) < ADDRESSES_MAX; i = i->ifa_next) {
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !address_of_socket(i->ifa_addr, &address) ||
            address_is_loopback(&address) || IN6_IS_ADDR_LINKLOCAL(&address))
            continue;
        bool v4 = address_is_v4(&address);
        if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? (void *)&address.s6_addr[12] : &address, text,
                      sizeof(text)))
            json_array_append_new(list, json_string(text));
    }
    freeifaddrs(all);
    return list;
}

static json_t *host_store(struct api *api)
{
    struct store_usage u;
    json_t *j = json_object();

    if (store_usage(api->modules.store, &u) < 0)
        return j;
    json_put_int(j, "bytes", u.bytes);
    json_put_int(j, "max_use", u.max_use);
    json_put_int(j, "free", u.free);
    return j;
}

/* What waits to be archived; nothing where there is no archive. */
static void host_put_upload(struct api *api, json_t *j)
{
    struct archiver_metrics m;
    json_t *upload;

    if (!archiver_is_configured(api->modules.archiver))
        return;
    archiver_metrics(api->modules.archiver, &m);
    upload = json_object();
    json_put_int(upload, "files", m.waiting_files);
    json_put_int(upload, "bytes", m.waiting_bytes);
    json_put_int(upload, "lag_ns", m.lag_ns);
    json_object_set_new(j, "upload", upload);
}

/* What waits to be mirrored; nothing where there is no mirror. */
static void host_put_mirror(struct api *api, json_t *j)
{
    struct mirror_state s;

    mirror_read_state(api->modules.mirror, &s);
    if (s.phase == MIRROR_OFF)
        return;
    json_t *mirror = json_object();
    json_put_str(mirror, "state", mirror_phase_name(s.phase));
    if (s.lag >= 0)
        json_put_int(mirror, "rows", s.lag);
    json_put_int(mirror, "lag_ns", s.lag_ns);
    json_object_set_new(j, "mirror", mirror);
}

static void host_put_counts(struct api *api, json_t *j)
{
    const int64_t workers = fleet_local_workers(api->modules.finder);

    if (workers >= 0)
        json_put_int(j, "workers", workers);
    json_put_int(j, "sessions", jobs_count(sessions_jobs(api->modules.sessions)));
    json_object_set_new(j, "store", host_store(api));
    host_put_upload(api, j);
    host_put_mirror(api, j);
}

void get_host(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct api_modules *m = &api->modules;
    const struct peers_self self = peers_self(m->peers);
    json_t *j = json_object(), *limits = json_object();
    _cleanup_(freep) char *boot = boot_id();

    json_put_int(j, "protocol", PEER_PROTOCOL);
    json_put_str(j, "catalog", self.uuid);
    json_put_str(j, "host", self.host);
    json_put_str(j, "version", PROFD_VERSION);
    json_put_str(j, "boot_id", boot);
    json_object_set_new(j, "addresses", host_addresses());
    /* Of the pod of a DaemonSet, by the downward API. */
    json_put_str(j, "node", getenv("NODE_NAME"));
    json_put_bool(j, "system", self.is_system);
    host_put_counts(api, j);
    json_put_int(limits, "session_ns", m->session_settings->session_limit_ns);
    json_put_int(limits, "stop_ns", m->session_settings->stop_timeout_ns);
    json_put_int(limits, "lease_ns", m->hosts_settings->lease_ns);
    json_object_set_new(j, "limits", limits);
    http_reply_json(r, 200, j);
}

void get_host_clock(struct api *api, struct http_request *r, const struct route_match *match)
{
    const struct clock_quality quality = clock_own_quality();
    _cleanup_(freep) char *boot = boot_id();
    json_t *j = json_object();

    json_put_int(j, "received_mono_ns", http_begun_ns(r));
    json_put_str(j, "boot_id", boot);
    if (quality.maxerror_ns >= 0)
        json_put_int(j, "maxerror_ns", quality.maxerror_ns);
    json_put_bool(j, "unsync", quality.unsync);
    json_put_int(j, "wall_ns", wall_ns());
    json_put_int(j, "sent_mono_ns", mono_ns());
    http_reply_json(r, 200, j);
}

/* Of one question. */
#define RANK_GROUPS_MAX 1024

/* -- Its workers --------------------------------------------------------------------------------------- */

/* Which of the URLs lead to this host is looked up first, without a call: a peer cannot have profd call other servers. */
struct host_workers {
    struct api *api;
    struct http_request *request; /* NULL: the peer left */
    struct fleet *named;
    char **ranks; /* ranks://MEET, of groups whose ranks without a server are looked for */
    size_t n_ranks;
    struct inspection *inspection;
    struct discovery *discovery;
};

static void host_workers_free(struct host_workers *h)
{
    fleet_free(h->named);
    for (size_t i = 0; i < h->n_ranks; i++)
        free(h->ranks[i]);
    free(h->ranks);
    inspection_free(h->inspection);
    free(h);
}

/* {"worker": URL, "group": "HOST:PORT"}: where a launch without a server meets its group. */
static int host_workers_parse_ranks(const json_t *list, struct host_workers *h, struct problem *p)
{
    static const char expected[] = "a list of at most 1024 objects with \"worker\" and \"group\"";
    _cleanup_(freep) char *group = NULL;
    json_t *one;
    size_t i;
    int node;

    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > RANK_GROUPS_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"ranks_of\" must be %s", expected);
    h->ranks = xcalloc(MAX(json_array_size(list), (size_t)1), sizeof(*h->ranks));
    json_array_foreach((json_t *)list, i, one) {
        const char *meet = json_get_str(one, "group");
        _cleanup_(freep) char *url = meet ? xasprintf(RANKS_SCHEME "%s", meet) : NULL;
        bool is_sound = url && json_get_str(one, "worker") && json_object_size(one) == 2 &&
                        !strchr(meet, '/') && ranks_url_parse(url, &group, &node);
        replace_str(&group, NULL);
        if (!is_sound)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"ranks_of\" must be %s", expected);
        h->ranks[h->n_ranks++] = TAKE_PTR(url);
    }
    return 0;
}

static int host_workers_parse(const json_t *body, size_t max, struct fleet *ret, struct problem *p)
{
    const json_t *urls = json_object_get(body, "workers");
    const char *name, *reason;
    struct worker *w;
    json_t *value;

    json_object_foreach((json_t *)body, name, value)
        if (!streq(name, "workers") && !streq(name, "ranks_of"))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\": a peer names workers only", name);
    if (!json_is_array(urls))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"workers\" must be a list of URLs");
    if (json_array_size(urls) > max)
        return problem_set(p, -E2BIG, PROBLEM_TOO_MANY, "%zu workers are named, %zu are allowed",
                           json_array_size(urls), max);
    for (size_t i = 0; i < json_array_size(urls); i++) {
        const char *url = json_string_value(json_array_get(urls, i));
        if (!url || fleet_add_url(ret, url, &w, &reason) < 0 || url_is_loopback(w->url))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "workers[%zu] must be a URL whose host is the same seen from every host", i);
    }
    return 0;
}

static void host_workers_search(void *arg)
{
    struct host_workers *h = arg;
    inspection_search(h->inspection);
}

/* NULL: nobody holds it. */
static json_t *host_worker_holder(struct api *api, const struct worker *w)
{
    struct lease_holder holder;
    return leases_find_holder(api->modules.leases, w, &holder) ? lease_holder_to_json(&holder) : NULL;
}

/* What only the owner knows, and the list of workers does not have. */
static void host_workers_add_facts(struct api *api, json_t *workers, const struct fleet *f)
{
    for (size_t i = 0; i < f->n_workers; i++) {
        json_t *j = json_array_get(workers, i), *holder = host_worker_holder(api, &f->workers[i]);
        if (holder)
            json_object_set_new(j, "holder", holder);
        if (f->workers[i].location.blocked_here)
            json_put_bool(json_object_get(j, "traces"), "blocked", true);
    }
}

static void host_workers_reply(struct host_workers *h, struct fleet *f)
{
    const struct peers_self self = peers_self(h->api->modules.peers);
    json_t *j = f ? fleet_to_json(f) : json_object();

    if (f) {
        host_workers_add_facts(h->api, json_object_get(j, "workers"), f);
    } else {
        json_put_str(j, "dialect", "static");
        json_object_set_new(j, "workers", json_array());
    }
    json_put_str(j, "catalog", self.uuid);
    json_put_str(j, "host", self.host);
    http_on_close(h->request, NULL, NULL);
    http_reply_json(h->request, 200, j);
    host_workers_free(h);
}

static void host_workers_on_fleet(struct fleet *f, const struct problem *p, void *arg)
{
    struct host_workers *h = arg;
    _cleanup_(fleet_freep) struct fleet *found = f;

    h->discovery = NULL;
    if (found) {
        host_workers_reply(h, found);
        return;
    }
    http_on_close(h->request, NULL, NULL);
    http_reply_problem(h->request, p);
    host_workers_free(h);
}

static void host_workers_on_searched(void *arg)
{
    struct host_workers *h = arg;
    struct fleet_query q = {.here_only = true};

    if (!h->request) {
        host_workers_free(h);
        return;
    }
    q.workers = xcalloc(h->named->n_workers + h->n_ranks + 1, sizeof(*q.workers));
    for (size_t i = 0; i < h->named->n_workers; i++)
        if (inspection_is_here(h->inspection, i))
            q.workers[q.n_workers++] = xstrdup(h->named->workers[i].url);
    for (size_t i = 0; i < h->n_ranks; i++)
        q.workers[q.n_workers++] = xstrdup(h->ranks[i]);
    h->inspection = inspection_free(h->inspection);
    if (q.n_workers > 0)
        h->discovery = fleet_discover(h->api->modules.finder, &q, host_workers_on_fleet, h);
    else
        host_workers_reply(h, NULL);
    fleet_query_done(&q);
}

static void host_workers_on_close(struct http_request *r, void *arg)
{
    struct host_workers *h = arg;

    h->request = NULL;
    if (!h->discovery)
        return; /* a thread has it */
    discovery_cancel(h->discovery);
    host_workers_free(h);
}

void get_host_workers(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ body = NULL;
    struct host_workers *h = xcalloc(1, sizeof(*h));

    *h = (struct host_workers){.api = api, .request = r, .named = xcalloc(1, sizeof(*h->named))};
    if (body_object(r, &body, &p) < 0 ||
        host_workers_parse(body, api->modules.fleet_settings->workers_max, h->named, &p) < 0 ||
        host_workers_parse_ranks(json_object_get(body, "ranks_of"), h, &p) < 0) {
        http_reply_problem(r, &p);
        host_workers_free(h);
        return;
    }
    h->inspection = inspection_new(h->named);
    http_on_close(r, host_workers_on_close, h);
    offload_run(api->modules.offload, host_workers_search, host_workers_on_searched, h);
}

/* -- All hosts ----------------------------------------------------------------------------------------- */

static void host_put_clock(json_t *j, const struct clock_estimate *e)
{
    if (e->measured_mono_ns == 0)
        return;
    json_put_int(j, "clock_offset_ns", e->wall_offset_ns);
    json_put_int(j, "clock_error_ns", e->error_ns);
    json_put_int(j, "clock_rtt_ns", e->rtt_ns);
    json_put_bool(j, "clock_unsync", e->quality.unsync);
    if (e->quality.maxerror_ns >= 0)
        json_put_int(j, "clock_maxerror_ns", e->quality.maxerror_ns);
}

static json_t *host_of_peer(const struct peer *peer)
{
    const struct peer_hello *h = &peer->hello;
    json_t *j = json_object(), *store = json_object();
    const bool answered = peer->hello_at > 0;

    json_put_str(j, "host", h->host ? h->host : peer->name);
    json_put_str(j, "peer", peer->name);
    json_put_str(j, "catalog", answered ? h->catalog : NULL);
    json_put_str(j, "url", peer->url);
    json_put_str(j, "state", peer_state_name(peer->state));
    json_put_str(j, "version", h->version);
    if (answered) {
        if (h->workers >= 0)
            json_put_int(j, "workers", h->workers);
        if (h->sessions >= 0)
            json_put_int(j, "sessions", h->sessions);
        if (h->store_bytes >= 0)
            json_put_int(store, "bytes", h->store_bytes);
        if (h->store_max_use >= 0)
            json_put_int(store, "max_use", h->store_max_use);
        if (h->store_free >= 0)
            json_put_int(store, "free", h->store_free);
        json_put_int(j, "seen_at", peer->seen_at);
        json_put_int(j, "hello_at", peer->hello_at);
        json_object_set(j, "store", store);
        if (h->upload)
            json_object_set(j, "upload", h->upload);
        if (h->mirror)
            json_object_set(j, "mirror", h->mirror);
    }
    json_decref(store);
    host_put_clock(j, &peer->clock);
    json_put_str(j, "problem", peer->problem.what);
    json_put_str(j, "remedy", peer->problem.remedy);
    return j;
}

static json_t *host_of_self(struct api *api)
{
    const struct peers_self self = peers_self(api->modules.peers);
    const struct clock_quality quality = clock_own_quality();
    json_t *j = json_object();

    json_put_str(j, "host", self.host);
    json_put_str(j, "catalog", self.uuid);
    json_put_str(j, "state", peer_state_name(PEER_SELF));
    json_put_str(j, "version", PROFD_VERSION);
    host_put_counts(api, j);
    json_put_int(j, "clock_offset_ns", 0);
    json_put_int(j, "clock_error_ns", 0);
    json_put_bool(j, "clock_unsync", quality.unsync);
    if (quality.maxerror_ns >= 0)
        json_put_int(j, "clock_maxerror_ns", quality.maxerror_ns);
    return j;
}

static void hosts_on_surveyed(void *arg)
{
    const struct peer *peer;
    struct later_reply l;

    if (!later_reply_end(arg, &l))
        return;
    json_t *list = json_array();
    json_array_append_new(list, host_of_self(l.api));
    LIST_FOREACH(peer, peers_list(l.api->modules.peers), link) {
        if (peer->state != PEER_SELF && peer->state != PEER_DUPLICATE)
            json_array_append_new(list, host_of_peer(peer));
    }
    reply_list(l.request, "hosts", list);
}

static void hosts_on_close(void *survey)
{
    peers_survey_cancel(survey);
}

void list_hosts(struct api *api, struct http_request *r, const struct route_match *match)
{
    struct later_reply *l = later_reply_new(api, r, match);

    l->cancel = hosts_on_close;
    l->work = peers_survey_start(api->modules.peers, hosts_on_surveyed, l);
}

/* -- The doctor ---------------------------------------------------------------------------------------- */

/* A start at one time on several hosts is as exact as this. */
#define CLOCK_ERROR_WARN_NS (20 * NS_PER_MS)

static const char clock_remedy[] = "Let all hosts follow one time server (timedatectl, chronyc tracking).";

static void host_check_clock(const struct peer *peer, struct checks *c)
{
    const struct clock_estimate *e = &peer->clock;
    const char *host = peer->hello.host ? peer->hello.host : peer->name;
    const int64_t offset = e->wall_offset_ns;
    char text[UNIT_TEXT_MAX], around[UNIT_TEXT_MAX];

    if (e->measured_mono_ns == 0) {
        checks_add(c, CHECK_UNKNOWN, NULL, NULL, "the clock of %s could not be measured", host);
        return;
    }
    format_duration(text, offset < 0 ? -offset : offset);
    format_duration(around, e->error_ns);
    if (offset > CLOCK_WARN_NS || offset < -CLOCK_WARN_NS)
        checks_add(c, CHECK_WARN, NULL, clock_remedy,
                   "the clock of %s is %s %s ours (measured between both profds, ±%s)", host, text,
                   offset > 0 ? "ahead of" : "behind", around);
    if (e->error_ns > CLOCK_ERROR_WARN_NS)
        checks_add(c, CHECK_WARN, NULL, "Check the network between both hosts.",
                   "the clock of %s is known to ±%s only: its answers take too long", host, around);
    if (e->quality.unsync)
        checks_add(c, CHECK_WARN, NULL, clock_remedy,
                   "the kernel of %s reports that its clock is not synchronized", host);
}

void hosts_check(struct api *api, struct checks *c)
{
    const struct peer *peer;
    unsigned n = 0, n_ok = 0;

    LIST_FOREACH(peer, peers_list(api->modules.peers), link) {
        if (peer->state == PEER_SELF || peer->state == PEER_DUPLICATE)
            continue;
        n++;
        n_ok += peer->state == PEER_OK;
        if (peer->state == PEER_OK)
            host_check_clock(peer, c);
        else
            checks_add(c, peer->state == PEER_UNKNOWN ? CHECK_UNKNOWN : CHECK_FAIL, NULL,
                       peer->problem.remedy, "%s", peer->problem.what ? peer->problem.what : peer->url);
    }
    if (n > 0 && clock_own_quality().unsync)
        checks_add(c, CHECK_WARN, NULL, clock_remedy,
                   "the kernel of this host reports that its clock is not synchronized");
    if (n > 0)
        checks_add(c, n_ok > 0 ? CHECK_OK : CHECK_FAIL, NULL,
                   n_ok > 0 ? NULL : "Only workers of this host can be recorded until one of them answers.",
                   "%u of %u other hosts answer", n_ok, n);
    else if (peers_are_configured(api->modules.peers))
        checks_add(c, CHECK_WARN, NULL, "Check [hosts] peers= of profd.conf, and the log.",
                   "no other host was found");
}
