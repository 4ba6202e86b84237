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

enum profd_mode { MODE_RUN, MODE_CHECK, MODE_LIST_KEYS, MODE_LIST_ROUTES, MODE_HELP, MODE_VERSION };

struct profd_options {
    struct config_overrides overrides;
    enum profd_mode mode;
    struct run_mode run_mode;
};

enum profd_option_kind { PROFD_OPTION_TEXT, PROFD_OPTION_FLAG, PROFD_OPTION_MODE, PROFD_OPTION_IDLE };

#define TEXT(member) PROFD_OPTION_TEXT, offsetof(struct profd_options, overrides.member)
#define FLAG(member) PROFD_OPTION_FLAG, offsetof(struct profd_options, run_mode.member)

static const struct {
    const char *name;
    enum profd_option_kind kind;
    size_t offset; /* of the field that it sets */
    enum profd_mode mode;
} option_table[] = {
    {"config", TEXT(file)},
    {"state-dir", TEXT(state_dir)},
    {"socket", TEXT(socket)},
    {"listen", TEXT(listen)},
    {"log-level", TEXT(log_level)},
    {"bus", TEXT(bus)},
    {"kineto-listen", TEXT(kineto_listen)},
    {"transient", FLAG(transient)},
    {"background", FLAG(background)},
    {"exit-when-idle", PROFD_OPTION_IDLE},
    {"check-config", PROFD_OPTION_MODE, .mode = MODE_CHECK},
    {"list-keys", PROFD_OPTION_MODE, .mode = MODE_LIST_KEYS},
    {"list-routes", PROFD_OPTION_MODE, .mode = MODE_LIST_ROUTES},
    {"help", PROFD_OPTION_MODE, .mode = MODE_HELP},
    {"version", PROFD_OPTION_MODE, .mode = MODE_VERSION},
};
/* What getopt_long() returns for the first option of the table. */
#define OPTION_FIRST 0x100

static const char usage[] = "profd [OPTION...]\n"
                            "\n"
                            "Profiling control service for LLM inference fleets, used through profctl.\n"
                            "\n"
                            "  --config FILE       read FILE instead of profd.conf in /etc/profd (root) or\n"
                            "                      ~/.config/profd (others)\n"
                            "  --state-dir DIR     directory of the catalog and the traces\n"
                            "  --socket PATH       Unix socket to listen on\n"
                            "  --listen ADDRESS    TCP address to listen on, such as 127.0.0.1:9460\n"
                            "  --log-level LEVEL   error, warning, notice, info or debug\n"
                            "  --bus BUS           D-Bus to serve: system, session, or none (default)\n"
                            "  --kineto-listen WHERE\n"
                            "                      where PyTorch processes register: abstract, a directory\n"
                            "  --background        print \"ready\" on stdout when it serves, then detach\n"
                            "                      and log to profd.log next to the catalog\n"
                            "  --exit-when-idle DURATION\n"
                            "                      end after being idle for DURATION\n"
                            "  --transient         serve --socket only, until stdin is closed: import\n"
                            "                      files, without watching or recovering\n"
                            "  --check-config      print the errors of the configuration, and end\n"
                            "  --list-keys         print every key of profd.conf with its default, and end\n"
                            "  --list-routes       print every path of the HTTP API, and end\n"
                            "  -h, --help          print this help\n"
                            "  --version           print the version\n"
                            "\n"
                            "Options override the file. profd runs in the foreground. See profd(8) and\n"
                            "profd.conf(5).\n";

static int profd_take_idle(const char *text, int64_t *ret)
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

static int profd_check_run_mode(const struct profd_options *o)
{
    if (o->run_mode.transient && !o->overrides.socket)
        fprintf(stderr, "profd: --transient needs --socket PATH\n");
    else if (o->run_mode.transient && (o->run_mode.background || o->run_mode.idle_ns))
        fprintf(stderr,
                "profd: --transient ends with its stdin, without --background and --exit-when-idle\n");
    else
        return 0;
    return -EINVAL;
}

static int profd_take_option(size_t i, const char *text, struct profd_options *o)
{
    void *field = (char *)o + option_table[i].offset;

    switch (option_table[i].kind) {
    case PROFD_OPTION_TEXT:
        *(const char **)field = text;
        return 0;
    case PROFD_OPTION_FLAG:
        *(bool *)field = true;
        return 0;
    case PROFD_OPTION_MODE:
        o->mode = option_table[i].mode;
        return 0;
    case PROFD_OPTION_IDLE:
        return profd_take_idle(text, &o->run_mode.idle_ns);
    }
    return -EINVAL;
}

static int profd_parse_argv(int argc, char **argv, struct profd_options *ret)
{
    struct option long_options[ARRAY_SIZE(option_table) + 1] = {0};
    struct profd_options o = {0};
    int c;

    for (size_t i = 0; i < ARRAY_SIZE(option_table); i++) {
        bool has_value =
            option_table[i].kind == PROFD_OPTION_TEXT || option_table[i].kind == PROFD_OPTION_IDLE;
        long_options[i] = (struct option){option_table[i].name, has_value ? required_argument : no_argument,
                                          NULL, OPTION_FIRST + (int)i};
    }
    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
        if (c == 'h')
            o.mode = MODE_HELP;
        else if (c < OPTION_FIRST || profd_take_option((size_t)(c - OPTION_FIRST), optarg, &o) < 0)
            return -EINVAL; /* the error is printed */
    }
    if (optind < argc) {
        fprintf(stderr, "profd: unexpected argument %s: profd takes options only; profctl has the verbs\n",
                argv[optind]);
        return -EINVAL;
    }
    if (profd_check_run_mode(&o) < 0)
        return -EINVAL;
    *ret = o;
    return 0;
}

static void profd_list_routes(void)
{
    for (size_t i = 0; route_at(i); i++)
        printf("%s %s %s %s\n", http_method_name(route_at(i)->method), route_at(i)->pattern,
               right_name(route_at(i)->right), route_at(i)->query ? route_at(i)->query : "");
}

static int profd_load_config(const struct profd_options *o, struct config *ret, char **ret_file)
{
    _cleanup_(config_errors_done) struct config_errors errors = {0};

    int r = config_load(&o->overrides, ret, ret_file, &errors);
    for (size_t i = 0; i < errors.n; i++)
        log_error("%s", errors.items[i]);
    return r;
}

/* Including the files that it names. */
static int profd_check_config(const struct config *config)
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
    struct profd_options options;
    struct config config;
    _cleanup_(freep) char *file = NULL;

    if (profd_parse_argv(argc, argv, &options) < 0)
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
        profd_list_routes();
        return EXIT_DONE;
    default:
        break;
    }
    /* Tokens pass through its memory: neither its user's other processes nor a core file get to see them. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    log_open();
    if (profd_load_config(&options, &config, &file) < 0)
        return EXIT_USAGE;
    log_set_level(config.log_level);
    if (options.run_mode.transient) {
        replace_str(&config.api.listen, NULL);
        config.api.bus = BUS_KIND_NONE;
        replace_str(&config.kineto.listen, NULL);
    }
    int wrong = profd_check_config(&config);
    if (wrong < 0 || options.mode == MODE_CHECK) {
        config_done(&config);
        return wrong < 0 ? EXIT_USAGE : EXIT_DONE;
    }
    int r = manager_run(&config, &options.overrides, &options.run_mode, file);
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
