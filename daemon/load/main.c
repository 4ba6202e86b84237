/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd-load: sends the requests of a workload and measures them. proto/load.h describes how profd starts it. It
 * writes no file and starts no program.
 *
 * A benchmark run from its specification to its last line: resolve, sample memory, give up rights, ask for the model, measure
 * prompts, warm up, "ready", the load, count tokens, the summary. Owns the loop and everything on it.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/fleet/credentials.h"
#include "daemon/load/confine.h"
#include "daemon/load/load.h"
#include "daemon/load/messages.h"
#include "daemon/load/sampler.h"
#include "daemon/load/server_watch.h"
#include "daemon/load/summary.h"
#include "daemon/load/tokenizer.h"
#include "proto/load.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* Descriptors that are not connections of the load. */
#define OTHER_FILES        64
#define FILES_DEFAULT      1024
#define FLUSH_NS           (30 * NS_PER_S)
#define PROGRESS_PERIOD_NS NS_PER_S

struct benchmark {
    struct load_spec spec;
    struct event_base *base;
    struct messages *messages;
    struct caller *caller;
    struct http_pool *pool;
    struct event *progress;
    struct load_target *targets, *warm_targets;
    char *model;
    struct prompts prompts;
    struct calibration *calibration;
    struct token_counts *output_lengths, *record_tokens;
    struct server_metrics_watch *server;
    struct sampler_process *sampler;
    struct resolved_hosts *hosts;
    struct warmup warmup;
    struct load *load;
    struct load_records records;
    bool ready, loading, ended;
    bool counted; /* records change no more */
    int result;
};

/* -- The end ------------------------------------------------------------------------------------------ */

/* Takes the last line; only the first end counts. */
static void benchmark_finish(struct benchmark *b, json_t *line, int result)
{
    if (!b->ended) {
        messages_send(b->messages, line);
        b->result = result;
    } else {
        json_decref(line);
    }
    b->ended = true;
    event_base_loopbreak(b->base);
}

static json_t *failed_line(const char *text, const char *remedy)
{
    json_t *line = json_object();

    json_put_str(line, "t", "failed");
    json_put_str(line, "text", text);
    json_put_str(line, "remedy", remedy);
    return line;
}

static void benchmark_fail(struct benchmark *b, const char *remedy, const char *format, ...) _printf_(3, 4);
static void benchmark_fail(struct benchmark *b, const char *remedy, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    benchmark_finish(b, failed_line(text, remedy), -ECANCELED);
}

static void benchmark_complete(struct benchmark *b)
{
    const struct load_records *records = &b->records;
    _cleanup_json_ memory = b->sampler ? sampler_process_result(b->sampler) : NULL;
    _cleanup_json_ server = server_metrics_result(b->server);
    const struct summary_input input = {.records = records->items,
                                        .n = records->n,
                                        .workload = &b->spec.workload,
                                        .started_ns = records->started_ns,
                                        .ended_ns = records->ended_ns,
                                        .memory = memory,
                                        .server = server};
    json_t *line = json_object();

    json_put_str(line, "t", "end");
    json_object_set_new(line, "summary", summary_make(&input));
    benchmark_finish(b, line, 0);
}

/* Requests are written as fast as the reader takes them; the end follows the last. */
static void benchmark_write_requests(struct benchmark *b)
{
    if (load_records_write(&b->records, b->messages, b->targets) && b->counted)
        benchmark_complete(b);
}

static void benchmark_on_writable(void *arg)
{
    struct benchmark *b = arg;

    if (messages_are_broken(b->messages) && !b->ended) {
        b->result = -EPIPE;
        b->ended = true;
        event_base_loopbreak(b->base);
    } else if (b->loading && !b->ended) {
        benchmark_write_requests(b);
    }
}

/* -- The load ----------------------------------------------------------------------------------------- */

static void benchmark_on_progress(evutil_socket_t fd, short what, void *arg)
{
    struct benchmark *b = arg;
    messages_send(b->messages, load_progress(b->load));
}

/* Runs are compared by their output length: warn where it is not the requested one. */
static void benchmark_note_short_outputs(struct benchmark *b)
{
    const struct load_records *records = &b->records;
    int64_t n_short = 0, n = 0;

    for (size_t i = 0; i < records->n; i++) {
        const struct request_record *record = &records->items[i];
        int64_t osl = prompts_osl(&b->prompts, record->prompt);
        bool is_counted = record->output_source == TOKENS_USAGE || record->output_source == TOKENS_TOKENIZED;
        if (record->outcome != OUTCOME_SUCCESS || osl == 0 || !is_counted)
            continue;
        n++;
        n_short += record->output_tokens < osl;
    }
    if (n_short == 0)
        return;
    _cleanup_(freep) char *text =
        xasprintf("%lld of %lld responses are shorter than the requested output length", (long long)n_short,
                  (long long)n);
    messages_send_note(
        b->messages, text,
        "the server ends them early (ignore_eos is not honoured, or prompt and output exceed the "
        "model's maximum length): compare this run only with runs of the same output tokens");
}

static void benchmark_on_records_counted(bool counted, void *arg)
{
    struct benchmark *b = arg;

    benchmark_note_short_outputs(b);
    b->counted = true;
    benchmark_write_requests(b);
}

static struct tokenizer benchmark_tokenizer(struct benchmark *b)
{
    return (struct tokenizer){
        .caller = b->caller, .spec = &b->spec, .target = &b->warm_targets[0], .model = b->model};
}

static void benchmark_on_server_after(void *arg)
{
    struct benchmark *b = arg;
    struct tokenizer tokenizer = benchmark_tokenizer(b);

    b->record_tokens =
        record_tokens_count(&tokenizer, &b->records, b->targets, benchmark_on_records_counted, b);
}

static void benchmark_on_load_done(void *arg)
{
    struct benchmark *b = arg;

    event_del(b->progress);
    messages_send(b->messages, load_progress(b->load));
    server_metrics_after(b->server, benchmark_on_server_after, b);
}

static void benchmark_on_go(void *arg)
{
    struct benchmark *b = arg;
    struct timeval period = timeval_of(PROGRESS_PERIOD_NS);

    if (!b->ready || b->loading)
        return;
    b->loading = true;
    event_add(b->progress, &period);
    server_metrics_during(b->server);
    load_start(b->load);
}

static void benchmark_on_stop(void *arg)
{
    struct benchmark *b = arg;

    if (b->loading)
        load_stop(b->load);
    else
        benchmark_fail(b, NULL, "the run was stopped before it began");
}

static void benchmark_on_server_before(void *arg)
{
    struct benchmark *b = arg;
    json_t *line = json_object();

    b->ready = true;
    json_put_str(line, "t", "ready");
    json_put_str(line, "model", b->model);
    messages_send(b->messages, line);
}

static void benchmark_on_opened(void *arg)
{
    struct benchmark *b = arg;
    server_metrics_before(b->server, benchmark_on_server_before, b);
}

/* The limit of open files; each of libcurl's handles has a pair of sockets in addition to its connections. */
static int64_t benchmark_in_flight_max(void)
{
    struct rlimit limit;
    int64_t files = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (int64_t)limit.rlim_cur : FILES_DEFAULT;

    return MAX(MIN((files - OTHER_FILES) * HTTP_POOL_EXCHANGES / (HTTP_POOL_EXCHANGES + 2),
                   (int64_t)WORKLOAD_CONCURRENCY_MAX),
               INT64_C(1));
}

static struct load_setup benchmark_load_setup(struct benchmark *b, void (*done)(void *arg))
{
    return (struct load_setup){.base = b->base,
                               .pool = b->pool,
                               .messages = b->messages,
                               .prompts = &b->prompts,
                               .model = b->model,
                               .targets = b->targets,
                               .n_targets = b->spec.targets.n,
                               .records = &b->records,
                               .in_flight_max = benchmark_in_flight_max(),
                               .done = done,
                               .arg = b};
}

static void benchmark_prepare_load(struct benchmark *b)
{
    const struct workload *w = &b->spec.workload;
    struct load_setup setup = benchmark_load_setup(b, benchmark_on_load_done);

    if (w->concurrency > setup.in_flight_max) {
        _cleanup_(freep) char *text =
            xasprintf("at most %d requests are in flight, not %d: the limit of open files",
                      (int)setup.in_flight_max, (int)w->concurrency);
        messages_send_note(b->messages, text,
                           "raise the limit of open files (LimitNOFILE= of profd.service, ulimit -n)");
    }
    if (load_new(&setup, &b->load) < 0)
        benchmark_fail(b, "reduce the number of requests of the run",
                       "not enough memory for the run's schedule");
    else
        load_open(b->load, benchmark_on_opened, b);
}

/* -- Before it ---------------------------------------------------------------------------------------- */

static void benchmark_on_warmed(void *arg)
{
    struct benchmark *b = arg;
    const struct warmup *w = &b->warmup;

    if (b->spec.workload.warmup > 0 && w->succeeded == 0)
        benchmark_fail(b, "check that the worker responds, and api and path of the workload",
                       "no request of the warm-up succeeded: %s", w->error ? w->error : "no response");
    else
        benchmark_prepare_load(b);
}

static void benchmark_warm_up(struct benchmark *b)
{
    struct load_setup setup = benchmark_load_setup(b, benchmark_on_warmed);

    setup.targets = b->warm_targets;
    setup.n_targets = b->spec.warm.n;
    warmup_start(&b->warmup, &setup);
}

static void benchmark_on_calibrated(bool exact, void *arg)
{
    struct benchmark *b = arg;

    if (!exact)
        messages_send_note(
            b->messages,
            "the length of synthetic prompts is estimated: the worker's tokenizer does not respond",
            "compare input_tokens, which the server counts where it sends usage");
    benchmark_warm_up(b);
}

static void benchmark_on_output_lengths(bool counted, void *arg)
{
    struct benchmark *b = arg;

    if (counted)
        benchmark_warm_up(b);
    else
        benchmark_fail(
            b, "give the output length of all prompts (osl of the workload, profctl --osl N)",
            "the tokens of the answers in the prompts, which are the output lengths, cannot be counted: "
            "the worker's tokenizer does not respond");
}

/* Prompts are made for all workers with the tokenizer of the first: they serve one model. */
static void benchmark_measure_prompts(struct benchmark *b)
{
    struct tokenizer tokenizer = benchmark_tokenizer(b);
    const struct workload *w = &b->spec.workload;
    bool has_tokenizer = tokenizer.target->api->tokenize_path != NULL;

    if (w->has_answers && !has_tokenizer)
        benchmark_on_output_lengths(false, b);
    else if (w->has_answers)
        b->output_lengths = output_lengths_count(&tokenizer, benchmark_on_output_lengths, b);
    else if (w->prompts || !has_tokenizer)
        benchmark_warm_up(b);
    else
        b->calibration = calibration_start(&tokenizer, &b->prompts, benchmark_on_calibrated, b);
}

static void benchmark_on_model(const char *model, const char *error, void *arg)
{
    struct benchmark *b = arg;

    b->model = xstrdup(model);
    if (!model)
        messages_send_note(b->messages, "no server names its model: requests are sent without one",
                           "set model in the workload if the server requires it");
    benchmark_measure_prompts(b);
}

static void benchmark_begin(struct benchmark *b)
{
    const struct workload *w = &b->spec.workload;

    prompts_init(&b->prompts, w, (uint64_t)wall_ns());
    if (w->model) {
        b->model = xstrdup(w->model);
        benchmark_measure_prompts(b);
    } else {
        model_ask(b->caller, &b->spec, b->warm_targets[0].url, benchmark_on_model, b);
    }
}

/* -- Setting up --------------------------------------------------------------------------------------- */

static int benchmark_make_targets(struct benchmark *b)
{
    struct load_spec *spec = &b->spec;
    _cleanup_(freep) char *error = NULL;

    b->hosts = hosts_resolve(spec);
    hosts_fix_names(b->hosts, b->caller);
    int r = call_credentials_keep(&spec->credentials, hosts_have_tls(b->hosts), &error);
    if (r == 0)
        r = load_targets_new(spec, b->hosts, &spec->targets, &b->targets, &error);
    if (r == 0)
        r = load_targets_new(spec, b->hosts, &spec->warm, &b->warm_targets, &error);
    if (r < 0)
        benchmark_fail(b, "check token_file, ca_file, cert_file and key_file of the fleet in profd.conf",
                       "%s", error ? error : strerror(-r));
    return r;
}

static int benchmark_sample_memory(struct benchmark *b)
{
    const struct load_workers *watched = &b->spec.watched;
    _cleanup_(freep) struct sampler_target *targets = xcalloc(watched->n, sizeof(*targets));

    for (size_t i = 0; i < watched->n; i++)
        targets[i] = (struct sampler_target){.url = watched->items[i].url, .pid = watched->items[i].pid};
    return sampler_process_new(targets, watched->n, &b->sampler);
}

static int benchmark_confine(struct benchmark *b)
{
    size_t n_ports;
    const uint16_t *ports = hosts_ports(b->hosts, &n_ports);

    int r = confine(ports, n_ports);
    if (r < 0)
        benchmark_fail(b, "check that the kernel has seccomp, and that the service's own filter allows it",
                       "profd-load cannot give up its rights: %s", strerror(-r));
    return r;
}

/* Requests are sent at their microsecond: epoll alone counts milliseconds. */
static struct event_base *benchmark_new_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config && event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) == 0)
        base = event_base_new_with_config(config);
    if (config)
        event_config_free(config);
    return base;
}

static int benchmark_set_up(struct benchmark *b)
{
    static const struct messages_ops ops = {
        .writable = benchmark_on_writable, .go = benchmark_on_go, .stop = benchmark_on_stop};

    b->base = benchmark_new_base();
    if (!b->base)
        return -ENOMEM;
    int r = messages_new(b->base, LOAD_FD_LINES, LOAD_FD_COMMANDS, &ops, b, &b->messages);
    if (r == 0)
        r = caller_new(b->base, &b->caller);
    if (r == 0)
        r = http_pool_new(b->base, &b->spec.policy, &request_ops, &b->pool);
    if (r == 0)
        r = server_metrics_new(b->base, b->caller, &b->spec, &b->server);
    if (r == 0 && !(b->progress = event_new(b->base, -1, EV_PERSIST, benchmark_on_progress, b)))
        r = -ENOMEM;
    if (r == 0)
        caller_set_policy(b->caller, &b->spec.policy);
    return r;
}

static void benchmark_done(struct benchmark *b)
{
    http_pool_free(b->pool);
    caller_free(b->caller);
    server_metrics_free(b->server);
    calibration_free(b->calibration);
    token_counts_free(b->output_lengths);
    token_counts_free(b->record_tokens);
    sampler_process_free(b->sampler);
    hosts_free(b->hosts);
    load_free(b->load);
    warmup_done(&b->warmup);
    load_records_done(&b->records);
    if (b->progress)
        event_free(b->progress);
    messages_free(b->messages);
    load_targets_free(b->targets, b->spec.targets.n);
    load_targets_free(b->warm_targets, b->spec.warm.n);
    free(b->model);
    load_spec_done(&b->spec);
    if (b->base)
        event_base_free(b->base);
}

/* Takes the specification. 0 where the run came to its "end", a negative errno where it is "failed". */
static int benchmark_run(struct load_spec spec)
{
    struct benchmark b = {.spec = spec};
    int sampled = benchmark_sample_memory(&b);
    int r = benchmark_set_up(&b);

    if (r == 0) {
        /* A run without figures of memory is still a run. */
        if (sampled < 0)
            messages_send_note(b.messages,
                               "memory of the workers is not measured: the sampler does not start", NULL);
        if (benchmark_make_targets(&b) == 0 && benchmark_confine(&b) == 0)
            benchmark_begin(&b);
        if (!b.ended)
            event_base_dispatch(b.base);
        messages_flush(b.messages, mono_ns() + FLUSH_NS);
        r = b.result;
    }
    benchmark_done(&b);
    return r;
}

/* -- The process -------------------------------------------------------------------------------------- */

static int profd_load(void)
{
    struct problem problem = {0};
    struct load_spec spec;
    char *text = NULL;
    size_t size = 0;

    int r = read_fd(LOAD_FD_SPEC, LOAD_SPEC_MAX, &text, &size);
    if (r < 0) {
        log_error("profd-load: cannot read its specification: %s", strerror(-r));
        return r;
    }
    r = load_spec_parse(text, size, &spec, &problem);
    free(text);
    if (r == 0)
        return benchmark_run(spec);
    _cleanup_json_ line = failed_line(problem.what, problem.remedy);
    _cleanup_(freep) char *dumped = json_dumps(line, JSON_COMPACT);
    if (dumped && write_all(LOAD_FD_LINES, dumped, strlen(dumped)) == 0)
        write_all(LOAD_FD_LINES, "\n", 1);
    problem_done(&problem);
    return r;
}

int main(int argc, char **argv)
{
    struct rlimit files;

    if (argc != 1 || fcntl(LOAD_FD_COMMANDS, F_GETFD) < 0) {
        fprintf(stderr, "usage: profd-load < JOB\nprofd starts it, with commands on descriptor 3\n");
        return 2;
    }
    /* No load without profd, which measures it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERR); /* everything else is a line of its own */
    /* Each request in flight is a connection. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return profd_load() < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
