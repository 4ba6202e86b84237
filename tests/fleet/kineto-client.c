/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto-client: a process that behaves to a daemon as one with PyTorch and KINETO_USE_DAEMON does, on the wire byte
 * for byte. It polls (src/ConfigLoader.cpp, updateConfigThread(), and src/DaemonConfigLoader.cpp of pytorch/kineto
 * @114171dfba68), takes configurations, and writes small traces. It computes nothing.
 *
 * The same variables as there are read: KINETO_USE_DAEMON, KINETO_IPC_SOCKET_DIR, KINETO_ONDEMAND_TRACE_DIR,
 * SLURM_JOB_ID; RANK and WORLD_SIZE are those of torchrun.
 */
#include "tests/fleet/kineto-client.h"

#include "base/alloc.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define INTERVAL_DEFAULT_NS (5 * NS_PER_S)
#define TICK_DEFAULT_NS     NS_PER_S
#define LIFE_DEFAULT_NS     (600 * NS_PER_S)
#define TYPE_EVENTS         1
#define TYPE_ACTIVITIES     2
#define MS_MAX              86400000

static const struct kineto_release releases[] = {
    {"2026-07", 9, false, true, "since pytorch/kineto e7c97a68: type bits 2 and 0"},
    {"2026-06", 9, true, true, "since 9ea826ec: the trace's directory is restricted"},
    {"2025-11", 9, true, false, "since 1725f1a4: looks for an answer for 90 ms (PyTorch 2.10)"},
    {"2022-12", 5, true, false, "looks for an answer for 50 ms (PyTorch 2.0 to 2.9)"},
};

static const char *const ends[] = {[END_FETCHED] = "fetched",
                                   [END_WARMUP] = "warmup",
                                   [END_RECORDING] = "recording",
                                   [END_WRITING] = "writing"};

static const char usage[] =
    "kineto-client [OPTION...] [-- COMMAND...]\n"
    "\n"
    "Polls a daemon as a PyTorch process with KINETO_USE_DAEMON does, and writes what happens to standard "
    "output.\n"
    "With a COMMAND it starts that first, as a child that ends with it.\n"
    "\n"
    "  --interval MS   between polls (5000)\n"
    "  --tick MS       of the profiler's thread (1000)\n"
    "  --delay MS      before the first poll (0)\n"
    "  --flush MS      that a trace needs to be written (0)\n"
    "  --release NAME  of libkineto: 2026-07 (default), 2026-06, 2025-11, 2022-12\n"
    "  --own-pid PID   as the process sees itself in its container\n"
    "  --end WHEN      killed when it has fetched a configuration, or at its warmup, recording, writing\n"
    "  --allow DIR     allows traces there, as if it had changed its environment after its start\n"
    "  --no-file       records and never renames its file\n"
    "  --life MS       ends by itself after that (600000)\n"
    "\n"
    "SIGUSR1 starts a profiler inside the process, SIGUSR2 stops it.\n";

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

void client_log(const char *format, ...)
{
    va_list ap;

    pthread_mutex_lock(&log_lock);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
    pthread_mutex_unlock(&log_lock);
}

void client_reach(const struct client_options *o, enum client_end at)
{
    if (o->end == at)
        raise(SIGKILL);
}

enum {
    OPT_INTERVAL = 0x100,
    OPT_TICK,
    OPT_DELAY,
    OPT_FLUSH,
    OPT_RELEASE,
    OPT_OWN_PID,
    OPT_END,
    OPT_ALLOW,
    OPT_NO_FILE,
    OPT_LIFE,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"interval", required_argument, NULL, OPT_INTERVAL},
    {"tick", required_argument, NULL, OPT_TICK},
    {"delay", required_argument, NULL, OPT_DELAY},
    {"flush", required_argument, NULL, OPT_FLUSH},
    {"release", required_argument, NULL, OPT_RELEASE},
    {"own-pid", required_argument, NULL, OPT_OWN_PID},
    {"end", required_argument, NULL, OPT_END},
    {"allow", required_argument, NULL, OPT_ALLOW},
    {"no-file", no_argument, NULL, OPT_NO_FILE},
    {"life", required_argument, NULL, OPT_LIFE},
    {"help", no_argument, NULL, OPT_HELP},
    {},
};

static int parse_ms(const char *text, int64_t *ret_ns)
{
    char *end;
    long long ms = strtoll(text, &end, 10);

    if (end == text || *end || ms < 0 || ms > MS_MAX)
        return -EINVAL;
    *ret_ns = ms * NS_PER_MS;
    return 0;
}

static int parse_release(const char *name, const struct kineto_release **ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(releases); i++)
        if (streq(releases[i].name, name)) {
            *ret = &releases[i];
            return 0;
        }
    return -EINVAL;
}

static int parse_end(const char *name, enum client_end *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (ends[i] && streq(ends[i], name)) {
            *ret = (enum client_end)i;
            return 0;
        }
    return -EINVAL;
}

static int take_option(struct client_options *o, int option)
{
    switch (option) {
    case OPT_INTERVAL:
        return parse_ms(optarg, &o->interval_ns);
    case OPT_TICK:
        return parse_ms(optarg, &o->tick_ns);
    case OPT_DELAY:
        return parse_ms(optarg, &o->delay_ns);
    case OPT_FLUSH:
        return parse_ms(optarg, &o->flush_ns);
    case OPT_LIFE:
        return parse_ms(optarg, &o->life_ns);
    case OPT_RELEASE:
        return parse_release(optarg, &o->release);
    case OPT_END:
        return parse_end(optarg, &o->end);
    case OPT_OWN_PID:
        o->pid = atoi(optarg);
        return o->pid > 0 ? 0 : -EINVAL;
    case OPT_ALLOW:
        return setenv("KINETO_ONDEMAND_TRACE_DIR", optarg, 1) < 0 ? -errno : 0;
    case OPT_NO_FILE:
        o->writes_nothing = true;
        return 0;
    default:
        return -EINVAL;
    }
}

static void start_child(char **command)
{
    if (!*command)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(*command, command);
        fprintf(stderr, "kineto-client: %s: %s\n", *command, strerror(errno));
        _exit(127);
    }
    client_log("child %d", pid);
}

struct poller {
    const struct client_options *options;
    struct client_profiler *profiler;
};

static void poll_once(struct fabric *f, const struct poller *poller)
{
    const struct client_options *o = poller->options;
    int type = (o->release->events_bit ? TYPE_EVENTS : 0) |
               (profiler_can_accept(poller->profiler) ? TYPE_ACTIVITIES : 0);
    struct client_config config;
    size_t size;

    _cleanup_(freep) char *text = fabric_poll(f, type, o, &size);
    client_log("polled %d", type);
    if (!text || size == 0)
        return;
    client_log("Received config from dyno:\n%.*s\n.", (int)size, text);
    if (!client_config_parse(text, size, o, &config))
        client_log("what was read so far is scheduled");
    profiler_accept(poller->profiler, &config);
    client_reach(o, END_FETCHED);
}

/* First at once, then each interval; a poll that took long does not move those after it closer. */
static void *poll_loop(void *arg)
{
    const struct poller *poller = arg;
    struct fabric *f = fabric_new();

    for (;;) {
        int64_t began_ns = mono_ns();
        poll_once(f, poller);
        int64_t left_ns = began_ns + poller->options->interval_ns - mono_ns();
        if (left_ns > 0)
            usleep((useconds_t)(left_ns / NS_PER_US));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct client_options o = {.release = &releases[0],
                               .interval_ns = INTERVAL_DEFAULT_NS,
                               .tick_ns = TICK_DEFAULT_NS,
                               .life_ns = LIFE_DEFAULT_NS,
                               .pid = (int)getpid()};
    int option, signal_number;
    sigset_t signals;
    pthread_t thread;

    while ((option = getopt_long(argc, argv, "+", long_options, NULL)) >= 0) {
        if (option == OPT_HELP || take_option(&o, option) < 0) {
            fputs(usage, option == OPT_HELP ? stdout : stderr);
            return option == OPT_HELP ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }
    start_child(argv + optind);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    struct poller poller = {.options = &o, .profiler = profiler_new(&o)};
    if (o.delay_ns > 0)
        usleep((useconds_t)(o.delay_ns / NS_PER_US));
    if (!getenv("KINETO_USE_DAEMON"))
        client_log("KINETO_USE_DAEMON is not set: this process registers nowhere");
    else if (pthread_create(&thread, NULL, poll_loop, &poller) != 0)
        return EXIT_FAILURE;
    const int64_t until_ns = mono_ns() + o.life_ns;
    for (int64_t left_ns; (left_ns = until_ns - mono_ns()) > 0;) {
        const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
        signal_number = sigtimedwait(&signals, NULL, &left);
        if (signal_number > 0)
            profiler_set_local(poller.profiler, signal_number == SIGUSR1);
    }
    return EXIT_SUCCESS;
}
