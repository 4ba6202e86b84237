/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/identify.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <sys/resource.h>

#define WORKERS_AT_ONCE_MAX 256
/* A worker gets its questions one after another, on one connection. One that has not answered for this long gets all
 * that are left at once, so that slow answers do not add up. */
#define ANSWER_PATIENCE_NS (100 * NS_PER_MS)
/* A worker takes up to four descriptors; leave most of them to others. */
#define DESCRIPTORS_PER_WORKER 16
#define ANSWER_MAX             (2 << 20) /* an openapi.json has about half of one */
#define TEXT_MAX               160
/* Answers of workers that are being asked, as values. A worker has a hundred KiB of them, a large SGLang some
 * MiB. */
#define KEPT_MAX ((size_t)128 << 20)

struct pending {
    struct worker_id *owner;
    enum question question;
    struct call *call;
};

/* One worker that is being asked. */
struct worker_id {
    struct identification *parent;
    struct worker *worker;
    struct answers answers;
    struct pending pending[_QUESTION_MAX];
    unsigned n_pending;
    unsigned wanted; /* questions that are not asked yet */
    int64_t asked_ns, deadline_ns;
    size_t kept; /* bytes of its answers */
    /* Worker's clock minus ours lies between these, by every Date header so far. */
    int64_t clock_low_ns, clock_high_ns;
};

struct identification {
    struct caller *caller;
    struct event *patience;
    const struct fleet_settings *settings;
    struct fleet *fleet;
    size_t *kept;    /* of all identifications */
    uint64_t origin; /* of its workers' names */
    size_t next;     /* worker to begin with */
    size_t n_asked;  /* under way */
    size_t n_slots;
    struct worker_id *slots; /* worker NULL: free */
    void (*done)(void *arg);
    void *arg;
};

/* The Date header has a resolution of one second, and servers reuse one for up to another second. */
static void note_clock(struct worker_id *id, const struct call_result *r)
{
    if (r->date_s == 0 || r->sent_at_ns == 0)
        return;
    id->clock_low_ns = MAX(id->clock_low_ns, r->date_s * NS_PER_S - r->answered_at_ns);
    id->clock_high_ns = MIN(id->clock_high_ns, (r->date_s + 2) * NS_PER_S - r->sent_at_ns);
    id->worker->clock_known = true;
}

static void settle_clock(struct worker_id *id)
{
    int64_t low = id->clock_low_ns, high = id->clock_high_ns;

    if (id->worker->clock_known)
        id->worker->clock_offset_ns = low <= 0 && high >= 0 ? 0 : low + (high - low) / 2;
}

static void worker_id_ask(struct worker_id *id, unsigned questions);
static void worker_id_ask_next(struct worker_id *id);
static void identification_fill_slots(struct identification *parent);

static void worker_id_forget_answers(struct worker_id *id)
{
    answers_done(&id->answers);
    *id->parent->kept -= id->kept;
    id->kept = 0;
}

static void worker_id_release(struct worker_id *id)
{
    worker_id_forget_answers(id);
    id->worker = NULL;
    id->parent->n_asked--;
}

static void worker_id_on_all_answers(struct worker_id *id)
{
    worker_identify(id->worker, &id->answers);
    unsigned more = worker_more_questions(id->worker, &id->answers);
    if (more) {
        worker_id_ask(id, more);
        return;
    }
    settle_clock(id);
    worker_id_release(id);
    identification_fill_slots(id->parent);
}

/* Notes what is going to be kept. */
static bool worker_id_has_memory(struct worker_id *id, enum question q, const struct call_result *r)
{
    size_t *kept = id->parent->kept;

    if (r->err != 0 || !question_keeps_json(q, r->status))
        return true;
    size_t bytes = json_memory(r->body, r->body_size);
    if (*kept > KEPT_MAX || bytes > KEPT_MAX - *kept)
        return false;
    id->kept += bytes;
    *kept += bytes;
    return true;
}

static void worker_id_on_answer(const struct call_result *r, void *arg)
{
    struct pending *pending = arg;
    struct worker_id *id = pending->owner;
    struct worker *w = id->worker;
    char text[TEXT_MAX];

    pending->call = NULL;
    note_clock(id, r);
    if (r->err == 0) {
        int64_t latency = MAX(r->answered_mono_ns - r->sent_mono_ns, INT64_C(1));
        w->latency_ns = w->latency_ns > 0 ? MIN(w->latency_ns, latency) : latency;
    }
    id->answers.refused = r->remedy;
    if (worker_id_has_memory(id, pending->question, r))
        answers_set(&id->answers, pending->question, r->err, r->status,
                    call_result_text(r, text, sizeof(text)), r->body, r->body_size);
    else
        answers_set(&id->answers, pending->question, -ENOBUFS, 0,
                    "more than profd has memory for at this moment; ask fewer workers at a time", NULL, 0);
    if (--id->n_pending > 0)
        return;
    if (id->wanted)
        worker_id_ask_next(id);
    else
        worker_id_on_all_answers(id);
}

static void worker_id_ask_one(struct worker_id *id, enum question q)
{
    const struct fleet_settings *s = id->parent->settings;
    _cleanup_(freep) char *url = url_join(id->worker->url, question_path(q));
    const struct call_request request = {
        .method = question_method(q),
        .url = url,
        .credentials = settings_credentials(s, id->parent->fleet->name, id->worker->url),
        .connect_timeout_ns = s->connect_timeout_ns,
        .deadline_ns = id->deadline_ns,
        .answer_max = ANSWER_MAX,
        .origin = id->parent->origin,
        .account = id->parent->origin,
    };
    struct pending *pending = &id->pending[q];

    *pending = (struct pending){.owner = id, .question = q};
    id->wanted &= ~QUESTION_BIT(q);
    id->n_pending++;
    id->asked_ns = mono_ns();
    pending->call = call_start(id->parent->caller, &request, worker_id_on_answer, pending);
}

static void worker_id_ask_next(struct worker_id *id)
{
    worker_id_ask_one(id, (enum question)__builtin_ctz(id->wanted));
}

static void worker_id_ask(struct worker_id *id, unsigned questions)
{
    const struct fleet_settings *s = id->parent->settings;
    const struct call_credentials *credentials =
        settings_credentials(s, id->parent->fleet->name, id->worker->url);

    id->answers.has_token = credentials && credentials->token_file;
    id->answers.has_admin_token = credentials && credentials->admin_token_file;
    id->wanted = questions;
    id->deadline_ns = mono_ns() + s->identify_timeout_ns;
    worker_id_ask_next(id);
}

static void identification_on_patience(evutil_socket_t fd, short what, void *arg)
{
    struct identification *parent = arg;
    int64_t since = mono_ns() - ANSWER_PATIENCE_NS;

    for (size_t i = 0; i < parent->n_slots; i++) {
        struct worker_id *id = &parent->slots[i];
        if (!id->worker || id->asked_ns > since)
            continue;
        while (id->wanted)
            worker_id_ask_next(id);
    }
}

static struct worker *next_worker(struct identification *parent)
{
    while (parent->next < parent->fleet->n_workers) {
        struct worker *w = &parent->fleet->workers[parent->next++];
        if (!w->reason)
            return w;
    }
    return NULL;
}

static void identification_free(struct identification *parent)
{
    event_free(parent->patience);
    free(parent->slots);
    free(parent);
}

static void identification_fill_slots(struct identification *parent)
{
    for (size_t i = 0; i < parent->n_slots; i++) {
        struct worker_id *id = &parent->slots[i];
        if (id->worker)
            continue;
        struct worker *w = next_worker(parent);
        if (!w)
            break;
        *id = (struct worker_id){.parent = parent, .clock_low_ns = INT64_MIN, .clock_high_ns = INT64_MAX};
        id->worker = w;
        parent->n_asked++;
        worker_id_ask(id, QUESTIONS_FIRST);
    }
    if (parent->n_asked > 0)
        return;
    parent->done(parent->arg);
    identification_free(parent);
}

static size_t workers_at_once(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 1;
    return MAX(MIN((size_t)limit.rlim_cur / DESCRIPTORS_PER_WORKER, (size_t)WORKERS_AT_ONCE_MAX), (size_t)1);
}

struct identification *identify_start(struct event_base *base, struct caller *caller,
                                      const struct fleet_settings *settings, struct fleet *fleet,
                                      size_t *kept, void (*done)(void *arg), void *arg)
{
    size_t n_to_ask = 0;

    for (size_t i = 0; i < fleet->n_workers; i++)
        n_to_ask += !fleet->workers[i].reason;
    if (n_to_ask == 0)
        return NULL;
    struct identification *parent = xcalloc(1, sizeof(*parent));
    size_t n = MIN(workers_at_once(), n_to_ask);

    *parent = (struct identification){.caller = caller,
                                      .settings = settings,
                                      .fleet = fleet,
                                      .kept = kept,
                                      .n_slots = n,
                                      .done = done,
                                      .arg = arg};
    parent->origin = names_origin(fleet->name     ? fleet->name
                                  : fleet->router ? fleet->router
                                                  : fleet->workers[0].url);
    parent->slots = xcalloc(n, sizeof(*parent->slots));
    parent->patience = event_new(base, -1, EV_PERSIST, identification_on_patience, parent);
    if (!parent->patience)
        abort(); /* as base/alloc.h */
    const struct timeval tv = timeval_of(ANSWER_PATIENCE_NS);
    event_add(parent->patience, &tv);
    identification_fill_slots(parent);
    return parent;
}

void identify_cancel(struct identification *parent)
{
    if (!parent)
        return;
    for (size_t i = 0; i < parent->n_slots; i++) {
        struct worker_id *id = &parent->slots[i];
        if (!id->worker)
            continue;
        for (int q = 0; q < _QUESTION_MAX; q++)
            call_cancel(id->pending[q].call);
        worker_id_forget_answers(id);
    }
    identification_free(parent);
}
