/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/process_ranks.h"

#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/profiler_config.h"
#include <errno.h>

/* Words of a command line that may name the program: "python3 -m sglang.launch_server", "python3 /usr/bin/vllm serve". */
#define PROGRAM_WORDS_MAX 6
/* Launches of one user on one host, of the groups that are asked for. */
#define LAUNCHES_MAX 256
/* Processes between a launch and the deepest of its children. */
#define LAUNCH_DEPTH_MAX 32
/* Processes that are not believed, and named. */
#define REFUSALS_NOTED 3
#define NODES_MAX      65536

/* -- Launches ------------------------------------------------------------------------------------------ */

struct rank_flags {
    enum engine engine;
    const char *const *programs; /* base names, NULL at the end */
    const char *nodes, *node, *short_node;
    const char *meet, *older_meet; /* "HOST:PORT"; NULL: two flags */
    const char *host, *port, *port_default;
    const char *tp, *short_tp, *pp, *short_pp;
    const char *headless; /* without it, a node has a server; NULL: the first node has */
};

static const char *const sglang_programs[] = {"sglang.launch_server", "launch_server.py", "sglang", NULL};
static const char *const vllm_programs[] = {"vllm", "vllm.entrypoints.openai.api_server",
                                            "vllm.entrypoints.cli.main", NULL};

/* sglang/srt/server_args.py; vllm/engine/arg_utils.py, ParallelConfig. */
static const struct rank_flags rank_flags[] = {
    {.engine = ENGINE_SGLANG,
     .programs = sglang_programs,
     .nodes = "--nnodes",
     .node = "--node-rank",
     .meet = "--dist-init-addr",
     .older_meet = "--nccl-init-addr",
     .tp = "--tp-size",
     .short_tp = "--tp",
     .pp = "--pp-size",
     .short_pp = "--pp"},
    {.engine = ENGINE_VLLM,
     .programs = vllm_programs,
     .nodes = "--nnodes",
     .node = "--node-rank",
     .short_node = "-r",
     .host = "--master-addr",
     .port = "--master-port",
     .port_default = "29501",
     .tp = "--tensor-parallel-size",
     .short_tp = "-tp",
     .pp = "--pipeline-parallel-size",
     .short_pp = "-pp",
     .headless = "--headless"},
};

static bool is_program(const char *word, const struct rank_flags *f)
{
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;

    for (const char *const *p = f->programs; *p; p++)
        if (streq(name, *p))
            return true;
    return false;
}

static const struct rank_flags *launch_flags(const struct string_list *args)
{
    const char *arg = string_list_next(args, NULL);

    for (int k = 0; arg && k < PROGRAM_WORDS_MAX; k++, arg = string_list_next(args, arg))
        for (size_t i = 0; i < ARRAY_SIZE(rank_flags); i++)
            if (is_program(arg, &rank_flags[i]))
                return &rank_flags[i];
    return NULL;
}

static char *launch_meet(const struct string_list *args, const struct rank_flags *f)
{
    const char *meet = f->meet ? flag_value(args, f->meet) : NULL;

    if (!meet && f->older_meet)
        meet = flag_value(args, f->older_meet);
    if (meet || !f->host)
        return meet && strlen(meet) <= RANKS_GROUP_MAX ? xstrdup(meet) : NULL;
    const char *host = flag_value(args, f->host), *port = flag_value(args, f->port);
    if (!host || strlen(host) > RANKS_GROUP_MAX / 2 || (port && strlen(port) > 5))
        return NULL;
    return xasprintf("%s:%s", host, port ? port : f->port_default);
}

/* Of the ranks of tensor and pipeline parallelism, each node has the same number. */
static void launch_count_ranks(struct rank_launch *l)
{
    int64_t all = (int64_t)MAX(l->tp, 1) * MAX(l->pp, 1);

    if (l->nodes < 1 || all % l->nodes != 0 || all > NODES_MAX)
        return;
    l->ranks = (int)(all / l->nodes);
    l->first_rank = l->ranks * l->node;
}

bool rank_launch_read(const struct string_list *args, struct rank_launch *ret)
{
    const struct rank_flags *f = launch_flags(args);
    struct worker meeting = {0};

    *ret = (struct rank_launch){0};
    if (!f)
        return false;
    const struct worker_launch launch = {.args = *args};
    ret->engine = f->engine;
    ret->nodes = launch_size(&launch, f->nodes, NULL);
    ret->node = launch_size(&launch, f->node, f->short_node);
    ret->tp = launch_size(&launch, f->tp, f->short_tp);
    ret->pp = launch_size(&launch, f->pp, f->short_pp);
    _cleanup_(freep) char *meet = launch_meet(args, f);
    worker_join_group(&meeting, meet);
    ret->group = meeting.group;
    bool has_server = ret->node == 0;
    bool is_sound = ret->nodes > 1 && ret->node < ret->nodes && ret->group &&
                    !strpbrk(ret->group, "/ \t\r\n") &&
                    (has_server || !f->headless || flag_is_there(args, f->headless));
    if (!is_sound) {
        rank_launch_done(ret);
        return false;
    }
    launch_count_ranks(ret);
    return true;
}

void rank_launch_done(struct rank_launch *l)
{
    free(l->group);
    *l = (struct rank_launch){0};
}

/* -- URLs ---------------------------------------------------------------------------------------------- */

char *ranks_url(const char *group, int node)
{
    return xasprintf(RANKS_SCHEME "%s/%d", group, node);
}

bool ranks_url_parse(const char *url, char **ret_group, int *ret_node)
{
    const char *group = starts_with(url, RANKS_SCHEME) ? url + strlen(RANKS_SCHEME) : "";
    size_t n = strcspn(group, "/");
    const char *node = group[n] ? group + n + 1 : NULL;

    *ret_group = NULL;
    *ret_node = -1;
    if (n == 0 || n > RANKS_GROUP_MAX || strcspn(group, " \t\r\n") < n)
        return false;
    if (node) {
        if (!*node || strlen(node) > 5 || strspn(node, "0123456789") != strlen(node))
            return false;
        *ret_node = (int)strtol(node, NULL, 10);
    }
    *ret_group = xstrndup(group, n);
    return true;
}

bool ranks_url_is(const char *url)
{
    return starts_with(url, RANKS_SCHEME);
}

bool worker_is_watched(const struct worker *w)
{
    return w->ranks_of && ranks_url_is(w->url);
}

bool worker_may_have_ranks(const struct worker *w)
{
    return w->group && w->sizes.nodes > 1 && !worker_is_on_demand(w) && !worker_is_watched(w);
}

/* -- Processes ----------------------------------------------------------------------------------------- */

static bool is_wanted(const struct rank_launch *l, char *const *urls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        _cleanup_(freep) char *group = NULL;
        int node;
        if (ranks_url_parse(urls[i], &group, &node) && streq(group, l->group) &&
            (node < 0 || node == l->node))
            return true;
    }
    return false;
}

static bool fleet_has_url(const struct fleet *fleet, const char *url)
{
    for (size_t i = 0; i < fleet->n_workers; i++)
        if (streq(fleet->workers[i].url, url))
            return true;
    return false;
}

/* A launch that the command line of some process names. */
struct launch_claim {
    struct rank_launch launch;
    char *url;
    pid_t pid;
    uint64_t started;
    uid_t uid;
    bool is_known; /* that its user chose its command line and environment */
    pid_t rival;   /* another user's process with the same URL: neither is taken; 0: none */
    uid_t rival_uid;
};

/* A process that has its rights from another than who started it. */
struct launch_refusal {
    char *url;
    pid_t pid;
};

struct launch_claims {
    struct launch_claim *items;
    size_t n, cap;
    struct launch_refusal refused[REFUSALS_NOTED];
    size_t n_refused;
};

static void launch_claims_done(struct launch_claims *c)
{
    for (size_t i = 0; i < c->n; i++) {
        rank_launch_done(&c->items[i].launch);
        free(c->items[i].url);
    }
    free(c->items);
    for (size_t i = 0; i < c->n_refused; i++)
        free(c->refused[i].url);
}

static bool process_is_below(pid_t pid, pid_t above)
{
    pid_t chain[LAUNCH_DEPTH_MAX];
    const size_t n = process_ancestors(pid, chain, LAUNCH_DEPTH_MAX);

    for (size_t i = 0; i < n; i++)
        if (chain[i] == above)
            return true;
    return false;
}

static void claim_set_process(struct launch_claim *c, pid_t pid, uint64_t started, uid_t uid, bool is_known)
{
    c->pid = pid;
    c->started = started;
    c->uid = uid;
    c->is_known = is_known;
}

/* No user's launches keep out those of another one. */
static bool claims_are_full(const struct launch_claims *c, uid_t uid)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        n += c->items[i].uid == uid;
    return n >= LAUNCHES_MAX;
}

/* Of a launch and its children, which may have its command line, the launch is taken; of others of one user
 * the oldest. */
static void claims_add(struct launch_claims *claims, struct rank_launch *take, pid_t pid, uint64_t started,
                       uid_t uid, bool is_known)
{
    _cleanup_(freep) char *url = ranks_url(take->group, take->node);

    for (size_t i = 0; i < claims->n; i++) {
        struct launch_claim *c = &claims->items[i];
        if (!streq(c->url, url))
            continue;
        if (process_is_below(pid, c->pid))
            return;
        if (process_is_below(c->pid, pid)) {
            claim_set_process(c, pid, started, uid, is_known);
        } else if (c->uid != uid && c->rival == 0) {
            c->rival = pid;
            c->rival_uid = uid;
        }
        return;
    }
    if (claims_are_full(claims, uid))
        return;
    VEC_GROW(claims->items, claims->n, claims->cap);
    struct launch_claim *c = &claims->items[claims->n++];
    *c = (struct launch_claim){.launch = *take, .url = TAKE_PTR(url)};
    *take = (struct rank_launch){0};
    claim_set_process(c, pid, started, uid, is_known);
}

static void claims_refuse(struct launch_claims *claims, const struct rank_launch *l, pid_t pid)
{
    if (claims->n_refused < REFUSALS_NOTED)
        claims->refused[claims->n_refused++] =
            (struct launch_refusal){.url = ranks_url(l->group, l->node), .pid = pid};
}

/* What is said of a process here is of one that has this start time, before and after. */
static void claims_look_at(struct launch_claims *claims, pid_t pid, char *const *urls, size_t n_urls)
{
    _cleanup_(freep) char *data = NULL;
    _cleanup_(rank_launch_done) struct rank_launch l = {0};
    struct string_list args = {0};
    struct process_status user;
    struct process_stat stat;

    if (process_stat_read(pid, &stat) < 0 ||
        process_read(pid, "cmdline", PROCESS_CMDLINE_MAX, &data, &args.size) < 0)
        return;
    args.data = data;
    if (!rank_launch_read(&args, &l) || l.node == 0 || !is_wanted(&l, urls, n_urls) ||
        process_user_read(pid, &user) < 0)
        return;
    int is_of_user = process_is_of_user(pid, &user);
    if (process_has_ended(pid, stat.started))
        return;
    if (is_of_user == 0)
        claims_refuse(claims, &l, pid);
    else
        claims_add(claims, &l, pid, stat.started, user.uid, is_of_user > 0);
}

static void note_rivals(struct fleet *fleet, const struct launch_claim *c)
{
    _cleanup_(freep) char *user = process_user_name(c->uid);
    _cleanup_(freep) char *rival = process_user_name(c->rival_uid);

    fleet_add_note(fleet,
                   "%s: process %d of %s and process %d of %s both have it on their command lines, so that "
                   "neither is recorded",
                   c->url, (int)c->pid, user, (int)c->rival, rival);
}

static void launch_find_dir(struct worker *w, const struct launch_claim *c,
                            const struct fleet_settings *settings, const struct fleet_config *config,
                            struct launch_cache *cache)
{
    struct problem p = {0};
    uid_t uid;

    if (c->is_known && launch_cache_user(cache, c->pid, &uid) == 0 && uid == c->uid &&
        launch_cache_is_of_user(cache, c->pid) > 0) {
        process_trace_dir(w, settings, config, cache, "");
        return;
    }
    problem_set(&p, -EACCES, PROBLEM_DENIED,
                "trace directory unknown: the program of root's process %d cannot be seen", (int)c->pid);
    process_remedy_denied(w, &p);
    process_trace_dir_unseen(w, settings, config, true, &p);
}

static void fleet_add_launch(struct fleet *fleet, const struct launch_claim *c,
                             const struct fleet_settings *settings, struct launch_cache *cache)
{
    const struct rank_launch *l = &c->launch;
    struct worker *w = fleet_add_worker(fleet);

    w->url = xstrdup(c->url);
    w->engine = l->engine;
    w->role = ROLE_REGULAR;
    w->health = HEALTH_UNKNOWN;
    w->profilable = w->local = true;
    w->pid = c->pid;
    w->uid = c->uid;
    w->group = xstrdup(l->group);
    w->ranks_of = xstrdup(l->group);
    w->sizes.nodes = l->nodes;
    w->sizes.ranks = l->ranks;
    w->sizes.first_rank = l->first_rank;
    launch_find_dir(w, c, settings, settings_fleet(settings, fleet->name), cache);
    w->sizes.tp = w->sizes.pp = w->sizes.dp = 0;
    /* Its number may be another process's by now, and what was read that one's. */
    if (process_has_ended(c->pid, c->started)) {
        worker_done(w);
        fleet->n_workers--;
    }
}

/* What wraps a launch, as sudo does, has its command line too, and is no news where the launch itself was
 * found. */
static void fleet_note_refused(struct fleet *fleet, const struct launch_claims *claims)
{
    for (size_t i = 0; i < claims->n_refused; i++) {
        const struct launch_refusal *r = &claims->refused[i];
        if (!fleet_has_url(fleet, r->url))
            fleet_add_note(
                fleet,
                "%s: process %d has rights that who started it may not have, by a set-uid program or "
                "capabilities of its file: it is not recorded",
                r->url, (int)r->pid);
    }
}

void processes_find_ranks(struct fleet *fleet, const struct fleet_settings *settings, char *const *urls,
                          size_t n)
{
    _cleanup_(launch_claims_done) struct launch_claims claims = {0};
    _cleanup_(freep) pid_t *pids = NULL;
    size_t n_wanted = 0;

    for (size_t i = 0; i < n; i++)
        n_wanted += ranks_url_is(urls[i]);
    if (n_wanted == 0)
        return;
    const size_t n_pids = process_list(&pids);
    for (size_t i = 0; i < n_pids; i++)
        claims_look_at(&claims, pids[i], urls, n);
    struct launch_cache *cache = launch_cache_new();
    for (size_t i = 0; i < claims.n; i++) {
        if (claims.items[i].rival > 0)
            note_rivals(fleet, &claims.items[i]);
        else if (!fleet_has_url(fleet, claims.items[i].url))
            fleet_add_launch(fleet, &claims.items[i], settings, cache);
    }
    launch_cache_free(cache);
    fleet_note_refused(fleet, &claims);
}

void worker_take_rank_launch(struct worker *w, const struct string_list *args)
{
    _cleanup_(rank_launch_done) struct rank_launch l = {0};

    if (worker_is_on_demand(w) || ranks_url_is(w->url) || !rank_launch_read(args, &l) || l.node != 0)
        return;
    if (!w->group)
        w->group = TAKE_PTR(l.group);
    w->sizes.nodes = w->sizes.nodes > 0 ? w->sizes.nodes : l.nodes;
    w->sizes.tp = w->sizes.tp > 0 ? w->sizes.tp : l.tp;
    w->sizes.pp = w->sizes.pp > 0 ? w->sizes.pp : l.pp;
}

void worker_join_server(struct worker *w, const struct worker *server)
{
    replace_str(&w->ranks_of, server->url);
    replace_str(&w->model, server->model);
    replace_str(&w->version, server->version);
    w->role = server->role;
    w->health = server->health;
    worker_add_note(w, "ranks of %s, which starts and stops them", server->url);
}
