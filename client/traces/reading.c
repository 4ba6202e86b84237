/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/reading.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/spawning.h"
#include "base/units.h"
#include "client/door/program.h"
#include "client/text/text.h"
#include "client/traces/columns_cache.h"
#include "proto/ingest.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
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

struct child {
    pid_t pid;
    int pid_fd, answer_fd, progress_fd, signal_fd;
    char *answer;
    size_t answer_size;
    char line[PROGRESS_LINE_MAX]; /* of progress, not whole yet */
    size_t line_size;
    int64_t done, all, events; /* what progress said last */
    int64_t begin_ns;
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
    closep(&ch->signal_fd);
    free(ch->answer);
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

static int spawn(struct child *ch, const char *program, const struct reading *reading, struct child_fds *f)
{
    char size_max[24], cpu_s[24], memory_max[24];
    bool has_memory_max = reading->memory_max != OPTION_ABSENT;
    char *argv[] = {"profd-ingest", size_max, cpu_s, has_memory_max ? memory_max : NULL, NULL};
    char *environment[] = {"LC_ALL=C", NULL};
    struct stat st = {0};

    fstat(reading->source_fd, &st);
    snprintf(size_max, sizeof(size_max), "%" PRId64, INT64_MAX);
    snprintf(cpu_s, sizeof(cpu_s), "%" PRId64, CPU_S + st.st_size / BYTES_PER_CPU_S);
    snprintf(memory_max, sizeof(memory_max), "%" PRId64, reading->memory_max);
    /* In a group of its own: the terminal's Ctrl-C is for profctl, which ends it in order. */
    return spawn_with(program, f->fds, (int)ARRAY_SIZE(f->fds), argv, environment, POSIX_SPAWN_SETPGROUP,
                      &ch->pid, &ch->pid_fd);
}

static int start(struct child *ch, const struct reading *reading, struct problem *p)
{
    _cleanup_(child_fds_done) struct child_fds f = {.fds = {[0 ... INGEST_FD_PROGRESS] = -1}};
    _cleanup_(freep) char *program = program_find(PROGRAM_INGEST, p);
    sigset_t set = ending_signals();

    if (!program)
        return -ENOENT;
    ch->answer = xcalloc(INGEST_RESULT_MAX, 1);
    ch->begin_ns = mono_ns();
    ch->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    int r = gather_fds(reading, ch, &f);
    if (r >= 0)
        r = spawn(ch, program, reading, &f);
    return r < 0 ? problem_set(p, r, PROBLEM_INTERNAL, "cannot start %s: %s", program, strerror(-r)) : 0;
}

/* -- Watching it -------------------------------------------------------------------------------------- */

static void show(struct client *c, const struct child *ch, const char *name)
{
    int64_t elapsed = mono_ns() - ch->begin_ns;
    char events[32], rate[UNIT_TEXT_MAX];

    if (c->quiet || !c->err.is_terminal || elapsed < SHOW_AFTER_NS)
        return;
    _cleanup_(freep) char *clean = text_clean(name, false), *line = NULL;
    if (ch->all > 0) {
        double per_s = (double)ch->done * (double)NS_PER_S / (double)elapsed;
        int percent = (int)(100.0 * (double)ch->done / (double)ch->all);
        line = xasprintf("reading %s  %d %%  %s events  %s/s\n", clean, MIN(percent, 100),
                         text_number(events, ch->events), format_size(rate, (int64_t)per_s));
    } else {
        line = xasprintf("reading %s (%d s)\n", clean, (int)(elapsed / NS_PER_S));
    }
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

/* Until the child has ended, by itself or because it had to. */
static siginfo_t watch(struct client *c, struct child *ch, const char *name)
{
    siginfo_t end = {0};

    for (;;) {
        struct pollfd fds[] = {{.fd = ch->pid_fd, .events = POLLIN},
                               {.fd = ch->answer_fd, .events = POLLIN},
                               {.fd = ch->progress_fd, .events = POLLIN},
                               {.fd = ch->signal_fd, .events = POLLIN}};
        poll(fds, ARRAY_SIZE(fds), SHOW_INTERVAL_MS);
        if (fds[2].revents)
            take_progress(ch);
        ch->interrupted |= fds[3].revents != 0;
        if (take_answer(ch) < 0 || ch->interrupted)
            pidfd_send_signal(ch->pid_fd, SIGKILL, NULL, 0);
        if (fds[0].revents || ch->interrupted)
            break;
        show(c, ch, name);
    }
    while (waitid(P_PIDFD, (id_t)ch->pid_fd, &end, WEXITED) < 0 && errno == EINTR)
        continue;
    take_answer(ch);
    screen_clear(&c->err);
    return end;
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

static int judge(const struct child *ch, const char *name, json_t **ret, struct problem *p)
{
    char error[200];
    _cleanup_json_ facts = json_parse(ch->answer, ch->answer_size, error);
    const char *none = json_get_str(facts, "columns_reason"), *remedy = json_get_str(facts, "remedy");
    const char *reason = none ? none : json_get_str(facts, "reason");
    int err = (int)json_get_int(facts, "error", 0);

    if (!json_is_object(facts))
        return problem_set(p, -EPROTO, PROBLEM_INTERNAL, "cannot read %s: profd-ingest answered no object",
                           name);
    if (json_is_object(json_object_get(facts, "columns"))) {
        *ret = json_incref(facts);
        return 0;
    }
    if (err > 0)
        return problem_set(p, -err, PROBLEM_STORAGE, "cannot write the columns of %s: %s", name,
                           strerror(err));
    problem_set(p, -EBADMSG, PROBLEM_UNSUPPORTED, "cannot read %s: %s", name,
                reason ? reason : "profd-ingest made no columns of it and said no reason");
    if (remedy)
        problem_remedy(p, "%s", remedy);
    return -EBADMSG;
}

static int run_child(struct client *c, const struct reading *reading, json_t **ret_facts, struct problem *p)
{
    _cleanup_(child_done) struct child ch = {
        .pid_fd = -1, .answer_fd = -1, .progress_fd = -1, .signal_fd = -1};
    int r = start(&ch, reading, p);

    if (r < 0)
        return r;
    siginfo_t end = watch(c, &ch, reading->name);
    if (ch.interrupted)
        return problem_set(p, -EINTR, PROBLEM_INTERNAL, "interrupted while reading %s", reading->name);
    if (end.si_code != CLD_EXITED || end.si_status != 0)
        return died(&end, reading->name, p);
    return judge(&ch, reading->name, ret_facts, p);
}

int reading_run(struct client *c, const struct reading *reading, json_t **ret_facts, struct problem *p)
{
    sigset_t set = ending_signals(), before;

    sigprocmask(SIG_BLOCK, &set, &before);
    int r = run_child(c, reading, ret_facts, p);
    /* What ended the reading has done its work, and must not end profctl as well once it is let through. */
    while (r == -EINTR && sigtimedwait(&set, NULL, &(struct timespec){0}) > 0)
        continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}
