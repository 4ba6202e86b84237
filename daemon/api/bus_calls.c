/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A method call: its arguments become a request of the HTTP API's tables, the reply to that becomes its
 * answer. A call belongs to the list of the bus until it is answered, refused, or its caller is gone.
 *
 * Authorization. Reading: every caller that the bus lets through, whose policy names group profd. Changes:
 * root and profd's own user, and on the system's bus whomever polkit allows. The bus and polkit are asked by
 * messages; until they answered the call waits. Group membership is theirs to know, and not looked up here: polkit
 * decides by it, and the bus reports the groups of the caller's process, for what the socket's group may do.
 */
#include "daemon/api/bus_internal.h"

#include "base/alloc.h"
#include "base/bus_json.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>

/* polkit answers by its rules at once; a person takes longer to find the password. */
#define POLKIT_TIMEOUT_US   (10 * NS_PER_S / NS_PER_US)
#define PASSWORD_TIMEOUT_US (120 * NS_PER_S / NS_PER_US)

#define MANAGE              "org.profd1.manage"
#define ADMINISTER          "org.profd1.administer"
#define POLKIT_INTERACTIVE  1u

/* -- Callers ------------------------------------------------------------------------------------------ */

static struct bus_caller *bus_caller_find(struct bus *b, const char *name)
{
    struct bus_caller *caller;

    LIST_FOREACH(caller, &b->callers, next) {
        if (streq(caller->name, name))
            return caller;
    }
    caller = xcalloc(1, sizeof(*caller));
    caller->name = xstrdup(name);
    LIST_INSERT_HEAD(&b->callers, caller, next);
    return caller;
}

static void bus_caller_release(struct bus_caller *caller)
{
    if (--caller->n_calls > 0)
        return;
    LIST_REMOVE(caller, next);
    sd_bus_slot_unref(caller->watch);
    free(caller->name);
    free(caller);
}

static struct bus_call *call_free(struct bus_call *c)
{
    if (c->bus->running == c)
        c->bus->running = NULL;
    LIST_REMOVE(c, next);
    c->bus->n_calls--;
    bus_caller_release(c->caller);
    sd_bus_slot_unref(c->question);
    sd_bus_message_unref(c->message);
    free(c->path);
    free(c->query);
    free(c->body);
    free(c);
    return NULL;
}

static void call_abandon(struct bus_call *c)
{
    struct http_request *request = TAKE_PTR(c->request);

    call_free(c);
    if (request)
        http_request_abandon(request);
}

void bus_calls_abandon(struct bus *b)
{
    while (!LIST_EMPTY(&b->calls))
        call_abandon(LIST_FIRST(&b->calls));
}

static int bus_on_owner_changed(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const char *name, *before, *after;
    struct bus *b = arg;
    struct bus_call *c, *next;

    if (sd_bus_message_read(m, "sss", &name, &before, &after) < 0 || *after)
        return 0;
    for (c = LIST_FIRST(&b->calls); c; c = next) {
        next = LIST_NEXT(c, next);
        if (streq(c->caller->name, name))
            call_abandon(c);
    }
    return 0;
}

/* As with an HTTP client that hangs up: work that only serves the caller is cancelled. */
static void call_watch_caller(struct bus_call *c)
{
    struct bus_caller *caller = c->caller;

    if (caller->watch)
        return;
    _cleanup_(freep) char *match =
        xasprintf("type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                  "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='%s'",
                  caller->name);
    sd_bus_add_match_async(c->bus->connection, &caller->watch, match, bus_on_owner_changed, NULL, c->bus);
}

/* -- Answers ------------------------------------------------------------------------------------------ */

/* The first line is the error, the second its remedy. */
static int call_send_problem(sd_bus_message *m, const char *code, const char *what, const char *remedy)
{
    _cleanup_(freep) char *name = NULL,
                          *text = xasprintf("%s%s%s", what, remedy ? "\n" : "", remedy ? remedy : "");
    char word[BUS_ERROR_WORD_MAX];

    bus_error_of_code(code, word);
    name = xasprintf(BUS_ERROR_PREFIX "%s", word);
    sd_bus_error error = SD_BUS_ERROR_MAKE_CONST(name, text);
    return sd_bus_reply_method_error(m, &error);
}

static void call_finish(struct bus_call *c)
{
    struct bus *b = c->bus;

    call_free(c);
    bus_kick(b);
}

static void call_refuse(struct bus_call *c, const struct problem *p)
{
    call_send_problem(c->message, problem_code(p->kind), p->what, p->remedy);
    call_finish(c);
}

/* The arguments of the reply, by the signature of the method. */
static int call_append_answer(sd_bus_message *reply, const struct bus_method *method, int status,
                              const json_t *body)
{
    int r = 0;

    if (streq(method->out, BUS_STARTED)) {
        _cleanup_(freep) char *path = NULL;
        r = sd_bus_path_encode(BUS_SESSION_PATH, json_get_str(body, "session"), &path);
        if (r >= 0)
            r = sd_bus_message_append(reply, "o", path);
    } else if (streq(method->out, BUS_TAKEN)) {
        r = sd_bus_message_append(reply, "b", status == 201);
    }
    return r < 0 ? r : bus_append_object(reply, body, BUS_ANSWER_MAX);
}

static int call_send_answer(const struct bus_call *c, int status, const json_t *body)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;

    if (sd_bus_message_get_expect_reply(c->message) == 0)
        return 0;
    int r = sd_bus_message_new_method_return(c->message, &reply);
    if (r >= 0)
        r = call_append_answer(reply, c->method, status, body);
    if (r == -E2BIG)
        return call_send_problem(c->message, problem_code(PROBLEM_TOO_LARGE),
                                 "the answer is too large for D-Bus",
                                 "Ask for less with \"limit\", or use profd's socket.");
    return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

static void call_on_json(int status, const json_t *body, void *arg)
{
    struct bus_call *c = arg;
    int r;

    c->request = NULL;
    if (status >= 400) {
        const char *code = json_get_str(body, "code"), *detail = json_get_str(body, "detail");
        r = call_send_problem(c->message, code ? code : "internal", detail ? detail : "",
                              json_get_str(body, "remedy"));
    } else {
        r = call_send_answer(c, status, body);
    }
    if (r < 0)
        log_debug("cannot answer %s of %s: %s", c->method->name, c->caller->name, strerror(-r));
    call_finish(c);
}

static void call_on_file(int take_fd, int64_t size, const char *name, void *arg)
{
    _cleanup_(closep) int fd = take_fd;
    struct bus_call *c = arg;

    c->request = NULL;
    int r = sd_bus_reply_method_return(c->message, BUS_FILE, fd, name ? name : "", (uint64_t)size);
    if (r < 0)
        log_debug("cannot answer %s of %s: %s", c->method->name, c->caller->name, strerror(-r));
    call_finish(c);
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static void query_write_escaped(FILE *out, const char *text)
{
    for (const char *s = text; *s; s++)
        fprintf(out, "%%%02x", (unsigned char)*s);
}

static int query_write_parameter(FILE *out, const char *key, const json_t *value, struct problem *p)
{
    size_t i;
    json_t *item;

    if (json_is_array(value)) {
        json_array_foreach(value, i, item) {
            if (json_is_array(item) || query_write_parameter(out, key, item, p) < 0)
                return -EINVAL;
        }
        return 0;
    }
    if (!json_is_string(value) && !json_is_integer(value) && !json_is_boolean(value))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\" must be text, an integer or a boolean",
                           key);
    query_write_escaped(out, key);
    fputc('=', out);
    if (json_is_string(value))
        query_write_escaped(out, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else
        fputs(json_is_true(value) ? "true" : "false", out);
    fputc('&', out);
    return 0;
}

static int query_from_options(const json_t *options, const struct route *route, char **ret, struct problem *p)
{
    _cleanup_(freep) char *text = NULL;
    const char *key;
    json_t *value;
    size_t size;
    int r = 0;

    FILE *out = xmemstream(&text, &size);
    json_object_foreach((json_t *)options, key, value) {
        if (r == 0)
            r = route_check_parameter(route, key, p);
        if (r == 0)
            r = query_write_parameter(out, key, value, p);
    }
    fclose(out);
    *ret = r == 0 ? TAKE_PTR(text) : NULL;
    return r;
}

/* The id is an argument, or the object that was called. */
static int call_read_id(struct bus_call *c, struct problem *p)
{
    _cleanup_(freep) char *of_object = NULL;
    const char *id = "";
    int r = 0;

    if (c->method->in[0] == 's')
        r = sd_bus_message_read(c->message, "s", &id);
    else if (streq(c->method->interface, BUS_SESSION))
        r = sd_bus_path_decode(sd_bus_message_get_path(c->message), BUS_SESSION_PATH, &of_object);
    if (of_object)
        id = of_object;
    if (r < 0 || strchr(id, '/')) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the id cannot be read");
        return -EINVAL;
    }
    /* The pattern with the id in place of its {word}. */
    const char *pattern = c->method->pattern, *open = strchrnul(pattern, '{'), *close = strchr(open, '}');
    c->path = xasprintf("%.*s%s%s", (int)(open - pattern), pattern, *open ? id : "", close ? close + 1 : "");
    enum http_method method = HTTP_GET;
    while (!streq(http_method_name(method), c->method->http_method))
        method++;
    return route_find(method, c->path, &c->route, p);
}

static int call_read_options(struct bus_call *c, struct problem *p)
{
    _cleanup_json_ options = NULL;

    if (!strstr(c->method->in, BUS_DICTIONARY))
        return 0;
    int r = bus_read_object(c->message, BUS_REQUEST_MAX, &options);
    if (r == -E2BIG)
        return problem_set(p, r, PROBLEM_TOO_LARGE, "the request is larger than %d KiB",
                           BUS_REQUEST_MAX >> 10);
    if (r < 0)
        return problem_set(
            p, -EINVAL, PROBLEM_BAD_REQUEST,
            "the request has values that are neither text, number, boolean, list nor dictionary");
    if (c->route.route->method == HTTP_GET)
        return query_from_options(options, c->route.route, &c->query, p);
    c->body = json_dumps(options, JSON_COMPACT);
    return 0;
}

static void call_run(struct bus_call *c)
{
    static const struct http_external_replies replies = {call_on_json, call_on_file};
    const struct http_peer peer = {
        .local = true, .uid = c->uid, .gid = (gid_t)-1, .pid = -1, .in_group = c->in_group, .address = "bus"};
    _cleanup_(problem_done) struct problem p = {0};
    struct bus *b = c->bus;

    /* The arguments are read only after the call is authorized. */
    int r = call_read_options(c, &p);
    if (r == 0)
        r = route_resolve(b->api->modules.catalog, &c->route, &p);
    if (r < 0) {
        call_refuse(c, &p);
        return;
    }
    r = http_request_new_external(c->route.route->method, c->path, c->query, c->body, &peer, &replies, c,
                                  &c->request);
    if (r < 0) {
        problem_set(&p, r, PROBLEM_BAD_REQUEST, "there are too many parameters");
        call_refuse(c, &p);
        return;
    }
    b->running = c;
    b->api->requests++;
    c->route.route->handle(b->api, c->request, &c->route);
    if (b->running)
        call_watch_caller(c);
    b->running = NULL;
}

/* -- Authorization ------------------------------------------------------------------------------------ */

/* As the roles of tokens: the right to start and stop does not include the right to remove. */
static const char *call_action(const struct bus_call *c)
{
    return c->route.route->right == RIGHT_ADMIN ? ADMINISTER : MANAGE;
}

static void call_deny(struct bus_call *c, const char *why)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EPERM, PROBLEM_DENIED, "%s is not allowed: %s", c->method->name, why);
    if (c->bus->kind == BUS_KIND_SYSTEM)
        problem_remedy(&p, "Join group profd, or have polkit grant %s.", call_action(c));
    call_refuse(c, &p);
}

static void call_deny_by_error(struct bus_call *c, const char *who, const sd_bus_error *error)
{
    _cleanup_(freep) char *why =
        xasprintf("%s: %s", who, error->message && *error->message ? error->message : error->name);
    call_deny(c, why);
}

/* Calls that wait for the bus or polkit: of one user, or of all. */
static unsigned bus_count_unauthorized(const struct bus *b, const uid_t *uid)
{
    const struct bus_call *c;
    unsigned n = 0;

    LIST_FOREACH(c, &b->calls, next) {
        n += c->question && (!uid || c->uid == *uid);
    }
    return n;
}

static void call_refuse_limit(struct bus_call *c, unsigned n, const char *whose)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EBUSY, PROBLEM_TOO_MANY, "%u calls%s are waiting for authorization", n, whose);
    problem_remedy(&p, "Wait for their answers before you call again.");
    call_refuse(c, &p);
}

static int call_on_authorized(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const sd_bus_error *refusal = sd_bus_message_get_error(m);
    struct bus_call *c = arg;
    int is_authorized = false, is_challenge = false;

    c->question = sd_bus_slot_unref(c->question);
    if (refusal)
        call_deny_by_error(c, "polkit failed", refusal);
    else if (sd_bus_message_enter_container(m, 'r', "bba{ss}") < 0 ||
             sd_bus_message_read(m, "bb", &is_authorized, &is_challenge) < 0)
        call_deny(c, "polkit sent an invalid answer");
    else if (is_authorized)
        call_run(c);
    else
        call_deny(c, is_challenge ? "polkit requires a password, and the call allows no interaction"
                                  : "polkit refused");
    return 1;
}

static int call_ask_polkit(struct bus_call *c)
{
    bool interactive = sd_bus_message_get_allow_interactive_authorization(c->message) > 0;
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;

    int r = sd_bus_message_new_method_call(c->bus->connection, &m, "org.freedesktop.PolicyKit1",
                                           "/org/freedesktop/PolicyKit1/Authority",
                                           "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization");
    if (r >= 0)
        r = sd_bus_message_append(m, "(sa{sv})sa{ss}us", "system-bus-name", 1, "name", "s", c->caller->name,
                                  call_action(c), 0, interactive ? POLKIT_INTERACTIVE : 0, "");
    if (r < 0)
        return r;
    return sd_bus_call_async(c->bus->connection, &c->question, m, call_on_authorized, c,
                             interactive ? PASSWORD_TIMEOUT_US : POLKIT_TIMEOUT_US);
}

/* Whether the list of groups has that of profd's socket. */
static int call_read_groups(struct bus_call *c, sd_bus_message *m)
{
    gid_t gid, admitted = c->bus->api->socket_gid;

    int r = sd_bus_message_enter_container(m, 'v', "au");
    if (r >= 0)
        r = sd_bus_message_enter_container(m, 'a', "u");
    while (r >= 0 && (r = sd_bus_message_read(m, "u", &gid)) > 0)
        c->in_group = c->in_group || (admitted != (gid_t)-1 && gid == admitted);
    if (r >= 0)
        r = sd_bus_message_exit_container(m);
    return r < 0 ? r : sd_bus_message_exit_container(m);
}

/*
 * The user, and the groups where the bus reports them: those of the process that connected to it, as the kernel has
 * them (SO_PEERGROUPS). Nothing is looked up by name.
 */
static int call_read_credentials(struct bus_call *c, sd_bus_message *m)
{
    const char *key;

    int r = sd_bus_message_enter_container(m, 'a', "{sv}");
    while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        r = sd_bus_message_read(m, "s", &key);
        if (r >= 0 && streq(key, "UnixUserID"))
            r = sd_bus_message_read(m, "v", "u", &c->uid);
        else if (r >= 0 && streq(key, "UnixGroupIDs"))
            r = call_read_groups(c, m);
        else if (r >= 0)
            r = sd_bus_message_skip(m, "v");
        if (r >= 0)
            r = sd_bus_message_exit_container(m);
    }
    return r < 0 ? r : c->uid == (uid_t)-1 ? -ENODATA : 0;
}

static int call_on_credentials(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const sd_bus_error *refusal = sd_bus_message_get_error(m);
    struct bus_call *c = arg;

    c->question = sd_bus_slot_unref(c->question);
    if (refusal)
        call_deny_by_error(c, "the bus does not know the caller", refusal);
    else if (call_read_credentials(c, m) < 0)
        call_deny(c, "the bus does not report the user of the caller");
    else if (c->uid == 0 || c->uid == geteuid())
        call_run(c);
    else if (c->bus->kind != BUS_KIND_SYSTEM)
        call_deny(c, "this profd serves only its own user");
    else if (bus_count_unauthorized(c->bus, &c->uid) >= BUS_USER_UNAUTHORIZED_MAX)
        call_refuse_limit(c, BUS_USER_UNAUTHORIZED_MAX, " of your user");
    else if (call_ask_polkit(c) < 0)
        call_deny(c, "polkit cannot be asked");
    return 1;
}

static void call_authorize(struct bus_call *c)
{
    if (bus_count_unauthorized(c->bus, NULL) >= BUS_UNAUTHORIZED_MAX)
        call_refuse_limit(c, BUS_UNAUTHORIZED_MAX, "");
    else if (sd_bus_call_method_async(c->bus->connection, &c->question, "org.freedesktop.DBus",
                                      "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                      "GetConnectionCredentials", call_on_credentials, c, "s",
                                      c->caller->name) < 0)
        call_deny(c, "the bus cannot be asked for the caller");
}

/* -- Methods ------------------------------------------------------------------------------------------ */

static int bus_check_limits(struct bus *b, const struct bus_caller *caller, struct problem *p)
{
    if (b->n_calls < BUS_CALLS_MAX && caller->n_calls < BUS_CALLER_CALLS_MAX)
        return 0;
    problem_set(p, -EBUSY, PROBLEM_TOO_MANY, "%u calls are waiting for an answer, %u of them yours",
                b->n_calls, caller->n_calls);
    problem_remedy(p, "Wait for their answers before you call again.");
    return -EBUSY;
}

static struct bus_call *call_new(struct bus *b, struct bus_caller *caller, sd_bus_message *m)
{
    struct bus_call *c = xcalloc(1, sizeof(*c));

    *c = (struct bus_call){
        .bus = b,
        .caller = caller,
        .message = sd_bus_message_ref(m),
        .method = bus_method_find(sd_bus_message_get_interface(m), sd_bus_message_get_member(m)),
        .uid = (uid_t)-1,
    };
    caller->n_calls++;
    b->n_calls++;
    LIST_INSERT_HEAD(&b->calls, c, next);
    return c;
}

int bus_on_method(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct bus *b = arg;
    const char *sender = sd_bus_message_get_sender(m);
    struct bus_caller *caller = bus_caller_find(b, sender ? sender : "");

    int r = bus_check_limits(b, caller, &p);
    struct bus_call *c = call_new(b, caller, m);
    if (r == 0)
        r = call_read_id(c, &p);
    if (r < 0)
        call_refuse(c, &p);
    else if (c->route.route->right <= RIGHT_READ)
        call_run(c);
    else
        call_authorize(c);
    return 1;
}
