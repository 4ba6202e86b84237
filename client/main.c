/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/verbs.h"
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>

struct globals {
    const char *socket, *host;
    bool json, no_legend, quiet, no_color, help, version;
};

/* clang-format off */
const struct option_def global_options[] = {
    {"socket", 0, "PATH", OPTION_TEXT, offsetof(struct globals, socket), "socket of profd; else $PROFD_SOCKET, else the system's or your own profd"},
    {"host", 0, "URL", OPTION_TEXT, offsetof(struct globals, host), "profd on another machine, over HTTP"},
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

static int open_door(struct client *c, const struct globals *g)
{
    _cleanup_(problem_done) struct problem p = {0};
    return door_new(g->socket, g->host, c->quiet ? NULL : &c->err, &c->door, &p) < 0 ? client_fail(c, &p) : 0;
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
        status = v->run(c, values, argc - first, argv + first);
        c->door = door_free(c->door);
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

/* A full disk or a closed pipe behind stdout is a failure, even where everything else went well. */
static int flush_output(struct client *c, int status)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return status == EXIT_DONE ? EXIT_FAILED : status;
    problem_set(&p, -EIO, PROBLEM_STORAGE, "cannot write to stdout: %s", strerror(errno));
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
