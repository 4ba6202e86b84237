/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/queue.h"

#include "base/alloc.h"

/* Later slices, of days, do not grow. */
#define SLICES_COUNTED_MAX 12
/* One for short files, one for long ones. */
#define SLOTS_MIN 2U

unsigned ingest_queue_running_max(unsigned slots)
{
    return MAX(slots, SLOTS_MIN);
}

void ingest_queue_init(struct ingest_queue *q, unsigned slots)
{
    *q = (struct ingest_queue){.slots = slots,
                               .slice_ns = INGEST_QUEUE_SLICE_NS,
                               .waiting = TAILQ_HEAD_INITIALIZER(q->waiting),
                               .running = TAILQ_HEAD_INITIALIZER(q->running),
                               .shares = TAILQ_HEAD_INITIALIZER(q->shares)};
}

/* -- Shares -- */

static struct queue_share *share_find(const struct ingest_queue *q, const struct queue_share *user,
                                      const char *name)
{
    struct queue_share *s;

    TAILQ_FOREACH(s, &q->shares, next)
        if (s->user == user && streq(s->name, name))
            return s;
    return NULL;
}

static struct queue_share *share_get(struct ingest_queue *q, struct queue_share *user, const char *name)
{
    struct queue_share *s = share_find(q, user, name);

    if (!s) {
        s = xcalloc(1, sizeof(*s));
        *s = (struct queue_share){.user = user, .name = xstrdup(name)};
        TAILQ_INSERT_TAIL(&q->shares, s, next);
    }
    s->n_files++;
    return s;
}

static void share_put(struct ingest_queue *q, struct queue_share *s)
{
    if (--s->n_files > 0)
        return;
    TAILQ_REMOVE(&q->shares, s, next);
    free(s->name);
    free(s);
}

/* A share that did not wait is not compensated for slices that others had meanwhile. */
static void share_wait(struct ingest_queue *q, struct queue_share *s, enum queue_class class)
{
    if (s->n_waiting_of[class]++ == 0)
        s->served[class] = q->clock;
    s->n_waiting++;
}

static void share_wait_no_more(struct queue_share *s, enum queue_class class)
{
    s->n_waiting_of[class]--;
    s->n_waiting--;
}

bool ingest_queue_has_room(const struct ingest_queue *q, const char *user, const char *source,
                           unsigned waiting_max)
{
    const struct queue_share *u = share_find(q, NULL, user), *s = u ? share_find(q, u, source) : NULL;
    return q->n_waiting + (u ? u->n_waiting : 0) + (s ? s->n_waiting : 0) < waiting_max;
}

/* -- Files -- */

static enum queue_class queue_class_of(const struct ingest_queue *q, const struct queue_file *f,
                                       int64_t now_ns)
{
    bool used_up = f->running && now_ns - f->began_ns >= q->slice_ns;
    return f->n_slices > 0 || used_up ? QUEUE_LONG : QUEUE_SHORT;
}

/* The class of a file does not change while it waits. */
static enum queue_class queue_class_waiting(const struct ingest_queue *q, const struct queue_file *f)
{
    return queue_class_of(q, f, 0);
}

static int64_t queue_slice_of(const struct ingest_queue *q, const struct queue_file *f)
{
    int64_t slice = q->slice_ns;

    for (unsigned i = 0; i < MIN(f->n_slices, SLICES_COUNTED_MAX); i++)
        slice *= INGEST_QUEUE_GROWTH;
    return slice;
}

static unsigned queue_count_long(const struct ingest_queue *q, int64_t now_ns)
{
    const struct queue_file *f;
    unsigned n = 0;

    TAILQ_FOREACH(f, &q->running, next)
        n += queue_class_of(q, f, now_ns) == QUEUE_LONG;
    return n;
}

static void queue_enqueue(struct ingest_queue *q, struct queue_file *f)
{
    enum queue_class class = queue_class_waiting(q, f);

    q->clock++;
    share_wait(q, f->user, class);
    share_wait(q, f->source, class);
    TAILQ_INSERT_TAIL(&q->waiting, f, next);
    q->n_waiting++;
}

static void queue_dequeue(struct ingest_queue *q, struct queue_file *f)
{
    enum queue_class class = queue_class_waiting(q, f);

    share_wait_no_more(f->user, class);
    share_wait_no_more(f->source, class);
    TAILQ_REMOVE(&q->waiting, f, next);
    q->n_waiting--;
}

static void queue_leave_slot(struct ingest_queue *q, struct queue_file *f)
{
    TAILQ_REMOVE(&q->running, f, next);
    q->n_running--;
    f->user->n_running--;
    f->source->n_running--;
    f->running = f->yielding = false;
}

void ingest_queue_add(struct ingest_queue *q, struct queue_file *f, const char *user, const char *source,
                      int64_t size)
{
    f->user = share_get(q, NULL, user);
    f->source = share_get(q, f->user, source);
    f->n_slices = f->background || size > INGEST_QUEUE_SHORT_BYTES;
    queue_enqueue(q, f);
    f->number = q->clock;
}

void ingest_queue_remove(struct ingest_queue *q, struct queue_file *f)
{
    if (f->running)
        queue_leave_slot(q, f);
    else
        queue_dequeue(q, f);
    share_put(q, f->source);
    share_put(q, f->user);
    f->source = f->user = NULL;
}

void ingest_queue_done(struct ingest_queue *q)
{
    struct queue_file *f;

    while ((f = TAILQ_FIRST(&q->waiting)) || (f = TAILQ_FIRST(&q->running)))
        ingest_queue_remove(q, f);
}

/* -- Slices -- */

/* The user, then the source, that was served longer ago; of one source, in order of arrival. */
static bool queue_goes_before(const struct ingest_queue *q, const struct queue_file *a,
                              const struct queue_file *b)
{
    enum queue_class class = queue_class_waiting(q, a);

    if (a->background != b->background)
        return b->background;
    if (a->user->served[class] != b->user->served[class])
        return a->user->served[class] < b->user->served[class];
    if (a->source->served[class] != b->source->served[class])
        return a->source->served[class] < b->source->served[class];
    return a->n_slices != b->n_slices ? a->n_slices < b->n_slices : a->number < b->number;
}

static struct queue_file *queue_first_of(const struct ingest_queue *q, enum queue_class class)
{
    struct queue_file *f, *first = NULL;

    TAILQ_FOREACH(f, &q->waiting, next)
        if (queue_class_waiting(q, f) == class && (!first || queue_goes_before(q, f, first)))
            first = f;
    return first;
}

struct queue_file *ingest_queue_next(const struct ingest_queue *q, int64_t now_ns)
{
    struct queue_file *brief = queue_first_of(q, QUEUE_SHORT), *lengthy = queue_first_of(q, QUEUE_LONG);
    unsigned n_long = queue_count_long(q, now_ns);

    /* The last slot is kept for a long file, where none is read. */
    bool is_kept = lengthy && n_long == 0 && q->n_running + 1 >= q->slots;
    unsigned slots_for_short = n_long > 0 ? ingest_queue_running_max(q->slots) : q->slots;
    if (brief && !(is_kept && !lengthy->background) && q->n_running < slots_for_short)
        return brief;
    return lengthy && q->n_running < q->slots ? lengthy : NULL;
}

void ingest_queue_begin(struct ingest_queue *q, struct queue_file *f, int64_t now_ns)
{
    enum queue_class class = queue_class_waiting(q, f);

    queue_dequeue(q, f);
    f->user->served[class] = f->source->served[class] = ++q->clock;
    f->user->n_running++;
    f->source->n_running++;
    f->running = true;
    f->began_ns = now_ns;
    TAILQ_INSERT_TAIL(&q->running, f, next);
    q->n_running++;
}

/* Files of one user are compared by source. */
static bool queue_has_more_running(const struct queue_file *a, const struct queue_file *b)
{
    return a->user != b->user ? a->user->n_running > b->user->n_running
                              : a->source->n_running > b->source->n_running;
}

/* Whether a running file yields its slot to the waiting file. */
static bool queue_yields_to(const struct ingest_queue *q, const struct queue_file *running,
                            const struct queue_file *waiting, int64_t now_ns)
{
    if (queue_class_of(q, running, now_ns) != QUEUE_LONG || waiting->background)
        return false;
    if (running->background)
        return true;
    if (!queue_has_more_running(running, waiting))
        return false;
    return queue_class_waiting(q, waiting) == QUEUE_SHORT ||
           now_ns - running->began_ns >= queue_slice_of(q, running);
}

/* The one that loses the least progress. */
static struct queue_file *queue_find_yielding(const struct ingest_queue *q, const struct queue_file *waiting,
                                              int64_t now_ns)
{
    struct queue_file *f, *found = NULL;

    TAILQ_FOREACH(f, &q->running, next)
        if (queue_yields_to(q, f, waiting, now_ns) &&
            (!found || f->background || (!found->background && f->began_ns > found->began_ns)))
            found = f;
    return found;
}

struct queue_file *ingest_queue_yield(struct ingest_queue *q, int64_t now_ns)
{
    bool short_have_none = queue_count_long(q, now_ns) >= ingest_queue_running_max(q->slots);
    struct queue_file *f, *found = NULL;

    if (q->n_running < q->slots)
        return NULL;
    TAILQ_FOREACH(f, &q->running, next)
        if (f->yielding)
            return NULL;
    TAILQ_FOREACH(f, &q->waiting, next)
        if (!found && (queue_class_waiting(q, f) == QUEUE_LONG || short_have_none))
            found = queue_find_yielding(q, f, now_ns);
    if (found)
        found->yielding = true;
    return found;
}

void ingest_queue_put_back(struct ingest_queue *q, struct queue_file *f, int64_t now_ns)
{
    int64_t had = now_ns - f->began_ns;

    queue_leave_slot(q, f);
    do
        f->n_slices++;
    while (queue_slice_of(q, f) <= had && f->n_slices < SLICES_COUNTED_MAX);
    queue_enqueue(q, f);
}

int64_t ingest_queue_due(const struct ingest_queue *q, int64_t now_ns)
{
    const struct queue_file *f;
    int64_t due = INT64_MAX;

    if (q->n_waiting == 0)
        return INT64_MAX;
    TAILQ_FOREACH(f, &q->running, next) {
        const int64_t moments[] = {f->began_ns + q->slice_ns, f->began_ns + queue_slice_of(q, f)};
        for (size_t i = 0; i < ARRAY_SIZE(moments); i++)
            if (moments[i] > now_ns)
                due = MIN(due, moments[i]);
    }
    return due;
}
