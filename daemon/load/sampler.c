/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/sampler.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/offload.h"
#include "base/process_info.h"
#include "daemon/load/statistics.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define INTERVAL_NS NS_PER_S
/* PSS is read again when this many times what it took has passed. */
#define PSS_PAUSE    20
#define TIMELINE_MAX 1024

struct worker_memory {
    char *url;
    pid_t pid;
    bool is_gone;
    struct series rss, pss;
    /* written by the thread while is_reading */
    struct process_memory sample;
    int sample_result;
};

struct gpu_use {
    bool is_used;
    int64_t memory_total_bytes;
    struct series memory, utilisation, sm_clock, memory_clock;
    /* written by the thread while is_reading */
    bool sample_is_used;
    struct gpu_sample sample;
};

/* The members for a sample belong to the thread while is_reading, all others always to the loop. */
struct sampler {
    struct event *timer;
    struct offload *offload;
    bool is_reading;
    uint64_t n_samples;
    struct worker_memory *workers;
    size_t n_workers;
    struct gpus *gpus;
    char gpus_reason[GPU_REASON_MAX];
    struct gpu_use gpu_uses[GPUS_MAX];
    struct moment timeline[TIMELINE_MAX];
    size_t n_timeline;
    uint64_t stride;     /* samples per line of the timeline */
    int64_t pss_next_ns; /* the thread's */
};

static void sampler_read_worker(struct sampler *s, struct worker_memory *w, bool with_pss)
{
    pid_t pids[PROCESS_TREE_MAX];
    size_t n = process_tree(w->pid, pids, ARRAY_SIZE(pids));

    w->sample_result = process_memory_read(pids, n, with_pss, &w->sample);
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++)
        s->gpu_uses[i].sample_is_used = s->gpu_uses[i].sample_is_used || gpu_is_used_by(s->gpus, i, pids, n);
}

static void sampler_read(void *arg)
{
    struct sampler *s = arg;
    int64_t begun = mono_ns();
    bool with_pss = begun >= s->pss_next_ns;

    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].pid > 0)
            sampler_read_worker(s, &s->workers[i], with_pss);
    if (with_pss)
        s->pss_next_ns = begun + PSS_PAUSE * (mono_ns() - begun);
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++)
        gpu_read(s->gpus, i, &s->gpu_uses[i].sample);
}

/* Removes every second line; from then on only every second sample is added. */
static void timeline_thin_out(struct sampler *s)
{
    for (size_t i = 0; i < TIMELINE_MAX / 2; i++)
        s->timeline[i] = s->timeline[2 * i];
    s->n_timeline = TIMELINE_MAX / 2;
    s->stride *= 2;
}

static void sampler_add_moment(struct sampler *s)
{
    struct moment m = {mono_ns(), -1, -1, -1};

    if (s->n_samples % s->stride != 0)
        return;
    if (s->n_timeline == TIMELINE_MAX)
        timeline_thin_out(s);
    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].rss.n > 0)
            m.rss_bytes = MAX(m.rss_bytes, 0) + s->workers[i].rss.end;
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++) {
        const struct gpu_use *g = &s->gpu_uses[i];
        if (g->memory.n > 0)
            m.gpu_bytes = MAX(m.gpu_bytes, 0) + g->memory.end;
        if (g->sm_clock.n > 0 && (m.sm_clock_mhz < 0 || g->sm_clock.end < m.sm_clock_mhz))
            m.sm_clock_mhz = g->sm_clock.end;
    }
    s->timeline[s->n_timeline++] = m;
}

static void sampler_add_sample(struct sampler *s)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        struct worker_memory *w = &s->workers[i];
        if (w->pid == 0)
            continue;
        w->is_gone = w->sample_result < 0;
        if (w->is_gone)
            continue;
        series_add(&w->rss, w->sample.rss_bytes);
        series_add(&w->pss, w->sample.pss_bytes);
    }
    for (size_t i = 0; s->gpus && i < gpus_count(s->gpus); i++) {
        struct gpu_use *g = &s->gpu_uses[i];
        g->is_used = g->sample_is_used;
        g->memory_total_bytes = g->sample.memory_total_bytes;
        series_add(&g->memory, g->sample.memory_bytes);
        series_add(&g->utilisation, g->sample.utilisation_percent);
        series_add(&g->sm_clock, g->sample.sm_clock_mhz);
        series_add(&g->memory_clock, g->sample.memory_clock_mhz);
    }
    sampler_add_moment(s);
    s->n_samples++;
}

static void sampler_on_read(void *arg)
{
    struct sampler *s = arg;

    s->is_reading = false;
    sampler_add_sample(s);
}

static void sampler_on_second(evutil_socket_t fd, short events, void *arg)
{
    struct sampler *s = arg;

    if (s->is_reading)
        return;
    s->is_reading = true;
    offload_run(s->offload, sampler_read, sampler_on_read, s);
}

int sampler_new(struct event_base *base, const struct sampler_target *targets, size_t n, struct sampler **ret)
{
    _cleanup_(sampler_freep) struct sampler *s = xcalloc(1, sizeof(*s));
    struct timeval interval = timeval_of(INTERVAL_NS);

    s->stride = 1;
    s->workers = xcalloc(n, sizeof(*s->workers));
    for (; s->n_workers < n; s->n_workers++)
        s->workers[s->n_workers] = (struct worker_memory){.url = xstrdup(targets[s->n_workers].url),
                                                          .pid = targets[s->n_workers].pid};
    gpus_open(GPU_LIBRARY, &s->gpus, s->gpus_reason);
    sampler_read(s);
    sampler_add_sample(s);
    int r = offload_new(base, 1, &s->offload);
    if (r < 0)
        return r;
    s->timer = event_new(base, -1, EV_PERSIST, sampler_on_second, s);
    if (!s->timer || event_add(s->timer, &interval) < 0)
        return -ENOMEM;
    *ret = TAKE_PTR(s);
    return 0;
}

struct sampler *sampler_free(struct sampler *s)
{
    if (!s)
        return NULL;
    if (s->timer)
        event_free(s->timer);
    if (s->offload)
        offload_free(s->offload);
    for (size_t i = 0; i < s->n_workers; i++)
        free(s->workers[i].url);
    free(s->workers);
    gpus_close(s->gpus);
    free(s);
    return NULL;
}

static const char *worker_memory_reason(const struct worker_memory *w)
{
    if (w->pid == 0)
        return "the worker runs on another host";
    if (w->is_gone && w->rss.n == 0)
        return "the worker's process was gone";
    return w->pss.n == 0 ? "PSS may be read by the worker's own user or root only" : NULL;
}

static json_t *worker_memory_json(const struct worker_memory *w)
{
    json_t *j = json_pack("{s: o, s: o, s: o}", "url", json_text(w->url), "rss_bytes", series_json(&w->rss),
                          "pss_bytes", series_json(&w->pss));

    if (w->pid > 0)
        json_put_int(j, "pid", w->pid);
    json_put_str(j, "reason", worker_memory_reason(w));
    return j;
}

static json_t *gpu_use_json(const struct sampler *s, size_t index)
{
    const struct gpu_use *g = &s->gpu_uses[index];

    return json_pack("{s: I, s: o, s: o, s: I, s: o, s: o, s: o}", "index", (json_int_t)index, "name",
                     json_text(gpu_name(s->gpus, index)), "memory_bytes", series_json(&g->memory),
                     "memory_total_bytes", (json_int_t)g->memory_total_bytes, "utilisation_percent",
                     series_json(&g->utilisation), "sm_clock_mhz", series_json(&g->sm_clock),
                     "memory_clock_mhz", series_json(&g->memory_clock));
}

static json_t *gpus_use_json(const struct sampler *s)
{
    bool any_used = false;

    if (!s->gpus)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < gpus_count(s->gpus); i++)
        any_used = any_used || s->gpu_uses[i].is_used;
    for (size_t i = 0; i < gpus_count(s->gpus); i++)
        if (s->gpu_uses[i].is_used || !any_used)
            json_array_append_new(list, gpu_use_json(s, i));
    return list;
}

/* Takes the last sample, unless the previous one hangs. */
static void sampler_finish(struct sampler *s)
{
    event_del(s->timer);
    if (offload_drain(s->offload, mono_ns() + INTERVAL_NS) < 0)
        return;
    sampler_read(s);
    sampler_add_sample(s);
}

json_t *sampler_result(struct sampler *s)
{
    sampler_finish(s);
    json_t *workers = json_array();

    for (size_t i = 0; i < s->n_workers; i++)
        json_array_append_new(workers, worker_memory_json(&s->workers[i]));
    json_t *j = json_pack("{s: I, s: o, s: o, s: o}", "samples", (json_int_t)s->n_samples, "workers", workers,
                          "gpus", gpus_use_json(s), "timeline", timeline_json(s->timeline, s->n_timeline));
    if (!s->gpus)
        json_put_str(j, "gpus_reason", s->gpus_reason);
    return j;
}

/* A driver without users takes seconds to initialise. */
#define BEGIN_NS (30 * NS_PER_S)
/* Time for a sample that hangs and for the last one. */
#define RESULT_NS    (5 * NS_PER_S)
#define RESULT_MAX   (16u << 20)
#define RESULT_CHUNK (64u << 10)

#define SAMPLER_FD   3

struct sampler_process {
    pid_t pid;
    int fd;
};

/* -- The timeline ------------------------------------------------------------------------------------- */

json_t *timeline_json(const struct moment *moments, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("[I, I, I, I]", (json_int_t)moments[i].at_ns, (json_int_t)moments[i].rss_bytes,
                            (json_int_t)moments[i].gpu_bytes, (json_int_t)moments[i].sm_clock_mhz));
    return list;
}

size_t timeline_read(const json_t *memory, struct moment **ret)
{
    const json_t *list = json_object_get(memory, "timeline");
    size_t n = json_array_size(list);

    *ret = xcalloc(n, sizeof(**ret));
    for (size_t i = 0; i < n; i++) {
        const json_t *line = json_array_get(list, i);
        (*ret)[i] = (struct moment){
            json_integer_value(json_array_get(line, 0)), json_integer_value(json_array_get(line, 1)),
            json_integer_value(json_array_get(line, 2)), json_integer_value(json_array_get(line, 3))};
    }
    return n;
}

/* -- The sampler's process ---------------------------------------------------------------------------- */

struct sampler_loop {
    struct event_base *base;
    struct sampler *sampler;
};

static void sampler_on_asked(evutil_socket_t fd, short what, void *arg)
{
    struct sampler_loop *l = arg;
    char byte;

    if (read(fd, &byte, 1) == 1) {
        _cleanup_json_ result = sampler_result(l->sampler);
        _cleanup_(freep) char *text = json_dumps(result, JSON_COMPACT);
        if (text)
            write_all(fd, text, strlen(text));
    }
    event_base_loopbreak(l->base);
}

static int sampler_keep_only(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(fd, SAMPLER_FD) < 0)
        return -errno;
    return close_range(SAMPLER_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

/* Signals to the process group are for the parent, which ends this process. */
static int sampler_process_main(int fd, const struct sampler_target *targets, size_t n)
{
    struct sampler_loop l = {.base = NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    int r = sampler_keep_only(fd);
    if (r < 0)
        return r;
    l.base = event_base_new();
    struct event *asked =
        l.base ? event_new(l.base, SAMPLER_FD, EV_READ | EV_PERSIST, sampler_on_asked, &l) : NULL;
    r = asked && event_add(asked, NULL) == 0 ? sampler_new(l.base, targets, n, &l.sampler) : -ENOMEM;
    if (r < 0 || write_all(SAMPLER_FD, "", 1) < 0)
        return -EIO;
    event_base_dispatch(l.base);
    return 0;
}

/* -- Its parent ----------------------------------------------------------------------------------------- */

/* Reads what arrives until the deadline: 0 at the end, -ETIMEDOUT. */
static ssize_t sampler_read_until(int fd, void *bytes, size_t size, int64_t deadline_ns)
{
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_ms = MAX(INT64_C(0), deadline_ns - mono_ns()) / NS_PER_MS;
        int r = poll(&ready, 1, (int)left_ms);
        ssize_t n = r > 0 ? read(fd, bytes, size) : r < 0 ? r : -ETIMEDOUT;

        if (r == 0 || n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

int sampler_process_new(const struct sampler_target *targets, size_t n, struct sampler_process **ret)
{
    int fds[2];
    char byte;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0)
        _exit(sampler_process_main(fds[1], targets, n) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
    int err = pid < 0 ? -errno : 0;
    close(fds[1]);
    struct sampler_process *s = xcalloc(1, sizeof(*s));
    *s = (struct sampler_process){.pid = pid, .fd = fds[0]};
    if (err == 0 && sampler_read_until(s->fd, &byte, 1, mono_ns() + BEGIN_NS) != 1)
        err = -EIO;
    if (err < 0)
        sampler_process_free(s);
    else
        *ret = s;
    return err;
}

json_t *sampler_process_result(struct sampler_process *s)
{
    int64_t deadline_ns = mono_ns() + RESULT_NS;
    _cleanup_(freep) char *text = NULL;
    size_t size = 0, capacity = 0;
    ssize_t n = write(s->fd, "", 1) == 1 ? 1 : -1;
    char error[200];

    while (n > 0 && size < RESULT_MAX) {
        if (!ARRAY_RESERVE(text, capacity, size + RESULT_CHUNK))
            out_of_memory();
        n = sampler_read_until(s->fd, text + size, capacity - size, deadline_ns);
        size += n > 0 ? (size_t)n : 0;
    }
    return n == 0 && size > 0 ? json_parse(text, size, error) : NULL;
}

struct sampler_process *sampler_process_free(struct sampler_process *s)
{
    if (!s)
        return NULL;
    close(s->fd);
    /* A process that hangs in a driver is not waited for; it dies with its parent. */
    if (s->pid > 0)
        waitpid(s->pid, NULL, WNOHANG);
    free(s);
    return NULL;
}
