/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/ingest.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/ingest/queue.h"
#include "proto/ingest_child.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/queue.h>

/* A slow disk of a busy host, and a child that shares a slow processor with the engine. */
#define INGEST_DEADLINE    (120 * NS_PER_S)
#define INGEST_BYTES_PER_S (INT64_C(1) << 20)
#define CPU_S              30
#define BYTES_PER_CPU_S    (INT64_C(2) << 20)
/* Descriptors kept for the start of a child: files that wait may have taken all others. */
#define RESERVE_FDS 8

/* A file that waits, or that a child reads. */
struct ingest_file {
    TAILQ_ENTRY(ingest_file) next;
    struct queue_file entry; /* in the queue; unused where no child reads it */
    bool queued;
    struct ingest *ingest;
    struct ingest_child child;
    int64_t source_size;
    void (*open_columns)(struct ingest_columns *ret, void *arg);
    void (*drop_columns)(void *arg);
    void (*done)(const struct ingest_result *result, void *arg);
    void *arg;

    int64_t begun_ns; /* its first slice; 0: it had none */
    struct event *answer_event, *exit_event, *time_event;

    int err;    /* why it was not read, whatever the child answers */
    char *fate; /* why profd itself gave up on the child */
};
TAILQ_HEAD(ingest_file_list, ingest_file);

struct ingest {
    struct event_base *base;
    char *program;
    struct ingest_queue queue;
    struct event *due;
    int64_t deadline_ns;
    int reserve[RESERVE_FDS];
    int group_fd; /* -1: children stay where profd is */
    struct ingest_file_list files;
    struct ingest_metrics metrics;
};

static void ingest_schedule(struct ingest *ingest);

static void ingest_file_give_up(struct ingest_file *file, int err, char *fate)
{
    if (file->fate || file->err) {
        free(fate);
        return;
    }
    file->err = err;
    file->fate = fate;
    ingest_child_kill(&file->child);
}

/* Reads the child's object into the result; the reason of a bad one. */
static char *ingest_file_read_answer(const struct ingest_file *file, struct ingest_result *result)
{
    char *why = NULL;
    json_t *facts = ingest_child_parse(&file->child, &why);

    if (!facts)
        return why;
    json_decref(result->facts);
    result->facts = facts;
    int64_t destination_error = json_get_int(facts, "error", 0);
    int state = trace_state_from_name(json_get_str(facts, "state"));
    const char *reason = json_get_str(facts, "reason");
    if (destination_error > 0)
        result->err = -(int)destination_error;
    else if (state < 0)
        return xstrdup("profd-ingest named no state");
    else
        result->state = (enum trace_state)state;
    return xstrdup(reason);
}

static void ingest_file_free_events(struct ingest_file *file)
{
    struct event **const events[] = {&file->answer_event, &file->exit_event, &file->time_event};

    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        if (*events[i])
            event_free(*events[i]);
        *events[i] = NULL;
    }
}

static void ingest_file_free(struct ingest_file *file)
{
    ingest_file_free_events(file);
    ingest_child_done(&file->child);
    free(file->fate);
    free(file);
}

static void ingest_file_leave_queue(struct ingest_file *file)
{
    if (file->queued)
        ingest_queue_remove(&file->ingest->queue, &file->entry);
    file->queued = false;
}

static void ingest_file_count(struct ingest_metrics *m, const struct ingest_file *file,
                              const struct ingest_result *result)
{
    if (result->used_up || file->fate)
        m->killed++;
    else if (result->err < 0 || result->state == TRACE_UNREADABLE)
        m->failed++;
    else
        m->read++;
    m->bytes += (uint64_t)file->source_size;
    histogram_add(&m->durations, mono_ns() - file->begun_ns);
}

/* end is NULL where there was no child. */
static void ingest_file_finish(struct ingest_file *file, const siginfo_t *end)
{
    struct ingest *ingest = file->ingest;
    struct ingest_result result = {.err = file->err,
                                   .state = TRACE_UNREADABLE,
                                   .facts = json_object(),
                                   .source_fd = file->child.fds[INGEST_FD_SOURCE],
                                   .dest_fd = file->child.fds[INGEST_FD_DEST]};

    result.reason = file->fate ? xstrdup(file->fate) : end ? ingest_child_failure(end) : NULL;
    result.used_up = result.err == 0 && end && ingest_child_hit_limit(end);
    if (!result.reason && result.err == 0)
        result.reason = ingest_file_read_answer(file, &result);
    if (file->entry.running)
        ingest_file_count(&ingest->metrics, file, &result);
    ingest_file_leave_queue(file);
    TAILQ_REMOVE(&ingest->files, file, next);
    file->done(&result, file->arg);
    json_decref(result.facts);
    free(result.reason);
    ingest_file_free(file);
}

/* True when nothing more comes. */
static bool ingest_file_take_answer(struct ingest_file *file)
{
    bool is_complete = ingest_child_take_answer(&file->child);

    if (file->child.answer_size == INGEST_RESULT_MAX)
        ingest_file_give_up(file, 0, xasprintf("profd-ingest answered %d bytes or more", INGEST_RESULT_MAX));
    return is_complete;
}

static void ingest_file_on_answer(evutil_socket_t fd, short what, void *arg)
{
    struct ingest_file *file = arg;
    if (ingest_file_take_answer(file))
        event_del(file->answer_event);
}

/* Discards the results of a slice. 0, or why there cannot be another one. */
static int ingest_file_clear_slice(struct ingest_file *file)
{
    int dest_fd = file->child.fds[INGEST_FD_DEST];

    ingest_file_free_events(file);
    ingest_child_clear(&file->child);
    if (file->drop_columns)
        file->drop_columns(file->arg);
    return dest_fd >= 0 && ftruncate(dest_fd, 0) < 0 ? -errno : 0;
}

static void ingest_file_end_without_child(struct ingest_file *file);

static void ingest_file_put_back(struct ingest_file *file)
{
    struct ingest *ingest = file->ingest;

    ingest->metrics.put_back++;
    ingest_queue_put_back(&ingest->queue, &file->entry, mono_ns());
    int r = ingest_file_clear_slice(file);
    if (r < 0) {
        ingest_file_give_up(file, r, xasprintf("cannot begin its copy anew: %s", strerror(-r)));
        ingest_file_end_without_child(file);
    }
}

/* A child that was about to end by itself when it was killed has ended. */
static void ingest_file_reap(struct ingest_file *file)
{
    siginfo_t end = ingest_child_reap(&file->child);

    if (!file->fate)
        ingest_file_take_answer(file);
    if (file->entry.yielding && !file->fate && end.si_code != CLD_EXITED && end.si_status == SIGKILL)
        ingest_file_put_back(file);
    else
        ingest_file_finish(file, &end);
}

static void ingest_file_on_exit(evutil_socket_t fd, short what, void *arg)
{
    struct ingest_file *file = arg;
    struct ingest *ingest = file->ingest;

    ingest_file_reap(file);
    ingest_schedule(ingest);
}

static void ingest_file_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct ingest_file *file = arg;
    ingest_file_give_up(file, 0,
                        xstrdup("profd-ingest did not end in the time that a file of this size may take"));
}

/* A file that no child reads ends here, on the loop. */
static void ingest_file_on_end(evutil_socket_t fd, short what, void *arg)
{
    struct ingest_file *file = arg;
    struct ingest *ingest = file->ingest;

    ingest_file_finish(file, NULL);
    ingest_schedule(ingest);
}

static void ingest_file_end_without_child(struct ingest_file *file)
{
    ingest_file_leave_queue(file);
    if (!file->time_event)
        file->time_event = evtimer_new(file->ingest->base, ingest_file_on_end, file);
    event_add(file->time_event, &(struct timeval){0, 0});
}

static int ingest_file_start_child(struct ingest_file *file)
{
    /* One that cannot join is bounded by its own limits all the same. */
    file->child.fds[INGEST_FD_GROUP] =
        file->ingest->group_fd >= 0 ? fcntl(file->ingest->group_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (file->open_columns) {
        struct ingest_columns columns = {.fd = -1, .spill_fd = -1, .room = INT64_MAX};
        file->open_columns(&columns, file->arg);
        file->child.fds[INGEST_FD_COLUMNS] = columns.fd;
        file->child.fds[INGEST_FD_SPILL] = columns.spill_fd;
        file->child.columns_room = columns.room;
    }
    return ingest_child_start(&file->child, file->ingest->program);
}

static void ingest_reserve_fill(struct ingest *ingest)
{
    for (size_t i = 0; i < RESERVE_FDS; i++)
        ingest->reserve[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void ingest_reserve_release(struct ingest *ingest)
{
    for (size_t i = 0; i < RESERVE_FDS; i++)
        closep(&ingest->reserve[i]);
}

static void ingest_file_watch_child(struct ingest_file *file)
{
    struct ingest *ingest = file->ingest;
    int64_t more_ns = file->source_size / INGEST_BYTES_PER_S * NS_PER_S;
    struct timeval deadline = timeval_of(ingest->deadline_ns + more_ns);

    file->answer_event =
        event_new(ingest->base, file->child.answer_fd, EV_READ | EV_PERSIST, ingest_file_on_answer, file);
    file->exit_event = event_new(ingest->base, file->child.pid_fd, EV_READ, ingest_file_on_exit, file);
    file->time_event = evtimer_new(ingest->base, ingest_file_on_deadline, file);
    event_add(file->answer_event, NULL);
    event_add(file->exit_event, NULL);
    event_add(file->time_event, &deadline);
}

static void ingest_file_start(struct ingest_file *file, int64_t now_ns)
{
    struct ingest *ingest = file->ingest;

    ingest_reserve_release(ingest);
    int r = ingest_file_start_child(file);
    if (r == 0)
        ingest_file_watch_child(file);
    ingest_reserve_fill(ingest);
    if (r < 0) {
        ingest->metrics.failed++;
        ingest_file_give_up(file, r, xasprintf("cannot start %s: %s", ingest->program, strerror(-r)));
        ingest_file_end_without_child(file);
        return;
    }
    file->begun_ns = file->begun_ns ? file->begun_ns : now_ns;
    ingest_queue_begin(&ingest->queue, &file->entry, now_ns);
}

/* Starts and ends children as the queue decides. */
static void ingest_schedule(struct ingest *ingest)
{
    struct queue_file *entry;
    int64_t now = mono_ns();

    while ((entry = ingest_queue_next(&ingest->queue, now)))
        ingest_file_start(container_of(entry, struct ingest_file, entry), now);
    if ((entry = ingest_queue_yield(&ingest->queue, now)))
        ingest_child_kill(&container_of(entry, struct ingest_file, entry)->child);
    int64_t due = ingest_queue_due(&ingest->queue, now);
    struct timeval left = timeval_until(due);
    if (due == INT64_MAX)
        event_del(ingest->due);
    else
        event_add(ingest->due, &left);
}

static void ingest_on_due(evutil_socket_t fd, short what, void *arg)
{
    ingest_schedule(arg);
}

int ingest_new(struct event_base *base, const char *program_path, unsigned children_max, struct ingest **ret)
{
    if (children_max == 0)
        return -EINVAL;
    struct ingest *ingest = xcalloc(1, sizeof(*ingest));
    *ingest = (struct ingest){
        .base = base,
        .program = xstrdup(program_path),
        .deadline_ns = INGEST_DEADLINE,
        .group_fd = -1,
        .files = TAILQ_HEAD_INITIALIZER(ingest->files),
    };
    ingest_queue_init(&ingest->queue, children_max);
    ingest->due = evtimer_new(base, ingest_on_due, ingest);
    ingest_reserve_fill(ingest);
    *ret = ingest;
    return 0;
}

struct ingest *ingest_free(struct ingest *ingest)
{
    struct ingest_file *file;

    if (!ingest)
        return NULL;
    TAILQ_FOREACH(file, &ingest->files, next)
        ingest_file_give_up(file, -ECANCELED, xstrdup("cancelled"));
    while ((file = TAILQ_FIRST(&ingest->files)))
        if (file->entry.running)
            ingest_file_reap(file);
        else
            ingest_file_finish(file, NULL);
    event_free(ingest->due);
    ingest_reserve_release(ingest);
    closep(&ingest->group_fd);
    free(ingest->program);
    free(ingest);
    return NULL;
}

void ingest_set_children_max(struct ingest *ingest, unsigned children_max)
{
    ingest->queue.slots = children_max;
    ingest_schedule(ingest);
}

void ingest_set_group(struct ingest *ingest, int take_procs_fd)
{
    closep(&ingest->group_fd);
    ingest->group_fd = take_procs_fd;
}

unsigned ingest_children_max(const struct ingest *ingest)
{
    return ingest_queue_running_max(ingest->queue.slots);
}

void ingest_metrics(const struct ingest *ingest, struct ingest_metrics *ret)
{
    *ret = ingest->metrics;
    ret->running = ingest->queue.n_running;
    ret->waiting = ingest->queue.n_waiting;
}

int ingest_check(const struct ingest *ingest)
{
    return access(ingest->program, X_OK) < 0 ? -errno : 0;
}

bool ingest_is_full(const struct ingest *ingest)
{
    return ingest->queue.n_waiting >= INGEST_WAITING_MAX;
}

bool ingest_has_room(const struct ingest *ingest, const char *user, const char *source)
{
    return ingest_queue_has_room(&ingest->queue, user, source, INGEST_WAITING_MAX);
}

void ingest_set_deadline(struct ingest *ingest, int64_t duration_ns)
{
    ingest->deadline_ns = duration_ns;
}

void ingest_set_slice(struct ingest *ingest, int64_t duration_ns)
{
    ingest->queue.slice_ns = duration_ns;
}

void ingest_run(struct ingest *ingest, const struct ingest_request *request,
                void (*done)(const struct ingest_result *result, void *arg), void *arg)
{
    struct ingest_file *file = xcalloc(1, sizeof(*file));
    bool full = ingest_is_full(ingest);

    *file = (struct ingest_file){.ingest = ingest,
                                 .source_size = request->source_size,
                                 .open_columns = request->open_columns,
                                 .drop_columns = request->drop_columns,
                                 .entry = {.background = request->background},
                                 .done = done,
                                 .arg = arg};
    ingest_child_init(&file->child);
    file->child.size_max = request->size_max;
    file->child.memory_max = request->memory_max;
    file->child.cpu_s = CPU_S + request->source_size / BYTES_PER_CPU_S;
    file->child.background = request->background;
    file->child.fds[INGEST_FD_SOURCE] = request->source_fd;
    file->child.fds[INGEST_FD_DEST] = request->dest_fd;
    TAILQ_INSERT_TAIL(&ingest->files, file, next);
    if (full) {
        ingest_file_give_up(file, -EAGAIN,
                            xasprintf("more than %d files wait to be read", INGEST_WAITING_MAX));
        ingest_file_end_without_child(file);
        return;
    }
    file->queued = true;
    ingest_queue_add(&ingest->queue, &file->entry, request->user, request->source, request->source_size);
    ingest_schedule(ingest);
}
