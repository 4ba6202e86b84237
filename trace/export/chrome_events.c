/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of one trace in Chrome's format, in the order of its original, with their original text if the original
 * exists: some members are replaced, all other bytes stay.
 */
#include "trace/export/chrome.h"
#include "trace/export/writers.h"
#include "trace/read/event_text.h"
#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include <errno.h>
#include <inttypes.h>

/* -- The text of an event ------------------------------------------------------------------------------- */

struct event_edit {
    const char *key;
    char value[US_TEXT_MAX]; /* as JSON */
};

#define EDITS_MAX 8

static struct slice event_members(struct text event)
{
    return json_inside((struct slice){event.p, event.p + event.size});
}

/* The value of the last member with this key; false: no such member. */
static bool event_member(struct text event, const char *key, struct slice *ret)
{
    struct slice rest = event_members(event), name, value;
    bool found = false;

    while (json_next(&rest, &name, &value)) {
        if (slice_is(name, key)) {
            *ret = value;
            found = true;
        }
    }
    return found;
}

/* Whether that value is this many nanoseconds, written as microseconds. */
static bool event_has_ns(struct text event, const char *key, int64_t ns)
{
    struct slice value;
    int64_t number;

    if (!event_member(event, key, &value))
        return false;
    value = slice_unquoted(value);
    switch (number_scaled(value.p, value.end, 3, &number)) {
    case NUMBER_EXACT:
    case NUMBER_ROUNDED:
        return number == ns;
    default:
        return false;
    }
}

static const struct event_edit *event_find_edit(const struct event_edit *edits, size_t n, struct slice key,
                                                bool *done)
{
    for (size_t i = 0; i < n; i++) {
        if (slice_is(key, edits[i].key)) {
            done[i] = true;
            return &edits[i];
        }
    }
    return NULL;
}

static void event_put(FILE *out, const char *from, const char *to)
{
    fwrite(from, 1, (size_t)(to - from), out);
}

/* Members that are missing are added at the end. At most EDITS_MAX. */
static void event_write(FILE *out, struct text event, const struct event_edit *edits, size_t n)
{
    struct slice rest = event_members(event), key, value;
    const char *copied = event.p, *after = rest.p;
    bool done[EDITS_MAX] = {false}, any = false;

    while (json_next(&rest, &key, &value)) {
        const struct event_edit *edit = event_find_edit(edits, n, key, done);

        any = true;
        after = value.end;
        if (!edit)
            continue;
        event_put(out, copied, value.p);
        fputs(edit->value, out);
        copied = value.end;
    }
    event_put(out, copied, after);
    for (size_t i = 0; i < n; i++) {
        if (!done[i])
            fprintf(out, "%s\"%s\": %s", any ? ", " : "", edits[i].key, edits[i].value);
        any = any || !done[i];
    }
    event_put(out, after, event.p + event.size);
}

/* -- Events in the order of the original ---------------------------------------------------------------- */

/* A slice or a sample, in the order of the original's text. */
struct chrome_item {
    uint64_t offset; /* in the original */
    uint64_t row : 63;
    uint64_t is_counter : 1;
};

struct chrome_items {
    struct chrome_item *list;
    size_t n;
};

static int compare_items(const void *pa, const void *pb)
{
    const struct chrome_item *a = pa, *b = pb;

    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static int chrome_collect(struct chrome_items *items, const struct selection *s)
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
                (struct chrome_item){(uint64_t)columns_get(s->c, COL_slice_offset, row), row, 0};
    }
    for (uint64_t row = 0; row < counters && items->n < n; row++) {
        if (selection_has_time(s, columns_get(s->c, COL_counter_ts, row)))
            items->list[items->n++] =
                (struct chrome_item){(uint64_t)columns_get(s->c, COL_counter_offset, row), row, 1};
    }
    return 0;
}

/* The members of an event that are replaced in a merged trace. */
static size_t chrome_edit_merged(const struct chrome_writer *w, int64_t process, int64_t ts,
                                 struct event_edit *edits)
{
    if (!w->merged)
        return 0;
    edits[0] = (struct event_edit){.key = "pid"};
    snprintf(edits[0].value, sizeof(edits[0].value), "%" PRId64, process < 0 ? 0 : w->merged->pids[process]);
    edits[1] = (struct event_edit){.key = "ts"};
    us_text(sum_of(ts, w->merged->add_ns), edits[1].value);
    return 2;
}

static int64_t chrome_track_process(const struct chrome_writer *w, int64_t track)
{
    return columns_get(w->c, COL_track_process, (uint64_t)track);
}

/* The end of an asynchronous slice, with the members that identify its beginning. */
static void chrome_put_async_end(struct chrome_writer *w, struct text begin, const char *phase, uint64_t row)
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
        if (w->merged && streq(keys[i], "pid"))
            chrome_put_pid(w, chrome_track_process(w, columns_get(w->c, COL_slice_track, row)));
        else
            out_text(w->out, (struct text){value.p, (size_t)(value.end - value.p)});
    }
    putc('}', w->out);
}

static void chrome_put_slice_text(struct chrome_writer *w, struct text event, uint64_t row)
{
    int64_t dur = columns_get(w->c, COL_slice_dur, row), ts = columns_get(w->c, COL_slice_ts, row);
    struct event_edit edits[EDITS_MAX];
    size_t n =
        chrome_edit_merged(w, chrome_track_process(w, columns_get(w->c, COL_slice_track, row)), ts, edits);
    struct slice phase = {0};

    event_member(event, "ph", &phase);
    phase = slice_unquoted(phase);
    if (slice_is(phase, "B") && dur >= 0) {
        edits[n++] = (struct event_edit){"ph", "\"X\""};
        edits[n] = (struct event_edit){.key = "dur"};
        us_text(dur, edits[n++].value);
    }
    chrome_next(w);
    event_write(w->out, event, edits, n);
    if (slice_is(phase, "b") && dur >= 0)
        chrome_put_async_end(w, event, "e", row);
    else if (slice_is(phase, "S") && dur >= 0)
        chrome_put_async_end(w, event, "F", row);
}

/* The original text of an event; false if there is none, or if it is another event. */
static bool chrome_read_text(struct event_source *source, const struct chrome_item *item, int64_t ts,
                             int *error, struct text *ret)
{
    int r = source ? event_source_text(source, item->offset, ret) : -ENOENT;

    if (r == -ENOMEM)
        *error = r;
    return r == 0 && event_has_ns(*ret, "ts", ts);
}

static int chrome_put_slice_item(struct chrome_writer *w, struct event_source *source,
                                 const struct chrome_item *item)
{
    struct text event;
    int error = 0;

    if (chrome_read_text(source, item, columns_get(w->c, COL_slice_ts, item->row), &error, &event))
        chrome_put_slice_text(w, event, item->row);
    else
        chrome_put_slice(w, item->row);
    chrome_put_arrows(w, item->row);
    return error;
}

/* The samples of one event share its offset: its text is written for the first. */
static int chrome_put_counter_item(struct chrome_writer *w, struct event_source *source,
                                   const struct chrome_item *item, uint64_t *written)
{
    int64_t ts = columns_get(w->c, COL_counter_ts, item->row);
    int64_t process = chrome_track_process(w, columns_get(w->c, COL_counter_track, item->row));
    struct event_edit edits[EDITS_MAX];
    struct text event;
    int error = 0;

    if (*written == item->offset)
        return 0;
    if (chrome_read_text(source, item, ts, &error, &event)) {
        chrome_next(w);
        event_write(w->out, event, edits, chrome_edit_merged(w, process, ts, edits));
        *written = item->offset;
    } else {
        chrome_put_counter(w, item->row);
    }
    return error;
}

static int chrome_put_items(struct chrome_writer *w, struct event_source *source)
{
    struct chrome_items items = {0};
    uint64_t counter_written = UINT64_MAX;
    int r = chrome_collect(&items, w->selection);

    if (r == 0 && source)
        qsort(items.list, items.n, sizeof(items.list[0]), compare_items);
    for (size_t i = 0; i < items.n && r == 0; i++) {
        const struct chrome_item *item = &items.list[i];

        r = item->is_counter ? chrome_put_counter_item(w, source, item, &counter_written)
                             : chrome_put_slice_item(w, source, item);
    }
    free(items.list);
    return r;
}

int chrome_put_trace(struct chrome_out *o, const struct export_trace *t, const struct selection *s,
                     const struct chrome_merged *merged)
{
    struct chrome_writer w = {
        .o = o, .out = o->out, .c = t->columns, .selection = s, .merged = merged, .args.c = t->columns};
    _cleanup_(event_source_freep) struct event_source *source = NULL;
    int r = arrows_init(&w.arrows, s);

    /* An original that was replaced is not used. */
    if (t->source_fd >= 0 && event_source_new(t->source_fd, t->columns, &source) < 0)
        source = NULL;
    if (r == 0) {
        chrome_put_names(&w);
        r = chrome_put_items(&w, source);
    }
    o->arrows += columns_rows(t->columns, TABLE_flow);
    arrows_done(&w.arrows);
    return r;
}
