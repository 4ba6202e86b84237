/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/credentials.h"
#include "daemon/load/answer_lengths.h"
#include "daemon/load/ask.h"
#include "daemon/load/calibrate.h"
#include "daemon/load/commands.h"
#include "daemon/load/confine.h"
#include "daemon/load/count.h"
#include "daemon/load/hosts.h"
#include "daemon/load/load.h"
#include "daemon/load/sampling.h"
#include "daemon/load/server_side.h"
#include "daemon/load/summary.h"
#include "daemon/load/warm.h"
#include <errno.h>
#include <sys/resource.h>

/* Descriptors that are no connection of the load. */
#define FILES_BESIDE   64
#define FILES_DEFAULT  1024
#define FLUSH_NS       (30 * NS_PER_S)
#define LIVE_PERIOD_NS NS_PER_S

struct run {
    struct order order;
    struct event_base *base;
    struct emit *emit;
    struct commands *commands;
    struct caller *caller;
    struct wires *wires;
    struct event *live;
    struct target *targets, *workers; /* of the load; of warm-up */
    char *model;
    struct prompts prompts;
    struct calibration *calibration;
    struct answer_lengths *answer_lengths;
    struct counting *counting;
    struct server_side *server_side;
    struct sampling *sampling;
    struct hosts *hosts;
    struct warm *warm;
    struct load *load;
    bool ready, loading, ended;
    bool complete; /* nothing more will be learned */
    int result;
};

/* -- The last line ------------------------------------------------------------------------------------ */

static void finish(struct run *r, json_t *line, int result)
{
    if (!r->ended) {
        emit_line(r->emit, line);
        r->result = result;
    } else {
        json_decref(line);
    }
    r->ended = true;
    event_base_loopbreak(r->base);
}

static void fail(struct run *r, const char *remedy, const char *format, ...) _printf_(3, 4);
static void fail(struct run *r, const char *remedy, const char *format, ...)
{
    json_t *line = json_object();
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    json_put_str(line, "t", "failed");
    json_put_str(line, "text", text);
    json_put_str(line, "remedy", remedy);
    finish(r, line, -ECANCELED);
}

static void say_end(struct run *r)
{
    const struct records *records = load_records(r->load);
    _cleanup_json_ memory = r->sampling ? sampling_result(r->sampling) : NULL;
    _cleanup_json_ server = server_side_result(r->server_side);
    json_t *line = json_object();

    json_put_str(line, "t", "end");
    json_object_set_new(line, "summary",
                        summary_make(&(struct summary_input){.records = records->items,
                                                             .n = records->n,
                                                             .workload = &r->order.workload,
                                                             .started_ns = load_started_ns(r->load),
                                                             .ended_ns = load_ended_ns(r->load),
                                                             .memory = memory,
                                                             .server = server}));
    finish(r, line, 0);
}

/* Requests are told as their reader takes them; the end comes behind the last. */
static void tell_requests(struct run *r)
{
    if (records_tell(load_records(r->load), r->emit, r->targets) && r->complete)
        say_end(r);
}

static void on_room(void *arg)
{
    struct run *r = arg;

    if (emit_is_broken(r->emit) && !r->ended) {
        r->result = -EPIPE;
        r->ended = true;
        event_base_loopbreak(r->base);
    } else if (r->loading && !r->ended) {
        tell_requests(r);
    }
}

/* -- The load ----------------------------------------------------------------------------------------- */

static void on_live(evutil_socket_t fd, short what, void *arg)
{
    struct run *r = arg;
    emit_line(r->emit, load_live(r->load));
}

/* Whoever asked for answers of a length compares runs by it. */
static void note_short_answers(struct run *r)
{
    const struct records *records = load_records(r->load);
    int64_t n_short = 0, n_asked = 0;

    for (size_t i = 0; i < records->n; i++) {
        const struct request_record *record = &records->items[i];
        int64_t osl = prompts_osl(&r->prompts, record->prompt);
        bool is_counted = record->output_source == TOKENS_USAGE || record->output_source == TOKENS_TOKENIZED;
        if (record->outcome != OUTCOME_SUCCESS || osl == 0 || !is_counted)
            continue;
        n_asked++;
        n_short += record->output_tokens < osl;
    }
    if (n_short == 0)
        return;
    _cleanup_(freep) char *text =
        xasprintf("%lld of %lld answers are shorter than the output length that was asked for",
                  (long long)n_short, (long long)n_asked);
    emit_note(
        r->emit, text,
        "the server ends them early (ignore_eos is not honoured, or prompt and answer exceed the model's "
        "maximum length): compare this run only with runs of the same output tokens");
}

static void on_counted(void *arg)
{
    struct run *r = arg;

    note_short_answers(r);
    r->complete = true;
    tell_requests(r);
}

static void on_looked_after(void *arg)
{
    struct run *r = arg;
    struct counting_setup setup = {.base = r->base,
                                   .caller = r->caller,
                                   .order = &r->order,
                                   .model = r->model,
                                   .prompts = &r->prompts,
                                   .targets = r->targets,
                                   .records = load_records(r->load),
                                   .done = on_counted,
                                   .arg = r};

    r->counting = counting_start(&setup);
}

static void on_load_ended(void *arg)
{
    struct run *r = arg;

    event_del(r->live);
    emit_line(r->emit, load_live(r->load));
    server_side_after(r->server_side, on_looked_after, r);
}

static void on_go(void *arg)
{
    struct run *r = arg;
    struct timeval period = timeval_of(LIVE_PERIOD_NS);

    if (!r->ready || r->loading)
        return;
    r->loading = true;
    event_add(r->live, &period);
    server_side_watch(r->server_side);
    load_start(r->load);
}

static void on_stop(void *arg)
{
    struct run *r = arg;

    if (r->loading)
        load_stop(r->load);
    else
        fail(r, NULL, "the run was stopped before it began");
}

/* Each of libcurl's handles has a pair of sockets beside its connections. */
static int64_t in_flight_max(void)
{
    struct rlimit limit;
    int64_t files = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (int64_t)limit.rlim_cur : FILES_DEFAULT;

    return MAX(MIN((files - FILES_BESIDE) * WIRE_EXCHANGES / (WIRE_EXCHANGES + 2),
                   (int64_t)WORKLOAD_CONCURRENCY_MAX),
               INT64_C(1));
}

static void on_looked_before(void *arg)
{
    struct run *r = arg;
    json_t *line = json_object();

    r->ready = true;
    json_put_str(line, "t", "ready");
    json_put_str(line, "model", r->model);
    emit_line(r->emit, line);
}

static void make_ready(struct run *r)
{
    const struct workload *w = &r->order.workload;
    struct load_setup setup = {.base = r->base,
                               .wires = r->wires,
                               .emit = r->emit,
                               .prompts = &r->prompts,
                               .model = r->model,
                               .targets = r->targets,
                               .n_targets = r->order.n_targets,
                               .in_flight_max = in_flight_max(),
                               .ended = on_load_ended,
                               .arg = r};

    if (w->concurrency > setup.in_flight_max) {
        _cleanup_(freep) char *text =
            xasprintf("at most %d requests are under way, not %d: so many files may be open",
                      (int)setup.in_flight_max, (int)w->concurrency);
        emit_note(r->emit, text, "raise the limit of open files (LimitNOFILE= of profd.service, ulimit -n)");
    }
    if (load_new(&setup, &r->load) < 0)
        fail(r, "give the run fewer requests", "there is no memory for the run's schedule");
    else
        server_side_before(r->server_side, on_looked_before, r);
}

/* -- Before it ---------------------------------------------------------------------------------------- */

static void on_warmed(void *arg)
{
    struct run *r = arg;
    const struct warm *w = r->warm;

    if (r->order.workload.warmup > 0 && w && warm_succeeded(w) == 0)
        fail(r,
             "see whether the worker answers, and whether api and path of the workload are those that it has",
             "no request of the warm-up succeeded: %s", warm_error(w) ? warm_error(w) : "no answer");
    else
        make_ready(r);
}

static void warm_up(struct run *r)
{
    struct warm_setup setup = {.wires = r->wires,
                               .emit = r->emit,
                               .prompts = &r->prompts,
                               .model = r->model,
                               .targets = r->workers,
                               .n_targets = r->order.n_warm,
                               .done = on_warmed,
                               .arg = r};

    r->warm = warm_start(&setup);
}

static void on_calibrated(bool exact, void *arg)
{
    struct run *r = arg;

    if (!exact)
        emit_note(r->emit,
                  "the length of synthetic prompts is estimated: the worker's tokenizer cannot be asked",
                  "compare input_tokens, which the server counted where it sends usage");
    warm_up(r);
}

static void on_answers_counted(bool counted, void *arg)
{
    struct run *r = arg;

    if (counted)
        warm_up(r);
    else
        fail(r, "give the output length of all prompts (osl of the workload, profctl --osl N)",
             "the tokens of the answers in the prompts, which are the output lengths, cannot be counted: the "
             "worker's "
             "tokenizer does not answer");
}

/* Prompts are made for all workers with the tokenizer of the first: they serve one model. */
static void measure_words(struct run *r)
{
    if (r->order.workload.has_answers && !r->workers[0].api->tokenize_path)
        on_answers_counted(false, r);
    else if (r->order.workload.has_answers)
        r->answer_lengths =
            answer_lengths_start(r->caller, &r->order, &r->workers[0], r->model, on_answers_counted, r);
    else if (r->order.workload.prompts || !r->workers[0].api->tokenize_path)
        warm_up(r);
    else
        r->calibration =
            calibration_start(r->caller, &r->order, &r->workers[0], r->model, &r->prompts, on_calibrated, r);
}

static void on_model(const char *model, const char *error, void *arg)
{
    struct run *r = arg;

    r->model = xstrdup(model);
    if (!model)
        emit_note(r->emit, "no server names its model: requests are sent without one",
                  "name it (model of the workload) where the server asks for one");
    measure_words(r);
}

static void begin(struct run *r)
{
    const struct workload *w = &r->order.workload;

    prompts_init(&r->prompts, w, (uint64_t)wall_ns());
    if (w->model) {
        r->model = xstrdup(w->model);
        measure_words(r);
    } else {
        ask_model(r->caller, &r->order, r->workers[0].url, on_model, r);
    }
}

/* -- Setting up --------------------------------------------------------------------------------------- */

static int make_targets(struct run *r)
{
    struct order *o = &r->order;
    _cleanup_(freep) char *error = NULL;

    r->hosts = hosts_look_up(o);
    hosts_fix_names(r->hosts, r->caller);
    int e = credentials_keep(&o->credentials, hosts_have_tls(r->hosts), &error);
    if (e == 0)
        e = targets_new(o, r->hosts, o->targets, o->n_targets, &r->targets, &error);
    if (e == 0)
        e = targets_new(o, r->hosts, o->warm, o->n_warm, &r->workers, &error);
    if (e < 0)
        fail(r, "see token_file, ca_file, cert_file and key_file of the fleet in profd.conf", "%s",
             error ? error : strerror(-e));
    return e;
}

/* Without it the run has no figures of memory, and is a run all the same. */
static int sample_memory(struct run *r)
{
    const struct order_worker *watched = r->order.watched;
    size_t n = r->order.n_watched;
    _cleanup_(freep) struct sampler_target *targets = xcalloc(n, sizeof(*targets));

    for (size_t i = 0; i < n; i++)
        targets[i] = (struct sampler_target){.url = watched[i].url, .pid = watched[i].pid};
    return sampling_new(targets, n, &r->sampling);
}

static int give_up_rights(struct run *r)
{
    size_t n_ports;
    const uint16_t *ports = hosts_ports(r->hosts, &n_ports);

    int e = confine(ports, n_ports);
    if (e < 0)
        fail(r, "see whether the kernel has seccomp, and whether the service's own filter allows it",
             "profd-load cannot give up its rights: %s", strerror(-e));
    return e;
}

/* Requests leave at their nanosecond, or nearly: epoll alone counts milliseconds. */
static struct event_base *precise_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config && event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) == 0)
        base = event_base_new_with_config(config);
    if (config)
        event_config_free(config);
    return base;
}

static int set_up(struct run *r, int lines_fd, int commands_fd)
{
    r->base = precise_base();
    if (!r->base)
        return -ENOMEM;
    int e = emit_new(r->base, lines_fd, on_room, r, &r->emit);
    if (e == 0)
        e = commands_new(r->base, commands_fd, on_go, on_stop, r, &r->commands);
    if (e == 0)
        e = caller_new(r->base, &r->caller);
    if (e == 0)
        e = wires_new(r->base, &r->order.policy, &request_ops, &r->wires);
    if (e == 0)
        e = server_side_new(r->base, r->caller, &r->order, &r->server_side);
    if (e == 0 && !(r->live = event_new(r->base, -1, EV_PERSIST, on_live, r)))
        e = -ENOMEM;
    if (e == 0)
        caller_set_policy(r->caller, &r->order.policy);
    return e;
}

static void tear_down(struct run *r)
{
    wires_free(r->wires);
    caller_free(r->caller);
    server_side_free(r->server_side);
    calibration_free(r->calibration);
    answer_lengths_free(r->answer_lengths);
    counting_free(r->counting);
    sampling_free(r->sampling);
    hosts_free(r->hosts);
    load_free(r->load);
    warm_free(r->warm);
    if (r->live)
        event_free(r->live);
    commands_free(r->commands);
    emit_free(r->emit);
    targets_free(r->targets, r->order.n_targets);
    targets_free(r->workers, r->order.n_warm);
    free(r->model);
    order_done(&r->order);
    if (r->base)
        event_base_free(r->base);
}

int run_order(struct order *order, int lines_fd, int commands_fd)
{
    struct run r = {.order = *order};

    *order = (struct order){0};
    int sampled = sample_memory(&r);
    int e = set_up(&r, lines_fd, commands_fd);
    if (e == 0) {
        if (sampled < 0)
            emit_note(r.emit, "the memory of the workers is not watched: its process does not begin", NULL);
        if (make_targets(&r) == 0 && give_up_rights(&r) == 0)
            begin(&r);
        if (!r.ended)
            event_base_dispatch(r.base);
        emit_flush(r.emit, mono_ns() + FLUSH_NS);
        e = r.result;
    }
    tear_down(&r);
    return e;
}
