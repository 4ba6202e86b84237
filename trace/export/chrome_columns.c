/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/chrome_columns.h"

#include "trace/export/labels.h"
#include "trace/export/text_out.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

void chrome_next(struct chrome_writer *w)
{
    fputs(w->o->any ? ",\n" : "\n", w->out);
    w->o->any = true;
}

void chrome_put_ns(const struct chrome_writer *w, int64_t ns)
{
    out_us(w->out, w->place ? add_ns(ns, w->place->add_ns) : ns);
}

/* A number, or the text that stands for it. */
static void put_id(const struct chrome_writer *w, enum column number, enum column text, int64_t row)
{
    int64_t name = columns_get(w->c, text, (uint64_t)row), id = columns_get(w->c, number, (uint64_t)row);

    if (name != COLUMN_NULL)
        out_json_text(w->out, columns_text(w->c, name));
    else
        fprintf(w->out, "%" PRId64, id == COLUMN_NULL ? 0 : id);
}

void chrome_put_pid(const struct chrome_writer *w, int64_t process)
{
    if (w->place)
        fprintf(w->out, "%" PRId64, process < 0 ? 0 : w->place->pids[process]);
    else
        put_id(w, COL_process_pid, COL_process_pid_text, process);
}

static void put_where(struct chrome_writer *w, int64_t process, int64_t thread)
{
    fputs(",\"pid\":", w->out);
    chrome_put_pid(w, process);
    fputs(",\"tid\":", w->out);
    put_id(w, COL_thread_tid, COL_thread_tid_text, thread);
}

static void put_track(struct chrome_writer *w, int64_t track)
{
    put_where(w, columns_get(w->c, COL_track_process, (uint64_t)track),
              columns_get(w->c, COL_track_thread, (uint64_t)track));
}

static void put_text_member(struct chrome_writer *w, const char *key, int64_t text)
{
    fprintf(w->out, ",\"%s\":", key);
    out_json_text(w->out, columns_text(w->c, text));
}

/* An event that names something: {"args":{KEY:, and after that its value. */
static void open_name(struct chrome_writer *w, const char *what, const char *key, int64_t process,
                      int64_t thread)
{
    chrome_next(w);
    fprintf(w->out, "{\"name\":\"%s\",\"ph\":\"M\"", what);
    put_where(w, process, thread);
    fprintf(w->out, ",\"args\":{\"%s\":", key);
}

static void close_name(struct chrome_writer *w)
{
    fputs("}}", w->out);
}

static void put_name(struct chrome_writer *w, const char *what, const char *key, int64_t text,
                     int64_t process, int64_t thread)
{
    if (text == COLUMN_NULL)
        return;
    open_name(w, what, key, process, thread);
    out_json_text(w->out, columns_text(w->c, text));
    close_name(w);
}

static void put_order(struct chrome_writer *w, const char *what, int64_t index, int64_t process,
                      int64_t thread)
{
    /* 0 is where everything lies that was given no order. */
    if (index == COLUMN_NULL || index == 0)
        return;
    open_name(w, what, "sort_index", process, thread);
    fprintf(w->out, "%" PRId64, index);
    close_name(w);
}

static int put_placed_process(struct chrome_writer *w, int64_t process)
{
    _cleanup_(freep) char *name = label_process(w->c, process);

    if (!name)
        return -ENOMEM;
    open_name(w, "process_name", "name", process, COLUMN_NULL);
    putc('"', w->out);
    if (w->place->label) {
        out_json_part(w->out, text_of(w->place->label));
        fputs(" · ", w->out);
    }
    out_json_part(w->out, text_of(name));
    putc('"', w->out);
    close_name(w);
    put_order(w, "process_sort_index", w->place->pids[process], process, COLUMN_NULL);
    return 0;
}

static int put_process(struct chrome_writer *w, int64_t process)
{
    uint64_t row = (uint64_t)process;
    int r = 0;

    if (w->place) {
        r = put_placed_process(w, process);
    } else {
        put_name(w, "process_name", "name", columns_get(w->c, COL_process_name, row), process, COLUMN_NULL);
        put_order(w, "process_sort_index", columns_get(w->c, COL_process_sort_index, row), process,
                  COLUMN_NULL);
    }
    put_name(w, "process_labels", "labels", columns_get(w->c, COL_process_labels, row), process, COLUMN_NULL);
    return r;
}

static bool is_placed(const struct chrome_writer *w, int64_t process)
{
    return !w->place || (process >= 0 && w->place->pids[process] > 0);
}

int chrome_put_names(struct chrome_writer *w)
{
    uint64_t processes = columns_rows(w->c, TABLE_process), threads = columns_rows(w->c, TABLE_thread);
    int r = 0;

    for (uint64_t i = 0; i < processes && r == 0; i++)
        r = is_placed(w, (int64_t)i) ? put_process(w, (int64_t)i) : 0;
    for (uint64_t i = 0; i < threads && r == 0; i++) {
        int64_t process = columns_get(w->c, COL_thread_process, i);

        if (!is_placed(w, process))
            continue;
        put_name(w, "thread_name", "name", columns_get(w->c, COL_thread_name, i), process, (int64_t)i);
        put_order(w, "thread_sort_index", columns_get(w->c, COL_thread_sort_index, i), process, (int64_t)i);
    }
    return r;
}

static void put_arg_value(struct chrome_writer *w, enum column_kind kind, int64_t value)
{
    if (value == COLUMN_NULL)
        fputs("null", w->out);
    else if (kind == KIND_TEXT)
        out_json_value(w->out, columns_text(w->c, value));
    else if (kind == KIND_REAL)
        out_json_digits(w->out, columns_text(w->c, value));
    else
        fprintf(w->out, "%" PRId64, value);
}

static void put_args(struct chrome_writer *w, uint64_t row)
{
    const char *before = ",\"args\":{";
    struct arg a;

    for (args_seek(&w->args, row); args_next(&w->args, &a); before = ",") {
        fprintf(w->out, "%s\"%s\":%s", before, a.key, a.is_array ? "[" : "");
        for (unsigned i = 0; i < a.n; i++) {
            if (i > 0)
                putc(',', w->out);
            put_arg_value(w, a.kind, a.values[i]);
        }
        if (a.is_array)
            putc(']', w->out);
    }
    if (streq(before, ","))
        putc('}', w->out);
}

/* Phases by the track that a slice lies on: of one that lasts, of one that never ended, of an instant. */
static const struct phases {
    const char *lasting, *unfinished, *instant, *scope;
} phases[_TRACK_KIND_MAX] = {
    [TRACK_THREAD] = {"X", "B", "i", "t"},          [TRACK_OVERFLOW] = {"X", "B", "i", "t"},
    [TRACK_ASYNC] = {"b", "b", "n", NULL},          [TRACK_PROCESS_INSTANTS] = {"X", "B", "i", "p"},
    [TRACK_GLOBAL_INSTANTS] = {"X", "B", "i", "g"}, [TRACK_COUNTER] = {"X", "B", "i", "t"},
};

static void put_slice_event(struct chrome_writer *w, uint64_t row, const char *phase, int64_t ts)
{
    int64_t track = columns_get(w->c, COL_slice_track, row),
            category = columns_get(w->c, COL_slice_category, row);

    chrome_next(w);
    fprintf(w->out, "{\"ph\":\"%s\"", phase);
    if (category != COLUMN_NULL)
        put_text_member(w, "cat", category);
    put_text_member(w, "name", columns_get(w->c, COL_slice_name, row));
    put_track(w, track);
    fputs(",\"ts\":", w->out);
    chrome_put_ns(w, ts);
}

void chrome_put_slice(struct chrome_writer *w, uint64_t row)
{
    int64_t track = columns_get(w->c, COL_slice_track, row),
            kind = columns_get(w->c, COL_track_kind, (uint64_t)track);
    int64_t ts = columns_get(w->c, COL_slice_ts, row), dur = columns_get(w->c, COL_slice_dur, row);
    int64_t flags = columns_get(w->c, COL_slice_flags, row);
    bool instant = flags > 0 && (flags & SLICE_INSTANT);
    const struct phases *p = &phases[kind < 0 || kind >= _TRACK_KIND_MAX ? TRACK_THREAD : kind];

    put_slice_event(w, row, instant ? p->instant : dur < 0 ? p->unfinished : p->lasting, ts);
    if (kind == TRACK_ASYNC)
        fprintf(w->out, ",\"id\":%" PRIu64, row + 1);
    else if (instant)
        fprintf(w->out, ",\"s\":\"%s\"", p->scope);
    else if (dur >= 0) {
        fputs(",\"dur\":", w->out);
        out_us(w->out, dur);
    }
    put_args(w, row);
    putc('}', w->out);
    if (kind == TRACK_ASYNC && !instant && dur >= 0) {
        put_slice_event(w, row, "e", add_ns(ts, dur));
        fprintf(w->out, ",\"id\":%" PRIu64 "}", row + 1);
    }
}

void chrome_put_arrows(struct chrome_writer *w, uint64_t row)
{
    size_t n;
    const struct arrow_end *arrow = arrows_at(&w->arrows, row, &n);

    for (; n > 0; n--, arrow++) {
        int64_t category = columns_get(w->c, COL_flow_category, arrow->flow);

        chrome_next(w);
        fprintf(w->out, "{\"ph\":\"%s\",\"id\":%" PRIu64, arrow->arrives ? "f\",\"bp\":\"e" : "s",
                w->o->arrows + arrow->flow + 1);
        put_track(w, columns_get(w->c, COL_slice_track, row));
        fputs(",\"ts\":", w->out);
        chrome_put_ns(w, columns_get(w->c, COL_slice_ts, row));
        if (category != COLUMN_NULL)
            put_text_member(w, "cat", category);
        put_text_member(w, "name", columns_get(w->c, COL_flow_name, arrow->flow));
        putc('}', w->out);
    }
}

void chrome_put_counter(struct chrome_writer *w, uint64_t row)
{
    int64_t track = columns_get(w->c, COL_counter_track, row),
            bits = columns_get(w->c, COL_counter_value, row);
    struct text name = columns_text(w->c, columns_get(w->c, COL_track_name, (uint64_t)track)),
                key = {"value", 5};
    const char *space = memrchr(name.p, ' ', name.size);
    double value;

    memcpy(&value, &bits, sizeof(value));
    if (bits == COLUMN_NULL || !isfinite(value))
        return;
    /* A counter's track is called after the event and the argument. */
    if (space) {
        key = (struct text){space + 1, (size_t)(name.p + name.size - space - 1)};
        name.size = (size_t)(space - name.p);
    }
    chrome_next(w);
    fputs("{\"ph\":\"C\",\"name\":", w->out);
    out_json_text(w->out, name);
    put_track(w, track);
    fputs(",\"ts\":", w->out);
    chrome_put_ns(w, columns_get(w->c, COL_counter_ts, row));
    fputs(",\"args\":{", w->out);
    out_json_text(w->out, key);
    fprintf(w->out, ":%.17g}}", value);
}
