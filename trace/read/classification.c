/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reading.h"

#include "trace/read/format.h"
#include <inttypes.h>

/* Reasons and remedies for formats that are recognised but contain no readable events. */
#define READABLE "profd reads traces in JSON, also compressed, and databases that nsys exported"

static const struct refusal {
    const char *reason, *remedy;
} refusals[_FORMAT_MAX] = {
    [FORMAT_ROCPROF] = {"this is rocprofv3's own JSON, not a trace of events",
                        "run rocprofv3 with --output-format pftrace and open that with ui.perfetto.dev"},
    [FORMAT_MEMORY_TIMELINE] = {"this is a PyTorch memory timeline, not a trace of events",
                                "export it as .html and open that with a browser; a trace comes from "
                                "export_chrome_trace()"},
    [FORMAT_JSON] = {"this is JSON, not a trace of events: neither an array of events nor an object with "
                     "\"traceEvents\"",
                     "name a trace in JSON that torch.profiler or an engine wrote"},
    [FORMAT_NSYS_SQLITE] = {"this is a database that nsys exported, which is not read here", ""},
    [FORMAT_SQLITE] = {"this is a SQLite database, but not one that nsys exported",
                       "nsys export --type sqlite makes one"},
    [FORMAT_PICKLE] = {"this is a Python pickle, not a trace of events",
                       "open a PyTorch memory snapshot with pytorch.org/memory_viz"},
    [FORMAT_HTML] = {"this is an HTML page, not a trace of events", "open it with a browser"},
    [FORMAT_TEXT] = {"this is text, not a trace of events", READABLE},
    [FORMAT_BINARY] = {"this is binary data of an unknown kind", READABLE},
};

bool classification_has_columns(enum read_state state)
{
    return state == READ_COMPLETE || state == READ_TRUNCATED || state == READ_CORRUPT;
}

static enum scan_state classification_last_state(const struct trace_reading *r)
{
    return feed_state(r->parts[r->n_parts - 1].feed);
}

/* The ends of the text identify the writer of the JSON; only a complete scan shows whether it contains
 * events. */
static enum trace_format classification_find_format(const struct trace_reading *r,
                                                    const struct trace_ends *ends)
{
    enum scan_state state = classification_last_state(r);

    if (ends->format != FORMAT_EMPTY && ends->format != FORMAT_JSON && !format_is_trace_json(ends->format))
        return ends->format;
    if (state == SCAN_NOT_EVENTS)
        return FORMAT_JSON;
    if (format_is_trace_json(ends->format) || state == SCAN_BEFORE)
        return ends->format;
    return state == SCAN_EVENTS || reading_events(r) > 0 ? FORMAT_CHROME : FORMAT_JSON;
}

/* "1,234,567" */
static const char *classification_group_digits(uint64_t n, char ret[32])
{
    char digits[24];
    size_t size = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

    for (size_t i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0)
            ret[at++] = ',';
        ret[at++] = digits[i];
    }
    ret[at] = 0;
    return ret;
}

static void classification_cut_short(struct trace_reading *r, enum read_state state, enum defect_kind kind)
{
    struct read_summary *sum = r->sum;
    struct intake *last = r->parts[r->n_parts - 1].intake;
    const char *why = sum->stream.reason;
    char events[32];

    sum->state = state;
    reading_fail(r, 0, "%s after %s events%s%s", state == READ_CORRUPT ? "damaged" : "truncated",
                 classification_group_digits(reading_events(r), events), *why ? ": " : "", why);
    snprintf(sum->remedy, sizeof(sum->remedy), "%s",
             "what was read until there can be used; copy the file again where its writer has finished it");
    if (last->defects.count[kind] == 0)
        intake_defect(last, kind, sum->stream.out);
}

/* Defects and metadata of the complete trace belong to the last part, so that their numbers do not depend
 * on the number of parts. */
static struct intake *classification_last_intake(const struct trace_reading *r)
{
    return r->parts[r->n_parts - 1].intake;
}

/* Returns the first offset of text after the end of the trace, in any part. False if there is none. */
static bool classification_find_text_after_end(const struct trace_reading *r, uint64_t *ret_offset)
{
    for (size_t i = 0; i < r->n_parts; i++) {
        const struct defects *d = &r->parts[i].intake->defects;
        *ret_offset = d->first[DEFECT_bytes_behind_end];
        if (d->count[DEFECT_bytes_behind_end] > 0)
            return true;
    }
    return false;
}

/* The trace is complete, but is followed by data that does not belong to it. */
static void classification_of_rest(struct trace_reading *r)
{
    struct read_summary *sum = r->sum;
    const struct stream_summary *stream = &sum->stream;
    uint64_t offset;

    if (classification_find_text_after_end(r, &offset)) {
        sum->state = READ_CORRUPT;
        reading_fail(r, 0, "text follows the end of the trace at byte %" PRIu64, offset);
    }
    if (stream->ignored > 0) {
        if (stream->result == STREAM_FOLLOWED)
            sum->state = READ_CORRUPT;
        reading_fail(r, 0, "%s", stream->reason);
        if (classification_last_intake(r)->defects.count[DEFECT_bytes_behind_end] == 0)
            intake_defect(classification_last_intake(r), DEFECT_bytes_behind_end, stream->out);
    }
    if (sum->state == READ_CORRUPT)
        snprintf(
            sum->remedy, sizeof(sum->remedy), "%s",
            "the trace before these bytes was read and can be used; find out what added them to the file");
}

static void classification_find_state(struct trace_reading *r)
{
    struct read_summary *sum = r->sum;
    const struct stream_summary *stream = &sum->stream;
    bool in_pieces = !reading_buffer_reader(r, sum->format);

    sum->state = READ_COMPLETE;
    if (stream->in == 0) {
        sum->state = READ_EMPTY;
        reading_fail(r, 0, "0 bytes");
        snprintf(sum->remedy, sizeof(sum->remedy), "record it again; the disk may have been full");
    } else if (sum->format != FORMAT_EMPTY && !format_is_trace_json(sum->format) && in_pieces) {
        sum->state = READ_REFUSED;
        reading_fail(r, 0, "%s", refusals[sum->format].reason);
        snprintf(sum->remedy, sizeof(sum->remedy), "%s", refusals[sum->format].remedy);
    } else if (stream->result == STREAM_TRUNCATED) {
        classification_cut_short(r, READ_TRUNCATED, DEFECT_truncated);
    } else if (stream->result != STREAM_COMPLETE && stream->result != STREAM_FOLLOWED) {
        classification_cut_short(r, READ_CORRUPT, DEFECT_corrupt_stream);
    } else if (in_pieces && classification_last_state(r) == SCAN_BEFORE) {
        sum->state = READ_EMPTY;
        reading_fail(r, 0, "holds no text");
    } else if (in_pieces && classification_last_state(r) != SCAN_AFTER) {
        classification_cut_short(r, READ_TRUNCATED, DEFECT_truncated);
    } else {
        classification_of_rest(r);
    }
}

/* A more exact result of the scanner is kept. */
static bool classification_is_known(const struct trace_reading *r, enum meta_key key)
{
    for (size_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].intake->meta[key] != COLUMN_NULL)
            return true;
    return false;
}

static void classification_put_number(struct trace_reading *r, enum meta_key key, int64_t value)
{
    if (value >= 0 && !classification_is_known(r, key))
        classification_last_intake(r)->meta[key] = value;
}

static void classification_put_text(struct trace_reading *r, enum meta_key key, const char *value)
{
    struct intake *last = classification_last_intake(r);
    char padded[sizeof(((struct trace_ends *)NULL)->trace_name) + 32] = {0};
    uint32_t number;

    if (!*value || classification_is_known(r, key))
        return;
    snprintf(padded, sizeof(padded) - 32, "%s", value);
    number = strings_intern(last->strings, padded, strlen(padded));
    if (number != STRINGS_NONE)
        last->meta[key] = number;
}

static void classification_put_facts(struct trace_reading *r, const struct trace_ends *ends)
{
    const struct read_summary *sum = r->sum;

    classification_put_text(r, META_format, format_name(sum->format));
    classification_put_text(r, META_coding, stream_coding_name(sum->stream.coding));
    classification_put_number(r, META_source_bytes, (int64_t)sum->stream.in);
    classification_put_number(r, META_text_bytes, (int64_t)sum->stream.out);
    classification_put_number(r, META_rank, ends->rank);
    classification_put_number(r, META_world_size, ends->world_size);
    classification_put_number(r, META_pid, ends->pid);
    classification_put_number(r, META_devices, ends->devices);
    classification_put_number(r, META_base_time_ns, ends->base_time_ns);
    classification_put_text(r, META_backend, ends->backend);
    classification_put_text(r, META_device_name, ends->device_name);
    classification_put_text(r, META_trace_name, ends->trace_name);
    classification_put_text(r, META_engine_version, ends->engine_version);
    classification_put_text(r, META_request_trace_id, ends->request_trace_id);
}

void reading_classify(struct trace_reading *r)
{
    struct ends_input in = {r->head, r->tail, r->head_size, r->tail_size, r->sum->stream.out};
    bool refused = r->sum->state == READ_REFUSED;
    struct trace_ends ends;

    ends_read(&in, &ends);
    r->sum->format = classification_find_format(r, &ends);
    if (!refused)
        classification_find_state(r);
    if (classification_has_columns(r->sum->state))
        classification_put_facts(r, &ends);
}
