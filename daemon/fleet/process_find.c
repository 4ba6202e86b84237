/* SPDX-License-Identifier: Apache-2.0 */
/* From workers' URLs to the processes that listen there. */
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/process_info.h"
#include "base/process_net.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/url.h"
#include <errno.h>

/* Names are looked up one after another, and each may take the resolver's entire timeout. */
#define HOST_NAMES_MAX     256
#define HOST_NAMES_TIME_NS (3 * NS_PER_S)

struct host {
    char *name;
    struct name_answer answer;
};

/* How a worker's process was found. */
struct candidate {
    char *url; /* NULL: of a process that registered by itself */
    uint16_t port;
    const struct host *host;       /* NULL: no URL that can be read */
    struct net_listener *listener; /* NULL: nobody listens there on this host */
    bool own_host;                 /* the URL names this host */
    const char *remark;            /* "" if the socket itself is the evidence */
};

struct inspection {
    /* After the search. */
    struct fleet *fleet;
    const struct fleet_settings *settings;
    const struct fleet_config *config;
    struct net_survey survey;
    struct candidate *candidates; /* of the fleet's first workers: others may have registered since */
    size_t n_candidates;
    struct host *hosts;
    struct hash_table host_table; /* by name */
    size_t n_hosts, n_names;
    struct launch_cache *launches;
    int64_t names_until_ns;
};

static void resolve_host(struct inspection *in, struct host *h)
{
    const struct in6_addr loopback4 = address_v4(htonl(INADDR_LOOPBACK));
    struct name_answer *a = &h->answer;

    if (streq(h->name, "localhost") || host_is_wildcard(h->name)) {
        a->addresses[a->n++] = loopback4;
        a->addresses[a->n++] = in6addr_loopback;
    } else if (address_of_host(h->name, &a->addresses[0])) {
        a->n = 1;
    } else if (in->n_names++ < HOST_NAMES_MAX && mono_ns() < in->names_until_ns) {
        name_look_up(h->name, a);
    }
}

static bool host_is_equal(const void *inspection, size_t number, const void *name)
{
    const struct inspection *in = inspection;
    return streq(in->hosts[number].name, name);
}

/* The addresses of a name, resolved once. There are at most as many hosts as workers. */
static const struct host *find_host(struct inspection *in, const char *name)
{
    int64_t number =
        hash_table_number(&in->host_table, hash_bytes(name, strlen(name)), host_is_equal, in, name);

    if (number < 0)
        abort(); /* as base/alloc.h */
    struct host *h = &in->hosts[number];
    if ((size_t)number == in->n_hosts) {
        in->n_hosts++;
        h->name = xstrdup(name);
        resolve_host(in, h);
    }
    return h;
}

static struct net_listener *find_in_space(const struct inspection *in, const struct candidate *c,
                                          unsigned space)
{
    struct net_listener *l = NULL;
    for (size_t i = 0; i < c->host->answer.n && !l; i++)
        l = net_survey_find(&in->survey, space, &c->host->answer.addresses[i], c->port);
    return l;
}

static bool space_has_host(const struct inspection *in, unsigned space, const struct host *h)
{
    for (size_t i = 0; i < h->answer.n; i++)
        if (net_space_has(&in->survey.spaces[space], &h->answer.addresses[i]))
            return true;
    return false;
}

/*
 * Finds the process that listens at the worker's URL: in profd's own namespace, or in the one that has the
 * URL's address. A port of this host where nobody listens may be forwarded into a container by the kernel;
 * that is taken to be the only container which listens on that port.
 */
static void find_listener(const struct inspection *in, struct candidate *c)
{
    bool loopback = host_is_loopback(c->host->name) || host_is_wildcard(c->host->name);

    c->own_host = loopback || space_has_host(in, 0, c->host);
    if (c->own_host) {
        c->listener = find_in_space(in, c, 0);
        if (!c->listener && (c->listener = net_survey_elsewhere(&in->survey, c->port)))
            c->remark = " (the only listener on its port, in a network namespace of its own)";
        return;
    }
    for (unsigned space = 1; space < in->survey.n_spaces && !c->listener; space++)
        if (space_has_host(in, space, c->host))
            c->listener = find_in_space(in, c, space);
}

static void find_owners(struct inspection *in)
{
    size_t n = 0;
    _cleanup_(freep) struct net_listener **wanted = xcalloc(in->n_candidates, sizeof(struct net_listener *));

    for (size_t i = 0; i < in->n_candidates; i++)
        if (in->candidates[i].listener && in->candidates[i].listener->pid == 0)
            wanted[n++] = in->candidates[i].listener;
    net_survey_find_owners(&in->survey, wanted, n);
}

/* Programs that hold a container's published port in the host's namespace. */
static bool is_forwarder(pid_t pid)
{
    static const char *const names[] = {"docker-proxy", "conmon", "rootlessport", "rootlesskit",
                                        "slirp4netns",  "pasta",  "pasta.avx2"};
    char name[PROCESS_NAME_MAX];
    process_name(pid, name);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (streq(name, names[i]))
            return true;
    return false;
}

/* docker-proxy has its destination on its command line; other forwarders are assumed to keep the port. */
static struct net_listener *behind_forwarder(const struct inspection *in, pid_t pid, uint16_t port)
{
    _cleanup_(freep) char *data = NULL;
    struct string_list args = {0};
    struct in6_addr address;

    if (process_read(pid, "cmdline", PROCESS_CMDLINE_MAX, &data, &args.size) == 0)
        args.data = data;
    const char *ip = flag_value(&args, "-container-ip"), *inner_port = flag_value(&args, "-container-port");
    if (!ip || !inner_port || !address_of_host(ip, &address))
        return net_survey_elsewhere(&in->survey, port);
    for (unsigned space = 1; space < in->survey.n_spaces; space++)
        if (net_space_has(&in->survey.spaces[space], &address))
            return net_survey_find(&in->survey, space, &address, (uint16_t)strtoul(inner_port, NULL, 10));
    return NULL;
}

static void follow_forwarders(struct inspection *in)
{
    pid_t last = 0;
    bool forwards = false, any = false;

    for (size_t i = 0; i < in->n_candidates; i++) {
        struct candidate *c = &in->candidates[i];
        if (!c->listener || c->listener->pid == 0)
            continue;
        if (c->listener->pid != last) {
            last = c->listener->pid;
            forwards = is_forwarder(last);
        }
        struct net_listener *inner = forwards ? behind_forwarder(in, last, c->port) : NULL;
        if (inner) {
            c->listener = inner;
            c->remark = " (behind a forwarded port)";
            any = true;
        }
    }
    if (any)
        find_owners(in);
}

/* A process's --port; 0 where it has none. */
static uint16_t listener_port_argument(pid_t pid)
{
    _cleanup_(freep) char *data = NULL;
    struct string_list args = {0};
    int port;

    if (process_read(pid, "cmdline", PROCESS_CMDLINE_MAX, &data, &args.size) < 0)
        return 0;
    args.data = data;
    const char *text = flag_value(&args, "--port");
    return text && sscanf(text, "%5d", &port) == 1 && port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
}

/*
 * Where profd may not see who holds a socket, everybody may still read command lines: the oldest process of
 * the socket's user and namespace whose --port it is. Two sockets on one port stay unknown.
 */
static void find_by_argument(struct inspection *in)
{
    struct candidate several = {0};
    _cleanup_(freep) struct candidate **by_port = xcalloc(UINT16_MAX + 1, sizeof(struct candidate *));
    size_t missing = 0;

    for (size_t i = 0; i < in->n_candidates; i++) {
        struct candidate *c = &in->candidates[i];
        if (!c->listener || c->listener->pid != 0)
            continue;
        struct candidate **slot = &by_port[c->listener->port];
        *slot = *slot && (*slot)->listener != c->listener ? &several : c;
        missing++;
    }
    for (size_t i = 0; i < in->survey.n_processes && missing > 0; i++) {
        const struct net_process *p = &in->survey.processes[i];
        struct candidate *c = by_port[listener_port_argument(p->pid)];
        if (!c || !c->listener || c->listener->pid != 0 || c->listener->uid != p->uid ||
            c->listener->space != p->space)
            continue;
        c->listener->pid = p->pid;
        c->listener->started = p->started;
        c->remark = " (known by its --port)";
        missing--;
    }
}

/* trace_dir= of profd.conf, the worker's section first. --trace-dir, which discovery has set, wins over both.
 */
static void take_given_dir(const struct inspection *in, struct worker *w)
{
    static const char *const by_option = "--trace-dir";
    const struct worker_config *own = settings_worker(in->settings, w->url);
    const char *dir = own && own->trace_dir ? own->trace_dir : in->config ? in->config->trace_dir : NULL;

    if (streq(w->location.found_by, by_option)) {
        if (!w->location.local_dir)
            w->location.local_dir = xstrdup(w->location.dir);
        return;
    }
    _cleanup_(freep) char *filled = dir ? worker_fill_path(w, dir) : NULL;
    if (!filled)
        return;
    replace_str(&w->location.dir, filled);
    replace_str(&w->location.local_dir, filled);
    replace_str(&w->location.found_by, "trace_dir in profd.conf");
}

static void explain_unseen(const struct worker *w, const struct candidate *c, bool is_of_other_user,
                           struct problem *p)
{
    _cleanup_(freep) char *what = w->location.dir
                                      ? xasprintf("trace directory %s cannot be reached", w->location.dir)
                                      : xstrdup("trace directory unknown");

    if (is_of_other_user) {
        _cleanup_(freep) char *user = process_user_name(c->listener->uid);
        problem_set(
            p, -EPERM, PROBLEM_DENIED,
            "%s: process %d holds the socket on port %d, which %s made, but has another user's rights", what,
            (int)c->listener->pid, c->port, user);
    } else if (c->listener) {
        _cleanup_(freep) char *user = process_user_name(c->listener->uid);
        problem_set(p, -EACCES, PROBLEM_DENIED,
                    "%s: the process on port %d belongs to %s (profd may not see which it is)", what, c->port,
                    user);
        process_remedy_denied(w, p);
    } else if (c->own_host) {
        problem_set(p, -ESRCH, PROBLEM_NOT_FOUND, "%s: no process of this host is seen to listen on port %d",
                    what, c->port);
    } else if (c->host->answer.n == 0) {
        problem_set(p, -EHOSTUNREACH, PROBLEM_NOT_FOUND, "%s: the name %s was not resolved in time", what,
                    c->host->name);
    } else {
        problem_set(p, -EREMOTE, PROBLEM_NOT_FOUND, "traces are on %s, not on this host", c->host->name);
        problem_remedy(p,
                       "run profd on %s as well and connect both: profctl peer join %s\n"
                       "or name the directory where it is mounted here: --trace-dir DIR\n"
                       "or in profd.conf: [worker %s] trace_dir=/where/its/traces/appear",
                       c->host->name, c->host->name, w->url);
    }
}

/* Root's servers give up its rights, and keep the socket. Nobody else changes its user but by a program that grants
 * rights, which who starts it can have hold any socket: that does not make a server root's. */
static bool listener_is_of_user(const struct net_listener *l, uid_t uid)
{
    return l->uid == 0 || l->uid == uid;
}

static void fill_worker(const struct inspection *in, struct worker *w, const struct candidate *c)
{
    struct problem p = {0};
    uid_t uid;

    take_given_dir(in, w);
    w->local = c->listener != NULL;
    bool is_seen =
        c->listener && c->listener->pid > 0 && launch_cache_user(in->launches, c->listener->pid, &uid) == 0;
    bool is_of_other_user = is_seen && !listener_is_of_user(c->listener, uid);
    if (is_seen && !is_of_other_user) {
        w->pid = c->listener->pid;
        w->uid = uid;
        process_trace_dir(w, in->settings, in->config, in->launches, c->remark);
        return;
    }
    explain_unseen(w, c, is_of_other_user, &p);
    process_trace_dir_unseen(w, in->settings, in->config, c->listener || c->own_host, &p);
}

/* A process that registered by itself is known, and on this host. */
static void fill_process(const struct inspection *in, struct worker *w)
{
    take_given_dir(in, w);
    process_trace_dir(w, in->settings, in->config, in->launches, "");
}

void inspection_search(struct inspection *in)
{
    const char *reason;
    struct url url;

    in->names_until_ns = mono_ns() + HOST_NAMES_TIME_NS;
    net_survey_read(&in->survey);
    for (size_t i = 0; i < in->n_candidates; i++) {
        struct candidate *c = &in->candidates[i];
        c->remark = "";
        if (!c->url || url_parse(c->url, &url, &reason) < 0)
            continue;
        c->port = (uint16_t)url.port;
        c->host = find_host(in, url.host);
        find_listener(in, c);
    }
    find_owners(in);
    follow_forwarders(in);
    find_by_argument(in);
}

static const struct candidate *inspection_candidate(const struct inspection *in, size_t i)
{
    static const struct candidate none;
    return i < in->n_candidates ? &in->candidates[i] : &none;
}

bool inspection_is_here(const struct inspection *in, size_t i)
{
    return inspection_candidate(in, i)->listener != NULL;
}

static pid_t inspection_pid(const struct inspection *in, size_t i)
{
    const struct net_listener *listener = inspection_candidate(in, i)->listener;
    return listener ? listener->pid : in->fleet->workers[i].pid;
}

static int compare_pids(const void *a, const void *b, void *inspection)
{
    const size_t *x = a, *y = b;
    pid_t of_x = inspection_pid(inspection, *x), of_y = inspection_pid(inspection, *y);

    if (of_x != of_y)
        return of_x < of_y ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

/* By process, so that what is read of one is needed for a short time (launch_cache). */
static void fill_workers(struct inspection *in)
{
    size_t n = in->fleet->n_workers;
    _cleanup_(freep) size_t *order = xcalloc(n, sizeof(*order));

    for (size_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof(*order), compare_pids, in);
    for (size_t k = 0; k < n; k++) {
        size_t i = order[k];
        atomic_store(&in->fleet->looking_at, i + 1);
        if (inspection_candidate(in, i)->host)
            fill_worker(in, &in->fleet->workers[i], inspection_candidate(in, i));
        else if (worker_is_on_demand(&in->fleet->workers[i]))
            fill_process(in, &in->fleet->workers[i]);
    }
}

struct inspection *inspection_new(const struct fleet *fleet)
{
    struct inspection *in = xcalloc(1, sizeof(*in));
    size_t n = fleet->n_workers;

    in->n_candidates = n;
    in->candidates = xcalloc(n, sizeof(*in->candidates));
    in->hosts = xcalloc(n, sizeof(*in->hosts));
    for (size_t i = 0; i < n; i++)
        if (!worker_is_on_demand(&fleet->workers[i]))
            in->candidates[i].url = xstrdup(fleet->workers[i].url);
    return in;
}

struct inspection *inspection_free(struct inspection *in)
{
    if (!in)
        return NULL;
    for (size_t i = 0; i < in->n_hosts; i++)
        free(in->hosts[i].name);
    free(in->hosts);
    hash_table_done(&in->host_table);
    for (size_t i = 0; i < in->n_candidates; i++)
        free(in->candidates[i].url);
    free(in->candidates);
    net_survey_done(&in->survey);
    free(in);
    return NULL;
}

/* Whether a server ended, or began to listen, after the search and before it answered. Another process may have the id
 * of one that ended; neighbours are often of one process. */
static bool inspection_is_outdated(const struct inspection *in, const struct fleet *fleet)
{
    pid_t last = 0;

    for (size_t i = 0; i < in->n_candidates; i++) {
        const struct candidate *c = &in->candidates[i];
        const struct net_listener *l = c->listener;
        if (!l && c->own_host && fleet->workers[i].engine != ENGINE_UNKNOWN)
            return true;
        if (!l || l->pid == 0 || l->pid == last)
            continue;
        if (process_has_ended(l->pid, l->started))
            return true;
        last = l->pid;
    }
    return false;
}

void processes_inspect(struct fleet *fleet, const struct fleet_settings *settings,
                       struct inspection *take_searched)
{
    struct inspection *in = take_searched;

    if (in && inspection_is_outdated(in, fleet))
        in = inspection_free(in);
    if (!in && fleet->n_workers > 0) {
        in = inspection_new(fleet);
        inspection_search(in);
    }
    if (!in)
        return;
    in->fleet = fleet;
    in->settings = settings;
    in->config = settings_fleet(settings, fleet->name);
    in->launches = launch_cache_new();
    fill_workers(in);
    processes_match(fleet);
    launch_cache_free(in->launches);
    inspection_free(in);
}
