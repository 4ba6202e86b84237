/* SPDX-License-Identifier: Apache-2.0 */
/* profd's command line. What it asks for, the manager does. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/api/api.h"
#include "daemon/api/routes.h"
#include "daemon/manager.h"
#include "version.h"
#include <errno.h>
#include <getopt.h>
#include <sys/prctl.h>

enum mode { MODE_RUN, MODE_CHECK, MODE_LIST_KEYS, MODE_LIST_ROUTES, MODE_HELP, MODE_VERSION };

struct options {
    struct config_overrides overrides;
    enum mode mode;
    struct manner manner;
};

enum {
    OPT_CONFIG = 0x100,
    OPT_STATE_DIR,
    OPT_SOCKET,
    OPT_LISTEN,
    OPT_LOG_LEVEL,
    OPT_BUS,
    OPT_TRANSIENT,
    OPT_BACKGROUND,
    OPT_EXIT_WHEN_IDLE,
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
    {"bus", required_argument, NULL, OPT_BUS},
    {"transient", no_argument, NULL, OPT_TRANSIENT},
    {"background", no_argument, NULL, OPT_BACKGROUND},
    {"exit-when-idle", required_argument, NULL, OPT_EXIT_WHEN_IDLE},
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
                            "  --listen ADDRESS    listen on TCP too, such as 127.0.0.1:9460\n"
                            "  --log-level LEVEL   error, warning, notice, info or debug\n"
                            "  --bus BUS           answer on D-Bus too: system, session, or none (default)\n"
                            "  --background        print a line on stdout when it serves; then leave the\n"
                            "                      terminal, and log to profd.log beside the catalog\n"
                            "  --exit-when-idle TIME\n"
                            "                      end after being idle for TIME\n"
                            "  --transient         serve --socket only, until stdin ends; take files, but\n"
                            "                      look after nothing by itself\n"
                            "  --check-config      print the mistakes of the configuration, and end\n"
                            "  --list-keys         print every key of profd.conf with its default, and end\n"
                            "  --list-routes       print every path of the HTTP API, and end\n"
                            "  -h, --help          this text\n"
                            "  --version           the version of profd\n"
                            "\n"
                            "Options win over the file. profd runs in the foreground; profd(8) and\n"
                            "profd.conf(5) say more.\n";

static int take_idle(const char *text, int64_t *ret)
{
    int64_t ns;

    if (parse_duration(text, &ns) < 0 || ns < IDLE_MIN || ns > IDLE_MAX) {
        fprintf(stderr, "profd: --exit-when-idle %s: must be a duration such as 30min, from 100ms to 365d\n",
                text);
        return -EINVAL;
    }
    *ret = ns;
    return 0;
}

static int check_manner(const struct options *o)
{
    if (o->manner.transient && !o->overrides.socket)
        fprintf(stderr, "profd: --transient needs --socket PATH\n");
    else if (o->manner.transient && (o->manner.background || o->manner.idle_ns))
        fprintf(stderr,
                "profd: --transient ends with its stdin, without --background and --exit-when-idle\n");
    else
        return 0;
    return -EINVAL;
}

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
        case OPT_BUS:
            o.overrides.bus = optarg;
            break;
        case OPT_TRANSIENT:
            o.manner.transient = true;
            break;
        case OPT_BACKGROUND:
            o.manner.background = true;
            break;
        case OPT_EXIT_WHEN_IDLE:
            if (take_idle(optarg, &o.manner.idle_ns) < 0)
                return -EINVAL;
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
    if (check_manner(&o) < 0)
        return -EINVAL;
    *ret = o;
    return 0;
}

static void list_routes(void)
{
    for (size_t i = 0; route_at(i); i++)
        printf("%s %s %s %s\n", http_method_name(route_at(i)->method), route_at(i)->pattern,
               right_name(route_at(i)->right), route_at(i)->query ? route_at(i)->query : "");
}

static int load_config(const struct options *o, struct config *ret, char **ret_file)
{
    _cleanup_(config_errors_done) struct config_errors errors = {0};

    int r = config_load(&o->overrides, ret, ret_file, &errors);
    for (size_t i = 0; i < errors.n; i++)
        log_error("%s", errors.items[i]);
    return r;
}

/* Also what the files say that it names. */
static int check_config(const struct config *config)
{
    _cleanup_(problem_done) struct problem p = {0};

    int r = api_check_settings(&config->api, &p);
    if (r < 0)
        log_error("%s", p.what ? p.what : strerror(-r));
    if (r < 0 && p.remedy)
        log_error("  %s", p.remedy);
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
    /* Tokens pass through its memory: neither its user's other processes nor a core file get to see them. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    log_open();
    if (load_config(&options, &config, &file) < 0)
        return EXIT_USAGE;
    log_set_level(config.log_level);
    if (options.manner.transient) {
        replace_str(&config.api.listen, NULL);
        config.api.bus = BUS_KIND_NONE;
    }
    int wrong = check_config(&config);
    if (wrong < 0 || options.mode == MODE_CHECK) {
        config_done(&config);
        return wrong < 0 ? EXIT_USAGE : EXIT_DONE;
    }
    int r = manager_run(&config, &options.overrides, &options.manner, file);
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
