/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/remote_reports.h"

#include "base/alloc.h"
#include "client/local/user_profd.h"
#include "client/traces/trace.h"
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

/* Whether ranks of one instance are on several hosts, as far as the catalog knows: by the name of their instance, else by
 * their worker. */
static bool remote_reports_are_split(const struct remote_reports *r)
{
    _cleanup_json_ hosts = json_object();
    json_t *trace;
    size_t i;

    json_array_foreach(r->traces, i, trace) {
        const char *instance = json_get_str(trace, "instance"), *worker = json_get_str(trace, "worker");
        const char *key = instance ? instance : worker, *host = trace_host(trace);
        const char *known = key ? json_string_value(json_object_get(hosts, key)) : NULL;
        if (!key || (known && !streq(known, host)))
            return true;
        json_object_set_new(hosts, key, json_string(host));
    }
    return false;
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

/* One request for each host: what a reply leaves is asked for next. Parts are appended. */
static int remote_reports_ask(struct remote_reports *r, const json_t *names, json_t *parts)
{
    _cleanup_json_ left = remote_reports_names(r);
    int status = EXIT_DONE;

    while (status == EXIT_DONE && json_array_size(left) > 0) {
        _cleanup_json_ answer = NULL, *body = json_object();
        json_object_set(body, "traces", left);
        json_object_set(body, "reports", (json_t *)names);
        json_object_set_new(body, "facts", json_boolean(r->is_session));
        json_object_set_new(body, "view", remote_reports_view(r->options));
        status = client_call(r->c, "POST", "/v1/reports", body, "computing reports on the hosts", &answer);
        if (status != EXIT_DONE)
            break;
        json_t *more = json_object_get(answer, "left");
        if (json_array_size(more) >= json_array_size(left))
            return client_error(r->c, PROBLEM_UPSTREAM, "profctl list-hosts shows the versions of all hosts.",
                                "profd computes no report of these traces");
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

static int remote_reports_make_here(struct remote_reports *r, struct made_report *made, size_t n)
{
    int status = EXIT_DONE;

    if (!r->by_column) {
        r->by_column = xcalloc(1, sizeof(*r->by_column));
        status = analyzed_open(r->c, r->options, r->n_words, r->words, r->by_column);
    }
    if (status == EXIT_DONE)
        reports_make(made, n, &r->by_column->analysis);
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
    if (remote_instances_gather(r, parts, &instances) < 0) {
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
