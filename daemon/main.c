/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd: reads its configuration, builds the rooms in the order of the data's way, opens the door, runs the
 * loop, and takes everything down in the opposite order.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/api/door.h"
#include "daemon/api/routes.h"
#include "daemon/catalog/catalog.h"
#include "daemon/collect/collector.h"
#include "daemon/config.h"
#include "daemon/ingest/ingest.h"
#include "daemon/session/sessions.h"
#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#define OFFLOAD_THREADS 2
/* How long a stop of profd waits for the stops of its sessions; what is owed then, the next start sends. */
#define SHUTDOWN_NS (10 * NS_PER_S)
#define STATE_UMASK 027

/* -- The command line --------------------------------------------------------------------------------- */

enum mode { MODE_RUN, MODE_CHECK, MODE_LIST_KEYS, MODE_LIST_ROUTES, MODE_HELP, MODE_VERSION };

struct options {
    struct config_overrides overrides;
    enum mode mode;
};

enum {
    OPT_CONFIG = 0x100,
    OPT_STATE_DIR,
    OPT_SOCKET,
    OPT_LISTEN,
    OPT_LOG_LEVEL,
    OPT_CHECK_CONFIG,
    OPT_LIST_KEYS,
    OPT_LIST_ROUTES,
    OPT_HELP,
    OPT_VERSION,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"state-dir", required_argument, NULL, OPT_STATE_DIR},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"check-config", no_argument, NULL, OPT_CHECK_CONFIG},
    {"list-keys", no_argument, NULL, OPT_LIST_KEYS},
    {"list-routes", no_argument, NULL, OPT_LIST_ROUTES},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {},
};

static const char usage[] = "profd [OPTION...]\n"
                            "\n"
                            "Profiles the inference workers behind a router, on request of profctl.\n"
                            "\n"
                            "  --config FILE       read FILE instead of profd.conf in /etc/profd (root) or\n"
                            "                      ~/.config/profd (others)\n"
                            "  --state-dir DIR     keep catalog and traces there\n"
                            "  --socket PATH       listen there\n"
                            "  --listen ADDRESS    listen on loopback TCP too, such as 127.0.0.1:9460\n"
                            "  --log-level LEVEL   error, warning, notice, info or debug\n"
                            "  --check-config      say what is wrong with the configuration, and end\n"
                            "  --list-keys         print every key of profd.conf with its default, and end\n"
                            "  --list-routes       print every address of the HTTP door, and end\n"
                            "  -h, --help          this text\n"
                            "  --version           the version of profd\n"
                            "\n"
                            "Options win over the file. profd runs in the foreground; profd(8) and\n"
                            "profd.conf(5) say more.\n";

static int parse_argv(int argc, char **argv, struct options *ret)
{
    struct options o = {0};
    int c;

    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0)
        switch (c) {
        case OPT_CONFIG:
            o.overrides.file = optarg;
            break;
        case OPT_STATE_DIR:
            o.overrides.state_dir = optarg;
            break;
        case OPT_SOCKET:
            o.overrides.socket = optarg;
            break;
        case OPT_LISTEN:
            o.overrides.listen = optarg;
            break;
        case OPT_LOG_LEVEL:
            o.overrides.log_level = optarg;
            break;
        case OPT_CHECK_CONFIG:
            o.mode = MODE_CHECK;
            break;
        case OPT_LIST_KEYS:
            o.mode = MODE_LIST_KEYS;
            break;
        case OPT_LIST_ROUTES:
            o.mode = MODE_LIST_ROUTES;
            break;
        case OPT_HELP:
        case 'h':
            o.mode = MODE_HELP;
            break;
        case OPT_VERSION:
            o.mode = MODE_VERSION;
            break;
        default:
            return -EINVAL; /* getopt said why */
        }
    if (optind < argc) {
        fprintf(stderr, "profd: %s: profd takes only options; profctl has the verbs\n", argv[optind]);
        return -EINVAL;
    }
    *ret = o;
    return 0;
}

static void list_routes(void)
{
    for (size_t i = 0; route_at(i); i++)
        printf("%s %s %s\n", http_method_name(route_at(i)->method), route_at(i)->pattern,
               route_at(i)->query ? route_at(i)->query : "");
}

static int load_config(const struct options *o, struct config *ret, char **ret_file)
{
    _cleanup_(config_errors_done) struct config_errors errors = {0};

    int r = config_load(&o->overrides, ret, ret_file, &errors);
    for (size_t i = 0; i < errors.n; i++)
        log_error("%s", errors.items[i]);
    return r;
}

/* -- The rooms ---------------------------------------------------------------------------------------- */

struct manager {
    const struct config *config;
    struct event_base *base;
    struct event *signals[3];
    struct offload *offload;
    struct caller *caller;
    struct catalog *catalog;
    struct fleet_finder *finder;
    struct sessions *sessions;
    struct store *store;
    struct ingest *ingest;
    struct collector *collector;
    struct door *door;
    bool stopping;
};

static void on_shutdown_done(void *arg)
{
    struct manager *m = arg;
    event_base_loopbreak(m->base);
}

static void on_stop_signal(evutil_socket_t number, short what, void *arg)
{
    struct manager *m = arg;

    if (m->stopping) {
        log_notice("%s again: ending at once; stops that are owed are sent at the next start",
                   strsignal((int)number));
        event_base_loopbreak(m->base);
        return;
    }
    m->stopping = true;
    sd_notify(0, "STOPPING=1\nSTATUS=stopping the profilers of running sessions");
    log_info("%s: stopping%s", strsignal((int)number),
             sessions_count(m->sessions) ? "; sessions that record are stopped first" : "");
    door_stop_accepting(m->door);
    sessions_shutdown(m->sessions, mono_ns() + SHUTDOWN_NS, on_shutdown_done, m);
}

static void on_reload_signal(evutil_socket_t number, short what, void *arg)
{
    log_notice("%s: profd.conf is read at the start only; restart profd to have it read",
               strsignal((int)number));
}

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

/* profd-ingest: beside profd in a build tree, else where it is installed. */
static char *find_ingest(void)
{
    static const char *const beside[] = {"profd-ingest", "ingest/profd-ingest"};
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[MAX(n, 0)] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(beside); i++) {
        char *path = xasprintf("%.*s/%s", (int)(slash - exe), exe, beside[i]);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return xstrdup(PROFD_LIBEXECDIR "/profd-ingest");
}

static int setup_ingest(struct manager *m, struct problem *p)
{
    _cleanup_(freep) char *program = find_ingest();

    if (access(program, X_OK) < 0) {
        problem_set(p, -errno, PROBLEM_INTERNAL, "cannot use %s, which reads trace files: %s", program,
                    strerror(errno));
        problem_remedy(p, "It is installed with profd; install both anew.");
        return -ENOENT;
    }
    return ingest_new(m->base, program, (unsigned)m->config->children_max, &m->ingest);
}

static int setup_door(struct manager *m, struct problem *p)
{
    const struct door_rooms rooms = {.base = m->base,
                                     .offload = m->offload,
                                     .catalog = m->catalog,
                                     .finder = m->finder,
                                     .sessions = m->sessions,
                                     .store = m->store,
                                     .config = m->config};

    int r = door_new(&rooms, &m->door);
    return r < 0 ? r : door_open(m->door, p);
}

static int setup(struct manager *m, struct problem *p)
{
    const struct config *c = m->config;
    _cleanup_(freep) char *catalog = xasprintf("%s/catalog.db", c->state_dir);

    int r = setup_loop(m);
    if (r >= 0)
        r = offload_new(m->base, OFFLOAD_THREADS, &m->offload);
    if (r >= 0)
        r = caller_new(m->base, &m->caller);
    if (r >= 0)
        r = catalog_open(catalog, m->base, m->offload, &m->catalog, p);
    if (r >= 0)
        r = fleet_finder_new(m->base, m->caller, m->offload, &c->fleet, &m->finder);
    if (r >= 0)
        r = sessions_new(m->base, m->offload, m->caller, m->finder, m->catalog, &c->fleet, &c->session,
                         &m->sessions);
    if (r >= 0)
        r = store_new(&c->store, m->catalog, m->offload, &m->store, p);
    if (r >= 0)
        r = setup_ingest(m, p);
    if (r >= 0)
        r = collector_new(m->base, m->offload, m->catalog, m->sessions, m->store, m->ingest, &c->collect,
                          &m->collector);
    if (r >= 0)
        r = sessions_recover(m->sessions);
    if (r >= 0)
        r = setup_door(m, p);
    if (r >= 0)
        collector_begin(m->collector);
    return r;
}

/* What is under way for a room, in a child, on a thread or until the commit, ends before the room does. */
static void let_end(struct manager *m)
{
    door_close(m->door);
    if (m->collector)
        collector_close(m->collector);
    if (m->store)
        store_close(m->store);
    m->ingest = ingest_free(m->ingest);
    if (m->offload)
        offload_drain(m->offload);
    /* Its last commits call into every room, so it is the first that goes. */
    m->catalog = catalog_close(m->catalog);
}

static void take_down(struct manager *m)
{
    let_end(m);
    collector_free(m->collector);
    store_free(m->store);
    sessions_free(m->sessions);
    fleet_finder_free(m->finder);
    door_free(m->door);
    caller_free(m->caller);
    offload_free(m->offload);
    for (size_t i = 0; i < ARRAY_SIZE(m->signals); i++)
        if (m->signals[i])
            event_free(m->signals[i]);
    if (m->base)
        event_base_free(m->base);
    libevent_global_shutdown();
}

static void say_ready(const struct config *c, const char *file)
{
    log_info(PROFD_VERSION " is ready: socket %s%s%s, state in %s, %s%s", c->socket,
             c->listen ? ", http://" : "", c->listen ? c->listen : "", c->state_dir,
             file ? "configured by " : "no profd.conf", file ? file : "");
    sd_notifyf(0, "READY=1\nSTATUS=listening on %s", c->socket);
}

static int run(const struct config *c, const char *file)
{
    struct manager m = {.config = c};
    _cleanup_(problem_done) struct problem p = {0};

    setup_process();
    int r = setup(&m, &p);
    if (r < 0) {
        log_error("%s", p.what ? p.what : strerror(-r));
        if (p.remedy)
            log_error("  %s", p.remedy);
    } else {
        say_ready(c, file);
        r = event_base_dispatch(m.base) < 0 ? -EIO : 0;
    }
    take_down(&m);
    return r;
}

int main(int argc, char **argv)
{
    struct options options;
    struct config config;
    _cleanup_(freep) char *file = NULL;

    if (parse_argv(argc, argv, &options) < 0)
        return EXIT_USAGE;
    switch (options.mode) {
    case MODE_HELP:
        fputs(usage, stdout);
        return EXIT_DONE;
    case MODE_VERSION:
        puts("profd " PROFD_VERSION);
        return EXIT_DONE;
    case MODE_LIST_KEYS:
        config_print_keys(stdout);
        return EXIT_DONE;
    case MODE_LIST_ROUTES:
        list_routes();
        return EXIT_DONE;
    default:
        break;
    }
    if (load_config(&options, &config, &file) < 0)
        return EXIT_USAGE;
    log_set_level(config.log_level);
    int r = options.mode == MODE_CHECK ? 0 : run(&config, file);
    config_done(&config);
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
