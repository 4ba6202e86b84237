/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/answer_body.h"

#include "base/alloc.h"

static void set_room(struct answer_body *b, size_t room)
{
    b->room = room;
    b->text = xrealloc(b->text, room + 1, 1);
}

/* A body that is longer than was announced ends where its share does. */
static bool has_share(struct answer_body *b, const struct answer_asker *asker, int64_t announced)
{
    if (!b->share) {
        if (announced >= 0)
            b->max = MIN(b->max, (size_t)announced);
        b->share = answer_budget_ask(asker->budget, asker->account, b->max, asker->arg);
    }
    if (!answer_share_is_granted(b->share))
        return false;
    if (b->room < b->max)
        set_room(b, b->max);
    return true;
}

enum answer_taken answer_body_add(struct answer_body *b, const struct answer_asker *asker, int64_t announced,
                                  const char *data, size_t size)
{
    size_t need = MIN(b->size + size, b->max);

    if (need > ANSWER_EXCERPT_MAX) {
        if (!has_share(b, asker, announced))
            return ANSWER_WAITS;
    } else if (need > b->room) {
        set_room(b, MIN(MAX(need, b->room * 2), (size_t)ANSWER_EXCERPT_MAX));
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
