/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/flame.h"

#include "trace/columns/category.h"
#include <errno.h>

/* What lies deeper is counted for the frame that lies so deep: parents of a damaged trace may go in circles.
 */
#define STACK_DEPTH_MAX 2048
#define FRAME_NONE      UINT32_MAX

static const char *const names[_FLAME_BY_MAX] = {
    [FLAME_BY_OP] = "op",
    [FLAME_BY_STACK] = "stack",
    [FLAME_BY_KERNEL] = "kernel",
};

enum flame_by flame_by_find(const char *name)
{
    enum flame_by by = 0;

    while (by < _FLAME_BY_MAX && strcmp(names[by], name) != 0)
        by++;
    return by;
}

/* -- The tree ----------------------------------------------------------------------------------------- */

static size_t slot_of(const struct flame *f, uint32_t parent, uint32_t name)
{
    uint64_t h = ((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15;
    size_t at = (size_t)(h >> 32) & (f->n_slots - 1);

    for (; f->slots[at] != FRAME_NONE; at = (at + 1) & (f->n_slots - 1)) {
        const struct flame_frame *frame = &f->frames[f->slots[at]];
        if (frame->parent == parent && frame->name == name)
            break;
    }
    return at;
}

static int grow(struct flame *f)
{
    size_t n_slots = f->n_slots ? f->n_slots * 2 : 1024;
    struct flame_frame *frames = reallocarray(f->frames, n_slots / 2, sizeof(*frames));
    uint32_t *slots = frames ? malloc(n_slots * sizeof(*slots)) : NULL;

    if (frames)
        f->frames = frames;
    if (!slots)
        return -ENOMEM;
    free(f->slots);
    memset(slots, 0xff, n_slots * sizeof(*slots));
    f->slots = slots;
    f->n_slots = n_slots;
    f->cap = n_slots / 2;
    if (f->n == 0)
        f->frames[f->n++] = (struct flame_frame){.parent = FRAME_NONE};
    for (uint32_t i = 1; i < f->n; i++)
        f->slots[slot_of(f, f->frames[i].parent, f->frames[i].name)] = i;
    return 0;
}

/* The frame with that name in its parent, FRAME_NONE without memory. */
static uint32_t frame_in(struct flame *f, uint32_t parent, int64_t name)
{
    if (name < 0 || (f->n == f->cap && grow(f) < 0))
        return FRAME_NONE;
    if (f->frames[parent].depth >= STACK_DEPTH_MAX)
        return parent;
    size_t at = slot_of(f, parent, (uint32_t)name);
    if (f->slots[at] == FRAME_NONE) {
        f->slots[at] = (uint32_t)f->n;
        f->frames[f->n++] = (struct flame_frame){
            .parent = parent, .depth = f->frames[parent].depth + 1, .name = (uint32_t)name};
    }
    return f->slots[at];
}

static uint32_t frame_of_word(struct flame *f, uint32_t parent, const char *word)
{
    return frame_in(f, parent, name_table_number(&f->names, (struct text){word, strlen(word)}));
}

static void count(struct flame *f, uint32_t frame, int64_t ns, bool is_before)
{
    int64_t *self = is_before ? &f->frames[frame].self_before : &f->frames[frame].self;

    *self = add_time(*self, MAX(ns, INT64_C(0)));
}

/* A parent comes before what lies in it, so that from the last one on all is known of each. */
static void sum_up(struct flame *f)
{
    for (size_t i = 0; i < f->n; i++) {
        f->frames[i].total = f->frames[i].self;
        f->frames[i].before = f->frames[i].self_before;
    }
    for (size_t i = f->n; i-- > 1;) {
        struct flame_frame *frame = &f->frames[i], *parent = &f->frames[frame->parent];

        parent->total = add_time(parent->total, frame->total);
        parent->before = add_time(parent->before, frame->before);
    }
}

/* -- Stacks of the host ------------------------------------------------------------------------------- */

struct host {
    struct flame *flame;
    const struct columns *c;
    enum flame_by by;
    uint32_t *frames; /* of each slice: its own where it is shown, else that of the one around it */
    int8_t *is_shown; /* of each text that is a category; -1: not looked at */
    uint32_t n_texts;
};

static bool look_at_category(const struct host *h, int64_t category)
{
    static const char *const always[] = {CATEGORY_OP, "user_annotation"};
    struct text text = columns_text(h->c, category);

    for (size_t i = 0; i < ARRAY_SIZE(always); i++)
        if (text_is(text, always[i]))
            return true;
    return h->by == FLAME_BY_STACK && text_is(text, "python_function");
}

static bool is_shown(struct host *h, uint64_t slice)
{
    int64_t category = columns_get(h->c, COL_slice_category, slice);

    if (category < 0 || category >= h->n_texts)
        return false;
    if (h->is_shown[category] < 0)
        h->is_shown[category] = look_at_category(h, category);
    return h->is_shown[category];
}

/* Steps are numbered, and are one frame all the same: "ProfilerStep#7" is ProfilerStep. */
static struct text without_number(struct text name)
{
    size_t n = name.size;

    while (n > 0 && name.p[n - 1] >= '0' && name.p[n - 1] <= '9')
        n--;
    return n > 1 && n < name.size && name.p[n - 1] == '#' ? (struct text){name.p, n - 1} : name;
}

/* The frame that a slice's time belongs to; FRAME_NONE without memory. */
static uint32_t frame_of_slice(struct host *h, uint64_t slice)
{
    uint64_t path[STACK_DEPTH_MAX];
    size_t n = 0;
    uint32_t frame = FLAME_ROOT;

    while (slice != SLICE_NONE && n < STACK_DEPTH_MAX) {
        if (h->frames[slice] != FRAME_NONE) {
            frame = h->frames[slice];
            break;
        }
        path[n++] = slice;
        int64_t parent = columns_get(h->c, COL_slice_parent, slice);
        slice = parent == COLUMN_NULL ? SLICE_NONE : (uint64_t)parent;
    }
    while (n-- > 0 && frame != FRAME_NONE) {
        if (is_shown(h, path[n])) {
            struct text name = without_number(columns_text(h->c, columns_get(h->c, COL_slice_name, path[n])));
            frame = frame_in(h->flame, frame, name_table_number(&h->flame->names, name));
        }
        h->frames[path[n]] = frame;
    }
    return frame;
}

static int host_init(struct host *h, struct flame *f, const struct columns *c, enum flame_by by)
{
    uint64_t n = columns_rows(c, TABLE_slice);

    *h = (struct host){.flame = f, .c = c, .by = by, .n_texts = columns_texts(c)};
    h->frames = malloc((n + 1) * sizeof(*h->frames));
    h->is_shown = malloc((size_t)h->n_texts + 1);
    if (!h->frames || !h->is_shown)
        return -ENOMEM;
    memset(h->frames, 0xff, (n + 1) * sizeof(*h->frames));
    memset(h->is_shown, -1, (size_t)h->n_texts + 1);
    return 0;
}

static void host_done(struct host *h)
{
    free(h->frames);
    free(h->is_shown);
}

/* ----------------------------------------------------------------------------------------------------- */

static int add_kernels(struct flame *f, const struct columns *c, const struct gpu_work *work, bool is_before)
{
    for (size_t i = 0; i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        uint32_t class = frame_of_word(f, FLAME_ROOT, kernel_class_name(e->class));
        uint32_t frame = class == FRAME_NONE
                             ? FRAME_NONE
                             : frame_in(f, class, name_table_number(&f->names, columns_text(c, e->name)));
        if (frame == FRAME_NONE)
            return -ENOMEM;
        count(f, frame, e->end - e->ts, is_before);
    }
    return 0;
}

static int add_launched(struct flame *f, const struct columns *c, const struct gpu_work *work,
                        enum flame_by by, bool is_before)
{
    _cleanup_(host_done) struct host h;
    int r = host_init(&h, f, c, by);

    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        uint32_t frame = e->launch == SLICE_NONE ? frame_of_word(f, FLAME_ROOT, "(launch not recorded)")
                                                 : frame_of_slice(&h, e->launch);
        if (frame != FRAME_NONE)
            frame = frame_in(f, frame, name_table_number(&f->names, columns_text(c, e->name)));
        if (frame == FRAME_NONE)
            return -ENOMEM;
        count(f, frame, e->end - e->ts, is_before);
    }
    return r;
}

/* The host's own time, of what is not itself the time of something that lies in it. */
static int add_host(struct flame *f, struct analysis *a, size_t rank, enum flame_by by, bool is_before)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(host_done) struct host h;
    const struct intervals *times;
    int64_t ts[BLOCK_ROWS], dur[BLOCK_ROWS], child[BLOCK_ROWS];
    int r = host_init(&h, f, c, by);

    if (r >= 0)
        r = analysis_times(a, rank, &times);
    for (uint64_t first = 0, n = columns_rows(c, TABLE_slice); first < n && r >= 0; first += BLOCK_ROWS) {
        size_t rows = columns_block(c, COL_slice_ts, first, BLOCK_ROWS, ts);
        columns_block(c, COL_slice_dur, first, BLOCK_ROWS, dur);
        columns_block(c, COL_slice_child, first, BLOCK_ROWS, child);
        for (size_t i = 0; i < rows; i++) {
            int64_t self = dur[i] <= 0 ? 0 : dur[i] - (child[i] == COLUMN_NULL ? 0 : child[i]);
            if (self <= 0 || !intervals_find(times, ts[i]))
                continue;
            uint32_t frame = frame_of_slice(&h, first + i);
            if (frame == FRAME_NONE)
                return -ENOMEM;
            if (frame != FLAME_ROOT)
                count(f, frame, self, is_before);
        }
    }
    return r;
}

static int add_rank(struct flame *f, struct analysis *a, size_t rank, enum flame_by by, bool is_before)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r < 0)
        return r;
    if (work->n == 0)
        return add_host(f, a, rank, by, is_before);
    return by == FLAME_BY_KERNEL ? add_kernels(f, c, work, is_before)
                                 : add_launched(f, c, work, by, is_before);
}

int flame_add(struct flame *f, struct analysis *a, enum flame_by by, bool is_before)
{
    int r = f->n == 0 ? grow(f) : 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(f, a, i, by, is_before);
    if (r >= 0)
        sum_up(f);
    return r;
}

void flame_done(struct flame *f)
{
    free(f->frames);
    free(f->slots);
    name_table_done(&f->names);
    *f = (struct flame){0};
}
