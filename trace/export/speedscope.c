/* SPDX-License-Identifier: Apache-2.0 */
/* https://www.speedscope.app/file-format-schema.json: one evented profile for each track. */
#include "trace/export/formats.h"
#include "trace/export/labels.h"
#include "trace/export/numbering.h"
#include "trace/export/playback.h"
#include "trace/export/text_out.h"

#include <errno.h>
#include <inttypes.h>

struct profiles {
    FILE *out;
    const struct columns *c;
    int64_t zero;  /* what times are relative to: a double does not hold a stamp since the epoch */
    int64_t start; /* of all profiles */
    struct numbering frames;
    bool any_profile, any_event; /* event: of the profile */
    int64_t last;
};

static int begin_profile(void *arg, uint64_t track)
{
    struct profiles *p = arg;
    bool overlapping = columns_get(p->c, COL_track_kind, track) == TRACK_OVERFLOW;
    _cleanup_(freep) char *label = label_track(p->c, track);

    if (!label)
        return -ENOMEM;
    fprintf(p->out, "%s\n{\"type\":\"evented\",\"name\":\"", p->any_profile ? "," : "");
    out_json_part(p->out, text_of(label));
    fprintf(p->out, "%s\",\"unit\":\"nanoseconds\",\"startValue\":%" PRId64 ",\"events\":[",
            overlapping ? " (overlapping)" : "", p->start);
    p->any_profile = true;
    p->any_event = false;
    return 0;
}

static int end_profile(void *arg, uint64_t track)
{
    struct profiles *p = arg;

    fprintf(p->out, "\n],\"endValue\":%" PRId64 "}", p->last);
    return 0;
}

static void put_event(struct profiles *p, const char *type, uint32_t frame, int64_t at)
{
    p->last = sub_ns(at, p->zero);
    fprintf(p->out, "%s\n{\"type\":\"%s\",\"frame\":%" PRIu32 ",\"at\":%" PRId64 "}", p->any_event ? "," : "",
            type, frame, p->last);
    p->any_event = true;
}

static int begin(void *arg, struct playing *slice, const struct playing *around)
{
    struct profiles *p = arg;

    slice->node = numbering_of(&p->frames, columns_get(p->c, COL_slice_name, slice->row));
    put_event(arg, "O", slice->node, slice->begin);
    return 0;
}

static int end(void *arg, const struct playing *slice)
{
    put_event(arg, "C", slice->node, slice->end);
    return 0;
}

static int put_frames(const struct profiles *p)
{
    _cleanup_(freep) int64_t *names = numbering_list(&p->frames);

    for (uint32_t i = 0; names && i < p->frames.n; i++) {
        fprintf(p->out, "%s\n{\"name\":", i ? "," : "");
        out_json_text(p->out, columns_text(p->c, names[i]));
        putc('}', p->out);
    }
    return names ? 0 : -ENOMEM;
}

static int put_all(struct profiles *p, const struct selection *s)
{
    struct playback play = {.selection = s,
                            .cut = true,
                            .track_begin = begin_profile,
                            .track_end = end_profile,
                            .begin = begin,
                            .end = end,
                            .arg = p};
    int r;

    fputs("{\"$schema\":\"https://www.speedscope.app/"
          "file-format-schema.json\",\"exporter\":\"profd\",\"profiles\":[",
          p->out);
    r = playback_run(&play);
    if (r < 0)
        return r;
    fputs("\n],\"shared\":{\"frames\":[", p->out);
    r = put_frames(p);
    fputs("\n]}}\n", p->out);
    return r;
}

int export_speedscope(const struct export_trace *t, const struct selection *s, FILE *out)
{
    struct profiles p = {.out = out, .c = t->columns};
    int r = numbering_init(&p.frames, t->columns);

    p.zero = MAX(columns_get(t->columns, COL_slice_ts, 0), -INT64_MAX);
    p.start = sub_ns(MAX(s->from, p.zero), p.zero);
    if (r == 0)
        r = put_all(&p, s);
    numbering_done(&p.frames);
    return r;
}
