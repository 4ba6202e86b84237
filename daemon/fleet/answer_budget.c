/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/answer_budget.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <sys/queue.h>

struct answer_share {
    TAILQ_ENTRY(answer_share) link; /* of the account's waiting shares, or of those that are being read */
    struct answer_budget *budget;
    struct account *account;
    size_t bytes;
    int64_t turn_ends_ns;
    enum { SHARE_WAITS, SHARE_READS, SHARE_SETTLED } state;
    void *arg;
};
TAILQ_HEAD(share_queue, answer_share);

struct account {
    TAILQ_ENTRY(account) link;
    uint64_t id;
    size_t held;
    unsigned n_shares;
    struct share_queue waiting;
};
TAILQ_HEAD(account_queue, account);

struct answer_budget {
    struct answer_limits limits;
    const struct answer_budget_ops *ops;
    struct event *next;            /* a share was given back */
    struct event *turn;            /* the oldest turn is over */
    struct account_queue accounts; /* the next one to be granted a share is the first */
    struct share_queue reading;    /* in the order in which they were granted */
    struct answer_usage usage;
    unsigned n_shares;
    bool closed;
};

static bool share_fits(size_t held, size_t bytes, size_t limit)
{
    return held == 0 || (held <= limit && bytes <= limit - held);
}

static bool account_may_take(const struct answer_budget *b, const struct account *a)
{
    const struct answer_share *s = TAILQ_FIRST(&a->waiting);
    return s && share_fits(a->held, s->bytes, b->limits.each);
}

/* The first of those that only the others keep waiting, NULL: none. */
static struct account *next_account(const struct answer_budget *b)
{
    struct account *a;

    TAILQ_FOREACH(a, &b->accounts, link)
        if (account_may_take(b, a))
            return a;
    return NULL;
}

/* Nobody overtakes the one whose turn it is, or a large answer would never get through between small ones. */
static struct answer_share *next_share(const struct answer_budget *b)
{
    const struct account *a = next_account(b);
    struct answer_share *s = a ? TAILQ_FIRST(&a->waiting) : NULL;

    return s && share_fits(b->usage.held, s->bytes, b->limits.all) ? s : NULL;
}

static bool share_is_waited_for(const struct answer_budget *b, const struct answer_share *s)
{
    return next_account(b) || !TAILQ_EMPTY(&s->account->waiting);
}

static void budget_arm_turn(struct answer_budget *b)
{
    const struct answer_share *oldest = TAILQ_FIRST(&b->reading);

    if (b->usage.waiting == 0 || !oldest) {
        event_del(b->turn);
        return;
    }
    struct timeval tv = timeval_until(oldest->turn_ends_ns);
    event_add(b->turn, &tv);
}

static void share_grant(struct answer_share *s)
{
    struct answer_budget *b = s->budget;
    struct account *a = s->account;

    TAILQ_REMOVE(&a->waiting, s, link);
    TAILQ_REMOVE(&b->accounts, a, link);
    TAILQ_INSERT_TAIL(&b->accounts, a, link);
    TAILQ_INSERT_TAIL(&b->reading, s, link);
    s->state = SHARE_READS;
    s->turn_ends_ns = mono_ns() + b->limits.turn_ns;
    a->held += s->bytes;
    b->usage.held += s->bytes;
    b->usage.waiting--;
}

static void budget_on_next(evutil_socket_t fd, short what, void *arg)
{
    struct answer_budget *b = arg;
    struct answer_share *s;

    while ((s = next_share(b))) {
        share_grant(s);
        b->ops->granted(s->arg);
    }
    budget_arm_turn(b);
}

/* Ends the first expired turn that another answer waits for; expired turns that block no answer are renewed.
 */
static void budget_on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct answer_budget *b = arg;
    struct answer_share *s;
    int64_t now = mono_ns();

    while ((s = TAILQ_FIRST(&b->reading)) && s->turn_ends_ns <= now) {
        if (share_is_waited_for(b, s)) {
            b->ops->expired(s->arg);
            break; /* what it gave back is granted first */
        }
        TAILQ_REMOVE(&b->reading, s, link);
        s->turn_ends_ns = now + b->limits.turn_ns;
        TAILQ_INSERT_TAIL(&b->reading, s, link);
    }
    budget_arm_turn(b);
}

static struct account *account_get(struct answer_budget *b, uint64_t id)
{
    struct account *a;

    TAILQ_FOREACH(a, &b->accounts, link)
        if (a->id == id)
            return a;
    a = xcalloc(1, sizeof(*a));
    a->id = id;
    TAILQ_INIT(&a->waiting);
    TAILQ_INSERT_TAIL(&b->accounts, a, link);
    return a;
}

struct answer_share *answer_budget_ask(struct answer_budget *b, uint64_t account, size_t bytes, void *arg)
{
    struct answer_share *s = xcalloc(1, sizeof(*s));

    *s = (struct answer_share){
        .budget = b, .account = account_get(b, account), .bytes = bytes, .state = SHARE_WAITS, .arg = arg};
    TAILQ_INSERT_TAIL(&s->account->waiting, s, link);
    s->account->n_shares++;
    b->n_shares++;
    b->usage.waiting++;
    if (next_share(b) == s)
        share_grant(s);
    budget_arm_turn(b);
    return s;
}

bool answer_share_is_granted(const struct answer_share *s)
{
    return s->state != SHARE_WAITS;
}

void answer_share_settle(struct answer_share *s)
{
    if (s->state == SHARE_WAITS) {
        TAILQ_REMOVE(&s->account->waiting, s, link);
        s->budget->usage.waiting--;
        s->bytes = 0;
    } else if (s->state == SHARE_READS) {
        TAILQ_REMOVE(&s->budget->reading, s, link);
    }
    s->state = SHARE_SETTLED;
}

static void budget_put(struct answer_budget *b)
{
    if (b->closed && b->n_shares == 0)
        free(b);
}

struct answer_share *answer_share_free(struct answer_share *s)
{
    if (!s)
        return NULL;
    struct answer_budget *b = s->budget;
    struct account *a = s->account;
    answer_share_settle(s);
    a->held -= s->bytes;
    b->usage.held -= s->bytes;
    free(s);
    if (--a->n_shares == 0) {
        TAILQ_REMOVE(&b->accounts, a, link);
        free(a);
    }
    b->n_shares--;
    if (!b->closed && b->usage.waiting > 0)
        event_active(b->next, EV_TIMEOUT, 0);
    budget_put(b);
    return NULL;
}

void answer_budget_set_limits(struct answer_budget *b, const struct answer_limits *limits)
{
    b->limits = *limits;
    event_active(b->next, EV_TIMEOUT, 0);
}

struct answer_usage answer_budget_usage(const struct answer_budget *b)
{
    return b->usage;
}

int answer_budget_new(struct event_base *base, const struct answer_limits *limits,
                      const struct answer_budget_ops *ops, struct answer_budget **ret)
{
    struct answer_budget *b = xcalloc(1, sizeof(*b));

    *b = (struct answer_budget){.limits = *limits, .ops = ops};
    TAILQ_INIT(&b->accounts);
    TAILQ_INIT(&b->reading);
    b->next = evtimer_new(base, budget_on_next, b);
    b->turn = evtimer_new(base, budget_on_turn, b);
    if (!b->next || !b->turn) {
        answer_budget_free(b);
        return -ENOMEM;
    }
    *ret = b;
    return 0;
}

struct answer_budget *answer_budget_free(struct answer_budget *b)
{
    if (!b)
        return NULL;
    if (b->next)
        event_free(b->next);
    if (b->turn)
        event_free(b->turn);
    b->closed = true;
    budget_put(b);
    return NULL;
}

/* -- Bodies -- */

static void body_set_capacity(struct answer_body *b, size_t capacity)
{
    b->capacity = capacity;
    b->text = xrealloc(b->text, capacity + 1, 1);
}

/* A body that is longer than was announced ends where its share does. */
static bool body_has_share(struct answer_body *b, const struct answer_asker *asker, int64_t announced)
{
    if (!b->share) {
        if (announced >= 0)
            b->max = MIN(b->max, (size_t)announced);
        b->share = answer_budget_ask(asker->budget, asker->account, b->max, asker->arg);
    }
    if (!answer_share_is_granted(b->share))
        return false;
    if (b->capacity < b->max)
        body_set_capacity(b, b->max);
    return true;
}

enum answer_taken answer_body_add(struct answer_body *b, const struct answer_asker *asker, int64_t announced,
                                  const char *data, size_t size)
{
    size_t need = MIN(b->size + size, b->max);

    if (need > ANSWER_EXCERPT_MAX) {
        if (!body_has_share(b, asker, announced))
            return ANSWER_WAITS;
    } else if (need > b->capacity) {
        body_set_capacity(b, MIN(MAX(need, b->capacity * 2), (size_t)ANSWER_EXCERPT_MAX));
    }
    size_t take = MIN(size, b->max - b->size);
    if (take > 0)
        memcpy(b->text + b->size, data, take);
    b->size += take;
    if (b->text)
        b->text[b->size] = '\0';
    b->cut = take < size;
    return ANSWER_TAKEN;
}

void answer_body_done(struct answer_body *b)
{
    free(b->text);
    answer_share_free(b->share);
    *b = (struct answer_body){0};
}
