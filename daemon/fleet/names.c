/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/names.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

#define KEPT_NS   (60 * NS_PER_S)
#define KEPT_MAX  4096
#define N_BUCKETS 1024

/* One getaddrinfo(). It belongs to its thread, and to the post when that is done. */
struct name_lookup {
    STAILQ_ENTRY(name_lookup) next;
    struct post *post;
    struct name *name; /* the loop's; the thread leaves it alone */
    char *host;
    struct name_answer answer;
};
STAILQ_HEAD(lookup_list, name_lookup);

/* Where threads leave what they found. It outlives the names where threads do. */
struct post {
    pthread_mutex_t lock;
    unsigned n_refs;
    int fd; /* -1: nobody takes what comes */
    struct lookup_list finished;
};

LIST_HEAD(query_list, name_query);

struct name {
    LIST_ENTRY(name) same_bucket;
    TAILQ_ENTRY(name) order; /* of use; or of those that wait for a thread */
    uint64_t hash, origin;
    char *host;
    enum { NAME_IDLE, NAME_WAITS, NAME_IS_ASKED, NAME_IS_FIXED, _NAME_STATE_MAX } state;
    struct query_list queries;
    struct name_answer found; /* n is 0: nothing yet */
    int64_t fresh_until_ns;
};
TAILQ_HEAD(name_list, name);

struct name_query {
    LIST_ENTRY(name_query) link;
    struct name_resolver *names;
    struct name *name;
    struct event *timer;
    int64_t deadline_ns, patience_ns;
    void (*done)(const struct name_answer *a, void *arg);
    void *arg;
};

struct name_resolver {
    struct event_base *base;
    struct event *finished_event;
    struct post *post;
    LIST_HEAD(, name) buckets[N_BUCKETS];
    struct name_list lists[_NAME_STATE_MAX];
    size_t n_idle;
};

uint64_t names_origin(const char *text)
{
    uint64_t hash = hash_bytes(text, strlen(text));
    return hash ? hash : 1;
}

/* -- On a thread -------------------------------------------------------------------------------------- */

static struct name_lookup *lookup_free(struct name_lookup *l)
{
    free(l->host);
    free(l);
    return NULL;
}

static void post_unref(struct post *p)
{
    pthread_mutex_lock(&p->lock);
    bool last = --p->n_refs == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void name_look_up(const char *host, struct name_answer *ret)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    int r = getaddrinfo(host, NULL, &hints, &list);
    *ret = (struct name_answer){.err = r == EAI_AGAIN ? -ETIMEDOUT : -EHOSTUNREACH};
    for (struct addrinfo *a = r == 0 ? list : NULL; a && ret->n < NAME_ADDRESSES_MAX; a = a->ai_next)
        ret->n += address_of_socket(a->ai_addr, &ret->addresses[ret->n]);
    if (ret->n > 0)
        ret->err = 0;
    if (r == 0)
        freeaddrinfo(list);
}

static void *lookup_main(void *arg)
{
    struct name_lookup *l = arg;
    struct post *p = l->post;

    name_look_up(l->host, &l->answer);
    pthread_mutex_lock(&p->lock);
    bool is_taken = p->fd >= 0;
    if (is_taken) {
        STAILQ_INSERT_TAIL(&p->finished, l, next);
        eventfd_write(p->fd, 1);
    }
    pthread_mutex_unlock(&p->lock);
    if (!is_taken)
        lookup_free(l);
    post_unref(p);
    return NULL;
}

static int lookup_begin(struct name_lookup *l)
{
    pthread_attr_t attributes;
    pthread_t id;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int r = pthread_create(&id, &attributes, lookup_main, l);
    pthread_attr_destroy(&attributes);
    return -r;
}

/* -- Names -------------------------------------------------------------------------------------------- */

static struct name_list *names_list_of(struct name_resolver *n, const struct name *name)
{
    return &n->lists[name->state];
}

static void names_forget(struct name_resolver *n, struct name *name)
{
    TAILQ_REMOVE(names_list_of(n, name), name, order);
    n->n_idle -= name->state == NAME_IDLE;
    LIST_REMOVE(name, same_bucket);
    free(name->host);
    free(name);
}

static void name_set_state(struct name_resolver *n, struct name *name, int state)
{
    TAILQ_REMOVE(names_list_of(n, name), name, order);
    n->n_idle -= name->state == NAME_IDLE;
    name->state = state;
    TAILQ_INSERT_TAIL(names_list_of(n, name), name, order);
    n->n_idle += name->state == NAME_IDLE;
    if (name->state == NAME_IDLE && name->found.n == 0)
        names_forget(n, name);
    else if (n->n_idle > KEPT_MAX)
        names_forget(n, TAILQ_FIRST(&n->lists[NAME_IDLE]));
}

static uint64_t hash_name(const char *host, uint64_t origin)
{
    return hash_words(hash_bytes(host, strlen(host)), origin);
}

static struct name *names_find(struct name_resolver *n, const char *host, uint64_t origin)
{
    uint64_t hash = hash_name(host, origin);
    struct name *name;

    LIST_FOREACH(name, &n->buckets[hash % N_BUCKETS], same_bucket) {
        if (name->hash == hash && name->origin == origin && streq(name->host, host))
            return name;
    }
    return NULL;
}

static struct name *names_insert(struct name_resolver *n, const char *host, uint64_t origin)
{
    struct name *name = xcalloc(1, sizeof(*name));

    *name = (struct name){
        .hash = hash_name(host, origin), .origin = origin, .host = xstrdup(host), .state = NAME_WAITS};
    LIST_INIT(&name->queries);
    LIST_INSERT_HEAD(&n->buckets[name->hash % N_BUCKETS], name, same_bucket);
    TAILQ_INSERT_TAIL(&n->lists[NAME_WAITS], name, order);
    return name;
}

void names_fix(struct name_resolver *n, const char *host, const struct name_answer *answer)
{
    struct name *name = names_find(n, host, 0);

    if (!name)
        name = names_insert(n, host, 0);
    name->found = *answer;
    name_set_state(n, name, NAME_IS_FIXED);
}

bool names_known(struct name_resolver *n, const char *host, uint64_t origin, struct name_answer *ret)
{
    const struct name *name = names_find(n, host, origin);

    if (!name || (name->state != NAME_IS_FIXED && (name->found.n == 0 || name->fresh_until_ns <= mono_ns())))
        return false;
    *ret = name->found;
    return true;
}

/* -- Queries ------------------------------------------------------------------------------------------ */

static void query_end(struct name_query *q, const struct name_answer *answer)
{
    void (*done)(const struct name_answer *, void *) = q->done;
    void *arg = q->arg;

    name_query_free(q);
    done(answer, arg);
}

static void query_set_timer(struct name_query *q)
{
    int64_t until_ns = q->deadline_ns;

    if (q->name->state == NAME_IS_ASKED)
        until_ns = MIN(until_ns, mono_ns() + q->patience_ns);
    if (until_ns == DEADLINE_NEVER)
        return;
    struct timeval left = timeval_until(until_ns);
    event_add(q->timer, &left);
}

static void query_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct name_query *q = arg;
    struct name_answer answer = q->name->found;

    if (answer.n == 0)
        answer.err = q->name->state == NAME_IS_ASKED ? -ETIMEDOUT : -EAGAIN;
    query_end(q, &answer);
}

/* -- Threads ------------------------------------------------------------------------------------------ */

static bool names_have_thread(const struct name_resolver *n, uint64_t origin)
{
    const struct name *name;
    size_t n_all = 0, n_own = 0;

    TAILQ_FOREACH(name, &n->lists[NAME_IS_ASKED], order) {
        n_all += (name->origin == 0) == (origin == 0);
        n_own += name->origin == origin;
    }
    return origin == 0 ? n_all < NAMES_URGENT_MAX : n_all < NAMES_THREADS_MAX && n_own < NAMES_EACH_MAX;
}

/* Starts the lookup on a thread. False if the system refuses another thread. */
static bool name_begin_lookup(struct name_resolver *n, struct name *name)
{
    struct name_lookup *l = xcalloc(1, sizeof(*l));
    struct name_query *q;

    *l = (struct name_lookup){.post = n->post, .name = name, .host = xstrdup(name->host)};
    pthread_mutex_lock(&n->post->lock);
    n->post->n_refs++;
    pthread_mutex_unlock(&n->post->lock);
    if (lookup_begin(l) < 0) {
        post_unref(n->post);
        lookup_free(l);
        return false;
    }
    name_set_state(n, name, NAME_IS_ASKED);
    LIST_FOREACH(q, &name->queries, link)
        query_set_timer(q);
    return true;
}

static void names_begin_waiting(struct name_resolver *n)
{
    struct name *name, *next;
    uint64_t refused = 0; /* the others of that origin have to wait, too */

    for (name = TAILQ_FIRST(&n->lists[NAME_WAITS]); name; name = next) {
        next = TAILQ_NEXT(name, order);
        if (name->origin != 0 && name->origin == refused)
            continue;
        if (!names_have_thread(n, name->origin))
            refused = name->origin;
        else if (!name_begin_lookup(n, name))
            break;
    }
}

static void names_finish_lookup(struct name_resolver *n, struct name_lookup *take_l)
{
    struct query_list queries = LIST_HEAD_INITIALIZER(queries);
    struct name *name = take_l->name;
    struct name_answer answer = take_l->answer;

    lookup_free(take_l);
    if (answer.err == 0) {
        name->found = answer;
        name->fresh_until_ns = mono_ns() + KEPT_NS;
    } else if (answer.err == -ETIMEDOUT && name->found.n > 0) {
        answer = name->found;
    } else {
        name->found.n = 0;
    }
    /* done() may start or cancel other queries. */
    struct name_query *q, *first = LIST_FIRST(&name->queries);
    if (first) {
        queries = name->queries;
        first->link.le_prev = &queries.lh_first;
        LIST_INIT(&name->queries);
    }
    LIST_FOREACH(q, &queries, link)
        q->name = NULL;
    name_set_state(n, name, NAME_IDLE);
    while ((q = LIST_FIRST(&queries)))
        query_end(q, &answer);
}

static void names_on_finished(evutil_socket_t fd, short what, void *arg)
{
    struct lookup_list list = STAILQ_HEAD_INITIALIZER(list);
    struct name_resolver *n = arg;
    struct name_lookup *l;
    eventfd_t count;

    eventfd_read(fd, &count);
    pthread_mutex_lock(&n->post->lock);
    STAILQ_CONCAT(&list, &n->post->finished);
    pthread_mutex_unlock(&n->post->lock);
    while ((l = STAILQ_FIRST(&list))) {
        STAILQ_REMOVE_HEAD(&list, next);
        names_finish_lookup(n, l);
    }
    names_begin_waiting(n);
}

struct name_query *names_ask(struct name_resolver *n, const char *host, uint64_t origin, int64_t deadline_ns,
                             int64_t patience_ns, void (*done)(const struct name_answer *a, void *arg),
                             void *arg)
{
    struct name_query *q = xcalloc(1, sizeof(*q));
    struct name *name = names_find(n, host, origin);

    if (!name)
        name = names_insert(n, host, origin);
    else if (name->state == NAME_IDLE)
        name_set_state(n, name, NAME_WAITS);
    *q = (struct name_query){.names = n,
                             .name = name,
                             .deadline_ns = deadline_ns,
                             .patience_ns = patience_ns,
                             .done = done,
                             .arg = arg};
    q->timer = evtimer_new(n->base, query_on_timer, q);
    if (!q->timer)
        abort(); /* as base/alloc.h */
    LIST_INSERT_HEAD(&name->queries, q, link);
    query_set_timer(q);
    names_begin_waiting(n);
    return q;
}

struct name_query *name_query_free(struct name_query *q)
{
    if (!q)
        return NULL;
    struct name *name = q->name;
    event_free(q->timer);
    LIST_REMOVE(q, link);
    /* One that is asked goes on: its thread cannot be ended. */
    if (name && LIST_EMPTY(&name->queries) && name->state == NAME_WAITS)
        name_set_state(q->names, name, NAME_IDLE);
    free(q);
    return NULL;
}

/* -- Life --------------------------------------------------------------------------------------------- */

int names_new(struct event_base *base, struct name_resolver **ret)
{
    struct name_resolver *n = xcalloc(1, sizeof(*n));

    n->base = base;
    for (size_t i = 0; i < ARRAY_SIZE(n->lists); i++)
        TAILQ_INIT(&n->lists[i]);
    n->post = xcalloc(1, sizeof(*n->post));
    *n->post = (struct post){.n_refs = 1, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    STAILQ_INIT(&n->post->finished);
    pthread_mutex_init(&n->post->lock, NULL);
    if (n->post->fd < 0) {
        names_free(n);
        return -errno;
    }
    n->finished_event = event_new(base, n->post->fd, EV_READ | EV_PERSIST, names_on_finished, n);
    if (!n->finished_event) {
        names_free(n);
        return -ENOMEM;
    }
    event_add(n->finished_event, NULL);
    *ret = n;
    return 0;
}

static void free_names(struct name_resolver *n, struct name_list *list)
{
    struct name *name;

    while ((name = TAILQ_FIRST(list))) {
        struct name_query *q, *next;
        for (q = LIST_FIRST(&name->queries); q; q = next) {
            next = LIST_NEXT(q, link);
            q->name = NULL;
            name_query_free(q);
        }
        names_forget(n, name);
    }
}

/* What threads still look for goes when they end. */
static void close_post(struct post *p)
{
    struct name_lookup *l;

    pthread_mutex_lock(&p->lock);
    int fd = TAKE_FD(p->fd);
    while ((l = STAILQ_FIRST(&p->finished))) {
        STAILQ_REMOVE_HEAD(&p->finished, next);
        lookup_free(l);
    }
    pthread_mutex_unlock(&p->lock);
    if (fd >= 0)
        close(fd);
    post_unref(p);
}

struct name_resolver *names_free(struct name_resolver *n)
{
    if (!n)
        return NULL;
    if (n->finished_event)
        event_free(n->finished_event);
    for (size_t i = 0; i < ARRAY_SIZE(n->lists); i++)
        free_names(n, &n->lists[i]);
    close_post(n->post);
    free(n);
    return NULL;
}
