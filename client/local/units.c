/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/units.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/process_info.h"
#include "base/process_net.h"
#include "client/local/systemd.h"
#include <errno.h>

/* More than any host of workers has. */
#define UNIT_WORKERS_MAX 1000
#define URLS_PER_CALL    100

/* One unit whose ports are searched. */
struct unit_search {
    const struct net_survey *survey;
    const char *unit;
    const pid_t *pids;
    size_t n_pids;
    size_t n_unseen;  /* processes whose sockets are not readable */
    size_t n_private; /* listeners that are not reachable from outside their namespace */
};

void unit_workers_done(struct unit_workers *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->items[i].url);
    for (size_t i = 0; i < w->n_units; i++)
        free(w->units[i]);
    free(w->items);
    free(w->units);
    *w = (struct unit_workers){0};
}

static bool search_has_pid(const struct unit_search *s, pid_t pid)
{
    for (size_t i = 0; i < s->n_pids; i++)
        if (s->pids[i] == pid)
            return true;
    return false;
}

/* An address by which other namespaces reach this one, preferably IPv4; NULL: none. */
static const struct in6_addr *space_outer_address(const struct net_space *space)
{
    const struct in6_addr *v6 = NULL;

    for (size_t i = 0; i < space->n_addresses; i++) {
        const struct in6_addr *a = &space->addresses[i];
        if (address_is_loopback(a) || IN6_IS_ADDR_LINKLOCAL(a))
            continue;
        if (address_is_v4(a))
            return a;
        v6 = v6 ? v6 : a;
    }
    return v6;
}

/* The URL by which profd reaches a listener; NULL if it is not reachable. A listener on all of IPv6 may accept
 * IPv6 only. */
static char *listener_url(const struct net_survey *s, const struct net_listener *l)
{
    const struct in6_addr loopback4 = address_v4(htonl(INADDR_LOOPBACK));
    const struct in6_addr *address = &l->address;
    char text[ADDRESS_TEXT_SIZE];

    if (l->space == 0 && address_is_wildcard(address))
        address = address_is_v4(address) ? &loopback4 : &in6addr_loopback;
    else if (l->space > 0 && address_is_wildcard(address))
        address = space_outer_address(&s->spaces[l->space]);
    else if (l->space > 0 && address_is_loopback(address))
        address = NULL;
    if (!address)
        return NULL;
    address_format(address, text);
    return xasprintf("http://%s:%u", text, l->port);
}

static void search_add_listener(struct unit_search *s, const struct net_listener *l, size_t unit,
                                struct unit_workers *ret)
{
    _cleanup_(freep) char *url = listener_url(s->survey, l);

    s->n_private += url == NULL;
    if (!url || ret->n == UNIT_WORKERS_MAX)
        return;
    for (size_t i = 0; i < ret->n; i++)
        if (streq(ret->items[i].url, url))
            return;
    VEC_GROW(ret->items, ret->n, ret->cap);
    ret->items[ret->n++] = (struct unit_worker){TAKE_PTR(url), unit};
}

/* The port on the command line of a process, which every user can read; 0: none. */
static uint16_t process_port_argument(pid_t pid)
{
    _cleanup_(freep) char *data = NULL;
    struct string_list args = {0};

    if (process_read(pid, "cmdline", PROCESS_CMDLINE_MAX, &data, &args.size) < 0)
        return 0;
    args.data = data;
    const char *text = flag_value(&args, "--port");
    long port = text ? strtol(text, NULL, 10) : 0;
    return port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
}

static void search_add_by_argument(struct unit_search *s, pid_t pid, size_t unit, struct unit_workers *ret)
{
    const struct net_process *process = NULL;
    uint16_t port = process_port_argument(pid);

    s->n_unseen++;
    for (size_t i = 0; i < s->survey->n_processes && !process; i++)
        if (s->survey->processes[i].pid == pid)
            process = &s->survey->processes[i];
    for (size_t i = 0; process && port && i < s->survey->n_listeners; i++) {
        const struct net_listener *l = &s->survey->listeners[i];
        if (l->pid == 0 && l->port == port && l->uid == process->uid && l->space == process->space)
            search_add_listener(s, l, unit, ret);
    }
}

static void search_add_ports(struct unit_search *s, size_t unit, struct unit_workers *ret)
{
    for (size_t i = 0; i < s->survey->n_listeners; i++)
        if (s->survey->listeners[i].pid > 0 && search_has_pid(s, s->survey->listeners[i].pid))
            search_add_listener(s, &s->survey->listeners[i], unit, ret);
    for (size_t i = 0; i < s->n_pids; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)s->pids[i]);
        if (access(path, R_OK | X_OK) < 0)
            search_add_by_argument(s, s->pids[i], unit, ret);
    }
}

static int search_listens_nowhere(const struct unit_search *s, struct problem *p)
{
    if (s->n_unseen > 0) {
        problem_remedy(
            p,
            "Run profctl as root or as the unit's user, or name the port: --worker http://127.0.0.1:PORT.");
        return problem_set(p, -EACCES, PROBLEM_DENIED,
                           "cannot see on which port %s listens: its processes belong to another user",
                           s->unit);
    }
    if (s->n_private > 0) {
        problem_remedy(p,
                       "Remove PrivateNetwork=yes, or let it listen on an address that this host reaches.");
        return problem_set(p, -EADDRNOTAVAIL, PROBLEM_NO_WORKERS,
                           "%s listens only in its own network namespace", s->unit);
    }
    problem_remedy(p,
                   "An engine listens once it has loaded its model: systemctl status %s, journalctl -u %s.",
                   s->unit, s->unit);
    return problem_set(p, -ENOTCONN, PROBLEM_NO_WORKERS,
                       "%s is running (%zu process%s), but listens on no TCP port", s->unit, s->n_pids,
                       s->n_pids == 1 ? "" : "es");
}

static int search_unit(const struct systemd *systemd, const struct net_survey *survey,
                       const struct unit *unit, struct unit_workers *ret, struct problem *p)
{
    _cleanup_(freep) pid_t *pids = NULL;
    struct unit_search s = {.survey = survey, .unit = unit->name};
    size_t before = ret->n;
    int r = systemd_unit_processes(systemd, unit->name, &pids, &s.n_pids, p);

    if (r < 0)
        return r;
    s.pids = pids;
    VEC_GROW(ret->units, ret->n_units, ret->cap_units);
    ret->units[ret->n_units++] = xstrdup(unit->name);
    search_add_ports(&s, ret->n_units - 1, ret);
    return ret->n == before ? search_listens_nowhere(&s, p) : 0;
}

static bool unit_is_running(const struct unit *u)
{
    return streq(u->active, "active") || streq(u->active, "reloading") || streq(u->active, "activating");
}

static int units_none_runs(const struct systemd *systemd, const char *pattern, const struct unit_list *units,
                           struct problem *p)
{
    const char *scope = systemd->is_user ? "systemctl --user" : "systemctl";

    if (units->n == 0 || (units->n == 1 && streq(units->items[0].load, "not-found"))) {
        problem_remedy(p, "%s list-units --type=service lists all units.", scope);
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "unknown unit %s", pattern);
    }
    const struct unit *u = &units->items[0];
    if (units->n == 1)
        problem_set(p, -ESRCH, PROBLEM_NO_WORKERS, "%s is not running: it is %s", u->name, u->active);
    else
        problem_set(p, -ESRCH, PROBLEM_NO_WORKERS, "none of the %zu units matching %s is running; %s is %s",
                    units->n, pattern, u->name, u->active);
    problem_remedy(p, "Start it: %s start %s. %s status %s shows why it is not running.", scope, u->name,
                   scope, u->name);
    return -ESRCH;
}

static int search_pattern(struct client *c, const struct systemd *systemd, const struct net_survey *survey,
                          const char *pattern, struct unit_workers *ret, struct problem *p)
{
    _cleanup_(unit_list_done) struct unit_list units = {0};
    size_t n_running = 0;
    int r = systemd_find_units(systemd, pattern, &units, p);

    for (size_t i = 0; r >= 0 && i < units.n; i++)
        n_running += unit_is_running(&units.items[i]);
    if (r >= 0 && n_running == 0)
        return units_none_runs(systemd, pattern, &units, p);
    for (size_t i = 0; r >= 0 && i < units.n; i++) {
        if (unit_is_running(&units.items[i]))
            r = search_unit(systemd, survey, &units.items[i], ret, p);
        else
            client_note(c, "  left out: %s is %s", units.items[i].name, units.items[i].active);
    }
    return r;
}

static int search_manager(struct client *c, bool user, const struct net_survey *survey,
                          const struct option_list *patterns, struct unit_workers *ret, struct problem *p)
{
    _cleanup_(systemd_done) struct systemd systemd = {0};
    int r = patterns->n > 0 ? systemd_open(user, &systemd, p) : 0;

    for (size_t i = 0; r >= 0 && i < patterns->n; i++)
        r = search_pattern(c, &systemd, survey, patterns->items[i], ret, p);
    return r;
}

/* -- Which of several ports is the engine's ----------------------------------------------------------- */

static size_t unit_workers_count(const struct unit_workers *w, size_t unit)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n; i++)
        n += w->items[i].unit == unit;
    return n;
}

static bool fleet_has_engine(const json_t *fleet, const char *url)
{
    size_t i;
    json_t *w;

    json_array_foreach(json_object_get(fleet, "workers"), i, w)
        if (streq(json_get_str(w, "url"), url)) {
            int engine = engine_from_name(json_get_str(w, "engine"));
            return engine >= 0 && engine != ENGINE_UNKNOWN;
        }
    return false;
}

static int unit_workers_no_engine(const struct unit_workers *w, size_t unit, struct problem *p)
{
    _cleanup_(freep) char *ports = NULL;

    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].unit == unit)
            append_str(&ports, "%s%s", ports ? ", " : "", w->items[i].url);
    problem_remedy(p, "An engine does not answer while it loads its model; see journalctl -u %s.",
                   w->units[unit]);
    return problem_set(p, -EPROTO, PROBLEM_NO_WORKERS,
                       "%s listens on %s, and none of these ports answers as an engine", w->units[unit],
                       ports);
}

/* Of units with several ports, keeps those that profd identifies as engines. */
static int unit_workers_keep_engines(struct unit_workers *w, const json_t *fleet, struct problem *p)
{
    _cleanup_(freep) size_t *n_engines = xcalloc(w->n_units, sizeof(*n_engines));
    size_t kept = 0;

    for (size_t i = 0; i < w->n; i++)
        n_engines[w->items[i].unit] += fleet_has_engine(fleet, w->items[i].url);
    for (size_t unit = 0; unit < w->n_units; unit++)
        if (n_engines[unit] == 0 && unit_workers_count(w, unit) > 1)
            return unit_workers_no_engine(w, unit, p);
    for (size_t i = 0; i < w->n; i++) {
        if (n_engines[w->items[i].unit] == 0 || fleet_has_engine(fleet, w->items[i].url))
            w->items[kept++] = w->items[i];
        else
            free(w->items[i].url);
    }
    w->n = kept;
    return 0;
}

/* In several calls, since the length of a request line is limited. */
static int unit_workers_find_engines(struct client *c, struct unit_workers *w, struct problem *p)
{
    _cleanup_json_ fleet = json_object();
    json_t *workers = json_array();
    int r = 0;

    json_object_set_new(fleet, "workers", workers);
    for (size_t i = 0; r >= 0 && w->n > w->n_units && i < w->n;) {
        _cleanup_(freep) char *path = xstrdup("/v1/workers");
        _cleanup_json_ answer = NULL;
        for (size_t end = MIN(i + URLS_PER_CALL, w->n); i < end; i++)
            url_add(&path, "worker", w->items[i].url);
        r = connection_call(c->connection, "GET", path, NULL, "identifying the engines of the units", &answer,
                            p);
        json_array_extend(workers, json_object_get(answer, "workers"));
    }
    return r < 0 ? r : unit_workers_keep_engines(w, fleet, p);
}

int units_find_workers(struct client *c, const struct option_list *system, const struct option_list *user,
                       struct unit_workers *ret, struct problem *p)
{
    _cleanup_(net_survey_done) struct net_survey survey = {0};

    if (system->n + user->n == 0)
        return 0;
    if (!connection_is_local(c->connection)) {
        problem_remedy(p, "Run profctl on that machine, or name workers by --worker URL.");
        return problem_set(p, -EREMOTE, PROBLEM_BAD_REQUEST,
                           "cannot use units of this machine: profd at %s is not on it",
                           connection_name(c->connection));
    }
    net_survey_read(&survey);
    _cleanup_(freep) struct net_listener **all = xcalloc(survey.n_listeners, sizeof(struct net_listener *));
    for (size_t i = 0; i < survey.n_listeners; i++)
        all[i] = &survey.listeners[i];
    net_survey_find_owners(&survey, all, survey.n_listeners);
    int r = search_manager(c, false, &survey, system, ret, p);
    if (r >= 0)
        r = search_manager(c, true, &survey, user, ret, p);
    return r < 0 ? r : unit_workers_find_engines(c, ret, p);
}
