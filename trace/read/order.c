/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/order.h"

#include "trace/read/sheet.h"
#include "trace/read/sum.h"

/* A group of MIP_FANOUT of what is below. */
struct mip {
    int64_t until, dur;
    uint32_t longest;
};

struct order {
    struct tracks *tracks;
    struct budget *budget;
    uint32_t *by_track;
    size_t n_rows;
    struct mip *mips;    /* level 1 of all tracks that have one */
    uint32_t *mip_first; /* of each track */
    uint32_t *next;      /* of each track: how many of its slices were seen */
    size_t n_mips;
};

static size_t groups_of(size_t n)
{
    return n > MIP_FANOUT ? (n + MIP_FANOUT - 1) / MIP_FANOUT : 0;
}

static int order_init(struct order *o, struct tracks *tracks, size_t n_rows)
{
    uint32_t first = 0;

    *o = (struct order){.tracks = tracks, .budget = tracks->budget, .n_rows = n_rows};
    o->next = budget_new(o->budget, tracks->n, sizeof(*o->next));
    o->mip_first = budget_new(o->budget, tracks->n, sizeof(*o->mip_first));
    if (!o->next || !o->mip_first)
        return -ENOMEM;
    for (size_t i = 0; i < tracks->n; i++) {
        tracks->list[i].first = first;
        first += tracks->list[i].slices;
        o->mip_first[i] = (uint32_t)o->n_mips;
        o->n_mips += groups_of(tracks->list[i].slices);
    }
    o->by_track = budget_new(o->budget, n_rows, sizeof(*o->by_track));
    o->mips = budget_new(o->budget, o->n_mips, sizeof(*o->mips));
    return o->by_track && o->mips ? 0 : -ENOMEM;
}

static void order_done(struct order *o)
{
    budget_free(o->budget, o->next, o->tracks->n, sizeof(*o->next));
    budget_free(o->budget, o->mip_first, o->tracks->n, sizeof(*o->mip_first));
    budget_free(o->budget, o->by_track, o->n_rows, sizeof(*o->by_track));
    budget_free(o->budget, o->mips, o->n_mips, sizeof(*o->mips));
}

/* first: it is the first of its group; then the group takes it as it is. */
static void mip_add(struct mip *m, bool first, struct mip add)
{
    if (first) {
        *m = add;
        return;
    }
    m->until = MAX(m->until, add.until);
    if (add.dur > m->dur) {
        m->dur = add.dur;
        m->longest = add.longest;
    }
}

static void add_row(struct order *o, uint32_t row, uint32_t track, int64_t ts, int64_t dur)
{
    const struct track *t = &o->tracks->list[track];
    uint32_t at = o->next[track]++;

    o->by_track[t->first + at] = row;
    if (t->slices > MIP_FANOUT)
        mip_add(&o->mips[o->mip_first[track] + at / MIP_FANOUT], at % MIP_FANOUT == 0,
                (struct mip){sum_of(ts, dur), dur, row});
}

/* All levels of a track; the ones above the first take the place of what they were made from. */
static void put_mips(struct columns_writer *w, uint32_t track, struct mip *mips, size_t n, uint64_t *n_put)
{
    for (int level = 1; n > 0; level++) {
        size_t above = groups_of(n);

        columns_put(w, COL_miplevel_track, track);
        columns_put(w, COL_miplevel_level, level);
        columns_put(w, COL_miplevel_first, (int64_t)*n_put);
        columns_put(w, COL_miplevel_count, (int64_t)n);
        *n_put += n;
        for (size_t i = 0; i < n; i++) {
            struct mip m = mips[i];

            columns_put(w, COL_mip_longest, m.longest);
            columns_put(w, COL_mip_until, m.until);
            mip_add(&mips[i / MIP_FANOUT], i % MIP_FANOUT == 0, m);
        }
        n = above;
    }
}

int order_by_track(struct rows *rows, struct tracks *tracks, struct names *names, int64_t last_ns,
                   struct columns_writer *w)
{
    int64_t columns[_ROW_MAX * BLOCK_ROWS];
    const int64_t *dur = columns + ROW_DUR * BLOCK_ROWS, *ts = columns + ROW_TS * BLOCK_ROWS;
    const int64_t *track = columns + ROW_TRACK * BLOCK_ROWS, *group = columns + ROW_GROUP * BLOCK_ROWS;
    uint64_t n_mips = 0;
    size_t n = BLOCK_ROWS;
    struct order o;
    int r = order_init(&o, tracks, (size_t)rows_count(rows));

    for (size_t first = 0; r == 0 && n == BLOCK_ROWS; first += n) {
        r = rows_read(rows, first, columns, &n);
        if (r < 0 || n == 0)
            break;
        columns_put_many(w, COL_slice_dur, dur, n);
        columns_put_many(w, COL_slice_child, columns + ROW_CHILD * BLOCK_ROWS, n);
        for (size_t i = 0; i < n; i++) {
            int64_t shown = dur[i] == UNFINISHED ? difference_of(last_ns, ts[i]) : dur[i];

            names_add(names, (uint32_t)group[i], dur[i]);
            add_row(&o, (uint32_t)(first + i), (uint32_t)track[i], ts[i], shown);
        }
    }
    if (r == 0)
        put_rows(w, COL_by_track_slice, o.by_track, o.n_rows);
    for (size_t i = 0; r == 0 && i < tracks->n; i++)
        put_mips(w, (uint32_t)i, o.mips + o.mip_first[i], groups_of(tracks->list[i].slices), &n_mips);
    order_done(&o);
    return r;
}
