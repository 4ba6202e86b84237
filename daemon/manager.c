/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/manager.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/archive/archiver.h"
#include "daemon/catalog/records.h"
#include "daemon/fleet/process.h"
#include "daemon/hosts/leases.h"
#include "daemon/hosts/parts.h"
#include "daemon/ingest/queue.h"
#include "daemon/kineto/kineto.h"
#include "daemon/mirror/content.h"
#include "daemon/peers/owners.h"
#include "daemon/report/requests.h"
#include "daemon/report/slices.h"
#include "daemon/report/sums.h"
#include "daemon/state_dir.h"
#include "proto/ingest.h"
#include "version.h"
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define OFFLOAD_THREADS 2
/* How long a shutdown waits for the stops of sessions; the next start sends those that are pending then. Both
 * together are well below TimeoutStopSec= of the unit. */
#define SHUTDOWN_NS  (10 * NS_PER_S)
#define TAKE_DOWN_NS (20 * NS_PER_S)
/* How long a background profd waits for a predecessor that is ending. */
#define PREDECESSOR_NS      (SHUTDOWN_NS + 2 * NS_PER_S)
#define PREDECESSOR_LOOK_US 20000
/* Part of it for threads: one that waits for a dead file server may wait for hours. */
#define DRAIN_NS (10 * NS_PER_S)
/* Upkeep of the catalog: the first one early enough for a profd that soon ends when idle. */
#define UPKEEP_FIRST_NS    (5 * 60 * NS_PER_S)
#define UPKEEP_INTERVAL_NS (86400 * NS_PER_S)
/* In addition to columns_memory= of a child. */
#define CHILD_MEMORY (INT64_C(512) << 20)
/* The child and its threads. */
#define INGEST_TASKS (INT64_C(1) + INGEST_THREADS_MAX)
#define STATE_UMASK  027
/* Bytes; the initial threshold of malloc(). */
#define MMAP_THRESHOLD (128 << 10)

/* -- The end -------------------------------------------------------------------------------------------- */

static void manager_on_shutdown_done(void *arg)
{
    struct manager *m = arg;
    if (--m->n_ending == 0)
        event_base_loopbreak(m->modules.base);
}

static void manager_stop(struct manager *m, const char *why)
{
    if (m->stopping) {
        log_notice("%s again: ending at once; pending stops are sent at the next start", why);
        jobs_shutdown_finish(sessions_jobs(m->modules.sessions));
        event_base_loopbreak(m->modules.base);
        return;
    }
    m->stopping = true;
    notifier_stopping(m->notifier, SHUTDOWN_NS + TAKE_DOWN_NS);
    log_struct(LOG_INFO, LOG_FIELDS(.message_id = MESSAGE_STOPPING), "%s: stopping%s", why,
               jobs_count(sessions_jobs(m->modules.sessions)) + jobs_count(runs_jobs(m->modules.runs))
                   ? "; running sessions and benchmark runs are stopped first"
                   : "");
    /* After a failure /readyz still reports the reason. */
    if (m->failed == 0)
        api_stop_accepting(m->api);
    m->n_ending = 2;
    jobs_shutdown(sessions_jobs(m->modules.sessions), mono_ns() + SHUTDOWN_NS, manager_on_shutdown_done, m);
    jobs_shutdown(runs_jobs(m->modules.runs), mono_ns() + SHUTDOWN_NS, manager_on_shutdown_done, m);
}

/* The catalog is lost; which profilers run is still known from memory. */
static void manager_on_catalog_lost(void *arg)
{
    struct manager *m = arg;

    m->failed = -ESTALE;
    if (!m->stopping)
        manager_stop(m, "the catalog is lost");
}

static void manager_on_stop_signal(evutil_socket_t number, short what, void *arg)
{
    manager_stop(arg, strsignal((int)number));
}

static void manager_on_idle(int64_t idle_ns, void *arg)
{
    struct manager *m = arg;
    char text[UNIT_TEXT_MAX];
    _cleanup_(freep) char *why = xasprintf("idle for %s", format_duration(text, idle_ns));

    manager_stop(m, why);
}

static void manager_on_stdin(evutil_socket_t fd, short what, void *arg)
{
    struct manager *m = arg;
    char ignored[256];

    if (read(fd, ignored, sizeof(ignored)) > 0)
        return;
    event_del(m->starter);
    manager_stop(m, "end of stdin");
}

static void manager_on_reload_signal(evutil_socket_t number, short what, void *arg)
{
    struct manager *m = arg;

    if (m->mode.transient || m->stopping)
        log_notice("%s: ignored by a profd that is %s", strsignal((int)number),
                   m->mode.transient ? "transient" : "stopping");
    else
        manager_reload(m);
}

/* -- The loop ------------------------------------------------------------------------------------------- */

/* Before any thread, and before whatever asks how many descriptors there may be. */
static void manager_setup_process(void)
{
    struct rlimit files;

    umask(STATE_UMASK);
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    /* The threads allocate little: an arena for each would be unused memory. */
    mallopt(M_ARENA_MAX, 1);
    /* Large blocks are mappings of their own, and returned when they are freed. By default the threshold would
     * rise to the largest block so far. */
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
}

static int manager_setup_loop(struct manager *m)
{
    static const struct {
        int number;
        void (*fn)(evutil_socket_t number, short what, void *arg);
    } signals[] = {{SIGTERM, manager_on_stop_signal},
                   {SIGINT, manager_on_stop_signal},
                   {SIGHUP, manager_on_reload_signal}};

    /* By default libevent's clock is coarse, and cached for an iteration: timers would fire milliseconds early. */
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME);
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    m->modules.base = event_base_new_with_config(config);
    event_config_free(config);
    if (!m->modules.base)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        m->signals[i] = evsignal_new(m->modules.base, signals[i].number, signals[i].fn, m);
        if (!m->signals[i] || event_add(m->signals[i], NULL) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* A regular file or /dev/null would be at its end. */
static int manager_setup_starter(struct manager *m, struct problem *p)
{
    m->starter = event_new(m->modules.base, STDIN_FILENO, EV_READ | EV_PERSIST, manager_on_stdin, m);
    if (m->starter && event_add(m->starter, NULL) == 0)
        return 0;
    problem_remedy(p, "Start it with a pipe as stdin, and close the pipe to end it.");
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--transient: stdin is not a pipe");
}

/* -- The modules ---------------------------------------------------------------------------------------- */

/* A program of profd: next to it in a build tree or an unpacked tarball, else where it is installed. */
static char *manager_find_program(const char *name, const char *built_in)
{
    const char *const next_to[] = {".", built_in, "../libexec/profd"};
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[MAX(n, 0)] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(next_to); i++) {
        char *path = xasprintf("%.*s/%s/%s", (int)(slash - exe), exe, next_to[i], name);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return xasprintf(PROFD_LIBEXECDIR "/%s", name);
}

struct ingest_limits manager_ingest_limits(const struct config *c)
{
    int64_t children = ingest_queue_running_max((unsigned)c->children_max);
    struct ingest_limits limits = {.tasks = children * INGEST_TASKS};
    int64_t each;

    if (__builtin_add_overflow(c->collect.columns_memory, CHILD_MEMORY, &each) ||
        __builtin_mul_overflow(each, children, &limits.memory))
        limits.memory = INT64_MAX;
    return limits;
}

/* A further line of defense, which profd can do without. */
static void manager_setup_ingest_group(struct manager *m)
{
    const struct ingest_limits limits = manager_ingest_limits(&m->config);
    _cleanup_(freep) char *text = NULL, *path = NULL;
    const char *reason = "/proc/self/cgroup cannot be used";
    size_t size;

    int r = read_file(AT_FDCWD, "/proc/self/cgroup", CGROUP_TEXT_MAX, &text, &size);
    if (r >= 0)
        r = cgroup_parse(text, size, &path);
    _cleanup_(freep) char *directory = xasprintf(CGROUP_ROOT "%s", path ? path : "");
    if (r >= 0)
        r = ingest_group_new(directory, &limits, &m->ingest_group, &reason);
    if (r >= 0)
        r = ingest_group_open(m->ingest_group);
    if (r >= 0)
        ingest_set_group(m->modules.ingest, r);
    else
        log_debug("cannot create a cgroup for profd-ingest below %s: %s (%s)", directory, reason,
                  strerror(-r));
}

static int manager_setup_ingest(struct manager *m, struct problem *p)
{
    _cleanup_(freep) char *program = manager_find_program("profd-ingest", "ingest");

    if (access(program, X_OK) < 0) {
        problem_set(p, -errno, PROBLEM_INTERNAL, "cannot run %s, which reads trace files: %s", program,
                    strerror(errno));
        problem_remedy(p, "Reinstall profd, which includes it.");
        return -ENOENT;
    }
    int r = ingest_new(m->modules.base, program, (unsigned)m->config.children_max, &m->modules.ingest);
    if (r >= 0 && !m->mode.transient)
        manager_setup_ingest_group(m);
    return r;
}

/* A missing program is reported by the first report. */
static int manager_setup_reports(struct manager *m)
{
    _cleanup_(freep) char *program = manager_find_program("profd-report", "report");
    int r = reports_new(m->modules.base, program, &m->config.reports, &m->modules.reports);
    if (r >= 0)
        r = viewers_new(m->modules.base, program, &m->config.reports, &m->modules.viewers);
    if (r >= 0)
        r = sums_new(m->modules.base, m->modules.catalog, m->modules.offload, m->modules.reports, &m->sums);
    if (r >= 0)
        r = slices_new(m->modules.base, m->modules.catalog, m->modules.offload, m->modules.reports,
                       &m->config.archive.slices, m->config.state_dir, &m->slices);
    return r < 0 ? r
                 : requests_new(m->modules.base, m->modules.catalog, m->modules.offload,
                                &m->config.archive.slices, m->config.state_dir, &m->requests);
}

/* A missing program is reported by the first run. */
static int manager_setup_runs(struct manager *m)
{
    _cleanup_(freep) char *program = manager_find_program("profd-load", "load");
    const struct runs_modules modules = {.base = m->modules.base,
                                         .catalog = m->modules.catalog,
                                         .finder = m->modules.finder,
                                         .sessions = m->modules.sessions,
                                         .fleet_settings = &m->config.fleet,
                                         .network = &m->config.network,
                                         .settings = &m->config.load,
                                         .program = program};

    int r = runs_new(&modules, &m->modules.runs);
    if (r >= 0)
        sessions_set_loader(m->modules.sessions, &runs_loader, m->modules.runs);
    return r;
}

static int manager_setup_peers(struct manager *m)
{
    const struct config *c = &m->config;
    const bool is_system = starts_with(c->api.socket, "/run/") && !starts_with(c->api.socket, "/run/user/");

    int r = peers_new(m->modules.base, m->modules.caller, m->modules.offload, m->modules.catalog, is_system,
                      &c->hosts, &m->modules.peers);
    if (r >= 0)
        fleet_finder_set_owners(m->modules.finder, &peers_owners, m->modules.peers);
    return r;
}

static void manager_wake_archiver(void *archiver)
{
    archiver_wake(archiver);
}

static bool manager_knows_others(void *mirror)
{
    return mirror_is_configured(mirror);
}

static void *manager_find_content(void *mirror, const char *sha256,
                                  void (*done)(const char *host, const struct problem *p, void *arg),
                                  void *arg)
{
    return mirror_ask_content(mirror, sha256, done, arg);
}

static void manager_cancel_content(void *question)
{
    content_cancel(question);
}

/* The mirror is above the archive, and knows the traces of all hosts. */
static const struct archive_others manager_others = {manager_knows_others, manager_find_content,
                                                     manager_cancel_content};

static int manager_setup_archiver(struct manager *m, struct problem *p)
{
    const struct archiver_modules modules = {.base = m->modules.base,
                                             .offload = m->modules.offload,
                                             .catalog = m->modules.catalog,
                                             .store = m->modules.store,
                                             .collector = m->modules.collector};
    int r = archiver_new(&modules, &m->config.archive, &m->modules.archiver, p);
    if (r >= 0) {
        slices_set_wake(m->slices, manager_wake_archiver, m->modules.archiver);
        requests_set_wake(m->requests, manager_wake_archiver, m->modules.archiver);
    }
    return r;
}

static int manager_setup_leases(struct manager *m)
{
    const struct leases_modules modules = {.base = m->modules.base,
                                           .catalog = m->modules.catalog,
                                           .finder = m->modules.finder,
                                           .offload = m->modules.offload,
                                           .sessions = m->modules.sessions,
                                           .settings = &m->config.session};

    return leases_new(&modules, &m->modules.leases);
}

static int manager_setup_api(struct manager *m, struct problem *p)
{
    int r = api_new(&m->modules, &m->api);
    return r < 0 ? r : api_open(m->api, p);
}

static int manager_open_catalog(struct manager *m, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("%s/catalog.db", m->config.state_dir);
    const int64_t deadline = mono_ns() + (m->mode.background ? PREDECESSOR_NS : 0);
    int r;

    while ((r = catalog_open(path, m->modules.base, m->modules.offload, &m->modules.catalog, p)) == -EBUSY &&
           mono_ns() < deadline) {
        problem_done(p);
        usleep(PREDECESSOR_LOOK_US);
    }
    if (r >= 0)
        catalog_on_lost(m->modules.catalog, manager_on_catalog_lost, m);
    return r;
}

/* For a profd without a journal. The directory was checked before. */
static int manager_setup_log(struct manager *m, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("%s/profd.log", m->config.state_dir);

    int r = m->mode.background ? log_to_file(path) : 0;
    return r < 0 ? problem_set(p, r, PROBLEM_STORAGE, "cannot log to %s: %s", path, strerror(-r)) : 0;
}

static void manager_on_probe(bool at_rest, void *arg)
{
    struct manager *m = arg;
    heap_trim(&m->heap, at_rest);
}

static int manager_setup(struct manager *m, struct problem *p)
{
    const struct config *c = &m->config;

    int r = state_dir_check(c->state_dir, p);
    if (r >= 0)
        r = manager_setup_loop(m);
    if (r >= 0)
        r = loop_lag_new(m->modules.base, &m->modules.lag);
    if (r >= 0)
        loop_lag_on_probe(m->modules.lag, manager_on_probe, m);
    if (r >= 0)
        r = offload_new(m->modules.base, OFFLOAD_THREADS, &m->modules.offload);
    if (r >= 0)
        r = caller_new(m->modules.base, &m->modules.caller);
    if (r >= 0)
        caller_set_policy(m->modules.caller, &c->network);
    if (r >= 0)
        caller_set_answers_max(m->modules.caller, c->fleet.response_memory_max);
    if (r >= 0)
        r = manager_open_catalog(m, p);
    if (r >= 0)
        r = manager_setup_log(m, p);
    if (r >= 0)
        r = fleet_finder_new(m->modules.base, m->modules.caller, m->modules.offload, &c->fleet,
                             &m->modules.finder);
    if (r >= 0)
        r = kineto_new(m->modules.base, m->modules.offload, &c->kineto, process_torch_version,
                       &m->modules.kineto);
    if (r >= 0)
        fleet_finder_set_kineto(m->modules.finder, m->modules.kineto);
    if (r >= 0)
        r = manager_setup_peers(m);
    if (r >= 0)
        r = sessions_new(m->modules.base, m->modules.offload, m->modules.caller, m->modules.finder,
                         m->modules.catalog, &c->fleet, &c->session, &m->modules.sessions);
    if (r >= 0)
        sessions_set_kineto(m->modules.sessions, m->modules.kineto, &c->kineto);
    if (r >= 0)
        r = manager_setup_leases(m);
    if (r >= 0)
        r = parts_new(m->modules.base, m->modules.peers, m->modules.sessions, m->modules.catalog, &c->hosts,
                      &c->session, &m->modules.parts);
    if (r >= 0)
        r = manager_setup_runs(m);
    if (r >= 0)
        r = store_new(&c->store, m->modules.catalog, m->modules.offload, &m->modules.store, p);
    if (r >= 0)
        r = manager_setup_ingest(m, p);
    if (r >= 0)
        r = collector_new(m->modules.base, m->modules.offload, m->modules.catalog, m->modules.sessions,
                          m->modules.store, m->modules.ingest, &c->collect, &m->modules.collector);
    if (r >= 0)
        r = manager_setup_reports(m);
    if (r >= 0)
        r = manager_setup_archiver(m, p);
    if (r >= 0)
        r = mirror_new(m->modules.base, m->modules.offload, m->modules.catalog, &c->mirror,
                       &m->modules.mirror, p);
    if (r >= 0)
        archiver_set_others(m->modules.archiver, &manager_others, m->modules.mirror);
    if (r >= 0)
        m->notifier = notifier_new(&m->modules);
    if (r >= 0)
        r = m->mode.transient ? manager_setup_starter(m, p) : sessions_recover(m->modules.sessions);
    if (r >= 0 && !m->mode.transient)
        r = leases_recover(m->modules.leases);
    if (r >= 0 && !m->mode.transient)
        r = parts_recover(m->modules.parts);
    if (r >= 0 && !m->mode.transient)
        r = runs_recover(m->modules.runs);
    if (r >= 0)
        r = manager_setup_api(m, p);
    if (r >= 0 && !m->mode.transient) {
        collector_begin(m->modules.collector);
        archiver_begin(m->modules.archiver);
        catalog_upkeep_every(m->modules.catalog, UPKEEP_FIRST_NS, UPKEEP_INTERVAL_NS);
        mirror_begin(m->modules.mirror);
    }
    if (r >= 0 && m->mode.idle_ns)
        m->idle = idle_new(&m->modules, m->api, m->mode.idle_ns, manager_on_idle, m);
    return r;
}

/* Work for a module in a child, on a thread or until a commit ends before the module does. A
 * negative errno value where a thread does not end. */
static int manager_close_modules(struct manager *m)
{
    int r = 0;

    m->idle = idle_free(m->idle);
    notifier_close(m->notifier);
    api_close(m->api);
    if (m->modules.archiver)
        archiver_close(m->modules.archiver);
    int mirror = mirror_close(m->modules.mirror);
    if (m->modules.leases)
        leases_close(m->modules.leases);
    if (m->modules.collector)
        collector_close(m->modules.collector);
    if (m->modules.store)
        store_close(m->modules.store);
    if (m->modules.runs)
        runs_close(m->modules.runs);
    if (m->sums)
        sums_close(m->sums);
    if (m->slices)
        slices_close(m->slices);
    if (m->requests)
        requests_close(m->requests);
    m->modules.viewers = viewers_free(m->modules.viewers);
    m->modules.reports = reports_free(m->modules.reports);
    m->modules.ingest = ingest_free(m->modules.ingest);
    if (m->modules.kineto)
        kineto_close(m->modules.kineto);
    if (m->modules.offload)
        r = offload_drain(m->modules.offload, mono_ns() + DRAIN_NS);
    if (r < 0)
        log_warning("a file system does not answer: ending without waiting for it");
    /* Its last commits call into every module, so it is closed first. */
    m->modules.catalog = catalog_close(m->modules.catalog);
    return r < 0 ? r : mirror;
}

/* A negative errno value where a thread still uses what the modules own: then that goes with the process. */
static int manager_take_down(struct manager *m)
{
    sigset_t all;

    /* A further signal would end profd once its handlers are gone. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    int r = manager_close_modules(m);
    if (r < 0)
        return r;
    notifier_free(m->notifier);
    archiver_free(m->modules.archiver);
    mirror_free(m->modules.mirror);
    collector_free(m->modules.collector);
    sums_free(m->sums);
    slices_free(m->slices);
    requests_free(m->requests);
    ingest_group_free(m->ingest_group);
    store_free(m->modules.store);
    runs_free(m->modules.runs);
    leases_free(m->modules.leases);
    parts_free(m->modules.parts);
    sessions_free(m->modules.sessions);
    kineto_free(m->modules.kineto);
    fleet_finder_free(m->modules.finder);
    peers_free(m->modules.peers);
    api_free(m->api);
    caller_free(m->modules.caller);
    offload_free(m->modules.offload);
    for (size_t i = 0; i < ARRAY_SIZE(m->signals); i++)
        if (m->signals[i])
            event_free(m->signals[i]);
    if (m->starter)
        event_free(m->starter);
    loop_lag_free(m->modules.lag);
    if (m->modules.base)
        event_base_free(m->modules.base);
    libevent_global_shutdown();
    return 0;
}

/* -- Running -------------------------------------------------------------------------------------------- */

static void manager_log_ready(struct manager *m, const char *file)
{
    const struct config *c = &m->config;

    log_struct(LOG_INFO, LOG_FIELDS(.message_id = MESSAGE_STARTED),
               PROFD_VERSION " is ready: socket %s%s%s, state in %s, %s%s", c->api.socket,
               !c->api.listen     ? ""
               : c->api.cert_file ? ", https://"
                                  : ", http://",
               c->api.listen ? c->api.listen : "", c->state_dir, file ? "configured by " : "no profd.conf",
               file ? file : "");
    notifier_ready(m->notifier);
}

static void manager_report_ready(const struct run_mode *mode)
{
    puts("ready");
    fflush(stdout);
    if (!mode->background)
        return;
    /* Open descriptors would keep the pipes and the terminal of the starter open. */
    _cleanup_(closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    log_leave_stderr();
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

int manager_run(struct config *config, const struct config_overrides *overrides, const struct run_mode *mode,
                const char *file)
{
    struct manager m = {.config = *config, .overrides = overrides, .mode = *mode};
    _cleanup_(problem_done) struct problem p = {0};

    m.modules = (struct api_modules){.settings = &m.config.api,
                                     .fleet_settings = &m.config.fleet,
                                     .session_settings = &m.config.session,
                                     .hosts_settings = &m.config.hosts,
                                     .state_dir = m.config.state_dir};
    manager_setup_process();
    int r = manager_setup(&m, &p);
    if (r < 0) {
        log_error("%s", p.what ? p.what : strerror(-r));
        if (p.remedy)
            log_error("  %s", p.remedy);
    } else {
        manager_log_ready(&m, file);
        if (mode->transient || mode->background)
            manager_report_ready(mode);
        r = loop_lag_dispatch(m.modules.lag);
        r = m.failed < 0 ? m.failed : r;
    }
    if (manager_take_down(&m) < 0)
        _exit(r < 0 ? EXIT_FAILED : EXIT_DONE);
    config_done(&m.config);
    return r;
}
