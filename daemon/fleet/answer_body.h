/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of an answer while it arrives, and afterwards: never more than its maximum, and what is more than
 * an excerpt only within the budget of all answers (answer_budget.h). Reads nothing itself.
 */
#pragma once

#include "daemon/fleet/answer_budget.h"

/* As much of an answer is kept without asking: what starts, stops and most questions are answered with. */
#define ANSWER_EXCERPT_MAX (16 << 10)

struct answer_body {
    char *text; /* NUL-terminated; NULL: nothing came */
    size_t size, room, max;
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

/* announced: the size of the complete body, < 0 where it was not told. */
enum answer_taken answer_body_add(struct answer_body *b, const struct answer_asker *asker, int64_t announced,
                                  const char *data, size_t size);
void answer_body_done(struct answer_body *b);
