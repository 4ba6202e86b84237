/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/flame.h"

#include "base/array.h"
#include "trace/reports/ops.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* What lies deeper is counted for the frame that lies so deep. */
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

/* The root is the first, and is nobody's child: numbers of the others are those of the table + 1. */
static bool flame_is_same(const void *owner, size_t number, const void *thing)
{
    const struct flame *f = owner;
    const struct flame_frame *frame = &f->frames[number + 1], *looked_for = thing;

    return frame->parent == looked_for->parent && frame->name == looked_for->name;
}

static int flame_plant(struct flame *f)
{
    if (!ARRAY_RESERVE(f->frames, f->cap, 1))
        return -ENOMEM;
    f->frames[f->n++] = (struct flame_frame){.parent = FRAME_NONE};
    return 0;
}

/* The frame with that name in its parent, FRAME_NONE without memory. */
static uint32_t frame_in(struct flame *f, uint32_t parent, int64_t name)
{
    if (name < 0 || !ARRAY_RESERVE(f->frames, f->cap, f->n + 1))
        return FRAME_NONE;
    if (f->frames[parent].depth >= STACK_DEPTH_MAX)
        return parent;
    struct flame_frame frame = {
        .parent = parent, .depth = f->frames[parent].depth + 1, .name = (uint32_t)name};
    int64_t number =
        hash_table_number(&f->numbers, hash_words(parent, (uint64_t)name), flame_is_same, f, &frame);
    if (number < 0)
        return FRAME_NONE;
    if ((size_t)number + 1 == f->n)
        f->frames[f->n++] = frame;
    return (uint32_t)number + 1;
}

static uint32_t frame_of_word(struct flame *f, uint32_t parent, const char *word)
{
    return frame_in(f, parent, name_table_number(&f->names, (struct text){word, strlen(word)}));
}

static void flame_count(struct flame *f, uint32_t frame, int64_t ns, bool is_before)
{
    f->frames[frame].count += !is_before;
    int64_t *self = is_before ? &f->frames[frame].self_before : &f->frames[frame].self;

    *self = add_time(*self, MAX(ns, INT64_C(0)));
}

/* A parent comes before what lies in it, so that from the last one on all is known of each. */
static void flame_sum_up(struct flame *f)
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

/* Steps are numbered, and are one frame all the same: "ProfilerStep#7" is ProfilerStep. */
static struct text without_number(struct text name)
{
    size_t n = name.size;

    while (n > 0 && name.p[n - 1] >= '0' && name.p[n - 1] <= '9')
        n--;
    return n > 1 && n < name.size && name.p[n - 1] == '#' ? (struct text){name.p, n - 1} : name;
}

/* Of each thread, whether it has that name or number; NULL without memory. The caller frees it. */
static bool *flame_threads(const struct columns *c, const char *thread)
{
    uint64_t n = columns_rows(c, TABLE_thread);
    bool *chosen = calloc(n + 1, sizeof(*chosen));
    char number[32];

    for (uint64_t i = 0; chosen && i < n; i++) {
        struct text name = columns_text(c, columns_get(c, COL_thread_name, i)),
                    tid = columns_text(c, columns_get(c, COL_thread_tid_text, i));
        snprintf(number, sizeof(number), "%" PRId64, columns_get(c, COL_thread_tid, i));
        struct text wanted = {thread, strlen(thread)};
        chosen[i] = text_equal(name, wanted) || text_equal(tid, wanted) || strcmp(number, thread) == 0;
    }
    return chosen;
}

/* The calls that a stack is made of, and the frame of each. */
struct flame_stacks {
    struct host_calls own;         /* where the analysis has no such */
    const struct host_calls *host; /* operators and annotations, and Python frames by stack */
    uint32_t *frames;              /* of each call that is wanted, else FRAME_NONE */
    bool *threads;                 /* that are chosen; NULL: all */
};

static void stacks_done(struct flame_stacks *s)
{
    host_calls_done(&s->own);
    free(s->frames);
    free(s->threads);
}

static bool stacks_has_call(const struct flame_stacks *s, uint32_t call)
{
    int64_t thread = s->threads ? slice_thread(s->host->slices, s->host->slice[call]) : COLUMN_NULL;

    return !s->threads || (thread != COLUMN_NULL && s->threads[thread]);
}

static int stacks_read(struct flame_stacks *s, struct analysis *a, size_t rank,
                       const struct flame_choice *choice, const struct gpu_work *work)
{
    const struct slice_table *slices;
    int r = analysis_slices(a, rank, &slices);

    if (r < 0)
        return r;
    if (choice->thread && !(s->threads = flame_threads(a->ranks[rank].columns, choice->thread)))
        return -ENOMEM;
    if (choice->by == FLAME_BY_STACK) {
        s->host = &s->own;
        r = host_calls_read(a->ranks[rank].columns, slices,
                            1 << HOST_OP | 1 << HOST_ANNOTATION | 1 << HOST_PYTHON, work, &s->own);
    } else {
        r = analysis_ops(a, rank, &s->host);
    }
    if (r < 0)
        return r;
    s->frames = malloc((s->host->n + 1) * sizeof(*s->frames));
    if (!s->frames)
        return -ENOMEM;
    memset(s->frames, 0xff, (s->host->n + 1) * sizeof(*s->frames)); /* FRAME_NONE */
    return 0;
}

/* Whoever is wanted wants all around it; a parent comes before what lies in it. */
static int make_frames(struct flame_stacks *s, struct flame *f, const struct columns *c, bool *wanted)
{
    const uint32_t *parents = s->host->parent;

    for (size_t i = s->host->n; i-- > 0;)
        if (wanted[i] && parents[i] != HOST_CALL_NONE)
            wanted[parents[i]] = true;
    for (size_t i = 0; i < s->host->n; i++) {
        if (!wanted[i])
            continue;
        struct host_call call = host_call_get(s->host, i);
        struct text name = columns_text(c, call.name);
        if (call.kind == HOST_ANNOTATION)
            name = range_name(name);
        uint32_t parent = call.parent == HOST_CALL_NONE ? FLAME_ROOT : s->frames[call.parent];
        s->frames[i] = frame_in(f, parent, name_table_number(&f->names, without_number(name)));
        if (s->frames[i] == FRAME_NONE)
            return -ENOMEM;
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- */

static int add_kernel(struct flame *f, const struct columns *c, const struct gpu_event *e, uint32_t around,
                      bool is_before)
{
    uint32_t frame = around == FRAME_NONE
                         ? FRAME_NONE
                         : frame_in(f, around, name_table_number(&f->names, columns_text(c, e->name)));

    if (frame == FRAME_NONE)
        return -ENOMEM;
    flame_count(f, frame, e->end - e->ts, is_before);
    return 0;
}

static int add_kernels(struct flame *f, const struct columns *c, const struct gpu_work *work, bool is_before)
{
    int r = 0;

    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        r = add_kernel(f, c, e, frame_of_word(f, FLAME_ROOT, kernel_class_name(e->class)), is_before);
    }
    return r;
}

static int add_launched(struct flame *f, struct analysis *a, size_t rank, const struct gpu_work *work,
                        const struct flame_choice *choice, bool is_before)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(stacks_done) struct flame_stacks s = {0};
    int r = stacks_read(&s, a, rank, choice, work);

    if (r < 0)
        return r;
    _cleanup_(freep) bool *wanted = calloc(s.host->n + 1, sizeof(*wanted));
    for (size_t i = 0; wanted && i < s.host->n; i++)
        wanted[i] = host_call_launched(s.host, i).work > 0 && stacks_has_call(&s, (uint32_t)i);
    r = wanted ? make_frames(&s, f, c, wanted) : -ENOMEM;
    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        uint32_t launcher = s.host->launcher[i];
        if (choice->thread && (launcher == HOST_CALL_NONE || !stacks_has_call(&s, launcher)))
            continue;
        uint32_t around = launcher != HOST_CALL_NONE ? s.frames[launcher]
                          : gpu_event_launch(e) != SLICE_NONE
                              ? FLAME_ROOT
                              : frame_of_word(f, FLAME_ROOT, "(launch not recorded)");
        r = add_kernel(f, c, e, around, is_before);
    }
    return r;
}

/* The host's own time, of what is not itself the time of something that lies in it. */
static int flame_add_host(struct flame *f, struct analysis *a, size_t rank, const struct gpu_work *work,
                          const struct flame_choice *choice, bool is_before)
{
    _cleanup_(stacks_done) struct flame_stacks s = {0};
    const struct intervals *times;
    int r = stacks_read(&s, a, rank, choice, work);

    if (r >= 0)
        r = analysis_times(a, rank, &times);
    if (r < 0)
        return r;
    _cleanup_(freep) bool *wanted = calloc(s.host->n + 1, sizeof(*wanted));
    for (size_t i = 0; wanted && i < s.host->n; i++) {
        struct host_call call = host_call_get(s.host, i);
        wanted[i] = call.self > 0 && analysis_has_call(times, &call) && stacks_has_call(&s, (uint32_t)i);
    }
    r = wanted ? make_frames(&s, f, a->ranks[rank].columns, wanted) : -ENOMEM;
    for (size_t i = 0; i < s.host->n && r >= 0; i++) {
        struct host_call call = host_call_get(s.host, i);
        if (analysis_has_call(times, &call) && s.frames[i] != FRAME_NONE && stacks_has_call(&s, (uint32_t)i))
            flame_count(f, s.frames[i], call.self, is_before);
    }
    return r;
}

static int flame_make_rank(struct flame *f, struct analysis *a, size_t rank,
                           const struct flame_choice *choice, bool is_before)
{
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r < 0)
        return r;
    if (choice->of == FLAME_OF_HOST || (choice->of == FLAME_OF_ANY && work->n == 0))
        return flame_add_host(f, a, rank, work, choice, is_before);
    return choice->by == FLAME_BY_KERNEL && !choice->thread
               ? add_kernels(f, a->ranks[rank].columns, work, is_before)
               : add_launched(f, a, rank, work, choice, is_before);
}

int flame_add(struct flame *f, struct analysis *a, enum flame_by by, bool is_before)
{
    return flame_add_choice(f, a, &(struct flame_choice){.by = by}, is_before);
}

int flame_add_choice(struct flame *f, struct analysis *a, const struct flame_choice *choice, bool is_before)
{
    int r = f->n == 0 ? flame_plant(f) : 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = flame_make_rank(f, a, i, choice, is_before);
    if (r >= 0)
        flame_sum_up(f);
    return r;
}

void flame_done(struct flame *f)
{
    free(f->frames);
    hash_table_done(&f->numbers);
    name_table_done(&f->names);
    *f = (struct flame){0};
}
