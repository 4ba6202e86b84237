/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/manager.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/catalog/catalog.h"
#include "daemon/ingest/queue.h"
#include "daemon/reload.h"
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
/* How long a stop of profd waits for the stops of its sessions; what is owed then, the next start sends. Both
 * together are well below TimeoutStopSec= of the unit. */
#define SHUTDOWN_NS  (10 * NS_PER_S)
#define TAKE_DOWN_NS (20 * NS_PER_S)
/* How long one in the background waits for another that ends, and has left its socket already. */
#define PREDECESSOR_NS      (SHUTDOWN_NS + 2 * NS_PER_S)
#define PREDECESSOR_LOOK_US 20000
/* Of these, for threads: one that waits for a file server that is down may wait for hours. */
#define DRAIN_NS (10 * NS_PER_S)
/* Beside what columns_memory= allows a child for its columns; see MEMORY_BESIDE of profd-ingest. */
#define CHILD_MEMORY (INT64_C(512) << 20)
/* The child itself, and what it begins. */
#define INGEST_TASKS (INT64_C(1) + INGEST_THREADS_MAX)
#define STATE_UMASK  027
/* Bytes; as malloc() begins. */
#define MAPPED_ALONE (128 << 10)

/* -- The end -------------------------------------------------------------------------------------------- */

static void on_shutdown_done(void *arg)
{
    struct manager *m = arg;
    if (--m->n_ending == 0)
        event_base_loopbreak(m->base);
}

static void stop(struct manager *m, const char *why)
{
    if (m->stopping) {
        log_notice("%s again: ending at once; stops that are owed are sent at the next start", why);
        sessions_shutdown_now(m->sessions);
        event_base_loopbreak(m->base);
        return;
    }
    m->stopping = true;
    notifier_stopping(m->notifier, SHUTDOWN_NS + TAKE_DOWN_NS);
    log_struct(LOG_INFO, LOG_FIELDS(.message_id = MESSAGE_STOPPING), "%s: stopping%s", why,
               sessions_count(m->sessions) + runs_count(m->runs)
                   ? "; sessions that record and runs that send are stopped first"
                   : "");
    /* One that fails is asked by /readyz why. */
    if (m->failed == 0)
        api_stop_accepting(m->api);
    m->n_ending = 2;
    sessions_shutdown(m->sessions, mono_ns() + SHUTDOWN_NS, on_shutdown_done, m);
    runs_shutdown(m->runs, mono_ns() + SHUTDOWN_NS, on_shutdown_done, m);
}

/* What the catalog was is lost; what it would have said of profilers is still known. */
static void on_catalog_lost(void *arg)
{
    struct manager *m = arg;

    m->failed = -ESTALE;
    if (!m->stopping)
        stop(m, "the catalog is lost");
}

static void on_stop_signal(evutil_socket_t number, short what, void *arg)
{
    stop(arg, strsignal((int)number));
}

static void on_idle(void *arg)
{
    struct manager *m = arg;
    char text[UNIT_TEXT_MAX];
    _cleanup_(freep) char *why = xasprintf("idle for %s", format_duration(text, m->manner.idle_ns));

    stop(m, why);
}

static void on_stdin(evutil_socket_t fd, short what, void *arg)
{
    struct manager *m = arg;
    char ignored[256];

    if (read(fd, ignored, sizeof(ignored)) > 0)
        return;
    event_del(m->starter);
    stop(m, "end of stdin");
}

static void on_reload_signal(evutil_socket_t number, short what, void *arg)
{
    struct manager *m = arg;

    if (m->manner.transient || m->stopping)
        log_notice("%s: ignored by a profd that is %s", strsignal((int)number),
                   m->manner.transient ? "transient" : "stopping");
    else
        reload(m);
}

/* -- The loop ------------------------------------------------------------------------------------------- */

/* Before any thread, and before whatever asks how many descriptors there may be. */
static void setup_process(void)
{
    struct rlimit files;

    umask(STATE_UMASK);
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    /* The threads copy nothing of size: an arena for each would be memory that lies idle. */
    mallopt(M_ARENA_MAX, 1);
    /* What is large is a mapping of its own, and gone when it is freed. By itself the threshold would rise to
     * the largest block that ever was. */
    mallopt(M_MMAP_THRESHOLD, MAPPED_ALONE);
}

static int setup_loop(struct manager *m)
{
    static const struct {
        int number;
        void (*fn)(evutil_socket_t number, short what, void *arg);
    } signals[] = {{SIGTERM, on_stop_signal}, {SIGINT, on_stop_signal}, {SIGHUP, on_reload_signal}};

    /* By default libevent's clock is coarse, and its time that of the turn's beginning: timers would fire
     * milliseconds early. */
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME);
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    m->base = event_base_new_with_config(config);
    event_config_free(config);
    if (!m->base)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        m->signals[i] = evsignal_new(m->base, signals[i].number, signals[i].fn, m);
        if (!m->signals[i] || event_add(m->signals[i], NULL) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* A regular file or /dev/null would be at its end. */
static int setup_starter(struct manager *m, struct problem *p)
{
    m->starter = event_new(m->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_stdin, m);
    if (m->starter && event_add(m->starter, NULL) == 0)
        return 0;
    problem_remedy(p, "Start it with a pipe as stdin, and close that when it is to end.");
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--transient: stdin is no pipe");
}

/* -- The modules ---------------------------------------------------------------------------------------- */

/* A program of profd's own: beside it in a build tree or where a tarball was unpacked, else where it is
 * installed. */
static char *find_program(const char *name, const char *built_in)
{
    const char *const beside[] = {".", built_in, "../libexec/profd"};
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[MAX(n, 0)] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(beside); i++) {
        char *path = xasprintf("%.*s/%s/%s", (int)(slash - exe), exe, beside[i], name);
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

/* Without one nothing is lost but the last line of defence. */
static void setup_ingest_group(struct manager *m)
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
        ingest_set_group(m->ingest, r);
    else
        log_debug("profd-ingest gets no cgroup of its own below %s: %s (%s)", directory, reason,
                  strerror(-r));
}

static int setup_ingest(struct manager *m, struct problem *p)
{
    _cleanup_(freep) char *program = find_program("profd-ingest", "ingest");

    if (access(program, X_OK) < 0) {
        problem_set(p, -errno, PROBLEM_INTERNAL, "cannot use %s, which reads trace files: %s", program,
                    strerror(errno));
        problem_remedy(p, "It is installed with profd; install both anew.");
        return -ENOENT;
    }
    int r = ingest_new(m->base, program, (unsigned)m->config.children_max, &m->ingest);
    if (r >= 0 && !m->manner.transient)
        setup_ingest_group(m);
    return r;
}

/* Whether it is there is found out by who wants to send something. */
static int setup_runs(struct manager *m)
{
    _cleanup_(freep) char *program = find_program("profd-load", "load");
    const struct runs_rooms modules = {.base = m->base,
                                       .catalog = m->catalog,
                                       .finder = m->finder,
                                       .sessions = m->sessions,
                                       .fleet_settings = &m->config.fleet,
                                       .network = &m->config.network,
                                       .settings = &m->config.load,
                                       .program = program};

    int r = runs_new(&modules, &m->runs);
    if (r >= 0)
        sessions_set_loader(m->sessions, &runs_loader, m->runs);
    return r;
}

static int setup_api(struct manager *m, struct problem *p)
{
    const struct api_modules modules = {.base = m->base,
                                        .offload = m->offload,
                                        .caller = m->caller,
                                        .catalog = m->catalog,
                                        .finder = m->finder,
                                        .sessions = m->sessions,
                                        .runs = m->runs,
                                        .store = m->store,
                                        .ingest = m->ingest,
                                        .collector = m->collector,
                                        .lag = m->lag,
                                        .settings = &m->config.api,
                                        .fleet_settings = &m->config.fleet,
                                        .session_settings = &m->config.session,
                                        .state_dir = m->config.state_dir};

    int r = api_new(&modules, &m->api);
    return r < 0 ? r : api_open(m->api, p);
}

static int open_catalog(struct manager *m, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("%s/catalog.db", m->config.state_dir);
    const int64_t deadline = mono_ns() + (m->manner.background ? PREDECESSOR_NS : 0);
    int r;

    while ((r = catalog_open(path, m->base, m->offload, &m->catalog, p)) == -EBUSY && mono_ns() < deadline) {
        problem_done(p);
        usleep(PREDECESSOR_LOOK_US);
    }
    if (r >= 0)
        catalog_on_lost(m->catalog, on_catalog_lost, m);
    return r;
}

static struct idle *setup_idle(struct manager *m)
{
    const struct idle_modules modules = {.base = m->base,
                                         .catalog = m->catalog,
                                         .sessions = m->sessions,
                                         .runs = m->runs,
                                         .ingest = m->ingest,
                                         .api = m->api};
    return idle_new(&modules, m->manner.idle_ns, on_idle, m);
}

/* The journal of one that has none. In a directory that is known to be fit for it. */
static int setup_log(struct manager *m, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("%s/profd.log", m->config.state_dir);

    int r = m->manner.background ? log_to_file(path) : 0;
    return r < 0 ? problem_set(p, r, PROBLEM_STORAGE, "cannot log to %s: %s", path, strerror(-r)) : 0;
}

static struct notifier *setup_notifier(struct manager *m)
{
    const struct notifier_modules modules = {.base = m->base,
                                             .offload = m->offload,
                                             .catalog = m->catalog,
                                             .sessions = m->sessions,
                                             .store = m->store,
                                             .fleet_settings = &m->config.fleet};
    return notifier_new(&modules);
}

static void on_probe(bool at_rest, void *arg)
{
    struct manager *m = arg;
    heap_look(&m->heap, at_rest);
}

static int setup(struct manager *m, struct problem *p)
{
    const struct config *c = &m->config;

    int r = state_dir_check(c->state_dir, p);
    if (r >= 0)
        r = setup_loop(m);
    if (r >= 0)
        r = loop_lag_new(m->base, &m->lag);
    if (r >= 0)
        loop_lag_on_probe(m->lag, on_probe, m);
    if (r >= 0)
        r = offload_new(m->base, OFFLOAD_THREADS, &m->offload);
    if (r >= 0)
        r = caller_new(m->base, &m->caller);
    if (r >= 0)
        caller_set_policy(m->caller, &c->network);
    if (r >= 0)
        caller_set_answers_max(m->caller, c->fleet.response_memory_max);
    if (r >= 0)
        r = open_catalog(m, p);
    if (r >= 0)
        r = setup_log(m, p);
    if (r >= 0)
        r = fleet_finder_new(m->base, m->caller, m->offload, &c->fleet, &m->finder);
    if (r >= 0)
        r = sessions_new(m->base, m->offload, m->caller, m->finder, m->catalog, &c->fleet, &c->session,
                         &m->sessions);
    if (r >= 0)
        r = setup_runs(m);
    if (r >= 0)
        r = store_new(&c->store, m->catalog, m->offload, &m->store, p);
    if (r >= 0)
        r = setup_ingest(m, p);
    if (r >= 0)
        r = collector_new(m->base, m->offload, m->catalog, m->sessions, m->store, m->ingest, &c->collect,
                          &m->collector);
    if (r >= 0)
        m->notifier = setup_notifier(m);
    if (r >= 0)
        r = m->manner.transient ? setup_starter(m, p) : sessions_recover(m->sessions);
    if (r >= 0 && !m->manner.transient)
        r = runs_recover(m->runs);
    if (r >= 0)
        r = setup_api(m, p);
    if (r >= 0 && !m->manner.transient)
        collector_begin(m->collector);
    if (r >= 0 && m->manner.idle_ns)
        m->idle = setup_idle(m);
    return r;
}

/* What is under way for a room, in a child, on a thread or until the commit, ends before the room does. A
 * negative errno value where a thread does not end. */
static int let_end(struct manager *m)
{
    int r = 0;

    m->idle = idle_free(m->idle);
    notifier_close(m->notifier);
    api_close(m->api);
    if (m->collector)
        collector_close(m->collector);
    if (m->store)
        store_close(m->store);
    if (m->runs)
        runs_close(m->runs);
    m->ingest = ingest_free(m->ingest);
    if (m->offload)
        r = offload_drain(m->offload, mono_ns() + DRAIN_NS);
    /* Its last commits call into every room, so it is the first that goes. */
    m->catalog = catalog_close(m->catalog);
    return r;
}

/* A negative errno value where a thread still uses what the modules own: then that goes with the process. */
static int take_down(struct manager *m)
{
    sigset_t all;

    /* One more signal has nothing to add, and would end profd once nobody handles it. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    int r = let_end(m);
    if (r < 0)
        return r;
    notifier_free(m->notifier);
    collector_free(m->collector);
    ingest_group_free(m->ingest_group);
    store_free(m->store);
    runs_free(m->runs);
    sessions_free(m->sessions);
    fleet_finder_free(m->finder);
    api_free(m->api);
    caller_free(m->caller);
    offload_free(m->offload);
    for (size_t i = 0; i < ARRAY_SIZE(m->signals); i++)
        if (m->signals[i])
            event_free(m->signals[i]);
    if (m->starter)
        event_free(m->starter);
    loop_lag_free(m->lag);
    if (m->base)
        event_base_free(m->base);
    libevent_global_shutdown();
    return 0;
}

/* -- Running -------------------------------------------------------------------------------------------- */

static void say_ready(struct manager *m, const char *file)
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

static void tell_starter(const struct manner *manner)
{
    puts("ready");
    fflush(stdout);
    if (!manner->background)
        return;
    /* What stays open is held open: the starter's pipes, its terminal. */
    _cleanup_(closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    log_leave_stderr();
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

int manager_run(struct config *config, const struct config_overrides *overrides, const struct manner *manner,
                const char *file)
{
    struct manager m = {.config = *config, .overrides = overrides, .manner = *manner};
    _cleanup_(problem_done) struct problem p = {0};

    setup_process();
    int r = setup(&m, &p);
    if (r < 0) {
        log_error("%s", p.what ? p.what : strerror(-r));
        if (p.remedy)
            log_error("  %s", p.remedy);
    } else {
        say_ready(&m, file);
        if (manner->transient || manner->background)
            tell_starter(manner);
        r = loop_lag_dispatch(m.lag);
        r = m.failed < 0 ? m.failed : r;
    }
    if (take_down(&m) < 0) {
        log_warning("a file system does not answer: ending without what waits for it");
        _exit(r < 0 ? EXIT_FAILED : EXIT_DONE);
    }
    config_done(&m.config);
    return r;
}
