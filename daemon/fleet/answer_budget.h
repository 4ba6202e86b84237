/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that answers of calls may take: of all calls together, and of one account (a session, a fleet)
 * at a time. Knows neither calls nor HTTP, and allocates nothing for anybody: it counts, and decides whose
 * turn it is.
 *
 * An answer asks once, for all that it may need, and holds nothing while it waits: an answer that has a share can
 * read to the end, so that no two answers ever wait for each other. Accounts take turns; within one, the
 * first that asked is the first that gets. An answer that holds its share for longer than a turn while others
 * wait for it is asked to end. A request that exceeds the limits alone is granted where nothing else is held.
 */
#pragma once

#include "base/util.h"
#include <event2/event.h>

struct answer_limits {
    size_t all, each; /* bytes: of all accounts, of each */
    int64_t turn_ns;  /* how long an answer may be read while others wait */
};

struct answer_usage {
    size_t held;      /* bytes */
    unsigned waiting; /* answers */
};

struct answer_budget;
struct answer_share;

struct answer_budget_ops {
    /* A share that waited is granted. From the loop, never from answer_budget_ask(). */
    void (*granted)(void *arg);
    /* Its turn is over: the share is to be freed, here. */
    void (*expired)(void *arg);
};

/* Copies limits, borrows ops. -ENOMEM. */
int answer_budget_new(struct event_base *base, const struct answer_limits *limits,
                      const struct answer_budget_ops *ops, struct answer_budget **ret);
/* Shares that are still held may be freed later; nobody is called any more. NULL is nothing. */
struct answer_budget *answer_budget_free(struct answer_budget *b);
void answer_budget_set_limits(struct answer_budget *b, const struct answer_limits *limits);
struct answer_usage answer_budget_usage(const struct answer_budget *b);

/* Freed by the caller, granted or not. arg is for ops. */
struct answer_share *answer_budget_ask(struct answer_budget *b, uint64_t account, size_t bytes, void *arg);
bool answer_share_is_granted(const struct answer_share *s);
/* The answer has come to its end: what it holds is held until the share is freed, without a turn and without
 * ops. One that waits is given up. */
void answer_share_settle(struct answer_share *s);
/* Gives it back. NULL is nothing. */
struct answer_share *answer_share_free(struct answer_share *s);

DEFINE_CLEANUP(struct answer_share *, answer_share_free)

/*
 * The body of an answer while it arrives, and afterwards: never more than its maximum, and what is more than
 * an excerpt only within the budget of all answers (answer_budget.h). Reads nothing itself.
 */

/* As much of an answer is kept without asking: what starts, stops and most questions are answered with. */
#define ANSWER_EXCERPT_MAX (16 << 10)

struct answer_body {
    char *text; /* NUL-terminated; NULL: nothing came */
    size_t size, capacity, max;
    bool cut; /* more came than max */
    struct answer_share *share;
};

/* Who asks the budget, and for whom. */
struct answer_asker {
    struct answer_budget *budget;
    uint64_t account;
    void *arg; /* of the budget's ops */
};

enum answer_taken {
    ANSWER_TAKEN, /* all of it, or as much as max allows: then the body is cut */
    ANSWER_WAITS, /* nothing: to be added again when the budget has granted the share */
};

/* announced: the size of the complete body, < 0 if the server did not announce it. */
enum answer_taken answer_body_add(struct answer_body *b, const struct answer_asker *asker, int64_t announced,
                                  const char *data, size_t size);
void answer_body_done(struct answer_body *b);
