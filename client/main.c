/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/door/own.h"
#include "client/door/place.h"
#include "client/door/transient.h"
#include "client/verbs.h"
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>

struct globals {
    const char *socket, *host, *bus;
    struct credential_options credentials;
    bool json, no_legend, quiet, no_color, help, version;
};

/* clang-format off */
const struct option_def global_options[] = {
    {"socket", 0, "PATH", OPTION_TEXT, offsetof(struct globals, socket), "socket of profd; else $PROFD_SOCKET, else the system's or your own profd"},
    {"host", 0, "URL", OPTION_TEXT, offsetof(struct globals, host), "profd on another machine, over HTTP"},
    {"token-file", 0, "FILE", OPTION_TEXT, offsetof(struct globals, credentials.token_file), "token for --host; else of $PROFD_TOKEN_FILE, else of ~/.config/profd/token"},
    {"cacert", 0, "FILE", OPTION_TEXT, offsetof(struct globals, credentials.cacert), "authorities that may have signed the certificate of --host, instead of the system's"},
    {"cert", 0, "FILE", OPTION_TEXT, offsetof(struct globals, credentials.cert), "certificate to show to --host"},
    {"key", 0, "FILE", OPTION_TEXT, offsetof(struct globals, credentials.key), "its private key, where it is not in the same file"},
    {"plain-http", 0, NULL, OPTION_FLAG, offsetof(struct globals, credentials.plain_http), "send the token over http:// to another machine, for all on the way to read"},
    {"bus", 0, "[=BUS]", OPTION_TEXT, offsetof(struct globals, bus), "over D-Bus: that of the system, or with =session your own"},
    {"json", 0, NULL, OPTION_FLAG, offsetof(struct globals, json), "print what profd answers as JSON"},
    {"no-legend", 0, NULL, OPTION_FLAG, offsetof(struct globals, no_legend), "no headings and no footers"},
    {"quiet", 'q', NULL, OPTION_FLAG, offsetof(struct globals, quiet), "say nothing but errors on stderr"},
    {"no-color", 0, NULL, OPTION_FLAG, offsetof(struct globals, no_color), "no colour; $NO_COLOR does the same"},
    {"help", 'h', NULL, OPTION_FLAG, offsetof(struct globals, help), "this text"},
    {"version", 0, NULL, OPTION_FLAG, offsetof(struct globals, version), "the version of profctl"},
};
/* clang-format on */
const size_t n_global_options = ARRAY_SIZE(global_options);

/* Tables and fitting count characters, so they need to know that text is UTF-8. */
static void set_locale(void)
{
    if (!setlocale(LC_CTYPE, "") || !streq(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
}

static int count_words(struct client *c, const struct verb *v, unsigned n)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (n >= v->min_words && n <= v->max_words)
        return 0;
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST,
                n < v->min_words ? "%s needs %s" : "%s takes no more than %s", v->name,
                *v->words ? v->words : "options");
    problem_remedy(&p, "profctl %s --help", v->name);
    return client_fail(c, &p);
}

static int open_bus(struct client *c, const struct globals *g)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *bus = *g->bus ? g->bus : "system";

    if (g->socket || g->host)
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--bus excludes --socket and --host");
    else if (!streq(bus, "system") && !streq(bus, "session"))
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--bus=%s: there are --bus=system and --bus=session",
                    bus);
    else if (door_new_on_bus(bus, c->quiet ? NULL : &c->err, &c->door, &p) == 0)
        return EXIT_DONE;
    return client_fail(c, &p);
}

static int open_door(struct client *c, const struct globals *g)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *environment = getenv("PROFD_SOCKET");

    if (g->bus)
        return open_bus(c, g);
    c->may_start_profd = !g->socket && !g->host && !(environment && *environment);
    return door_new(g->socket, g->host, &g->credentials, c->quiet ? NULL : &c->err, &c->door, &p) < 0
               ? client_fail(c, &p)
               : 0;
}

/* Whether a profd may be started, since nobody answers and nobody said who is meant. */
static bool is_alone(const struct client *c)
{
    int error = c->may_start_profd && !c->transient ? place_socket_error(door_name(c->door)) : 0;
    return error == ENOENT || error == ECONNREFUSED;
}

static int check_home(struct problem *p)
{
    if (place_has_home())
        return 0;
    problem_set(p, -ENXIO, PROBLEM_STORAGE, "there is no place for a catalog: $HOME is not set");
    problem_remedy(p, "Set HOME, or XDG_STATE_HOME to a directory of yours.");
    return -ENXIO;
}

static int reopen_door(struct client *c, const char *socket)
{
    _cleanup_(problem_done) struct problem p = {0};

    c->door = door_free(c->door);
    return door_new(socket, NULL, NULL, c->quiet ? NULL : &c->err, &c->door, &p) < 0 ? client_fail(c, &p)
                                                                                     : EXIT_DONE;
}

int client_need_profd(struct client *c)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (!is_alone(c))
        return EXIT_DONE;
    int r = check_home(&p);
    if (r == 0)
        r = transient_start(c, door_name(c->door), &c->transient, &p);
    if (r == -ENOPKG || r == -EALREADY)
        return EXIT_DONE;
    return r < 0 ? client_fail(c, &p) : reopen_door(c, transient_socket(c->transient));
}

int client_need_own_profd(struct client *c)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (c->transient) {
        client_release_profd(c);
        int status = reopen_door(c, NULL);
        if (status != EXIT_DONE)
            return status;
    }
    if (!is_alone(c))
        return EXIT_DONE;
    int r = check_home(&p);
    if (r == 0)
        r = own_profd_start(c, door_name(c->door), &p);
    return r < 0 && r != -ENOPKG ? client_fail(c, &p) : EXIT_DONE;
}

void client_release_profd(struct client *c)
{
    c->transient = transient_free(c->transient);
}

static void take_globals(struct client *c, const struct globals *g)
{
    screen_init(&c->out, stdout, !g->no_color);
    screen_init(&c->err, stderr, !g->no_color);
    c->json = g->json;
    c->no_legend = g->no_legend;
    c->quiet = g->quiet;
}

static int run_verb(struct client *c, const struct verb *v, struct globals *g, int argc, char **argv)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) void *values = xcalloc(1, MAX(v->values_size, (size_t)1));
    const struct option_set sets[] = {
        {v->options, v->n_options, values},
        {global_options, n_global_options, g},
    };

    options_init(&sets[0]);
    int first = options_parse(sets, ARRAY_SIZE(sets), argc, argv, false, &p);
    take_globals(c, g);
    int status;
    if (first < 0) {
        problem_remedy(&p, "profctl %s --help", v->name);
        status = client_fail(c, &p);
    } else if (g->help) {
        verb_help(stdout, v);
        status = EXIT_DONE;
    } else if ((status = count_words(c, v, (unsigned)(argc - first))) == 0 &&
               (status = open_door(c, g)) == 0) {
        if (v->needs_only_catalog)
            status = client_need_profd(c);
        if (status == EXIT_DONE)
            status = v->run(c, values, argc - first, argv + first);
        c->door = door_free(c->door);
        client_release_profd(c);
    }
    options_done(&sets[0]);
    return status;
}

static int run(struct client *c, int argc, char **argv)
{
    struct globals g = {0};
    const struct option_set set = {global_options, n_global_options, &g};
    _cleanup_(problem_done) struct problem p = {0};
    int first = options_parse(&set, 1, argc, argv, true, &p);

    take_globals(c, &g);
    if (first < 0) {
        problem_remedy(&p, "profctl --help");
        return client_fail(c, &p);
    }
    if (g.version) {
        puts("profctl " PROFD_VERSION);
        return EXIT_DONE;
    }
    if (g.help && first == argc) {
        verbs_help(stdout);
        return EXIT_DONE;
    }
    if (first == argc) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "no verb was given");
        problem_remedy(&p, "profctl help lists the verbs.");
        return client_fail(c, &p);
    }
    const struct verb *v = verb_find(argv[first]);
    return v ? run_verb(c, v, &g, argc - first, argv + first) : verb_unknown(c, argv[first]);
}

/* A pipe whose reader has enough, such as head. */
static bool reader_is_gone(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&fd, 1, 0) > 0 && fd.revents & POLLERR;
}

/* A full disk behind stdout is a failure, even where everything else went well. */
static int flush_output(struct client *c, int status)
{
    _cleanup_(problem_done) struct problem p = {0};
    int err = fflush(stdout) < 0 ? errno : 0;

    if ((err == 0 && !ferror(stdout)) || err == EPIPE || reader_is_gone())
        return status;
    /* What went wrong in the midst of it has left no number behind. */
    problem_set(&p, -EIO, PROBLEM_STORAGE, "cannot write to stdout: %s",
                err ? strerror(err) : "it did not take everything; its disk may be full");
    return client_fail(c, &p);
}

int main(int argc, char **argv)
{
    struct client c = {0};

    signal(SIGPIPE, SIG_IGN);
    set_locale();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int status = flush_output(&c, run(&c, argc, argv));
    curl_global_cleanup();
    return status;
}
