/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge.h"

#include "trace/read/budget.h"
#include "trace/read/intake.h"
#include "trace/read/run.h"
#include "trace/read/slices.h"
#include "trace/read/sum.h"
#include "trace/read/tracks.h"

/* -- One intake out of several -------------------------------------------------------------------------- */

/*
 * Merges several intakes into one: strings, threads, processes, categories, defects and metadata of the
 * others are added to the first one.
 */

static int unify_strings(struct intake *to, const struct strings *from, struct numbers *n)
{
    for (uint32_t i = 0; i < n->n_strings; i++) {
        size_t size;
        const char *p = strings_get(from, i, &size);

        n->strings[i] = strings_intern(to->strings, p, size);
        if (n->strings[i] == STRINGS_NONE)
            return -ENOMEM;
    }
    return 0;
}

/* Properties of a process or a thread from a later part of a trace replace those from an earlier part. */
static void unify_processes(struct intake *to, const struct intake *from, struct numbers *n)
{
    for (size_t i = 0; i < n->n_processes && to->error == 0; i++) {
        const struct process_entry *p = &from->processes[i];
        struct process_entry *q;

        n->processes[i] = intake_process(to, p->pid, n->strings[p->pid_text]);
        q = &to->processes[n->processes[i]];
        if (p->name != 0)
            q->name = n->strings[p->name];
        if (p->labels != 0)
            q->labels = n->strings[p->labels];
        if (p->sort_index != 0)
            q->sort_index = p->sort_index;
    }
}

static void unify_threads(struct intake *to, const struct intake *from, struct numbers *n)
{
    for (size_t i = 0; i < n->n_threads && to->error == 0; i++) {
        const struct thread_entry *t = &from->threads[i];
        const struct process_entry *p = &from->processes[t->process];
        struct thread_entry *q;

        n->threads[i] = intake_thread(to, p->pid, n->strings[p->pid_text], t->tid, n->strings[t->tid_text]);
        q = &to->threads[n->threads[i]];
        if (t->name != 0)
            q->name = n->strings[t->name];
        if (t->sort_index != 0)
            q->sort_index = t->sort_index;
    }
}

static void unify_facts(struct intake *to, const struct intake *from, const struct numbers *n)
{
    for (enum meta_key k = 0; k < _META_MAX; k++)
        if (to->meta[k] == COLUMN_NULL && from->meta[k] != COLUMN_NULL)
            to->meta[k] = meta_is_text(k) ? n->strings[from->meta[k]] : from->meta[k];
    for (enum defect_kind d = 0; d < _DEFECT_MAX; d++)
        count_defect(&to->defects, d, from->defects.count[d], from->defects.first[d]);
}

static int unify_intake(struct intake *to, const struct intake *from, struct budget *budget,
                        struct numbers *n)
{
    int r;

    n->n_strings = strings_count(from->strings);
    n->n_threads = from->n_threads;
    n->n_processes = from->n_processes;
    n->n_categories = from->n_categories;
    n->strings = budget_new(budget, n->n_strings, sizeof(*n->strings));
    n->threads = budget_new(budget, n->n_threads, sizeof(*n->threads));
    n->processes = budget_new(budget, n->n_processes, sizeof(*n->processes));
    n->categories = budget_new(budget, n->n_categories, sizeof(*n->categories));
    if (!n->strings || !n->threads || !n->processes || !n->categories)
        return -ENOMEM;

    r = unify_strings(to, from->strings, n);
    if (r < 0)
        return r;
    unify_processes(to, from, n);
    unify_threads(to, from, n);
    for (size_t i = 0; i < n->n_categories; i++)
        n->categories[i] = intake_category(to, n->strings[from->categories[i]]);
    unify_facts(to, from, n);
    return to->error;
}

/* ret: n_inputs zeroed items; the caller frees each with numbers_done(), after an error as well. */
static int unify_intakes(const struct merge_input *inputs, size_t n_inputs, struct budget *budget,
                         struct numbers *ret)
{
    int r = 0;

    for (size_t i = 1; r == 0 && i < n_inputs; i++)
        r = unify_intake(inputs[0].intake, inputs[i].intake, budget, &ret[i]);
    return r;
}

static void numbers_done(struct numbers *n, struct budget *budget)
{
    budget_free(budget, n->strings, n->n_strings, sizeof(*n->strings));
    budget_free(budget, n->threads, n->n_threads, sizeof(*n->threads));
    budget_free(budget, n->processes, n->n_processes, sizeof(*n->processes));
    budget_free(budget, n->categories, n->n_categories, sizeof(*n->categories));
    *n = (struct numbers){0};
}

/* -- Merging -------------------------------------------------------------------------------------------- */

static const enum column counter_columns[] = {COL_counter_ts, COL_counter_track, COL_counter_value,
                                              COL_counter_place};

struct merge {
    struct intake *intake; /* the first intake, whose numbering all others are mapped to */
    struct budget budget;
    struct slices slices;
    struct flows flows;
    struct async async;
    struct table_builder counters;
    uint64_t n_events;
};

/* An event with the numbers of the merge's intake, and the cursor that has its rows of arguments. */
struct source {
    struct event event;
    struct run_cursor *cursor;
    const struct numbers *from;
};

static void merge_found(struct merge *m, enum defect_kind kind, const struct source *s)
{
    count_defect(&m->intake->defects, kind, 1, s->event.offset);
}

/* Calls nest_close() and counts the open slices that it cut as defects. */
static int merge_make_way(struct merge *m, const struct source *s, uint32_t track, int64_t dur)
{
    int r = nest_close(&m->slices.nest, track, s->event.ts, dur);

    count_defect(&m->intake->defects, DEFECT_misplaced_end, m->slices.nest.n_cut, s->event.offset);
    m->slices.nest.n_cut = 0;
    return r;
}

static int merge_put_slice(struct merge *m, const struct source *s, uint32_t track, int64_t dur,
                           unsigned flags)
{
    int r = slices_put(&m->slices, &s->event, track, dur, flags, s->cursor, s->from);

    if (r == 0)
        merge_found(m, DEFECT_too_deep, s);
    return r;
}

/* Called for slices on the thread's own track, where flows may wait for them. */
static int merge_put_on_thread(struct merge *m, const struct source *s, uint32_t track, int64_t dur,
                               unsigned flags)
{
    int r = merge_put_slice(m, s, track, dur, flags);

    if (r > 0 && flows_awaited(&m->flows, s->event.thread))
        flows_arrive(&m->flows, s->event.thread, nest_top(&m->slices.nest, track));
    return r;
}

static int64_t merge_thread_track(struct merge *m, const struct source *s)
{
    return tracks_thread(&m->slices.tracks, s->event.thread, m->intake->threads[s->event.thread].process);
}

static int merge_on_complete(struct merge *m, const struct source *s)
{
    uint32_t thread = s->event.thread, process = m->intake->threads[thread].process;
    int64_t dur = MAX(s->event.dur, 0), track = merge_thread_track(m, s);
    int r = track < 0 ? (int)track : merge_make_way(m, s, (uint32_t)track, dur);

    if (r != 0)
        return r < 0 ? r : merge_put_on_thread(m, s, (uint32_t)track, dur, 0);
    merge_found(m, DEFECT_overlap, s);
    track = tracks_overflow(&m->slices.tracks, &m->slices.nest, thread, process, s->event.ts, dur);
    if (track == -E2BIG) {
        merge_found(m, DEFECT_too_deep, s);
        return 0;
    }
    return track < 0 ? (int)track : merge_put_slice(m, s, (uint32_t)track, dur, 0);
}

static int merge_on_begin(struct merge *m, const struct source *s)
{
    int64_t track = merge_thread_track(m, s);
    int r = track < 0 ? (int)track : merge_make_way(m, s, (uint32_t)track, UNFINISHED);

    return r < 0 ? r : merge_put_on_thread(m, s, (uint32_t)track, UNFINISHED, SLICE_FROM_BEGIN);
}

static int merge_end_on(struct merge *m, const struct source *s, uint32_t track,
                        enum defect_kind without_begin)
{
    int r = track == TRACK_NONE ? 0 : merge_make_way(m, s, track, UNFINISHED);

    if (r > 0)
        r = nest_end(&m->slices.nest, track, s->event.ts, s->event.category, s->event.name);
    if (r > 0)
        m->slices.last_ns = MAX(m->slices.last_ns, s->event.ts);
    if (r == 0)
        merge_found(m, without_begin, s);
    return r;
}

static int merge_on_end(struct merge *m, const struct source *s)
{
    return merge_end_on(m, s, tracks_known(&m->slices.tracks, s->event.thread), DEFECT_misplaced_end);
}

static int merge_on_instant(struct merge *m, const struct source *s)
{
    int64_t track = merge_thread_track(m, s);
    int r = track < 0 ? (int)track : merge_make_way(m, s, (uint32_t)track, 0);

    return r < 0 ? r : merge_put_on_thread(m, s, (uint32_t)track, 0, SLICE_INSTANT);
}

static int merge_instant_on(struct merge *m, const struct source *s, int64_t track)
{
    int r = track < 0 ? (int)track : merge_make_way(m, s, (uint32_t)track, 0);

    return r < 0 ? r : merge_put_slice(m, s, (uint32_t)track, 0, SLICE_INSTANT);
}

static int merge_on_process_instant(struct merge *m, const struct source *s)
{
    return merge_instant_on(m, s, tracks_process_instants(&m->slices.tracks, s->event.thread));
}

static int merge_on_global_instant(struct merge *m, const struct source *s)
{
    return merge_instant_on(m, s, tracks_global_instants(&m->slices.tracks));
}

static int64_t merge_async_event_track(struct merge *m, const struct source *s)
{
    const struct event *e = &s->event;

    return async_track(&m->async, e->phase, e->thread, e->category, e->dur, e->name);
}

static int merge_on_async_begin(struct merge *m, const struct source *s)
{
    int64_t track = merge_async_event_track(m, s);
    int r = track < 0 ? (int)track : merge_make_way(m, s, (uint32_t)track, UNFINISHED);

    return r < 0 ? r : merge_put_slice(m, s, (uint32_t)track, UNFINISHED, SLICE_FROM_BEGIN);
}

static int merge_on_async_instant(struct merge *m, const struct source *s)
{
    return merge_instant_on(m, s, merge_async_event_track(m, s));
}

static int merge_on_async_end(struct merge *m, const struct source *s)
{
    int64_t track = merge_async_event_track(m, s);

    if (track < 0 && track != -ENOENT)
        return (int)track;
    return merge_end_on(m, s, track < 0 ? TRACK_NONE : (uint32_t)track, DEFECT_no_slice_for_async_end);
}

static int merge_on_counter(struct merge *m, const struct source *s)
{
    const struct event *e = &s->event;
    int64_t track = tracks_counter(&m->slices.tracks, e->name, m->intake->threads[e->thread].process);

    if (track < 0)
        return (int)track;
    *table_builder_slot(&m->counters, 0) = e->ts;
    *table_builder_slot(&m->counters, 1) = track;
    *table_builder_slot(&m->counters, 2) = e->dur;
    *table_builder_slot(&m->counters, 3) = (int64_t)e->offset;
    table_builder_next(&m->counters);
    return 0;
}

static int merge_on_flow(struct merge *m, const struct source *s)
{
    uint32_t track = tracks_known(&m->slices.tracks, s->event.thread);
    const struct open_slice *top = track == TRACK_NONE ? NULL : nest_top(&m->slices.nest, track);

    return flows_event(&m->flows, &s->event, category_string(m->intake, s->event.category), top);
}

/* Kind of number that an event's thread is, and the function that handles the event. */
static const struct {
    bool of_process;
    int (*put)(struct merge *m, const struct source *s);
} phases[_EVENT_PHASE_MAX] = {
    [EVENT_COMPLETE] = {false, merge_on_complete},
    [EVENT_BEGIN] = {false, merge_on_begin},
    [EVENT_END] = {false, merge_on_end},
    [EVENT_INSTANT] = {false, merge_on_instant},
    [EVENT_INSTANT_PROCESS] = {true, merge_on_process_instant},
    [EVENT_INSTANT_GLOBAL] = {false, merge_on_global_instant},
    [EVENT_ASYNC_BEGIN] = {true, merge_on_async_begin},
    [EVENT_ASYNC_INSTANT] = {true, merge_on_async_instant},
    [EVENT_ASYNC_END] = {true, merge_on_async_end},
    [EVENT_COUNTER] = {false, merge_on_counter},
    [EVENT_FLOW_START] = {false, merge_on_flow},
    [EVENT_FLOW_STEP] = {false, merge_on_flow},
    [EVENT_FLOW_END] = {false, merge_on_flow},
    [EVENT_FLOW_END_ENCLOSING] = {false, merge_on_flow},
};

static void merge_renumber(struct event *e, const struct numbers *from)
{
    if (!from->strings)
        return;
    e->name = from->strings[e->name];
    e->thread = (phases[e->phase].of_process ? from->processes : from->threads)[e->thread];
    if (e->category != CATEGORY_NONE)
        e->category = from->categories[e->category];
}

static int merge_put_events(struct merge *m, struct queue *q, const struct numbers *numbers)
{
    struct source s = {0};
    int r = 0;

    for (; r >= 0 && (s.cursor = queue_head(q)) != NULL; r = r < 0 ? r : queue_next(q)) {
        s.event = *run_cursor_event(s.cursor);
        s.from = &numbers[queue_input(q)];
        merge_renumber(&s.event, s.from);
        m->n_events++;
        r = phases[s.event.phase].put(m, &s);
    }
    return MIN(r, 0);
}

static void merge_put_threads(const struct intake *in, struct columns_writer *w)
{
    for (size_t i = 0; i < in->n_threads; i++) {
        const struct thread_entry *t = &in->threads[i];

        columns_put(w, COL_thread_tid, t->tid_text == 0 ? t->tid : COLUMN_NULL);
        columns_put(w, COL_thread_tid_text, t->tid_text == 0 ? COLUMN_NULL : t->tid_text);
        columns_put(w, COL_thread_name, t->name == 0 ? COLUMN_NULL : t->name);
        columns_put(w, COL_thread_process, t->process);
        columns_put(w, COL_thread_sort_index, t->sort_index);
    }
    for (size_t i = 0; i < in->n_processes; i++) {
        const struct process_entry *p = &in->processes[i];

        columns_put(w, COL_process_pid, p->pid_text == 0 ? p->pid : COLUMN_NULL);
        columns_put(w, COL_process_pid_text, p->pid_text == 0 ? COLUMN_NULL : p->pid_text);
        columns_put(w, COL_process_name, p->name == 0 ? COLUMN_NULL : p->name);
        columns_put(w, COL_process_labels, p->labels == 0 ? COLUMN_NULL : p->labels);
        columns_put(w, COL_process_sort_index, p->sort_index);
    }
}

static void merge_put_facts(struct merge *m, struct columns_writer *w)
{
    struct intake *in = m->intake;

    in->meta[META_events] = (int64_t)m->n_events;
    if (rows_count(&m->slices.rows) > 0) {
        in->meta[META_first_ns] = m->slices.first_ns;
        in->meta[META_last_ns] = m->slices.last_ns;
    }
    for (enum meta_key k = 0; k < _META_MAX; k++) {
        if (in->meta[k] == COLUMN_NULL)
            continue;
        columns_put(w, COL_meta_key, k);
        columns_put(w, COL_meta_value, in->meta[k]);
    }
    for (enum defect_kind d = 0; d < _DEFECT_MAX; d++) {
        if (in->defects.count[d] == 0)
            continue;
        columns_put(w, COL_defect_kind, d);
        columns_put(w, COL_defect_count, (int64_t)in->defects.count[d]);
        columns_put(w, COL_defect_place, (int64_t)in->defects.first[d]);
    }
    for (uint32_t i = 0; i < strings_count(in->strings); i++) {
        size_t size;
        const char *p = strings_get(in->strings, i, &size);

        columns_put_text(w, p, size);
    }
}

/* Threads that occur only in metadata or flows are not listed as threads. */
static uint64_t merge_count_threads(const struct tracks *t)
{
    uint64_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        n += t->list[i].kind == TRACK_THREAD;
    return n;
}

static void merge_sum_up(const struct merge *m, struct merge_summary *ret)
{
    *ret = (struct merge_summary){
        .slices = rows_count(&m->slices.rows),
        .gpu_slices = m->slices.n_gpu,
        .threads = merge_count_threads(&m->slices.tracks),
        .flows = m->flows.out.n,
        .counters = m->counters.n,
        .strings = strings_count(m->intake->strings),
        .first_ns = m->slices.first_ns,
        .last_ns = m->slices.last_ns,
    };
    memcpy(ret->defects, m->intake->defects.count, sizeof(ret->defects));
}

static int merge_runs(struct merge *m, const struct merge_input *inputs, size_t n_inputs,
                      const struct numbers *numbers, struct spill *spill, struct columns_writer *w)
{
    _cleanup_(queue_freep) struct queue *q = NULL;
    int r = slices_init(&m->slices, m->intake, spill, &m->budget, w);

    async_init(&m->async, &m->slices.tracks);
    if (r == 0)
        r = flows_init(&m->flows, &m->budget, w, &m->intake->defects);
    if (r == 0)
        r = table_builder_init(&m->counters, w, counter_columns, ARRAY_SIZE(counter_columns));
    if (r == 0)
        r = queue_new(inputs, n_inputs, spill, &q);
    if (r == 0)
        r = merge_put_events(m, q, numbers);
    if (r == 0) {
        flows_finish(&m->flows);
        table_builder_flush(&m->counters);
        r = slices_finish(&m->slices, w);
    }
    if (r == 0) {
        merge_put_threads(m->intake, w);
        merge_put_facts(m, w);
    }
    return r;
}

int merge_columns(const struct merge_input *inputs, size_t n_inputs, struct spill *spill,
                  struct columns_writer *w, uint64_t memory_max, struct merge_summary *ret)
{
    _cleanup_(freep) struct numbers *numbers = n_inputs ? calloc(n_inputs, sizeof(*numbers)) : NULL;
    struct merge m = {.budget.max = memory_max};
    int r = 0;

    if (!numbers)
        return n_inputs ? -ENOMEM : -EINVAL;
    for (size_t i = 0; r == 0 && i < n_inputs; i++)
        r = inputs[i].intake->error;
    if (r < 0)
        return r;

    m.intake = inputs[0].intake;
    r = unify_intakes(inputs, n_inputs, &m.budget, numbers);
    if (r == 0)
        r = merge_runs(&m, inputs, n_inputs, numbers, spill, w);
    if (r == 0)
        merge_sum_up(&m, ret);

    for (size_t i = 0; i < n_inputs; i++)
        numbers_done(&numbers[i], &m.budget);
    table_builder_done(&m.counters);
    flows_done(&m.flows);
    async_done(&m.async);
    slices_done(&m.slices);
    return r;
}
