/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/reading.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/program.h"
#include "client/traces/columns_cache.h"
#include "proto/ingest_child.h"
#include "trace/read/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

/* Limit of processor time of profd-ingest: far more than a file of that size takes. */
#define CPU_S             60
#define BYTES_PER_CPU_S   (INT64_C(1) << 20)
#define SHOW_AFTER_NS     NS_PER_S
#define SHOW_INTERVAL_MS  200
#define PROGRESS_LINE_MAX 96
/* Each has three threads. */
#define AT_ONCE_MAX 8

struct reading_child {
    struct reading *reading;
    int64_t size; /* of the source */
    struct ingest_child ingest;
    char line[PROGRESS_LINE_MAX]; /* of progress, incomplete */
    size_t line_size;
    int64_t done, all, events; /* the last progress */
};

/* All that is read together. */
struct readings {
    struct client *client;
    struct reading_child *children; /* in the order in which they start */
    size_t n, n_started, n_ended;
    size_t at_once;
    int64_t memory_max; /* of each; OPTION_ABSENT */
    int64_t begin_ns;
    int signal_fd;
    bool interrupted;
};

static void readings_done(struct readings *r)
{
    for (size_t i = 0; i < r->n; i++)
        ingest_child_done(&r->children[i].ingest);
    free(r->children);
    closep(&r->signal_fd);
}

/* -- Starting the child ------------------------------------------------------------------------------- */

static int reading_child_start(struct reading_child *ch, int64_t memory_max)
{
    struct reading *reading = ch->reading;
    struct ingest_child *c = &ch->ingest;
    _cleanup_(freep) char *program = program_find(&program_ingest, &reading->problem);

    if (!program)
        return -ENOENT;
    c->size_max = INT64_MAX;
    c->cpu_s = CPU_S + ch->size / BYTES_PER_CPU_S;
    c->memory_max = memory_max != OPTION_ABSENT ? memory_max
                    : reading->part.number > 0  ? (int64_t)READ_MEMORY_DEFAULT
                                                : 0;
    c->part[0] = reading->part.number;
    c->part[1] = reading->part.first_pid;
    c->part[2] = reading->part.last_pid;
    /* The terminal's Ctrl-C is for profctl, which ends the child in order. */
    c->own_group = c->with_progress = true;
    c->fds[INGEST_FD_SOURCE] = fcntl(reading->source_fd, F_DUPFD_CLOEXEC, 0);
    c->fds[INGEST_FD_COLUMNS] = fcntl(reading->columns_fd, F_DUPFD_CLOEXEC, 0);
    int r = c->fds[INGEST_FD_SOURCE] < 0 || c->fds[INGEST_FD_COLUMNS] < 0 ? -errno : 0;
    /* Without it, rows that do not fit into memory are an error that the child reports. */
    c->fds[INGEST_FD_SPILL] = nameless_file();
    if (r >= 0)
        r = ingest_child_start(c, program);
    return r < 0 ? problem_set(&reading->problem, r, PROBLEM_INTERNAL, "cannot start %s: %s", program,
                               strerror(-r))
                 : 0;
}

/* Starts children up to the limit. */
static void readings_start_next(struct readings *r)
{
    while (r->n_started < r->n && r->n_started - r->n_ended < r->at_once) {
        struct reading_child *ch = &r->children[r->n_started++];
        ch->reading->result = reading_child_start(ch, r->memory_max);
        if (ch->reading->result == 0)
            continue;
        ingest_child_done(&ch->ingest);
        r->n_ended++;
    }
}

/* -- Watching them ------------------------------------------------------------------------------------ */

static bool reading_child_is_running(const struct reading_child *ch)
{
    return ch->ingest.pid_fd >= 0;
}

/* "reading trace.json  45 %  1,234,567 events  120 MiB/s" */
static void readings_show(struct readings *r)
{
    struct client *c = r->client;
    int64_t elapsed = mono_ns() - r->begin_ns, done = 0, all = 0, events = 0;
    char number[32], rate[UNIT_TEXT_MAX];
    bool is_known = false;

    if (c->quiet || !c->err.is_terminal || elapsed < SHOW_AFTER_NS)
        return;
    for (size_t i = 0; i < r->n; i++) {
        const struct reading_child *ch = &r->children[i];
        bool is_over = i < r->n_started && !reading_child_is_running(ch);
        all += ch->size;
        done += is_over ? ch->size : MIN(ch->done, ch->size);
        events += ch->events;
        is_known = is_known || ch->all > 0;
    }
    _cleanup_(freep) char *name = r->n == 1 ? text_clean(r->children[0].reading->name, false)
                                            : xasprintf("%zu traces", r->n),
                          *line = NULL;
    if (is_known && all > 0)
        line = xasprintf("reading %s  %d %%  %s events  %s/s\n", name,
                         (int)(100.0 * (double)done / (double)all), text_number(number, events),
                         format_size(rate, (int64_t)((double)done * (double)NS_PER_S / (double)elapsed)));
    else
        line = xasprintf("reading %s (%d s)\n", name, (int)(elapsed / NS_PER_S));
    screen_draw(&c->err, line);
}

static void reading_child_take_progress(struct reading_child *ch)
{
    char buf[512];
    ssize_t n;

    while ((n = read(ch->ingest.progress_fd, buf, sizeof(buf))) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (buf[i] != '\n' && ch->line_size < PROGRESS_LINE_MAX - 1) {
                ch->line[ch->line_size++] = buf[i];
                continue;
            }
            ch->line[ch->line_size] = '\0';
            ch->line_size = 0;
            sscanf(ch->line, "%" SCNd64 " %" SCNd64 " %" SCNd64, &ch->done, &ch->all, &ch->events);
        }
    if (n == 0) {
        close(ch->ingest.progress_fd);
        ch->ingest.progress_fd = -1;
    }
}

/* -- Results ------------------------------------------------------------------------------------------ */

static int reading_died(const siginfo_t *end, const char *failure, const char *name, struct problem *p)
{
    problem_set(p, -EIO, PROBLEM_INTERNAL, "cannot read %s: %s", name, failure);
    if (end->si_code != CLD_EXITED && end->si_status == SIGKILL)
        problem_remedy(p,
                       "The kernel may have killed it because memory ran out; use a smaller --memory-limit.");
    return -EIO;
}

static int reading_result(const struct reading_child *ch, const char *name, struct problem *p)
{
    _cleanup_(freep) char *why = NULL;
    _cleanup_json_ facts = ingest_child_parse(&ch->ingest, &why);
    const char *none = json_get_str(facts, "columns_reason"), *remedy = json_get_str(facts, "remedy");
    const char *reason = none ? none : json_get_str(facts, "reason");
    int err = (int)json_get_int(facts, "error", 0);

    if (!facts)
        return problem_set(p, -EPROTO, PROBLEM_INTERNAL, "cannot read %s: %s", name, why);
    if (json_is_object(json_object_get(facts, "columns")))
        return 0;
    if (err > 0)
        return problem_set(p, -err, PROBLEM_STORAGE, "cannot write the columns of %s: %s", name,
                           strerror(err));
    problem_set(p, -EBADMSG, PROBLEM_UNSUPPORTED, "cannot read %s: %s", name,
                reason ? reason : "profd-ingest made no columns and gave no reason");
    if (remedy)
        problem_remedy(p, "%s", remedy);
    return -EBADMSG;
}

static void reading_child_finish(struct readings *r, struct reading_child *ch)
{
    struct reading *reading = ch->reading;
    siginfo_t end = ingest_child_reap(&ch->ingest);
    _cleanup_(freep) char *failure = ingest_child_failure(&end);

    if (r->interrupted)
        reading->result = problem_set(&reading->problem, -EINTR, PROBLEM_INTERNAL,
                                      "interrupted while reading %s", reading->name);
    else if (failure)
        reading->result = reading_died(&end, failure, reading->name, &reading->problem);
    else
        reading->result = reading_result(ch, reading->name, &reading->problem);
    ingest_child_done(&ch->ingest);
    r->n_ended++;
}

/* The signals, then three descriptors of each running child. */
static void readings_wait(struct readings *r)
{
    struct pollfd fds[1 + 3 * AT_ONCE_MAX] = {{.fd = r->signal_fd, .events = POLLIN}};
    struct reading_child *children[AT_ONCE_MAX];
    size_t n = 0;

    for (size_t i = 0; i < r->n_started; i++) {
        struct reading_child *ch = &r->children[i];
        if (!reading_child_is_running(ch))
            continue;
        const int of_child[] = {ch->ingest.pid_fd, ch->ingest.answered ? -1 : ch->ingest.answer_fd,
                                ch->ingest.progress_fd};
        for (size_t k = 0; k < ARRAY_SIZE(of_child); k++)
            fds[1 + 3 * n + k] = (struct pollfd){.fd = of_child[k], .events = POLLIN};
        children[n++] = ch;
    }
    poll(fds, 1 + 3 * n, SHOW_INTERVAL_MS);
    r->interrupted |= fds[0].revents != 0;
    for (size_t i = 0; i < n; i++) {
        if (fds[1 + 3 * i + 2].revents)
            reading_child_take_progress(children[i]);
        struct ingest_child *c = &children[i]->ingest;
        if ((ingest_child_take_answer(c) && c->answer_size == INGEST_RESULT_MAX) || r->interrupted)
            ingest_child_kill(c);
        if (fds[1 + 3 * i].revents || r->interrupted)
            reading_child_finish(r, children[i]);
    }
}

static void readings_run_all(struct readings *r)
{
    while (r->n_ended < r->n && !r->interrupted) {
        readings_start_next(r);
        if (r->n_ended < r->n_started)
            readings_wait(r);
        readings_show(r);
    }
    screen_clear(&r->client->err);
    for (size_t i = r->n_started; i < r->n; i++) {
        struct reading *reading = r->children[i].reading;
        reading->result = problem_set(&reading->problem, -EINTR, PROBLEM_INTERNAL,
                                      "interrupted before %s was read", reading->name);
    }
}

static size_t processors(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) < 0 ? 1 : (size_t)CPU_COUNT(&cpus);
}

void readings_run(struct client *c, struct reading *readings, size_t n, int64_t memory_max)
{
    sigset_t set = screen_signals(), before;
    size_t at_once = MIN(MIN(n, processors()), (size_t)AT_ONCE_MAX);
    int64_t memory = memory_max == OPTION_ABSENT ? (int64_t)READ_MEMORY_DEFAULT : memory_max;
    _cleanup_(readings_done) struct readings r = {
        .client = c,
        .children = xcalloc(n, sizeof(*r.children)),
        .n = n,
        .at_once = at_once,
        .memory_max = at_once > 1 ? MAX(memory / (int64_t)at_once, READING_MEMORY_MIN) : memory_max,
        .begin_ns = mono_ns(),
        .signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
    };

    for (size_t i = 0; i < n; i++) {
        struct stat st = {0};
        fstat(readings[i].source_fd, &st);
        r.children[i] = (struct reading_child){.reading = &readings[i], .size = st.st_size};
        ingest_child_init(&r.children[i].ingest);
    }
    sigprocmask(SIG_BLOCK, &set, &before);
    readings_run_all(&r);
    /* The signal that ended the reading must not end profctl as well. */
    while (r.interrupted && sigtimedwait(&set, NULL, &(struct timespec){0}) > 0)
        continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
}
