/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metrics, in the text format of Prometheus: one table of names, types and help. Values come from the modules
 * that count them, all taken before the first is written.
 *
 * Labels have few values, all known here: no session, no worker, no client is one.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/process_info.h"
#include "daemon/api/handler.h"
#include "daemon/archive/archiver.h"
#include "daemon/catalog/catalog.h"
#include "daemon/collect/collector.h"
#include "daemon/hosts/leases.h"
#include "daemon/hosts/parts.h"
#include "daemon/ingest/ingest.h"
#include "daemon/kineto/kineto.h"
#include "daemon/peers/peers.h"
#include "version.h"
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <sys/resource.h>

#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define STAT_MAX     4096

struct metrics_scrape {
    struct api *api;
    FILE *out;
    const struct session_metrics *sessions;
    struct session_gauges gauges;
    struct catalog_metrics catalog;
    struct ingest_metrics ingest;
    struct reports_metrics reports;
    struct viewers_metrics viewers;
    struct runs_metrics runs;
    struct archiver_metrics archive;
    const struct lease_metrics *leases;
    uint64_t n_leases[_LEASE_STATE_MAX];
    struct metric_values {
        double stops_pending, oldest_stop_s, network_refused, peer_clock_offset_s, response_bytes,
            response_limit, responses_waiting, traces, traces_skipped, traces_removed, store_bytes,
            store_limit, store_free_bytes, store_keep_free, evictions, ingest_running, ingest_waiting,
            ingest_requeued, ingest_bytes, reports_running, reports_waiting, viewers, viewers_waiting,
            viewers_started, runs, requests_unsaved, catalog_writable, wal_bytes, displaced, connections,
            connections_limit, loop_lag_s, kineto_processes, kineto_polls, kineto_answers, kineto_late,
            kineto_configs, kineto_refused, cpu_s, resident_bytes, virtual_bytes, open_fds, max_fds,
            start_time_s, archive_failing, archive_waiting, archive_waiting_bytes, archive_lag_s,
            archive_uploaded_bytes, archive_fetched_bytes, mirror_lag, mirror_lag_s, mirror_rows,
            mirror_failures, mirror_refused, mirror_connected, parts_open, parts_late, parts_lost,
            remote_traces;
    } values; /* of families without labels */
    struct peers_metrics peers;
};

struct metric_family {
    const char *name, *type, *help;
    size_t value;                                                                 /* offset of a value */
    void (*write)(const struct metrics_scrape *s, const struct metric_family *f); /* NULL: the value alone */
};

/* -- The format --------------------------------------------------------------------------------------- */

static double metrics_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static void metrics_write_value(const struct metrics_scrape *s, double value)
{
    if (isnan(value))
        fputs(" NaN\n", s->out);
    else
        fprintf(s->out, " %.15g\n", value);
}

/* labels: "state=\"recording\"", or NULL. */
static void metrics_write_sample(const struct metrics_scrape *s, const struct metric_family *f,
                                 const char *labels, double value)
{
    fprintf(s->out, labels ? "%s{%s}" : "%s", f->name, labels);
    metrics_write_value(s, value);
}

static void metrics_write_bucket(const struct metrics_scrape *s, const struct metric_family *f,
                                 const char *labels, const char *bound, uint64_t count)
{
    fprintf(s->out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", f->name, labels ? labels : "",
            labels ? "," : "", bound, count);
}

static void metrics_write_histogram(const struct metrics_scrape *s, const struct metric_family *f,
                                    const char *labels, const struct histogram *h)
{
    const char *open = labels ? "{" : "", *close = labels ? "}" : "", *inside = labels ? labels : "";
    const struct histogram_bounds *bounds = &histogram_bounds[h->scale];
    uint64_t n = 0;
    char bound[32];

    for (size_t i = 0; i < bounds->n; i++) {
        snprintf(bound, sizeof(bound), "%g", metrics_seconds(bounds->ns[i]));
        metrics_write_bucket(s, f, labels, bound, n += h->counts[i]);
    }
    metrics_write_bucket(s, f, labels, "+Inf", n += h->counts[bounds->n]);
    fprintf(s->out, "%s_sum%s%s%s", f->name, open, inside, close);
    metrics_write_value(s, metrics_seconds(h->sum_ns));
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

/* A sample for each state from `from` to before `to`. */
static void metrics_write_states(const struct metrics_scrape *s, const struct metric_family *f,
                                 const char *(*name)(unsigned state), const uint64_t *counts, unsigned from,
                                 unsigned to)
{
    char labels[64];

    for (unsigned state = from; state < to; state++) {
        snprintf(labels, sizeof(labels), "state=\"%s\"", name(state));
        metrics_write_sample(s, f, labels, (double)counts[state]);
    }
}

/* A sample for each word. */
static void metrics_write_words(const struct metrics_scrape *s, const struct metric_family *f,
                                const char *label, const char *const *words, const uint64_t *counts, size_t n)
{
    char labels[64];

    for (size_t i = 0; i < n; i++) {
        snprintf(labels, sizeof(labels), "%s=\"%s\"", label, words[i]);
        metrics_write_sample(s, f, labels, (double)counts[i]);
    }
}

static void metrics_write_peers(const struct metrics_scrape *s, const struct metric_family *f)
{
    char labels[64];

    /* This very profd, and second addresses, are nobody else. */
    for (enum peer_state state = PEER_UNKNOWN; state < PEER_SELF; state++) {
        snprintf(labels, sizeof(labels), "state=\"%s\"", peer_state_name(state));
        metrics_write_sample(s, f, labels, (double)s->peers.states[state]);
    }
}

static void metrics_write_peer_calls(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"ok", "failed"};
    const uint64_t counts[] = {s->peers.calls - MIN(s->peers.failures, s->peers.calls), s->peers.failures};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
}

static void metrics_write_sessions(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_states(s, f, state_name, s->gauges.sessions, STATE_REQUESTED, STATE_COMPLETE);
}

static void metrics_write_targets(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_states(s, f, state_name, s->gauges.targets, STATE_REQUESTED, _STATE_MAX);
}

static void metrics_write_ended(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_states(s, f, state_name, s->sessions->ended, STATE_COMPLETE, _STATE_MAX);
}

static void metrics_write_session_durations(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_histogram(s, f, NULL, &s->sessions->durations);
}

static void metrics_write_skews(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_histogram(s, f, NULL, &s->sessions->start_skews);
}

static void metrics_write_calls(const struct metrics_scrape *s, const struct metric_family *f)
{
    char labels[128];

    for (int call = 0; call < _SESSION_CALL_MAX; call++)
        for (int engine = 0; engine < _ENGINE_MAX && engine_name((enum engine)engine); engine++)
            for (int outcome = 0; outcome < _CALL_OUTCOME_MAX; outcome++) {
                snprintf(labels, sizeof(labels), "call=\"%s\",engine=\"%s\",result=\"%s\"", call_names[call],
                         engine_name((enum engine)engine), outcome_names[outcome]);
                metrics_write_sample(s, f, labels, (double)s->sessions->calls[call][engine][outcome]);
            }
}

static void metrics_write_call_durations(const struct metrics_scrape *s, const struct metric_family *f)
{
    char labels[64];

    for (int call = 0; call < _SESSION_CALL_MAX; call++) {
        snprintf(labels, sizeof(labels), "call=\"%s\"", call_names[call]);
        metrics_write_histogram(s, f, labels, &s->sessions->call_durations[call]);
    }
}

static void metrics_write_leases(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_states(s, f, lease_state_name, s->n_leases, LEASE_GRANTED, LEASE_OVER);
}

static void metrics_write_lease_results(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"granted", "busy", "released", "expired", "late"};
    const uint64_t counts[] = {s->leases->granted, s->leases->refused_busy, s->leases->released,
                               s->leases->expired, s->leases->late};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
}

/* -- Traces, store, ingest, catalog ------------------------------------------------------------------- */

static void metrics_write_added(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_states(s, f, trace_state_name, s->catalog.traces_added, 0, _TRACE_STATE_MAX);
}

static void metrics_write_ingested(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"read", "failed", "killed"};
    const uint64_t counts[] = {s->ingest.read, s->ingest.failed, s->ingest.killed};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
}

static void metrics_write_uploads(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"ok", "failed"};
    const uint64_t counts[] = {s->archive.uploaded, s->archive.uploads_failed};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
}

static void metrics_write_fetches(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"ok", "failed"};
    const uint64_t counts[] = {s->archive.fetched, s->archive.fetches_failed};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
}

static void metrics_write_ingest_durations(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_histogram(s, f, NULL, &s->ingest.durations);
}

static void metrics_write_reports(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"answered", "refused", "failed", "cancelled"};
    const uint64_t counts[] = {s->reports.answered, s->reports.refused, s->reports.failed,
                               s->reports.cancelled};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
}

static void metrics_write_report_durations(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_histogram(s, f, NULL, &s->reports.durations);
}

static void metrics_write_viewer_requests(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"answered", "refused", "failed", "cancelled"};
    const uint64_t counts[] = {s->viewers.answered, s->viewers.refused, s->viewers.failed,
                               s->viewers.cancelled};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
}

static void metrics_write_viewer_durations(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_histogram(s, f, NULL, &s->viewers.durations);
}

static void metrics_write_commits(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const results[] = {"ok", "failed"};
    const uint64_t counts[] = {s->catalog.commits, s->catalog.failed_commits};
    metrics_write_words(s, f, "result", results, counts, ARRAY_SIZE(results));
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

static void metrics_write_requests(const struct metrics_scrape *s, const struct metric_family *f)
{
    char labels[160];

    for (size_t i = 0; i <= routes_count(); i++) {
        const struct route *route = route_at(i);
        for (int class = 2; class <= 5; class ++) {
            snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\",code=\"%dxx\"",
                     route ? http_method_name(route->method) : "", route ? route->pattern : "", class);
            metrics_write_sample(s, f, labels, (double)s->api->counts[i].by_class[class - 1]);
        }
    }
}

static void metrics_write_refusals(const struct metrics_scrape *s, const struct metric_family *f)
{
    char labels[32];

    for (size_t i = 0; http_refusal_status(i); i++) {
        snprintf(labels, sizeof(labels), "code=\"%d\"", http_refusal_status(i));
        metrics_write_sample(s, f, labels, (double)http_refusals(s->api->server, i));
    }
}

/* profd sends no other class: it never redirects. */
static void metrics_write_request_durations(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const int statuses[] = {2, 4, 5};
    char labels[64];

    for (int class = 0; class < _ROUTE_CLASS_MAX; class ++)
        for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
            snprintf(labels, sizeof(labels), "class=\"%s\",code=\"%dxx\"", class_names[class], statuses[i]);
            metrics_write_histogram(s, f, labels, &s->api->durations[class].by_class[statuses[i] - 1]);
        }
}

static void metrics_write_denials(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_words(s, f, "reason", denial_names, access_denials(s->api->access), _DENIAL_MAX);
}

static void metrics_write_ready(const struct metrics_scrape *s, const struct metric_family *f)
{
    char labels[64];

    for (const struct ready_check *check = ready_checks; check->name; check++) {
        _cleanup_(problem_done) struct problem p = {0};
        snprintf(labels, sizeof(labels), "check=\"%s\"", check->name);
        metrics_write_sample(s, f, labels, check->run(s->api, &p) >= 0);
    }
}

static void metrics_write_build(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_sample(s, f, "version=\"" PROFD_VERSION "\"", 1);
}

static double metrics_cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double metrics_open_fds(void)
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

static void metrics_write_runs_ended(const struct metrics_scrape *s, const struct metric_family *f)
{
    metrics_write_states(s, f, run_state_name, s->runs.ended, RUN_COMPLETE, _RUN_STATE_MAX);
}

static void metrics_write_run_requests(const struct metrics_scrape *s, const struct metric_family *f)
{
    static const char *const outcomes[] = {"success", "incomplete", "error"};
    metrics_write_words(s, f, "outcome", outcomes, s->runs.requests, ARRAY_SIZE(outcomes));
}

/* -- The table ---------------------------------------------------------------------------------------- */

#define VALUE(member) .value = offsetof(struct metrics_scrape, values.member)

/* clang-format off */
static const struct metric_family families[] = {
    {"profd_build_info", "gauge", "Version of profd; always 1.", .write = metrics_write_build},
    {"profd_ready", "gauge", "Whether a check of /readyz passes: 1 yes, 0 no.", .write = metrics_write_ready},
    {"profd_sessions", "gauge", "Sessions that are not over, by state.", .write = metrics_write_sessions},
    {"profd_sessions_ended_total", "counter", "Sessions that ended, by final state.", .write = metrics_write_ended},
    {"profd_session_duration_seconds", "histogram", "Time from a session's request to its end.", .write = metrics_write_session_durations},
    {"profd_session_start_skew_seconds", "histogram", "Time between the first and the last start sent for a session.", .write = metrics_write_skews},
    {"profd_leases", "gauge", "Leases of workers of this host to other hosts, by state.", .write = metrics_write_leases},
    {"profd_lease_results_total", "counter", "Leases that were granted, refused because a worker was held, given back, and expired, and starts that came too late.", .write = metrics_write_lease_results},
    {"profd_host_parts", "gauge", "Other hosts' parts of sessions that this profd coordinates and that have something left to deliver.", VALUE(parts_open)},
    {"profd_host_parts_late", "gauge", "Of these, parts whose session is over here: their traces are on their hosts.", VALUE(parts_late)},
    {"profd_host_parts_lost_total", "counter", "Parts whose host has no such lease any more, or did not deliver in time.", VALUE(parts_lost)},
    {"profd_remote_traces_delivered_total", "counter", "Reports of traces that other hosts delivered.", VALUE(remote_traces)},
    {"profd_targets", "gauge", "Workers of sessions that are not over, by state.", .write = metrics_write_targets},
    {"profd_stops_pending", "gauge", "Workers whose recording is over and whose stop is not answered yet.", VALUE(stops_pending)},
    {"profd_stop_pending_oldest_seconds", "gauge", "Age of the oldest pending stop.", VALUE(oldest_stop_s)},
    {"profd_worker_calls_total", "counter", "Start and stop requests sent to workers, retries included.", .write = metrics_write_calls},
    {"profd_worker_call_duration_seconds", "histogram", "Time until workers answered start and stop requests.", .write = metrics_write_call_durations},
    {"profd_network_refused_total", "counter", "Requests to routers and workers that [network] allow= refused.", VALUE(network_refused)},
    {"profd_peers", "gauge", "Profds of other hosts, by state.", .write = metrics_write_peers},
    {"profd_peer_calls_total", "counter", "Calls to profds of other hosts, by result.", .write = metrics_write_peer_calls},
    {"profd_peer_clock_offset_max_seconds", "gauge", "Largest difference between the wall clock of another host and this one, as last measured.", VALUE(peer_clock_offset_s)},
    {"profd_response_memory_bytes", "gauge", "Memory reserved for responses of routers and workers.", VALUE(response_bytes)},
    {"profd_response_memory_limit_bytes", "gauge", "Limit of the memory for responses of routers and workers.", VALUE(response_limit)},
    {"profd_responses_waiting", "gauge", "Responses whose reading is paused until memory is available.", VALUE(responses_waiting)},
    {"profd_traces", "gauge", "Traces in the catalog.", VALUE(traces)},
    {"profd_traces_added_total", "counter", "Traces added to the catalog, by state of their file.", .write = metrics_write_added},
    {"profd_traces_skipped_total", "counter", "Traces written without a session that exceeded unclaimed_per_minute.", VALUE(traces_skipped)},
    {"profd_traces_removed_total", "counter", "Traces removed from the catalog.", VALUE(traces_removed)},
    {"profd_store_bytes", "gauge", "Size of traces and columns in the store.", VALUE(store_bytes)},
    {"profd_store_limit_bytes", "gauge", "Limit of the size of the store.", VALUE(store_limit)},
    {"profd_store_free_bytes", "gauge", "Free space on the file system of the store.", VALUE(store_free_bytes)},
    {"profd_store_keep_free_bytes", "gauge", "Space that profd leaves free on the file system of the store.", VALUE(store_keep_free)},
    {"profd_store_evictions_total", "counter", "Traces, or columns of a trace, removed to keep the store within its limit.", VALUE(evictions)},
    {"profd_ingest_running", "gauge", "Files being read.", VALUE(ingest_running)},
    {"profd_ingest_waiting", "gauge", "Files waiting to be read.", VALUE(ingest_waiting)},
    {"profd_ingest_files_total", "counter", "Files that profd-ingest read, failed to read, or was killed while reading.", .write = metrics_write_ingested},
    {"profd_ingest_requeued_total", "counter", "Times that reading a file was interrupted in favor of other files.", VALUE(ingest_requeued)},
    {"profd_ingest_bytes_total", "counter", "Bytes of files that profd-ingest read.", VALUE(ingest_bytes)},
    {"profd_ingest_duration_seconds", "histogram", "Time to read a file.", .write = metrics_write_ingest_durations},
    {"profd_reports_running", "gauge", "Reports and queries of clients being computed.", VALUE(reports_running)},
    {"profd_reports_waiting", "gauge", "Reports and queries of clients waiting to be computed.", VALUE(reports_waiting)},
    {"profd_reports_total", "counter", "Reports and queries that profd-report answered, refused with a reason, failed to answer, or whose client left.", .write = metrics_write_reports},
    {"profd_report_duration_seconds", "histogram", "Time to compute a report or a query.", .write = metrics_write_report_durations},
    {"profd_viewers", "gauge", "Processes that keep a trace open for the requests of a timeline.", VALUE(viewers)},
    {"profd_viewers_started_total", "counter", "Processes started for the requests of a timeline.", VALUE(viewers_started)},
    {"profd_viewer_requests_waiting", "gauge", "Requests of timelines waiting for a process.", VALUE(viewers_waiting)},
    {"profd_viewer_requests_total", "counter", "Requests of timelines that were answered, refused with a reason, not answered, or whose client left.", .write = metrics_write_viewer_requests},
    {"profd_viewer_request_duration_seconds", "histogram", "Time to compute the answer to a request of a timeline.", .write = metrics_write_viewer_durations},
    {"profd_runs", "gauge", "Benchmark runs that are not over.", VALUE(runs)},
    {"profd_runs_ended_total", "counter", "Benchmark runs that ended, by final state.", .write = metrics_write_runs_ended},
    {"profd_run_requests_total", "counter", "Requests sent by benchmark runs, by outcome.", .write = metrics_write_run_requests},
    {"profd_run_requests_unsaved_total", "counter", "Requests of benchmark runs that could not be written to the catalog.", VALUE(requests_unsaved)},
    {"profd_catalog_writable", "gauge", "Whether the last commit to the catalog succeeded: 1 yes, 0 no.", VALUE(catalog_writable)},
    {"profd_catalog_commits_total", "counter", "Commits to the catalog, by result.", .write = metrics_write_commits},
    {"profd_catalog_wal_bytes", "gauge", "Size of the catalog's write-ahead log.", VALUE(wal_bytes)},
    {"profd_http_requests_total", "counter", "Requests answered, by route; without a route, requests to unknown paths.", .write = metrics_write_requests},
    {"profd_http_request_duration_seconds", "histogram", "Time from a complete request to its response or the start of its stream.", .write = metrics_write_request_durations},
    {"profd_http_denied_total", "counter", "Requests over TCP that were denied, by reason.", .write = metrics_write_denials},
    {"profd_http_refused_total", "counter", "Requests refused before they reached a route; 503 counts connections over the limit.", .write = metrics_write_refusals},
    {"profd_http_displaced_total", "counter", "Connections without a token that were closed in favor of others.", VALUE(displaced)},
    {"profd_http_connections", "gauge", "Open connections.", VALUE(connections)},
    {"profd_http_connections_limit", "gauge", "Limit of open connections.", VALUE(connections_limit)},
    {"profd_event_loop_lag_seconds", "gauge", "Longest delay of the event loop since the previous scrape.", VALUE(loop_lag_s)},
    {"profd_kineto_processes", "gauge", "PyTorch processes that are registered for recording on demand.", VALUE(kineto_processes)},
    {"profd_kineto_polls_total", "counter", "Polls of PyTorch processes.", VALUE(kineto_polls)},
    {"profd_kineto_answers_total", "counter", "Polls that were answered.", VALUE(kineto_answers)},
    {"profd_kineto_late_total", "counter", "Polls that were dropped because they could not be answered in time.", VALUE(kineto_late)},
    {"profd_kineto_configs_total", "counter", "Recordings that were handed to PyTorch processes.", VALUE(kineto_configs)},
    {"profd_kineto_refused_total", "counter", "Messages and processes that were refused.", VALUE(kineto_refused)},
    {"profd_archive_failing", "gauge", "Whether the last upload to the archive failed: 1 yes, 0 no.", VALUE(archive_failing)},
    {"profd_archive_waiting", "gauge", "Traces of the store that wait for the archive.", VALUE(archive_waiting)},
    {"profd_archive_waiting_bytes", "gauge", "Size of the traces that wait for the archive.", VALUE(archive_waiting_bytes)},
    {"profd_archive_lag_seconds", "gauge", "Time since the oldest trace that waits for the archive was collected.", VALUE(archive_lag_s)},
    {"profd_archive_uploads_total", "counter", "Uploads to the archive, by result.", .write = metrics_write_uploads},
    {"profd_archive_uploaded_bytes_total", "counter", "Bytes of files that the archive took.", VALUE(archive_uploaded_bytes)},
    {"profd_archive_fetches_total", "counter", "Traces fetched from the archive into the store, by result.", .write = metrics_write_fetches},
    {"profd_archive_fetched_bytes_total", "counter", "Bytes of traces fetched from the archive.", VALUE(archive_fetched_bytes)},
    {"profd_mirror_connected", "gauge", "Whether profd is connected to the mirror: 1 yes, 0 no; it connects only to send.", VALUE(mirror_connected)},
    {"profd_mirror_lag_changes", "gauge", "Changes of the catalog that the mirror lacks, counted up to 100000; NaN until profd has connected.", VALUE(mirror_lag)},
    {"profd_mirror_lag_seconds", "gauge", "Age of the oldest change that the mirror lacks.", VALUE(mirror_lag_s)},
    {"profd_mirror_rows_total", "counter", "Rows that the mirror took.", VALUE(mirror_rows)},
    {"profd_mirror_failures_total", "counter", "Connections to the mirror that failed or broke.", VALUE(mirror_failures)},
    {"profd_mirror_refused_rows_total", "counter", "Rows that the mirror refused.", VALUE(mirror_refused)},
    {"process_cpu_seconds_total", "counter", "CPU time of profd in user and system mode.", VALUE(cpu_s)},
    {"process_resident_memory_bytes", "gauge", "Resident memory of profd.", VALUE(resident_bytes)},
    {"process_virtual_memory_bytes", "gauge", "Virtual memory of profd.", VALUE(virtual_bytes)},
    {"process_open_fds", "gauge", "Open file descriptors of profd.", VALUE(open_fds)},
    {"process_max_fds", "gauge", "Limit of open file descriptors.", VALUE(max_fds)},
    {"process_start_time_seconds", "gauge", "Start time of profd, in seconds since the Unix epoch.", VALUE(start_time_s)},
};
/* clang-format on */

static void metrics_take_values(struct metrics_scrape *s)
{
    struct api *api = s->api;
    const struct api_modules *modules = &api->modules;
    const struct answer_usage answers = caller_answers(modules->caller);
    const struct kineto_metrics kineto = kineto_metrics(modules->kineto);
    struct store_usage store = {0};
    struct mirror_state mirror;
    struct parts_metrics parts;
    struct process_own_memory memory;
    bool has_memory = process_own_memory(&memory) == 0;
    struct rlimit files;

    s->sessions = sessions_metrics(modules->sessions);
    sessions_gauges(modules->sessions, &s->gauges);
    catalog_metrics(modules->catalog, &s->catalog);
    ingest_metrics(modules->ingest, &s->ingest);
    reports_metrics(modules->reports, &s->reports);
    viewers_metrics(modules->viewers, &s->viewers);
    store_usage(modules->store, &store);
    runs_metrics(modules->runs, &s->runs);
    archiver_metrics(modules->archiver, &s->archive);
    peers_metrics(modules->peers, &s->peers);
    mirror_read_state(modules->mirror, &mirror);
    parts_metrics(modules->parts, &parts);
    s->leases = leases_metrics(modules->leases);
    leases_count(modules->leases, s->n_leases);
    int64_t oldest_ns = s->gauges.oldest_stop_sent_ns;
    s->values = (struct metric_values){
        .stops_pending = (double)s->gauges.stops_pending,
        .oldest_stop_s = oldest_ns == INT64_MAX ? 0 : metrics_seconds(mono_ns() - oldest_ns),
        .network_refused = (double)fleet_refused_calls(modules->finder),
        .peer_clock_offset_s = metrics_seconds(s->peers.clock_offset_ns),
        .response_bytes = (double)answers.held,
        .response_limit = (double)modules->fleet_settings->response_memory_max,
        .responses_waiting = answers.waiting,
        .parts_open = (double)parts.open,
        .parts_late = (double)parts.late,
        .parts_lost = (double)parts.lost,
        .remote_traces = (double)parts.delivered,
        .traces = (double)store.traces,
        .traces_skipped = (double)collector_skipped(modules->collector),
        .traces_removed = (double)s->catalog.traces_removed,
        .store_bytes = (double)store.bytes,
        .store_limit = (double)store.max_use,
        .store_free_bytes = (double)store.free,
        .store_keep_free = (double)store.keep_free,
        .evictions = (double)store_evictions(modules->store),
        .ingest_running = s->ingest.running,
        .ingest_waiting = s->ingest.waiting,
        .ingest_requeued = (double)s->ingest.put_back,
        .ingest_bytes = (double)s->ingest.bytes,
        .reports_running = s->reports.running,
        .reports_waiting = s->reports.waiting,
        .viewers = s->viewers.alive,
        .viewers_waiting = s->viewers.waiting,
        .viewers_started = (double)s->viewers.started,
        .runs = (double)s->runs.running,
        .requests_unsaved = (double)s->runs.unsaved,
        .catalog_writable = !catalog_is_broken(modules->catalog),
        .wal_bytes = (double)s->catalog.wal_bytes,
        .displaced = (double)http_displaced(api->server),
        .connections = http_connections(api->server),
        .connections_limit = modules->settings->connections_max,
        .loop_lag_s = metrics_seconds(loop_lag_take(modules->lag)),
        .kineto_processes = (double)kineto.processes,
        .kineto_polls = (double)kineto.polls,
        .kineto_answers = (double)kineto.answers,
        .kineto_late = (double)kineto.late,
        .kineto_configs = (double)kineto.configs,
        .kineto_refused = (double)kineto.refused,
        .mirror_lag =
            mirror.lag < 0 && mirror.phase != MIRROR_OFF ? NAN : (double)MAX(mirror.lag, INT64_C(0)),
        .mirror_lag_s = metrics_seconds(mirror.lag_ns),
        .mirror_rows = (double)mirror.rows,
        .mirror_failures = (double)mirror.failures,
        .mirror_refused = (double)mirror.refused_rows,
        .mirror_connected = mirror.connected,
        .cpu_s = metrics_cpu_seconds(),
        .resident_bytes = has_memory ? (double)memory.resident : NAN,
        .virtual_bytes = has_memory ? (double)memory.total : NAN,
        .open_fds = metrics_open_fds(),
        .max_fds = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (double)files.rlim_cur : NAN,
        .start_time_s = metrics_seconds(api->started_at),
        .archive_failing = s->archive.is_failing,
        .archive_waiting = (double)s->archive.waiting_files,
        .archive_waiting_bytes = (double)s->archive.waiting_bytes,
        .archive_lag_s = metrics_seconds(s->archive.lag_ns),
        .archive_uploaded_bytes = (double)s->archive.uploaded_bytes,
        .archive_fetched_bytes = (double)s->archive.fetched_bytes,
    };
}

void get_metrics(struct api *api, struct http_request *r, const struct route_match *match)
{
    struct metrics_scrape s = {.api = api};
    char *text = NULL;
    size_t size;

    s.out = xmemstream(&text, &size);
    metrics_take_values(&s);
    for (const struct metric_family *f = families; f < families + ARRAY_SIZE(families); f++) {
        fprintf(s.out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, f->type);
        if (f->write)
            f->write(&s, f);
        else
            metrics_write_sample(&s, f, NULL, *(const double *)(const void *)((const char *)&s + f->value));
    }
    fclose(s.out);
    http_reply(r, 200, CONTENT_TYPE, text, size);
    free(text);
}
