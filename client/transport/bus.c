/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/bus.h"

#include "base/alloc.h"
#include "base/bus_json.h"
#include "proto/bus_methods.h"
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>

/* The same as of an HTTP call. */
#define CALL_TIMEOUT_US UINT64_C(600000000)
#define TICK_US         UINT64_C(200000)
#define ANSWER_MAX      (128u << 20)

struct bus_connection {
    const char *which;
    sd_bus *connection;
};

static int bus_unreachable(const struct bus_connection *b, const char *why, const char *remedy,
                           struct problem *p)
{
    problem_remedy(p, "%s", remedy);
    return problem_set(p, -ECONNREFUSED, PROBLEM_UPSTREAM,
                       "cannot reach profd as " BUS_NAME " on the %s bus: %s", b->which, why);
}

int bus_connection_new(const char *which, struct bus_connection **ret, struct problem *p)
{
    struct bus_connection *b = xcalloc(1, sizeof(*b));
    bool is_session = streq(which, "session");

    b->which = is_session ? "session" : "system";
    int r = is_session ? sd_bus_open_user(&b->connection) : sd_bus_open_system(&b->connection);
    if (r < 0) {
        bus_unreachable(b, strerror(-r), "Omit --bus to use profd's socket.", p);
        bus_connection_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

struct bus_connection *bus_connection_free(struct bus_connection *b)
{
    if (!b)
        return NULL;
    sd_bus_flush_close_unref(b->connection);
    free(b);
    return NULL;
}

/* -- From an address to a method ---------------------------------------------------------------------- */

/* The value of {id} if the path matches the pattern, "" if the pattern has none; else NULL. */
static char *bus_match_path(const char *pattern, const char *path, size_t size)
{
    const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
    size_t before = open ? (size_t)(open - pattern) : strlen(pattern);

    if (size < before || strncmp(pattern, path, before) != 0)
        return NULL;
    if (!close)
        return size == before ? xstrdup("") : NULL;
    size_t id = strcspn(path + before, "/?"), rest = before + id;
    if (size - rest != strlen(close + 1) || strncmp(close + 1, path + rest, size - rest) != 0)
        return NULL;
    return xstrndup(path + before, id);
}

static const struct bus_method *bus_find_method(const struct bus_request *q, char **ret_id)
{
    size_t size = strcspn(q->path, "?");
    const struct bus_method *m;

    for (size_t i = 0; (m = bus_method_at(i)); i++)
        if (streq(m->http_method, q->method) && (*ret_id = bus_match_path(m->pattern, q->path, size)))
            return m;
    return NULL;
}

static void bus_add_option(json_t *options, const char *key, const char *value)
{
    json_t *before = json_object_get(options, key);

    if (!before) {
        json_object_set_new(options, key, json_string(value));
        return;
    }
    if (!json_is_array(before)) {
        json_object_set_new(options, key, json_pack("[O]", before));
        before = json_object_get(options, key);
    }
    json_array_append_new(before, json_string(value));
}

/* The parameters of an address; a repeated one is a list. */
static json_t *bus_options(const char *path)
{
    json_t *options = json_object();
    const char *s = path + strcspn(path, "?");

    while (*s) {
        size_t n = strcspn(++s, "&"), k = strcspn(s, "=&");
        char *key = curl_easy_unescape(NULL, s, (int)k, NULL);
        char *value = curl_easy_unescape(NULL, k < n ? s + k + 1 : "", k < n ? (int)(n - k - 1) : 0, NULL);
        if (key && *key && value)
            bus_add_option(options, key, value);
        curl_free(key);
        curl_free(value);
        s += n;
    }
    return options;
}

static int bus_make_message(const struct bus_connection *b, const struct bus_request *q, sd_bus_message **ret,
                            struct problem *p)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
    _cleanup_(freep) char *id = NULL;
    const struct bus_method *method = bus_find_method(q, &id);

    if (!method) {
        problem_remedy(p, "Omit --bus to use profd's socket.");
        return problem_set(p, -EOPNOTSUPP, PROBLEM_UNSUPPORTED, "%s %s is not available over D-Bus",
                           q->method, q->path);
    }
    _cleanup_json_ options = q->body ? json_deep_copy(q->body) : bus_options(q->path);
    int r = sd_bus_message_new_method_call(b->connection, &m, BUS_NAME, BUS_PATH, method->interface,
                                           method->name);
    if (r >= 0)
        r = sd_bus_message_set_allow_interactive_authorization(m, isatty(STDIN_FILENO));
    if (r >= 0 && method->in[0] == 's')
        r = sd_bus_message_append(m, "s", id);
    if (r >= 0 && strstr(method->in, BUS_DICTIONARY))
        r = bus_append_object(m, options, ANSWER_MAX);
    if (r < 0)
        return problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot send this request over D-Bus: %s",
                           strerror(-r));
    *ret = TAKE_PTR(m);
    return 0;
}

/* -- Calls -------------------------------------------------------------------------------------------- */

/* The first line is the error, further lines are the remedy. */
static int bus_profd_problem(const sd_bus_error *error, struct problem *p)
{
    const char *text = error->message ? error->message : "", *remedy = strchr(text, '\n');
    char code[BUS_ERROR_WORD_MAX];

    bus_code_of_error(error->name + strlen(BUS_ERROR_PREFIX), code);
    problem_set(p, -EREMOTEIO, problem_kind_of(code), "%.*s", (int)strcspn(text, "\n"), text);
    if (remedy)
        problem_remedy(p, "%s", remedy + 1);
    return -EREMOTEIO;
}

static int bus_problem(const struct bus_connection *b, const sd_bus_error *error, struct problem *p)
{
    const char *text = error->message ? error->message : error->name;

    if (starts_with(error->name, BUS_ERROR_PREFIX))
        return bus_profd_problem(error, p);
    if (streq(error->name, SD_BUS_ERROR_ACCESS_DENIED))
        return bus_unreachable(
            b, text,
            "Members of group profd may use it: sudo usermod -aG profd \"$USER\", then log in again.", p);
    if (streq(error->name, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
        streq(error->name, SD_BUS_ERROR_NAME_HAS_NO_OWNER))
        return bus_unreachable(b, text,
                               "Enable D-Bus in profd: bus=system in profd.conf, or profd --bus session.", p);
    problem_remedy(p, "Retry; journalctl -u profd shows whether profd ended.");
    return problem_set(p, -EIO, PROBLEM_UPSTREAM, "no response from profd on the %s bus: %s", b->which, text);
}

static int bus_on_answer(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    *(sd_bus_message **)arg = sd_bus_message_ref(m);
    return 1;
}

static int bus_wait(struct bus_connection *b, const struct bus_request *q, sd_bus_message **answer)
{
    int r = 0;

    while (!*answer && r >= 0) {
        r = q->tick(q->arg);
        if (r >= 0)
            r = sd_bus_process(b->connection, NULL);
        if (r == 0)
            r = sd_bus_wait(b->connection, TICK_US);
        if (r == -EINTR && q->tick(q->arg) >= 0)
            r = 0;
    }
    return r < 0 ? r : 0;
}

static int bus_ask(struct bus_connection *b, const struct bus_request *q, sd_bus_message **ret,
                   struct problem *p)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *answer = NULL;
    _cleanup_(sd_bus_slot_unrefp) sd_bus_slot *slot = NULL;

    int r = bus_make_message(b, q, &m, p);
    if (r < 0)
        return r;
    r = sd_bus_call_async(b->connection, &slot, m, bus_on_answer, &answer, CALL_TIMEOUT_US);
    if (r >= 0)
        r = bus_wait(b, q, &answer);
    if (r == -EINTR)
        return problem_set(p, -EINTR, PROBLEM_INTERNAL, "interrupted");
    if (r < 0)
        return problem_set(p, -EIO, PROBLEM_UPSTREAM, "lost the connection to the %s bus: %s", b->which,
                           strerror(-r));
    if (sd_bus_message_is_method_error(answer, NULL))
        return bus_problem(b, sd_bus_message_get_error(answer), p);
    *ret = TAKE_PTR(answer);
    return 0;
}

static int bus_unexpected(const struct bus_connection *b, struct problem *p)
{
    problem_remedy(p, "Check that profd and profctl are of the same version: profctl status");
    return problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "unexpected response from profd on the %s bus",
                       b->which);
}

int bus_connection_call(struct bus_connection *b, const struct bus_request *q, json_t **ret, long *ret_status,
                        struct problem *p)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *answer = NULL;
    json_t *body;
    int is_new = false;

    int r = bus_ask(b, q, &answer, p);
    if (r < 0)
        return r;
    if (sd_bus_message_has_signature(answer, BUS_STARTED))
        r = sd_bus_message_skip(answer, "o");
    else if (sd_bus_message_has_signature(answer, BUS_TAKEN))
        r = sd_bus_message_read(answer, "b", &is_new);
    if (r >= 0)
        r = bus_read_object(answer, ANSWER_MAX, &body);
    if (r < 0)
        return bus_unexpected(b, p);
    *ret_status = is_new ? 201 : 200;
    if (ret)
        *ret = body;
    else
        json_decref(body);
    return 0;
}

int bus_connection_open(struct bus_connection *b, const struct bus_request *q, int *ret_fd, int64_t *ret_size,
                        struct problem *p)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *answer = NULL;
    uint64_t size;
    int fd;

    int r = bus_ask(b, q, &answer, p);
    if (r < 0)
        return r;
    if (sd_bus_message_read(answer, BUS_FILE, &fd, NULL, &size) < 0 || size > INT64_MAX)
        return bus_unexpected(b, p);
    *ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* the message's own ends with it */
    *ret_size = (int64_t)size;
    return *ret_fd < 0
               ? problem_set(p, -errno, PROBLEM_INTERNAL, "cannot keep the file open: %s", strerror(errno))
               : 0;
}
