/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/async.h"

#define LANE_NONE UINT32_MAX

/* What a key of the map is; ids have their scope's number behind these. */
enum {
    KEY_SCOPE, /* process and category */
    KEY_SET,   /* process and name */
    KEY_IDS,
};

void async_init(struct async *a, struct tracks *tracks)
{
    *a = (struct async){.tracks = tracks, .numbers.budget = tracks->budget};
}

void async_done(struct async *a)
{
    if (!a->tracks)
        return;
    budget_free(a->numbers.budget, a->sets, a->sets_cap, sizeof(*a->sets));
    budget_free(a->numbers.budget, a->ids, a->ids_cap, sizeof(*a->ids));
    budget_free(a->numbers.budget, a->lanes, a->lanes_cap, sizeof(*a->lanes));
    map_done(&a->numbers);
    *a = (struct async){0};
}

static struct async_id *find_id(struct async *a, uint32_t process, uint16_t category, int64_t id,
                                uint32_t name)
{
    struct budget *b = a->numbers.budget;
    uint32_t *scope, *set, *number, set_number;

    scope = map_put(&a->numbers, (uint64_t)process << 16 | category, KEY_SCOPE, a->n_scopes);
    if (!scope || a->n_scopes == MAP_SUB_MAX - KEY_IDS)
        return NULL;
    a->n_scopes += *scope == a->n_scopes;
    number = map_put(&a->numbers, (uint64_t)id, KEY_IDS + *scope, (uint32_t)a->n_ids);
    if (!number || *number < a->n_ids)
        return number ? &a->ids[*number] : NULL;

    if (budget_grow(b, &a->ids, &a->ids_cap, a->n_ids + 1, sizeof(*a->ids)) < 0 ||
        budget_grow(b, &a->sets, &a->sets_cap, a->n_sets + 1, sizeof(*a->sets)) < 0)
        return NULL;
    set = map_put(&a->numbers, (uint64_t)process << 32 | name, KEY_SET, (uint32_t)a->n_sets);
    if (!set)
        return NULL;
    set_number = *set;
    a->n_sets += set_number == a->n_sets;
    a->ids[a->n_ids] = (struct async_id){set_number, LANE_NONE};
    return &a->ids[a->n_ids++];
}

static struct async_lane *take_free(struct async *a, struct async_set *set)
{
    while (set->free != 0) {
        struct async_lane *l = &a->lanes[set->free - 1];

        set->free = l->next_free;
        l->listed = false;
        if (l->open == 0)
            return l;
    }
    return NULL;
}

static struct async_lane *lane_of(struct async *a, struct async_id *id)
{
    uint32_t owner = (uint32_t)(id - a->ids);

    if (id->lane != LANE_NONE && a->lanes[id->lane].owner == owner)
        return &a->lanes[id->lane];
    struct async_lane *l = take_free(a, &a->sets[id->set]);
    if (!l) {
        if (budget_grow(a->numbers.budget, &a->lanes, &a->lanes_cap, a->n_lanes + 1, sizeof(*l)) < 0)
            return NULL;
        l = &a->lanes[a->n_lanes++];
        l->track = TRACK_NONE;
    }
    l->owner = owner;
    id->lane = (uint32_t)(l - a->lanes);
    return l;
}

int64_t async_track(struct async *a, enum event_phase phase, uint32_t process, uint16_t category, int64_t id,
                    uint32_t name)
{
    struct async_id *i = find_id(a, process, category, id, name);
    struct async_lane *l = i ? lane_of(a, i) : NULL;

    if (!l)
        return -ENOMEM;
    if (phase == EVENT_ASYNC_BEGIN)
        l->open++;
    else if (phase == EVENT_ASYNC_END && l->open > 0)
        l->open--;
    if (l->open == 0 && !l->listed) {
        l->next_free = a->sets[i->set].free;
        a->sets[i->set].free = (uint32_t)(l - a->lanes) + 1;
        l->listed = true;
    }
    if (l->track == TRACK_NONE) {
        int64_t r;

        if (phase == EVENT_ASYNC_END)
            return -ENOENT;
        r = tracks_add(a->tracks, TRACK_ASYNC, name, TRACK_NONE, process);
        if (r < 0)
            return r;
        l->track = (uint32_t)r;
    }
    return l->track;
}
