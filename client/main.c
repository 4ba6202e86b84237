/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/local/refs.h"
#include "client/local/user_profd.h"
#include "client/transport/contexts.h"
#include "client/transport/endpoint.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "version.h"
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>

struct globals {
    struct connection_options connection;
    bool json, no_legend, no_pager, quiet, no_color, help, version;
};

#define AT(member) offsetof(struct globals, member)

/* clang-format off */
const struct option_def global_options[] = {
    OPTION_GROUP("Connection"),
    {"host", 0, "URL", OPTION_TEXT, AT(connection.host), "URL of profd on another machine, https://HOST:PORT"},
    {"context", 0, "NAME", OPTION_TEXT, AT(connection.context), "Connection added by profctl context add (default: $PROFD_CONTEXT, else the context in use)"},
    {"socket", 0, "PATH", OPTION_TEXT, AT(connection.socket), "Unix socket of profd (default: $PROFD_SOCKET, else the system's profd, else your own)"},
    {"bus", 0, "[=BUS]", OPTION_TEXT, AT(connection.bus), "Connect over D-Bus: system (default) or session"},
    {"token-file", 0, "FILE", OPTION_TEXT, AT(connection.credentials.token_file), "Token for --host (default: $PROFD_TOKEN_FILE, else ~/.config/profd/token)"},
    {"cacert", 0, "FILE", OPTION_TEXT, AT(connection.credentials.cacert), "CA certificates for --host (default: the system's)"},
    {"cert", 0, "FILE", OPTION_TEXT, AT(connection.credentials.cert), "Client certificate for --host"},
    {"key", 0, "FILE", OPTION_TEXT, AT(connection.credentials.key), "Private key of --cert (default: in the same file)"},
    {"plain-http", 0, NULL, OPTION_FLAG, AT(connection.credentials.plain_http), "Allow sending the token unencrypted, over http://"},
    OPTION_GROUP("Output"),
    {"json", 0, NULL, OPTION_FLAG, AT(json), "Print JSON, as profd returns it"},
    {"quiet", 'q', NULL, OPTION_FLAG, AT(quiet), "Print only errors on standard error"},
    {"no-legend", 0, NULL, OPTION_FLAG, AT(no_legend), "Print no headings and no footers"},
    {"no-pager", 0, NULL, OPTION_FLAG, AT(no_pager), "Print without a pager"},
    {"no-color", 0, NULL, OPTION_FLAG, AT(no_color), "Print without colors, as with $NO_COLOR"},
    OPTION_GROUP("Help"),
    {"help", 'h', NULL, OPTION_FLAG, AT(help), "Show help of profctl, or of the verb"},
    {"version", 0, NULL, OPTION_FLAG, AT(version), "Print the version of profctl"},
};
/* clang-format on */
const size_t n_global_options = ARRAY_SIZE(global_options);

/* Tables and fitting count characters, so they need to know that text is UTF-8. */
static void set_locale(void)
{
    if (!setlocale(LC_CTYPE, "") || !streq(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
}

static int connect_bus(struct client *c, const struct connection_options *at)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *bus = *at->bus ? at->bus : "system";

    if (at->socket || at->host)
        return client_refuse(c, "Omit one of them.", "--bus excludes --socket and --host");
    if (!streq(bus, "system") && !streq(bus, "session"))
        return client_refuse(c, "Pass --bus=system or --bus=session.", "--bus=%s: unknown bus", bus);
    return connection_new_on_bus(bus, c->quiet ? NULL : &c->err, &c->connection, &p) < 0 ? client_fail(c, &p)
                                                                                         : EXIT_DONE;
}

static int connect_profd(struct client *c, const struct connection_options *named)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ contexts = NULL;
    const char *environment = getenv("PROFD_SOCKET"), *context;
    struct connection_options at = *named;

    if (connection_options_complete(&at, &contexts, &context, &p) < 0)
        return client_fail(c, &p);
    if (at.bus)
        return connect_bus(c, &at);
    c->may_start_profd = !at.socket && !at.host && !(environment && *environment);
    if (connection_new(at.socket, at.host, &at.credentials, c->quiet ? NULL : &c->err, &c->connection, &p) <
        0) {
        if (context)
            problem_remedy(&p, "profctl context show %s shows the context in use.", context);
        return client_fail(c, &p);
    }
    if (context)
        connection_set_context(c->connection, context);
    return EXIT_DONE;
}

static void take_globals(struct client *c, const struct globals *g)
{
    screen_init(&c->out, stdout, !g->no_color);
    screen_init(&c->err, stderr, !g->no_color);
    c->json = g->json;
    c->no_legend = g->no_legend;
    c->quiet = g->quiet;
    c->connection_options = &g->connection;
}

/* A line that is completed names its profd as any other. */
static void take_connection(struct globals *g, int n_words, char **words)
{
    for (int i = 0; i + 1 < n_words; i++)
        for (size_t k = 0; k < n_global_options; k++) {
            const struct option_def *def = &global_options[k];
            size_t size = def->name ? strlen(def->name) : 0;
            if (!def->name || def->kind != OPTION_TEXT || !starts_with(words[i], "--") ||
                strncmp(words[i] + 2, def->name, size) != 0)
                continue;
            const char *rest = words[i] + 2 + size, **value = (const char **)((char *)g + def->offset);
            if (*rest == '=')
                *value = rest + 1;
            else if (!*rest && streq(words[i + 1], "=") && i + 3 < n_words)
                *value = words[i + 2];
            else if (!*rest && def->argument[0] != '[' && i + 2 < n_words)
                *value = words[i + 1];
        }
}

static void print_version(void)
{
    puts("profctl " PROFD_VERSION);
}

static int refuse_words(struct client *c, const struct verb *v, unsigned n_words, char **words)
{
    _cleanup_(freep) char *remedy = xasprintf("profctl %s --help", v->name);

    if (n_words < v->min_words)
        return client_refuse(c, remedy, "missing argument: %s %s", v->name, v->words);
    _cleanup_(freep) char *word = text_clean(words[v->max_words], false);
    if (!*v->words)
        return client_refuse(c, remedy, "%s takes no arguments: unexpected '%s'", v->name, word);
    return client_refuse(c, remedy, "too many arguments: %s takes %s: unexpected '%s'", v->name, v->words,
                         word);
}

static int run_verb(struct client *c, const struct verb_entry *entry, struct globals *g, int argc,
                    char **argv)
{
    const struct verb *v = entry->verb;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) void *values = xcalloc(1, MAX(v->values_size, (size_t)1));
    struct listing_options listing = {0};
    _cleanup_(refs_done) struct refs_found refs = {0};
    const struct verb_extension *extension = verb_extension_of(v);
    _cleanup_(freep) void *more = extension ? xcalloc(1, extension->values_size) : NULL;
    struct option_set sets[VERB_SETS_MAX + 1];
    size_t n_sets = verb_option_sets(v, sets);

    sets[0].values = values;
    if (v->has_listing)
        sets[1].values = &listing;
    if (extension)
        sets[n_sets - 1].values = more;
    sets[n_sets++] = (struct option_set){global_options, n_global_options, g};
    options_init(&sets[0]);
    if (extension)
        options_init(&sets[n_sets - 2]);
    int first = options_parse(sets, n_sets, argc, argv, false, &p);
    if (first >= 0 && v == &verb_complete)
        take_connection(g, argc - first, argv + first);
    take_globals(c, g);
    c->may_page = v->has_listing && !g->no_pager;
    if (first >= 0 && v->has_listing && listing_take(c, &listing, &p) < 0)
        first = -EINVAL;
    int status;
    unsigned n_words = (unsigned)(argc - first);
    if (first < 0) {
        problem_remedy(&p, "profctl %s --help", v->name);
        status = client_fail(c, &p);
    } else if (g->help) {
        verb_help(stdout, entry);
        status = EXIT_DONE;
    } else if (g->version) {
        print_version();
        status = EXIT_DONE;
    } else if (n_words < v->min_words || n_words > v->max_words) {
        status = refuse_words(c, v, n_words, argv + first);
    } else if (v->is_offline || (status = connect_profd(c, &g->connection)) == EXIT_DONE) {
        status = EXIT_DONE;
        if (v->needs_only_catalog)
            status = client_need_profd(c);
        if (status == EXIT_DONE && entry->takes && strpbrk(entry->takes, "str"))
            status = refs_look_up(c, (int)n_words, argv + first, &refs);
        if (status == EXIT_DONE)
            status = extension && extension->applies(more) ? extension->run(c, more, values)
                                                           : v->run(c, values, argc - first, argv + first);
        c->connection = connection_free(c->connection);
        client_release_profd(c);
    }
    options_done(&sets[0]);
    return status;
}

static int run_profctl(struct client *c, struct globals *g, int argc, char **argv)
{
    const struct option_set set = {global_options, n_global_options, g};
    _cleanup_(problem_done) struct problem p = {0};
    int first = options_parse(&set, 1, argc, argv, true, &p);

    take_globals(c, g);
    if (first < 0) {
        problem_remedy(&p, "profctl --help");
        return client_fail(c, &p);
    }
    if (g->version) {
        print_version();
        return EXIT_DONE;
    }
    if (g->help && first == argc) {
        verbs_help(stdout);
        return EXIT_DONE;
    }
    if (first == argc)
        return client_refuse(c, "profctl help lists the verbs.", "no verb was given");
    const struct verb_entry *entry = verb_find(argv[first]);
    return entry ? run_verb(c, entry, g, argc - first, argv + first) : verb_unknown(c, argv[first]);
}

/* Output that a full disk did not take is a failure, even if everything else succeeded; not what a pipe did not
 * take whose reader has enough, such as head. */
static int flush_output(struct client *c, int status)
{
    int err = fflush(stdout) < 0 ? errno : 0;
    struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
    bool reader_is_gone = err == EPIPE || (poll(&fd, 1, 0) > 0 && fd.revents & POLLERR);

    if ((err == 0 && !ferror(stdout)) || reader_is_gone)
        return status;
    /* An earlier write that failed has left no error number. */
    return client_error(c, PROBLEM_STORAGE, NULL, "cannot write to stdout: %s",
                        err ? strerror(err) : "some output was not written; its disk may be full");
}

int main(int argc, char **argv)
{
    struct client c = {0};
    struct globals g = {0};

    signal(SIGPIPE, SIG_IGN);
    set_locale();
    int status = flush_output(&c, run_profctl(&c, &g, argc, argv));
    /* What was printed is not all there is. */
    if (status == EXIT_DONE && json_object_size(c.missing_hosts) > 0)
        status = EXIT_PARTIAL;
    json_decref(c.missing_hosts);
    json_decref(c.lost_hosts);
    if (pager_wait(&c.pager) != 0)
        status = client_error(&c, PROBLEM_INTERNAL, "Correct $PROFCTL_PAGER or $PAGER, or pass --no-pager.",
                              "cannot run the pager");
    return status;
}
