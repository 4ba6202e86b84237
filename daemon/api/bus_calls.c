/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A method call: its arguments become a request of the HTTP API's tables, the reply to that becomes its
 * answer. A call belongs to the list of the bus until it is answered, refused, or its caller is gone.
 */
#include "base/alloc.h"
#include "base/bus_json.h"
#include "base/log.h"
#include "daemon/api/bus_internal.h"
#include <errno.h>

/* -- Callers ------------------------------------------------------------------------------------------ */

static struct bus_caller *find_caller(struct bus *b, const char *name)
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

static void release_caller(struct bus_caller *caller)
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
    release_caller(c->caller);
    sd_bus_slot_unref(c->question);
    sd_bus_message_unref(c->message);
    free(c->path);
    free(c->query);
    free(c->body);
    free(c);
    return NULL;
}

static void abandon(struct bus_call *c)
{
    struct http_request *request = TAKE_PTR(c->request);

    call_free(c);
    if (request)
        http_request_abandon(request);
}

void bus_calls_abandon(struct bus *b)
{
    while (!LIST_EMPTY(&b->calls))
        abandon(LIST_FIRST(&b->calls));
}

static int on_owner_changed(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const char *name, *before, *after;
    struct bus *b = arg;
    struct bus_call *c, *next;

    if (sd_bus_message_read(m, "sss", &name, &before, &after) < 0 || *after)
        return 0;
    for (c = LIST_FIRST(&b->calls); c; c = next) {
        next = LIST_NEXT(c, next);
        if (streq(c->caller->name, name))
            abandon(c);
    }
    return 0;
}

/* As a client of HTTP that hangs up: what was only begun for it is given up. */
static void watch_caller(struct bus_call *c)
{
    struct bus_caller *caller = c->caller;

    if (caller->watch)
        return;
    _cleanup_(freep) char *match =
        xasprintf("type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                  "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='%s'",
                  caller->name);
    sd_bus_add_match_async(c->bus->connection, &caller->watch, match, on_owner_changed, NULL, c->bus);
}

/* -- Answers ------------------------------------------------------------------------------------------ */

/* One line of what went wrong; what to do about it from the second on. */
static int send_problem(sd_bus_message *m, const char *code, const char *what, const char *remedy)
{
    _cleanup_(freep) char *name = NULL,
                          *text = xasprintf("%s%s%s", what, remedy ? "\n" : "", remedy ? remedy : "");
    char word[BUS_ERROR_WORD_MAX];

    bus_error_of_code(code, word);
    name = xasprintf(BUS_ERROR_PREFIX "%s", word);
    sd_bus_error error = SD_BUS_ERROR_MAKE_CONST(name, text);
    return sd_bus_reply_method_error(m, &error);
}

static void finish(struct bus_call *c)
{
    struct bus *b = c->bus;

    call_free(c);
    bus_kick(b);
}

void bus_call_refuse(struct bus_call *c, const struct problem *p)
{
    send_problem(c->message, problem_code(p->kind), p->what, p->remedy);
    finish(c);
}

/* What does not fit into a message, by the answer's signature. */
static int append_answer(sd_bus_message *reply, const struct bus_method *method, int status,
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

static int send_answer(const struct bus_call *c, int status, const json_t *body)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;

    if (sd_bus_message_get_expect_reply(c->message) == 0)
        return 0;
    int r = sd_bus_message_new_method_return(c->message, &reply);
    if (r >= 0)
        r = append_answer(reply, c->method, status, body);
    if (r == -E2BIG)
        return send_problem(c->message, problem_code(PROBLEM_TOO_LARGE), "the answer is too large for D-Bus",
                            "Ask for less with \"limit\", or use profd's socket.");
    return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

static void on_json(int status, const json_t *body, void *arg)
{
    struct bus_call *c = arg;
    int r;

    c->request = NULL;
    if (status >= 400) {
        const char *code = json_get_str(body, "code"), *detail = json_get_str(body, "detail");
        r = send_problem(c->message, code ? code : "internal", detail ? detail : "",
                         json_get_str(body, "remedy"));
    } else {
        r = send_answer(c, status, body);
    }
    if (r < 0)
        log_debug("cannot answer %s of %s: %s", c->method->name, c->caller->name, strerror(-r));
    finish(c);
}

static void on_file(int take_fd, int64_t size, const char *name, void *arg)
{
    _cleanup_(closep) int fd = take_fd;
    struct bus_call *c = arg;

    c->request = NULL;
    int r = sd_bus_reply_method_return(c->message, BUS_FILE, fd, name ? name : "", (uint64_t)size);
    if (r < 0)
        log_debug("cannot answer %s of %s: %s", c->method->name, c->caller->name, strerror(-r));
    finish(c);
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static void put_escaped(FILE *out, const char *text)
{
    for (const char *s = text; *s; s++)
        fprintf(out, "%%%02x", (unsigned char)*s);
}

static int put_parameter(FILE *out, const char *key, const json_t *value, struct problem *p)
{
    size_t i;
    json_t *item;

    if (json_is_array(value)) {
        json_array_foreach(value, i, item) {
            if (json_is_array(item) || put_parameter(out, key, item, p) < 0)
                return -EINVAL;
        }
        return 0;
    }
    if (!json_is_string(value) && !json_is_integer(value) && !json_is_boolean(value))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "\"%s\" must be text, a whole number or a boolean", key);
    put_escaped(out, key);
    fputc('=', out);
    if (json_is_string(value))
        put_escaped(out, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else
        fputs(json_is_true(value) ? "true" : "false", out);
    fputc('&', out);
    return 0;
}

static int query_of(const json_t *options, const struct route *route, char **ret, struct problem *p)
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
            r = put_parameter(out, key, value, p);
    }
    fclose(out);
    *ret = r == 0 ? TAKE_PTR(text) : NULL;
    return r;
}

/* The pattern with the id in the place of its {word}. */
static char *path_of(const char *pattern, const char *id)
{
    const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;

    if (!close)
        return xstrdup(pattern);
    return xasprintf("%.*s%s%s", (int)(open - pattern), pattern, id, close + 1);
}

static enum http_method method_of(const struct bus_method *method)
{
    enum http_method m = HTTP_GET;

    while (m < _HTTP_METHOD_MAX && !streq(http_method_name(m), method->http_method))
        m++;
    return m;
}

/* The id is an argument, or the object that was called. */
static int read_id(struct bus_call *c, struct problem *p)
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
    c->path = path_of(c->method->pattern, id);
    return route_find(method_of(c->method), c->path, &c->route, p);
}

static int read_options(struct bus_call *c, struct problem *p)
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
        return query_of(options, c->route.route, &c->query, p);
    c->body = json_dumps(options, JSON_COMPACT);
    return 0;
}

void bus_call_run(struct bus_call *c)
{
    static const struct http_foreign_replies replies = {on_json, on_file};
    const struct http_peer peer = {
        .local = true, .uid = c->uid, .gid = (gid_t)-1, .pid = -1, .address = "bus"};
    _cleanup_(problem_done) struct problem p = {0};
    struct bus *b = c->bus;

    /* What a request says is nobody's business before he may ask. */
    int r = read_options(c, &p);
    if (r < 0) {
        bus_call_refuse(c, &p);
        return;
    }
    r = http_request_new_foreign(c->route.route->method, c->path, c->query, c->body, &peer, &replies, c,
                                 &c->request);
    if (r < 0) {
        problem_set(&p, r, PROBLEM_BAD_REQUEST, "there are too many parameters");
        bus_call_refuse(c, &p);
        return;
    }
    b->running = c;
    b->api->requests++;
    c->route.route->handle(b->api, c->request, c->route.id);
    if (b->running)
        watch_caller(c);
    b->running = NULL;
}

static int check_bounds(struct bus *b, const struct bus_caller *caller, struct problem *p)
{
    if (b->n_calls < BUS_CALLS_MAX && caller->n_calls < BUS_CALLER_CALLS_MAX)
        return 0;
    problem_set(p, -EBUSY, PROBLEM_TOO_MANY, "%u calls wait for their answer, %u of them are yours",
                b->n_calls, caller->n_calls);
    problem_remedy(p, "Wait for answers before you ask for more.");
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
    struct bus_caller *caller = find_caller(b, sender ? sender : "");

    int r = check_bounds(b, caller, &p);
    struct bus_call *c = call_new(b, caller, m);
    if (r == 0)
        r = read_id(c, &p);
    if (r < 0)
        bus_call_refuse(c, &p);
    else if (c->route.route->right <= RIGHT_READ)
        bus_call_run(c);
    else
        bus_call_check(c);
    return 1;
}
