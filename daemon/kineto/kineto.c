/* SPDX-License-Identifier: Apache-2.0 */
/* Listening and answering. Nothing between the receipt of a poll and its answer waits. */
#include "daemon/kineto/kineto.h"

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/kineto/internal.h"
#include <errno.h>

/* Polls that are read before the loop does anything else; the kernel keeps ten of one socket (net.unix.max_dgram_qlen). */
#define POLLS_AT_ONCE 64
#define UPKEEP_NS     (5 * NS_PER_S)
#define RETRY_NS      (30 * NS_PER_S)

/* -- Answers -------------------------------------------------------------------------------------------- */

static bool answer_is_late(const struct kineto_datagram *d, int64_t limit_ns)
{
    return wall_ns() - d->received_at > limit_ns;
}

/* An empty answer costs Kineto nothing; none makes it wait for 90 ms. Returns whether the text was sent. */
static int answer_send(struct listening *l, struct kineto_entry *e, const struct kineto_datagram *d,
                       enum kineto_message_type type, const void *payload, size_t size)
{
    struct kineto *k = l->kineto;

    if (answer_is_late(d, KINETO_ANSWER_MAX_NS)) {
        k->metrics.late++;
        return -ETIME;
    }
    int r = kineto_socket_answer(&l->socket, d, type, payload, size);
    if (r == 0)
        k->metrics.answers++;
    else
        log_debug("Kineto: cannot answer process %d: %s", (int)d->sender.pid, strerror(-r));
    if (answer_is_late(d, KINETO_ANSWER_SAFE_NS))
        e->skip_answer = true;
    return r;
}

/* Whether the pid still is the process that the text is for. /proc/PID/stat takes microseconds, and no lock that a
 * process can hold. */
static bool answer_is_same_process(const struct kineto_process *p)
{
    struct process_stat stat;

    return process_stat_read(p->pid, &stat) == 0 && stat.started == p->start_ticks;
}

static void answer_request(struct listening *l, struct kineto_entry *e, const struct kineto_datagram *d,
                           unsigned bits)
{
    struct kineto_config_slot *slot = e->slot;
    bool has_text = slot && (bits & KINETO_ACTIVITIES) && !e->skip_answer && e->is_known;

    if (e->skip_answer) {
        e->skip_answer = false;
    } else if (has_text && !answer_is_same_process(&e->process)) {
        entry_end(e, -ESRCH);
        return;
    } else if (answer_send(l, e, d, KINETO_REQUEST, has_text ? slot->text : NULL,
                           has_text ? strlen(slot->text) : 0) < 0) {
        has_text = false;
    }
    if (has_text) {
        l->kineto->metrics.configs++;
        log_info("Kineto: process %d was given a recording", (int)e->process.pid);
        slot_end(slot, 0);
    } else if (slot && !(bits & KINETO_ACTIVITIES)) {
        slot_end(slot, -EBUSY);
    }
    entry_take_bits(e, bits);
}

static void answer_context(struct listening *l, struct kineto_entry *e, const struct kineto_datagram *d,
                           int32_t gpu)
{
    e->context_gpu = gpu;
    const int32_t n = (int32_t)entries_on_gpu(l->kineto, gpu);
    answer_send(l, e, d, KINETO_CONTEXT, &n, sizeof(n));
}

static void listening_take(struct listening *l, const struct kineto_datagram *d)
{
    struct kineto *k = l->kineto;
    struct kineto_message m;

    if (kineto_message_parse(d->data, d->size, &m) < 0 || !kineto_socket_can_answer(&l->socket, d)) {
        k->metrics.refused++;
        log_debug("Kineto: process %d sent something else than a poll", (int)d->sender.pid);
        return;
    }
    k->metrics.polls++;
    /* Its bits are as old as it is, too. */
    if (answer_is_late(d, KINETO_ANSWER_MAX_NS)) {
        k->metrics.late++;
        entry_note_late(k, d);
        return;
    }
    if (d->sender.pid <= 0) {
        k->metrics.refused++;
        log_debug("Kineto: a process in a pid namespace that profd does not see was not served");
        return;
    }
    struct kineto_entry *e = entry_of_datagram(k, l->shown.name, d);
    if (!e)
        return;
    e->process.job_id = m.job_id;
    if (m.type == KINETO_CONTEXT)
        answer_context(l, e, d, m.gpu);
    else
        answer_request(l, e, d, m.bits);
}

static void listening_on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct listening *l = arg;
    struct kineto_datagram d;

    for (unsigned i = 0; i < POLLS_AT_ONCE; i++) {
        int r = kineto_socket_receive(&l->socket, &d);
        if (r == -EBADMSG)
            l->kineto->metrics.refused++;
        else if (r < 0)
            return;
        else
            listening_take(l, &d);
    }
}

/* -- Listening ------------------------------------------------------------------------------------------ */

static const char *listening_dir(const struct listening *l)
{
    return streq(l->shown.name, KINETO_ABSTRACT) ? NULL : l->shown.name;
}

/* Logs a reason once. */
static void listening_fail(struct listening *l, const struct problem *p)
{
    if (!streq(l->shown.why, p->what))
        log_warning("Kineto: %s%s%s", p->what, p->remedy ? ". " : "", p->remedy ? p->remedy : "");
    free((char *)l->shown.why);
    free((char *)l->shown.remedy);
    l->shown.why = xstrdup(p->what ? p->what : "out of memory");
    l->shown.remedy = xstrdup(p->remedy);
}

/* Takes the socket. */
static void listening_begin(struct listening *l, struct kineto_socket *socket)
{
    l->socket = *socket;
    *socket = KINETO_SOCKET_CLOSED;
    free((char *)l->shown.why);
    free((char *)l->shown.remedy);
    l->shown.why = l->shown.remedy = NULL;
    l->readable = event_new(l->kineto->base, l->socket.fd, EV_READ | EV_PERSIST, listening_on_readable, l);
    if (!l->readable || event_add(l->readable, NULL) < 0)
        out_of_memory();
    log_info("Kineto: listening on %s", l->shown.name);
}

static void listening_end(struct listening *l)
{
    if (l->readable)
        event_free(l->readable);
    l->readable = NULL;
    kineto_socket_close(&l->socket);
}

static void listening_free(struct listening *l)
{
    listening_end(l);
    free((char *)l->shown.why);
    free((char *)l->shown.remedy);
}

/* -- Opening again, and sweeping ------------------------------------------------------------------------ */

struct retry_job {
    struct kineto *kineto;
    struct retry_try {
        const char *name; /* borrowed of the listening, which lives until the thread is done */
        bool is_closed, is_lost;
        dev_t device; /* of the socket that is open */
        ino_t inode;
        struct kineto_socket socket;
        struct problem problem;
    } * tries;
};

static void retry_work(void *arg)
{
    struct retry_job *job = arg;
    const struct kineto *k = job->kineto;

    for (size_t i = 0; i < k->n_sockets; i++) {
        struct retry_try *t = &job->tries[i];
        const char *dir = streq(t->name, KINETO_ABSTRACT) ? NULL : t->name;
        t->is_lost = !t->is_closed && dir && !kineto_socket_is_in(dir, t->device, t->inode);
        if (t->is_closed || t->is_lost)
            kineto_socket_open(dir, &t->socket, &t->problem);
        else if (dir)
            kineto_socket_sweep(dir);
    }
}

static void retry_take(struct listening *l, struct retry_try *t)
{
    if (t->is_lost) {
        log_warning("Kineto: the socket in %s was removed or replaced", l->shown.name);
        listening_end(l);
    }
    if (t->socket.fd >= 0)
        listening_begin(l, &t->socket);
    else
        listening_fail(l, &t->problem);
}

static void retry_on_done(void *arg)
{
    struct retry_job *job = arg;
    struct kineto *k = job->kineto;

    k->is_busy = false;
    for (size_t i = 0; i < k->n_sockets; i++) {
        struct retry_try *t = &job->tries[i];
        if ((t->is_closed || t->is_lost) && !k->is_closed)
            retry_take(&k->sockets[i], t);
        kineto_socket_close(&t->socket);
        problem_done(&t->problem);
    }
    free(job->tries);
    free(job);
}

static void kineto_on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct kineto *k = arg;

    if (k->is_busy)
        return;
    struct retry_job *job = xcalloc(1, sizeof(*job));
    job->kineto = k;
    job->tries = xcalloc(k->n_sockets, sizeof(*job->tries));
    for (size_t i = 0; i < k->n_sockets; i++)
        job->tries[i] = (struct retry_try){.name = k->sockets[i].shown.name,
                                           .is_closed = k->sockets[i].socket.fd < 0,
                                           .device = k->sockets[i].socket.device,
                                           .inode = k->sockets[i].socket.inode,
                                           .socket = KINETO_SOCKET_CLOSED};
    k->is_busy = true;
    offload_run(k->offload, retry_work, retry_on_done, job);
}

static void kineto_on_upkeep(evutil_socket_t fd, short what, void *arg)
{
    entries_forget(arg);
}

/* -- Life ----------------------------------------------------------------------------------------------- */

static void kineto_open(struct kineto *k)
{
    k->n_sockets = k->listen.n_dirs + k->listen.abstract;
    k->sockets = xcalloc(k->n_sockets, sizeof(*k->sockets));
    for (size_t i = 0; i < k->n_sockets; i++) {
        struct listening *l = &k->sockets[i];
        struct kineto_socket socket = KINETO_SOCKET_CLOSED;
        _cleanup_(problem_done) struct problem p = {0};
        *l = (struct listening){.kineto = k, .socket = KINETO_SOCKET_CLOSED};
        l->shown.name = i < k->listen.n_dirs ? k->listen.dirs[i] : KINETO_ABSTRACT;
        if (kineto_socket_open(listening_dir(l), &socket, &p) < 0)
            listening_fail(l, &p);
        else
            listening_begin(l, &socket);
    }
}

int kineto_new(struct event_base *base, struct offload *offload, const struct kineto_settings *settings,
               char *(*torch_version)(pid_t pid), struct kineto **ret)
{
    const struct timeval upkeep = timeval_of(UPKEEP_NS), retry = timeval_of(RETRY_NS);
    struct kineto *k = xcalloc(1, sizeof(*k));
    _cleanup_(freep) char *reason = NULL;

    *k = (struct kineto){
        .base = base, .offload = offload, .torch_version = torch_version, .settings = settings};
    int r = settings->listen ? kineto_listen_parse(settings->listen, &k->listen, &reason) : 0;
    if (r >= 0 && kineto_is_on(k)) {
        k->upkeep = event_new(base, -1, EV_PERSIST, kineto_on_upkeep, k);
        k->retry = event_new(base, -1, EV_PERSIST, kineto_on_retry, k);
        if (!k->upkeep || !k->retry || event_add(k->upkeep, &upkeep) < 0 || event_add(k->retry, &retry) < 0)
            r = -ENOMEM;
    }
    if (r < 0) {
        kineto_close(k);
        kineto_free(k);
        return r;
    }
    kineto_open(k);
    *ret = k;
    return 0;
}

void kineto_close(struct kineto *k)
{
    k->is_closed = true;
    for (size_t i = 0; i < k->n_sockets; i++)
        listening_end(&k->sockets[i]);
    while (k->n_entries > 0)
        entry_end(k->entries[k->n_entries - 1], -ECANCELED);
    if (k->upkeep)
        event_free(k->upkeep);
    if (k->retry)
        event_free(k->retry);
    k->upkeep = k->retry = NULL;
}

struct kineto *kineto_free(struct kineto *k)
{
    if (!k)
        return NULL;
    for (size_t i = 0; i < k->n_sockets; i++)
        listening_free(&k->sockets[i]);
    while (k->watches) {
        struct kineto_watch *w = k->watches;
        k->watches = w->next;
        free(w);
    }
    free(k->sockets);
    free(k->entries);
    kineto_listen_done(&k->listen);
    free(k);
    return NULL;
}

bool kineto_is_on(const struct kineto *k)
{
    return k->listen.abstract || k->listen.n_dirs > 0;
}

const struct kineto_listener *kineto_listener_at(const struct kineto *k, size_t i)
{
    return i < k->n_sockets ? &k->sockets[i].shown : NULL;
}

struct kineto_metrics kineto_metrics(const struct kineto *k)
{
    struct kineto_metrics m = k->metrics;

    m.processes = 0;
    for (const struct kineto_process *p = kineto_next(k, NULL); p; p = kineto_next(k, p))
        m.processes++;
    return m;
}
