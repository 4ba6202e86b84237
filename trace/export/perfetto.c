/* SPDX-License-Identifier: Apache-2.0 */
/*
 * https://perfetto.dev/docs/reference/synthetic-track-event: track descriptors, then the slices of each track
 * in the order in which they begin and end, with their known arguments and arrows, then counters.
 */
#include "trace/export/export.h"
#include "trace/export/selection.h"
#include "trace/export/stacks.h"
#include "trace/export/writers.h"

#include <errno.h>

/* Fields of protos/perfetto/trace/, each group a message. */
enum {
    TRACE_PACKET = 1,

    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,

    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_IS_PROCESS = 3,
    TRACK_IS_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_IS_COUNTER = 8,
    TRACK_SIBLING_MERGING = 15,
    SIBLING_MERGING_NONE = 2,

    PROCESS_PID = 1,
    PROCESS_SORT_INDEX = 3,
    PROCESS_NAME = 6,
    PROCESS_LABELS = 8,

    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_SORT_INDEX = 3,
    THREAD_NAME = 5,

    EVENT_CATEGORY_IIDS = 3,
    EVENT_DEBUG_ANNOTATIONS = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_DOUBLE_COUNTER_VALUE = 44,
    EVENT_FLOWS = 47,
    EVENT_TERMINATING_FLOWS = 48,

    TYPE_SLICE_BEGIN = 1,
    TYPE_SLICE_END = 2,
    TYPE_INSTANT = 3,
    TYPE_COUNTER = 4,

    INTERNED_CATEGORIES = 1,
    INTERNED_NAMES = 2,
    INTERNED_ANNOTATION_NAMES = 3,
    INTERNED_ANNOTATION_TEXTS = 29,
    INTERNED_IID = 1,
    INTERNED_TEXT = 2,

    ANNOTATION_NAME_IID = 1,
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_ARRAY = 12,
    ANNOTATION_TEXT_IID = 17,

    SEQUENCE_ID = 1,
    SEQUENCE_CLEARED = 1,
    SEQUENCE_NEEDED = 2,
};

/* uuids of tracks: a row, and its table in the lowest bits. */
#define UUID(of, row) ((int64_t)((uint64_t)(row) << 2 | (of)))
enum { OF_PROCESS = 1, OF_THREAD, OF_TRACK };

/* Numbers that Linux gives to no process: for processes whose number is a text or invalid. */
#define PID_MADE_UP (1 << 22)

struct perfetto_writer {
    FILE *out;
    const struct columns *c;
    const struct selection *selection;
    struct proto proto;
    struct numbering names, categories, texts; /* of slices and arguments */
    bool known_keys[_COLUMN_MAX];              /* of arguments */
    struct arrows arrows;
    struct slice_args args;
    int64_t zero; /* timestamps are not negative in this format */
    int64_t uuid; /* of the track that is written */
};

static size_t perfetto_open_packet(struct perfetto_writer *w)
{
    size_t packet = proto_open(&w->proto, TRACE_PACKET);

    proto_int(&w->proto, PACKET_SEQUENCE_ID, SEQUENCE_ID);
    return packet;
}

static void perfetto_close_packet(struct perfetto_writer *w, size_t packet)
{
    proto_close(&w->proto, packet);
    proto_flush(&w->proto, w->out);
}

static void perfetto_put_text(struct perfetto_writer *w, unsigned field, enum column column, uint64_t row)
{
    struct text t = columns_text(w->c, columns_get(w->c, column, row));

    if (t.size > 0)
        proto_text(&w->proto, field, t);
}

static void perfetto_put_int32(struct perfetto_writer *w, unsigned field, int64_t value)
{
    if (value >= INT32_MIN && value <= INT32_MAX)
        proto_int(&w->proto, field, value);
}

static int64_t perfetto_pid(const struct perfetto_writer *w, uint64_t process)
{
    int64_t pid = columns_get(w->c, COL_process_pid, process);
    bool real =
        pid > 0 && pid < PID_MADE_UP && columns_get(w->c, COL_process_pid_text, process) == COLUMN_NULL;

    return real ? pid : PID_MADE_UP + (int64_t)process;
}

static void perfetto_put_process(struct perfetto_writer *w, uint64_t process)
{
    size_t packet = perfetto_open_packet(w), track = proto_open(&w->proto, PACKET_TRACK_DESCRIPTOR), message;
    _cleanup_(freep) char *label = label_process(w->c, (int64_t)process);

    proto_int(&w->proto, TRACK_UUID, UUID(OF_PROCESS, process));
    message = proto_open(&w->proto, TRACK_IS_PROCESS);
    perfetto_put_int32(w, PROCESS_PID, perfetto_pid(w, process));
    proto_text(&w->proto, PROCESS_NAME, text_of(label));
    perfetto_put_text(w, PROCESS_LABELS, COL_process_labels, process);
    perfetto_put_int32(w, PROCESS_SORT_INDEX, columns_get(w->c, COL_process_sort_index, process));
    proto_close(&w->proto, message);
    proto_close(&w->proto, track);
    perfetto_close_packet(w, packet);
}

static void perfetto_put_thread(struct perfetto_writer *w, uint64_t thread)
{
    int64_t process = columns_get(w->c, COL_thread_process, thread),
            tid = columns_get(w->c, COL_thread_tid, thread);
    size_t packet = perfetto_open_packet(w), track = proto_open(&w->proto, PACKET_TRACK_DESCRIPTOR), message;
    _cleanup_(freep) char *label = label_thread(w->c, (int64_t)thread);

    proto_int(&w->proto, TRACK_UUID, UUID(OF_THREAD, thread));
    message = proto_open(&w->proto, TRACK_IS_THREAD);
    perfetto_put_int32(w, THREAD_PID, perfetto_pid(w, (uint64_t)process));
    if (tid == COLUMN_NULL || columns_get(w->c, COL_thread_tid_text, thread) != COLUMN_NULL)
        tid = PID_MADE_UP + (int64_t)thread;
    proto_int(&w->proto, THREAD_TID, tid);
    proto_text(&w->proto, THREAD_NAME, text_of(label));
    perfetto_put_int32(w, THREAD_SORT_INDEX, columns_get(w->c, COL_thread_sort_index, thread));
    proto_close(&w->proto, message);
    proto_close(&w->proto, track);
    perfetto_close_packet(w, packet);
}

/* The main track of a thread or process is that of its descriptor. */
static int64_t perfetto_uuid(const struct columns *c, uint64_t track)
{
    int64_t thread = columns_get(c, COL_track_thread, track),
            process = columns_get(c, COL_track_process, track);
    int64_t kind = columns_get(c, COL_track_kind, track);

    if (kind == TRACK_THREAD && thread != COLUMN_NULL)
        return UUID(OF_THREAD, thread);
    if (kind == TRACK_PROCESS_INSTANTS && process != COLUMN_NULL)
        return UUID(OF_PROCESS, process);
    return UUID(OF_TRACK, track);
}

static void perfetto_put_track(struct perfetto_writer *w, uint64_t number)
{
    int64_t uuid = perfetto_uuid(w->c, number), thread = columns_get(w->c, COL_track_thread, number);
    int64_t process = columns_get(w->c, COL_track_process, number);
    size_t packet, track;
    _cleanup_(freep) char *label = NULL;

    if (uuid != UUID(OF_TRACK, number))
        return;
    packet = perfetto_open_packet(w);
    track = proto_open(&w->proto, PACKET_TRACK_DESCRIPTOR);
    proto_int(&w->proto, TRACK_UUID, uuid);
    if (thread != COLUMN_NULL)
        proto_int(&w->proto, TRACK_PARENT, UUID(OF_THREAD, thread));
    else if (process != COLUMN_NULL)
        proto_int(&w->proto, TRACK_PARENT, UUID(OF_PROCESS, process));
    if (columns_get(w->c, COL_track_name, number) != COLUMN_NULL) {
        perfetto_put_text(w, TRACK_NAME, COL_track_name, number);
    } else {
        label = thread != COLUMN_NULL ? label_thread(w->c, thread) : label_track(w->c, number);
        proto_text(&w->proto, TRACK_NAME, text_of(label));
    }
    if (columns_get(w->c, COL_track_kind, number) == TRACK_COUNTER)
        proto_close(&w->proto, proto_open(&w->proto, TRACK_IS_COUNTER));
    proto_int(&w->proto, TRACK_SIBLING_MERGING, SIBLING_MERGING_NONE);
    proto_close(&w->proto, track);
    perfetto_close_packet(w, packet);
}

static void perfetto_put_descriptors(struct perfetto_writer *w)
{
    size_t packet = perfetto_open_packet(w);

    proto_int(&w->proto, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
    perfetto_close_packet(w, packet);
    for (uint64_t i = 0; i < columns_rows(w->c, TABLE_process); i++)
        perfetto_put_process(w, i);
    for (uint64_t i = 0; i < columns_rows(w->c, TABLE_thread); i++)
        perfetto_put_thread(w, i);
    for (uint64_t i = 0; i < columns_rows(w->c, TABLE_track); i++)
        perfetto_put_track(w, i);
}

static void perfetto_put_interned(struct perfetto_writer *w, unsigned field, int64_t iid, struct text text)
{
    size_t interned = proto_open(&w->proto, PACKET_INTERNED), entry = proto_open(&w->proto, field);

    proto_int(&w->proto, INTERNED_IID, iid);
    proto_text(&w->proto, INTERNED_TEXT, text);
    proto_close(&w->proto, entry);
    proto_close(&w->proto, interned);
}

/* The id of a string; the packet with its first use defines it. */
static int64_t perfetto_intern(struct perfetto_writer *w, struct numbering *numbers, unsigned field,
                               int64_t text)
{
    uint32_t known = numbers->n;
    int64_t iid = numbering_of(numbers, text) + INT64_C(1);

    if (numbers->n > known)
        perfetto_put_interned(w, field, iid, columns_text(w->c, text));
    return iid;
}

static bool is_real(struct text t, double *ret)
{
    char digits[64], *end;

    if (t.size == 0 || t.size >= sizeof(digits))
        return false;
    memcpy(digits, t.p, t.size);
    digits[t.size] = '\0';
    *ret = strtod(digits, &end);
    return end == digits + t.size;
}

/* Defines the strings of the arguments of an event, which precede the event in the packet. */
static void perfetto_intern_args(struct perfetto_writer *w, uint64_t row)
{
    struct slice_arg a;

    for (args_seek(&w->args, row); args_next(&w->args, &a);) {
        if (!w->known_keys[a.column])
            perfetto_put_interned(w, INTERNED_ANNOTATION_NAMES, a.column + 1, text_of(a.key));
        w->known_keys[a.column] = true;
        for (unsigned i = 0; i < a.n && (a.kind == KIND_TEXT || a.kind == KIND_REAL); i++)
            perfetto_intern(w, &w->texts, INTERNED_ANNOTATION_TEXTS, a.values[i]);
    }
}

static void perfetto_put_annotation_value(struct perfetto_writer *w, enum column_kind kind, int64_t value)
{
    double real;

    if (kind != KIND_TEXT && kind != KIND_REAL)
        proto_int(&w->proto, ANNOTATION_INT, value == COLUMN_NULL ? 0 : value);
    else if (kind == KIND_REAL && is_real(columns_text(w->c, value), &real))
        proto_double(&w->proto, ANNOTATION_DOUBLE, real);
    else
        proto_int(&w->proto, ANNOTATION_TEXT_IID, numbering_of(&w->texts, value) + INT64_C(1));
}

static void perfetto_put_annotation(struct perfetto_writer *w, const struct slice_arg *arg)
{
    size_t annotation = proto_open(&w->proto, EVENT_DEBUG_ANNOTATIONS);

    proto_int(&w->proto, ANNOTATION_NAME_IID, arg->column + 1);
    if (!arg->is_array)
        perfetto_put_annotation_value(w, arg->kind, arg->values[0]);
    for (unsigned i = 0; arg->is_array && i < arg->n; i++) {
        size_t element = proto_open(&w->proto, ANNOTATION_ARRAY);

        perfetto_put_annotation_value(w, arg->kind, arg->values[i]);
        proto_close(&w->proto, element);
    }
    proto_close(&w->proto, annotation);
}

static size_t perfetto_open_event(struct perfetto_writer *w, int64_t ts, int type)
{
    size_t event;

    proto_int(&w->proto, PACKET_TIMESTAMP, difference_of(ts, w->zero));
    proto_int(&w->proto, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDED);
    event = proto_open(&w->proto, PACKET_TRACK_EVENT);
    proto_int(&w->proto, EVENT_TYPE, type);
    proto_int(&w->proto, EVENT_TRACK, w->uuid);
    return event;
}

static bool slice_is_instant(const struct perfetto_writer *w, uint64_t row)
{
    int64_t flags = columns_get(w->c, COL_slice_flags, row);

    return flags > 0 && (flags & SLICE_INSTANT);
}

static int perfetto_begin_track(void *arg, uint64_t track)
{
    struct perfetto_writer *w = arg;

    w->uuid = perfetto_uuid(w->c, track);
    return 0;
}

static int perfetto_begin_slice(void *arg, struct playing *slice, const struct playing *around)
{
    struct perfetto_writer *w = arg;
    int64_t category = columns_get(w->c, COL_slice_category, slice->row), name_iid, category_iid = 0;
    size_t packet = perfetto_open_packet(w), event, n;
    const struct arrow_end *arrow = arrows_at(&w->arrows, slice->row, &n);
    struct slice_arg a;

    name_iid = perfetto_intern(w, &w->names, INTERNED_NAMES, columns_get(w->c, COL_slice_name, slice->row));
    if (category != COLUMN_NULL)
        category_iid = perfetto_intern(w, &w->categories, INTERNED_CATEGORIES, category);
    perfetto_intern_args(w, slice->row);
    event = perfetto_open_event(w, slice->begin,
                                slice_is_instant(w, slice->row) ? TYPE_INSTANT : TYPE_SLICE_BEGIN);
    proto_int(&w->proto, EVENT_NAME_IID, name_iid);
    if (category_iid > 0)
        proto_int(&w->proto, EVENT_CATEGORY_IIDS, category_iid);
    for (args_seek(&w->args, slice->row); args_next(&w->args, &a);)
        perfetto_put_annotation(w, &a);
    for (; n > 0; n--, arrow++)
        proto_fixed64(&w->proto, arrow->arrives ? EVENT_TERMINATING_FLOWS : EVENT_FLOWS, arrow->flow + 1);
    proto_close(&w->proto, event);
    perfetto_close_packet(w, packet);
    return w->proto.failed ? -ENOMEM : 0;
}

static int perfetto_end_slice(void *arg, const struct playing *slice)
{
    struct perfetto_writer *w = arg;
    size_t packet;

    /* An unfinished slice has no end. */
    if (slice->unfinished || slice_is_instant(w, slice->row))
        return 0;
    packet = perfetto_open_packet(w);
    proto_close(&w->proto, perfetto_open_event(w, slice->end, TYPE_SLICE_END));
    perfetto_close_packet(w, packet);
    return 0;
}

static void perfetto_put_counters(struct perfetto_writer *w)
{
    uint64_t rows = w->selection->everything ? columns_rows(w->c, TABLE_counter) : 0;

    for (uint64_t row = 0; row < rows; row++) {
        int64_t ts = columns_get(w->c, COL_counter_ts, row),
                track = columns_get(w->c, COL_counter_track, row);
        int64_t bits = columns_get(w->c, COL_counter_value, row);

        if (track == COLUMN_NULL || bits == COLUMN_NULL || !selection_has_time(w->selection, ts))
            continue;
        w->uuid = perfetto_uuid(w->c, (uint64_t)track);
        size_t packet = perfetto_open_packet(w), event = perfetto_open_event(w, ts, TYPE_COUNTER);
        /* The column contains the bits of a double. */
        proto_fixed64(&w->proto, EVENT_DOUBLE_COUNTER_VALUE, (uint64_t)bits);
        proto_close(&w->proto, event);
        perfetto_close_packet(w, packet);
    }
}

static int perfetto_put_all(struct perfetto_writer *w)
{
    struct playback play = {.selection = w->selection,
                            .track_begin = perfetto_begin_track,
                            .begin = perfetto_begin_slice,
                            .end = perfetto_end_slice,
                            .arg = w};
    int r = numbering_init(&w->names, w->c);

    if (r == 0)
        r = numbering_init(&w->categories, w->c);
    if (r == 0)
        r = numbering_init(&w->texts, w->c);
    if (r == 0)
        r = arrows_init(&w->arrows, w->selection);
    if (r < 0)
        return r;
    perfetto_put_descriptors(w);
    r = playback_run(&play);
    perfetto_put_counters(w);
    return r == 0 && w->proto.failed ? -ENOMEM : r;
}

int export_perfetto(const struct export_trace *t, const struct selection *s, FILE *out)
{
    struct perfetto_writer w = {.out = out, .c = t->columns, .selection = s, .args.c = t->columns};
    int64_t first_slice = columns_get(w.c, COL_slice_ts, 0),
            first_sample = columns_get(w.c, COL_counter_ts, 0);
    int r;

    if (first_slice != COLUMN_NULL)
        w.zero = MIN(w.zero, first_slice);
    if (first_sample != COLUMN_NULL)
        w.zero = MIN(w.zero, first_sample);
    r = perfetto_put_all(&w);
    numbering_done(&w.names);
    numbering_done(&w.categories);
    numbering_done(&w.texts);
    arrows_done(&w.arrows);
    proto_done(&w.proto);
    return r;
}
