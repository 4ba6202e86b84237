/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/reading.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/spawning.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/program.h"
#include "client/traces/columns_cache.h"
#include "proto/ingest.h"
#include "trace/read/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Processor time that profd-ingest may use: far more than a file of that size takes; one that does not end
 * meets it. */
#define CPU_S             60
#define BYTES_PER_CPU_S   (INT64_C(1) << 20)
#define SHOW_AFTER_NS     NS_PER_S
#define SHOW_INTERVAL_MS  200
#define PROGRESS_LINE_MAX 96
/* Each has three threads of its own. */
#define AT_ONCE_MAX 8

struct child {
    struct reading *reading;
    int64_t size; /* of the source */
    pid_t pid;
    int pid_fd, answer_fd, progress_fd;
    char *answer;
    size_t answer_size;
    char line[PROGRESS_LINE_MAX]; /* of progress, not whole yet */
    size_t line_size;
    int64_t done, all, events; /* what progress said last */
};

/* All that is read together. */
struct readings {
    struct client *client;
    struct child *children; /* in the order in which they start */
    size_t n, n_started, n_ended;
    size_t at_once;
    int64_t memory_max; /* of each; OPTION_ABSENT */
    int64_t begin_ns;
    int signal_fd;
    bool interrupted;
};

/* The child's descriptors, by the numbers they get. */
struct child_fds {
    int fds[INGEST_FD_PROGRESS + 1];
};

static void child_fds_done(struct child_fds *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(f->fds); i++)
        closep(&f->fds[i]);
}

static void child_done(struct child *ch)
{
    closep(&ch->pid_fd);
    closep(&ch->answer_fd);
    closep(&ch->progress_fd);
    ch->pid_fd = ch->answer_fd = ch->progress_fd = -1;
    free(TAKE_PTR(ch->answer));
}

static void readings_done(struct readings *r)
{
    for (size_t i = 0; i < r->n; i++)
        child_done(&r->children[i]);
    free(r->children);
    closep(&r->signal_fd);
}

static sigset_t ending_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

/* -- Starting the child ------------------------------------------------------------------------------- */

static int copy_of(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -errno : copy;
}

static int open_pipe(int *ret_read, int *ret_write)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = fds[0];
    *ret_write = fds[1];
    return fcntl(*ret_read, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int gather_fds(const struct reading *reading, struct child *ch, struct child_fds *ret)
{
    int *fds = ret->fds;

    int r = open_pipe(&ch->answer_fd, &fds[INGEST_FD_RESULT]);
    if (r >= 0)
        r = open_pipe(&ch->progress_fd, &fds[INGEST_FD_PROGRESS]);
    if (r >= 0)
        r = fds[INGEST_FD_SOURCE] = copy_of(reading->source_fd);
    if (r >= 0)
        r = fds[INGEST_FD_COLUMNS] = copy_of(reading->columns_fd);
    /* Without it, what does not fit into memory is an error that the child reports. */
    fds[INGEST_FD_SPILL] = nameless_file();
    return MIN(r, 0);
}

static int spawn(struct child *ch, const char *program, int64_t memory, struct child_fds *f)
{
    const struct merged_part *part = &ch->reading->part;
    char size_max[24], cpu_s[24], memory_max[24], part_texts[3][24];
    bool has_part = part->number > 0, has_memory = memory != OPTION_ABSENT || has_part;
    char *argv[] = {"profd-ingest",
                    size_max,
                    cpu_s,
                    has_memory ? memory_max : NULL,
                    has_part ? size_max : NULL, /* no limit to columns either */
                    part_texts[0],
                    part_texts[1],
                    part_texts[2],
                    NULL};
    char *environment[] = {"LC_ALL=C", NULL};

    snprintf(size_max, sizeof(size_max), "%" PRId64, INT64_MAX);
    snprintf(cpu_s, sizeof(cpu_s), "%" PRId64, CPU_S + ch->size / BYTES_PER_CPU_S);
    snprintf(memory_max, sizeof(memory_max), "%" PRId64,
             memory != OPTION_ABSENT ? memory : (int64_t)READ_MEMORY_DEFAULT);
    const int64_t of_part[] = {part->number, part->first_pid, part->last_pid};
    for (size_t i = 0; i < ARRAY_SIZE(of_part); i++)
        snprintf(part_texts[i], sizeof(part_texts[i]), "%" PRId64, of_part[i]);
    /* In a group of its own: the terminal's Ctrl-C is for profctl, which ends it in order. */
    return spawn_with(program, f->fds, (int)ARRAY_SIZE(f->fds), argv, environment, POSIX_SPAWN_SETPGROUP,
                      &ch->pid, &ch->pid_fd);
}

static int start(struct child *ch, int64_t memory_max)
{
    _cleanup_(child_fds_done) struct child_fds f = {.fds = {[0 ... INGEST_FD_PROGRESS] = -1}};
    struct problem *p = &ch->reading->problem;
    _cleanup_(freep) char *program = program_find(PROGRAM_INGEST, p);

    if (!program)
        return -ENOENT;
    ch->answer = xcalloc(INGEST_RESULT_MAX, 1);
    int r = gather_fds(ch->reading, ch, &f);
    if (r >= 0)
        r = spawn(ch, program, memory_max, &f);
    return r < 0 ? problem_set(p, r, PROBLEM_INTERNAL, "cannot start %s: %s", program, strerror(-r)) : 0;
}

/* Until as many are under way as may be. */
static void start_next(struct readings *r)
{
    while (r->n_started < r->n && r->n_started - r->n_ended < r->at_once) {
        struct child *ch = &r->children[r->n_started++];
        ch->reading->result = start(ch, r->memory_max);
        if (ch->reading->result == 0)
            continue;
        child_done(ch);
        r->n_ended++;
    }
}

/* -- Watching them ------------------------------------------------------------------------------------ */

static bool is_under_way(const struct child *ch)
{
    return ch->pid_fd >= 0;
}

/* "reading trace.json  45 %  1,234,567 events  120 MiB/s" */
static void show(struct readings *r)
{
    struct client *c = r->client;
    int64_t elapsed = mono_ns() - r->begin_ns, done = 0, all = 0, events = 0;
    char number[32], rate[UNIT_TEXT_MAX];
    bool is_known = false;

    if (c->quiet || !c->err.is_terminal || elapsed < SHOW_AFTER_NS)
        return;
    for (size_t i = 0; i < r->n; i++) {
        const struct child *ch = &r->children[i];
        bool is_over = i < r->n_started && !is_under_way(ch);
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

static void take_progress(struct child *ch)
{
    char buf[512];
    ssize_t n;

    while ((n = read(ch->progress_fd, buf, sizeof(buf))) > 0)
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
        close(ch->progress_fd);
        ch->progress_fd = -1;
    }
}

/* 0 or -EFBIG. */
static int take_answer(struct child *ch)
{
    ssize_t n = 1;

    while (ch->answer_fd >= 0 && ch->answer_size < INGEST_RESULT_MAX && n > 0) {
        n = read(ch->answer_fd, ch->answer + ch->answer_size, INGEST_RESULT_MAX - ch->answer_size);
        ch->answer_size += (size_t)MAX(n, 0);
    }
    if (n == 0) {
        close(ch->answer_fd);
        ch->answer_fd = -1;
    }
    return ch->answer_size < INGEST_RESULT_MAX ? 0 : -EFBIG;
}

static siginfo_t reap(struct child *ch)
{
    siginfo_t end = {0};

    while (waitid(P_PIDFD, (id_t)ch->pid_fd, &end, WEXITED) < 0 && errno == EINTR)
        continue;
    take_answer(ch);
    return end;
}

static void kill_child(const struct child *ch)
{
    pidfd_send_signal(ch->pid_fd, SIGKILL, NULL, 0);
}

/* -- What came of it ---------------------------------------------------------------------------------- */

static int died(const siginfo_t *end, const char *name, struct problem *p)
{
    const char *signal_name = end->si_code == CLD_EXITED ? NULL : sigabbrev_np(end->si_status);

    if (end->si_code != CLD_EXITED && end->si_status == SIGXCPU)
        problem_set(p, -EIO, PROBLEM_INTERNAL, "cannot read %s: profd-ingest used up its processor time",
                    name);
    else if (end->si_code == CLD_EXITED)
        problem_set(p, -EIO, PROBLEM_INTERNAL, "cannot read %s: profd-ingest ended with status %d", name,
                    end->si_status);
    else
        problem_set(p, -EIO, PROBLEM_INTERNAL, "cannot read %s: profd-ingest was killed by SIG%s", name,
                    signal_name ? signal_name : "?");
    if (end->si_code != CLD_EXITED && end->si_status == SIGKILL)
        problem_remedy(p,
                       "The kernel may have done so for want of memory: --memory-limit makes it use less.");
    return -EIO;
}

static int judge(const struct child *ch, const char *name, struct problem *p)
{
    char error[200];
    _cleanup_json_ facts = json_parse(ch->answer, ch->answer_size, error);
    const char *none = json_get_str(facts, "columns_reason"), *remedy = json_get_str(facts, "remedy");
    const char *reason = none ? none : json_get_str(facts, "reason");
    int err = (int)json_get_int(facts, "error", 0);

    if (!json_is_object(facts))
        return problem_set(p, -EPROTO, PROBLEM_INTERNAL, "cannot read %s: profd-ingest answered no object",
                           name);
    if (json_is_object(json_object_get(facts, "columns")))
        return 0;
    if (err > 0)
        return problem_set(p, -err, PROBLEM_STORAGE, "cannot write the columns of %s: %s", name,
                           strerror(err));
    problem_set(p, -EBADMSG, PROBLEM_UNSUPPORTED, "cannot read %s: %s", name,
                reason ? reason : "profd-ingest made no columns of it and said no reason");
    if (remedy)
        problem_remedy(p, "%s", remedy);
    return -EBADMSG;
}

static void finish(struct readings *r, struct child *ch)
{
    struct reading *reading = ch->reading;
    siginfo_t end = reap(ch);

    if (r->interrupted)
        reading->result = problem_set(&reading->problem, -EINTR, PROBLEM_INTERNAL,
                                      "interrupted while reading %s", reading->name);
    else if (end.si_code != CLD_EXITED || end.si_status != 0)
        reading->result = died(&end, reading->name, &reading->problem);
    else
        reading->result = judge(ch, reading->name, &reading->problem);
    child_done(ch);
    r->n_ended++;
}

/* The signals, then three descriptors of each child that is under way. */
static void wait_for_any(struct readings *r)
{
    struct pollfd fds[1 + 3 * AT_ONCE_MAX] = {{.fd = r->signal_fd, .events = POLLIN}};
    struct child *children[AT_ONCE_MAX];
    size_t n = 0;

    for (size_t i = 0; i < r->n_started; i++) {
        struct child *ch = &r->children[i];
        if (!is_under_way(ch))
            continue;
        const int of_child[] = {ch->pid_fd, ch->answer_fd, ch->progress_fd};
        for (size_t k = 0; k < ARRAY_SIZE(of_child); k++)
            fds[1 + 3 * n + k] = (struct pollfd){.fd = of_child[k], .events = POLLIN};
        children[n++] = ch;
    }
    poll(fds, 1 + 3 * n, SHOW_INTERVAL_MS);
    r->interrupted |= fds[0].revents != 0;
    for (size_t i = 0; i < n; i++) {
        if (fds[1 + 3 * i + 2].revents)
            take_progress(children[i]);
        if (take_answer(children[i]) < 0 || r->interrupted)
            kill_child(children[i]);
        if (fds[1 + 3 * i].revents || r->interrupted)
            finish(r, children[i]);
    }
}

static void run_all(struct readings *r)
{
    while (r->n_ended < r->n && !r->interrupted) {
        start_next(r);
        if (r->n_ended < r->n_started)
            wait_for_any(r);
        show(r);
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
    sigset_t set = ending_signals(), before;
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
        r.children[i] = (struct child){
            .reading = &readings[i], .size = st.st_size, .pid_fd = -1, .answer_fd = -1, .progress_fd = -1};
    }
    sigprocmask(SIG_BLOCK, &set, &before);
    run_all(&r);
    /* What ended the reading has done its work, and must not end profctl as well once it is let through. */
    while (r.interrupted && sigtimedwait(&set, NULL, &(struct timespec){0}) > 0)
        continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
}
