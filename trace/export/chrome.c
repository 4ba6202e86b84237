/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/chrome.h"

#include "trace/export/export.h"
#include "trace/export/selection.h"
#include "trace/export/writers.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>

/* -- Events from the columns ---------------------------------------------------------------------------- */

void chrome_next(struct chrome_writer *w)
{
    fputs(w->o->any ? ",\n" : "\n", w->out);
    w->o->any = true;
}

void chrome_put_ns(const struct chrome_writer *w, int64_t ns)
{
    out_us(w->out, w->merged ? sum_of(ns, w->merged->add_ns) : ns);
}

/* A number, or its text if the trace has a text. */
static void chrome_put_id(const struct chrome_writer *w, enum column number, enum column text, int64_t row)
{
    int64_t name = columns_get(w->c, text, (uint64_t)row), id = columns_get(w->c, number, (uint64_t)row);

    if (name != COLUMN_NULL)
        out_json_text(w->out, columns_text(w->c, name));
    else
        fprintf(w->out, "%" PRId64, id == COLUMN_NULL ? 0 : id);
}

void chrome_put_pid(const struct chrome_writer *w, int64_t process)
{
    if (w->merged)
        fprintf(w->out, "%" PRId64, process < 0 ? 0 : w->merged->pids[process]);
    else
        chrome_put_id(w, COL_process_pid, COL_process_pid_text, process);
}

static void chrome_put_where(struct chrome_writer *w, int64_t process, int64_t thread)
{
    fputs(",\"pid\":", w->out);
    chrome_put_pid(w, process);
    fputs(",\"tid\":", w->out);
    chrome_put_id(w, COL_thread_tid, COL_thread_tid_text, thread);
}

static void chrome_put_track(struct chrome_writer *w, int64_t track)
{
    chrome_put_where(w, columns_get(w->c, COL_track_process, (uint64_t)track),
                     columns_get(w->c, COL_track_thread, (uint64_t)track));
}

static void chrome_put_text_member(struct chrome_writer *w, const char *key, int64_t text)
{
    fprintf(w->out, ",\"%s\":", key);
    out_json_text(w->out, columns_text(w->c, text));
}

/* Begins a metadata event: {"args":{KEY:. Its value comes next. */
static void chrome_open_name(struct chrome_writer *w, const char *what, const char *key, int64_t process,
                             int64_t thread)
{
    chrome_next(w);
    fprintf(w->out, "{\"name\":\"%s\",\"ph\":\"M\"", what);
    chrome_put_where(w, process, thread);
    fprintf(w->out, ",\"args\":{\"%s\":", key);
}

static void chrome_close_name(struct chrome_writer *w)
{
    fputs("}}", w->out);
}

static void chrome_put_name(struct chrome_writer *w, const char *what, const char *key, int64_t text,
                            int64_t process, int64_t thread)
{
    if (text == COLUMN_NULL)
        return;
    chrome_open_name(w, what, key, process, thread);
    out_json_text(w->out, columns_text(w->c, text));
    chrome_close_name(w);
}

static void chrome_put_order(struct chrome_writer *w, const char *what, int64_t index, int64_t process,
                             int64_t thread)
{
    /* 0 is the default. */
    if (index == COLUMN_NULL || index == 0)
        return;
    chrome_open_name(w, what, "sort_index", process, thread);
    fprintf(w->out, "%" PRId64, index);
    chrome_close_name(w);
}

static void chrome_put_merged_process(struct chrome_writer *w, int64_t process)
{
    _cleanup_(freep) char *name = label_process(w->c, process);

    chrome_open_name(w, "process_name", "name", process, COLUMN_NULL);
    putc('"', w->out);
    if (w->merged->label) {
        out_json_part(w->out, text_of(w->merged->label));
        fputs(" · ", w->out);
    }
    out_json_part(w->out, text_of(name));
    putc('"', w->out);
    chrome_close_name(w);
    chrome_put_order(w, "process_sort_index", w->merged->pids[process], process, COLUMN_NULL);
}

static bool chrome_has_process(const struct chrome_writer *w, int64_t process)
{
    return !w->merged || (process >= 0 && w->merged->pids[process] > 0);
}

void chrome_put_names(struct chrome_writer *w)
{
    uint64_t processes = columns_rows(w->c, TABLE_process), threads = columns_rows(w->c, TABLE_thread);

    for (uint64_t i = 0; i < processes; i++) {
        int64_t process = (int64_t)i;
        if (!chrome_has_process(w, process))
            continue;
        if (w->merged) {
            chrome_put_merged_process(w, process);
        } else {
            chrome_put_name(w, "process_name", "name", columns_get(w->c, COL_process_name, i), process,
                            COLUMN_NULL);
            chrome_put_order(w, "process_sort_index", columns_get(w->c, COL_process_sort_index, i), process,
                             COLUMN_NULL);
        }
        chrome_put_name(w, "process_labels", "labels", columns_get(w->c, COL_process_labels, i), process,
                        COLUMN_NULL);
    }
    for (uint64_t i = 0; i < threads; i++) {
        int64_t process = columns_get(w->c, COL_thread_process, i);

        if (!chrome_has_process(w, process))
            continue;
        chrome_put_name(w, "thread_name", "name", columns_get(w->c, COL_thread_name, i), process, (int64_t)i);
        chrome_put_order(w, "thread_sort_index", columns_get(w->c, COL_thread_sort_index, i), process,
                         (int64_t)i);
    }
}

static void chrome_put_arg_value(struct chrome_writer *w, enum column_kind kind, int64_t value)
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

static void chrome_put_args(struct chrome_writer *w, uint64_t row)
{
    const char *before = ",\"args\":{";
    struct slice_arg a;

    for (args_seek(&w->args, row); args_next(&w->args, &a); before = ",") {
        fprintf(w->out, "%s\"%s\":%s", before, a.key, a.is_array ? "[" : "");
        for (unsigned i = 0; i < a.n; i++) {
            if (i > 0)
                putc(',', w->out);
            chrome_put_arg_value(w, a.kind, a.values[i]);
        }
        if (a.is_array)
            putc(']', w->out);
    }
    if (streq(before, ","))
        putc('}', w->out);
}

/* Phases by the kind of track: of a slice with an end, of one without, of an instant. */
static const struct chrome_phases {
    const char *lasting, *unfinished, *instant, *scope;
} phases[_TRACK_KIND_MAX] = {
    [TRACK_THREAD] = {"X", "B", "i", "t"},          [TRACK_OVERFLOW] = {"X", "B", "i", "t"},
    [TRACK_ASYNC] = {"b", "b", "n", NULL},          [TRACK_PROCESS_INSTANTS] = {"X", "B", "i", "p"},
    [TRACK_GLOBAL_INSTANTS] = {"X", "B", "i", "g"}, [TRACK_COUNTER] = {"X", "B", "i", "t"},
};

static void chrome_put_slice_event(struct chrome_writer *w, uint64_t row, const char *phase, int64_t ts)
{
    int64_t track = columns_get(w->c, COL_slice_track, row),
            category = columns_get(w->c, COL_slice_category, row);

    chrome_next(w);
    fprintf(w->out, "{\"ph\":\"%s\"", phase);
    if (category != COLUMN_NULL)
        chrome_put_text_member(w, "cat", category);
    chrome_put_text_member(w, "name", columns_get(w->c, COL_slice_name, row));
    chrome_put_track(w, track);
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
    const struct chrome_phases *p = &phases[kind < 0 || kind >= _TRACK_KIND_MAX ? TRACK_THREAD : kind];

    chrome_put_slice_event(w, row, instant ? p->instant : dur < 0 ? p->unfinished : p->lasting, ts);
    if (kind == TRACK_ASYNC)
        fprintf(w->out, ",\"id\":%" PRIu64, row + 1);
    else if (instant)
        fprintf(w->out, ",\"s\":\"%s\"", p->scope);
    else if (dur >= 0) {
        fputs(",\"dur\":", w->out);
        out_us(w->out, dur);
    }
    chrome_put_args(w, row);
    putc('}', w->out);
    if (kind == TRACK_ASYNC && !instant && dur >= 0) {
        chrome_put_slice_event(w, row, "e", sum_of(ts, dur));
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
        chrome_put_track(w, columns_get(w->c, COL_slice_track, row));
        fputs(",\"ts\":", w->out);
        chrome_put_ns(w, columns_get(w->c, COL_slice_ts, row));
        if (category != COLUMN_NULL)
            chrome_put_text_member(w, "cat", category);
        chrome_put_text_member(w, "name", columns_get(w->c, COL_flow_name, arrow->flow));
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
    /* The name of the track of a counter is event and argument. */
    if (space) {
        key = (struct text){space + 1, (size_t)(name.p + name.size - space - 1)};
        name.size = (size_t)(space - name.p);
    }
    chrome_next(w);
    fputs("{\"ph\":\"C\",\"name\":", w->out);
    out_json_text(w->out, name);
    chrome_put_track(w, track);
    fputs(",\"ts\":", w->out);
    chrome_put_ns(w, columns_get(w->c, COL_counter_ts, row));
    fputs(",\"args\":{", w->out);
    out_json_text(w->out, key);
    fprintf(w->out, ":%.17g}}", value);
}

/* -- A file --------------------------------------------------------------------------------------------- */

void chrome_put_facts(const struct columns *c, const char *before, FILE *out)
{
    static const struct {
        const char *key;
        enum meta_key meta;
    } values[] = {
        {"deviceProperties", META_device_properties},
        {"distributedInfo", META_distributed_info},
        {"traceName", META_trace_name},
    };

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        struct text t = columns_meta_text(c, values[i].meta);

        if (t.size == 0)
            continue;
        fprintf(out, "%s\"%s\":", before, values[i].key);
        out_json_value(out, t);
        before = ",\n";
    }
}

/* The members before the events: one for each known fact. */
static void chrome_put_head(const struct columns *c, FILE *out)
{
    int64_t base = columns_meta(c, META_base_time_ns);

    fprintf(out, "{\n\"displayTimeUnit\":\"%s\"",
            text_is(columns_meta_text(c, META_display_unit), "ns") ? "ns" : "ms");
    if (base != COLUMN_NULL)
        fprintf(out, ",\n\"baseTimeNanoseconds\":%" PRId64, base);
    chrome_put_facts(c, ",\n", out);
    /* Readers of PyTorch traces expect it. */
    if (columns_meta(c, META_device_properties) != COLUMN_NULL)
        fputs(",\n\"schemaVersion\":1", out);
    fputs(",\n\"traceEvents\":[", out);
}

/* No process has this number. */
#define MARKS_PID INT32_MAX
/* Maximum tracks of marks; further tracks share the last one. */
#define MARK_TRACKS_MAX 16

static int mark_track(const char *const *tracks, size_t n, const char *track)
{
    int i = 0;

    while ((size_t)i + 1 < n && strcmp(tracks[i], track) != 0)
        i++;
    return i;
}

static void chrome_put_mark_name(struct chrome_out *o, const char *what, size_t tid, const char *name)
{
    fprintf(o->out, "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%zu,\"ts\":0,\"args\":{\"name\":",
            o->any ? "," : "", what, MARKS_PID, tid);
    out_json_text(o->out, text_of(name));
    fputs("}}", o->out);
    o->any = true;
}

/* Names of the process and its threads, then the marks. */
static void chrome_put_marks(struct chrome_out *o, const struct export_trace *t, const struct selection *s)
{
    const char *tracks[MARK_TRACKS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < t->n_marks; i++)
        if (n < MARK_TRACKS_MAX &&
            (n == 0 || strcmp(tracks[mark_track(tracks, n, t->marks[i].track)], t->marks[i].track) != 0))
            tracks[n++] = t->marks[i].track;
    if (n == 0)
        return;
    chrome_put_mark_name(o, "process_name", 0, t->marks_name);
    for (size_t i = 0; i < n; i++)
        chrome_put_mark_name(o, "thread_name", i, tracks[i]);
    for (size_t i = 0; i < t->n_marks; i++) {
        const struct export_mark *m = &t->marks[i];
        if (!selection_has_time(s, m->ts))
            continue;
        fprintf(o->out, ",\n{\"ph\":\"X\",\"cat\":\"mark\",\"pid\":%d,\"tid\":%d,\"ts\":", MARKS_PID,
                mark_track(tracks, n, m->track));
        out_us(o->out, m->ts);
        fputs(",\"dur\":", o->out);
        out_us(o->out, m->dur);
        fputs(",\"name\":", o->out);
        out_json_text(o->out, m->name);
        fputs("}", o->out);
    }
}

int export_chrome(const struct export_trace *t, const struct selection *s, FILE *out)
{
    struct chrome_out o = {.out = out};
    int r;

    chrome_put_head(t->columns, out);
    r = chrome_put_trace(&o, t, s, NULL);
    chrome_put_marks(&o, t, s);
    fputs("\n]}\n", out);
    return r;
}
