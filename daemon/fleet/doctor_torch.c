/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/doctor_torch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/engine_version.h"
#include "daemon/fleet/kineto_workers.h"
#include "daemon/fleet/process.h"
#include <errno.h>
#include <grp.h>

/* After that age a process has registered if it can. */
#define REGISTERED_AFTER_NS (30 * NS_PER_S)
#define GROUP_TEXT_MAX      4096

/* -- Versions ------------------------------------------------------------------------------------------- */

/*
 * By the issues of pytorch/pytorch and pytorch/kineto that are named. The first version without a fault that is known is
 * 2.10.
 */
static const struct torch_fault torch_faults[] = {
    {2, 1, 2, "with KINETO_USE_DAEMON it may crash at its import, or not find its GPUs (pytorch#125705)",
     "Start it with PyTorch 2.10 or later, or with KINETO_DAEMON_INIT_DELAY_S=5 in its environment."},
    {2, 3, 4,
     "with KINETO_USE_DAEMON it may crash at its import (pytorch#131020), and with "
     "KINETO_DAEMON_INIT_DELAY_S it does "
     "not register (dynolog#286)",
     "Start it with PyTorch 2.10 or later."},
    {2, 5, 6, "with CUDA it does not register (pytorch#147195)", "Start it with PyTorch 2.10 or later."},
    {2, 7, 9, "a race in the registration may crash it (pytorch#163545)",
     "Start it with PyTorch 2.10 or later."},
};

const struct torch_fault *torch_fault_of(const char *version)
{
    struct engine_version v;

    if (engine_version_parse(version, &v) < 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(torch_faults); i++)
        if (torch_faults[i].major == v.parts[0] && v.parts[1] >= torch_faults[i].first_minor &&
            v.parts[1] <= torch_faults[i].last_minor)
            return &torch_faults[i];
    return NULL;
}

/* -- The survey ----------------------------------------------------------------------------------------- */

static bool survey_is_python(pid_t pid)
{
    _cleanup_(freep) char *exe = NULL;

    if (process_link(pid, "exe", &exe) < 0)
        return false;
    const char *slash = strrchr(exe, '/');
    return slash && starts_with(slash + 1, "python");
}

static void survey_read_age(struct torch_process *t)
{
    struct process_stat stat;

    if (process_stat_read(t->pid, &stat) >= 0)
        t->age_ns = boot_ns() - process_started_boot_ns(&stat);
}

static char *survey_describe_dir(const struct stat *st)
{
    _cleanup_(freep) char *user = process_user_name(st->st_uid);
    struct group entry, *found = NULL;
    char text[GROUP_TEXT_MAX];

    if (getgrgid_r(st->st_gid, &entry, text, sizeof(text), &found) == 0 && found)
        return xasprintf("mode %04o, user %s, group %s", (unsigned)st->st_mode & 07777, user, found->gr_name);
    return xasprintf("mode %04o, user %s, group %u", (unsigned)st->st_mode & 07777, user,
                     (unsigned)st->st_gid);
}

static void survey_read_dir(struct torch_process *t)
{
    struct process_status status;
    struct stat st;

    t->may_enter = -1;
    if (!t->socket_dir || process_status_read(t->pid, &status) < 0 || stat(t->socket_dir, &st) < 0)
        return;
    t->may_enter = process_user_may(&status, t->socket_dir, &st, 3);
    t->dir_mode = survey_describe_dir(&st);
}

static void survey_read_network(struct torch_process *t)
{
    _cleanup_(freep) char *its = NULL, *ours = NULL;

    t->same_network = -1;
    if (process_link(t->pid, "ns/net", &its) >= 0 && process_link(getpid(), "ns/net", &ours) >= 0)
        t->same_network = streq(its, ours);
}

static void survey_add(struct torch_survey *s, pid_t pid, char *version)
{
    _cleanup_(freep) char *data = NULL;
    struct torch_process t = {.pid = pid, .version = version, .may_enter = -1, .same_network = -1};
    char name[PROCESS_NAME_MAX];
    size_t size;

    t.name = xstrdup(process_name(pid, name));
    t.n_ancestors = process_ancestors(pid, t.ancestors, TORCH_ANCESTORS_MAX);
    survey_read_age(&t);
    if (process_read(pid, "environ", PROCESS_ENVIRON_MAX, &data, &size) >= 0) {
        const struct string_list env = {data, size};
        const char *dir = env_value(&env, "KINETO_IPC_SOCKET_DIR");
        t.environ_known = true;
        t.uses_daemon = env_value(&env, "KINETO_USE_DAEMON") != NULL;
        t.socket_dir = dir && *dir ? xstrdup(dir) : NULL;
        survey_read_dir(&t);
        survey_read_network(&t);
    }
    VEC_GROW(s->items, s->n, s->cap);
    s->items[s->n++] = t;
}

void torch_survey_look(struct torch_survey *s)
{
    _cleanup_(freep) pid_t *pids = NULL;
    size_t n = process_list(&pids);

    for (size_t i = 0; i < n && s->n < TORCH_PROCESSES_MAX; i++) {
        char *version = NULL;
        if (!survey_is_python(pids[i]))
            continue;
        int r = process_torch(pids[i], &version);
        if (r > 0)
            survey_add(s, pids[i], version);
        else
            s->n_unread += r == -EACCES || r == -EPERM;
    }
}

void torch_survey_done(struct torch_survey *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->items[i].name);
        free(s->items[i].version);
        free(s->items[i].socket_dir);
        free(s->items[i].dir_mode);
    }
    free(s->items);
    *s = (struct torch_survey){0};
}

/* -- Where profd listens -------------------------------------------------------------------------------- */

static bool torch_listens(const struct kineto *k, const char *socket_dir)
{
    const char *name = socket_dir ? socket_dir : KINETO_ABSTRACT;
    const struct kineto_listener *l;

    for (size_t i = 0; (l = kineto_listener_at(k, i)); i++)
        if (streq(l->name, name))
            return true;
    return false;
}

static void torch_check_listeners(const struct kineto *k, struct checks *c)
{
    const struct kineto_listener *l;

    for (size_t i = 0; (l = kineto_listener_at(k, i)); i++) {
        size_t n = 0;
        for (const struct kineto_process *p = kineto_next(k, NULL); p; p = kineto_next(k, p))
            n += streq(p->transport, l->name);
        if (l->why)
            checks_add(c, CHECK_FAIL, NULL, l->remedy, "PyTorch processes cannot register on %s: %s", l->name,
                       l->why);
        else
            checks_add(c, CHECK_OK, NULL, NULL, "PyTorch processes can register on %s: %zu registered",
                       l->name, n);
    }
}

/* -- Each process --------------------------------------------------------------------------------------- */

struct torch_finding {
    enum check_result result;
    char *text, *remedy; /* NULL text: nothing */
};

static bool torch_is_registered(const struct kineto *k, pid_t pid)
{
    for (const struct kineto_process *p = kineto_next(k, NULL); p; p = kineto_next(k, p))
        if (p->pid == pid)
            return true;
    return false;
}

static bool torch_is_worker(const struct torch_process *t, const struct fleet *f)
{
    for (size_t i = 0; f && i < f->n_workers; i++) {
        pid_t pid = f->workers[i].pid;
        bool is_of_it = pid == t->pid;
        for (size_t k = 0; k < t->n_ancestors; k++)
            is_of_it |= pid == t->ancestors[k];
        if (pid > 0 && is_of_it)
            return true;
    }
    return false;
}

static struct torch_finding torch_find_unset(const struct kineto *k)
{
    _cleanup_(freep) char *environment = kineto_environment(k);

    return (struct torch_finding){CHECK_WARN,
                                  xstrdup("was started without KINETO_USE_DAEMON: it cannot register"),
                                  xasprintf("Start it with %s in its environment.", environment)};
}

static struct torch_finding torch_find_elsewhere(const struct torch_process *t, const struct kineto *k)
{
    _cleanup_(freep) char *environment = kineto_environment(k);
    char *remedy =
        xasprintf("Start it with %s in its environment, or name its directory in [kineto] listen=. Both must "
                  "be the same text.",
                  environment);

    if (t->socket_dir)
        return (struct torch_finding){
            CHECK_WARN, xasprintf("has KINETO_IPC_SOCKET_DIR=%s, where profd does not listen", t->socket_dir),
            remedy};
    return (struct torch_finding){
        CHECK_WARN, xstrdup("has no KINETO_IPC_SOCKET_DIR, and profd does not listen on the abstract name"),
        remedy};
}

static struct torch_finding torch_find_unregistered(const struct torch_process *t)
{
    const struct torch_fault *fault = torch_fault_of(t->version);

    if (!t->socket_dir && t->same_network == 0)
        return (struct torch_finding){
            CHECK_WARN,
            xstrdup("is in a network namespace of its own, which the abstract name does not reach"),
            xstrdup("Let it share a directory of [kineto] listen= under the same path, with "
                    "KINETO_IPC_SOCKET_DIR.")};
    if (t->socket_dir && t->may_enter == 0)
        return (struct torch_finding){
            CHECK_WARN, xasprintf("may not write to %s (%s)", t->socket_dir, t->dir_mode),
            xasprintf("Add its user to the group of the directory, then start it again.")};
    if (fault)
        return (struct torch_finding){
            CHECK_WARN, xasprintf("did not register; in PyTorch %s, %s", t->version, fault->text),
            xstrdup(fault->remedy)};
    return (struct torch_finding){
        CHECK_UNKNOWN, xasprintf("did not register, though it was started with KINETO_USE_DAEMON"),
        xstrdup(
            "Start it again if its directory did not exist when it started, or if it is the child of a fork: "
            "Kineto's thread does not survive one. A PyTorch without Kineto never registers.")};
}

static struct torch_finding torch_find(const struct torch_process *t, const struct kineto *k,
                                       const struct fleet *f)
{
    const struct torch_fault *fault = torch_fault_of(t->version);

    if (torch_is_registered(k, t->pid))
        return fault ? (struct torch_finding){CHECK_WARN,
                                              xasprintf("has PyTorch %s: %s", t->version, fault->text),
                                              xstrdup(fault->remedy)}
                     : (struct torch_finding){0};
    if (!t->environ_known || torch_is_worker(t, f))
        return (struct torch_finding){0};
    if (!t->uses_daemon)
        return torch_find_unset(k);
    if (!torch_listens(k, t->socket_dir))
        return torch_find_elsewhere(t, k);
    return t->age_ns > REGISTERED_AFTER_NS ? torch_find_unregistered(t) : (struct torch_finding){0};
}

/* Processes with the same trouble are one line. */
static void torch_add_findings(const struct torch_survey *s, struct torch_finding *findings, struct checks *c)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t n_others = 0;
        if (!findings[i].text)
            continue;
        for (size_t k = i + 1; k < s->n; k++) {
            if (!streq(findings[i].text, findings[k].text))
                continue;
            replace_str(&findings[k].text, NULL);
            n_others++;
        }
        _cleanup_(freep) char *others =
            n_others > 0 ? xasprintf(", like %zu other%s,", n_others, n_others == 1 ? "" : "s") : xstrdup("");
        checks_add(c, findings[i].result, NULL, findings[i].remedy, "PyTorch process %d (%s)%s %s",
                   (int)s->items[i].pid, s->items[i].name, others, findings[i].text);
    }
}

static void torch_check_unread(const struct torch_survey *s, struct checks *c)
{
    size_t n = s->n_unread;

    for (size_t i = 0; i < s->n; i++)
        n += !s->items[i].environ_known;
    if (n > 0)
        checks_add(
            c, CHECK_UNKNOWN, NULL,
            "To see whether they can register, let profd read their environment: run it as their user, or "
            "with " FOREIGN_DROP_IN ".",
            "%zu Python process%s of other users cannot be inspected", n, n == 1 ? "" : "es");
}

/* Where profd does not listen: who waits for it. */
static void torch_check_off(const struct torch_survey *s, struct checks *c)
{
    size_t n = 0, first = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (!s->items[i].uses_daemon)
            continue;
        first = n++ == 0 ? i : first;
    }
    if (n > 0)
        checks_add(
            c, CHECK_WARN, NULL,
            "Set [kineto] listen= in profd.conf to abstract, or to their KINETO_IPC_SOCKET_DIR, and restart "
            "profd; unless they are another daemon's.",
            "%zu PyTorch process%s could be recorded on demand (KINETO_USE_DAEMON is set), such as %d (%s), "
            "but "
            "profd does not listen for them",
            n, n == 1 ? "" : "es", (int)s->items[first].pid, s->items[first].name);
}

void torch_check(const struct torch_survey *s, const struct kineto *kineto, const struct fleet *f,
                 struct checks *c)
{
    if (!kineto || !kineto_is_on(kineto)) {
        torch_check_off(s, c);
        return;
    }
    torch_check_listeners(kineto, c);
    struct torch_finding *findings = xcalloc(s->n, sizeof(*findings));
    for (size_t i = 0; i < s->n; i++)
        findings[i] = torch_find(&s->items[i], kineto, f);
    torch_add_findings(s, findings, c);
    for (size_t i = 0; i < s->n; i++) {
        free(findings[i].text);
        free(findings[i].remedy);
    }
    free(findings);
    torch_check_unread(s, c);
}
