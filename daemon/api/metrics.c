/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profd's operator watches, in the text format of Prometheus: one table of names, types and help, each
 * with the function that takes its values from the room that counts them.
 *
 * Labels have few values, all known here: no session, no worker, no client is one.
 */
#include "daemon/session/metrics.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/api/api_internal.h"
#include "daemon/api/ready.h"
#include "daemon/catalog/catalog.h"
#include "daemon/collect/collector.h"
#include "daemon/ingest/ingest.h"
#include "version.h"
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <sys/resource.h>

#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define STAT_MAX     4096

/* What an answer is made of. */
struct scrape {
    struct api *api;
    FILE *out;
    const struct session_metrics *sessions;
    struct session_gauges gauges;
    struct catalog_metrics catalog;
    struct ingest_metrics ingest;
    struct store_usage store;
    struct runs_metrics runs;
    struct answer_usage answers;
};

struct family {
    const char *name, *type, *help;
    double (*value)(const struct scrape *s);                       /* of what has no labels */
    void (*write)(const struct scrape *s, const struct family *f); /* of what has some */
};

/* -- The format --------------------------------------------------------------------------------------- */

static double seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static void write_value(const struct scrape *s, double value)
{
    if (isnan(value))
        fputs(" NaN\n", s->out);
    else
        fprintf(s->out, " %.15g\n", value);
}

/* labels: "state=\"recording\"", or NULL. */
static void write_sample(const struct scrape *s, const struct family *f, const char *labels, double value)
{
    fprintf(s->out, labels ? "%s{%s}" : "%s", f->name, labels);
    write_value(s, value);
}

static void write_bucket(const struct scrape *s, const struct family *f, const char *labels,
                         const char *bound, uint64_t count)
{
    fprintf(s->out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", f->name, labels ? labels : "",
            labels ? "," : "", bound, count);
}

static void write_histogram(const struct scrape *s, const struct family *f, const char *labels,
                            const struct histogram *h)
{
    const char *open = labels ? "{" : "", *close = labels ? "}" : "", *inside = labels ? labels : "";
    const struct histogram_bounds *bounds = &histogram_bounds[h->scale];
    uint64_t n = 0;
    char bound[32];

    for (size_t i = 0; i < bounds->n; i++) {
        snprintf(bound, sizeof(bound), "%g", seconds(bounds->ns[i]));
        write_bucket(s, f, labels, bound, n += h->counts[i]);
    }
    write_bucket(s, f, labels, "+Inf", n += h->counts[bounds->n]);
    fprintf(s->out, "%s_sum%s%s%s", f->name, open, inside, close);
    write_value(s, seconds(h->sum_ns));
    fprintf(s->out, "%s_count%s%s%s %" PRIu64 "\n", f->name, open, inside, close, n);
}

/* -- Sessions and the calls to workers ---------------------------------------------------------------- */

static const char *const call_names[_SESSION_CALL_MAX] = {
    [SESSION_CALL_START] = "start",
    [SESSION_CALL_STOP] = "stop",
};
static const char *const outcome_names[_CALL_OUTCOME_MAX] = {
    [CALL_OK] = "ok",
    [CALL_REFUSED] = "refused",
    [CALL_UNANSWERED] = "unanswered",
};

static void write_states(const struct scrape *s, const struct family *f, const uint64_t *counts,
                         enum state from, enum state to)
{
    char labels[64];

    for (enum state state = from; state < to; state++) {
        snprintf(labels, sizeof(labels), "state=\"%s\"", state_name(state));
        write_sample(s, f, labels, (double)counts[state]);
    }
}

static void write_sessions(const struct scrape *s, const struct family *f)
{
    write_states(s, f, s->gauges.sessions, STATE_REQUESTED, STATE_COMPLETE);
}

static void write_targets(const struct scrape *s, const struct family *f)
{
    write_states(s, f, s->gauges.targets, STATE_REQUESTED, _STATE_MAX);
}

static void write_ended(const struct scrape *s, const struct family *f)
{
    write_states(s, f, s->sessions->ended, STATE_COMPLETE, _STATE_MAX);
}

static void write_session_durations(const struct scrape *s, const struct family *f)
{
    write_histogram(s, f, NULL, &s->sessions->durations);
}

static void write_skews(const struct scrape *s, const struct family *f)
{
    write_histogram(s, f, NULL, &s->sessions->start_skews);
}

static void write_calls(const struct scrape *s, const struct family *f)
{
    char labels[128];

    for (int call = 0; call < _SESSION_CALL_MAX; call++)
        for (int engine = 0; engine < _ENGINE_MAX; engine++)
            for (int outcome = 0; outcome < _CALL_OUTCOME_MAX; outcome++) {
                snprintf(labels, sizeof(labels), "call=\"%s\",engine=\"%s\",result=\"%s\"", call_names[call],
                         engine_name((enum engine)engine), outcome_names[outcome]);
                write_sample(s, f, labels, (double)s->sessions->calls[call][engine][outcome]);
            }
}

static void write_call_durations(const struct scrape *s, const struct family *f)
{
    char labels[64];

    for (int call = 0; call < _SESSION_CALL_MAX; call++) {
        snprintf(labels, sizeof(labels), "call=\"%s\"", call_names[call]);
        write_histogram(s, f, labels, &s->sessions->call_durations[call]);
    }
}

static double stops_owed(const struct scrape *s)
{
    return (double)s->gauges.stops_owed;
}

static double oldest_stop(const struct scrape *s)
{
    int64_t sent_ns = s->gauges.oldest_stop_sent_ns;
    return sent_ns == INT64_MAX ? 0 : seconds(mono_ns() - sent_ns);
}

/* -- Traces, store, ingest, catalog ------------------------------------------------------------------- */

static void write_added(const struct scrape *s, const struct family *f)
{
    char labels[64];

    for (int state = 0; state < _TRACE_STATE_MAX; state++) {
        snprintf(labels, sizeof(labels), "state=\"%s\"", trace_state_name((enum trace_state)state));
        write_sample(s, f, labels, (double)s->catalog.traces_added[state]);
    }
}

static double traces_removed(const struct scrape *s)
{
    return (double)s->catalog.traces_removed;
}

static double traces_skipped(const struct scrape *s)
{
    return (double)collector_skipped(s->api->modules.collector);
}

static double traces(const struct scrape *s)
{
    return (double)s->store.traces;
}

static double store_bytes(const struct scrape *s)
{
    return (double)s->store.bytes;
}

static double store_limit(const struct scrape *s)
{
    return (double)s->store.max_use;
}

static double store_free_bytes(const struct scrape *s)
{
    return (double)s->store.free;
}

static double store_keep_free(const struct scrape *s)
{
    return (double)s->store.keep_free;
}

static double evictions(const struct scrape *s)
{
    return (double)store_evictions(s->api->modules.store);
}

static double ingest_running(const struct scrape *s)
{
    return s->ingest.running;
}

static double ingest_waiting(const struct scrape *s)
{
    return s->ingest.waiting;
}

static void write_ingested(const struct scrape *s, const struct family *f)
{
    write_sample(s, f, "result=\"read\"", (double)s->ingest.read);
    write_sample(s, f, "result=\"failed\"", (double)s->ingest.failed);
    write_sample(s, f, "result=\"killed\"", (double)s->ingest.killed);
}

static double ingest_put_back(const struct scrape *s)
{
    return (double)s->ingest.put_back;
}

static double ingest_bytes(const struct scrape *s)
{
    return (double)s->ingest.bytes;
}

static void write_ingest_durations(const struct scrape *s, const struct family *f)
{
    write_histogram(s, f, NULL, &s->ingest.durations);
}

static double catalog_writable(const struct scrape *s)
{
    return !catalog_is_broken(s->api->modules.catalog);
}

static double wal_bytes(const struct scrape *s)
{
    return (double)s->catalog.wal_bytes;
}

static void write_commits(const struct scrape *s, const struct family *f)
{
    write_sample(s, f, "result=\"ok\"", (double)s->catalog.commits);
    write_sample(s, f, "result=\"failed\"", (double)s->catalog.failed_commits);
}

/* -- The API and the process ------------------------------------------------------------------------- */

static const char *const class_names[_ROUTE_CLASS_MAX] = {
    [ROUTE_CLASS_NONE] = "none",   [ROUTE_CLASS_PROBE] = "probe",   [ROUTE_CLASS_READ] = "read",
    [ROUTE_CLASS_FLEET] = "fleet", [ROUTE_CLASS_CHANGE] = "change",
};
static const char *const denial_names[_DENIAL_MAX] = {
    [DENIAL_WEB_PAGE] = "web-page",       [DENIAL_NAME] = "name",           [DENIAL_NO_TOKEN] = "no-token",
    [DENIAL_WRONG_TOKEN] = "wrong-token", [DENIAL_THROTTLED] = "throttled", [DENIAL_ROLE] = "role",
};

static void write_requests(const struct scrape *s, const struct family *f)
{
    char labels[160];

    for (size_t i = 0; i <= routes_count(); i++) {
        const struct route *route = route_at(i);
        for (int class = 2; class <= 5; class ++) {
            snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\",code=\"%dxx\"",
                     route ? http_method_name(route->method) : "", route ? route->pattern : "", class);
            write_sample(s, f, labels, (double)s->api->counts[i].by_class[class - 1]);
        }
    }
}

static void write_refusals(const struct scrape *s, const struct family *f)
{
    char labels[32];

    for (size_t i = 0; http_refusal_status(i); i++) {
        snprintf(labels, sizeof(labels), "code=\"%d\"", http_refusal_status(i));
        write_sample(s, f, labels, (double)http_refusals(s->api->server, i));
    }
}

/* Nothing that profd answers has another class: it redirects nobody. */
static void write_request_durations(const struct scrape *s, const struct family *f)
{
    static const int statuses[] = {2, 4, 5};
    char labels[64];

    for (int class = 0; class < _ROUTE_CLASS_MAX; class ++)
        for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
            snprintf(labels, sizeof(labels), "class=\"%s\",code=\"%dxx\"", class_names[class], statuses[i]);
            write_histogram(s, f, labels, &s->api->durations[class].by_class[statuses[i] - 1]);
        }
}

static void write_denials(const struct scrape *s, const struct family *f)
{
    const uint64_t *denials = access_denials(s->api->access);
    char labels[64];

    for (int why = 0; why < _DENIAL_MAX; why++) {
        snprintf(labels, sizeof(labels), "reason=\"%s\"", denial_names[why]);
        write_sample(s, f, labels, (double)denials[why]);
    }
}

static double refused_calls(const struct scrape *s)
{
    return (double)fleet_refused_calls(s->api->modules.finder);
}

static double connections(const struct scrape *s)
{
    return http_connections(s->api->server);
}

static double displaced(const struct scrape *s)
{
    return (double)http_displaced(s->api->server);
}

static double connections_limit(const struct scrape *s)
{
    return s->api->modules.settings->connections_max;
}

static double loop_lag(const struct scrape *s)
{
    return seconds(loop_lag_take(s->api->modules.lag));
}

static void write_ready(const struct scrape *s, const struct family *f)
{
    char labels[64];

    for (const struct ready_check *check = ready_checks; check->name; check++) {
        _cleanup_(problem_done) struct problem p = {0};
        snprintf(labels, sizeof(labels), "check=\"%s\"", check->name);
        write_sample(s, f, labels, check->run(s->api, &p) >= 0);
    }
}

static void write_build(const struct scrape *s, const struct family *f)
{
    write_sample(s, f, "version=\"" PROFD_VERSION "\"", 1);
}

static double cpu_seconds(const struct scrape *s)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Pages, in the order of /proc/self/statm: all, resident. */
static double statm_bytes(unsigned column)
{
    _cleanup_(freep) char *text = NULL;
    unsigned long long pages[2];

    if (read_file(-1, "/proc/self/statm", STAT_MAX, &text, NULL) < 0 ||
        sscanf(text, "%llu %llu", &pages[0], &pages[1]) != 2)
        return NAN;
    return (double)pages[column] * (double)sysconf(_SC_PAGESIZE);
}

static double virtual_bytes(const struct scrape *s)
{
    return statm_bytes(0);
}

static double resident_bytes(const struct scrape *s)
{
    return statm_bytes(1);
}

static double open_fds(const struct scrape *s)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = -3; /* ".", ".." and the directory's own */

    while (dir && readdir(dir))
        n++;
    if (!dir)
        return NAN;
    closedir(dir);
    return n;
}

static double max_fds(const struct scrape *s)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (double)limit.rlim_cur : NAN;
}

static double start_time(const struct scrape *s)
{
    return seconds(s->api->started_at);
}

static double runs_running(const struct scrape *s)
{
    return (double)s->runs.running;
}

static void write_runs_ended(const struct scrape *s, const struct family *f)
{
    char labels[64];

    for (int state = RUN_COMPLETE; state < _RUN_STATE_MAX; state++) {
        snprintf(labels, sizeof(labels), "state=\"%s\"", run_state_name(state));
        write_sample(s, f, labels, (double)s->runs.ended[state]);
    }
}

static void write_run_requests(const struct scrape *s, const struct family *f)
{
    static const char *const outcomes[] = {"success", "incomplete", "error"};
    char labels[64];

    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
        snprintf(labels, sizeof(labels), "outcome=\"%s\"", outcomes[i]);
        write_sample(s, f, labels, (double)s->runs.requests[i]);
    }
}

static double requests_unsaved(const struct scrape *s)
{
    return (double)s->runs.unsaved;
}

static double answer_bytes(const struct scrape *s)
{
    return (double)s->answers.held;
}

static double answer_limit(const struct scrape *s)
{
    return (double)s->api->modules.fleet_settings->response_memory_max;
}

static double answers_waiting(const struct scrape *s)
{
    return s->answers.waiting;
}

/* clang-format off */
static const struct family families[] = {
    {"profd_build_info", "gauge", "The version of profd that runs; always 1.", NULL, write_build},
    {"profd_ready", "gauge", "Whether profd can do its work, as /readyz says: 1 yes, 0 no.", NULL, write_ready},

    {"profd_sessions", "gauge", "Sessions that are not over.", NULL, write_sessions},
    {"profd_sessions_ended_total", "counter", "Sessions that ended, by how.", NULL, write_ended},
    {"profd_session_duration_seconds", "histogram", "From a session's request to its end.", NULL, write_session_durations},
    {"profd_session_start_skew_seconds", "histogram", "Between the first and the last start that left for a session.", NULL, write_skews},
    {"profd_targets", "gauge", "Workers of sessions that are not over.", NULL, write_targets},
    {"profd_stops_owed", "gauge", "Workers whose recording is over, and whose stop was not answered yet.", stops_owed, NULL},
    {"profd_stop_owed_oldest_seconds", "gauge", "For how long the oldest of these stops is on its way.", oldest_stop, NULL},
    {"profd_worker_calls_total", "counter", "Starts and stops that were sent to workers; each try of a stop.", NULL, write_calls},
    {"profd_worker_call_duration_seconds", "histogram", "How long workers took to answer them.", NULL, write_call_durations},

    {"profd_network_refused_total", "counter", "Calls to routers and workers that [network] allow= refused.", refused_calls, NULL},

    {"profd_answer_bytes", "gauge", "Memory reserved for answers of routers and workers.", answer_bytes, NULL},
    {"profd_answer_limit_bytes", "gauge", "Limit of that memory.", answer_limit, NULL},
    {"profd_answers_waiting", "gauge", "Answers whose reading is paused until there is memory for them.", answers_waiting, NULL},

    {"profd_traces", "gauge", "Traces in the catalog.", traces, NULL},
    {"profd_traces_added_total", "counter", "Traces that were taken into the catalog, by the state of their file.", NULL, write_added},
    {"profd_traces_skipped_total", "counter", "Traces that an engine wrote unasked and that were too many to collect.", traces_skipped, NULL},
    {"profd_traces_removed_total", "counter", "Traces that left the catalog.", traces_removed, NULL},
    {"profd_store_bytes", "gauge", "What traces and columns take in the store.", store_bytes, NULL},
    {"profd_store_limit_bytes", "gauge", "What they may take.", store_limit, NULL},
    {"profd_store_free_bytes", "gauge", "What is free on the store's file system.", store_free_bytes, NULL},
    {"profd_store_keep_free_bytes", "gauge", "What profd leaves free there.", store_keep_free, NULL},
    {"profd_store_evictions_total", "counter", "Traces, or columns of a trace, that went for the store's budget.", evictions, NULL},

    {"profd_ingest_running", "gauge", "Files that are being read.", ingest_running, NULL},
    {"profd_ingest_waiting", "gauge", "Files that wait for it.", ingest_waiting, NULL},
    {"profd_ingest_files_total", "counter", "Files that profd-ingest read, could not read, or was killed over.", NULL, write_ingested},
    {"profd_ingest_put_back_total", "counter", "Times that a file gave up its place to those of others.", ingest_put_back, NULL},
    {"profd_ingest_bytes_total", "counter", "Bytes of those files.", ingest_bytes, NULL},
    {"profd_ingest_duration_seconds", "histogram", "How long reading a file took.", NULL, write_ingest_durations},

    {"profd_runs", "gauge", "Runs of workloads that are not over.", runs_running, NULL},
    {"profd_runs_ended_total", "counter", "Runs that ended, by how.", NULL, write_runs_ended},
    {"profd_run_requests_total", "counter", "Requests that runs sent, by what became of them.", NULL, write_run_requests},
    {"profd_run_requests_unsaved_total", "counter", "Of these, those that the catalog could not take.", requests_unsaved, NULL},

    {"profd_catalog_writable", "gauge", "Whether the catalog took its last commit: 1 yes, 0 no.", catalog_writable, NULL},
    {"profd_catalog_commits_total", "counter", "Commits of the catalog.", NULL, write_commits},
    {"profd_catalog_wal_bytes", "gauge", "Size of the catalog's write-ahead log.", wal_bytes, NULL},

    {"profd_http_requests_total", "counter", "Requests that were answered; without a route, those to no address of profd's.", NULL, write_requests},
    {"profd_http_request_duration_seconds", "histogram", "From when a request was whole until its answer, or the beginning of its stream, was made.", NULL, write_request_durations},
    {"profd_http_denied_total", "counter", "Requests by TCP that were refused for who asks, by why.", NULL, write_denials},
    {"profd_http_refused_total", "counter", "Clients that were refused before their request was looked at; 503 are those over the limit of connections.", NULL, write_refusals},
    {"profd_http_displaced_total", "counter", "Connections without a token that were closed to make room for others.", displaced, NULL},
    {"profd_http_connections", "gauge", "Open connections.", connections, NULL},
    {"profd_http_connections_limit", "gauge", "How many there may be.", connections_limit, NULL},
    {"profd_event_loop_lag_seconds", "gauge", "The longest that the event loop was late since this was last asked.", loop_lag, NULL},

    {"process_cpu_seconds_total", "counter", "Processor time of profd, in user and system mode.", cpu_seconds, NULL},
    {"process_resident_memory_bytes", "gauge", "Resident memory of profd.", resident_bytes, NULL},
    {"process_virtual_memory_bytes", "gauge", "Virtual memory of profd.", virtual_bytes, NULL},
    {"process_open_fds", "gauge", "Descriptors that profd has open.", open_fds, NULL},
    {"process_max_fds", "gauge", "How many it may have.", max_fds, NULL},
    {"process_start_time_seconds", "gauge", "When profd started, since the Unix epoch.", start_time, NULL},
};
/* clang-format on */

/* -- The answer --------------------------------------------------------------------------------------- */

static void take_values(struct scrape *s)
{
    const struct api_modules *modules = &s->api->modules;

    s->sessions = sessions_metrics(modules->sessions);
    sessions_gauges(modules->sessions, &s->gauges);
    catalog_metrics(modules->catalog, &s->catalog);
    ingest_metrics(modules->ingest, &s->ingest);
    store_usage(modules->store, &s->store);
    runs_metrics(modules->runs, &s->runs);
    s->answers = caller_answers(modules->caller);
}

static void write_family(const struct scrape *s, const struct family *f)
{
    fprintf(s->out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, f->type);
    if (f->value)
        write_sample(s, f, NULL, f->value(s));
    else
        f->write(s, f);
}

void get_metrics(struct api *api, struct http_request *r, int64_t id)
{
    struct scrape s = {.api = api};
    char *text = NULL;
    size_t size;

    s.out = xmemstream(&text, &size);
    take_values(&s);
    for (size_t i = 0; i < ARRAY_SIZE(families); i++)
        write_family(&s, &families[i]);
    fclose(s.out);
    http_reply(r, 200, CONTENT_TYPE, text, size);
    free(text);
}
