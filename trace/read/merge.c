/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge.h"

#include "trace/read/merge_internal.h"

/* -- One intake out of several -------------------------------------------------------------------------- */

/* Strings, threads, processes, categories, defects and metadata of the other intakes are added to the first. */

static int unify_strings(struct intake *to, const struct strings *from, struct renumbering *n)
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
static void unify_processes(struct intake *to, const struct intake *from, struct renumbering *n)
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

static void unify_threads(struct intake *to, const struct intake *from, struct renumbering *n)
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

static void unify_facts(struct intake *to, const struct intake *from, const struct renumbering *n)
{
    for (enum meta_key k = 0; k < _META_MAX; k++)
        if (to->meta[k] == COLUMN_NULL && from->meta[k] != COLUMN_NULL)
            to->meta[k] = meta_is_text(k) ? n->strings[from->meta[k]] : from->meta[k];
    for (enum defect_kind d = 0; d < _DEFECT_MAX; d++)
        count_defect(&to->defects, d, from->defects.count[d], from->defects.first[d]);
}

static int unify_intake(struct intake *to, const struct intake *from, struct budget *budget,
                        struct renumbering *n)
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

static void renumbering_done(struct renumbering *n, struct budget *budget)
{
    BUDGET_FREE(budget, n->strings, n->n_strings);
    BUDGET_FREE(budget, n->threads, n->n_threads);
    BUDGET_FREE(budget, n->processes, n->n_processes);
    BUDGET_FREE(budget, n->categories, n->n_categories);
}

/* -- Merging -------------------------------------------------------------------------------------------- */

static const enum column counter_columns[] = {COL_counter_ts, COL_counter_track, COL_counter_value,
                                              COL_counter_offset};

struct columns_merge {
    struct intake *intake; /* the first intake, whose numbering all others are mapped to */
    struct budget budget;
    struct slices slices;
    struct flows flows;
    struct async async;
    struct table_builder counters;
    struct event_queue *queue;
    uint64_t n_events;
};

static void merge_count_defect(struct columns_merge *m, enum defect_kind kind, const struct event *e)
{
    count_defect(&m->intake->defects, kind, 1, e->offset);
}

/* Calls nest_close() and counts the open slices that it cut as defects. */
static int merge_make_way(struct columns_merge *m, const struct event *e, uint32_t track, int64_t dur)
{
    int r = nest_close(&m->slices.nest, track, e->ts, dur);

    count_defect(&m->intake->defects, DEFECT_misplaced_end, m->slices.nest.n_cut, e->offset);
    m->slices.nest.n_cut = 0;
    return r;
}

/* on_thread: the track is the thread's own, where flows may wait for the slice. */
static int merge_put_slice(struct columns_merge *m, const struct event *e, uint32_t track, int64_t dur,
                           unsigned flags, bool on_thread)
{
    int r = slices_put(&m->slices, e, track, dur, flags);

    if (r == 0)
        merge_count_defect(m, DEFECT_too_deep, e);
    if (r > 0 && on_thread && flows_awaited(&m->flows, e->thread))
        flows_arrive(&m->flows, e->thread, nest_top(&m->slices.nest, track));
    return r;
}

/* -- Tracks of events: each returns the number, or an error -- */

static int64_t merge_thread_track(struct columns_merge *m, const struct event *e)
{
    return tracks_thread(&m->slices.tracks, e->thread, m->intake->threads[e->thread].process);
}

static int64_t merge_process_track(struct columns_merge *m, const struct event *e)
{
    return tracks_single(&m->slices.tracks, TRACK_PROCESS_INSTANTS, 0, e->thread);
}

static int64_t merge_global_track(struct columns_merge *m, const struct event *e _unused_)
{
    return tracks_single(&m->slices.tracks, TRACK_GLOBAL_INSTANTS, 0, TRACK_NONE);
}

static int64_t merge_async_track(struct columns_merge *m, const struct event *e)
{
    return async_track(&m->async, e->phase, e->thread, e->category, e->dur, e->name);
}

/* -- Events -- */

static int merge_on_complete(struct columns_merge *m, const struct event *e)
{
    uint32_t thread = e->thread, process = m->intake->threads[thread].process;
    int64_t dur = MAX(e->dur, 0), track = merge_thread_track(m, e);
    int r = track < 0 ? (int)track : merge_make_way(m, e, (uint32_t)track, dur);

    if (r != 0)
        return r < 0 ? r : merge_put_slice(m, e, (uint32_t)track, dur, 0, true);
    merge_count_defect(m, DEFECT_overlap, e);
    track = tracks_overflow(&m->slices.tracks, &m->slices.nest, thread, process, e->ts, dur);
    if (track == -E2BIG) {
        merge_count_defect(m, DEFECT_too_deep, e);
        return 0;
    }
    return track < 0 ? (int)track : merge_put_slice(m, e, (uint32_t)track, dur, 0, false);
}

static int merge_end_on(struct columns_merge *m, const struct event *e, uint32_t track,
                        enum defect_kind without_begin)
{
    int r = track == TRACK_NONE ? 0 : merge_make_way(m, e, track, UNFINISHED);

    if (r > 0)
        r = nest_end(&m->slices.nest, track, e->ts, e->category, e->name);
    if (r > 0)
        m->slices.last_ns = MAX(m->slices.last_ns, e->ts);
    if (r == 0)
        merge_count_defect(m, without_begin, e);
    return r;
}

static int merge_on_end(struct columns_merge *m, const struct event *e)
{
    return merge_end_on(m, e, tracks_known(&m->slices.tracks, e->thread), DEFECT_misplaced_end);
}

static int merge_on_async_end(struct columns_merge *m, const struct event *e)
{
    int64_t track = merge_async_track(m, e);

    if (track < 0 && track != -ENOENT)
        return (int)track;
    return merge_end_on(m, e, track < 0 ? TRACK_NONE : (uint32_t)track, DEFECT_no_slice_for_async_end);
}

static int merge_on_counter(struct columns_merge *m, const struct event *e)
{
    int64_t track =
        tracks_single(&m->slices.tracks, TRACK_COUNTER, e->name, m->intake->threads[e->thread].process);

    if (track < 0)
        return (int)track;
    TABLE_BUILDER_ADD(&m->counters, e->ts, track, e->dur, (int64_t)e->offset);
    return 0;
}

static int merge_on_flow(struct columns_merge *m, const struct event *e)
{
    uint32_t track = tracks_known(&m->slices.tracks, e->thread);
    const struct open_slice *top = track == TRACK_NONE ? NULL : nest_top(&m->slices.nest, track);

    return flows_event(&m->flows, e, category_string(m->intake, e->category), top);
}

/* What becomes of an event of each phase: `put` handles it, or it is a slice of this duration and these flags. */
static const struct merge_rule {
    int (*put)(struct columns_merge *m, const struct event *e);
    int64_t (*track)(struct columns_merge *m, const struct event *e);
    int64_t dur;
    unsigned flags;
    bool of_process; /* the number of a process is in place of a thread's */
} merge_rules[_EVENT_PHASE_MAX] = {
    [EVENT_COMPLETE] = {.put = merge_on_complete},
    [EVENT_BEGIN] = {.track = merge_thread_track, .dur = UNFINISHED, .flags = SLICE_FROM_BEGIN},
    [EVENT_END] = {.put = merge_on_end},
    [EVENT_INSTANT] = {.track = merge_thread_track, .flags = SLICE_INSTANT},
    [EVENT_INSTANT_PROCESS] = {.track = merge_process_track, .flags = SLICE_INSTANT, .of_process = true},
    [EVENT_INSTANT_GLOBAL] = {.track = merge_global_track, .flags = SLICE_INSTANT},
    [EVENT_ASYNC_BEGIN] = {.track = merge_async_track,
                           .dur = UNFINISHED,
                           .flags = SLICE_FROM_BEGIN,
                           .of_process = true},
    [EVENT_ASYNC_INSTANT] = {.track = merge_async_track, .flags = SLICE_INSTANT, .of_process = true},
    [EVENT_ASYNC_END] = {.put = merge_on_async_end, .of_process = true},
    [EVENT_COUNTER] = {.put = merge_on_counter},
    [EVENT_FLOW_START] = {.put = merge_on_flow},
    [EVENT_FLOW_STEP] = {.put = merge_on_flow},
    [EVENT_FLOW_END] = {.put = merge_on_flow},
    [EVENT_FLOW_END_ENCLOSING] = {.put = merge_on_flow},
};

static int merge_put_event(struct columns_merge *m, const struct event *e)
{
    const struct merge_rule *rule = &merge_rules[e->phase];

    if (rule->put)
        return rule->put(m, e);
    int64_t track = rule->track(m, e);
    int r = track < 0 ? (int)track : merge_make_way(m, e, (uint32_t)track, rule->dur);
    return r < 0 ? r
                 : merge_put_slice(m, e, (uint32_t)track, rule->dur, rule->flags,
                                   rule->track == merge_thread_track);
}

static void merge_renumber(struct event *e, const struct renumbering *from)
{
    if (!from->strings)
        return;
    e->name = from->strings[e->name];
    e->thread = (merge_rules[e->phase].of_process ? from->processes : from->threads)[e->thread];
    if (e->category != CATEGORY_NONE)
        e->category = from->categories[e->category];
}

static int merge_put_events(struct columns_merge *m, const struct renumbering *numbers)
{
    struct run_cursor *cursor;
    int r = 0;

    for (; r >= 0 && (cursor = queue_head(m->queue)) != NULL; r = r < 0 ? r : queue_next(m->queue)) {
        struct event e = *run_cursor_event(cursor);
        const struct renumbering *from = &numbers[queue_input(m->queue)];
        uint64_t row = rows_count(&m->slices.rows);
        unsigned groups = e.flags / EVENT_IN_GROUP(0);

        merge_renumber(&e, from);
        m->n_events++;
        r = merge_put_event(m, &e);
        if (groups != 0)
            args_put(&m->slices.args, cursor, from->strings, groups,
                     rows_count(&m->slices.rows) > row ? (uint32_t)row : ROW_NONE);
    }
    return MIN(r, 0);
}

static int64_t merge_known_text(uint32_t string)
{
    return string == 0 ? COLUMN_NULL : string;
}

static void merge_put_threads(const struct intake *in, struct columns_writer *w)
{
    for (size_t i = 0; i < in->n_threads; i++) {
        const struct thread_entry *t = &in->threads[i];

        columns_put(w, COL_thread_tid, t->tid_text == 0 ? t->tid : COLUMN_NULL);
        columns_put(w, COL_thread_tid_text, merge_known_text(t->tid_text));
        columns_put(w, COL_thread_name, merge_known_text(t->name));
        columns_put(w, COL_thread_process, t->process);
        columns_put(w, COL_thread_sort_index, t->sort_index);
    }
    for (size_t i = 0; i < in->n_processes; i++) {
        const struct process_entry *p = &in->processes[i];

        columns_put(w, COL_process_pid, p->pid_text == 0 ? p->pid : COLUMN_NULL);
        columns_put(w, COL_process_pid_text, merge_known_text(p->pid_text));
        columns_put(w, COL_process_name, merge_known_text(p->name));
        columns_put(w, COL_process_labels, merge_known_text(p->labels));
        columns_put(w, COL_process_sort_index, p->sort_index);
    }
}

static void merge_put_facts(struct columns_merge *m, struct columns_writer *w)
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
        columns_put(w, COL_defect_offset, (int64_t)in->defects.first[d]);
    }
    for (uint32_t i = 0; i < strings_count(in->strings); i++) {
        size_t size;
        const char *p = strings_get(in->strings, i, &size);

        columns_put_text(w, p, size);
    }
}

static void merge_sum_up(const struct columns_merge *m, struct merge_summary *ret)
{
    *ret = (struct merge_summary){
        .slices = rows_count(&m->slices.rows),
        .gpu_slices = m->slices.n_gpu,
        .flows = m->flows.out.n,
        .counters = m->counters.n,
        .strings = strings_count(m->intake->strings),
        .first_ns = m->slices.first_ns,
        .last_ns = m->slices.last_ns,
    };
    /* Threads that occur only in metadata or flows are not counted. */
    for (size_t i = 0; i < m->slices.tracks.n; i++)
        ret->threads += m->slices.tracks.list[i].kind == TRACK_THREAD;
    memcpy(ret->defects, m->intake->defects.count, sizeof(ret->defects));
}

static int merge_runs(struct columns_merge *m, const struct merge_input *inputs, size_t n_inputs,
                      const struct renumbering *numbers, struct spill *spill, struct columns_writer *w)
{
    int r = slices_init(&m->slices, m->intake, spill, &m->budget, w);

    m->async = (struct async){.tracks = &m->slices.tracks, .numbers.budget = &m->budget};
    if (r == 0)
        r = flows_init(&m->flows, &m->budget, w, &m->intake->defects);
    if (r == 0)
        r = table_builder_init(&m->counters, w, counter_columns, ARRAY_SIZE(counter_columns));
    if (r == 0)
        r = queue_new(inputs, n_inputs, spill, &m->queue);
    if (r == 0)
        r = merge_put_events(m, numbers);
    if (r == 0) {
        flows_finish(&m->flows);
        table_builder_flush(&m->counters);
        r = slices_finish(&m->slices, w);
    }
    if (r == 0)
        r = flows_wait(&m->flows);
    if (r == 0) {
        merge_put_threads(m->intake, w);
        merge_put_facts(m, w);
    }
    return r;
}

int merge_columns(const struct merge_input *inputs, size_t n_inputs, struct spill *spill,
                  struct columns_writer *w, uint64_t memory_max, struct merge_summary *ret)
{
    _cleanup_(freep) struct renumbering *renumberings = calloc(MAX(n_inputs, 1), sizeof(*renumberings));
    struct columns_merge m = {.budget.max = memory_max};
    int r = 0;

    if (!renumberings || n_inputs == 0)
        return renumberings ? -EINVAL : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n_inputs; i++)
        r = inputs[i].intake->error;
    if (r < 0)
        return r;

    m.intake = inputs[0].intake;
    for (size_t i = 1; r == 0 && i < n_inputs; i++)
        r = unify_intake(m.intake, inputs[i].intake, &m.budget, &renumberings[i]);
    if (r == 0)
        r = merge_runs(&m, inputs, n_inputs, renumberings, spill, w);
    if (r == 0)
        merge_sum_up(&m, ret);

    table_builder_done(&m.counters);
    flows_done(&m.flows);
    async_done(&m.async);
    /* The writer's thread no longer uses cursors and renumberings. */
    slices_done(&m.slices);
    queue_free(m.queue);
    for (size_t i = 0; i < n_inputs; i++)
        renumbering_done(&renumberings[i], &m.budget);
    return r;
}
