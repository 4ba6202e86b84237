/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/turns.h"

#include <errno.h>

void turns_init(struct turns *t, const struct turn_limits *limits)
{
    *t = (struct turns){.limits = limits};
    TAILQ_INIT(&t->waiting);
}

int turns_check(const struct turns *t, const char *user, size_t n_traces, struct problem *p)
{
    const struct turn_limits *limits = t->limits;
    const struct turn *turn;
    size_t n = 0, n_user = 0, n_all = n_traces;
    const char *format = NULL;

    TAILQ_FOREACH(turn, &t->waiting, next) {
        n++;
        n_user += streq(turn->user, user);
        n_all += turn->n_traces;
    }
    if (n_user >= limits->user)
        format = "too many %s of this user are waiting already";
    else if (n >= limits->all)
        format = "too many %s are waiting already";
    else if (n > 0 && n_all > limits->traces)
        format = "%s of too many %s are waiting already";
    if (!format)
        return 0;
    problem_remedy(p, "%s", limits->remedy);
    return problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, format, limits->what, limits->items);
}

void turns_add(struct turns *t, struct turn *turn)
{
    const struct turn *other;
    uint64_t last = t->last;

    TAILQ_FOREACH(other, &t->waiting, next)
        if (streq(other->user, turn->user))
            last = MAX(last, other->number);
    turn->number = last + 1;
    TAILQ_INSERT_TAIL(&t->waiting, turn, next);
}

void turns_drop(struct turns *t, struct turn *turn)
{
    TAILQ_REMOVE(&t->waiting, turn, next);
}

void turns_take(struct turns *t, struct turn *turn)
{
    turns_drop(t, turn);
    t->last = MAX(t->last, turn->number);
}

/* Those with the number of `before` that arrived after it come next, then those with a higher number. */
struct turn *turns_next(const struct turns *t, const struct turn *before)
{
    struct turn *turn, *best = NULL;
    bool is_after = !before;

    TAILQ_FOREACH(turn, &t->waiting, next) {
        bool is_behind =
            !before || turn->number > before->number || (is_after && turn->number == before->number);
        if (turn == before)
            is_after = true;
        else if (is_behind && (!best || turn->number < best->number))
            best = turn;
    }
    return best;
}
