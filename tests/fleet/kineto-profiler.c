/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler of the process, driven once a second by a thread of its own, as libkineto's
 * src/AsyncActivityProfilerHandler.cpp (profilerLoop(), performRunLoopStep()) and src/GenericActivityProfiler.cpp
 * (canStart()) do it. What it writes is a small made-up trace in the layout of src/output_json.cpp: NAME.tmp, then
 * renamed.
 */
#include "base/alloc.h"
#include "base/fs.h"
#include "tests/fleet/fault-trace.h"
#include "tests/fleet/kineto-client.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>

enum run_loop { WAIT_FOR_REQUEST, WARMUP, COLLECT_TRACE, PROCESS_TRACE };

struct client_profiler {
    const struct client_options *options;
    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread;
    bool local;                   /* a profiler inside the process is active */
    bool has_request;             /* accepted, waits for its time */
    struct client_config request; /* what waits, then what is recorded */
    enum run_loop state;
    int tmp_fd; /* of NAME.tmp; -1: none */
    int64_t began_ns;
};

static int64_t start_ns(const struct client_profiler *p)
{
    return p->request.start_ms * NS_PER_MS;
}

static int64_t end_ns(const struct client_profiler *p)
{
    return start_ns(p) + p->request.duration_ms * NS_PER_MS;
}

/* Makes the profiler wait for its next request. */
static void profiler_forget(struct client_profiler *p)
{
    client_config_done(&p->request);
    p->has_request = false;
    p->state = WAIT_FOR_REQUEST;
    if (p->tmp_fd >= 0)
        close(p->tmp_fd);
    p->tmp_fd = -1;
}

static void profiler_configure(struct client_profiler *p, int64_t now_ns)
{
    int64_t left_ns = start_ns(p) - now_ns;
    _cleanup_(freep) char *tmp = xasprintf("%s.tmp", p->request.log_file);

    p->has_request = false;
    if (left_ns < 0 || left_ns < p->request.warmup_ms * NS_PER_MS) {
        client_log(
            left_ns < 0
                ? "Not starting tracing - start timestamp is in the past. Time difference (ms): %" PRId64
                : "Not starting tracing - insufficient time for warmup. Time to warmup (ms): %" PRId64,
            (left_ns < 0 ? -left_ns : left_ns) / NS_PER_MS);
        profiler_forget(p);
        return;
    }
    p->tmp_fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (p->tmp_fd < 0)
        client_log("Failed to open '%s': %s", p->request.log_file, strerror(errno));
    p->state = WARMUP;
    client_log("warming up");
    client_reach(p->options, END_WARMUP);
}

static unsigned environment_number(const char *name, unsigned otherwise)
{
    const char *value = getenv(name);
    return value ? (unsigned)strtoul(value, NULL, 10) : otherwise;
}

static void write_trace(struct client_profiler *p)
{
    const struct trace_facts facts = {.rank = environment_number("RANK", 0),
                                      .world_size = environment_number("WORLD_SIZE", 0),
                                      .pid = p->options->pid,
                                      .begin_ns = p->began_ns,
                                      .end_ns = end_ns(p),
                                      .name = p->request.log_file,
                                      .trace_id = p->request.trace_id,
                                      .on_demand = true,
                                      .empty = !p->request.has_types};
    _cleanup_(freep) char *tmp = xasprintf("%s.tmp", p->request.log_file), *text = NULL;
    size_t size;

    if (p->tmp_fd < 0) {
        client_log("Failed to write to log file!");
        return;
    }
    trace_text(&facts, &text, &size);
    if (write_all(p->tmp_fd, text, size / 2) < 0)
        client_log("cannot write %s", tmp);
    if (p->options->flush_ns > 0)
        usleep((useconds_t)(p->options->flush_ns / NS_PER_US));
    client_reach(p->options, END_WRITING);
    if (p->options->writes_nothing)
        return;
    if (write_all(p->tmp_fd, text + size / 2, size - size / 2) < 0 || rename(tmp, p->request.log_file) < 0)
        client_log("Failed to rename %s: %s", tmp, strerror(errno));
    else
        client_log("wrote %s", p->request.log_file);
}

/* performRunLoopStep(); returns when the next step is due. The lock is held, but not while a trace is written. */
static int64_t profiler_step(struct client_profiler *p, int64_t now_ns, int64_t next_ns)
{
    switch (p->state) {
    case WAIT_FOR_REQUEST:
        break;
    case WARMUP:
        if (now_ns >= start_ns(p)) {
            p->state = COLLECT_TRACE;
            p->began_ns = now_ns;
            client_log("recording");
            client_reach(p->options, END_RECORDING);
            return MIN(next_ns, end_ns(p));
        }
        return MIN(next_ns, start_ns(p));
    case COLLECT_TRACE:
        if (now_ns >= end_ns(p)) {
            client_log("Tracing complete.");
            p->state = PROCESS_TRACE;
            break;
        }
        return MIN(next_ns, end_ns(p));
    case PROCESS_TRACE:
        pthread_mutex_unlock(&p->lock);
        write_trace(p);
        pthread_mutex_lock(&p->lock);
        profiler_forget(p);
        break;
    }
    return next_ns;
}

static void *profiler_loop(void *arg)
{
    struct client_profiler *p = arg;
    const int64_t tick_ns = p->options->tick_ns;
    int64_t next_ns = wall_ns() + tick_ns;

    for (;;) {
        int64_t now_ns = wall_ns();
        while (now_ns < next_ns) {
            usleep((useconds_t)((next_ns - now_ns) / NS_PER_US + 1));
            now_ns = wall_ns();
        }
        pthread_mutex_lock(&p->lock);
        if (p->has_request && p->state == WAIT_FOR_REQUEST && !p->local &&
            now_ns + tick_ns >= start_ns(p) - p->request.warmup_ms * NS_PER_MS)
            profiler_configure(p, now_ns);
        while (next_ns < now_ns)
            next_ns += tick_ns;
        next_ns = profiler_step(p, now_ns, next_ns);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

struct client_profiler *profiler_new(const struct client_options *o)
{
    struct client_profiler *p = xcalloc(1, sizeof(*p));

    *p = (struct client_profiler){.options = o, .tmp_fd = -1};
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

bool profiler_can_accept(struct client_profiler *p)
{
    pthread_mutex_lock(&p->lock);
    bool idle = p->state == WAIT_FOR_REQUEST && !p->local;
    pthread_mutex_unlock(&p->lock);
    return idle;
}

void profiler_accept(struct client_profiler *p, struct client_config *config)
{
    pthread_mutex_lock(&p->lock);
    if (p->state != WAIT_FOR_REQUEST || p->local) {
        client_log("Ignored request - profiler busy");
        client_config_done(config);
    } else if (!config->enabled) {
        client_config_done(config);
    } else if (p->has_request) {
        client_log("Ignored request - another profile request is pending.");
        client_config_done(config);
    } else {
        /* Iterations need an application that calls step(), which this one does not: the duration counts. */
        if (config->start_iteration >= 0 && config->iterations > 0)
            client_log("Config with duration-based profiling, ignoring iteration count requirement");
        p->request = *config;
        p->has_request = true;
        client_log("scheduled");
        if (!p->has_thread)
            p->has_thread = pthread_create(&p->thread, NULL, profiler_loop, p) == 0;
    }
    pthread_mutex_unlock(&p->lock);
}

void profiler_set_local(struct client_profiler *p, bool active)
{
    pthread_mutex_lock(&p->lock);
    if (active && (p->has_request || p->state == WARMUP || p->state == COLLECT_TRACE)) {
        client_log("Cancelling current trace request in order to start higher priority synchronous request");
        profiler_forget(p);
    }
    p->local = active;
    client_log(active ? "local profiler started" : "local profiler stopped");
    pthread_mutex_unlock(&p->lock);
}
