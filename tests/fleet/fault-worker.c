/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault-worker: thousands of inference workers and a router on one machine, quick, and wrong in whatever way
 * a test asks for. Speaks for nothing real: what it writes are made-up traces.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "tests/fleet/fault-fleet.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>

#define WORKERS_MAX    20000
#define RANKS_MAX      1024
#define LIFE_DEFAULT_S 600
#define LIFE_MAX_S     86400

struct options {
    struct fleet_options fleet;
    const char *port_file;
    const char *router_fault;
    unsigned life_s;
    const char **faults; /* borrowed from argv */
    size_t n_faults, cap_faults;
};

static const char usage[] =
    "fault-worker --engine NAME --count N --dir DIR [OPTION...]\n"
    "\n"
    "  --engine NAME            vllm, sglang, rtp-llm, dynamo (with SGLang), dynamo-vllm or dynamo-trtllm\n"
    "  --address ADDRESS        IPv4 address of all ports (127.0.0.1)\n"
    "  --port-file FILE         write {\"router\", \"control\", \"workers\", \"pid\"} there when ready, as "
    "to stdout\n"
    "  --router-dialect NAME    vllm-router, sglang, or dynamo, dynamo-rl, dynamo-nats (frontends)\n"
    "  --shared-dir             all workers write into DIR itself, not into DIR/wN\n"
    "  --ranks R                traces that a worker writes (1)\n"
    "  --trace FILE             they are copies of this one\n"
    "  --nodes N                each engine has as many ranks on N - 1 other hosts, which are not made here "
    "(1)\n"
    "  --meet HOST:PORT         where its nodes meet\n"
    "  --role prefill=N,decode=M  of the first N, and the M after them\n"
    "  --fault NAME[=ARG][@INDEXES]  repeatable; indexes as in 0,3-7 or 10%\n"
    "  --router-fault NAME\n"
    "  --life SECONDS           ends by itself after that (600)\n"
    "  --list-faults\n"
    "\n"
    "GET /journal and POST /fault {\"fault\":NAME,\"arg\":...} on a worker's port tell and change; a fault "
    "adds to\n"
    "those that are there, \"none\" takes all away. On the router's port: /journal sums up, "
    "/journal?worker=N is one\n"
    "worker's, /fault takes \"workers\":INDEXES beside \"fault\", or {\"router_fault\":NAME}.\n";

enum {
    OPT_ENGINE = 0x100,
    OPT_COUNT,
    OPT_DIR,
    OPT_ADDRESS,
    OPT_PORT_FILE,
    OPT_ROUTER_DIALECT,
    OPT_SHARED_DIR,
    OPT_RANKS,
    OPT_TRACE,
    OPT_NODES,
    OPT_MEET,
    OPT_FAULT,
    OPT_ROUTER_FAULT,
    OPT_ROLE,
    OPT_LIFE,
    OPT_LIST_FAULTS,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"engine", required_argument, NULL, OPT_ENGINE},
    {"count", required_argument, NULL, OPT_COUNT},
    {"dir", required_argument, NULL, OPT_DIR},
    {"address", required_argument, NULL, OPT_ADDRESS},
    {"port-file", required_argument, NULL, OPT_PORT_FILE},
    {"router-dialect", required_argument, NULL, OPT_ROUTER_DIALECT},
    {"shared-dir", no_argument, NULL, OPT_SHARED_DIR},
    {"ranks", required_argument, NULL, OPT_RANKS},
    {"trace", required_argument, NULL, OPT_TRACE},
    {"nodes", required_argument, NULL, OPT_NODES},
    {"meet", required_argument, NULL, OPT_MEET},
    {"fault", required_argument, NULL, OPT_FAULT},
    {"router-fault", required_argument, NULL, OPT_ROUTER_FAULT},
    {"role", required_argument, NULL, OPT_ROLE},
    {"life", required_argument, NULL, OPT_LIFE},
    {"list-faults", no_argument, NULL, OPT_LIST_FAULTS},
    {"help", no_argument, NULL, OPT_HELP},
    {},
};

static int parse_count(const char *text, unsigned max, unsigned *ret)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (end == text || *end || errno || v < 1 || v > max)
        return -EINVAL;
    *ret = (unsigned)v;
    return 0;
}

static int parse_engine(const char *name, const struct engine_ops **ret)
{
    static const struct engine_ops *const engines[] = {&vllm_engine,        &sglang_engine,
                                                       &rtp_llm_engine,     &dynamo_engine,
                                                       &dynamo_vllm_engine, &dynamo_trtllm_engine};
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
        if (streq(engines[i]->name, name)) {
            *ret = engines[i];
            return 0;
        }
    return -EINVAL;
}

static int parse_dialect(const char *name, enum router_dialect *ret)
{
    static const char *const names[] = {
        [ROUTER_VLLM] = "vllm-router",    [ROUTER_SGLANG] = "sglang",           [ROUTER_DYNAMO] = "dynamo",
        [ROUTER_DYNAMO_RL] = "dynamo-rl", [ROUTER_DYNAMO_NATS] = "dynamo-nats",
    };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (streq(names[i], name)) {
            *ret = (enum router_dialect)i;
            return 0;
        }
    return -EINVAL;
}

/* "prefill=1,decode=3", in any order, either may be left out. */
static int parse_role(const char *text, struct fleet_options *o)
{
    const struct {
        const char *prefix;
        unsigned *ret;
    } roles[] = {{"prefill=", &o->n_prefill}, {"decode=", &o->n_decode}};
    _cleanup_(freep) char *copy = xstrdup(text);
    char *rest, *part;
    for (part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        int r = -EINVAL;
        for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
            if (starts_with(part, roles[i].prefix))
                r = parse_count(part + strlen(roles[i].prefix), WORKERS_MAX, roles[i].ret);
        if (r < 0)
            return r;
    }
    return 0;
}

/* 0 to go on, 1 where the option was all that was wanted. */
static int parse_option(int opt, const char *value, struct options *o)
{
    switch (opt) {
    case OPT_ENGINE:
        return parse_engine(value, &o->fleet.engine);
    case OPT_COUNT:
        return parse_count(value, WORKERS_MAX, &o->fleet.n_workers);
    case OPT_DIR:
        o->fleet.dir = value;
        return 0;
    case OPT_ADDRESS:
        return inet_pton(AF_INET, value, &o->fleet.address) == 1 ? 0 : -EINVAL;
    case OPT_PORT_FILE:
        o->port_file = value;
        return 0;
    case OPT_ROUTER_DIALECT:
        return parse_dialect(value, &o->fleet.router_dialect);
    case OPT_SHARED_DIR:
        o->fleet.shared_dir = true;
        return 0;
    case OPT_RANKS:
        return parse_count(value, RANKS_MAX, &o->fleet.n_ranks);
    case OPT_TRACE:
        o->fleet.trace = value;
        return 0;
    case OPT_NODES:
        return parse_count(value, RANKS_MAX, &o->fleet.n_nodes);
    case OPT_MEET:
        o->fleet.meet = value;
        return 0;
    case OPT_FAULT:
        VEC_GROW(o->faults, o->n_faults, o->cap_faults);
        o->faults[o->n_faults++] = value;
        return 0;
    case OPT_ROUTER_FAULT:
        o->router_fault = value;
        return 0;
    case OPT_ROLE:
        return parse_role(value, &o->fleet);
    case OPT_LIFE:
        return parse_count(value, LIFE_MAX_S, &o->life_s);
    case OPT_LIST_FAULTS:
        printf("faults of workers:\n");
        fault_table_print(stdout);
        printf("faults of the router:\n");
        router_fault_table_print(stdout);
        return 1;
    case OPT_HELP:
        fputs(usage, stdout);
        return 1;
    default:
        return -EINVAL;
    }
}

static int parse_argv(int argc, char **argv, struct options *o)
{
    for (;;) {
        int index = 0;
        int opt = getopt_long(argc, argv, "", long_options, &index);
        if (opt < 0)
            break;
        int r = parse_option(opt, optarg, o);
        if (r < 0 && opt != '?')
            fprintf(stderr, "fault-worker: --%s %s is not understood\n", long_options[index].name, optarg);
        if (r != 0)
            return r;
    }
    if (optind == argc && o->fleet.engine && o->fleet.n_workers > 0 && o->fleet.dir)
        return 0;
    fprintf(stderr, "fault-worker: needs --engine, --count and --dir, and nothing but options (--help)\n");
    return -EINVAL;
}

static int apply_faults(struct fleet *f, const struct options *o)
{
    for (size_t i = 0; i < o->n_faults; i++) {
        _cleanup_(fault_spec_done) struct fault_spec spec = {};
        int r = fault_spec_parse(o->faults[i], &spec);
        if (r == 0)
            r = fleet_add_fault(f, &spec);
        if (r < 0) {
            fprintf(stderr, "fault-worker: --fault %s: %s (--list-faults)\n", o->faults[i], strerror(-r));
            return r;
        }
    }
    int r = o->router_fault ? router_set_fault(f, o->router_fault) : 0;
    if (r < 0)
        fprintf(stderr, "fault-worker: --router-fault %s: %s (--list-faults)\n", o->router_fault,
                strerror(-r));
    return r;
}

/* The file appears whole, so that whoever waits for it reads all of it. */
static int write_port_file(const char *path, const char *text)
{
    _cleanup_(freep) char *temporary = xasprintf("%s.tmp", path);
    _cleanup_(closep) int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    int r = write_all(fd, text, strlen(text));
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    return r;
}

static int announce(struct fleet *f, const char *port_file)
{
    json_t *urls = json_array();
    for (unsigned i = 0; i < f->n_workers; i++) {
        _cleanup_(freep) char *url = worker_url(&f->workers[i]);
        json_array_append_new(urls, json_string(url));
    }
    _cleanup_(freep) char *router = http_port_url(f->router);
    _cleanup_(freep) char *control = http_port_url(f->control);
    _cleanup_json_ all = json_pack("{s:s, s:s, s:o, s:i}", "router", router, "control", control, "workers",
                                   urls, "pid", (int)getpid());
    _cleanup_(freep) char *text = json_dumps(all, JSON_COMPACT);
    int r = port_file ? write_port_file(port_file, text) : 0;
    if (r < 0)
        fprintf(stderr, "fault-worker: cannot write %s: %s\n", port_file, strerror(-r));
    puts(text);
    fflush(stdout);
    return r;
}

static void on_end(evutil_socket_t fd, short what, void *base)
{
    if (what & EV_TIMEOUT)
        fprintf(stderr, "fault-worker: its life is over (--life)\n");
    event_base_loopbreak(base);
}

static int serve(struct event_base *base, const struct options *o)
{
    _cleanup_(fleet_freep) struct fleet *f = NULL;
    int r = fleet_new(base, &o->fleet, &f);
    if (r < 0) {
        fprintf(stderr, "fault-worker: cannot set up %u workers in %s: %s%s\n", o->fleet.n_workers,
                o->fleet.dir, strerror(-r), r == -EMFILE ? " (raise the hard limit: ulimit -Hn)" : "");
        return r;
    }
    r = apply_faults(f, o);
    if (r == 0)
        r = announce(f, o->port_file);
    if (r < 0)
        return r;
    struct timeval life = timeval_of(o->life_s * NS_PER_S);
    event_base_once(base, -1, EV_TIMEOUT, on_end, base, &life);
    return event_base_dispatch(base) < 0 ? -EIO : 0;
}

/* By default libevent's clock is coarse: a fault that lasts a time would end milliseconds early. */
static struct event_base *precise_base(void)
{
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME);
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

int main(int argc, char **argv)
{
    struct options o = {.fleet = {.n_ranks = 1, .n_nodes = 1, .address = {htonl(INADDR_LOOPBACK)}},
                        .life_s = LIFE_DEFAULT_S};
    int r = parse_argv(argc, argv, &o);
    if (r == 0) {
        signal(SIGPIPE, SIG_IGN);
        struct event_base *base = precise_base();
        struct event *term = evsignal_new(base, SIGTERM, on_end, base);
        struct event *interrupt = evsignal_new(base, SIGINT, on_end, base);
        event_add(term, NULL);
        event_add(interrupt, NULL);
        r = serve(base, &o);
        event_free(term);
        event_free(interrupt);
        event_base_free(base);
    }
    free(o.faults);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
