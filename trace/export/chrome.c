/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/chrome.h"

#include "trace/export/formats.h"
#include "trace/export/text_out.h"

#include <inttypes.h>
#include <stdint.h>

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

/* What stands before the events: a member for each fact that is known. */
static void put_head(const struct columns *c, FILE *out)
{
    int64_t base = columns_meta(c, META_base_time_ns);

    fprintf(out, "{\n\"displayTimeUnit\":\"%s\"",
            text_is(columns_meta_text(c, META_display_unit), "ns") ? "ns" : "ms");
    if (base != COLUMN_NULL)
        fprintf(out, ",\n\"baseTimeNanoseconds\":%" PRId64, base);
    chrome_put_facts(c, ",\n", out);
    /* What readers of PyTorch's traces look for. */
    if (columns_meta(c, META_device_properties) != COLUMN_NULL)
        fputs(",\n\"schemaVersion\":1", out);
    fputs(",\n\"traceEvents\":[", out);
}

/* No process of a system has this number. */
#define MARKS_PID INT32_MAX
/* Tracks of marks; those of more share the last. */
#define MARK_TRACKS_MAX 16

static int mark_track(const char *const *tracks, size_t n, const char *track)
{
    int i = 0;

    while ((size_t)i + 1 < n && strcmp(tracks[i], track) != 0)
        i++;
    return i;
}

/* Names of the process and its threads, then the marks. */
static void put_marks(struct chrome_out *o, const struct export_trace *t, const struct selection *s)
{
    const char *tracks[MARK_TRACKS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < t->n_marks; i++)
        if (n < MARK_TRACKS_MAX &&
            (n == 0 || strcmp(tracks[mark_track(tracks, n, t->marks[i].track)], t->marks[i].track) != 0))
            tracks[n++] = t->marks[i].track;
    if (n == 0)
        return;
    fprintf(o->out,
            "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"ts\":0,\"args\":{\"name\":",
            o->any ? "," : "", MARKS_PID);
    out_json_text(o->out, text_of(t->marks_name));
    fputs("}}", o->out);
    for (size_t i = 0; i < n; i++) {
        fprintf(
            o->out,
            ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%zu,\"ts\":0,\"args\":{\"name\":",
            MARKS_PID, i);
        out_json_text(o->out, text_of(tracks[i]));
        fputs("}}", o->out);
    }
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

    put_head(t->columns, out);
    r = chrome_put_trace(&o, t, s, NULL);
    put_marks(&o, t, s);
    fputs("\n]}\n", out);
    return r;
}
