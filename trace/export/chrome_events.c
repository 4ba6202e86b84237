/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/chrome_columns.h"
#include "trace/export/event_edit.h"
#include "trace/export/text_out.h"
#include "trace/read/event_text.h"

#include <errno.h>
#include <inttypes.h>

/* A slice or a sample, in the order of the original's text. */
struct item {
    uint64_t place;
    uint64_t row : 63;
    uint64_t is_counter : 1;
};

struct items {
    struct item *list;
    size_t n;
};

static int compare_items(const void *pa, const void *pb)
{
    const struct item *a = pa, *b = pb;

    return a->place < b->place ? -1 : a->place > b->place;
}

static int collect(struct items *items, const struct selection *s)
{
    uint64_t counters = s->everything ? columns_rows(s->c, TABLE_counter) : 0, n = counters;

    for (uint64_t row = 0; row < s->end; row++)
        n += selection_has(s, row);
    items->list = reallocarray(NULL, n + 1, sizeof(items->list[0]));
    if (!items->list)
        return -ENOMEM;
    for (uint64_t row = 0; row < s->end && items->n < n; row++) {
        if (selection_has(s, row))
            items->list[items->n++] =
                (struct item){(uint64_t)columns_get(s->c, COL_slice_place, row), row, 0};
    }
    for (uint64_t row = 0; row < counters && items->n < n; row++) {
        if (selection_has_time(s, columns_get(s->c, COL_counter_ts, row)))
            items->list[items->n++] =
                (struct item){(uint64_t)columns_get(s->c, COL_counter_place, row), row, 1};
    }
    return 0;
}

/* What every event is told that goes among those of other traces. */
static size_t edit_place(const struct chrome_writer *w, int64_t process, int64_t ts, struct edit *edits)
{
    if (!w->place)
        return 0;
    edits[0] = (struct edit){.key = "pid"};
    snprintf(edits[0].value, sizeof(edits[0].value), "%" PRId64, process < 0 ? 0 : w->place->pids[process]);
    edits[1] = (struct edit){.key = "ts"};
    us_text(add_ns(ts, w->place->add_ns), edits[1].value);
    return 2;
}

static int64_t process_of(const struct chrome_writer *w, int64_t track)
{
    return columns_get(w->c, COL_track_process, (uint64_t)track);
}

/* The end of an asynchronous slice, with what the text of its beginning is known by. */
static void put_async_end(struct chrome_writer *w, struct text begin, const char *phase, uint64_t row)
{
    static const char *const keys[] = {"cat", "name", "id", "id2", "scope", "pid", "tid"};
    struct slice value;

    chrome_next(w);
    fprintf(w->out, "{\"ph\":\"%s\",\"ts\":", phase);
    chrome_put_ns(w, selection_slice_end(w->selection, row));
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (!event_member(begin, keys[i], &value))
            continue;
        fprintf(w->out, ",\"%s\":", keys[i]);
        if (w->place && streq(keys[i], "pid"))
            chrome_put_pid(w, process_of(w, columns_get(w->c, COL_slice_track, row)));
        else
            out_text(w->out, (struct text){value.p, (size_t)(value.end - value.p)});
    }
    putc('}', w->out);
}

static void put_slice_text(struct chrome_writer *w, struct text event, uint64_t row)
{
    int64_t dur = columns_get(w->c, COL_slice_dur, row), ts = columns_get(w->c, COL_slice_ts, row);
    struct edit edits[EDITS_MAX];
    size_t n = edit_place(w, process_of(w, columns_get(w->c, COL_slice_track, row)), ts, edits);
    struct slice phase = {0};

    event_member(event, "ph", &phase);
    phase = slice_unquoted(phase);
    if (slice_is(phase, "B") && dur >= 0) {
        edits[n++] = (struct edit){"ph", "\"X\""};
        edits[n] = (struct edit){.key = "dur"};
        us_text(dur, edits[n++].value);
    }
    chrome_next(w);
    event_write(w->out, event, edits, n);
    if (slice_is(phase, "b") && dur >= 0)
        put_async_end(w, event, "e", row);
    else if (slice_is(phase, "S") && dur >= 0)
        put_async_end(w, event, "F", row);
}

/* The original's text of an event; false where there is none, or it is another event's. */
static bool read_text(struct event_source *source, const struct item *item, int64_t ts, int *error,
                      struct text *ret)
{
    int r = source ? event_source_text(source, item->place, ret) : -ENOENT;

    if (r == -ENOMEM)
        *error = r;
    return r == 0 && event_has_ns(*ret, "ts", ts);
}

static int put_slice(struct chrome_writer *w, struct event_source *source, const struct item *item)
{
    struct text event;
    int error = 0;

    if (read_text(source, item, columns_get(w->c, COL_slice_ts, item->row), &error, &event))
        put_slice_text(w, event, item->row);
    else
        chrome_put_slice(w, item->row);
    chrome_put_arrows(w, item->row);
    return error;
}

/* Samples that one event holds have its place in common: its text is written for the first. */
static int put_counter(struct chrome_writer *w, struct event_source *source, const struct item *item,
                       uint64_t *written)
{
    int64_t ts = columns_get(w->c, COL_counter_ts, item->row);
    int64_t process = process_of(w, columns_get(w->c, COL_counter_track, item->row));
    struct edit edits[EDITS_MAX];
    struct text event;
    int error = 0;

    if (*written == item->place)
        return 0;
    if (read_text(source, item, ts, &error, &event)) {
        chrome_next(w);
        event_write(w->out, event, edits, edit_place(w, process, ts, edits));
        *written = item->place;
    } else {
        chrome_put_counter(w, item->row);
    }
    return error;
}

static int put_items(struct chrome_writer *w, struct event_source *source)
{
    struct items items = {0};
    uint64_t counter_written = UINT64_MAX;
    int r = collect(&items, w->selection);

    if (r == 0 && source)
        qsort(items.list, items.n, sizeof(items.list[0]), compare_items);
    for (size_t i = 0; i < items.n && r == 0; i++) {
        const struct item *item = &items.list[i];

        r = item->is_counter ? put_counter(w, source, item, &counter_written) : put_slice(w, source, item);
    }
    free(items.list);
    return r;
}

int chrome_put_trace(struct chrome_out *o, const struct export_trace *t, const struct selection *s,
                     const struct chrome_place *place)
{
    struct chrome_writer w = {
        .o = o, .out = o->out, .c = t->columns, .selection = s, .place = place, .args.c = t->columns};
    _cleanup_(event_source_freep) struct event_source *source = NULL;
    int r = arrows_init(&w.arrows, s);

    /* An original that is another one by now is as good as none. */
    if (t->source_fd >= 0 && event_source_new(t->source_fd, t->columns, &source) < 0)
        source = NULL;
    if (r == 0)
        r = chrome_put_names(&w);
    if (r == 0)
        r = put_items(&w, source);
    o->arrows += columns_rows(t->columns, TABLE_flow);
    arrows_done(&w.arrows);
    return r;
}
