/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/remote_reports.h"

#include "base/alloc.h"
#include "client/local/user_profd.h"
#include "client/traces/lost_hosts.h"
#include "client/traces/trace.h"
#include "client/transport/download.h"
#include "trace/ranks/rank_set.h"
#include "trace/ranks/report_parts.h"
#include <errno.h>
#include <inttypes.h>

void remote_reports_done(struct remote_reports *r)
{
    json_decref(r->traces);
    free(r->instance);
    if (r->by_column)
        analyzed_done(r->by_column);
    free(r->by_column);
}

/* -- Where the traces are ----------------------------------------------------------------------------- */

/* "": the host that was asked, or a file of this one. */
static const char *trace_host(const json_t *trace)
{
    const char *uuid = json_get_str(trace, "host_uuid");
    return uuid ? uuid : "";
}

static int remote_reports_fetch(struct remote_reports *r)
{
    struct client *c = r->c;
    int status = client_need_profd(c);

    for (int i = 0; i < r->n_words && status == EXIT_DONE; i++) {
        _cleanup_json_ answer = NULL;
        int64_t id;
        char kind = parse_ref(r->words[i], 't', &id);
        _cleanup_(freep) char *path = kind == 's' ? xasprintf("/v1/traces?session=s%" PRId64, id)
                                                  : xasprintf("/v1/traces/t%" PRId64, id);
        if (kind == 's')
            status = traces_fetch(c, path, INT64_MAX, &answer);
        else
            status = client_get(c, path, NULL, &answer);
        if (status == EXIT_DONE && kind == 's')
            json_array_extend(r->traces, json_object_get(answer, "traces"));
        else if (status == EXIT_DONE)
            json_array_append(r->traces, answer);
    }
    return status;
}

/* What the catalog knows of the ranks of an instance, by its name, else by their worker: {host, ranks, world}. */
static json_t *remote_reports_group(const struct remote_reports *r, bool *ret_is_split)
{
    json_t *groups = json_object(), *trace;
    size_t i;

    *ret_is_split = false;
    json_array_foreach(r->traces, i, trace) {
        const char *instance = json_get_str(trace, "instance"), *worker = json_get_str(trace, "worker");
        const char *key = instance ? instance : worker, *host = trace_host(trace);
        json_t *group = key ? json_object_get(groups, key) : NULL;
        if (!key || (group && !streq(json_get_str(group, "host"), host))) {
            *ret_is_split = true;
            break;
        }
        if (!group)
            json_object_set_new(groups, key, group = json_pack("{s:s}", "host", host));
        json_put_int(group, "ranks", json_get_int(group, "ranks", 0) + 1);
        json_put_int(group, "world",
                     MAX(json_get_int(group, "world", 0), json_get_int(trace, "world_size", 0)));
    }
    return groups;
}

/* Whether ranks of one instance are on several hosts. Servers of several hosts may be one job, as with experts that are
 * spread over all of them: then none has all ranks of the job, and together they have no more than it. */
static bool remote_reports_are_split(const struct remote_reports *r)
{
    bool is_split;
    _cleanup_json_ groups = remote_reports_group(r, &is_split), *partial = json_object();
    const char *name;
    json_t *group;

    json_object_foreach(groups, name, group) {
        int64_t ranks = json_get_int(group, "ranks", 0), world = json_get_int(group, "world", 0);
        _cleanup_(freep) char *key = xasprintf("%" PRId64, world);
        json_t *known = json_object_get(partial, key);
        if (ranks >= world)
            continue;
        if (!known)
            json_object_set_new(partial, key,
                                known = json_pack("{s:s}", "host", json_get_str(group, "host")));
        bool other_host = !streq(json_get_str(known, "host"), json_get_str(group, "host"));
        json_put_bool(known, "hosts", other_host || json_get_bool(known, "hosts", false));
        json_put_int(known, "ranks", json_get_int(known, "ranks", 0) + ranks);
    }
    json_object_foreach(partial, name, group)
        is_split = is_split || (json_get_bool(group, "hosts", false) &&
                                json_get_int(group, "ranks", 0) <= strtoll(name, NULL, 10));
    return is_split;
}

static size_t remote_reports_count_hosts(const struct remote_reports *r, bool *ret_any)
{
    _cleanup_json_ hosts = json_object();
    json_t *trace;
    size_t i;

    *ret_any = false;
    json_array_foreach(r->traces, i, trace) {
        *ret_any = *ret_any || *trace_host(trace);
        json_object_set_new(hosts, *trace_host(trace) ? trace_host(trace) : "-", json_true());
    }
    return json_object_size(hosts);
}

/* Traces that are no traces of a rank, or were not read, are left to analyzed_open(), which explains them. */
static bool remote_reports_are_plain(const struct remote_reports *r)
{
    json_t *trace;
    size_t i;

    json_array_foreach(r->traces, i, trace) {
        const char *kind = json_get_str(trace, "kind");
        if ((kind && !streq(kind, "trace")) || json_get_int(trace, "columns_size", 0) <= 0)
            return false;
    }
    return json_array_size(r->traces) > 0;
}

int remote_reports_find(struct client *c, const struct analyzing *o, int n_words, char **words,
                        struct remote_reports *ret)
{
    bool any;

    *ret = (struct remote_reports){
        .c = c, .options = o, .n_words = n_words, .words = words, .traces = json_array()};
    if (o->classes || o->hta || o->instance || o->all_ranks || o->rank != OPTION_ABSENT)
        return EXIT_DONE;
    for (int i = 0; i < n_words; i++) {
        int64_t id;
        char kind = access(words[i], F_OK) == 0 ? 0 : parse_ref(words[i], 't', &id);
        if (!kind || (kind == 's' && n_words > 1))
            return EXIT_DONE;
        ret->is_session = kind == 's';
    }
    int status = remote_reports_fetch(ret);
    if (status != EXIT_DONE)
        return status;
    ret->n_ranks = json_array_size(ret->traces);
    size_t hosts = remote_reports_count_hosts(ret, &any);
    if (any && remote_reports_are_plain(ret))
        ret->n_hosts = hosts;
    ret->by_pages = hosts > 1 && remote_reports_are_split(ret);
    return EXIT_DONE;
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static json_t *remote_reports_view(const struct analyzing *o)
{
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"from", o->from}, {"to", o->to}, {"step", o->step}};
    json_t *view = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].value != OPTION_ABSENT)
            json_put_int(view, numbers[i].name, numbers[i].value);
    json_put_str(view, "phase", o->phase);
    return view;
}

static json_t *remote_reports_names(const struct remote_reports *r)
{
    json_t *names = json_array(), *trace;
    size_t i;

    json_array_foreach(r->traces, i, trace)
        json_array_append(names, json_object_get(trace, "trace"));
    return names;
}

static void remote_reports_print_notes(struct client *c, const json_t *notes)
{
    size_t i;
    json_t *note;

    json_array_foreach(notes, i, note)
        if (json_is_string(note))
            client_note(c, "%s", json_string_value(note));
}

/* The trace of that name; -1: none. */
static ssize_t remote_reports_find_trace(const struct remote_reports *r, const char *name)
{
    json_t *trace;
    size_t i;

    json_array_foreach(r->traces, i, trace)
        if (name && streq(json_get_str(trace, "trace"), name))
            return (ssize_t)i;
    return -1;
}

/* Traces that the other reports do without as well. */
static void remote_reports_drop(struct remote_reports *r, const char *name)
{
    ssize_t i = remote_reports_find_trace(r, name);

    if (i < 0)
        return;
    json_array_remove(r->traces, (size_t)i);
    lost_trace_add(r->c, name);
    r->n_left_out++;
}

/* Traces that their host removed may be in the archive, from where they are read as those of silent hosts are. */
static bool remote_reports_may_be_archived(const struct remote_reports *r, const json_t *missing)
{
    json_t *one;
    size_t i;

    json_array_foreach(missing, i, one) {
        ssize_t at = remote_reports_find_trace(r, json_get_str(one, "trace"));
        if (at >= 0 && json_object_get(json_array_get(r->traces, (size_t)at), "archived_at"))
            return archive_is_configured(r->c);
    }
    return false;
}

static void remote_reports_drop_missing(struct remote_reports *r, const json_t *missing)
{
    json_t *one;
    size_t i;

    json_array_foreach(missing, i, one) {
        const char *name = json_get_str(one, "trace"), *reason = json_get_str(one, "reason");
        ssize_t at = remote_reports_find_trace(r, name);
        if (at < 0)
            continue;
        _cleanup_(freep) char *text = NULL;
        trace_list_add(&text, json_array_get(r->traces, (size_t)at));
        client_note(r->c, "%s is left out: %s", text, reason ? reason : "it is gone");
        remote_reports_drop(r, name);
    }
}

/* The host that a request for these traces goes to (make_reports() in the daemon): "" for this one. */
static const char *remote_reports_host_of(const struct remote_reports *r, const json_t *names)
{
    const char *host = NULL;
    json_t *name;
    size_t i;

    json_array_foreach(names, i, name) {
        ssize_t at = remote_reports_find_trace(r, json_string_value(name));
        const char *its = at < 0 ? "" : trace_host(json_array_get(r->traces, (size_t)at));
        if (!*its)
            return its;
        host = host ? host : its;
    }
    return host ? host : "";
}

/* After the request failed: the traces of its host are left out, and the others remain. An exit status: EXIT_DONE, or that
 * of the problem where nothing remains or no other host would do better. */
static int remote_reports_leave_out(struct remote_reports *r, const struct problem *p, json_t *names,
                                    bool has_parts)
{
    _cleanup_(freep) char *host = xstrdup(remote_reports_host_of(r, names)), *list = NULL;
    size_t n = 0, i = 0;

    for (size_t k = 0; k < json_array_size(names) && *host; k++) {
        ssize_t at = remote_reports_find_trace(r, json_string_value(json_array_get(names, k)));
        n += at >= 0 && streq(trace_host(json_array_get(r->traces, (size_t)at)), host);
    }
    int status = client_fail(r->c, p);
    if (n == 0 || p->kind == PROBLEM_BAD_REQUEST || (n == json_array_size(names) && !has_parts))
        return status;
    while (i < json_array_size(names)) {
        const char *name = json_string_value(json_array_get(names, i));
        ssize_t at = remote_reports_find_trace(r, name);
        const json_t *trace = at < 0 ? NULL : json_array_get(r->traces, (size_t)at);
        if (!trace || !streq(trace_host(trace), host)) {
            i++;
            continue;
        }
        trace_list_add(&list, trace);
        remote_reports_drop(r, name);
        json_array_remove(names, i);
    }
    client_note(r->c, "left out: %s", list);
    return EXIT_DONE;
}

/* One request for each host: what a reply leaves is asked for next. Parts are appended. */
static int remote_reports_ask(struct remote_reports *r, const json_t *names, json_t *parts)
{
    _cleanup_json_ left = remote_reports_names(r);
    int status = EXIT_DONE;

    while (status == EXIT_DONE && json_array_size(left) > 0) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_json_ answer = NULL, *body = json_object();
        json_object_set(body, "traces", left);
        json_object_set(body, "reports", (json_t *)names);
        json_object_set_new(body, "facts", json_boolean(r->is_session));
        json_object_set_new(body, "view", remote_reports_view(r->options));
        int err = connection_call(r->c->connection, "POST", "/v1/reports", body,
                                  "computing reports on the hosts", &answer, &p);
        /* What hosts that are silent archived is read here. */
        bool may_be_archived = p.kind == PROBLEM_UNREACHABLE || p.kind == PROBLEM_NOT_FOUND;
        if (err == -EREMOTEIO && may_be_archived && archive_is_configured(r->c)) {
            r->by_pages = true;
            return EXIT_DONE;
        }
        if (err < 0) {
            ssize_t first = remote_reports_find_trace(r, json_string_value(json_array_get(left, 0)));
            if (first >= 0)
                lost_hosts_add(r->c, json_array_get(r->traces, (size_t)first), err, &p);
            status = remote_reports_leave_out(r, &p, left, json_array_size(parts) > 0);
            continue;
        }
        if (remote_reports_may_be_archived(r, json_object_get(answer, "missing"))) {
            r->by_pages = true;
            return EXIT_DONE;
        }
        remote_reports_drop_missing(r, json_object_get(answer, "missing"));
        json_t *more = json_object_get(answer, "left");
        /* Their host has no columns of them, as of traces that left its store: it makes them when it is asked for them. */
        if (json_array_size(more) >= json_array_size(left)) {
            r->by_pages = true;
            return EXIT_DONE;
        }
        json_array_extend(parts, json_object_get(answer, "parts"));
        remote_reports_print_notes(r->c, json_object_get(answer, "notes"));
        json_decref(left);
        left = more ? json_incref(more) : json_array();
    }
    return status;
}

/* -- Parts as reports --------------------------------------------------------------------------------- */

/* Instances of all hosts, in the order of the labels of their first ranks, as if all traces were here. */
struct remote_instance {
    const char *name;
    char *label;
};

struct remote_instances {
    struct remote_instance *items;
    size_t n, cap;
};

static void remote_instances_done(struct remote_instances *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->items[i].label);
    free(all->items);
}

static int remote_instance_compare(const void *x, const void *y)
{
    const struct remote_instance *a = x, *b = y;
    return strverscmp(a->label, b->label);
}

/* "10.0.0.1:30000 tp0": what sorts ranks. */
static char *remote_reports_label(const struct remote_reports *r, const char *name)
{
    json_t *trace;
    size_t i;

    json_array_foreach(r->traces, i, trace) {
        const char *known = json_get_str(trace, "trace"), *worker = json_get_str(trace, "worker");
        if (!known || !name || !streq(known, name))
            continue;
        _cleanup_(freep) char *rank = rank_text(trace, false);
        const char *host = worker ? strstr(worker, "://") : NULL;
        return xasprintf("%s %s", host ? host + 3 : "", rank ? rank : name);
    }
    return xstrdup(name ? name : "");
}

/* -EEXIST: two hosts have instances with one name. */
static int remote_instances_gather(const struct remote_reports *r, const json_t *parts,
                                   struct remote_instances *ret)
{
    _cleanup_json_ hosts = json_object();
    json_t *part;
    size_t i;

    json_array_foreach(parts, i, part) {
        const char *name = json_get_str(part, "instance"), *host = json_get_str(part, "host");
        const char *first = json_string_value(json_array_get(json_object_get(part, "traces"), 0));
        const char *known = name ? json_string_value(json_object_get(hosts, name)) : NULL;
        if (!name)
            continue;
        if (known && host && !streq(known, host))
            return -EEXIST;
        if (known)
            continue;
        json_object_set_new(hosts, name, json_string(host ? host : ""));
        VEC_GROW(ret->items, ret->n, ret->cap);
        ret->items[ret->n++] =
            (struct remote_instance){.name = name, .label = remote_reports_label(r, first)};
    }
    if (ret->n > 1)
        qsort(ret->items, ret->n, sizeof(*ret->items), remote_instance_compare);
    return 0;
}

static bool part_is_of(const json_t *part, const char *report, const char *instance)
{
    const char *name = json_get_str(part, "report"), *of = json_get_str(part, "instance");
    return name && streq(name, report) && (of && instance ? streq(of, instance) : of == instance);
}

static int remote_reports_add_part(struct remote_reports *r, const json_t *part, const char *instance,
                                   bool *any, struct made_report *made)
{
    const char *error = json_get_str(part, "error");

    if (error)
        return client_error(r->c, PROBLEM_UNSUPPORTED, NULL, "%s: %s", made->report->name, error);
    if (json_get_bool(part, "lacking", false))
        return EXIT_DONE;
    *any = true;
    made->result = report_part_read(part, made->report, instance, &made->rows);
    return made->result >= 0 ? EXIT_DONE
                             : client_error(r->c, PROBLEM_UPSTREAM, NULL,
                                            "%s: the response of profd is no report", made->report->name);
}

static int remote_reports_assemble(struct remote_reports *r, const json_t *parts,
                                   const struct remote_instances *instances, struct made_report *made)
{
    const char *name = made->report->name;
    bool any = false;
    int status = EXIT_DONE;

    made->result = made_report_begin(made, instances->n);
    /* A report that compares several instances has one part, without an instance. */
    for (size_t k = 0; k <= instances->n && made->result >= 0; k++) {
        const char *instance = k < instances->n ? instances->items[k].name : NULL;
        json_t *part;
        size_t i;
        json_array_foreach(parts, i, part)
            if (status == EXIT_DONE && part_is_of(part, name, instance))
                status = remote_reports_add_part(r, part, made->described ? instance : NULL, &any, made);
    }
    made_report_end(made);
    if (made->result >= 0 && !any)
        made->result = -ENODATA;
    return status;
}

/* -- Here, from pages of columns ---------------------------------------------------------------------- */

/* Of named traces, those that are not left out; a session leaves them out by itself. */
static int remote_reports_open(struct remote_reports *r)
{
    size_t n = json_array_size(r->traces);
    _cleanup_(freep) char **names = xcalloc(n + 1, sizeof(*names));

    for (size_t i = 0; i < n; i++)
        names[i] = (char *)json_get_str(json_array_get(r->traces, i), "trace");
    r->by_column = xcalloc(1, sizeof(*r->by_column));
    return analyzed_open(r->c, r->options, r->is_session ? r->n_words : (int)n,
                         r->is_session ? r->words : names, r->by_column);
}

static int remote_reports_make_here(struct remote_reports *r, struct made_report *made, size_t n)
{
    int status = r->by_column ? EXIT_DONE : remote_reports_open(r);

    if (status == EXIT_DONE) {
        reports_make(made, n, &r->by_column->analysis);
        r->n_left_out = MAX(r->n_left_out, r->by_column->ranks.n_left_out);
    }
    if (status == EXIT_DONE && r->n_instances == 0) {
        r->n_instances = r->by_column->analysis.n_instances;
        r->instance = xstrdup(r->by_column->analysis.instances[0].name);
    }
    return status;
}

static int remote_reports_make_there(struct remote_reports *r, struct made_report *made, size_t n)
{
    _cleanup_(remote_instances_done) struct remote_instances instances = {0};
    _cleanup_json_ names = json_array(), *parts = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(names, json_string(made[i].report->name));
    int status = remote_reports_ask(r, names, parts);
    if (status != EXIT_DONE)
        return status;
    if (r->by_pages || remote_instances_gather(r, parts, &instances) < 0) {
        r->by_pages = true;
        return remote_reports_make_here(r, made, n);
    }
    r->n_instances = instances.n;
    if (!r->instance && instances.n > 0)
        r->instance = xstrdup(instances.items[0].name);
    for (size_t i = 0; i < n && status == EXIT_DONE; i++)
        status = remote_reports_assemble(r, parts, &instances, &made[i]);
    return status;
}

int remote_reports_make(struct remote_reports *r, struct made_report *made, size_t n)
{
    size_t n_there = 0;
    int status = EXIT_DONE;

    if (r->by_pages)
        return remote_reports_make_here(r, made, n);
    /* Those that compare instances need all of them; they keep their places. */
    _cleanup_(freep) struct made_report *there = xcalloc(n + 1, sizeof(*there));
    _cleanup_(freep) size_t *places = xcalloc(n + 1, sizeof(*places));
    for (size_t i = 0; i < n; i++) {
        if (made[i].report->of_instances && r->n_hosts > 1)
            continue;
        places[n_there] = i;
        there[n_there++] = made[i];
    }
    if (n_there > 0)
        status = remote_reports_make_there(r, there, n_there);
    for (size_t i = 0; i < n_there; i++)
        made[places[i]] = there[i];
    for (size_t i = 0; i < n && status == EXIT_DONE; i++)
        if (made[i].report->of_instances && r->n_hosts > 1 && !made[i].described)
            status = remote_reports_make_here(r, &made[i], 1);
    return status;
}
