/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/ranks.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/refs.h"
#include "client/local/user_profd.h"
#include "client/traces/exporting.h"
#include "client/traces/lost_hosts.h"
#include "client/traces/trace.h"
#include "client/traces/trace_paths.h"
#include "client/transport/download.h"
#include "trace/ranks/rank_set.h"
#include "trace/read/sum.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>

static void named_rank_done(struct named_rank *rank)
{
    columns_close(rank->columns);
    trace_file_done(&rank->file);
    free(rank->label);
    free(rank->path);
    free(rank->role);
    json_decref(rank->trace);
}

void ranks_done(struct named_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++)
        named_rank_done(&ranks->items[i]);
    free(ranks->items);
    free(ranks->instances);
    free(ranks->names);
}

/* -- Traces ------------------------------------------------------------------------------------------- */

int ranks_too_many(struct client *c)
{
    return client_error(c, PROBLEM_TOO_LARGE, "Name fewer traces.",
                        "cannot analyze more than %d traces together", RANKS_MAX);
}

/* A trace of a directory or session, which was not named itself, may be left out. */
static int ranks_leave_out(struct named_ranks *ranks, bool is_one_of_many, int status)
{
    if (!is_one_of_many)
        return status;
    ranks->status_left_out = status;
    ranks->n_left_out++;
    return EXIT_DONE;
}

static int ranks_add_trace(struct client *c, const char *word, json_t *trace, bool is_one_of_many,
                           struct named_ranks *ranks)
{
    if (ranks->n == RANKS_MAX)
        return ranks_too_many(c);
    VEC_GROW(ranks->items, ranks->n, ranks->cap);
    struct named_rank *rank = &ranks->items[ranks->n];

    *rank = (struct named_rank){.is_one_of_many = is_one_of_many, .kv_use = NAN};
    int status = trace_file_look(c, word, &rank->file);
    if (status != EXIT_DONE) {
        named_rank_done(rank);
        return ranks_leave_out(ranks, is_one_of_many, status);
    }
    rank->trace = json_incref(trace);
    rank->path = trace ? NULL : xstrdup(word);
    ranks->n++;
    return EXIT_DONE;
}

/* The highest use of the KV caches during the load of the session; a deleted run is no error. */
static void ranks_fetch_kv_use(struct client *c, int64_t run, json_t *workers)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/runs/r%" PRId64, run);
    _cleanup_json_ answer = NULL;
    json_t *worker;
    size_t i;

    if (connection_call(c->connection, "GET", path, NULL, NULL, &answer, &p) < 0)
        return;
    const json_t *server = json_object_get(answer, "server");
    json_array_foreach(json_object_get(server, "workers"), i, worker) {
        const char *url = json_get_str(worker, "url");
        json_t *peak = json_object_get(json_object_get(worker, "kv_cache_use"), "peak"),
               *known = json_object_get(workers, url ? url : "");
        if (known && json_is_number(peak))
            json_object_set(known, "kv_use", peak);
    }
}

/* Known facts about the workers of a session, by URL: {role, kv_use}. */
static int ranks_fetch_workers(struct client *c, const char *ref, json_t **ret_session, json_t **ret)
{
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", ref);
    int status = client_get(c, path, "reading the session", ret_session);
    const json_t *session = *ret_session;
    json_t *target;
    size_t i;

    *ret = json_object();
    json_array_foreach(json_object_get(session, "targets"), i, target) {
        const char *worker = json_get_str(target, "worker"), *role = json_get_str(target, "role");
        json_t *known = json_object();
        if (role && !streq(role, "unknown"))
            json_put_str(known, "role", role);
        if (worker)
            json_object_set(*ret, worker, known);
        json_decref(known);
    }
    if (json_object_get(session, "run"))
        ranks_fetch_kv_use(c, json_get_int(session, "run", 0), *ret);
    return status;
}

/* Without columns: the archive has it, or it came back from there and was not read since. */
static bool trace_may_be_read(const struct client *c, const json_t *trace)
{
    const char *path = json_get_str(trace, "path");
    bool is_here = connection_is_local(c->connection) && !json_get_str(trace, "host_uuid");

    return trace_json_is_archived(trace) ||
           (json_object_get(trace, "archived_at") && !json_get_str(trace, "columns_reason") && is_here &&
            path && access(path, R_OK) == 0);
}

/* Traces of a front end and attachments are not of a rank: they are left out, with one note. */
int ranks_add_session(struct client *c, const char *session, struct named_ranks *ranks)
{
    _cleanup_json_ answer = NULL, *workers = NULL, *facts = NULL;
    char ref[REF_TEXT_MAX];
    _cleanup_(freep) char *left_out = NULL, *lost = NULL;
    size_t i;
    json_t *trace;

    char found[REF_TEXT_MAX];
    int status = EXIT_DONE;
    if (ref_is_uuid(session) && (status = ref_look_up(c, session, found)) == EXIT_DONE)
        session = found;
    if (status != EXIT_DONE)
        return status;
    if (client_parse_ref(c, session, 's', "s", ref) < 0)
        return EXIT_USAGE;
    _cleanup_(freep) char *path = xasprintf("/v1/traces?session=%s", ref);
    status = client_need_profd(c);
    if (status == EXIT_DONE)
        status = ranks_fetch_workers(c, ref, &facts, &workers);
    if (status == EXIT_DONE)
        status = traces_fetch(c, path, INT64_MAX, &answer);
    if (status == EXIT_DONE)
        trace_note_part(c, ref, facts, answer);
    json_array_foreach(json_object_get(answer, "traces"), i, trace) {
        const char *worker = json_get_str(trace, "worker");
        const json_t *known = worker ? json_object_get(workers, worker) : NULL;
        const char *id = json_get_str(trace, "trace"), *kind = json_get_str(trace, "kind");
        if (status != EXIT_DONE || !id)
            break;
        if (trace_is_lost(c, trace)) {
            if (!lost_trace_is_noted(c, trace))
                trace_list_add(&lost, trace);
            ranks->n_noted++;
            status = ranks_leave_out(ranks, true, EXIT_FAILED);
        } else if (!streq(kind, "trace")) {
            append_str(&left_out, "%s%s (%s)", left_out ? ", " : "", id, kind ? kind : "unknown");
        } else if (!json_get_str(trace, "columns") && !trace_may_be_read(c, trace)) {
            client_note(c, "%s is left out: it was not read", id);
            status = ranks_leave_out(ranks, true, EXIT_FAILED);
        } else {
            size_t n = ranks->n;
            status = ranks_add_trace(c, id, trace, true, ranks);
            if (status == EXIT_DONE && ranks->n == n) {
                trace_list_add(&lost, trace);
                ranks->n_noted++;
            }
            if (status == EXIT_DONE && ranks->n > n) {
                ranks->items[n].role = xstrdup(json_get_str(known, "role"));
                ranks->items[n].kv_use = json_get_number(known, "kv_use", NAN);
            }
        }
    }
    if (lost)
        client_note(c, "left out: %s", lost);
    if (left_out)
        client_note(c, "left out, as they are not traces of a rank: %s", left_out);
    return status;
}

/* A trace, or all of a directory. */
int ranks_add_word(struct client *c, char *word, struct named_ranks *ranks)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(trace_paths_done) struct trace_paths paths = {0};
    int64_t id;
    int status = EXIT_DONE;

    if (parse_ref(word, 't', &id) == 't' || access(word, F_OK) < 0)
        return ranks_add_trace(c, word, NULL, false, ranks);
    if (trace_paths_find(&paths, 1, &word, &p) < 0)
        return client_fail(c, &p);
    if (paths.n > RANKS_MAX - ranks->n)
        return ranks_too_many(c);
    bool is_directory = paths.n > 1 || !streq(paths.items[0], word);
    for (size_t i = 0; i < paths.n && status == EXIT_DONE; i++)
        status = ranks_add_trace(c, paths.items[i], NULL, is_directory, ranks);
    return status;
}

static int compare_ranks(const void *x, const void *y)
{
    const struct named_rank *a = x, *b = y;
    return strverscmp(a->label, b->label);
}

/* Traces of profd of equal content, such as those of two hosts, have the same columns in the cache. */
static bool ranks_are_two_ids(const struct named_rank *a, const struct named_rank *b)
{
    int64_t one, other;
    return parse_ref(a->file.name, 0, &one) == 't' && parse_ref(b->file.name, 0, &other) == 't' &&
           one != other;
}

/* The name of a trace that is named twice. */
static const char *ranks_find_twice(const struct named_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++) {
        struct stat one, other;
        for (size_t k = 0; k < i; k++)
            if (!ranks_are_two_ids(&ranks->items[i], &ranks->items[k]) &&
                fstat(ranks->items[i].file.columns_fd, &one) == 0 &&
                fstat(ranks->items[k].file.columns_fd, &other) == 0 && one.st_ino == other.st_ino &&
                one.st_dev == other.st_dev)
                return ranks->items[i].file.name;
    }
    return NULL;
}

/* Opens the columns of each rank; traces that could not be read are left out if that is allowed. */
static int ranks_open_columns(struct client *c, const int *statuses, struct named_ranks *ranks)
{
    size_t kept = 0, n = ranks->n;
    int status = EXIT_DONE;

    for (size_t i = 0; i < n; i++) {
        struct named_rank rank = ranks->items[i];
        if (rank.columns) {
            ranks->items[kept++] = rank;
            continue;
        }
        int opened = statuses[i] == EXIT_DONE ? exporting_columns(c, &rank.file, &rank.columns) : statuses[i];
        if (opened == EXIT_DONE) {
            rank.label = rank_label(rank.trace, rank.columns, rank.file.name);
            ranks->items[kept++] = rank;
            continue;
        }
        int left_out = ranks_leave_out(ranks, rank.is_one_of_many, opened);
        status = status == EXIT_DONE ? left_out : status;
        named_rank_done(&rank);
    }
    ranks->n = kept;
    return status;
}

static int ranks_read(struct client *c, int64_t memory_limit, struct named_ranks *ranks)
{
    _cleanup_(freep) struct trace_file **files = xcalloc(ranks->n + 1, sizeof(struct trace_file *));
    _cleanup_(freep) int *statuses = xcalloc(ranks->n + 1, sizeof(*statuses));

    for (size_t i = 0; i < ranks->n; i++)
        files[i] = &ranks->items[i].file;
    int status = trace_files_read(c, files, ranks->n, memory_limit, statuses);
    return status == EXIT_DONE ? ranks_open_columns(c, statuses, ranks) : status;
}

/* -- Merged traces ------------------------------------------------------------------------------------ */

/* The parts of a trace of profctl merge; NULL: another trace. The caller releases it. */
static json_t *named_rank_parts(const struct named_rank *rank)
{
    struct text text = columns_meta_text(rank->columns, META_merged);
    char error[200];
    json_t *parts = text.size > 0 ? json_parse(text.p, text.size, error) : NULL;

    if (json_array_size(parts) > 1)
        return parts;
    json_decref(parts);
    return NULL;
}

/* Adds the parts of a merged trace; -ENOENT if its original cannot be read. */
static int ranks_add_parts(struct client *c, struct named_rank *merged, const json_t *parts,
                           struct named_ranks *ret)
{
    size_t i;
    json_t *one;

    json_array_foreach(parts, i, one) {
        struct merged_part part = {.number = (int64_t)i + 1,
                                   .first_pid = json_get_int(one, "firstPid", 0),
                                   .last_pid = json_get_int(one, "lastPid", 0)};
        const char *label = json_get_str(one, "label");
        json_t *trace = json_object_get(one, "trace");
        if (part.first_pid <= 0 || part.last_pid < part.first_pid)
            continue; /* no events */
        VEC_GROW(ret->items, ret->n, ret->cap);
        struct named_rank *rank = &ret->items[ret->n++];
        *rank = (struct named_rank){.is_one_of_many = merged->is_one_of_many,
                                    .kv_use = json_get_number(trace, "kv_use", NAN),
                                    .trace = json_is_object(trace) ? json_incref(trace) : json_object()};
        if (json_get_str(rank->trace, "role"))
            rank->role = xstrdup(json_get_str(rank->trace, "role"));
        if (trace_file_part(c, &merged->file, &part, label ? label : "", &rank->file) < 0)
            return -ENOENT;
    }
    return 0;
}

/* Replaces merged traces by their ranks. */
static int ranks_split_merged(struct client *c, int64_t memory_limit, struct named_ranks *ranks)
{
    struct named_ranks all = {0};
    int status = EXIT_DONE;
    bool any = false;

    for (size_t i = 0; i < ranks->n; i++) {
        struct named_rank *rank = &ranks->items[i];
        _cleanup_json_ parts = named_rank_parts(rank);
        size_t n = all.n;
        if (parts && n + json_array_size(parts) + (ranks->n - i) > RANKS_MAX)
            status = ranks_too_many(c);
        if (parts && status == EXIT_DONE && ranks_add_parts(c, rank, parts, &all) == 0) {
            any = true;
            named_rank_done(rank);
            continue;
        }
        while (all.n > n)
            named_rank_done(&all.items[--all.n]);
        if (parts && status == EXIT_DONE)
            client_note(c, "%s is a merged trace whose original cannot be read: its ranks are shown as one",
                        rank->file.name);
        VEC_GROW(all.items, all.n, all.cap);
        all.items[all.n++] = *rank;
    }
    free(ranks->items);
    ranks->items = all.items;
    ranks->n = all.n;
    ranks->cap = all.cap;
    return status == EXIT_DONE && any ? ranks_read(c, memory_limit, ranks) : status;
}

/* -- SQL ---------------------------------------------------------------------------------------------- */

static struct named_rank *ranks_find_sql_id(struct named_ranks *ranks, int64_t id)
{
    for (size_t i = 0; i < ranks->n; i++)
        if (ranks->items[i].sql_id == id)
            return &ranks->items[i];
    return NULL;
}

static int ranks_open_sql(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd,
                          char **ret_error)
{
    struct named_rank *rank = ranks_find_sql_id(arg, trace_id);

    if (rank) {
        struct sql_source one = trace_file_source(&rank->file);
        return one.open(one.arg, 0, ret_columns_fd, ret_source_fd, ret_error);
    }
    *ret_error = xasprintf("trace %" PRId64 " is none of those that are queried", trace_id);
    return -ENOENT;
}

static int ranks_sql_columns(void *arg, int64_t trace_id, struct columns **ret, char **ret_reason)
{
    const struct named_rank *rank = ranks_find_sql_id(arg, trace_id);
    return rank ? trace_file_columns(&rank->file, ret, ret_reason) : -ENOENT;
}

static int ranks_list_sql(void *arg, int64_t **ret_ids, size_t *ret_n, char **ret_error)
{
    const struct named_ranks *ranks = arg;

    *ret_ids = xcalloc(ranks->n + 1, sizeof(**ret_ids));
    for (size_t i = 0; i < ranks->n; i++)
        (*ret_ids)[i] = ranks->items[i].sql_id;
    *ret_n = ranks->n;
    return 0;
}

static const struct sql_origin *ranks_sql_origin(void *arg, int64_t trace_id)
{
    const struct named_rank *rank = ranks_find_sql_id(arg, trace_id);
    return rank ? &rank->sql_origin : NULL;
}

struct sql_source ranks_source(struct named_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++) {
        struct named_rank *rank = &ranks->items[i];
        const char *id = json_get_str(rank->trace, "trace");
        rank->sql_id = (int64_t)i + 1;
        if (id)
            parse_ref(id, 't', &rank->sql_id);
        rank->sql_origin = (struct sql_origin){
            .rank = ranks->instances ? rank->number : columns_meta(rank->columns, META_rank),
            .instance = ranks->instances ? ranks->instances[rank->instance].name : NULL,
            .worker = json_get_str(rank->trace, "worker")};
    }
    return (struct sql_source){.open = ranks_open_sql,
                               .columns = ranks_sql_columns,
                               .list = ranks_list_sql,
                               .origin = ranks_sql_origin,
                               .arg = ranks};
}

int ranks_status(const struct named_ranks *ranks, int status)
{
    return status == EXIT_DONE && ranks->n_left_out > 0 ? EXIT_PARTIAL : status;
}

int ranks_settle(struct client *c, int64_t memory_limit, struct named_ranks *ranks)
{
    int status = ranks_read(c, memory_limit, ranks);

    if (status == EXIT_DONE)
        status = ranks_split_merged(c, memory_limit, ranks);
    if (status != EXIT_DONE)
        return status;
    if (ranks->n == 0 && ranks->n_left_out > 0)
        return ranks->status_left_out;
    if (ranks->n_left_out > ranks->n_noted)
        client_note(c, "%zu of %zu traces could not be read, and %s left out", ranks->n_left_out,
                    ranks->n + ranks->n_left_out, ranks->n_left_out == 1 ? "is" : "are");
    const char *twice = ranks_find_twice(ranks);
    if (ranks->n > 1)
        qsort(ranks->items, ranks->n, sizeof(*ranks->items), compare_ranks);
    return twice ? client_refuse(c, "Name each trace once.", "%s is named twice", twice) : EXIT_DONE;
}

char *ranks_model(struct client *c, const struct named_ranks *ranks)
{
    const json_t *trace = ranks->n > 0 ? ranks->items[0].trace : NULL;
    const char *ref = json_get_str(trace, "session"), *worker = json_get_str(trace, "worker");
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ session = NULL;
    size_t i;
    json_t *target;

    if (!ref)
        return NULL;
    _cleanup_(freep) char *path = ref_path(ref);
    if (connection_call(c->connection, "GET", path, NULL, NULL, &session, &p) < 0)
        return NULL;
    json_array_foreach(json_object_get(session, "targets"), i, target) {
        const char *url = json_get_str(target, "worker"), *model = json_get_str(target, "model");
        if (model && (!worker || (url && streq(url, worker))))
            return xstrdup(model);
    }
    return NULL;
}
