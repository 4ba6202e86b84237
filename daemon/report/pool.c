/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/pool.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/report/child.h"
#include "daemon/report/turns.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Of a child, from its start. */
#define WORK_DEADLINE (60 * NS_PER_S)
/* All threads together: less than the deadline on many processors. */
#define WORK_CPU_S 300
/* Bytes of an answer, which lies in memory until its client has read it. */
#define ANSWER_MAX (INT64_C(256) << 20)
/* How long a work waits for its turn while others run. */
#define WAITING_DEADLINE (60 * NS_PER_S)
/* A killed child that is still there waits for a disk or a server that does not answer: nobody else waits for it. */
#define KILLED_PATIENCE (5 * NS_PER_S)

struct report_work {
    TAILQ_ENTRY(report_work) next;
    struct reports *reports;
    int *fds; /* columns, then sources */
    size_t n;
    int64_t mapped, answer_max, deadline_ns;
    bool background, running;
    bool is_killed;   /* by its deadline */
    char *user;       /* "": nobody */
    struct turn turn; /* its place among those of other users; unused in the background */
    int spec_fd, answer_fd;
    struct report_child child;
    int64_t begun_ns;
    struct event *on_result, *on_exit, *on_time;
    struct problem fate; /* why it ends without an answer */
    bool is_cancelled;
    void (*done)(struct report_end *end, void *arg);
    void *arg;
};
TAILQ_HEAD(report_work_list, report_work);

struct reports {
    struct event_base *base;
    char *program;
    const struct reports_settings *settings;
    struct report_work_list works; /* in the order of their arrival */
    struct event *due;
    unsigned running_background;
    struct turns turns; /* what waits, but for the background */
    struct reports_metrics metrics;
};

static void reports_schedule(struct reports *reports)
{
    event_active(reports->due, 0, 0);
}

/* -- The end of a work -------------------------------------------------------------------------------- */

/* Of the traces and the specification: a child that runs has its own. */
static void report_work_close_inputs(struct report_work *work)
{
    for (size_t i = 0; i < 2 * work->n; i++) {
        closep(&work->fds[i]);
        work->fds[i] = -1;
    }
    closep(&work->spec_fd);
    work->spec_fd = -1;
}

static void report_work_free(struct report_work *work)
{
    struct event *events[] = {work->on_result, work->on_exit, work->on_time};

    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (events[i])
            event_free(events[i]);
    report_work_close_inputs(work);
    closep(&work->answer_fd);
    report_child_done(&work->child);
    problem_done(&work->fate);
    free(work->user);
    free(work->fds);
    free(work);
}

static void report_work_finish(struct report_work *work, const siginfo_t *end)
{
    struct reports *reports = work->reports;
    struct report_end result = {.answer_fd = -1};
    struct stat st = {0};

    TAILQ_REMOVE(&reports->works, work, next);
    if (work->running) {
        reports->metrics.running--;
        reports->running_background -= work->background;
    } else {
        reports->metrics.waiting--;
        if (!work->background)
            turns_drop(&reports->turns, &work->turn);
    }
    if (work->fate.kind != PROBLEM_NONE || !end) {
        result.problem = work->fate;
        work->fate = (struct problem){0};
        reports->metrics.failed += !work->is_cancelled;
    } else {
        report_child_explain(&work->child, end, &result.problem);
        if (result.problem.kind == PROBLEM_NONE && fstat(work->answer_fd, &st) < 0)
            problem_set(&result.problem, -errno, PROBLEM_INTERNAL, "the answer is gone");
        bool is_refused =
            result.problem.kind != PROBLEM_NONE && end->si_code == CLD_EXITED && end->si_status == 0;
        result.is_refused = is_refused;
        reports->metrics.answered += result.problem.kind == PROBLEM_NONE;
        reports->metrics.refused += is_refused;
        reports->metrics.failed += result.problem.kind != PROBLEM_NONE && !is_refused;
    }
    if (result.problem.kind == PROBLEM_NONE) {
        result.answer_fd = TAKE_FD(work->answer_fd);
        result.size = st.st_size;
    }
    if (work->begun_ns)
        histogram_add(&reports->metrics.durations, mono_ns() - work->begun_ns);
    reports->metrics.cancelled += work->is_cancelled;
    if (!work->is_cancelled)
        work->done(&result, work->arg);
    closep(&result.answer_fd);
    problem_done(&result.problem);
    report_work_free(work);
}

static void report_work_give_up(struct report_work *work, enum problem_kind kind, const char *what)
{
    problem_set(&work->fate, -ECANCELED, kind, "%s", what);
    report_child_kill(&work->child);
}

static void report_work_reap(struct report_work *work)
{
    siginfo_t end;

    report_child_reap(&work->child, &end);
    report_work_finish(work, &end);
}

/* -- Events ------------------------------------------------------------------------------------------- */

static void report_work_on_result(evutil_socket_t fd, short what, void *arg)
{
    struct report_work *work = arg;

    if (!report_child_read(&work->child))
        return;
    event_del(work->on_result);
    if (report_child_is_full(&work->child))
        report_work_give_up(work, PROBLEM_INTERNAL, "profd-report answered too much");
}

static void report_work_on_exit(evutil_socket_t fd, short what, void *arg)
{
    struct report_work *work = arg;
    struct reports *reports = work->reports;

    report_work_reap(work);
    reports_schedule(reports);
}

/* Its answer is an error; the child holds its place until it is gone. */
static void report_work_leave(struct report_work *work)
{
    struct report_end end = {.answer_fd = -1};

    problem_copy(&end.problem, -ETIME, work->fate.kind, &work->fate);
    work->is_cancelled = true;
    work->reports->metrics.failed++;
    work->done(&end, work->arg);
    problem_done(&end.problem);
}

static void report_work_on_time(evutil_socket_t fd, short what, void *arg)
{
    const struct timeval patience = timeval_of(KILLED_PATIENCE);
    struct report_work *work = arg;

    if (!work->running) {
        problem_remedy(&work->fate, TURNS_REMEDY_REPORTS);
        report_work_give_up(work, PROBLEM_TOO_MANY, "other reports took all the time for 60 s");
        reports_schedule(work->reports);
        return;
    }
    if (work->is_killed) {
        if (!work->is_cancelled)
            report_work_leave(work);
        return;
    }
    problem_remedy(&work->fate, "Select a part of the trace, or analyze it with profctl on your machine.");
    report_work_give_up(work, PROBLEM_TOO_LARGE,
                        work->deadline_ns == WORK_DEADLINE
                            ? "the work on the trace reached its time limit of 60 s"
                            : "the work on the traces reached its time limit");
    work->is_killed = true;
    event_add(work->on_time, &patience);
}

/* -- Start -------------------------------------------------------------------------------------------- */

static int report_work_start(struct report_work *work)
{
    struct event_base *base = work->reports->base;
    const struct timeval deadline = timeval_of(work->deadline_ns);

    if (work->answer_fd < 0)
        work->answer_fd = memfd_create("profd-report", MFD_CLOEXEC);
    const struct report_child_start start = {.program = work->reports->program,
                                             .trace_fds = work->fds,
                                             .n = work->n,
                                             .spec_fd = &work->spec_fd,
                                             .answer_fd = &work->answer_fd,
                                             .memory_max = work->reports->settings->memory_max,
                                             .cpu_s = WORK_CPU_S,
                                             .mapped = work->mapped,
                                             .answer_max = work->answer_max,
                                             .background = work->background};
    int r = work->answer_fd < 0 ? -errno : report_child_start(&work->child, &start);
    if (r < 0)
        return r;
    report_work_close_inputs(work);
    work->begun_ns = mono_ns();
    work->on_result =
        event_new(base, work->child.result_fd, EV_READ | EV_PERSIST, report_work_on_result, work);
    work->on_exit = event_new(base, work->child.pid_fd, EV_READ, report_work_on_exit, work);
    event_add(work->on_result, NULL);
    event_add(work->on_exit, NULL);
    event_add(work->on_time, &deadline);
    return 0;
}

static struct report_work *reports_next_background(const struct reports *reports)
{
    struct report_work *work;

    TAILQ_FOREACH(work, &reports->works, next)
        if (!work->running && work->background)
            return work;
    return NULL;
}

/* What somebody waits for has all places; one work in the background runs beside it, or in a free place. It goes on when
 * others come. */
static struct report_work *reports_next(const struct reports *reports)
{
    const struct reports_metrics *m = &reports->metrics;
    int64_t max = reports->settings->children_max;
    struct turn *turn =
        m->running - reports->running_background < max ? turns_next(&reports->turns, NULL) : NULL;
    struct report_work *work = turn ? container_of(turn, struct report_work, turn) : NULL;

    return work || m->running >= max || reports->running_background > 0 ? work
                                                                        : reports_next_background(reports);
}

/* On the loop, never within reports_run(): a work that cannot be started ends here. */
static void reports_on_due(evutil_socket_t fd, short what, void *arg)
{
    struct reports *reports = arg;
    struct report_work *work, *following;

    for (work = TAILQ_FIRST(&reports->works); work; work = following) {
        following = TAILQ_NEXT(work, next);
        if (!work->running && work->fate.kind != PROBLEM_NONE)
            report_work_finish(work, NULL);
    }
    while ((work = reports_next(reports))) {
        int r = report_work_start(work);
        if (r < 0) {
            problem_set(&work->fate, r, PROBLEM_INTERNAL, "cannot start %s: %s", reports->program,
                        strerror(-r));
            report_work_finish(work, NULL);
            continue;
        }
        work->running = true;
        reports->metrics.running++;
        reports->metrics.waiting--;
        reports->running_background += work->background;
        if (!work->background)
            turns_take(&reports->turns, &work->turn);
    }
}

/* -- The pool ----------------------------------------------------------------------------------------- */

int reports_new(struct event_base *base, const char *program, const struct reports_settings *settings,
                struct reports **ret)
{
    static const struct turn_limits limits = {.all = REPORTS_WAITING_MAX,
                                              .user = REPORTS_WAITING_USER_MAX,
                                              .traces = REPORTS_TRACES_MAX,
                                              .what = "reports",
                                              .items = "traces",
                                              .remedy = TURNS_REMEDY_REPORTS};
    struct reports *reports = xcalloc(1, sizeof(*reports));

    *reports = (struct reports){.base = base,
                                .program = xstrdup(program),
                                .settings = settings,
                                .works = TAILQ_HEAD_INITIALIZER(reports->works)};
    turns_init(&reports->turns, &limits);
    reports->due = evtimer_new(base, reports_on_due, reports);
    *ret = reports;
    return 0;
}

struct reports *reports_free(struct reports *reports)
{
    struct report_work *work;

    if (!reports)
        return NULL;
    TAILQ_FOREACH(work, &reports->works, next)
        report_work_give_up(work, PROBLEM_INTERNAL, "profd is stopping");
    while ((work = TAILQ_FIRST(&reports->works)))
        if (work->running)
            report_work_reap(work);
        else
            report_work_finish(work, NULL);
    event_free(reports->due);
    free(reports->program);
    free(reports);
    return NULL;
}

void reports_renew(struct reports *reports)
{
    reports_schedule(reports);
}

bool reports_are_idle(const struct reports *reports)
{
    return reports->metrics.running == 0 && reports->metrics.waiting == 0;
}

/* Those in the background hold few descriptors and are not counted. */
int reports_check_room(const struct reports *reports, const char *user, size_t n_traces, struct problem *p)
{
    return turns_check(&reports->turns, user, n_traces, p);
}

struct report_work *reports_run(struct reports *reports, const struct report_job *take,
                                void (*done)(struct report_end *end, void *arg), void *arg)
{
    const struct timeval waiting = timeval_of(WAITING_DEADLINE);
    struct report_work *work = xcalloc(1, sizeof(*work));

    *work = (struct report_work){.reports = reports,
                                 .fds = xcalloc(2 * take->n + 1, sizeof(*work->fds)),
                                 .n = take->n,
                                 .mapped = take->mapped,
                                 .background = take->background,
                                 .user = xstrdup(take->user ? take->user : ""),
                                 .answer_max = take->target ? take->target->size_max : ANSWER_MAX,
                                 .deadline_ns = take->target ? take->target->deadline_ns : WORK_DEADLINE,
                                 .spec_fd = report_child_spec(take->spec),
                                 .answer_fd = take->target ? take->target->fd : -1,
                                 .done = done,
                                 .arg = arg};
    for (size_t i = 0; i < take->n; i++) {
        work->fds[i] = take->columns_fds[i];
        work->fds[take->n + i] = take->source_fds ? take->source_fds[i] : -1;
    }
    report_child_init(&work->child);
    work->turn = (struct turn){.user = work->user, .n_traces = work->n};
    if (work->spec_fd < 0)
        problem_set(&work->fate, work->spec_fd, PROBLEM_INTERNAL, "cannot pass the work on: %s",
                    strerror(-work->spec_fd));
    else if (!work->background)
        reports_check_room(reports, work->user, work->n, &work->fate);
    work->on_time = evtimer_new(reports->base, report_work_on_time, work);
    if (!work->background) {
        turns_add(&reports->turns, &work->turn);
        event_add(work->on_time, &waiting);
    }
    TAILQ_INSERT_TAIL(&reports->works, work, next);
    reports->metrics.waiting++;
    reports_schedule(reports);
    return work;
}

void reports_cancel(struct report_work *work)
{
    struct reports *reports = work->reports;

    work->is_cancelled = true;
    report_work_give_up(work, PROBLEM_INTERNAL, "nobody waits for it");
    if (!work->running)
        report_work_finish(work, NULL);
    reports_schedule(reports);
}

void reports_metrics(const struct reports *reports, struct reports_metrics *ret)
{
    *ret = reports->metrics;
}
