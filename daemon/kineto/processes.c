/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of processes that poll, by the pid of their credentials and, as soon as a thread has read it, their start
 * time. A user can fill the share of one user, not the table.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/kineto/internal.h"
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>

/* The shortest time between two looks at a process, and after one that failed. */
#define FACTS_INTERVAL_NS (NS_PER_S)
#define FACTS_RETRY_NS    (30 * NS_PER_S)

struct facts_job {
    struct kineto_facts facts;
    struct kineto_entry *entry; /* NULL: it ended meanwhile */
};

/* -- Finding -------------------------------------------------------------------------------------------- */

struct kineto_entry *entry_find(const struct kineto *k, pid_t pid)
{
    for (size_t i = 0; i < k->n_entries; i++)
        if (k->entries[i]->process.pid == pid)
            return k->entries[i];
    return NULL;
}

bool kineto_is_active(const struct kineto_process *p)
{
    return !(p->activity_bits & KINETO_ACTIVITIES);
}

static bool entry_is_listed(const struct kineto_entry *e)
{
    return e->is_known && e->has_polled;
}

const struct kineto_process *kineto_next(const struct kineto *k, const struct kineto_process *previous)
{
    size_t i = 0;

    if (previous)
        i = container_of(previous, const struct kineto_entry, process)->index + 1;
    for (; i < k->n_entries; i++)
        if (entry_is_listed(k->entries[i]))
            return &k->entries[i]->process;
    return NULL;
}

const struct kineto_process *kineto_find(const struct kineto *k, pid_t pid, uint64_t start_ticks)
{
    const struct kineto_entry *e = entry_find(k, pid);

    return e && entry_is_listed(e) && e->process.start_ticks == start_ticks ? &e->process : NULL;
}

unsigned entries_on_gpu(const struct kineto *k, int32_t gpu)
{
    unsigned n = 0;

    for (size_t i = 0; i < k->n_entries; i++)
        n += k->entries[i]->context_gpu == gpu;
    return n;
}

/* -- Watches -------------------------------------------------------------------------------------------- */

static void watches_sweep(struct kineto *k)
{
    struct kineto_watch **at = &k->watches;

    while (*at) {
        struct kineto_watch *w = *at;
        if (w->changed) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
}

/* A function that is called may end any watch. */
static void watches_call(struct kineto_entry *e, bool is_gone)
{
    struct kineto *k = e->kineto;

    k->n_calling++;
    for (struct kineto_watch *w = k->watches; w; w = w->next) {
        if (w->entry != e || !w->changed)
            continue;
        if (is_gone)
            w->entry = NULL;
        w->changed(is_gone ? NULL : &e->process, !is_gone && kineto_is_active(&e->process), w->arg);
    }
    if (--k->n_calling == 0)
        watches_sweep(k);
}

struct kineto_watch *kineto_watch(struct kineto *k, pid_t pid, uint64_t start_ticks,
                                  void (*changed)(const struct kineto_process *p, bool is_active, void *arg),
                                  void *arg)
{
    struct kineto_entry *e = entry_find(k, pid);

    if (!e || !e->is_known || e->process.start_ticks != start_ticks)
        return NULL;
    struct kineto_watch *w = xcalloc(1, sizeof(*w));
    *w = (struct kineto_watch){.kineto = k, .next = k->watches, .entry = e, .changed = changed, .arg = arg};
    k->watches = w;
    return w;
}

void kineto_unwatch(struct kineto_watch *w)
{
    if (!w)
        return;
    w->changed = NULL;
    if (w->kineto->n_calling == 0)
        watches_sweep(w->kineto);
}

void entry_take_bits(struct kineto_entry *e, unsigned bits)
{
    bool was_active = e->has_polled && kineto_is_active(&e->process);

    e->process.activity_bits = bits;
    e->has_polled = true;
    if (kineto_is_active(&e->process) != was_active)
        watches_call(e, false);
}

/* -- Its end -------------------------------------------------------------------------------------------- */

/* What others hold of the process; the entry may go on as another one's. */
static void entry_lose(struct kineto_entry *e, int result)
{
    if (e->slot)
        slot_end(e->slot, result);
    watches_call(e, true);
}

void entry_end(struct kineto_entry *e, int result)
{
    struct kineto *k = e->kineto;

    /* Out of the table first: a function that is called must not find it. */
    k->entries[e->index] = k->entries[--k->n_entries];
    k->entries[e->index]->index = e->index;
    entry_lose(e, result);
    if (e->job)
        e->job->entry = NULL;
    if (e->exited)
        event_free(e->exited);
    closep(&e->pidfd);
    kineto_process_done(&e->process);
    free(e);
}

static void entry_on_exit(evutil_socket_t fd, short what, void *arg)
{
    struct kineto_entry *e = arg;

    log_debug("Kineto: process %d ended", (int)e->process.pid);
    entry_end(e, -ESRCH);
}

void entries_forget(struct kineto *k)
{
    const int64_t now = mono_ns();

    for (size_t i = 0; i < k->n_entries;) {
        struct kineto_entry *e = k->entries[i];
        if (now - e->process.last_poll_mono_ns <= KINETO_FORGET_POLLS * k->settings->poll_ns) {
            i++;
            continue;
        }
        log_info("Kineto: process %d does not poll any more", (int)e->process.pid);
        entry_end(e, -ESRCH);
    }
}

/* -- Facts ---------------------------------------------------------------------------------------------- */

static void entry_log_refusal(struct kineto_entry *e, int err)
{
    if (e->was_refused)
        return;
    e->was_refused = true;
    e->kineto->metrics.refused++;
    log_notice("Kineto: process %d of user %u cannot be served: %s", (int)e->process.pid,
               (unsigned)e->process.uid,
               err == -EPERM ? "its credentials are not those that /proc shows" : strerror(-err));
}

/* What is the table's own stays; what was read is new. */
static void entry_take_facts(struct kineto_entry *e, struct kineto_process *found)
{
    struct kineto_process old = e->process;
    bool is_new = !e->is_known;

    if (e->is_known && old.start_ticks != found->start_ticks)
        entry_lose(e, -ESRCH);
    found->job_id = old.job_id;
    found->activity_bits = old.activity_bits;
    found->first_seen_at = old.first_seen_at;
    found->last_poll_mono_ns = old.last_poll_mono_ns;
    found->transport = old.transport;
    e->process = *found;
    *found = (struct kineto_process){0};
    kineto_process_done(&old);
    e->is_known = true;
    if (is_new)
        log_info("Kineto: process %d of user %u registered (%s): %.80s", (int)e->process.pid,
                 (unsigned)e->process.uid, e->process.transport, e->process.command);
}

static bool entry_has_exited(const struct kineto_entry *e)
{
    struct pollfd p = {.fd = e->pidfd, .events = POLLIN};

    return e->pidfd >= 0 && poll(&p, 1, 0) > 0;
}

static void facts_work(void *arg)
{
    kineto_facts_read(&((struct facts_job *)arg)->facts);
}

static void facts_on_done(void *arg)
{
    struct facts_job *job = arg;
    struct kineto_entry *e = job->entry;
    int err = job->facts.err;

    if (e) {
        e->job = NULL;
        if (err == -ESRCH || entry_has_exited(e))
            entry_end(e, -ESRCH);
        else if (err < 0)
            entry_log_refusal(e, err);
        else
            entry_take_facts(e, &job->facts.process);
    }
    kineto_process_done(&job->facts.process);
    free(job);
}

/* A process of which a file system does not answer holds a thread, and those after it in its queue wait: a user has so
 * few queues that others have threads, and several, since most containers have the same user. */
static uint64_t facts_queue(const struct kineto_process *p)
{
    _cleanup_(freep) char *text =
        xasprintf("kineto of user %u, %d", (unsigned)p->uid, (int)(p->pid % KINETO_QUEUES_PER_UID));
    return offload_queue_of_dir(text);
}

static void entry_ask_facts(struct kineto_entry *e)
{
    struct facts_job *job = xcalloc(1, sizeof(*job));

    job->facts = (struct kineto_facts){.pid = e->process.pid,
                                       .uid = e->process.uid,
                                       .received_boot_ns = boot_ns(),
                                       .torch_version = e->kineto->torch_version};
    job->entry = e;
    e->job = job;
    e->facts_at_ns = mono_ns();
    offload_run_in(e->kineto->offload, facts_queue(&e->process), facts_work, facts_on_done, job);
}

/* -- Polls ---------------------------------------------------------------------------------------------- */

/* Of a system without them, processes are forgotten when they no longer poll. */
static void entry_follow_exit(struct kineto_entry *e)
{
    e->pidfd = (int)syscall(SYS_pidfd_open, e->process.pid, 0);
    if (e->pidfd < 0)
        return;
    e->exited = event_new(e->kineto->base, e->pidfd, EV_READ, entry_on_exit, e);
    if (e->exited)
        event_add(e->exited, NULL);
}

static bool entries_are_full(const struct kineto *k, uid_t uid)
{
    size_t n = 0;

    for (size_t i = 0; i < k->n_entries; i++)
        n += k->entries[i]->process.uid == uid;
    return k->n_entries >= KINETO_PROCESSES_MAX || n >= KINETO_PROCESSES_PER_UID_MAX;
}

static struct kineto_entry *entry_add(struct kineto *k, const struct kineto_datagram *d)
{
    if (entries_are_full(k, d->sender.uid)) {
        k->metrics.refused++;
        log_debug("Kineto: too many processes of user %u: process %d is not served", (unsigned)d->sender.uid,
                  (int)d->sender.pid);
        return NULL;
    }
    struct kineto_entry *e = xcalloc(1, sizeof(*e));
    *e = (struct kineto_entry){.kineto = k, .index = k->n_entries, .context_gpu = -1, .pidfd = -1};
    e->process = (struct kineto_process){.pid = d->sender.pid,
                                         .uid = d->sender.uid,
                                         .gid = d->sender.gid,
                                         .first_seen_at = wall_ns(),
                                         .activity_bits = KINETO_EVENTS | KINETO_ACTIVITIES};
    VEC_GROW(k->entries, k->n_entries, k->cap_entries);
    k->entries[k->n_entries++] = e;
    entry_follow_exit(e);
    return e;
}

static bool entry_is_same_name(const struct kineto_entry *e, const struct kineto_datagram *d)
{
    return e->from_size == d->from_size && memcmp(&e->from, &d->from, d->from_size) == 0;
}

void entry_note_late(struct kineto *k, const struct kineto_datagram *d)
{
    struct kineto_entry *e = entry_find(k, d->sender.pid);

    if (e && e->process.uid == d->sender.uid && entry_is_same_name(e, d))
        e->process.last_poll_mono_ns = mono_ns();
}

/*
 * A name that profd has not seen is a Kineto that may have read answers of another daemon, or of an earlier profd, with
 * one unread: the poll after it would get the old answer, and so on. Without an answer it reads what is there.
 */
static void entry_take_name(struct kineto_entry *e, const struct kineto_datagram *d)
{
    e->from = d->from;
    e->from_size = d->from_size;
    e->skip_answer = true;
}

struct kineto_entry *entry_of_datagram(struct kineto *k, const char *transport,
                                       const struct kineto_datagram *d)
{
    struct kineto_entry *e = entry_find(k, d->sender.pid);

    if (e && e->process.uid != d->sender.uid) {
        entry_end(e, -ESRCH);
        e = NULL;
    }
    if (!e)
        e = entry_add(k, d);
    if (!e)
        return NULL;
    const int64_t now = mono_ns();
    bool is_new_name = !entry_is_same_name(e, d);
    e->process.last_poll_mono_ns = now;
    e->process.transport = transport;
    if (is_new_name)
        entry_take_name(e, d);
    if (!e->job &&
        now - e->facts_at_ns >= (e->is_known || is_new_name ? FACTS_INTERVAL_NS : FACTS_RETRY_NS) &&
        (is_new_name || !e->is_known))
        entry_ask_facts(e);
    return e;
}
