/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the web page of profd: asks for a code, prints an address with the code in its fragment, which no server sees, and
 * opens it in a browser. Where the browser cannot reach profd itself, profctl is a relay until it is interrupted.
 */
#include "client/verbs/web.h"
#include "base/address.h"
#include "base/alloc.h"
#include "base/json.h"
#include "client/local/browser.h"
#include "client/transport/relay.h"
#include "client/verbs/verbs.h"
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

struct web_options {
    const char *role;
    int64_t port;
    bool no_browser;
};

/* clang-format off */
static const struct option_def web_options[] = {
    {"role", 0, "ROLE", OPTION_TEXT, offsetof(struct web_options, role), "Permissions of the page: read, operate or admin (default: operate, or yours if lower)"},
    {"port", 0, "N", OPTION_COUNT, offsetof(struct web_options, port), "Relay on this port of loopback (default: only if needed, on a free port)"},
    {"no-browser", 0, NULL, OPTION_FLAG, offsetof(struct web_options, no_browser), "Print the address without opening a browser"},
};
/* clang-format on */

/* -- Where the page is -------------------------------------------------------------------------------- */

/* The port of "http://127.0.0.1:9460", 0 where the URL is not one of loopback without TLS or has a path. */
static int web_port_of(const char *url)
{
    static const char scheme[] = "http://";
    const char *host = url && starts_with(url, scheme) ? url + strlen(scheme) : "";
    const char *colon = strrchr(host, ':');
    struct in6_addr ip;

    if (!colon || strchr(host, '/'))
        return 0;
    _cleanup_(freep) char *name = xstrndup(host, (size_t)(colon - host));
    bool is_loopback = streq(name, "localhost") ||
                       (address_of_host(name, &ip) && address_is_loopback(&ip) && !address_is_wildcard(&ip));
    return is_loopback ? port_parse(colon + 1) : 0;
}

/* Whether something of this machine listens there: profd may run in a container whose loopback is another. */
static bool web_can_connect(const char *url)
{
    const char *host = url + strlen("http://"), *colon = strrchr(host, ':');
    _cleanup_(freep) char *name = xstrndup(host, (size_t)(colon - host));
    struct sockaddr_in6 address;
    struct in6_addr ip;

    if (!address_of_host(streq(name, "localhost") ? "127.0.0.1" : name, &ip))
        return false;
    socklen_t size = address_to_socket(&ip, web_port_of(url), &address);
    _cleanup_(closep) int fd =
        socket(((struct sockaddr *)&address)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, size) == 0;
}

/* Where a browser of this machine reaches profd without a relay. NULL: nowhere. */
static const char *web_direct_url(const struct client *c, const json_t *code)
{
    const char *listened = json_get_str(code, "url"), *named = connection_url(c->connection);

    if (!connection_socket(c->connection))
        return web_port_of(named) > 0 ? named : NULL;
    return web_port_of(listened) > 0 && web_can_connect(listened) ? listened : NULL;
}

/* -- The page ----------------------------------------------------------------------------------------- */

int web_ask_code(struct client *c, const char *role, json_t **ret, struct problem *p)
{
    _cleanup_json_ body = json_object();

    if (connection_is_on_bus(c->connection)) {
        problem_remedy(p, "Omit --bus.");
        return problem_set(p, -EOPNOTSUPP, PROBLEM_UNSUPPORTED, "the web page needs HTTP, not D-Bus");
    }
    if (role)
        json_put_str(body, "role", role);
    int r = connection_call(c->connection, "POST", "/v1/web/codes", body, NULL, ret, p);
    if (r < 0 || json_get_bool(*ret, "page", false))
        return r;
    json_decref(*ret);
    *ret = NULL;
    problem_remedy(p, "Install a profd that was built with -Dweb=enabled.");
    return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "profd at %s has no web page",
                       connection_name(c->connection));
}

static void web_print(struct client *c, const char *url, const json_t *code, bool is_relay)
{
    if (c->json) {
        _cleanup_json_ answer = json_object();
        json_put_str(answer, "url", url);
        json_put_str(answer, "role", json_get_str(code, "role"));
        json_put_int(answer, "expires_at", json_get_int(code, "expires_at", 0));
        json_object_set_new(answer, "relay", json_boolean(is_relay));
        client_print_json(c, answer);
    } else {
        fprintf(c->out.file, "%s\n", url);
    }
    fflush(c->out.file);
}

int web_show(struct client *c, const json_t *code, const struct web_view *v)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *direct = v->port > 0 ? NULL : web_direct_url(c, code);
    _cleanup_(relay_freep) struct relay *relay = NULL;

    if (!direct) {
        client_hold_signals();
        if (relay_new(c->connection, v->port, &relay, &p) < 0)
            return client_fail(c, &p);
    }
    _cleanup_(freep) char *base =
        relay ? xasprintf("http://127.0.0.1:%d", relay_port(relay)) : xstrdup(direct);
    _cleanup_(freep) char *url = xasprintf("%s/#code=%s%s%s", base, json_get_str(code, "code"),
                                           v->path ? "&to=" : "", v->path ? v->path : "");
    web_print(c, url, code, relay);
    client_note(c, "The address is valid once, for 60 s; the page has role %s.", json_get_str(code, "role"));
    if (relay)
        client_note(c, "Passing requests of the page on to profd at %s; Ctrl-C ends it.",
                    connection_name(c->connection));
    browser_show(c, url, web_port_of(base), v->may_open);
    if (relay)
        relay_run(relay);
    return EXIT_DONE;
}

static char *web_path_of(const char *ref)
{
    _cleanup_(freep) char *path = ref_path(ref);

    return xstrdup(path + strlen("/v1"));
}

static int web_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct web_options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ code = NULL;
    _cleanup_(freep) char *path = NULL;
    char ref[REF_TEXT_MAX];

    if (n_words > 0) {
        if (client_parse_ref(c, words[0], 't', "str", ref) < 0)
            return EXIT_USAGE;
        path = web_path_of(ref);
    }
    int role = o->role ? right_from_name(o->role) : RIGHT_OPERATE;
    if (role != RIGHT_READ && role != RIGHT_OPERATE && role != RIGHT_ADMIN)
        return client_refuse(c, "profctl web --help", "--role: '%s' is not read, operate or admin", o->role);
    if (o->port != OPTION_ABSENT && o->port > UINT16_MAX)
        return client_refuse(c, "profctl web --help", "--port: %lld is not a port", (long long)o->port);
    int status = client_need_user_profd(c);
    if (status != EXIT_DONE)
        return status;
    if (web_ask_code(c, o->role, &code, &p) < 0)
        return client_fail(c, &p);
    return web_show(c, code,
                    &(struct web_view){.path = path,
                                       .port = o->port == OPTION_ABSENT ? 0 : (int)o->port,
                                       .may_open = !o->no_browser});
}

const struct verb verb_web = {
    .name = "web",
    .summary = "Open the web page of profd in a browser",
    .details = "Prints an address that logs the page in once, within 60 s, and opens it if there is a "
               "browser. If the "
               "browser cannot reach profd itself (only a Unix socket, another host, TLS), profctl relays "
               "until Ctrl-C.",
    .words = "[TRACE|SESSION|RUN]",
    .default_kind = 't',
    .max_words = 1,
    VERB_OPTIONS(web_options, struct web_options),
    .run = web_run,
};
