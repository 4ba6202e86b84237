/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/align.h"

#include <errno.h>

/* September 2001: smaller stamps are relative to something. */
#define EPOCH_PLAUSIBLE_NS INT64_C(1000000000000000000)

struct meeting {
    struct text group, name;
    int64_t number; /* as the process group counts them, or in order of appearance */
    int64_t end;
};

struct meetings {
    struct meeting *items;
    size_t n;
};

static void meetings_done(struct meetings *m)
{
    free(m->items);
}

static int compare_text(struct text a, struct text b)
{
    int r = memcmp(a.p, b.p, MIN(a.size, b.size));
    return r != 0 ? r : (a.size > b.size) - (a.size < b.size);
}

static int compare_kind(const struct meeting *a, const struct meeting *b)
{
    int r = compare_text(a->group, b->group);
    return r != 0 ? r : compare_text(a->name, b->name);
}

static int compare_meetings(const void *x, const void *y)
{
    const struct meeting *a = x, *b = y;
    int r = compare_kind(a, b);

    if (r == 0)
        r = (a->number > b->number) - (a->number < b->number);
    return r != 0 ? r : (a->end > b->end) - (a->end < b->end);
}

static int compare_int64(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

/* Two ranks meet in a collective; a send and its receive have their own names and partners. */
static bool is_meeting(const struct columns *c, uint64_t row, int64_t slice)
{
    struct text category = columns_text(c, columns_get(c, COL_slice_category, (uint64_t)slice));
    struct text name = columns_text(c, columns_get(c, COL_collective_name, row));

    return text_is(category, "kernel") && name.size > 0 && !text_is(name, "send") && !text_is(name, "recv");
}

/* Where the group does not count, the order of appearance does. */
static void number_meetings(struct meetings *m)
{
    for (size_t i = 0; i < m->n; i++) {
        bool follows = i > 0 && compare_kind(&m->items[i], &m->items[i - 1]) == 0;
        if (m->items[i].number == COLUMN_NULL)
            m->items[i].number = follows ? m->items[i - 1].number + 1 : 0;
    }
}

static int find_meetings(const struct columns *c, int64_t shift_ns, struct meetings *ret)
{
    uint64_t rows = columns_rows(c, TABLE_collective);

    *ret = (struct meetings){.items = calloc(MAX(rows, (uint64_t)1), sizeof(struct meeting))};
    if (!ret->items)
        return -ENOMEM;
    for (uint64_t row = 0; row < rows; row++) {
        int64_t slice = columns_get(c, COL_collective_slice, row), end;
        if (slice == COLUMN_NULL || !is_meeting(c, row, slice))
            continue;
        int64_t ts = columns_get(c, COL_slice_ts, (uint64_t)slice);
        int64_t dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        if (__builtin_add_overflow(ts, dur, &end) || __builtin_add_overflow(end, shift_ns, &end))
            continue;
        ret->items[ret->n++] = (struct meeting){
            .group = columns_text(c, columns_get(c, COL_collective_group_name, row)),
            .name = columns_text(c, columns_get(c, COL_collective_name, row)),
            .number = columns_get(c, COL_collective_seq, row),
            .end = end,
        };
    }
    qsort(ret->items, ret->n, sizeof(struct meeting), compare_meetings);
    number_meetings(ret);
    return 0;
}

static int64_t median(int64_t *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_int64);
    return values[n / 2];
}

static int same_meeting(const struct meeting *a, const struct meeting *b)
{
    int r = compare_kind(a, b);
    return r != 0 ? r : (a->number > b->number) - (a->number < b->number);
}

/* How much later each meeting of both ended by the reference's clock; both lists are in order. */
static size_t compare_ends(const struct meetings *a, const struct meetings *b, int64_t *ret_later)
{
    size_t n = 0;

    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        int r = same_meeting(&a->items[i], &b->items[j]);
        if (r == 0 && !__builtin_sub_overflow(a->items[i].end, b->items[j].end, &ret_later[n]))
            n++;
        i += r <= 0;
        j += r >= 0;
    }
    return n;
}

int align_collectives(const struct columns *reference, int64_t reference_shift_ns,
                      const struct columns *other, int64_t other_shift_ns, struct alignment *ret)
{
    _cleanup_(meetings_done) struct meetings a = {0}, b = {0};

    *ret = (struct alignment){0};
    if (find_meetings(reference, reference_shift_ns, &a) < 0 || find_meetings(other, other_shift_ns, &b) < 0)
        return -ENOMEM;
    _cleanup_(freep) int64_t *later = calloc(MIN(a.n, b.n) + 1, sizeof(*later));
    if (!later)
        return -ENOMEM;
    ret->matches = compare_ends(&a, &b, later);
    if (ret->matches < ALIGN_MATCHES_MIN)
        return 0;
    ret->shift_ns = median(later, ret->matches);
    for (size_t i = 0; i < ret->matches; i++) {
        int64_t distance;
        bool far = __builtin_sub_overflow(later[i], ret->shift_ns, &distance) || distance == INT64_MIN;
        later[i] = far ? INT64_MAX : llabs(distance);
    }
    ret->spread_ns = median(later, ret->matches);
    return 0;
}

bool alignment_is_needed(const struct alignment *a)
{
    int64_t shift = a->shift_ns == INT64_MIN ? INT64_MAX : llabs(a->shift_ns);
    return a->matches >= ALIGN_MATCHES_MIN && shift > ALIGN_TOLERANCE_NS && a->spread_ns < shift / 4;
}

int64_t align_wall_shift(const struct columns *c)
{
    int64_t base = columns_meta(c, META_base_time_ns), first = columns_meta(c, META_first_ns), wall;

    if (first == COLUMN_NULL)
        return 0;
    if (first >= EPOCH_PLAUSIBLE_NS)
        return 0;
    if (base == COLUMN_NULL || __builtin_add_overflow(first, base, &wall) || wall < EPOCH_PLAUSIBLE_NS)
        return COLUMN_NULL;
    return base;
}
