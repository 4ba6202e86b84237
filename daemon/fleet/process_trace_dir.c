/* SPDX-License-Identifier: Apache-2.0 */
/* Where the traces of one worker appear, by the launch of its process and by the settings. */
#include "base/alloc.h"
#include "base/process_info.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/fleet/profiler_config.h"
#include "daemon/fleet/shared_fs.h"
#include <errno.h>
#include <fcntl.h>

/* How far up from the listener the launch is looked for: a server's front ends are children of the process
 * that was launched. */
#define LAUNCH_PARENTS_MAX 3

/* The processes that were looked at last: workers that share a process, or the parent that launched them, are inspected
 * one after another. More than one worker takes, which goes up from its listener. */
#define LAUNCHES_KEPT 8

/* The texts of one process. */
struct launch_texts {
    pid_t pid;     /* 0: none */
    uint64_t used; /* greater: later */
    struct process_status user;
    int user_error;
    int is_of_user; /* as process_is_of_user() */
    bool is_read;   /* the texts below */
    char *args, *env, *cwd;
    size_t args_size, env_size;
    struct process_file config;
    char *config_error; /* NULL: none */
    int env_error, cwd_error;
};

struct launch_cache {
    struct launch_texts items[LAUNCHES_KEPT];
    uint64_t n_uses;
};

static void launch_texts_done(struct launch_texts *t)
{
    free(t->args);
    free(t->env);
    process_file_done(&t->config);
    free(t->config_error);
    free(t->cwd);
    *t = (struct launch_texts){0};
}

static struct string_list texts_args(const struct launch_texts *t)
{
    return (struct string_list){t->args, t->args_size};
}

static struct string_list texts_env(const struct launch_texts *t)
{
    return (struct string_list){t->env, t->env_size};
}

static void launch_texts_read_config_file(struct launch_texts *t)
{
    struct string_list args = texts_args(t), env = texts_env(t);
    const char *file = flag_value(&args, "--config");
    _cleanup_(freep) char *path = file ? path_absolute(file, t->cwd, env_value(&env, "HOME")) : NULL;
    if (path && process_read_file(t->pid, path, ENGINE_CONFIG_MAX, &t->config) < 0 && t->config.refusal)
        t->config_error = xasprintf("the --config file %s is not read: %s", path, t->config.refusal);
}

struct launch_cache *launch_cache_new(void)
{
    return xcalloc(1, sizeof(struct launch_cache));
}

struct launch_cache *launch_cache_free(struct launch_cache *c)
{
    for (size_t i = 0; i < LAUNCHES_KEPT; i++)
        launch_texts_done(&c->items[i]);
    free(c);
    return NULL;
}

/* With its user; the texts are read when they are needed. Valid until LAUNCHES_KEPT others were asked for. */
static struct launch_texts *launch_cache_get(struct launch_cache *c, pid_t pid)
{
    struct launch_texts *t = &c->items[0];

    for (size_t i = 0; i < LAUNCHES_KEPT && t->pid != pid; i++)
        if (c->items[i].pid == pid || c->items[i].used < t->used)
            t = &c->items[i];
    if (t->pid != pid) {
        launch_texts_done(t);
        t->pid = pid;
        t->user_error = process_user_read(pid, &t->user);
        t->is_of_user = t->user_error < 0 ? -1 : process_is_of_user(pid, &t->user);
    }
    t->used = ++c->n_uses;
    return t;
}

int launch_cache_user(struct launch_cache *c, pid_t pid, uid_t *ret)
{
    const struct launch_texts *t = launch_cache_get(c, pid);

    *ret = t->user.uid;
    return t->user_error;
}

int launch_cache_is_of_user(struct launch_cache *c, pid_t pid)
{
    return launch_cache_get(c, pid)->is_of_user;
}

static void launch_texts_read(struct launch_texts *t)
{
    pid_t pid = t->pid;

    if (t->is_read)
        return;
    t->is_read = true;
    process_read(pid, "cmdline", PROCESS_CMDLINE_MAX, &t->args, &t->args_size);
    t->env_error = process_read(pid, "environ", PROCESS_ENVIRON_MAX, &t->env, &t->env_size);
    /* A process that writes its title over its arguments may have overwritten the environment after them. */
    if (t->env_error == 0 && !memchr(t->env, '=', t->env_size)) {
        free(TAKE_PTR(t->env));
        t->env_error = -ENODATA;
    }
    t->cwd_error = process_link(pid, "cwd", &t->cwd);
    launch_texts_read_config_file(t);
}

/* The profiler settings of a launch, and the process that they were read from. */
struct trace_dir_search {
    struct profiler_launch launch;
    const struct launch_texts *texts; /* borrowed */
    bool saw_env;                     /* some process's environment could be read */
};

static void trace_dir_search_done(struct trace_dir_search *f)
{
    profiler_launch_done(&f->launch);
}

static void trace_dir_search_read_one(const struct worker *w, struct launch_texts *t,
                                      struct trace_dir_search *f)
{
    launch_texts_read(t);
    f->texts = t;
    f->saw_env |= t->env != NULL;
    const struct worker_launch launch = {.args = texts_args(t),
                                         .env = texts_env(t),
                                         .config = t->config.data,
                                         .config_size = t->config.size,
                                         .config_error = t->config_error};
    profiler_launch_read(worker_profiler(w), w->version, &launch, &f->launch);
}

/* The listener's own launch, or that of the nearest parent which has one, and speaks for the same user. */
static void find_launch(const struct worker *w, struct launch_cache *cache, struct trace_dir_search *f)
{
    struct launch_texts *t = launch_cache_get(cache, w->pid);

    trace_dir_search_read_one(w, t, f);
    for (int i = 0; i < LAUNCH_PARENTS_MAX && !f->launch.source && !f->launch.error; i++) {
        if (t->user_error < 0 || t->user.parent <= 1)
            break;
        t = launch_cache_get(cache, t->user.parent);
        if (t->user_error < 0 || t->user.uid != w->uid || t->is_of_user == 0)
            break;
        struct trace_dir_search above = {.saw_env = f->saw_env};
        trace_dir_search_read_one(w, t, &above);
        f->saw_env = above.saw_env;
        if (above.launch.source || above.launch.error) {
            trace_dir_search_done(f);
            *f = above;
            return;
        }
        trace_dir_search_done(&above);
    }
}

static void take_setup(struct worker *w, struct trace_dir_search *f)
{
    if (w->setup.kind || !f->launch.setup.kind)
        return;
    free(w->setup.activities);
    w->setup = f->launch.setup;
    f->launch.setup.kind = f->launch.setup.activities = NULL;
}

/* What the worker itself answered counts before its launch. */
static void take_sizes(struct parallel *to, const struct parallel *from)
{
    to->tp = to->tp > 0 ? to->tp : from->tp;
    to->pp = to->pp > 0 ? to->pp : from->pp;
    to->dp = to->dp > 0 ? to->dp : from->dp;
}

static void set_dir(struct trace_location *location, const char *dir, const char *found_by)
{
    replace_str(&location->dir, dir);
    replace_str(&location->found_by, found_by);
}

/* Where a relative directory begins. The caller frees it. */
static char *launch_root(const struct worker *w, const struct fleet_config *config, const char *cwd)
{
    const struct engine_ops *ops = worker_ops(w);

    if (!ops || !ops->root_mark || !cwd)
        return xstrdup(cwd);
    _cleanup_(problem_done) struct problem p = {0};
    char *mark = path_absolute(ops->root_mark, cwd, NULL);
    _cleanup_(freep) char *local_mark = process_resolve_path(w, config, mark, &p);
    if (local_mark && access(local_mark, F_OK) == 0) {
        char *slash = strrchr(mark, '/');
        slash[slash == mark] = '\0';
        return mark;
    }
    free(mark);
    return xstrdup(cwd);
}

static void take_dir(struct worker *w, const struct fleet_config *config, const struct trace_dir_search *f,
                     const char *remark)
{
    struct string_list env = texts_env(f->texts);
    const char *said = f->launch.dir;
    _cleanup_(freep) char *root = launch_root(w, config, f->texts->cwd);
    _cleanup_(freep) char *dir =
        path_is_uri(said) ? xstrdup(said) : path_absolute(said, root, env_value(&env, "HOME"));
    _cleanup_(freep) char *found_by =
        xasprintf("%s of process %d%s", f->launch.source, (int)f->texts->pid, remark);
    set_dir(&w->location, dir ? dir : said, found_by);
}

/* Explains why the directory is not known. */
static void explain_unknown_dir(const struct worker *w, const struct trace_dir_search *f, struct problem *p)
{
    char name[PROCESS_NAME_MAX];
    process_name(w->pid, name);
    if (f->launch.error) {
        problem_set(p, -EINVAL, PROBLEM_NOT_FOUND, "trace directory unknown: process %d: %s",
                    (int)f->texts->pid, f->launch.error);
    } else if (streq(w->setup.kind, "cuda")) {
        problem_set(
            p, -ENOENT, PROBLEM_UNSUPPORTED,
            "the engine's profiler is \"cuda\", which only marks a range for nsys and writes no trace");
        problem_remedy(p, "start vLLM with \"profiler\":\"torch\" for traces that profd collects");
    } else if (f->texts->env_error == -EACCES || f->texts->env_error == -EPERM) {
        _cleanup_(freep) char *user = process_user_name(w->uid);
        problem_set(p, -EACCES, PROBLEM_DENIED,
                    "trace directory unknown: process %d (%s) belongs to %s (its environment cannot be read)",
                    (int)w->pid, name, user);
        process_remedy_denied(w, p);
    } else if (!f->saw_env) {
        problem_set(p, -ENODATA, PROBLEM_NOT_FOUND,
                    "trace directory unknown: process %d (%s) overwrote its environment", (int)w->pid, name);
    } else {
        problem_set(
            p, -ENOENT, PROBLEM_NOT_FOUND,
            "trace directory unknown: neither command line nor environment of process %d (%s) names it",
            (int)w->pid, name);
    }
    process_remedy_unknown(w, p);
}

static const char *settings_output_dir(const struct fleet_settings *settings,
                                       const struct fleet_config *config, const char *url)
{
    const struct worker_config *own = settings_worker(settings, url);
    if (own && own->output_dir)
        return own->output_dir;
    return config ? config->output_dir : NULL;
}

static void take_note(struct worker *w, struct problem *p)
{
    free(w->location.note);
    free(w->location.remedy);
    w->location.note = TAKE_PTR(p->what);
    w->location.remedy = TAKE_PTR(p->remedy);
    problem_done(p);
}

static void note_missing(struct worker *w)
{
    if (faccessat(AT_FDCWD, w->location.local_dir, F_OK, AT_EACCESS) == 0 || errno != ENOENT)
        return;
    struct problem p = {0};
    problem_set(&p, -ENOENT, PROBLEM_NOT_FOUND, "%s is not there yet: engines make it with their first trace",
                w->location.local_dir);
    take_note(w, &p);
}

static void refuse_foreign_dir(struct worker *w, struct problem *p)
{
    _cleanup_(freep) char *user = process_user_name(w->uid);

    problem_set(p, -EACCES, PROBLEM_DENIED,
                "trace directory %s is not taken: %s, as whom the worker runs, may not write there",
                w->location.dir, user);
    process_remedy_unknown(w, p);
    replace_str(&w->location.local_dir, NULL);
}

/* A directory from a user (--trace-dir, trace_dir=) is already a path in profd's own view. A directory that a
 * worker reports about itself is trusted only as far as the permissions of the worker's user go; said_by is NULL for
 * others. */
static void resolve_dir(struct worker *w, const struct fleet_config *config,
                        const struct launch_texts *said_by)
{
    struct problem p = {0};

    if (!w->location.local_dir)
        w->location.local_dir = process_resolve_path(w, config, w->location.dir, &p);
    else if (process_check_dir(w, w->location.local_dir, &p) < 0)
        replace_str(&w->location.local_dir, NULL);
    if (w->location.local_dir && said_by && said_by->user_error == 0 &&
        process_is_kept_out(w, &said_by->user, w->location.local_dir))
        refuse_foreign_dir(w, &p);
    if (w->location.local_dir)
        note_missing(w);
    else
        take_note(w, &p);
    problem_done(&p);
}

static void resolve_temp_dir(struct worker *w, const struct fleet_config *config,
                             const struct launch_texts *t)
{
    struct string_list env = texts_env(t);
    const char *dir = env_value(&env, "TMPDIR");
    struct problem p = {0};

    /* Kineto's on-demand recording writes its temporary file next to the trace. */
    if (!t->env || w->location.temp_dir || worker_is_on_demand(w))
        return;
    w->location.temp_dir = process_resolve_path(w, config, dir && *dir == '/' ? dir : "/tmp", &p);
    problem_done(&p);
}

static bool takes_output_dir(const struct worker *w)
{
    const struct engine_ops *ops = worker_ops(w);
    return ops && ops->takes_output_dir;
}

/* Where the launch names no directory, and its environment, which could, is known. */
static void take_default_dir(struct worker *w, const struct trace_dir_search *f)
{
    const struct engine_ops *ops = engine_ops(worker_profiler(w));
    _cleanup_(freep) char *dir =
        ops && ops->default_dir ? path_absolute(ops->default_dir, f->texts->cwd, NULL) : NULL;

    if (dir)
        set_dir(&w->location, dir, ops->default_dir_source);
}

static bool launch_may_not_write(const struct launch_texts *t, const char *dir)
{
    return t->user_error == 0 && process_user_can_write(&t->user, dir) == 0;
}

/* An engine that cannot write to its configured directory may die when it is stopped. */
static void note_unwritable(struct worker *w, const struct launch_texts *listener)
{
    struct problem p = {0};

    if (!takes_output_dir(w) || !w->location.local_dir ||
        !launch_may_not_write(listener, w->location.local_dir))
        return;
    _cleanup_(freep) char *user = process_user_name(w->uid);
    problem_set(&p, -EACCES, PROBLEM_DENIED,
                "%s, as whom the worker runs, cannot write to %s: the server could die when it is stopped",
                user, w->location.local_dir);
    problem_remedy(&p,
                   "--trace-dir DIR: a directory that %s can write to\n"
                   "or in profd.conf: [worker %s] output_dir=/a/directory/of/%s",
                   user, w->url, user);
    take_note(w, &p);
    w->location.blocked_here = true;
}

/* Kineto does not make the directory of its traces. */
static void note_unusable(struct worker *w, const struct launch_texts *process)
{
    struct problem p = {0};
    struct stat st;

    if (!worker_is_on_demand(w) || !w->location.local_dir)
        return;
    if (stat(w->location.local_dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
        problem_set(&p, -ENOENT, PROBLEM_NOT_FOUND, "%s is not a directory, and Kineto does not make it",
                    w->location.dir);
        problem_remedy(&p, "mkdir %s, as the user who runs the process", w->location.dir);
    } else if (launch_may_not_write(process, w->location.local_dir)) {
        _cleanup_(freep) char *user = process_user_name(w->uid);
        problem_set(&p, -EACCES, PROBLEM_DENIED, "%s, as whom the process runs, cannot write to %s", user,
                    w->location.dir);
        problem_remedy(
            &p, "start the process with KINETO_ONDEMAND_TRACE_DIR=DIR, a directory that %s can write to",
            user);
    } else {
        return;
    }
    take_note(w, &p);
    w->location.blocked_here = true;
}

/* True where the worker itself named it. */
static bool choose_dir(struct worker *w, const struct fleet_settings *settings,
                       const struct fleet_config *config, const struct trace_dir_search *f,
                       const char *remark)
{
    const char *output_dir = settings_output_dir(settings, config, w->url);

    if (w->location.dir)
        return !w->location.local_dir;
    if (takes_output_dir(w) && output_dir)
        set_dir(&w->location, output_dir, "output_dir in profd.conf");
    else if (f->launch.dir)
        take_dir(w, config, f, remark);
    else if (f->saw_env)
        take_default_dir(w, f);
    return f->launch.dir && !(takes_output_dir(w) && output_dir);
}

void process_trace_dir(struct worker *w, const struct fleet_settings *settings,
                       const struct fleet_config *config, struct launch_cache *cache, const char *remark)
{
    _cleanup_(trace_dir_search_done) struct trace_dir_search f = {0};
    struct problem p = {0};

    find_launch(w, cache, &f);
    const struct launch_texts *listener = launch_cache_get(cache, w->pid);
    take_setup(w, &f);
    take_sizes(&w->sizes, &f.launch.sizes);
    if (f.texts) {
        const struct string_list args = texts_args(f.texts);
        worker_take_rank_launch(w, &args);
    }
    if (!w->model)
        replace_str(&w->model, f.launch.server);
    bool said_by_worker = choose_dir(w, settings, config, &f, remark);
    if (w->location.dir) {
        resolve_dir(w, config, said_by_worker ? listener : NULL);
    } else {
        explain_unknown_dir(w, &f, &p);
        take_note(w, &p);
    }
    w->location.blocked_here = !w->location.local_dir && !(w->location.dir && path_is_uri(w->location.dir));
    if (w->location.local_dir) {
        shared_dir_done(&w->shared);
        shared_dir_read(w->location.local_dir, w->pid, w->location.dir, &w->shared);
    }
    note_unwritable(w, listener);
    note_unusable(w, listener);
    resolve_temp_dir(w, config, f.texts);
}

/*
 * The directory that a worker of another host reports is taken for the one of the same name here, where that is on a file
 * system which hosts have in common. A name on a disk of this host is another directory: so the one that was looked at is
 * taken, whatever a link on that file system says later, and it is refused where it is on a disk when it is opened
 * (safe_open.h).
 */
static bool take_shared_dir(struct worker *w)
{
    _cleanup_(shared_dir_done) struct shared_dir shared = {0};
    _cleanup_(freep) char *named =
        path_is_uri(w->location.dir) ? NULL : path_absolute(w->location.dir, NULL, NULL);
    _cleanup_(freep) char *dir = named ? shared_dir_resolve(named) : NULL;
    struct problem p = {0};

    if (!dir || !shared_dir_read(dir, 0, NULL, &shared))
        return false;
    if (process_check_dir(w, dir, &p) < 0) {
        take_note(w, &p);
        return false;
    }
    _cleanup_(freep) char *found_by =
        xasprintf("%s, on a shared file system (%s)", w->location.found_by, shared.fstype);
    replace_str(&w->location.local_dir, dir);
    replace_str(&w->location.found_by, found_by);
    replace_str(&w->location.note, NULL);
    replace_str(&w->location.remedy, NULL);
    shared_dir_done(&w->shared);
    w->shared = shared;
    shared = (struct shared_dir){0};
    note_missing(w);
    return true;
}

void process_trace_dir_unseen(struct worker *w, const struct fleet_settings *settings,
                              const struct fleet_config *config, bool own_host, struct problem *reason)
{
    const char *output_dir = settings_output_dir(settings, config, w->url);
    bool given = w->location.local_dir != NULL;

    if (!w->location.dir && takes_output_dir(w) && output_dir)
        set_dir(&w->location, output_dir, "output_dir in profd.conf");
    if (w->location.dir)
        resolve_dir(w, config, NULL);
    if (!own_host && !given && w->location.dir && !w->location.local_dir && take_shared_dir(w)) {
        problem_done(reason);
        return;
    }
    /* A directory that a person named and that profd cannot use keeps its own reason. */
    if (!w->location.local_dir && !given) {
        process_remedy_unknown(w, reason);
        take_note(w, reason);
    }
    w->location.blocked_here = !w->location.local_dir && (own_host || given);
    problem_done(reason);
}
