/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge.h"

#include "trace/read/async.h"
#include "trace/read/defects.h"
#include "trace/read/queue.h"
#include "trace/read/slices.h"
#include "trace/read/sum.h"

static const enum column counter_columns[] = {COL_counter_ts, COL_counter_track, COL_counter_value,
                                              COL_counter_place};

struct merge {
    struct intake *intake; /* the first one, in which all others' numbers are */
    struct budget budget;
    struct slices slices;
    struct flows flows;
    struct async async;
    struct sheet counters;
    uint64_t n_events;
};

/* An event with the numbers of the merge's intake, and where its rows of arguments are. */
struct source {
    struct event event;
    struct run_cursor *cursor;
    const struct numbers *from;
};

static void found(struct merge *m, enum defect_kind kind, const struct source *s)
{
    count_defect(&m->intake->defects, kind, 1, s->event.place);
}

/* Also counts what it cost the slices that were open. */
static int make_way(struct merge *m, const struct source *s, uint32_t track, int64_t dur)
{
    int r = nest_close(&m->slices.nest, track, s->event.ts, dur);

    count_defect(&m->intake->defects, DEFECT_misplaced_end, m->slices.nest.n_cut, s->event.place);
    m->slices.nest.n_cut = 0;
    return r;
}

static int put_slice(struct merge *m, const struct source *s, uint32_t track, int64_t dur, unsigned flags)
{
    int r = slices_put(&m->slices, &s->event, track, dur, flags, s->cursor, s->from);

    if (r == 0)
        found(m, DEFECT_too_deep, s);
    return r;
}

/* On the thread's own track, where arrows may wait for it. */
static int put_on_thread(struct merge *m, const struct source *s, uint32_t track, int64_t dur, unsigned flags)
{
    int r = put_slice(m, s, track, dur, flags);

    if (r > 0 && flows_awaited(&m->flows, s->event.thread))
        flows_arrive(&m->flows, s->event.thread, nest_top(&m->slices.nest, track));
    return r;
}

static int64_t thread_track(struct merge *m, const struct source *s)
{
    return tracks_thread(&m->slices.tracks, s->event.thread, m->intake->threads[s->event.thread].process);
}

static int on_complete(struct merge *m, const struct source *s)
{
    uint32_t thread = s->event.thread, process = m->intake->threads[thread].process;
    int64_t dur = MAX(s->event.dur, 0), track = thread_track(m, s);
    int r = track < 0 ? (int)track : make_way(m, s, (uint32_t)track, dur);

    if (r != 0)
        return r < 0 ? r : put_on_thread(m, s, (uint32_t)track, dur, 0);
    found(m, DEFECT_overlap, s);
    track = tracks_overflow(&m->slices.tracks, &m->slices.nest, thread, process, s->event.ts, dur);
    if (track == -E2BIG) {
        found(m, DEFECT_too_deep, s);
        return 0;
    }
    return track < 0 ? (int)track : put_slice(m, s, (uint32_t)track, dur, 0);
}

static int on_begin(struct merge *m, const struct source *s)
{
    int64_t track = thread_track(m, s);
    int r = track < 0 ? (int)track : make_way(m, s, (uint32_t)track, UNFINISHED);

    return r < 0 ? r : put_on_thread(m, s, (uint32_t)track, UNFINISHED, SLICE_FROM_BEGIN);
}

static int end_on(struct merge *m, const struct source *s, uint32_t track, enum defect_kind without_begin)
{
    int r = track == TRACK_NONE ? 0 : make_way(m, s, track, UNFINISHED);

    if (r > 0)
        r = nest_end(&m->slices.nest, track, s->event.ts, s->event.category, s->event.name);
    if (r > 0)
        m->slices.last_ns = MAX(m->slices.last_ns, s->event.ts);
    if (r == 0)
        found(m, without_begin, s);
    return r;
}

static int on_end(struct merge *m, const struct source *s)
{
    return end_on(m, s, tracks_known(&m->slices.tracks, s->event.thread), DEFECT_misplaced_end);
}

static int on_instant(struct merge *m, const struct source *s)
{
    int64_t track = thread_track(m, s);
    int r = track < 0 ? (int)track : make_way(m, s, (uint32_t)track, 0);

    return r < 0 ? r : put_on_thread(m, s, (uint32_t)track, 0, SLICE_INSTANT);
}

static int instant_on(struct merge *m, const struct source *s, int64_t track)
{
    int r = track < 0 ? (int)track : make_way(m, s, (uint32_t)track, 0);

    return r < 0 ? r : put_slice(m, s, (uint32_t)track, 0, SLICE_INSTANT);
}

static int on_process_instant(struct merge *m, const struct source *s)
{
    return instant_on(m, s, tracks_process_instants(&m->slices.tracks, s->event.thread));
}

static int on_global_instant(struct merge *m, const struct source *s)
{
    return instant_on(m, s, tracks_global_instants(&m->slices.tracks));
}

static int64_t async_event_track(struct merge *m, const struct source *s)
{
    const struct event *e = &s->event;

    return async_track(&m->async, e->phase, e->thread, e->category, e->dur, e->name);
}

static int on_async_begin(struct merge *m, const struct source *s)
{
    int64_t track = async_event_track(m, s);
    int r = track < 0 ? (int)track : make_way(m, s, (uint32_t)track, UNFINISHED);

    return r < 0 ? r : put_slice(m, s, (uint32_t)track, UNFINISHED, SLICE_FROM_BEGIN);
}

static int on_async_instant(struct merge *m, const struct source *s)
{
    return instant_on(m, s, async_event_track(m, s));
}

static int on_async_end(struct merge *m, const struct source *s)
{
    int64_t track = async_event_track(m, s);

    if (track < 0 && track != -ENOENT)
        return (int)track;
    return end_on(m, s, track < 0 ? TRACK_NONE : (uint32_t)track, DEFECT_no_slice_for_async_end);
}

static int on_counter(struct merge *m, const struct source *s)
{
    const struct event *e = &s->event;
    int64_t track = tracks_counter(&m->slices.tracks, e->name, m->intake->threads[e->thread].process);

    if (track < 0)
        return (int)track;
    *sheet_slot(&m->counters, 0) = e->ts;
    *sheet_slot(&m->counters, 1) = track;
    *sheet_slot(&m->counters, 2) = e->dur;
    *sheet_slot(&m->counters, 3) = (int64_t)e->place;
    sheet_next(&m->counters);
    return 0;
}

static int on_flow(struct merge *m, const struct source *s)
{
    uint32_t track = tracks_known(&m->slices.tracks, s->event.thread);
    const struct open_slice *top = track == TRACK_NONE ? NULL : nest_top(&m->slices.nest, track);

    return flows_event(&m->flows, &s->event, category_string(m->intake, s->event.category), top);
}

/* What an event's thread is a number of, and what becomes of the event. */
static const struct {
    bool of_process;
    int (*put)(struct merge *m, const struct source *s);
} phases[_EVENT_PHASE_MAX] = {
    [EVENT_COMPLETE] = {false, on_complete},
    [EVENT_BEGIN] = {false, on_begin},
    [EVENT_END] = {false, on_end},
    [EVENT_INSTANT] = {false, on_instant},
    [EVENT_INSTANT_PROCESS] = {true, on_process_instant},
    [EVENT_INSTANT_GLOBAL] = {false, on_global_instant},
    [EVENT_ASYNC_BEGIN] = {true, on_async_begin},
    [EVENT_ASYNC_INSTANT] = {true, on_async_instant},
    [EVENT_ASYNC_END] = {true, on_async_end},
    [EVENT_COUNTER] = {false, on_counter},
    [EVENT_FLOW_START] = {false, on_flow},
    [EVENT_FLOW_STEP] = {false, on_flow},
    [EVENT_FLOW_END] = {false, on_flow},
    [EVENT_FLOW_END_ENCLOSING] = {false, on_flow},
};

static void renumber(struct event *e, const struct numbers *from)
{
    if (!from->strings)
        return;
    e->name = from->strings[e->name];
    e->thread = (phases[e->phase].of_process ? from->processes : from->threads)[e->thread];
    if (e->category != CATEGORY_NONE)
        e->category = from->categories[e->category];
}

static int put_events(struct merge *m, struct queue *q, const struct numbers *numbers)
{
    struct source s = {0};
    int r = 0;

    for (; r >= 0 && (s.cursor = queue_head(q)) != NULL; r = r < 0 ? r : queue_next(q)) {
        s.event = *run_cursor_event(s.cursor);
        s.from = &numbers[queue_input(q)];
        renumber(&s.event, s.from);
        m->n_events++;
        r = phases[s.event.phase].put(m, &s);
    }
    return MIN(r, 0);
}

static void put_threads(const struct intake *in, struct columns_writer *w)
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

static void put_facts(struct merge *m, struct columns_writer *w)
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

/* Threads that only metadata or arrows name are none to whoever looks at slices. */
static uint64_t count_threads(const struct tracks *t)
{
    uint64_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        n += t->list[i].kind == TRACK_THREAD;
    return n;
}

static void sum_up(const struct merge *m, struct merge_summary *ret)
{
    *ret = (struct merge_summary){
        .slices = rows_count(&m->slices.rows),
        .gpu_slices = m->slices.n_gpu,
        .threads = count_threads(&m->slices.tracks),
        .flows = m->flows.out.n,
        .counters = m->counters.n,
        .strings = strings_count(m->intake->strings),
        .first_ns = m->slices.first_ns,
        .last_ns = m->slices.last_ns,
    };
    memcpy(ret->defects, m->intake->defects.count, sizeof(ret->defects));
}

static int merge_runs(struct merge *m, const struct merge_input *inputs, size_t n_inputs,
                      const struct numbers *numbers, struct spool *spool, struct columns_writer *w)
{
    _cleanup_(queue_freep) struct queue *q = NULL;
    int r = slices_init(&m->slices, m->intake, spool, &m->budget, w);

    async_init(&m->async, &m->slices.tracks);
    if (r == 0)
        r = flows_init(&m->flows, &m->budget, w, &m->intake->defects);
    if (r == 0)
        r = sheet_init(&m->counters, w, counter_columns, ARRAY_SIZE(counter_columns));
    if (r == 0)
        r = queue_new(inputs, n_inputs, spool, &q);
    if (r == 0)
        r = put_events(m, q, numbers);
    if (r == 0) {
        flows_finish(&m->flows);
        sheet_flush(&m->counters);
        r = slices_finish(&m->slices, w);
    }
    if (r == 0) {
        put_threads(m->intake, w);
        put_facts(m, w);
    }
    return r;
}

int merge_columns(const struct merge_input *inputs, size_t n_inputs, struct spool *spool,
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
        r = merge_runs(&m, inputs, n_inputs, numbers, spool, w);
    if (r == 0)
        sum_up(&m, ret);

    for (size_t i = 0; i < n_inputs; i++)
        numbers_done(&numbers[i], &m.budget);
    sheet_done(&m.counters);
    flows_done(&m.flows);
    async_done(&m.async);
    slices_done(&m.slices);
    return r;
}
